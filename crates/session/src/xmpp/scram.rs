//! SCRAM: a user proves to know the password, and so does the server.
//!
//! Source: RFC 5802, with SHA-256 RFC 7677; without channel binding.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pbkdf2::hmac::digest::Digest;
use pbkdf2::hmac::{EagerHash, Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

/// Rounds that are computed for a server at most: each login is computed by the thread that makes the load.
///
/// Chosen: 24 times the least of RFC 7677 (4,096), which servers commonly have.
const MOST_ROUNDS: u32 = 100_000;

/// The hash of a mechanism.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Hash {
    Sha1,
    Sha256,
}

/// One login.
pub(crate) struct Scram {
    hash: Hash,
    // What was sent, without its header.
    first: String,
    nonce: String,
    // What the server is to prove; empty until the user has.
    signature: Vec<u8>,
    is_verified: bool,
}

/// What a server says that is not SCRAM, or not of this password.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum BadScram {
    #[error("a first message without nonce, salt or rounds")]
    First,
    #[error("a nonce that does not begin with the user's")]
    Nonce,
    #[error("more rounds than 100000")]
    Rounds,
    #[error("a last message without signature")]
    Last,
    #[error("a signature that is not made with this password")]
    Signature,
}

impl Scram {
    /// A login of this user, and its first message.
    pub(crate) fn begin(hash: Hash, name: &str, nonce: String) -> (Self, String) {
        let name = name.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={name},r={nonce}");
        let message = format!("n,,{first}");
        (Self { hash, first, nonce, signature: Vec::new(), is_verified: false }, message)
    }

    /// The proof that the server's first message asks for.
    pub(crate) fn answer(&mut self, server: &str, password: &str) -> Result<String, BadScram> {
        let mut parts = server.split(',');
        let mut part = |name| parts.next().and_then(|part| part.strip_prefix(name));
        let nonce = part("r=").ok_or(BadScram::First)?;
        let salt = part("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or(BadScram::First)?;
        let rounds: u32 = part("i=").and_then(|i| i.parse().ok()).ok_or(BadScram::First)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(BadScram::Nonce);
        }
        if rounds == 0 {
            return Err(BadScram::First);
        }
        if rounds > MOST_ROUNDS {
            return Err(BadScram::Rounds);
        }
        // biws: the header `n,,` in base64.
        let last = format!("c=biws,r={nonce}");
        let signed = format!("{},{server},{last}", self.first);
        let prove = match self.hash {
            Hash::Sha1 => prove::<Sha1>,
            Hash::Sha256 => prove::<Sha256>,
        };
        let (proof, signature) = prove(password, &salt, rounds, &signed);
        self.signature = signature;
        Ok(format!("{last},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server's last message is that of one who knows the password.
    pub(crate) fn verify(&mut self, server: &str) -> Result<(), BadScram> {
        let signature = server.split(',').next().and_then(|part| part.strip_prefix("v="));
        match signature.and_then(|signature| STANDARD.decode(signature).ok()) {
            None => Err(BadScram::Last),
            Some(of_server) if self.is_proven() && of_server == self.signature => {
                self.is_verified = true;
                Ok(())
            }
            Some(_) => Err(BadScram::Signature),
        }
    }

    /// Whether the user has sent the proof.
    pub(crate) fn is_proven(&self) -> bool {
        !self.signature.is_empty()
    }

    /// Whether the server has, too.
    pub(crate) fn is_verified(&self) -> bool {
        self.is_verified
    }

    #[cfg(test)]
    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Memory that is held.
    pub(crate) fn held(&self) -> usize {
        size_of::<Self>()
            + self.first.capacity()
            + self.nonce.capacity()
            + self.signature.capacity()
    }
}

/// The client's proof and the server's signature.
///
/// Source: RFC 5802, section 3. SaltedPassword = PBKDF2; ClientProof = ClientKey XOR
/// HMAC(H(ClientKey), AuthMessage); ServerSignature = HMAC(ServerKey, AuthMessage).
fn prove<D: EagerHash>(
    password: &str,
    salt: &[u8],
    rounds: u32,
    signed: &str,
) -> (Vec<u8>, Vec<u8>) {
    let mut salted = vec![0; <D as Digest>::output_size()];
    pbkdf2::pbkdf2_hmac::<D>(password.as_bytes(), salt, rounds, &mut salted);
    let client_key = hmac::<D>(&salted, b"Client Key");
    let client_signature = hmac::<D>(&D::digest(&client_key), signed.as_bytes());
    let proof = client_key.iter().zip(&client_signature).map(|(key, sign)| key ^ sign).collect();
    let server_key = hmac::<D>(&salted, b"Server Key");
    (proof, hmac::<D>(&server_key, signed.as_bytes()))
}

fn hmac<D: EagerHash>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<D>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha_1_is_that_of_rfc_5802_section_5() {
        let (mut scram, first) =
            Scram::begin(Hash::Sha1, "user", "fyko+d2lbbFgONRv9qkxdawL".to_owned());
        assert_eq!(first, "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
        let server = "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
        assert_eq!(
            scram.answer(server, "pencil").unwrap(),
            "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
        );
        assert_eq!(scram.verify("v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Ok(()));
        assert_eq!(scram.verify("v=rmF9pqV8S7suAoZWja4dJRkFsKA="), Err(BadScram::Signature));
    }

    #[test]
    fn sha_256_is_that_of_rfc_7677_section_3() {
        let (mut scram, first) =
            Scram::begin(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(first, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        assert_eq!(
            scram.answer(server, "pencil").unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(scram.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
    }

    #[test]
    fn a_name_has_its_comma_and_its_equals_sign_escaped() {
        let (_, first) = Scram::begin(Hash::Sha1, "a=b,c", "n".to_owned());
        assert_eq!(first, "n,,n=a=3Db=2Cc,r=n");
    }

    #[test]
    fn what_is_not_scram_or_would_take_too_long_is_refused() {
        for (server, bad) in [
            ("", BadScram::First),
            ("r=abc", BadScram::First),
            ("m=1,r=abcd,s=QSXC,i=4096", BadScram::First),
            ("r=abcd,s=*,i=4096", BadScram::First),
            ("r=abcd,s=QSXC,i=0", BadScram::First),
            ("r=abcd,s=QSXC,i=-1", BadScram::First),
            ("r=xyz,s=QSXC,i=4096", BadScram::Nonce),
            ("r=abc,s=QSXC,i=4096", BadScram::Nonce),
            ("r=abcd,s=QSXC,i=4000000000", BadScram::Rounds),
        ] {
            let (mut scram, _) = Scram::begin(Hash::Sha1, "user", "abc".to_owned());
            assert_eq!(scram.answer(server, "secret"), Err(bad), "{server}");
        }
        let (mut scram, _) = Scram::begin(Hash::Sha1, "user", "abc".to_owned());
        assert_eq!(scram.verify("v="), Err(BadScram::Signature));
        assert_eq!(scram.verify("e=other-error"), Err(BadScram::Last));
        assert!(BadScram::Rounds.to_string().contains(&MOST_ROUNDS.to_string()));
    }
}
