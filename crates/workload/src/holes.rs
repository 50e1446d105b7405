//! Texts with holes, `{{...}}`, that are filled in anew for each request.
//!
//! Compiled once: a variable of the environment is text by then. What is left is filled into a buffer that the
//! session keeps, so that nothing is allocated once it is as long as the longest request.

use std::ops::Range;

use crate::counter::Counter;

/// What may stand in a text, for those that wrote something else.
const NAMES: &str = "counter, random:1-1000, hex:16, uuid or env:NAME";

// Chosen: eight times what identifiers have.
const MOST_HEX: u32 = 256;

/// Where a text stands, and so what a variable's value may not have in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Path,
    Header,
    Body,
}

impl Place {
    /// What is wrong with a value there.
    fn refuses(self, value: &str) -> Option<&'static str> {
        let any = |bad: fn(u8) -> bool| value.bytes().any(bad);
        match self {
            Place::Path if any(|byte| byte <= b' ' || byte == 0x7f) => {
                Some("its value has a space or a line end in it, which no path may have: write %20")
            }
            Place::Header if any(|byte| matches!(byte, b'\r' | b'\n' | 0)) => {
                Some("its value is more than one line, which no header may be: write one")
            }
            _ => None,
        }
    }
}

/// Texts side by side, and the holes in them.
#[derive(Debug, Default)]
pub(crate) struct Holed {
    pub bytes: Vec<u8>,
    pub holes: Vec<Hole>,
}

/// Something that is put in before a byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hole {
    at: u32,
    what: What,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum What {
    /// The request's number, from this one on; the same in all of one request.
    Counter(u64),
    /// A whole number, these two among them.
    Random(u64, u64),
    /// So many hexadecimal digits.
    Hex(u32),
    /// Of version 4. Source: RFC 9562, 5.4.
    Uuid,
    /// How long is what comes after [`What::Body`], in so many letters.
    Length(u8),
    /// The body begins.
    Body,
}

impl What {
    /// The most letters of it.
    fn longest(self) -> usize {
        match self {
            What::Counter(_) => digits(u64::MAX),
            What::Random(_, last) => digits(last),
            What::Hex(count) => count as usize,
            What::Uuid => 36,
            What::Length(letters) => letters.into(),
            What::Body => 0,
        }
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

impl Holed {
    /// Whether nothing would be sent.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.holes.is_empty()
    }

    /// Adds bytes as they are.
    pub fn put(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part.as_bytes()));
    }

    /// Adds a text that may have holes.
    pub fn put_holed(
        &mut self,
        text: &[u8],
        place: Place,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        let mut rest = text;
        while let Some(at) = rest.windows(2).position(|pair| pair == b"{{") {
            self.bytes.extend_from_slice(&rest[..at]);
            let after = &rest[at + 2..];
            if let Some(after) = after.strip_prefix(b"{{") {
                self.bytes.extend_from_slice(b"{{");
                rest = after;
                continue;
            }
            let Some(end) = after.windows(2).position(|pair| pair == b"}}") else {
                // Chosen: as much of it as tells which one it is.
                let from = String::from_utf8_lossy(&rest[at..rest.len().min(at + 20)]);
                return Err(format!(
                    "`{from}` is not closed: write }}}} after {NAMES}, or {{{{{{{{ for two braces"
                ));
            };
            let name = String::from_utf8_lossy(&after[..end]);
            self.put_named(name.trim(), place, variable)?;
            rest = &after[end + 2..];
        }
        self.bytes.extend_from_slice(rest);
        Ok(())
    }

    fn put_named(
        &mut self,
        name: &str,
        place: Place,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("`{{{{{name}}}}}`: {why}"));
        let (kind, of) = name.split_once(':').map_or((name, None), |(kind, of)| (kind, Some(of)));
        let what = match (kind, of) {
            ("counter", None) => What::Counter(1),
            ("counter", Some(first)) => match first.parse() {
                Ok(first) => What::Counter(first),
                Err(_) => return wrong("the first is no whole number: write counter:1000"),
            },
            ("random", of) => {
                let range = of.and_then(|of| of.split_once('-'));
                let range =
                    range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
                match range {
                    Some((first, last)) if first <= last => What::Random(first, last),
                    _ => return wrong("names no range: write random:1-1000"),
                }
            }
            ("hex", of) => match of.and_then(|of| of.parse().ok()) {
                Some(count @ 1..=MOST_HEX) => What::Hex(count),
                _ => return wrong("names no number of digits from 1 to 256: write hex:16"),
            },
            ("uuid", None) => What::Uuid,
            ("env", Some(of)) => {
                let Some(value) = variable(of) else {
                    return wrong(&format!(
                        "the environment has no text by this name: set {of}, or write another name"
                    ));
                };
                if let Some(why) = place.refuses(&value) {
                    return wrong(why);
                }
                self.put(&[&value]);
                return Ok(());
            }
            _ => {
                return Err(format!(
                    "`{{{{{name}}}}}` is no template: write {NAMES} between the braces, or {{{{{{{{ for two braces"
                ));
            }
        };
        self.hole(what);
        Ok(())
    }

    /// Adds the body that a length stands for.
    pub fn put_body(&mut self, body: &Holed) {
        self.hole(What::Body);
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&body.bytes);
        let holes = body.holes.iter();
        self.holes.extend(holes.map(|hole| Hole { at: from + hole.at, what: hole.what }));
    }

    /// Adds the length of this body.
    pub fn put_length(&mut self, body: &Holed) {
        let holes: usize = body.holes.iter().map(|hole| hole.what.longest()).sum();
        let most = (body.bytes.len() + holes) as u64;
        self.hole(What::Length(digits(most) as u8));
    }

    fn hole(&mut self, what: What) {
        self.holes.push(Hole { at: self.bytes.len() as u32, what });
    }

    /// Fills the holes of one text into a buffer: a request's. Without holes the buffer stays empty.
    #[inline]
    pub fn fill(
        &self,
        text: Range<usize>,
        holes: Range<usize>,
        counter: &Counter,
        random: &mut fastrand::Rng,
        into: &mut Vec<u8>,
    ) {
        into.clear();
        if holes.is_empty() {
            return;
        }
        let mut number = None;
        let (mut length, mut body) = (0..0, 0);
        let mut from = text.start;
        for Hole { at, what } in &self.holes[holes] {
            into.extend_from_slice(&self.bytes[from..*at as usize]);
            from = *at as usize;
            match what {
                What::Counter(first) => {
                    let counted = *number.get_or_insert_with(|| counter.next());
                    decimal(first.wrapping_add(counted), into);
                }
                What::Random(first, last) => decimal(random.u64(*first..=*last), into),
                What::Hex(count) => hexadecimal(*count as usize, random, into),
                What::Uuid => uuid([random.u64(..), random.u64(..)], into),
                What::Length(letters) => {
                    length = into.len()..into.len() + usize::from(*letters);
                    // Spaces in front of a value mean nothing. Source: RFC 9110, 5.5.
                    into.resize(length.end, b' ');
                }
                What::Body => body = into.len(),
            }
        }
        into.extend_from_slice(&self.bytes[from..text.end]);
        if !length.is_empty() {
            let bytes = into.len() - body;
            digits_before(&mut into[length], bytes as u64);
        }
    }
}

