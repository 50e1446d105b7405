//! Chat by lines, as linerate's own server `chat` has it (`docs/chat.md`).
//!
//! Who hears a message is whoever is in the room of its sender: its addressee is left to the server. The
//! server answers in the order in which it was asked, so that an answer needs no name.

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_model::Bytes;

use crate::pieces::Pieces;
use crate::session::{
    Act, Cause, Doing, Event, Fault, NotDone, Protocol, Reason, Session, Token, UserId,
};
use crate::settings::Settings;
use crate::{Kind, text};

pub(crate) static KIND: Kind = Kind {
    name: "line",
    says: "chat by lines, in rooms, as linerate's own server `chat` has it",
    // Chosen: a line has no port of its own; beside that of XMPP.
    port: 5220,
    acts: &[Doing::Message, Doing::Ping],
    protocol: |settings| {
        settings.users.check_name("a name of a line", 32, |c| c == ' ')?;
        Ok(Arc::new(Line { settings: settings.clone() }))
    },
};

// Chosen: a message, a name and a word.
const LONGEST_LINE: usize = text::LONGEST + 256;
// Chosen: far more than a user asks for at a time.
const MOST_OUT: usize = 256;

struct Line {
    settings: Settings,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
    LoggingIn,
    Online,
    Over,
}

struct LineSession {
    pieces: Pieces,
    rest: Rest,
}

struct Rest {
    line: Arc<Line>,
    user: UserId,
    state: State,
    // What is not answered yet, oldest first.
    under_way: VecDeque<(Doing, Token)>,
}

impl Protocol for Line {
    fn session(self: Arc<Self>, user: UserId) -> Box<dyn Session> {
        let under_way = VecDeque::new();
        let rest = Rest { line: self, user, state: State::LoggingIn, under_way };
        Box::new(LineSession { pieces: Pieces::default(), rest })
    }
}

impl Session for LineSession {
    fn connected(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"login ");
        out.extend_from_slice(self.rest.line.settings.users.of(self.rest.user).as_bytes());
        out.push(b'\n');
    }

    fn received(
        &mut self,
        bytes: &[u8],
        _: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        let Self { pieces, rest } = self;
        pieces.feed(bytes, "a line", LONGEST_LINE, |bytes| {
            let mut used = 0;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let Some(line) = line.strip_suffix(b"\n") else { break };
                if line.len() > LONGEST_LINE {
                    return Err(Fault::TooLong { what: "a line", most: LONGEST_LINE });
                }
                used += line.len() + 1;
                events.extend(rest.on_line(line)?);
            }
            Ok(used)
        })
    }

    fn act(&mut self, act: Act, token: Token, out: &mut Vec<u8>) -> Result<(), NotDone> {
        let rest = &mut self.rest;
        match act {
            _ if rest.state != State::Online => return Err(NotDone::NotOnline),
            Act::Presence => return Err(NotDone::NoSuchAct),
            _ if rest.under_way.len() == MOST_OUT => return Err(NotDone::TooMany),
            Act::Message { size, .. } => {
                out.extend_from_slice(b"say ");
                text::write(token, size, out);
            }
            Act::Ping => out.extend_from_slice(b"ping"),
        }
        out.push(b'\n');
        rest.under_way.push_back((act.doing(), token));
        Ok(())
    }

    fn close(&mut self, _: &mut Vec<u8>) {
        self.rest.state = State::Over;
    }

    fn held(&self) -> Bytes {
        let under_way = self.rest.under_way.capacity() * size_of::<(Doing, Token)>();
        Bytes((self.pieces.held() + under_way) as u64)
    }
}

impl Rest {
    fn on_line(&mut self, line: &[u8]) -> Result<Option<Event>, Fault> {
        let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        match (self.state, word) {
            (State::Over, _) => Ok(None),
            (State::LoggingIn, b"ok") if line == word => {
                self.state = State::Online;
                Ok(Some(Event::Online))
            }
            (State::LoggingIn, b"error") => {
                self.state = State::Over;
                Ok(Some(Event::Refused(reason(line))))
            }
            (State::LoggingIn, _) => Err(unexpected(line, "`ok` or `error`")),
            (State::Online, b"from") => {
                let message = line.splitn(3, |byte| *byte == b' ').nth(2);
                Ok(Some(Event::Delivered(message.and_then(text::read))))
            }
            (State::Online, b"here" | b"gone") => Ok(None),
            (State::Online, b"error") => {
                let reason = reason(line);
                Ok(Some(match self.end() {
                    // The other error that is nobody's answer closes too: a line that was too long.
                    Some((doing, token)) if reason.cause != Cause::Replaced => {
                        Event::Declined(doing, token, reason)
                    }
                    _ => {
                        self.state = State::Over;
                        Event::Ended(reason)
                    }
                }))
            }
            (State::Online, b"said" | b"pong") if line == word => {
                let asked = if word == b"said" { Doing::Message } else { Doing::Ping };
                match self.end() {
                    Some((doing, token)) if doing == asked => {
                        Ok(Some(Event::Answered(doing, token)))
                    }
                    _ => Err(unexpected(line, "the answer to something else")),
                }
            }
            (State::Online, _) => Err(unexpected(line, "an answer, or `from NAME TEXT`")),
        }
    }

