//! Who the users are, and how they log in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::session::UserId;

/// What all users of a run have in common.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Settings {
    /// Their names.
    pub users: Pattern,
    /// Their passwords.
    pub passwords: Pattern,
    /// The server's own name where the protocol has one: XMPP's domain.
    pub domain: String,
    /// How messages are sent where the protocol has a choice: MQTT's quality of service.
    pub quality: Quality,
    /// How to log in, where the protocol has a choice. None: the best that the server offers.
    pub mechanism: Option<Mechanism>,
    /// Whether to ask for TLS inside of the protocol.
    pub tls: Tls,
    /// Of what is random: two runs of the same seed send the same bytes.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        let pattern = |text: &str| text.parse().expect("has {n} once, and letters");
        Self {
            users: pattern("user{n}"),
            passwords: pattern("secret{n}"),
            domain: "localhost".to_owned(),
            quality: Quality::AtMostOnce,
            mechanism: None,
            tls: Tls::Never,
            seed: 1,
        }
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Quality {
    /// Without acknowledgement: MQTT's QoS 0.
    #[default]
    AtMostOnce,
    /// Acknowledged: MQTT's QoS 1.
    AtLeastOnce,
}

/// How a user proves to know the password: SASL's mechanisms.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Mechanism {
    /// As it is. Source: RFC 4616.
    Plain,
    /// Source: RFC 5802.
    ScramSha1,
    /// Source: RFC 7677.
    ScramSha256,
}

/// Whether TLS is begun inside of the protocol (XMPP's STARTTLS).
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Tls {
    /// Never: a server that requires it refuses.
    #[default]
    Never,
    /// Always: a server that does not offer it is refused.
    Required,
}

/// A name or a password by number: `user{n}`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    before: String,
    // None: the same for all.
    after: Option<String>,
}

/// Settings that cannot be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadSettings {
    /// A protocol of a linerate that knows more.
    #[error("`{0}` is not supported")]
    NoProtocol(String),
    /// Names that would all be the same.
    #[error(
        "`{0}` is the same for every user: write {{n}} where their number goes, as in user{{n}}"
    )]
    NoNumber(String),
    /// A number in two places.
    #[error("`{0}` has {{n}} twice: write it once")]
    TwoNumbers(String),
    /// What some server would write in another way.
    #[error(
        "`{written}` has `{found}` in it, which {what} may not: write printable ASCII without it"
    )]
    Character {
        /// As it stood.
        written: String,
        /// The character.
        found: char,
        /// What it is to be.
        what: &'static str,
    },
    /// Nothing, or more than protocols allow.
    #[error("`{written}` has {length} bytes: {what} has 1 to {most}")]
    Length {
        /// As it stood.
        written: String,
        /// How long that is.
        length: usize,
        /// What it is to be.
        what: &'static str,
        /// The most.
        most: usize,
    },
}

impl Pattern {
    /// Of this user.
    pub fn of(&self, user: UserId) -> String {
        self.named(user).to_string()
    }

    /// The same, for writing it somewhere.
    pub(crate) fn named(&self, user: UserId) -> impl fmt::Display + '_ {
        Named { pattern: self, user }
    }

    /// Fit for a password.
    pub(crate) fn check(&self, what: &'static str, most: usize) -> Result<(), BadSettings> {
        check(&self.of(UserId(u32::MAX)), self.to_string(), what, most, |_| false)
    }

    /// Fit for a name: different for each user, without what `bad` is.
    pub(crate) fn check_name(
        &self,
        what: &'static str,
        most: usize,
        bad: fn(char) -> bool,
    ) -> Result<(), BadSettings> {
        if self.after.is_none() {
            return Err(BadSettings::NoNumber(self.to_string()));
        }
        check(&self.of(UserId(u32::MAX)), self.to_string(), what, most, bad)
    }
}

/// Refuses a text of another length, or with what `bad` is.
pub(crate) fn check(
    text: &str,
    written: String,
    what: &'static str,
    most: usize,
    bad: fn(char) -> bool,
) -> Result<(), BadSettings> {
    if text.is_empty() || text.len() > most {
        return Err(BadSettings::Length { written, length: text.len(), what, most });
    }
    match text.chars().find(|found| bad(*found)) {
        Some(found) => Err(BadSettings::Character { written, found, what }),
        None => Ok(()),
    }
}

impl FromStr for Pattern {
    type Err = BadSettings;

    fn from_str(text: &str) -> Result<Self, BadSettings> {
        // Beyond ASCII a server may store another form of a name or password (RFC 8265), and then two users
        // could be one.
        if let Some(found) = text.chars().find(|c| !matches!(c, ' '..='~')) {
            let what = "a name or password";
            return Err(BadSettings::Character { written: text.to_owned(), found, what });
        }
        let mut parts = text.split("{n}");
        let before = parts.next().unwrap_or_default().to_owned();
        let after = parts.next().map(str::to_owned);
        match parts.next() {
            Some(_) => Err(BadSettings::TwoNumbers(text.to_owned())),
            None => Ok(Self { before, after }),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = BadSettings;

    fn try_from(text: String) -> Result<Self, BadSettings> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

struct Named<'a> {
    pattern: &'a Pattern,
    user: UserId,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern.before)?;
        match &self.pattern.after {
            Some(after) => write!(f, "{}{after}", self.user.0),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.before)?;
        match &self.after {
            Some(after) => write!(f, "{{n}}{after}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_users_number_where_it_says() {
        let pattern: Pattern = "u{n}@x".parse().unwrap();
        assert_eq!(pattern.of(UserId(42)), "u42@x");
        assert_eq!(pattern.to_string(), "u{n}@x");
        let same: Pattern = "secret".parse().unwrap();
        assert_eq!((same.of(UserId(1)), same.of(UserId(2))), ("secret".into(), "secret".into()));
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_what_to_write() {
        let said = |text: &str| text.parse::<Pattern>().unwrap_err().to_string();
        assert_eq!(said("{n}{n}"), "`{n}{n}` has {n} twice: write it once");
        assert_eq!(
            said("us\u{e9}r{n}"),
            "`us\u{e9}r{n}` has `\u{e9}` in it, which a name or password may not: write printable ASCII without it"
        );
        let names = |text: &str| {
            text.parse::<Pattern>()
                .unwrap()
                .check_name("a name", 13, |c| c == ' ')
                .map_err(|e| e.to_string())
        };
        assert_eq!(names("u{n}"), Ok(()));
        assert_eq!(
            names("user"),
            Err("`user` is the same for every user: write {n} where their number goes, as in user{n}".into())
        );
        assert!(names("a b{n}").unwrap_err().contains("has ` ` in it"));
        assert_eq!(names("user{n}"), Err("`user{n}` has 14 bytes: a name has 1 to 13".into()));
    }
}
