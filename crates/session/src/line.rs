//! Chat by lines, as linerate's own server `chat` has it.
//!
//! | user | server |
//! |---|---|
//! | `login NAME` | `ok`, or `error WHY` |
//! | `say NAME TEXT` | to NAME: `said TEXT` |
//! | `ping` | `pong` |

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_model::Bytes;

use crate::pieces::Pieces;
use crate::session::{
    Act, Cause, Doing, Event, Fault, NotDone, Protocol, Refused, Session, Token, UserId,
};
use crate::settings::Settings;
use crate::{Kind, text};

pub(crate) static KIND: Kind = Kind {
    name: "line",
    says: "chat by lines, as linerate's own server `chat` has it",
    port: 5220,
    acts: &[Doing::Message, Doing::Ping],
    protocol: |settings| {
        settings.users.check_name("a name", 64, |c| c == ' ')?;
        Ok(Arc::new(Line { settings: settings.clone() }))
    },
};

// Chosen: a line is a word, a name and a message.
const LONGEST_LINE: usize = text::LONGEST + 256;
// Chosen: far more than a user asks for at a time.
const MOST_OUT: usize = 64;

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
    line: Arc<Line>,
    user: UserId,
    state: State,
    pieces: Pieces,
    pings: VecDeque<Token>,
}

impl Protocol for Line {
    fn session(self: Arc<Self>, user: UserId) -> Box<dyn Session> {
        Box::new(LineSession {
            line: self,
            user,
            state: State::LoggingIn,
            pieces: Pieces::default(),
            pings: VecDeque::new(),
        })
    }
}

impl Session for LineSession {
    fn connected(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"login ");
        out.extend_from_slice(self.line.settings.users.of(self.user).as_bytes());
        out.push(b'\n');
    }

    fn received(
        &mut self,
        bytes: &[u8],
        _: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        let Self { pieces, state, pings, .. } = self;
        pieces.feed(bytes, "a line", LONGEST_LINE, |bytes| {
            let mut used = 0;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                let Some(line) = line.strip_suffix(b"\n") else { break };
                used += line.len() + 1;
                if line.len() > LONGEST_LINE {
                    return Err(Fault::TooLong { what: "a line", most: LONGEST_LINE });
                }
                events.extend(event(line, state, pings)?);
            }
            Ok(used)
        })
    }

    fn act(&mut self, act: Act, token: Token, out: &mut Vec<u8>) -> Result<(), NotDone> {
        if self.state != State::Online {
            return Err(NotDone::NotOnline);
        }
        match act {
            Act::Message { to, size } => {
                out.extend_from_slice(b"say ");
                out.extend_from_slice(self.line.settings.users.of(to).as_bytes());
                out.push(b' ');
                text::write(token, size, out);
            }
            Act::Ping if self.pings.len() == MOST_OUT => return Err(NotDone::TooMany),
            Act::Ping => {
                self.pings.push_back(token);
                out.extend_from_slice(b"ping");
            }
            Act::Presence => return Err(NotDone::NoSuchAct),
        }
        out.push(b'\n');
        Ok(())
    }

    fn close(&mut self, _: &mut Vec<u8>) {
        self.state = State::Over;
    }

    fn held(&self) -> Bytes {
        let pings = self.pings.capacity() * size_of::<Token>();
        Bytes((self.pieces.held() + pings) as u64)
    }
}

fn event(
    line: &[u8],
    state: &mut State,
    pings: &mut VecDeque<Token>,
) -> Result<Option<Event>, Fault> {
    let unexpected = |expected| {
        let found = format!("`{}`", line[..line.len().min(40)].escape_ascii());
        Err(Fault::Unexpected { found, expected })
    };
    let said = |why: &[u8]| String::from_utf8_lossy(why).into_owned();
    match *state {
        State::Over => Ok(None),
        State::LoggingIn if line == b"ok" => {
            *state = State::Online;
            Ok(Some(Event::Online))
        }
        State::LoggingIn => {
            let Some(why) = line.strip_prefix(b"error ") else { return unexpected("`ok`") };
            *state = State::Over;
            Ok(Some(Event::Refused(Refused { cause: Cause::Other, said: said(why) })))
        }
        State::Online => {
            if let Some(message) = line.strip_prefix(b"said ") {
                Ok(Some(Event::Delivered(text::read(message))))
            } else if line == b"pong" {
                let Some(token) = pings.pop_front() else { return unexpected("no `pong`") };
                if pings.is_empty() {
                    *pings = VecDeque::new();
                }
                Ok(Some(Event::Answered(Doing::Ping, token)))
            } else if let Some(why) = line.strip_prefix(b"error ") {
                *state = State::Over;
                Ok(Some(Event::Ended(Refused { cause: Cause::Other, said: said(why) })))
            } else {
                unexpected("`said` or `pong`")
            }
        }
    }
}