/// Writes a number so that it ends where the letters do: how many it took.
fn digits_before(letters: &mut [u8], mut number: u64) -> usize {
    let mut at = letters.len();
    loop {
        at -= 1;
        letters[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return letters.len() - at;
        }
    }
}

fn decimal(number: u64, into: &mut Vec<u8>) {
    // As many as 2^64 has.
    let mut letters = [0; 20];
    let count = digits_before(&mut letters, number);
    into.extend_from_slice(&letters[letters.len() - count..]);
}

fn hexadecimal(count: usize, random: &mut fastrand::Rng, into: &mut Vec<u8>) {
    let from = into.len();
    into.resize(from + count, 0);
    into[from..].chunks_mut(16).for_each(|letters| hex_digits(random.u64(..), letters));
}

/// Writes as many of a number's digits as there are letters, the last ones first.
fn hex_digits(mut number: u64, letters: &mut [u8]) {
    for letter in letters.iter_mut().rev() {
        *letter = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

fn uuid([first, last]: [u64; 2], into: &mut Vec<u8>) {
    let first = first & !0xf000 | 0x4000;
    let last = last & !(0x3 << 62) | 0x2 << 62;
    let mut letters = [b'-'; 36];
    for (number, group) in [
        (first >> 32, 0..8),
        (first >> 16, 9..13),
        (first, 14..18),
        (last >> 48, 19..23),
        (last, 24..36),
    ] {
        hex_digits(number, &mut letters[group]);
    }
    into.extend_from_slice(&letters);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holed(text: &str) -> Result<Holed, String> {
        let mut holed = Holed::default();
        let variable = |name: &str| match name {
            "TOKEN" => Some("t-1 {{uuid}}".to_owned()),
            "LINES" => Some("a\r\nb".to_owned()),
            _ => None,
        };
        holed.put_holed(text.as_bytes(), Place::Header, &variable).map(|()| holed)
    }

    fn filled(holed: &Holed, counter: &Counter, random: &mut fastrand::Rng) -> String {
        let mut into = Vec::new();
        let (text, holes) = (0..holed.bytes.len(), 0..holed.holes.len());
        holed.fill(text, holes, counter, random, &mut into);
        String::from_utf8(into).unwrap()
    }

    /// The first so many requests of this text.
    fn requests(text: &str, count: usize) -> Vec<String> {
        let (holed, counter) = (holed(text).unwrap(), Counter::default());
        let mut random = fastrand::Rng::with_seed(7);
        (0..count).map(|_| filled(&holed, &counter, &mut random)).collect()
    }

    #[test]
    fn a_counter_is_the_requests_number_wherever_it_stands_in_it() {
        let text = "/{{counter}}?a={{ counter:1000 }}&b={{counter}}";
        assert_eq!(requests(text, 3), ["/1?a=1000&b=1", "/2?a=1001&b=2", "/3?a=1002&b=3"]);
        assert_eq!(requests("{{counter:18446744073709551615}}", 2), ["18446744073709551615", "0"]);
    }

    #[test]
    fn random_values_are_in_their_range_each_its_own_and_the_same_by_the_seed() {
        let text = "{{random:7-9}} {{random:0-18446744073709551615}} {{hex:20}} {{random:5-5}}";
        let all = requests(text, 300);
        assert_eq!(all, requests(text, 300));
        let column = |at: usize| {
            let mut column: Vec<&str> =
                all.iter().map(|one| one.split(' ').nth(at).unwrap()).collect();
            column.sort_unstable();
            column.dedup();
            column
        };
        assert_eq!(column(0), ["7", "8", "9"]);
        assert_eq!(column(1).len(), 300);
        assert!(column(2).iter().all(|hex| hex.len() == 20
            && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))));
        assert_eq!((column(2).len(), column(3)), (300, vec!["5"]));
    }

    #[test]
    fn a_uuid_has_its_version_and_variant_and_all_other_bits_drawn() {
        let text = |drawn| {
            let mut into = Vec::new();
            uuid(drawn, &mut into);
            String::from_utf8(into).unwrap()
        };
        assert_eq!(text([0; 2]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(text([u64::MAX; 2]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(requests("{{uuid}}", 1)[0].len(), What::Uuid.longest());
    }

    #[test]
    fn a_variable_is_text_once_it_is_compiled_and_two_pairs_of_braces_are_one() {
        let holed = holed("Bearer {{env:TOKEN}} {{{{counter}}").unwrap();
        assert_eq!(holed.bytes, b"Bearer t-1 {{uuid}} {{counter}}");
        assert!(holed.holes.is_empty());
        let nothing = filled(&holed, &Counter::default(), &mut fastrand::Rng::with_seed(1));
        assert_eq!(nothing, "");
    }

    #[test]
    fn what_is_no_template_is_told_what_to_write_and_no_value_is_shown() {
        for (text, says) in [
            ("a {{conter}}", "`{{conter}}` is no template: write counter, random:1-1000, hex:16"),
            ("{{}}", "`{{}}` is no template"),
            ("{{uuid:4}}", "is no template"),
            ("{{counter", "`{{counter` is not closed: write }}"),
            ("{{counter:a}}", "write counter:1000"),
            ("{{random}}", "`{{random}}`: names no range: write random:1-1000"),
            ("{{random:9-1}}", "names no range"),
            ("{{hex:0}}", "write hex:16"),
            ("{{hex:257}}", "write hex:16"),
            ("{{env:NONE}}", "`{{env:NONE}}`: the environment has no text by this name: set NONE"),
            ("{{env:LINES}}", "`{{env:LINES}}`: its value is more than one line"),
        ] {
            let error = holed(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let mut path = Holed::default();
        let error = path.put_holed(b"/{{env:A}}", Place::Path, &|_| Some("a b".into()));
        assert!(error.unwrap_err().contains("write %20"));
    }

    #[test]
    fn a_length_is_of_the_body_as_it_is_filled() {
        let body = holed("{\"n\": {{random:9-10}}}").unwrap();
        let mut request = Holed::default();
        request.put(&["Content-Length: "]);
        request.put_length(&body);
        request.put(&["\r\n\r\n"]);
        request.put_body(&body);
        let (counter, mut random) = (Counter::default(), fastrand::Rng::with_seed(7));
        let mut all: Vec<_> = (0..20).map(|_| filled(&request, &counter, &mut random)).collect();
        all.sort_unstable();
        all.dedup();
        // 7 letters and a digit, or two: 9 at most, which is one letter of length; 10 at most would be two.
        assert_eq!(
            all,
            ["Content-Length: 8\r\n\r\n{\"n\": 9}", "Content-Length: 9\r\n\r\n{\"n\": 10}"]
        );
        let body = holed("..{{random:0-12345678}}").unwrap();
        let mut request = Holed::default();
        request.put_length(&body);
        request.put_body(&body);
        let filled = filled(&request, &counter, &mut fastrand::Rng::with_seed(3));
        let (length, rest) = filled.split_at(2);
        assert_eq!(length.trim().parse::<usize>(), Ok(rest.len()), "{filled}");
    }
}
