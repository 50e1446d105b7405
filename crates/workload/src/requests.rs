//! Requests of a plan or of an NDJSON file, rendered once into one stretch of memory, with holes for what is another
//! at each request.
//!
//! A line is an object: `path`, and if need be `method`, `headers`, `body` (a text, or JSON that is sent as such),
//! `weight`, and of a right answer `status` and `answer` (a text in its body). What a line leaves out is the plan's.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use linerate_model::{Expected, Order, Statuses};
use serde::Deserialize;
use serde_json::Value;

use crate::Given;
use crate::counter::{Counter, Part};
use crate::holes::{Holed, Place};
use crate::matching::Text;
use crate::session::Judged;

/// What lines of a file leave out.
pub(crate) struct Defaults<'a> {
    pub method: &'a str,
    pub host: &'a str,
    pub headers: &'a [(String, String)],
    pub close: bool,
    pub expected: &'a Expected,
}

/// One request, before it is rendered.
pub(crate) struct Asked<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// None: among the headers.
    pub host: Option<&'a str>,
    pub headers: Vec<(&'a str, &'a str)>,
    pub close: bool,
    pub body: Payload<'a>,
}

/// A request's body.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    None,
    /// With holes, if it has some.
    Text(&'a str),
    AsItIs(&'a [u8]),
}

/// Requests that can't be made.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadRequests {
    /// A line of a file.
    #[error("line {line}, column {column}: {wrong}")]
    Line {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong, and what to write.
        wrong: String,
    },
    /// The plan's own.
    #[error("{key}: {wrong}")]
    Plan {
        /// The dotted key.
        key: &'static str,
        /// What is wrong, and what to write.
        wrong: String,
    },
}

/// Requests, each whole as it is written but for its holes.
pub(crate) struct List {
    texts: Holed,
    entries: Vec<Entry>,
    expected: Vec<Right>,
    /// Whether answers are judged at all: the plan or a line says what a right one is.
    pub judges: bool,
    choosing: Choosing,
    /// Requests with a counter so far.
    counted: Counter,
}

/// What a right answer is, ready to be looked for.
struct Right {
    status: Option<Statuses>,
    body: Option<Text>,
}

impl Right {
    fn of(expected: &Expected) -> Self {
        let body = expected.body.as_deref().filter(|text| !text.is_empty());
        let body = body.map(|text| Text::new(text.as_bytes()));
        Self { status: expected.status.clone(), body }
    }
}

struct Entry {
    from: u32,
    length: u32,
    /// Its first hole, by its place among all; its last is before the next entry's first.
    holes: u32,
    /// Its place in the list's expectations.
    expected: u16,
    /// An answer to HEAD has a length and no body.
    head: bool,
}

impl Entry {
    fn bytes(&self) -> Range<usize> {
        let from = self.from as usize;
        from..from + self.length as usize
    }
}

enum Choosing {
    One,
    /// Places in the order of asking, and the next of them; empty: as they stand.
    Turn(Vec<u32>, Counter),
    /// Weights summed up.
    Weighted(Vec<u64>),
}

/// One line. Texts are borrowed where nothing in them is escaped.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<Value>,
    #[serde(default)]
    weight: Option<u64>,
    #[serde(default)]
    status: Option<Statuses>,
    #[serde(default)]
    answer: Option<String>,
}

/// Where no status is expected, an answer is wrong from this one on. Source: RFC 9110, 15.5.
const FIRST_ERROR: u16 = 400;

// Chosen: a 16-bit place is enough for what a service answers, and keeps a line short.
const MOST_EXPECTED: usize = 1 << 16;

/// What a line may look like, for those that do not.
const EXAMPLE: &str = r#"write for example {"method": "POST", "path": "/a", "body": "text"}"#;

impl List {
    fn new(expected: &Expected, part: Part) -> Self {
        Self {
            texts: Holed::default(),
            entries: Vec::new(),
            judges: !expected.is_anything(),
            expected: vec![Right::of(expected)],
            choosing: Choosing::One,
            counted: Counter::new(part),
        }
    }

    /// One request, as it is written.
    pub fn of_bytes(request: Vec<u8>) -> Self {
        let mut list = Self::new(&Expected::default(), Part::default());
        let length = request.len() as u32;
        list.texts.bytes = request;
        list.entries.push(Entry { from: 0, length, holes: 0, expected: 0, head: false });
        list
    }

