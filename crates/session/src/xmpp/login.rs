//! TLS, the mechanism, and the proof that the password is known.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::scram::{BadScram, Hash, Scram};
use super::xml::{Element, Then};
use super::{Rest, SASL, State, TLS, put};
use crate::session::{Cause, Event, Fault, Reason};
use crate::settings::{Mechanism, Tls};

/// Those that we have, best first.
const MECHANISMS: &[(Mechanism, &str)] = &[
    (Mechanism::ScramSha256, "SCRAM-SHA-256"),
    (Mechanism::ScramSha1, "SCRAM-SHA-1"),
    (Mechanism::Plain, "PLAIN"),
];

impl Rest {
    /// TLS first if it is asked for, then the best mechanism that both have.
    pub(super) fn log_in(
        &mut self,
        features: &Element,
        is_secured: bool,
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Then {
        let settings = &self.xmpp.settings;
        let mut refuse = |said: String| {
            events.push(Event::Refused(Reason { cause: Cause::NothingInCommon, said }));
            Then::Nothing
        };
        let starttls = features.child("starttls", TLS);
        match settings.tls {
            Tls::Required if !is_secured && starttls.is_none() => {
                self.state = State::Over;
                return refuse("the server offers no TLS".to_owned());
            }
            Tls::Required if !is_secured => {
                self.state = State::Proceed;
                put(out, format_args!("<starttls xmlns='{TLS}'/>"));
                return Then::More;
            }
            Tls::Never if starttls.is_some_and(|tls| tls.child("required", TLS).is_some()) => {
                self.state = State::Over;
                return refuse("the server requires TLS".to_owned());
            }
            _ => {}
        }
        let offered: Vec<_> = features
            .child("mechanisms", SASL)
            .map(|all| all.children.iter().map(|one| one.text.trim()).collect())
            .unwrap_or_default();
        let common = MECHANISMS.iter().find(|(mechanism, name)| {
            settings.mechanism.is_none_or(|wanted| wanted == *mechanism) && offered.contains(name)
        });
        let Some((mechanism, name)) = common else {
            self.state = State::Over;
            let ours: Vec<_> = MECHANISMS
                .iter()
                .filter(|(of, _)| settings.mechanism.is_none_or(|wanted| wanted == *of))
                .map(|(_, name)| *name)
                .collect();
            let (offered, ours) = (offered.join(" "), ours.join(" "));
            return refuse(format!("the server offers `{offered}`, the user has `{ours}`"));
        };
        let user = settings.users.of(self.user);
        let scram = |hash| {
            let (scram, first) = Scram::begin(hash, &user, self.nonce());
            (Some(Box::new(scram)), first)
        };
        let (scram, first) = match mechanism {
            Mechanism::Plain => (None, format!("\0{user}\0{}", settings.passwords.of(self.user))),
            Mechanism::ScramSha1 => scram(Hash::Sha1),
            Mechanism::ScramSha256 => scram(Hash::Sha256),
        };
        let first = STANDARD.encode(first);
        put(out, format_args!("<auth xmlns='{SASL}' mechanism='{name}'>{first}</auth>"));
        self.state = State::Authentication(scram);
        Then::More
    }

    /// Letters and digits of the seed: another for each user, the same in each run.
    fn nonce(&self) -> String {
        // The odd constant keeps neighbours apart.
        let user = u64::from(self.user.0) + 1;
        let seed = self.xmpp.settings.seed ^ user.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = fastrand::Rng::with_seed(seed);
        (0..24).map(|_| random.alphanumeric()).collect()
    }
}

/// The answer to a challenge: the proof, or nothing to the signature that comes as one.
pub(super) fn challenged(scram: &mut Scram, text: &str, password: &str) -> Result<String, Fault> {
    let challenge = decoded(text)?;
    if scram.is_proven() {
        return scram.verify(&challenge).map(|()| String::new()).map_err(bad_scram);
    }
    scram.answer(&challenge, password).map(|proof| STANDARD.encode(proof)).map_err(bad_scram)
}

/// A signature may come with success, or have come before.
pub(super) fn succeeded(scram: &mut Scram, text: &str) -> Result<(), Fault> {
    let text = text.trim();
    if scram.is_verified() && (text.is_empty() || text == "=") {
        return Ok(());
    }
    scram.verify(&decoded(text)?).map_err(bad_scram)
}

fn decoded(text: &str) -> Result<String, Fault> {
    let bytes = STANDARD.decode(text.trim()).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        Fault::malformed("XMPP", "SASL data that is not base64 of a text", text.as_bytes())
    })
}

fn bad_scram(bad: BadScram) -> Fault {
    Fault::Unexpected { found: bad.to_string(), expected: "SCRAM of this user's password" }
}
