//! TLS for distribution (`-proto_dist inet_tls`), over rustls.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::deadline::Until;
use crate::place::TlsFiles;

/// Shakes hands over a connected socket. The error is a reason in words.
pub(crate) fn begin(
    socket: &mut Until<'_>,
    files: &TlsFiles,
    host: &str,
) -> Result<ClientConnection, String> {
    let config = Arc::new(config(files)?);
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("`{host}` is not a name that TLS can ask for"))?;
    let mut session = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
    while session.is_handshaking() {
        session.complete_io(socket).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                "no answer; leave --tls out if the node does not use it".to_owned()
            }
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => {
                "the node closed the connection; leave --tls out if it does not use TLS, or write \
                 the certificate that it asks for as --tls-cert FILE"
                    .to_owned()
            }
            _ => format!("{error}; check --tls-ca, --tls-cert and --tls-key"),
        })?;
    }
    Ok(session)
}

fn config(files: &TlsFiles) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match &files.ca {
        None => Arc::new(Trusting(Arc::clone(&provider))),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| format!("{}: {error}", file.display()))?
        }
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let Some(cert) = &files.cert else { return Ok(builder.with_no_client_auth()) };
    let key_file = files.key.as_ref().unwrap_or(cert);
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| format!("no private key in {}: {error}", key_file.display()))?;
    builder
        .with_client_auth_cert(certificates(cert)?, key)
        .map_err(|error| format!("{} and {}: {error}", cert.display(), key_file.display()))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unread = |error| format!("no certificate in {}: {error}", file.display());
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(unread);
    match found {
        Ok(found) if found.is_empty() => Err(format!("no certificate in {}", file.display())),
        found => found,
    }
}

/// Any certificate: whoever has the cookie is let in, as between nodes without `verify_peer`.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
