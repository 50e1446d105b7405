//! TLS for the engine's connections, over rustls: records in, plain text out, and back.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
};

/// How to speak TLS to a target.
#[derive(Clone)]
pub struct Tls {
    /// Versions, ciphers, trust.
    pub config: Arc<ClientConfig>,
    /// The name it is called by.
    pub name: ServerName<'static>,
}

/// A configuration that trusts any certificate: a load test asks how fast, not who.
pub fn client_config() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth())
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
        without_null_or(verify_tls12_signature(message, certificate, signature, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
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
    found: Result<HandshakeSignatureValid, rustls::Error>,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    match &found {
        Err(rustls::Error::InvalidCertificate(
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

/// Whether the peer has said that no more comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    Talks,
    Closed,
}

/// One connection's TLS.
pub(crate) struct Session(Box<ClientConnection>);

impl Session {
    pub(crate) fn new(tls: &Tls) -> Result<Self, rustls::Error> {
        let connection = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone())?;
        Ok(Self(Box::new(connection)))
    }

    /// Whether requests may be written.
    pub(crate) fn is_ready(&self) -> bool {
        !self.0.is_handshaking()
    }

    /// Takes plain text to send.
    pub(crate) fn write(&mut self, plain: &[u8]) -> usize {
        self.0.writer().write(plain).unwrap_or(0)
    }

    /// Writes records until there are none left or the socket takes no more.
    pub(crate) fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while self.0.wants_write() {
            match self.0.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes bytes off the wire; gives plain text to `take`. Says whether the peer said farewell: it may
    /// wait for ours before it closes the connection, which is then the end of an answer without length.
    pub(crate) fn read(
        &mut self,
        mut wire: &[u8],
        scratch: &mut [u8],
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<Peer, rustls::Error> {
        let mut peer = Peer::Talks;
        while !wire.is_empty() {
            if self.0.read_tls(&mut wire).is_err() {
                return Err(rustls::Error::General(
                    "the peer sent more than a record holds".into(),
                ));
            }
            if self.0.process_new_packets()?.peer_has_closed() {
                peer = Peer::Closed;
            }
            while let Ok(bytes) = self.0.reader().read(scratch) {
                if bytes == 0 || !take(&scratch[..bytes]) {
                    break;
                }
            }
            // Nothing that follows a farewell is read.
            if peer == Peer::Closed {
                break;
            }
        }
        Ok(peer)
    }
}

#[cfg(test)]
mod tests {
    use rustls::Error;

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
