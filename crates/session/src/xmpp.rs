//! XMPP, as a client has it: stream, SASL, a resource, the roster, presence, messages, pings.
//!
//! Source: RFC 6120 (stream, SASL, resource), RFC 6121 (roster, presence, messages), RFC 3921, section 3
//! (session, where a server still asks for one), XEP-0199 (ping).

mod id;
mod login;
mod reason;
mod scram;
mod stanzas;
mod xml;

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use linerate_model::Bytes;

use crate::session::{
    Act, Cause, Doing, Event, Fault, NotDone, Protocol, Reason, Session, Token, UserId,
};
use crate::settings::{Settings, check};
use crate::{Kind, text};
use id::Id;
use scram::Scram;
use xml::{Got, STREAMS, Then, Xml};

pub(crate) static KIND: Kind = Kind {
    name: "xmpp",
    says: "XMPP (RFC 6120, RFC 6121), as a client",
    port: 5222,
    acts: &[Doing::Message, Doing::Ping, Doing::Presence],
    protocol: |settings| {
        // Source: RFC 7622, section 3.3.1, and what XML would have escaped.
        let not_local = |c| matches!(c, ' ' | '"' | '&' | '\'' | '/' | ':' | '<' | '>' | '@');
        settings.users.check_name("a name of XMPP", 512, not_local)?;
        settings.passwords.check("a password", 1024)?;
        let domain = &settings.domain;
        check(domain, domain.clone(), "a domain", 1023, |c| {
            !matches!(c, '!'..='~') || matches!(c, '"' | '&' | '\'' | '/' | '<' | '>' | '@')
        })?;
        Ok(Arc::new(Xmpp { settings: settings.clone() }))
    },
};

const CLIENT: &str = "jabber:client";
const TLS: &str = "urn:ietf:params:xml:ns:xmpp-tls";
const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const BIND: &str = "urn:ietf:params:xml:ns:xmpp-bind";
const SESSION: &str = "urn:ietf:params:xml:ns:xmpp-session";
const ROSTER: &str = "jabber:iq:roster";
const PING: &str = "urn:xmpp:ping";
const STANZA_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-stanzas";
const STREAM_ERRORS: &str = "urn:ietf:params:xml:ns:xmpp-streams";

struct Xmpp {
    settings: Settings,
}

/// What the server is to say next.
enum State {
    /// What it offers to who has not logged in, or not under TLS, yet.
    Features { is_secured: bool },
    /// That TLS may begin.
    Proceed,
    /// Whether the password is the right one. PLAIN has no state.
    Authentication(Option<Box<Scram>>),
    /// What it offers to who has logged in.
    Authenticated,
    /// The resource.
    Bound { wants_session: bool },
    /// The session.
    Established,
    /// The roster, and the user's own presence.
    Entering { awaits_roster: bool, awaits_presence: bool },
    /// Anything.
    Online,
    /// That the stream is over.
    Over,
}

struct XmppSession {
    xml: Xml,
    rest: Rest,
}

struct Rest {
    xmpp: Arc<Xmpp>,
    user: UserId,
    state: State,
}

impl Protocol for Xmpp {
    fn session(self: Arc<Self>, user: UserId) -> Box<dyn Session> {
        let rest = Rest { xmpp: self, user, state: State::Features { is_secured: false } };
        Box::new(XmppSession { xml: Xml::default(), rest })
    }
}

impl Session for XmppSession {
    fn connected(&mut self, out: &mut Vec<u8>) {
        self.rest.open(out);
    }

    fn received(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        let Self { xml, rest } = self;
        if matches!(rest.state, State::Over) {
            return Ok(());
        }
        xml.feed(bytes, &mut |got| match got {
            Got::Opened => Ok(Then::More),
            Got::Stanza(stanza) => rest.on_stanza(stanza, out, events),
            Got::Closed => {
                let said = "the server closed the stream".to_owned();
                Ok(rest.end(Reason { cause: Cause::Other, said }, events))
            }
        })
    }

    fn act(&mut self, act: Act, token: Token, out: &mut Vec<u8>) -> Result<(), NotDone> {
        let rest = &self.rest;
        if !matches!(rest.state, State::Online) {
            return Err(NotDone::NotOnline);
        }
        let settings = &rest.xmpp.settings;
        let domain = &settings.domain;
        match act {
            Act::Message { to, size } => {
                let to = settings.users.named(to);
                let id = Id::message(token);
                put(out, format_args!("<message to='{to}@{domain}' type='chat' id='{id}'><body>"));
                text::write(token, size, out);
                put(out, format_args!("</body></message>"));
            }
            Act::Ping => {
                let id = Id::ping(token);
                put(
                    out,
                    format_args!(
                        "<iq type='get' to='{domain}' id='{id}'><ping xmlns='{PING}'/></iq>"
                    ),
                );
            }
            Act::Presence => {
                let id = Id::presence(rest.user, token);
                put(out, format_args!("<presence id='{id}'/>"));
            }
        }
        Ok(())
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if matches!(self.rest.state, State::Online) {
            put(out, format_args!("<presence type='unavailable'/>"));
        }
        if !matches!(self.rest.state, State::Over) {
            put(out, format_args!("</stream:stream>"));
        }
        self.rest.state = State::Over;
    }

    fn held(&self) -> Bytes {
        let login = match &self.rest.state {
            State::Authentication(Some(scram)) => scram.held(),
            _ => 0,
        };
        Bytes((self.xml.held() + login) as u64)
    }
}

impl Rest {
    fn open(&self, out: &mut Vec<u8>) {
        let domain = &self.xmpp.settings.domain;
        put(
            out,
            format_args!(
                "<?xml version='1.0'?><stream:stream to='{domain}' version='1.0' xml:lang='en' \
                 xmlns='{CLIENT}' xmlns:stream='{STREAMS}'>"
            ),
        );
    }
}

fn put(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all");
}

#[cfg(test)]
mod tests;
