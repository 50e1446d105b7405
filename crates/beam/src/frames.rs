//! Messages between connected nodes: 4 bytes of length, then nothing (a tick) or one message.

use std::io::{self, Read};
use std::time::Duration;

use erl_dist::message::{Message, RecvError};

use crate::check::{self, Malformed};
use crate::stream::Incoming;

/// Source: erl_dist_protocol: a message without a distribution header.
const PASS_THROUGH: u8 = 112;

/// Longest message that is taken. Chosen: replies of 100 MB are real, of this size a mistake.
const LONGEST: usize = 256 << 20;

/// Chosen: at most so much is kept for bytes that have not come.
const PIECE: usize = 64 << 10;

/// How long a read waits before it looks at the clock. Chosen: a third of what a node of the usual
/// net_ticktime (60 s, a tick every 15) allows.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// A frame that is no message.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadFrame {
    /// Longer than linerate takes.
    #[error("a message of {0} bytes; linerate takes {LONGEST}")]
    TooLong(usize),
    /// Of a kind that was not agreed on.
    #[error("a message of kind {0}; expected {PASS_THROUGH}")]
    Kind(u8),
    /// Its terms can't be.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// They can be, and are not those of a message.
    #[error("{0}")]
    NoMessage(String),
}

/// Reads what a frame holds: nothing is a tick. None: an operation that is not of interest.
pub fn read_message(frame: &[u8]) -> Result<Option<Message>, BadFrame> {
    let Some((kind, body)) = frame.split_first() else { return Ok(Some(Message::Tick)) };
    if *kind != PASS_THROUGH {
        return Err(BadFrame::Kind(*kind));
    }
    // The operation, and for some the term it carries.
    let mut spent = 0;
    let operation = check::term(body, &mut spent)?;
    let carried = &body[operation..];
    if !carried.is_empty() && check::term(carried, &mut spent)? != carried.len() {
        return Err(BadFrame::NoMessage("bytes after the message".into()));
    }
    match Message::read_from(&mut &*body) {
        Ok(message) => Ok(Some(message)),
        Err(RecvError::UnsupportedOp { .. }) => Ok(None),
        Err(error) => Err(BadFrame::NoMessage(error.to_string())),
    }
}

/// A message's frame, its length included.
pub(crate) fn write_message(message: Message) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    if !matches!(message, Message::Tick) {
        frame.push(PASS_THROUGH);
        message
            .write_into(&mut frame)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    }
    let length = u32::try_from(frame.len() - 4)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a message of over 4 GiB"))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// What the reading side sees besides messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Beat {
    /// Bytes came.
    Heard,
    /// None came for [`SILENCE`].
    Silent,
}

/// The incoming frames, one after the other.
pub(crate) struct Frames {
    incoming: Incoming,
    body: Vec<u8>,
}

impl Frames {
    pub fn new(mut incoming: Incoming) -> io::Result<Self> {
        incoming.unbound(SILENCE)?;
        Ok(Self { incoming, body: Vec::new() })
    }

    /// The next frame, its length left out. `beat` is called at every read.
    pub fn next(&mut self, beat: &mut dyn FnMut(Beat)) -> io::Result<&[u8]> {
        // One large answer is not kept for ever.
        if self.body.capacity() > 16 * PIECE {
            self.body = Vec::new();
        }
        self.fill(4, beat)?;
        let length = self.body.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, BadFrame::TooLong(length)));
        }
        self.fill(length, beat)?;
        Ok(&self.body)
    }

    /// Reads so many bytes. Room is made as they come.
    fn fill(&mut self, length: usize, beat: &mut dyn FnMut(Beat)) -> io::Result<()> {
        self.body.clear();
        while self.body.len() < length {
            let from = self.body.len();
            self.body.resize(length.min(from + PIECE), 0);
            let read = self.incoming.read(&mut self.body[from..]);
            self.body.truncate(from + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => beat(Beat::Heard),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => beat(Beat::Silent),
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{Atom, Pid, atom};

    #[test]
    fn a_message_reads_back_as_it_was_written() {
        let pid = Pid::new(Atom::from("a@b"), 1, 0, 7);
        let message = Message::reg_send(pid, Atom::from("rex"), atom("hello"));
        let frame = write_message(message.clone()).unwrap();
        assert_eq!(read_message(&frame[4..]), Ok(Some(message)));
        assert_eq!(
            read_message(&write_message(Message::Tick).unwrap()[4..]),
            Ok(Some(Message::Tick))
        );
    }

    #[test]
    fn an_operation_of_the_future_is_passed_over_and_rubbish_is_an_error() {
        // {99}, and then {2, [], Pid} without the message that it carries.
        assert_eq!(read_message(&[112, 131, 104, 1, 97, 99]), Ok(None));
        assert!(read_message(&[112, 131, 104, 1, 97, 2]).is_err());
        assert!(read_message(&[112, 131, 106]).is_err());
        assert_eq!(read_message(&[68]), Err(BadFrame::Kind(68)));
    }
}
