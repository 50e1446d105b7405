//! MQTT 3.1.1: each user has a topic, `linerate/NAME`, which it subscribes to and others publish to.
//!
//! Source: MQTT Version 3.1.1, OASIS Standard, 2014. Sections are its.

mod packet;

use std::sync::Arc;

use linerate_model::Bytes;

use crate::pieces::Pieces;
use crate::session::{
    Act, Cause, Doing, Event, Fault, NotDone, Protocol, Reason, Session, Token, UserId,
};
use crate::settings::{Quality, Settings};
use crate::{Kind, text};
use packet::Packet;

pub(crate) static KIND: Kind = Kind {
    name: "mqtt",
    says: "MQTT 3.1.1: each user subscribes to a topic of its own",
    port: 1883,
    acts: &[Doing::Message, Doing::Ping],
    protocol: |settings| {
        // A client identifier of up to 23 bytes every server takes (3.1.3.1); those of today take more.
        settings.users.check_name("a name of MQTT", 64, |c| matches!(c, '+' | '#' | '/' | ' '))?;
        settings.passwords.check("a password", 1024)?;
        Ok(Arc::new(Mqtt { settings: settings.clone() }))
    },
};

// Chosen: far more than a user has under way; their list is searched.
const MOST_OUT: usize = 256;
// Source: 2.3.1, a packet identifier is not 0; here it stands for a PINGREQ, which has none.
const PING: u16 = 0;
// Ours: the only subscription.
const SUBSCRIPTION: u16 = 1;

struct Mqtt {
    settings: Settings,
}

impl Mqtt {
    fn topic(&self, user: UserId) -> String {
        format!("linerate/{}", self.settings.users.named(user))
    }

    fn quality(&self) -> u8 {
        match self.settings.quality {
            Quality::AtMostOnce => 0,
            Quality::AtLeastOnce => 1,
        }
    }
}

impl Protocol for Mqtt {
    fn session(self: Arc<Self>, user: UserId) -> Box<dyn Session> {
        Box::new(MqttSession {
            pieces: Pieces::default(),
            rest: Rest {
                mqtt: self,
                user,
                state: State::Connecting,
                last: SUBSCRIPTION,
                under_way: Vec::new(),
            },
        })
    }
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
    Connecting,
    Subscribing,
    Online,
    Over,
}

struct MqttSession {
    pieces: Pieces,
    rest: Rest,
}

struct Rest {
    mqtt: Arc<Mqtt>,
    user: UserId,
    state: State,
    last: u16,
    // What is not answered yet, oldest first.
    under_way: Vec<(u16, Token)>,
}

impl Session for MqttSession {
    fn connected(&mut self, out: &mut Vec<u8>) {
        let settings = &self.rest.mqtt.settings;
        let name = settings.users.of(self.rest.user);
        packet::connect(&name, &settings.passwords.of(self.rest.user), out);
    }

    fn received(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        let Self { pieces, rest } = self;
        pieces.feed(bytes, "a packet", packet::LONGEST, |bytes| {
            let mut used = 0;
            while let Some((packet, length)) = packet::read(&bytes[used..])? {
                used += length;
                rest.on_packet(packet, out, events)?;
            }
            Ok(used)
        })
    }

    fn act(&mut self, act: Act, token: Token, out: &mut Vec<u8>) -> Result<(), NotDone> {
        let rest = &mut self.rest;
        if rest.state != State::Online {
            return Err(NotDone::NotOnline);
        }
        match act {
            Act::Message { to, size } => {
                let topic = rest.mqtt.topic(to);
                let id = match rest.mqtt.settings.quality {
                    Quality::AtMostOnce => None,
                    Quality::AtLeastOnce => Some(rest.begin(token)?),
                };
                packet::publish(&topic, id, |out| text::write(token, size, out), out);
            }
            Act::Ping if rest.under_way.len() == MOST_OUT => return Err(NotDone::TooMany),
            Act::Ping => {
                rest.under_way.push((PING, token));
                out.extend_from_slice(packet::PINGREQ);
            }
            Act::Presence => return Err(NotDone::NoSuchAct),
        }
        Ok(())
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if matches!(self.rest.state, State::Subscribing | State::Online) {
            out.extend_from_slice(packet::DISCONNECT);
        }
        self.rest.state = State::Over;
    }

    fn held(&self) -> Bytes {
        let under_way = self.rest.under_way.capacity() * size_of::<(u16, Token)>();
        Bytes((self.pieces.held() + under_way) as u64)
    }
}

