//! XMPP, as a client has it: stream, SASL, a resource, the roster, presence, messages, pings.
//!
//! Source: RFC 6120 (stream, SASL, resource), RFC 6121 (roster, presence, messages), RFC 3921, section 3
//! (session, where a server still asks for one), XEP-0199 (ping).

mod scram;
mod xml;

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use linerate_model::Bytes;
use quick_xml::escape::escape;

use crate::session::{
    Act, Cause, Doing, Event, Fault, NotDone, Protocol, Reason, Session, Token, UserId,
};
use crate::settings::{Mechanism, Settings, Tls, check};
use crate::{Kind, text};
use scram::{BadScram, Hash, Scram};
use xml::{Element, Got, STREAMS, Then, Xml};

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

/// Those that we have, best first.
const MECHANISMS: &[(Mechanism, &str)] = &[
    (Mechanism::ScramSha256, "SCRAM-SHA-256"),
    (Mechanism::ScramSha1, "SCRAM-SHA-1"),
    (Mechanism::Plain, "PLAIN"),
];

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
    /// The roster.
    Roster,
    /// The user's own presence.
    Present,
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

    fn on_stanza(
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
                State::Bound { .. }
                | State::Established
                | State::Roster
                | State::Present
                | State::Online,
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

    /// TLS first if it is asked for, then the best mechanism that both have.
    fn log_in(
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
                self.state = State::Roster;
                put(out, format_args!("<iq type='get' id='roster'><query xmlns='{ROSTER}'/></iq>"));
            }
            // A server without rosters says so: the user has no contacts then.
            (State::Roster, "roster") => {
                self.state = State::Present;
                let id = Id::presence(self.user, Token(0));
                put(out, format_args!("<presence id='{id}'/>"));
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
            State::Present if is_error => {
                self.end(reason_in_stanza(presence), events);
            }
            State::Present => {
                self.state = State::Online;
                events.push(Event::Online);
            }
            State::Online if is_error => {
                let reason = reason_in_stanza(presence);
                events.push(Event::Declined(Doing::Presence, token, reason));
            }
            State::Online => events.push(Event::Answered(Doing::Presence, token)),
            _ => {}
        }
    }

    fn end(&mut self, reason: Reason, events: &mut Vec<Event>) -> Then {
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

/// The answer to a challenge: the proof, or nothing to the signature that comes as one.
fn challenged(scram: &mut Scram, text: &str, password: &str) -> Result<String, Fault> {
    let challenge = decoded(text)?;
    if scram.is_proven() {
        return scram.verify(&challenge).map(|()| String::new()).map_err(bad_scram);
    }
    scram.answer(&challenge, password).map(|proof| STANDARD.encode(proof)).map_err(bad_scram)
}

/// A signature may come with success, or have come before.
fn succeeded(scram: &mut Scram, text: &str) -> Result<(), Fault> {
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

fn unexpected(stanza: &Element, expected: &'static str) -> Fault {
    let name: String = stanza.name.chars().take(40).collect();
    Fault::Unexpected { found: format!("`{name}`"), expected }
}

fn reason_in_stanza(stanza: &Element) -> Reason {
    match stanza.child("error", CLIENT) {
        Some(error) => reason(error, STANZA_ERRORS),
        None => Reason { cause: Cause::Other, said: "an error without a condition".to_owned() },
    }
}

/// What an error says: a condition, and perhaps a text.
fn reason(error: &Element, namespace: &str) -> Reason {
    let mut condition = "an error without a condition";
    let mut said = None;
    for child in error.children.iter().filter(|child| *child.namespace == *namespace) {
        match child.name.as_str() {
            "text" => said = Some(child.text.trim()),
            name => condition = name,
        }
    }
    let cause = match condition {
        "not-authorized" | "invalid-authzid" | "credentials-expired" => Cause::Credentials,
        "account-disabled" | "not-allowed" | "forbidden" => Cause::NotAllowed,
        "resource-constraint" | "policy-violation" | "temporary-auth-failure" => Cause::Overloaded,
        "conflict" => Cause::Replaced,
        "system-shutdown" | "reset" | "see-other-host" => Cause::Stopping,
        "invalid-mechanism"
        | "mechanism-too-weak"
        | "encryption-required"
        | "unsupported-version"
        | "unsupported-feature" => Cause::NothingInCommon,
        _ => Cause::Other,
    };
    let said = match said.filter(|text| !text.is_empty()) {
        Some(text) => format!("{condition}: {text}"),
        None => condition.to_owned(),
    };
    Reason { cause, said }
}

/// The identifier of a stanza: what it is, whose it is where others are told too, and its token.
struct Id {
    kind: char,
    user: Option<UserId>,
    token: Token,
}

impl Id {
    const MESSAGE: char = 'm';
    const PING: char = 'i';
    const PRESENCE: char = 'p';

    fn message(token: Token) -> Self {
        Self { kind: Self::MESSAGE, user: None, token }
    }

    fn ping(token: Token) -> Self {
        Self { kind: Self::PING, user: None, token }
    }

    fn presence(user: UserId, token: Token) -> Self {
        Self { kind: Self::PRESENCE, user: Some(user), token }
    }

    fn token_of(id: &str, kind: char) -> Option<Token> {
        text::from_hex(id.strip_prefix(kind)?.as_bytes())
    }

    fn user_and_token_of(id: &str) -> Option<(UserId, Token)> {
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

fn put(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all");
}

#[cfg(test)]
mod tests;
