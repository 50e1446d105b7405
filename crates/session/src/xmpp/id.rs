//! Identifiers of stanzas.

use std::fmt;

use crate::session::{Token, UserId};
use crate::text;

/// The identifier of a stanza: what it is, whose it is where others are told too, and its token.
pub(super) struct Id {
    kind: char,
    user: Option<UserId>,
    token: Token,
}

impl Id {
    pub(super) const MESSAGE: char = 'm';
    pub(super) const PING: char = 'i';
    pub(super) const PRESENCE: char = 'p';

    pub(super) fn message(token: Token) -> Self {
        Self { kind: Self::MESSAGE, user: None, token }
    }

    pub(super) fn ping(token: Token) -> Self {
        Self { kind: Self::PING, user: None, token }
    }

    pub(super) fn presence(user: UserId, token: Token) -> Self {
        Self { kind: Self::PRESENCE, user: Some(user), token }
    }

    pub(super) fn token_of(id: &str, kind: char) -> Option<Token> {
        text::from_hex(id.strip_prefix(kind)?.as_bytes())
    }

    pub(super) fn user_and_token_of(id: &str) -> Option<(UserId, Token)> {
        let (token, user) = id.strip_prefix(Self::PRESENCE)?.split_once('-')?;
        Some((UserId(user.parse().ok()?), text::from_hex(token.as_bytes())?))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}", self.kind, self.token.0)?;
        self.user.map_or(Ok(()), |user| write!(f, "-{}", user.0))
    }
}