impl Rest {
    fn on_packet(
        &mut self,
        packet: Packet<'_>,
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        let expected = match (self.state, packet) {
            (State::Over, _) => return Ok(()),
            (State::Connecting, Packet::Connack(0)) => {
                self.state = State::Subscribing;
                packet::subscribe(
                    SUBSCRIPTION,
                    &self.mqtt.topic(self.user),
                    self.mqtt.quality(),
                    out,
                );
                return Ok(());
            }
            (State::Connecting, Packet::Connack(code)) => {
                self.state = State::Over;
                events.push(Event::Refused(refusal(code)));
                return Ok(());
            }
            (State::Connecting, _) => "CONNACK",
            // 3.8.4: messages may come before the SUBACK.
            (_, Packet::Publish { id, text, .. }) => {
                if let Some(id) = id {
                    packet::puback(id, out);
                }
                events.push(Event::Delivered(text::read(text)));
                return Ok(());
            }
            (State::Subscribing, Packet::Suback { id: SUBSCRIPTION, granted }) => {
                if granted > 2 {
                    self.state = State::Over;
                    let said = "the subscription to the user's own topic failed".to_owned();
                    events.push(Event::Refused(Reason { cause: Cause::NotAllowed, said }));
                } else {
                    self.state = State::Online;
                    events.push(Event::Online);
                }
                return Ok(());
            }
            (State::Subscribing, _) => "SUBACK",
            (State::Online, Packet::Puback(id)) if id != PING => match self.end(id) {
                Some(token) => {
                    events.push(Event::Answered(Doing::Message, token));
                    return Ok(());
                }
                None => "PUBACK of a message that was sent",
            },
            (State::Online, Packet::Pingresp) => match self.end(PING) {
                Some(token) => {
                    events.push(Event::Answered(Doing::Ping, token));
                    return Ok(());
                }
                None => "no PINGRESP",
            },
            (State::Online, _) => "PUBLISH, PUBACK or PINGRESP",
        };
        Err(Fault::Unexpected { found: packet.to_string(), expected })
    }

    /// Takes a packet identifier that is free.
    fn begin(&mut self, token: Token) -> Result<u16, NotDone> {
        if self.under_way.len() >= MOST_OUT {
            return Err(NotDone::TooMany);
        }
        loop {
            self.last = self.last.wrapping_add(1);
            let id = self.last;
            // The subscription's own is not used again: a PUBACK of it is a mistake that is seen.
            let is_free = id > SUBSCRIPTION && self.under_way.iter().all(|(other, _)| *other != id);
            if is_free {
                self.under_way.push((id, token));
                return Ok(id);
            }
        }
    }

    fn end(&mut self, id: u16) -> Option<Token> {
        let place = self.under_way.iter().position(|(other, _)| *other == id)?;
        let (_, token) = self.under_way.remove(place);
        if self.under_way.is_empty() {
            self.under_way = Vec::new();
        }
        Some(token)
    }
}

