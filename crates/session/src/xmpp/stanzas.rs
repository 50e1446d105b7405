//! What the server says, and what comes of it.

use quick_xml::escape::escape;

use super::id::Id;
use super::login::{challenged, succeeded};
use super::reason::{reason, reason_in_stanza};
use super::xml::{Element, STREAMS, Then};
use super::{
    BIND, CLIENT, PING, ROSTER, Rest, SASL, SESSION, STANZA_ERRORS, STREAM_ERRORS, State, TLS, put,
};
use crate::session::{Cause, Doing, Event, Fault, Reason, Token};
use crate::text;

impl Rest {
    pub(super) fn on_stanza(
        &mut self,
        stanza: &Element,
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<Then, Fault> {
        if stanza.is("error", STREAMS) {
            return Ok(self.end(reason(stanza, STREAM_ERRORS), events));
        }
        match (&mut self.state, &*stanza.namespace, stanza.name.as_str()) {
            (State::Features { is_secured }, STREAMS, "features") => {
                let is_secured = *is_secured;
                Ok(self.log_in(stanza, is_secured, out, events))
            }
            (State::Proceed, TLS, "proceed") => {
                self.state = State::Features { is_secured: true };
                events.push(Event::StartTls);
                Ok(Then::Tls)
            }
            (State::Proceed, TLS, "failure") => {
                let said = "the server cannot begin TLS".to_owned();
                Ok(self.end(Reason { cause: Cause::NothingInCommon, said }, events))
            }
            (State::Authentication(scram), SASL, "challenge") => {
                let answer = match scram {
                    Some(scram) => {
                        let password = self.xmpp.settings.passwords.of(self.user);
                        challenged(scram, &stanza.text, &password)?
                    }
                    // PLAIN has said all: RFC 4616.
                    None => return Err(unexpected(stanza, "`success` or `failure`")),
                };
                put(out, format_args!("<response xmlns='{SASL}'>{answer}</response>"));
                Ok(Then::More)
            }
            (State::Authentication(scram), SASL, "success") => {
                if let Some(scram) = scram {
                    succeeded(scram, &stanza.text)?;
                }
                self.state = State::Authenticated;
                self.open(out);
                Ok(Then::NewStream)
            }
            (State::Authentication(_), SASL, "failure") => {
                Ok(self.end(reason(stanza, SASL), events))
            }
            (State::Authenticated, STREAMS, "features") => {
                if stanza.child("bind", BIND).is_none() {
                    let said = "the server offers no resource".to_owned();
                    return Ok(self.end(Reason { cause: Cause::NothingInCommon, said }, events));
                }
                let session = stanza.child("session", SESSION);
                let wants_session =
                    session.is_some_and(|session| session.child("optional", SESSION).is_none());
                self.state = State::Bound { wants_session };
                put(
                    out,
                    format_args!(
                        "<iq type='set' id='bind'><bind xmlns='{BIND}'>\
                         <resource>linerate</resource></bind></iq>"
                    ),
                );
                Ok(Then::More)
            }
            (
                State::Bound { .. } | State::Established | State::Entering { .. } | State::Online,
                CLIENT,
                "iq" | "message" | "presence",
            ) => {
                match stanza.name.as_str() {
                    "iq" => return self.on_iq(stanza, out, events),
                    "message" => on_message(stanza, events),
                    _ => self.on_presence(stanza, events),
                }
                Ok(Then::More)
            }
            (State::Online, STREAMS, "features") => Ok(Then::More),
            (state, _, _) => Err(unexpected(stanza, state.expected())),
        }
    }

    fn on_iq(
        &mut self,
        iq: &Element,
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<Then, Fault> {
        let id = iq.attribute("id").unwrap_or_default();
        let is_error = match iq.attribute("type") {
            Some("result") => false,
            Some("error") => true,
            Some("get" | "set") => {
                answer(iq, id, out);
                return Ok(Then::More);
            }
            _ => return Err(unexpected(iq, "an iq that has a type")),
        };
        match (&self.state, id) {
            (State::Bound { .. }, "bind") | (State::Established, "session") if is_error => {
                return Ok(self.end(reason_in_stanza(iq), events));
            }
            (State::Bound { wants_session: true }, "bind") => {
                self.state = State::Established;
                put(
                    out,
                    format_args!("<iq type='set' id='session'><session xmlns='{SESSION}'/></iq>"),
                );
            }
            (State::Bound { .. }, "bind") | (State::Established, "session") => {
                self.state = State::Entering { awaits_roster: true, awaits_presence: true };
                // Neither needs the other's answer. Source of their order: RFC 6121, section 2.2.
                let id = Id::presence(self.user, Token(0));
                put(
                    out,
                    format_args!(
                        "<iq type='get' id='roster'><query xmlns='{ROSTER}'/></iq>\
                         <presence id='{id}'/>"
                    ),
                );
            }
            // A server without rosters says so: the user has no contacts then.
            (State::Entering { awaits_presence, .. }, "roster") => {
                self.enter(false, *awaits_presence, events);
            }
            // Whoever has no pings says so, and so is there: XEP-0199, section 4.1.
            (State::Online, id) => {
                if let Some(token) = Id::token_of(id, Id::PING) {
                    events.push(Event::Answered(Doing::Ping, token));
                }
            }
            _ => {}
        }
        Ok(Then::More)
    }

    /// A user is told its own presence: RFC 6121, section 4.2.2.
    fn on_presence(&mut self, presence: &Element, events: &mut Vec<Event>) {
        let id = presence.attribute("id").unwrap_or_default();
        let Some((user, token)) = Id::user_and_token_of(id) else { return };
        if user != self.user {
            return;
        }
        let is_error = presence.attribute("type") == Some("error");
        match self.state {
            State::Entering { .. } if is_error => {
                self.end(reason_in_stanza(presence), events);
            }
            State::Entering { awaits_roster, .. } => self.enter(awaits_roster, false, events),
            State::Online if is_error => {
                let reason = reason_in_stanza(presence);
                events.push(Event::Declined(Doing::Presence, token, reason));
            }
            State::Online => events.push(Event::Answered(Doing::Presence, token)),
            _ => {}
        }
    }

    /// Online is who has the roster and is told its own presence.
    fn enter(&mut self, awaits_roster: bool, awaits_presence: bool, events: &mut Vec<Event>) {
        if awaits_roster || awaits_presence {
            self.state = State::Entering { awaits_roster, awaits_presence };
        } else {
            self.state = State::Online;
            events.push(Event::Online);
        }
    }

    pub(super) fn end(&mut self, reason: Reason, events: &mut Vec<Event>) -> Then {
        events.push(match self.state {
            State::Online => Event::Ended(reason),
            _ => Event::Refused(reason),
        });
        self.state = State::Over;
        Then::Nothing
    }
}

impl State {
    fn expected(&self) -> &'static str {
        match self {
            State::Features { .. } => "`features`",
            State::Proceed => "`proceed`",
            State::Authentication(_) => "`challenge`, `success` or `failure`",
            State::Authenticated => "`features`",
            _ => "`iq`, `message` or `presence`",
        }
    }
}

fn on_message(message: &Element, events: &mut Vec<Event>) {
    let id = message.attribute("id").unwrap_or_default();
    if message.attribute("type") == Some("error") {
        if let Some(token) = Id::token_of(id, Id::MESSAGE) {
            events.push(Event::Declined(Doing::Message, token, reason_in_stanza(message)));
        }
    } else if let Some(body) = message.child("body", CLIENT) {
        events.push(Event::Delivered(text::read(body.text.as_bytes())));
    }
}

/// What the server, or another user, asks of this one. Source: RFC 6120, section 8.2.3.
fn answer(iq: &Element, id: &str, out: &mut Vec<u8>) {
    let is_known = iq.child("ping", PING).is_some()
        || (iq.child("query", ROSTER).is_some() && iq.attribute("type") == Some("set"));
    let kind = if is_known { "result" } else { "error" };
    put(out, format_args!("<iq type='{kind}' id='{}'", escape(id)));
    if let Some(from) = iq.attribute("from") {
        put(out, format_args!(" to='{}'", escape(from)));
    }
    if is_known {
        put(out, format_args!("/>"));
    } else {
        put(
            out,
            format_args!(
                "><error type='cancel'><service-unavailable xmlns='{STANZA_ERRORS}'/></error></iq>"
            ),
        );
    }
}

fn unexpected(stanza: &Element, expected: &'static str) -> Fault {
    let name: String = stanza.name.chars().take(40).collect();
    Fault::Unexpected { found: format!("`{name}`"), expected }
}
