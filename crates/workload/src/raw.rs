//! `raw`: bytes as a plan has them, and an answer that ends after so many bytes, where a length in it says, or with
//! a text. Any protocol that asks and answers, without code.

use std::sync::Arc;

use linerate_model::{Bytes, Endian, Ending, LengthField, MOST_SENT, Sent, Workload};

use crate::counter::Counter;
use crate::holes::{Holed, Place};
use crate::matching::Text;
use crate::requests::BadRequests;
use crate::session::{Answer, Broken, Judged, Session, Step, Template};
use crate::{Given, Kind};

/// See the module.
pub(crate) static KIND: Kind = Kind {
    name: "raw",
    says: "bytes of the plan's own, and an answer that ends as it says: any protocol",
    template: |workload, given| match workload {
        Workload::Raw { send, until, expected, .. } => {
            let made = RawTemplate::new(send, until, expected.body.as_deref(), given);
            let named = |(key, wrong)| BadRequests::Plan { key, wrong };
            Some(made.map(|it| -> Arc<dyn Template> { Arc::new(it) }).map_err(named))
        }
        _ => None,
    },
};

/// The key of the plan that is wrong, and what is.
type Wrong = (&'static str, String);

const SEND: &str = "workload.send";
const UNTIL: &str = "workload.until";

/// A plan of this kind, read.
struct Asked {
    request: Holed,
    ending: End,
    /// What a right answer has in it; none: any is right.
    expected: Option<Text>,
    /// Requests with a counter so far.
    counted: Counter,
}

/// How an answer ends.
enum End {
    Bytes(u64),
    Text { text: Text, times: u32 },
    Length { at: u64, width: u64, endian: Endian, from: u64 },
}

impl End {
    fn of(until: &Ending) -> Result<Self, String> {
        if until.times.is_some() && until.text.is_none() {
            return Err("only a text comes several times: leave `times` out".into());
        }
        match (&until.text, until.bytes, &until.length) {
            (Some(text), None, None) => {
                let bytes = unescaped(text)?;
                let times = until.times.unwrap_or(1);
                if bytes.is_empty() || times == 0 {
                    return Err("an empty text ends nothing: write for example \\r\\n".into());
                }
                Ok(Self::Text { text: Text::new(&bytes), times })
            }
            (None, Some(Bytes(0)), None) => Err("0 bytes are no answer: write 1 or more".into()),
            (None, Some(Bytes(bytes)), None) => Ok(Self::Bytes(bytes)),
            (None, None, Some(LengthField { at, width, endian, from })) => {
                if !(1..=8).contains(width) {
                    return Err(format!("a number of {width} bytes: write a width of 1 to 8"));
                }
                let (at, width) = (u64::from(*at), u64::from(*width));
                let from = from.map_or(at + width, u64::from);
                Ok(Self::Length { at, width, endian: *endian, from })
            }
            (None, None, None) => {
                Err("nothing says how an answer ends: write one of text, bytes and length".into())
            }
            _ => Err("several say how an answer ends: keep one of text, bytes and length".into()),
        }
    }
}

/// A text's bytes, its escapes read.
fn unescaped(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let (meant, taken) = match (byte, after) {
            (b'\\', [b'x', high, low, ..]) => {
                (pair_of_digits([*high, *low]).ok_or_else(|| no_escape(rest))?, 4)
            }
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'0', ..]) => (0, 2),
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', _) => return Err(no_escape(rest)),
            (byte, _) => (*byte, 1),
        };
        bytes.push(meant);
        rest = &rest[taken..];
    }
    Ok(bytes)
}

fn no_escape(rest: &[u8]) -> String {
    // As many letters as \xNN has.
    let found = String::from_utf8_lossy(&rest[..rest.len().min(4)]);
    format!("`{found}` is no escape: write \\r, \\n, \\t, \\0, \\xNN, or \\\\ for a backslash")
}

fn pair_of_digits(pair: [u8; 2]) -> Option<u8> {
    let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
    Some((high? * 16 + low?) as u8)
}