/// Source: 3.2.2.3, table 3.1.
fn refusal(code: u8) -> Reason {
    let (cause, said) = match code {
        1 => (Cause::NothingInCommon, "unacceptable protocol version"),
        2 => (Cause::Credentials, "identifier rejected"),
        3 => (Cause::Overloaded, "server unavailable"),
        4 => (Cause::Credentials, "bad user name or password"),
        // mosquitto says so to a wrong password.
        5 => (Cause::Credentials, "not authorized"),
        _ => (Cause::Other, "reserved return code"),
    };
    Reason { cause, said: format!("CONNACK {code}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Told, online, protocol};

    const CONNACK: &[u8] = &[0x20, 2, 0, 0];
    const SUBACK: &[u8] = &[0x90, 3, 0, 1, 0];

    fn qos1() -> Settings {
        Settings { quality: Quality::AtLeastOnce, ..Settings::default() }
    }

    #[test]
    fn a_user_connects_subscribes_and_is_online() {
        let mut told = Told::of(protocol("mqtt", &Settings::default()).session(UserId(7)));
        told.session.connected(&mut told.out);
        // 3.1: level 4, user name + password + clean session, keep alive off.
        assert_eq!(
            told.taken(),
            b"\x10\x21\0\x04MQTT\x04\xc2\0\0\0\x05user7\0\x05user7\0\x07secret7"
        );
        told.feed(CONNACK).unwrap();
        assert_eq!(told.taken(), b"\x82\x13\0\x01\0\x0elinerate/user7\0");
        told.feed(SUBACK).unwrap();
        assert_eq!(told.events, [Event::Online]);
        assert_eq!(told.session.held(), Bytes(0));
    }

    #[test]
    fn a_message_at_most_once_is_delivered_and_not_answered() {
        let mut told = online("mqtt", &Settings::default(), &[CONNACK, SUBACK]);
        told.session
            .act(Act::Message { to: UserId(2), size: Bytes(20) }, Token(0xab), &mut told.out)
            .unwrap();
        let published = told.taken();
        assert_eq!(published, b"\x30\x24\0\x0elinerate/user2t=00000000000000ab..");
        told.feed(&published).unwrap();
        assert_eq!(told.events, [Event::Delivered(Some(Token(0xab)))]);
        assert_eq!(told.taken(), b"");
    }

    #[test]
    fn a_message_at_least_once_is_acknowledged_on_both_sides() {
        let mut told = online("mqtt", &qos1(), &[CONNACK, &[0x90, 3, 0, 1, 1]]);
        let message = Act::Message { to: UserId(2), size: Bytes(0) };
        told.session.act(message, Token(5), &mut told.out).unwrap();
        let first = told.taken();
        assert_eq!(first, b"\x32\x24\0\x0elinerate/user2\0\x02t=0000000000000005");
        told.session.act(message, Token(6), &mut told.out).unwrap();
        told.feed(&[0x40, 2, 0, 3, 0x40, 2, 0, 2]).unwrap();
        assert_eq!(
            told.events,
            [Event::Answered(Doing::Message, Token(6)), Event::Answered(Doing::Message, Token(5))]
        );
        told.taken();
        told.feed(&first).unwrap();
        assert_eq!(told.taken(), [0x40, 2, 0, 2]);
        let unknown = told.feed(&[0x40, 2, 0, 9]).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "the server sends PUBACK 9 where PUBACK of a message that was sent was expected"
        );
    }

    #[test]
    fn pings_are_answered_in_their_order_and_then_nothing_is_held() {
        let mut told = online("mqtt", &Settings::default(), &[CONNACK, SUBACK]);
        for token in [1, 2] {
            told.session.act(Act::Ping, Token(token), &mut told.out).unwrap();
        }
        assert_eq!(told.taken(), [0xc0, 0, 0xc0, 0]);
        told.feed(&[0xd0, 0, 0xd0, 0]).unwrap();
        assert_eq!(
            told.events,
            [Event::Answered(Doing::Ping, Token(1)), Event::Answered(Doing::Ping, Token(2))]
        );
        assert_eq!(told.session.held(), Bytes(0));
        assert!(told.feed(&[0xd0, 0]).is_err());
    }

    #[test]
    fn identifiers_go_round_past_those_that_are_under_way() {
        let mut told = online("mqtt", &qos1(), &[CONNACK, SUBACK]);
        let message = Act::Message { to: UserId(2), size: Bytes(0) };
        // The first stays under way.
        told.session.act(message, Token(0), &mut told.out).unwrap();
        for _ in 0..70_000 {
            told.out.clear();
            told.session.act(message, Token(1), &mut told.out).unwrap();
            let (high, low) = (told.out[18], told.out[19]);
            assert!(u16::from_be_bytes([high, low]) > 2);
            told.feed(&[0x40, 2, high, low]).unwrap();
        }
        for _ in 1..MOST_OUT {
            told.session.act(message, Token(1), &mut told.out).unwrap();
        }
        assert_eq!(told.session.act(message, Token(1), &mut told.out), Err(NotDone::TooMany));
        assert_eq!(told.session.act(Act::Ping, Token(1), &mut told.out), Err(NotDone::TooMany));
    }

    #[test]
    fn a_wrong_password_is_a_refusal_and_another_protocol_a_fault() {
        let mut told = Told::of(protocol("mqtt", &Settings::default()).session(UserId(7)));
        told.feed(&[0x20, 2, 0, 4]).unwrap();
        assert_eq!(
            told.events,
            [Event::Refused(Reason {
                cause: Cause::Credentials,
                said: "CONNACK 4: bad user name or password".into()
            })]
        );
        assert_eq!(told.session.act(Act::Ping, Token(1), &mut told.out), Err(NotDone::NotOnline));

        let mut told = Told::of(protocol("mqtt", &Settings::default()).session(UserId(7)));
        assert_eq!(
            told.feed(b"HTTP/1.1 400 Bad Request\r\n").unwrap_err().to_string(),
            "the server does not speak MQTT 3.1.1: no packet that a server sends, found `HTTP/1.1 400 Bad Request\\r\\n`"
        );
    }

    #[test]
    fn a_subscription_that_fails_is_a_refusal() {
        let mut told = Told::of(protocol("mqtt", &Settings::default()).session(UserId(7)));
        told.feed(CONNACK).unwrap();
        told.feed(&[0x90, 3, 0, 1, 0x80]).unwrap();
        assert!(matches!(
            told.events[..],
            [Event::Refused(Reason { cause: Cause::NotAllowed, .. })]
        ));
    }
}
