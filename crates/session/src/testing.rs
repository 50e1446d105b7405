//! What tests of protocols have in common: a session, and what it told so far.

use std::sync::Arc;

use crate::{Event, Fault, Protocol, Session, Settings, UserId, kind};

pub(crate) struct Told {
    pub(crate) session: Box<dyn Session>,
    pub(crate) out: Vec<u8>,
    pub(crate) events: Vec<Event>,
}

impl Told {
    pub(crate) fn of(session: Box<dyn Session>) -> Self {
        Self { session, out: Vec::new(), events: Vec::new() }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.session.received(bytes, &mut self.out, &mut self.events)
    }

    /// What was to be written since the last call.
    pub(crate) fn taken(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

pub(crate) fn protocol(name: &str, settings: &Settings) -> Arc<dyn Protocol> {
    (kind(name).unwrap().protocol)(settings).unwrap()
}

/// User 7, whose login the server answers so; nothing told so far.
pub(crate) fn online(name: &str, settings: &Settings, answers: &[&[u8]]) -> Told {
    let mut told = Told::of(protocol(name, settings).session(UserId(7)));
    told.session.connected(&mut told.out);
    for answer in answers {
        told.feed(answer).unwrap();
    }
    assert_eq!(told.events.pop(), Some(Event::Online));
    told.taken();
    told
}