    /// The plan's own, each with its weight.
    pub fn of_plan<'a>(
        all: impl Iterator<Item = (Asked<'a>, u64)>,
        expected: &Expected,
        given: &Given<'_>,
    ) -> Result<Self, BadRequests> {
        let mut list = Self::new(expected, given.part);
        let mut weights = Vec::new();
        for (asked, weight) in all {
            let added = list.add(&asked, 0, given);
            added.map_err(|(key, wrong)| BadRequests::Plan { key, wrong })?;
            weights.push(weights.last().copied().unwrap_or(0u64).saturating_add(weight));
        }
        if weights.len() > 1 {
            list.choosing = Choosing::Weighted(weights);
        }
        Ok(list)
    }

    /// Those of a file.
    pub fn parse(
        text: &[u8],
        order: Order,
        defaults: &Defaults<'_>,
        given: &Given<'_>,
    ) -> Result<Self, BadRequests> {
        let mut list = Self::new(defaults.expected, given.part);
        list.texts.bytes.reserve(text.len());
        let mut known = HashMap::from([(defaults.expected.clone(), 0)]);
        let mut weights = Vec::new();
        let mut sum = 0u64;
        for (index, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
            let bad =
                |column: usize, wrong: String| BadRequests::Line { line: index + 1, column, wrong };
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let line: Line<'_> = serde_json::from_slice(bytes).map_err(|error| {
                let says = error.to_string();
                let says = says.rsplit_once(" at line ").map_or(says.as_str(), |(says, _)| says);
                bad(error.column().max(1), format!("{says}; {EXAMPLE}"))
            })?;
            if line.weight.is_some() && order != Order::Weighted {
                let wrong = "`weight` counts in the order weighted only: write --order weighted, or leave it out";
                return Err(bad(1, wrong.into()));
            }
            if line.weight == Some(0) {
                return Err(bad(1, "`weight` 0 is never sent: write 1 or more".into()));
            }
            sum = sum.saturating_add(line.weight.unwrap_or(1));
            if order == Order::Weighted {
                weights.push(sum);
            }
            let added = list.add_line(line, &mut known, defaults, given);
            added.map_err(|wrong| bad(1, wrong))?;
        }
        let count = list.entries.len();
        list.choosing = match order {
            _ if count == 0 => {
                let wrong = format!("no requests in it: {EXAMPLE}, one a line");
                return Err(BadRequests::Line { line: 1, column: 1, wrong });
            }
            Order::Weighted => Choosing::Weighted(weights),
            Order::Turn => Choosing::Turn(Vec::new(), Counter::in_turn(given.part)),
            Order::Shuffled => {
                let mut places: Vec<u32> = (0..count as u32).collect();
                fastrand::Rng::with_seed(given.seed).shuffle(&mut places);
                Choosing::Turn(places, Counter::in_turn(given.part))
            }
        };
        list.texts.bytes.shrink_to_fit();
        list.texts.holes.shrink_to_fit();
        list.entries.shrink_to_fit();
        Ok(list)
    }

    fn add_line(
        &mut self,
        line: Line<'_>,
        known: &mut HashMap<Expected, u16>,
        defaults: &Defaults<'_>,
        given: &Given<'_>,
    ) -> Result<(), String> {
        let (body, is_json) = match line.body {
            None | Some(Value::Null) => (None, false),
            Some(Value::String(text)) => (Some(text), false),
            Some(json) => (Some(json.to_string()), true),
        };
        let default =
            if body.is_some() && defaults.method == "GET" { "POST" } else { defaults.method };
        let method = line.method.as_deref().unwrap_or(default);
        linerate_model::check_request(method, &line.path, line.headers.iter())
            .map_err(|(_, wrong)| wrong)?;
        let own = |name: &str| line.headers.keys().any(|own| own.eq_ignore_ascii_case(name));
        let of_plan = defaults.headers.iter().filter(|(name, _)| !own(name));
        let of_json =
            (is_json && !own("content-type")).then_some(("Content-Type", "application/json"));
        let expected = Expected {
            status: line.status.or_else(|| defaults.expected.status.clone()),
            body: line.answer.or_else(|| defaults.expected.body.clone()),
        };
        let asked = Asked {
            method,
            path: &line.path,
            host: (!own("host")).then_some(defaults.host),
            headers: of_plan
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .chain(line.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))
                .chain(of_json)
                .collect(),
            close: defaults.close,
            body: body.as_deref().map_or(Payload::None, Payload::Text),
        };
        let expected = self.expects(expected, known)?;
        self.add(&asked, expected, given).map_err(|(_, wrong)| wrong)
    }

    /// The place of a right answer among all.
    fn expects(
        &mut self,
        expected: Expected,
        known: &mut HashMap<Expected, u16>,
    ) -> Result<u16, String> {
        if let Some(place) = known.get(&expected) {
            return Ok(*place);
        }
        if self.expected.len() == MOST_EXPECTED {
            return Err(format!("more than {MOST_EXPECTED} kinds of right answers: write fewer"));
        }
        let place = self.expected.len() as u16;
        self.expected.push(Right::of(&expected));
        self.judges = true;
        known.insert(expected, place);
        Ok(place)
    }

    /// Renders a request; the error has the plan's key of what is wrong.
    fn add(
        &mut self,
        asked: &Asked<'_>,
        expected: u16,
        given: &Given<'_>,
    ) -> Result<(), (&'static str, String)> {
        let texts = &mut self.texts;
        let (from, holes) = (texts.bytes.len(), texts.holes.len());
        let holed = |texts: &mut Holed, text: &str, place, key| {
            texts.put_holed(text.as_bytes(), place, given.variable).map_err(|wrong| (key, wrong))
        };
        texts.put(&[asked.method, " "]);
        holed(texts, asked.path, Place::Path, "workload.path")?;
        texts.put(&[" HTTP/1.1\r\n"]);
        if let Some(host) = asked.host {
            texts.put(&["Host: ", host, "\r\n"]);
        }
        for (name, value) in &asked.headers {
            texts.put(&[name, ": "]);
            holed(texts, value, Place::Header, "workload.headers")?;
            texts.put(&["\r\n"]);
        }
        if asked.close {
            texts.put(&["Connection: close\r\n"]);
        }
        let mut body = Holed::default();
        match asked.body {
            Payload::None | Payload::AsItIs(_) => {}
            Payload::Text(text) => holed(&mut body, text, Place::Body, "workload.body")?,
        }
        let plain = match asked.body {
            Payload::AsItIs(bytes) => bytes,
            _ => &body.bytes,
        };
        let has_body = !matches!(asked.body, Payload::None);
        if has_body || matches!(asked.method, "POST" | "PUT" | "PATCH") {
            texts.put(&["Content-Length: "]);
            match body.holes.as_slice() {
                [] => texts.put(&[&plain.len().to_string()]),
                _ => texts.put_length(&body),
            }
            texts.put(&["\r\n"]);
        }
        texts.put(&["\r\n"]);
        match body.holes.as_slice() {
            [] => texts.bytes.extend_from_slice(plain),
            _ => texts.put_body(&body),
        }
        let too_many = |_| {
            ("workload.requests", "these are more than 4GiB of requests: write fewer".to_owned())
        };
        self.entries.push(Entry {
            from: u32::try_from(from).map_err(too_many)?,
            length: u32::try_from(self.texts.bytes.len() - from).map_err(too_many)?,
            holes: u32::try_from(holes).map_err(too_many)?,
            expected,
            head: asked.method == "HEAD",
        });
        Ok(())
    }

    /// How many there are, for its tests.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    /// The place of the next request; `random` is the session's own.
    #[inline]
    pub fn next(&self, random: &mut fastrand::Rng) -> usize {
        match &self.choosing {
            Choosing::One => 0,
            Choosing::Turn(places, next) => {
                let at = (next.next() % self.entries.len() as u64) as usize;
                places.get(at).map_or(at, |place| *place as usize)
            }
            Choosing::Weighted(sums) => {
                let all = sums.last().copied().unwrap_or(1);
                let drawn = random.u64(..all);
                sums.partition_point(|sum| *sum <= drawn)
            }
        }
    }

    /// A request as it is written; of one with holes, what is between them.
    #[inline]
    pub fn request(&self, at: usize) -> &[u8] {
        &self.texts.bytes[self.entries[at].bytes()]
    }

    /// A request with its holes filled; one without them leaves the buffer empty.
    #[inline]
    pub fn fill(&self, at: usize, random: &mut fastrand::Rng, into: &mut Vec<u8>) {
        let entry = &self.entries[at];
        let last = self.entries.get(at + 1).map_or(self.texts.holes.len(), |it| it.holes as usize);
        let holes = entry.holes as usize..last;
        self.texts.fill(entry.bytes(), holes, &self.counted, random, into);
    }

    fn right(&self, at: usize) -> &Right {
        &self.expected[usize::from(self.entries[at].expected)]
    }

    /// Looks at a piece of a body: how much of what is to be in it was found, before and after.
    #[inline]
    pub fn look(&self, at: usize, found: usize, piece: &[u8]) -> usize {
        self.right(at).body.as_ref().map_or(0, |text| text.on(found, piece))
    }

    /// Whether an answer of this status, in whose body so much was found, is right.
    #[inline]
    pub fn judge(&self, at: usize, status: Option<u16>, found: usize) -> Judged {
        if !self.judges {
            return Judged::Not;
        }
        let right = self.right(at);
        let status = status.unwrap_or(0);
        let is_right = right.status.as_ref().map_or(status < FIRST_ERROR, |all| all.has(status));
        match &right.body {
            _ if !is_right => Judged::Wrong("status"),
            Some(text) if !text.is_found(found) => Judged::Wrong("body"),
            _ => Judged::Right,
        }
    }

    /// Whether it is answered without a body.
    #[inline]
    pub fn is_head(&self, at: usize) -> bool {
        self.entries[at].head
    }

    /// Memory that it takes, for its test.
    #[cfg(test)]
    fn size(&self) -> usize {
        self.texts.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(expected: &Expected) -> Defaults<'_> {
        Defaults { method: "GET", host: "a:80", headers: &[], close: false, expected }
    }

    fn parse(text: &str, order: Order) -> Result<List, BadRequests> {
        List::parse(text.as_bytes(), order, &defaults(&Expected::default()), &Given::of(""))
    }

    fn asked(list: &List, count: usize) -> Vec<usize> {
        let mut random = fastrand::Rng::with_seed(7);
        (0..count).map(|_| list.next(&mut random)).collect()
    }

    #[test]
    fn a_line_is_a_request_and_what_it_leaves_out_is_the_plans() {
        let text = r#"{"path": "/a"}

            {"method": "PUT", "path": "/b?c=d", "headers": {"x-a": "own"}, "body": "h\u00e9"}
            {"path": "/c", "body": {"k": [1]}, "status": "201", "answer": "made"}
        "#;
        let expected = Expected { status: "2xx".parse().ok(), body: None };
        let headers = [("X-A".to_owned(), "plan's".to_owned()), ("B".to_owned(), "c".to_owned())];
        let of = Defaults { headers: &headers, ..defaults(&expected) };
        let list = List::parse(text.as_bytes(), Order::Turn, &of, &Given::of("")).unwrap();
        let says = |at| std::str::from_utf8(list.request(at)).unwrap().to_owned();
        assert_eq!(says(0), "GET /a HTTP/1.1\r\nHost: a:80\r\nX-A: plan's\r\nB: c\r\n\r\n");
        assert_eq!(
            says(1),
            "PUT /b?c=d HTTP/1.1\r\nHost: a:80\r\nB: c\r\nx-a: own\r\nContent-Length: 3\r\n\r\nh\u{e9}"
        );
        assert!(says(2).starts_with("POST /c HTTP/1.1\r\n"));
        assert!(
            says(2).ends_with(
                "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"k\":[1]}"
            )
        );
        assert_eq!(list.judge(0, Some(204), 0), Judged::Right);
        assert_eq!(list.judge(0, Some(304), 0), Judged::Wrong("status"));
        assert_eq!(list.judge(2, Some(200), 4), Judged::Wrong("status"));
        let found = list.look(2, list.look(2, 0, b"it was ma"), b"de");
        assert_eq!(list.judge(2, Some(201), found), Judged::Right);
        assert_eq!(list.judge(2, Some(201), list.look(2, 0, b"mad")), Judged::Wrong("body"));
        // Nobody said what is right.
        assert_eq!(
            parse("{\"path\": \"/\"}", Order::Turn).unwrap().judge(0, Some(500), 0),
            Judged::Not
        );
    }

    #[test]
    fn a_line_with_holes_is_filled_in_anew_and_one_without_stays_as_it_is() {
        let text = r#"{"path": "/a/{{counter}}", "headers": {"X-Id": "{{random:5-5}}"}}
            {"path": "/b"}
            {"path": "/c", "body": {"n": "{{counter:100}}", "k": "{{env:K}}"}}"#;
        let given = Given { variable: &|_| Some("of K".into()), ..Given::of("") };
        let expected = Expected::default();
        let list = List::parse(text.as_bytes(), Order::Turn, &defaults(&expected), &given).unwrap();
        let (mut random, mut filled) = (fastrand::Rng::with_seed(7), Vec::new());
        let mut says = |at| {
            list.fill(at, &mut random, &mut filled);
            String::from_utf8(filled.clone()).unwrap()
        };
        assert_eq!(says(0), "GET /a/1 HTTP/1.1\r\nHost: a:80\r\nX-Id: 5\r\n\r\n");
        assert_eq!(says(1), "");
        assert_eq!(
            says(2),
            "POST /c HTTP/1.1\r\nHost: a:80\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n\
             {\"n\":\"101\",\"k\":\"of K\"}"
        );
        assert!(says(0).starts_with("GET /a/3 "));
    }

    #[test]
    fn what_is_no_line_is_told_by_line_and_column_with_what_to_write() {
        let says = |text: &str| parse(text, Order::Turn).err().unwrap().to_string();
        let error = says("{\"path\": \"/\"}\n{\"path\": \"/\", \"metod\": \"GET\"}\n");
        assert!(error.starts_with("line 2, column "), "{error}");
        assert!(error.contains("unknown field `metod`, expected one of `method`"), "{error}");
        assert!(says("{\"path\"").contains("EOF while parsing"));
        assert!(says("{\"method\": \"GET\"}").contains("missing field `path`; write for example"));
        assert!(says("[1]").starts_with("line 1, column "));
        assert!(says("\n \n").contains("no requests in it"));
        assert!(says("{\"path\": \"/a b\"}").contains("has a space in it"));
        assert!(says("{\"path\": \"/\", \"method\": \"G T\"}").contains("is no method"));
        assert!(
            says("{\"path\": \"/\", \"headers\": {\"a\": \"b\\nc\"}}").contains("is no header")
        );
        assert!(says("{\"path\": \"/\", \"status\": \"6xx\"}").contains("is no status"));
        assert!(says("{\"path\": \"/\", \"weight\": 2}").contains("write --order weighted"));
        let zero = parse("{\"path\": \"/\", \"weight\": 0}", Order::Weighted).err().unwrap();
        assert!(zero.to_string().contains("`weight` 0 is never sent"));
        // What is not UTF-8.
        let list = List::parse(
            b"{\"path\": \"/\xff\"}",
            Order::Turn,
            &defaults(&Expected::default()),
            &Given::of(""),
        );
        assert!(list.is_err());
        assert!(says("{\"path\": \"/{{conter}}\"}").starts_with("line 1, column 1: `{{conter}}`"));
    }

    #[test]
    fn they_are_asked_in_turn_shuffled_or_by_weight() {
        let text =
            "{\"path\": \"/a\"}\n{\"path\": \"/b\"}\n{\"path\": \"/c\"}\n{\"path\": \"/d\"}\n";
        assert_eq!(asked(&parse(text, Order::Turn).unwrap(), 6), [0, 1, 2, 3, 0, 1]);
        let shuffled = asked(&parse(text, Order::Shuffled).unwrap(), 8);
        let mut all = shuffled[..4].to_vec();
        all.sort_unstable();
        assert_eq!((all.as_slice(), &shuffled[..4]), (&[0, 1, 2, 3][..], &shuffled[4..]));
        let text = "{\"path\": \"/a\", \"weight\": 3}\n{\"path\": \"/b\"}\n";
        let drawn = asked(&parse(text, Order::Weighted).unwrap(), 40_000);
        let first = drawn.iter().filter(|at| **at == 0).count() as f64;
        // Binomial, p = 3/4: a standard deviation is 87 of 30 000.
        assert!((first - 30_000.0).abs() < 5.0 * 87.0, "{first}");
    }

    #[test]
    fn a_line_takes_no_more_than_it_must() {
        let text: String = (0..10_000).map(|n| format!("{{\"path\": \"/items/{n}\"}}\n")).collect();
        let list = parse(&text, Order::Turn).unwrap();
        assert_eq!(list.len(), 10_000);
        assert!(list.size() <= 200 * list.len(), "{}", list.size());
    }
}