    fn end(&mut self) -> Option<(Doing, Token)> {
        let ended = self.under_way.pop_front();
        if self.under_way.is_empty() {
            self.under_way = VecDeque::new();
        }
        ended
    }
}

fn reason(line: &[u8]) -> Reason {
    let said = line.strip_prefix(b"error ").unwrap_or_default();
    let cause = match said {
        b"replaced" => Cause::Replaced,
        said if said.starts_with(b"bad name") => Cause::Credentials,
        _ => Cause::Other,
    };
    Reason { cause, said: String::from_utf8_lossy(said).into_owned() }
}

fn unexpected(line: &[u8], expected: &'static str) -> Fault {
    let shown = &line[..line.len().min(40)];
    Fault::Unexpected { found: format!("`{}`", shown.escape_ascii()), expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Told, online, protocol};

    #[test]
    fn a_user_logs_in_says_something_and_hears_others() {
        let mut told = Told::of(protocol("line", &Settings::default()).session(UserId(7)));
        told.session.connected(&mut told.out);
        assert_eq!(told.taken(), b"login user7\n");
        told.feed(b"ok\nhere user8\n").unwrap();
        let message = Act::Message { to: UserId(8), size: Bytes(20) };
        told.session.act(message, Token(1), &mut told.out).unwrap();
        told.session.act(Act::Ping, Token(2), &mut told.out).unwrap();
        assert_eq!(told.taken(), b"say t=0000000000000001..\nping\n");
        told.feed(b"from user8 t=0000000000000009\nfrom user8 hello\nsaid\npong\ngone user8\n")
            .unwrap();
        assert_eq!(
            told.events,
            [
                Event::Online,
                Event::Delivered(Some(Token(9))),
                Event::Delivered(None),
                Event::Answered(Doing::Message, Token(1)),
                Event::Answered(Doing::Ping, Token(2)),
            ]
        );
        assert_eq!(told.session.held(), Bytes(0));
        assert_eq!(
            told.session.act(Act::Presence, Token(3), &mut told.out),
            Err(NotDone::NoSuchAct)
        );
    }

    #[test]
    fn an_error_answers_what_was_asked_first_or_ends_the_session() {
        let mut told = online("line", &Settings::default(), &[b"ok\n"]);
        told.session.act(Act::Ping, Token(1), &mut told.out).unwrap();
        told.session.act(Act::Ping, Token(2), &mut told.out).unwrap();
        told.feed(b"error refused\npong\nerror replaced\nnothing more is read\n").unwrap();
        assert_eq!(
            told.events,
            [
                Event::Declined(
                    Doing::Ping,
                    Token(1),
                    Reason { cause: Cause::Other, said: "refused".into() }
                ),
                Event::Answered(Doing::Ping, Token(2)),
                Event::Ended(Reason { cause: Cause::Replaced, said: "replaced".into() }),
            ]
        );
        assert_eq!(told.session.act(Act::Ping, Token(3), &mut told.out), Err(NotDone::NotOnline));
    }

    #[test]
    fn a_login_that_is_refused_and_one_that_is_answered_by_something_else() {
        let mut told = Told::of(protocol("line", &Settings::default()).session(UserId(7)));
        told.feed(b"error bad name: write 1 to 32 bytes of ! to ~\n").unwrap();
        assert!(matches!(
            &told.events[..],
            [Event::Refused(Reason { cause: Cause::Credentials, said })] if said.starts_with("bad name")
        ));

        let mut told = Told::of(protocol("line", &Settings::default()).session(UserId(7)));
        assert_eq!(
            told.feed(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap_err().to_string(),
            "the server sends `SSH-2.0-OpenSSH_9.2\\r` where `ok` or `error` was expected"
        );
        let mut told = online("line", &Settings::default(), &[b"ok\n"]);
        assert!(told.feed(b"said\n").is_err());
        let mut told = online("line", &Settings::default(), &[b"ok\n"]);
        assert!(matches!(told.feed(&[b'x'; LONGEST_LINE + 1]), Err(Fault::TooLong { .. })));
    }
}