fn of_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| pair_of_digits(pair.try_into().ok()?));
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| format!("`{text}` is not hexadecimal: write two digits a byte, as in 0d0a"))
}

struct RawTemplate {
    asked: Arc<Asked>,
    seed: u64,
    /// Sessions made so far: each has random choices of its own.
    sessions: Counter,
}

impl RawTemplate {
    fn new(
        send: &Sent,
        until: &Ending,
        expected: Option<&str>,
        given: &Given<'_>,
    ) -> Result<Self, Wrong> {
        let mut request = Holed::default();
        let of_send = |wrong| (SEND, wrong);
        match send {
            Sent::Text(text) => {
                let bytes = unescaped(text).map_err(of_send)?;
                request.put_holed(&bytes, Place::Body, given.variable).map_err(of_send)?;
            }
            Sent::Hex(text) => request.bytes = of_hex(text).map_err(of_send)?,
            Sent::Read(bytes) => request.bytes = bytes.to_vec(),
            Sent::File(_) => unreachable!("whoever makes the load reads it first"),
        }
        if request.is_empty() {
            return Err((SEND, "it is empty: write a byte at least".into()));
        }
        let ending = End::of(until).map_err(|wrong| (UNTIL, wrong))?;
        let expected = expected.map(|text| Text::new(text.as_bytes()));
        let asked = Asked { request, ending, expected, counted: Counter::new(given.part) };
        Ok(Self { asked: Arc::new(asked), seed: given.seed, sessions: Counter::new(given.part) })
    }
}

impl Template for RawTemplate {
    fn session(&self) -> Box<dyn Session> {
        let number = self.sessions.next();
        Box::new(Raw {
            written: self.asked.request.bytes.len(),
            asked: Arc::clone(&self.asked),
            random: crate::random_of(self.seed, number),
            filled: Vec::new(),
            read: 0,
            number: 0,
            matched: 0,
            times: 0,
            found: 0,
        })
    }
}

/// One connection's part.
struct Raw {
    asked: Arc<Asked>,
    random: fastrand::Rng,
    /// The request, where it has holes.
    filled: Vec<u8>,
    written: usize,
    /// Bytes of the answer so far.
    read: u64,
    /// What was read of the length in it.
    number: u64,
    /// How much of the text that ends it the last bytes are, and how often it was there.
    matched: usize,
    times: u32,
    /// How much was found of what is to be in it.
    found: usize,
}

impl Raw {
    fn request(&self) -> &[u8] {
        match self.filled.as_slice() {
            [] => &self.asked.request.bytes,
            filled => filled,
        }
    }

    /// How many of these bytes are still the answer's, once its end is among them.
    fn end_in(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        let before = self.read;
        self.read += bytes.len() as u64;
        let total = match &self.asked.ending {
            End::Bytes(total) => *total,
            End::Text { text, times } => {
                let mut from = 0;
                while let Some(used) = text.find(&mut self.matched, &bytes[from..]) {
                    (from, self.matched) = (from + used, 0);
                    self.times += 1;
                    if self.times == *times {
                        return Ok(Some(from));
                    }
                }
                return Ok(None);
            }
            End::Length { at, width, endian, from } => {
                if before < at + width {
                    for (place, byte) in (before..at + width).zip(bytes).filter(|it| it.0 >= *at) {
                        self.number = match endian {
                            Endian::Big => self.number << 8 | u64::from(*byte),
                            Endian::Little => self.number | u64::from(*byte) << (8 * (place - at)),
                        };
                    }
                    if self.read < at + width {
                        return Ok(None);
                    }
                }
                let total = from.saturating_add(self.number);
                if total < at + width || total > MOST_SENT {
                    return Err(Broken::NoLength(self.number));
                }
                total
            }
        };
        // What was there before is less: it would have ended then.
        Ok((self.read >= total).then(|| (total - before) as usize))
    }
}

impl Session for Raw {
    fn begin(&mut self) {
        let Asked { request, counted, .. } = &*self.asked;
        let (text, holes) = (0..request.bytes.len(), 0..request.holes.len());
        request.fill(text, holes, counted, &mut self.random, &mut self.filled);
        (self.written, self.read, self.number) = (0, 0, 0);
        (self.matched, self.times, self.found) = (0, 0, 0);
    }

