//! What a user of a chat or messaging service says and is told: protocols with a login as state machines
//! over bytes.
//!
//! Pure: no socket and no clock. A caller opens connections and moves bytes; a [`Session`] says what to
//! write and what happened. One that is online and idle holds no buffer: 100,000 fit in one process.

#![forbid(unsafe_code)]

mod line;
mod mqtt;
mod pieces;
mod session;
mod settings;
#[cfg(test)]
mod testing;
mod text;
mod xmpp;

use std::sync::Arc;

pub use session::{
    Act, Cause, Doing, Event, Fault, NotDone, Protocol, Reason, Session, Token, UserId,
};
pub use settings::{BadSettings, Mechanism, Pattern, Quality, Settings, Tls};
pub use text::LONGEST;

/// A kind of protocol.
pub struct Kind {
    /// Its name, as the scheme of an address has it.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub says: &'static str,
    /// The port it has where an address names none.
    pub port: u16,
    /// What its users can do.
    pub acts: &'static [Doing],
    /// The protocol as these settings want it.
    pub protocol: fn(&Settings) -> Result<Arc<dyn Protocol>, BadSettings>,
}

/// Every protocol. To add one: a file here, a line here.
pub static PROTOCOLS: &[&Kind] = &[&line::KIND, &mqtt::KIND, &xmpp::KIND];

/// The protocol of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    PROTOCOLS.iter().copied().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_protocol_can_send_messages() {
        let mut names: Vec<_> = PROTOCOLS.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROTOCOLS.len());
        assert!(PROTOCOLS.iter().all(|kind| kind.acts.contains(&Doing::Message)));
        assert!(kind("line").is_some() && kind("lines").is_none());
    }

    #[test]
    fn a_session_that_is_online_and_idle_is_small() {
        let users = Settings::default();
        for kind in PROTOCOLS {
            let session = (kind.protocol)(&users).unwrap().session(UserId(7));
            let bytes = size_of_val(&*session);
            assert!(bytes <= 96, "{}: {bytes} bytes", kind.name);
        }
    }
}
