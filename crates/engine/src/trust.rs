//! Whose certificate is taken: of anybody, or of whom this host or a file trusts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Whom to trust.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Trust {
    /// Anybody: the name and the certificate are not checked.
    Anybody,
    /// Whom this host trusts: `SSL_CERT_FILE`, or the file of its distribution.
    Host,
    /// The certificates of this PEM file: authorities, or the server's own.
    File(PathBuf),
}

/// Why nobody could be trusted.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadTrust {
    /// A file without certificates.
    #[error("{}: no certificate: {wrong}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What it is.
        wrong: String,
    },
    /// A host without a file of them.
    #[error(
        "this host has no certificates to check with ({}): install ca-certificates, give a file with --cacert, or \
         leave the check out with --insecure", .0
    )]
    NoneHere(String),
    /// Refused by the library.
    #[error("{0}")]
    Config(String),
}

/// Where distributions keep what they trust, in one file.
/// Source: `crypto/x509/root_linux.go` of Go: Debian, Fedora, openSUSE, OpenELEC, CentOS 7, Alpine.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A configuration of TLS 1.2 and 1.3 that trusts as it is told.
pub fn client_config(trust: &Trust) -> Result<ClientConfig, BadTrust> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(Trusting(Arc::clone(&provider))),
        Trust::Host => Arc::new(Checking::new(&bundle()?, &provider)?),
        Trust::File(file) => Arc::new(Checking::new(file, &provider)?),
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| BadTrust::Config(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn bundle() -> Result<PathBuf, BadTrust> {
    // As OpenSSL and curl have it.
    if let Some(file) = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty()) {
        return Ok(file.into());
    }
    let there = BUNDLES.iter().map(Path::new).find(|file| file.is_file());
    there.map(Path::to_owned).ok_or_else(|| BadTrust::NoneHere(BUNDLES.join(", ")))
}

/// Chain, name and dates are checked; a certificate that stands in the file itself needs no chain.
#[derive(Debug)]
struct Checking {
    chain: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Checking {
    fn new(file: &Path, provider: &Arc<CryptoProvider>) -> Result<Self, BadTrust> {
        let bad = |wrong: String| BadTrust::File { file: file.to_owned(), wrong };
        let given: Vec<_> = CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|error| bad(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        // A host's file may hold one that this library does not read; it is then nobody's authority.
        let (taken, _) = roots.add_parsable_certificates(given.iter().cloned());
        if taken == 0 {
            return Err(bad("expected PEM, as in -----BEGIN CERTIFICATE-----".into()));
        }
        let chain =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| bad(error.to_string()))?;
        Ok(Self { chain, given })
    }
}

impl ServerCertVerifier for Checking {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match found {
            // `openssl req -x509` makes an authority that is its own server: webpki refuses it as a server's, and
            // OpenSSL takes what it was given. Its dates are not looked at: whoever gave it meant this one.
            Err(Error::InvalidCertificate(
                CertificateError::Other(_) | CertificateError::UnknownIssuer,
            )) if self.given.iter().any(|given| given == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            found => found,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

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
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        without_null_or(verify_tls12_signature(message, certificate, signature, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        without_null_or(verify_tls13_signature(message, certificate, signature, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// `rsaEncryption` without the NULL that RFC 3279, section 2.3.1, asks for after it: certificates that OTP 29
/// makes for tests (`public_key:pkix_test_data/1`) have such keys.
const RSA_WITHOUT_NULL: [u8; 11] =
    [0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

/// What was found of a signature; one by a key that is written so is taken unchecked, since the library does
/// not check it.
fn without_null_or(
    found: Result<HandshakeSignatureValid, Error>,
) -> Result<HandshakeSignatureValid, Error> {
    match &found {
        Err(Error::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
                public_key_algorithm_id,
                ..
            },
        )) if *public_key_algorithm_id == RSA_WITHOUT_NULL => {
            Ok(HandshakeSignatureValid::assertion())
        }
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(public_key: &[u8]) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
                signature_algorithm_id: vec![6, 1, 1],
                public_key_algorithm_id: public_key.to_vec(),
            },
        ))
    }

    #[test]
    fn of_what_can_not_be_checked_only_a_key_without_its_null_is_taken() {
        assert!(without_null_or(refused(&RSA_WITHOUT_NULL)).is_ok());
        // With it: then the signature is of another kind than the key.
        let with_null = [&RSA_WITHOUT_NULL[..], &[5, 0]].concat();
        assert!(without_null_or(refused(&with_null)).is_err());
        let bad = Error::InvalidCertificate(CertificateError::BadSignature);
        assert!(without_null_or(Err(bad)).is_err());
    }
}