    fn unsent(&self) -> &[u8] {
        &self.request()[self.written..]
    }

    fn sent(&mut self, bytes: usize) {
        self.written += bytes;
    }

    fn received(&mut self, bytes: &[u8]) -> Result<Step, Broken> {
        if let Some(text) = &self.asked.expected {
            self.found = text.on(self.found, bytes);
        }
        match self.end_in(bytes)? {
            None => Ok(Step::More),
            Some(used) if used < bytes.len() => Err(Broken::Extra(bytes.len() - used)),
            Some(_) => {
                let judged = match &self.asked.expected {
                    None => Judged::Not,
                    Some(text) if text.is_found(self.found) => Judged::Right,
                    Some(_) => Judged::Wrong("body"),
                };
                Ok(Step::Done(Answer { judged, ..Answer::default() }))
            }
        }
    }

    fn closed(&mut self) -> Result<Step, Broken> {
        Err(Broken::CutShort)
    }

    fn renew(&mut self) {
        self.written = self.request().len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OK: Step = Step::Done(Answer { status: None, last: false, judged: Judged::Not });

    fn template(send: Sent, until: Ending, expected: Option<&str>) -> Result<RawTemplate, Wrong> {
        RawTemplate::new(&send, &until, expected, &Given::of("a"))
    }

    fn text(text: &str) -> Sent {
        Sent::Text(text.into())
    }

    fn until(text: &str, times: u32) -> Ending {
        Ending { text: Some(text.into()), times: Some(times), ..Ending::default() }
    }

    fn length(at: u32, width: u8, endian: Endian, from: Option<u32>) -> Ending {
        let length = Some(LengthField { at, width, endian, from });
        Ending { length, ..Ending::default() }
    }

    /// What a session makes of this answer, whole.
    fn ended(until: Ending, answer: &[u8]) -> Result<Step, Broken> {
        let mut session = template(text("x"), until, None).unwrap().session();
        session.begin();
        session.received(answer)
    }

    fn sends(send: Sent) -> Result<Vec<u8>, Wrong> {
        let mut session = template(send, until("\n", 1), None)?.session();
        session.begin();
        Ok(session.unsent().to_vec())
    }

    #[test]
    fn a_request_is_text_with_escapes_and_templates_or_hexadecimal_or_a_file() {
        assert_eq!(sends(text("PING\\r\\n")).unwrap(), b"PING\r\n");
        assert_eq!(sends(text("\\x00\\xfF\\\\\\t\\0 {{counter:7}}")).unwrap(), b"\0\xff\\\t\0 7");
        assert_eq!(sends(Sent::Hex("0d 0A\nff".into())).unwrap(), b"\r\n\xff");
        assert_eq!(sends(Sent::Read((*b"{{uuid}}\\r").into())).unwrap(), b"{{uuid}}\\r");
    }

    #[test]
    fn what_can_t_be_sent_or_never_ends_is_told_what_to_write() {
        let says = |send, until| {
            let (key, wrong) = template(send, until, None).err().unwrap();
            format!("{key}: {wrong}")
        };
        for (send, piece) in [
            (text("a\\q"), "workload.send: `\\q` is no escape: write \\r"),
            (text("a\\"), "`\\` is no escape"),
            (text("\\x0g"), "`\\x0g` is no escape"),
            (text("\\x0"), "`\\x0` is no escape"),
            (text(""), "it is empty"),
            (text("{{no}}"), "`{{no}}` is no template"),
            (Sent::Hex("0d0".into()), "`0d0` is not hexadecimal: write two digits"),
            (Sent::Hex("zz".into()), "is not hexadecimal"),
        ] {
            let said = says(send, until("\n", 1));
            assert!(said.contains(piece), "{said}");
        }
        let bytes = |bytes| Ending { bytes: Some(Bytes(bytes)), ..Ending::default() };
        for (until, piece) in [
            (Ending::default(), "workload.until: nothing says how an answer ends"),
            (Ending { text: Some("\n".into()), ..bytes(3) }, "keep one of text, bytes and length"),
            (Ending { times: Some(2), ..bytes(3) }, "leave `times` out"),
            (bytes(0), "0 bytes are no answer"),
            (until("", 1), "an empty text ends nothing"),
            (length(0, 9, Endian::Big, None), "a number of 9 bytes"),
        ] {
            let said = says(text("x"), until);
            assert!(said.contains(piece), "{said}");
        }
    }

    #[test]
    fn an_answer_ends_with_a_text_or_with_its_last_time() {
        assert_eq!(ended(until("\\r\\n", 1), b"+PONG\r\n"), Ok(OK));
        assert_eq!(ended(until("\\r\\n", 2), b"$2\r\nhi\r\n"), Ok(OK));
        assert_eq!(ended(until("\\r\\n", 2), b"$2\r\nhi\r"), Ok(Step::More));
        assert_eq!(ended(until("\\r\\n", 1), b"$2\r\nhi\r\n"), Err(Broken::Extra(4)));
    }

    #[test]
    fn an_answer_ends_where_its_length_says() {
        use Endian::{Big, Little};
        assert_eq!(ended(length(0, 2, Big, None), b"\x00\x03abc"), Ok(OK));
        assert_eq!(ended(length(0, 2, Little, None), b"\x03\x00abc"), Ok(OK));
        assert_eq!(ended(length(0, 2, Big, None), b"\x00\x00"), Ok(OK));
        // It counts all of the answer, or what comes after a head that it is in.
        assert_eq!(ended(length(1, 1, Big, Some(0)), b"t\x04ab"), Ok(OK));
        assert_eq!(ended(length(1, 1, Big, Some(3)), b"t\x01hb"), Ok(OK));
        assert_eq!(ended(length(1, 1, Big, Some(3)), b"t\x01hbb"), Err(Broken::Extra(1)));
        assert_eq!(ended(length(0, 4, Big, Some(0)), b"\0\0\0\x03"), Err(Broken::NoLength(3)));
        let most = ended(length(0, 8, Big, None), &[0xff; 8]);
        assert_eq!(most, Err(Broken::NoLength(u64::MAX)));
    }

    #[test]
    fn a_right_answer_has_its_text_in_it() {
        let judged = |answer: &[u8]| {
            let made = template(text("x"), until("\n", 1), Some("PONG")).unwrap();
            let mut session = made.session();
            session.begin();
            match session.received(answer) {
                Ok(Step::Done(answer)) => answer.judged,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(judged(b"+PONG\n"), Judged::Right);
        assert_eq!(judged(b"-ERR\n"), Judged::Wrong("body"));
    }

    proptest! {
        #[test]
        fn where_an_answer_is_cut_makes_no_difference(cuts in proptest::collection::vec(0usize..40, 0..6)) {
            for (until, answer) in [
                (until("ab\\r\\n", 2), &b"aab\r\nbab\raab\r\n"[..]),
                (length(2, 4, Endian::Little, Some(8)), b"hh\x05\0\0\0..12345"),
                (Ending { bytes: Some(Bytes(9)), ..Ending::default() }, b"123456789"),
            ] {
                let mut session = template(text("x"), until, None).unwrap().session();
                session.begin();
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % answer.len()).collect();
                cuts.push(answer.len());
                cuts.sort_unstable();
                let (mut from, mut last) = (0, Ok(Step::More));
                for cut in cuts.into_iter().filter(|cut| *cut > 0) {
                    if cut > from {
                        prop_assert_eq!(&last, &Ok(Step::More));
                        last = session.received(&answer[from..cut]);
                        from = cut;
                    }
                }
                prop_assert_eq!(last, Ok(OK));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6), from in 0u32..20) {
            for until in [until("ab", 2), length(2, 8, Endian::Little, Some(from)), length(0, 1, Endian::Big, None)] {
                let mut session = template(text("x"), until, None).unwrap().session();
                session.begin();
                for piece in &pieces {
                    if !matches!(session.received(piece), Ok(Step::More)) {
                        break;
                    }
                }
            }
        }
    }
}
