//! Requests of an NDJSON file, rendered once into one stretch of memory.
//!
//! A line is an object: `path`, and if need be `method`, `headers`, `body` (a text, or JSON that is sent as such),
//! `weight`, and of a right answer `status` and `answer` (a text in its body). What a line leaves out is the plan's.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use linerate_model::{Expected, Order, Statuses};
use serde::Deserialize;
use serde_json::Value;

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

/// A file that is none of requests.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}: {wrong}")]
pub struct BadRequests {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// What is wrong, and what to write.
    pub wrong: String,
}

/// Requests, each whole as it is written.
pub(crate) struct List {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    expected: Vec<Right>,
    /// Whether answers are judged at all: the plan or a line says what a right one is.
    pub judges: bool,
    choosing: Choosing,
}

/// What a right answer is, ready to be looked for.
struct Right {
    status: Option<Statuses>,
    body: Option<Text>,
}

impl Right {
    fn of(expected: &Expected) -> Self {
        let body = expected.body.as_deref().filter(|text| !text.is_empty()).map(Text::new);
        Self { status: expected.status.clone(), body }
    }
}

struct Entry {
    from: u32,
    length: u32,
    /// Its place in the list's expectations.
    expected: u16,
    /// An answer to HEAD has a length and no body.
    head: bool,
}

enum Choosing {
    One,
    /// Places in the order of asking, and the next of them; empty: as they stand.
    Turn(Vec<u32>, AtomicUsize),
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
    /// One request, as it is written.
    pub fn one(request: Vec<u8>, head: bool, expected: Expected) -> Self {
        let length = request.len() as u32;
        Self {
            bytes: request,
            entries: vec![Entry { from: 0, length, expected: 0, head }],
            judges: !expected.is_anything(),
            expected: vec![Right::of(&expected)],
            choosing: Choosing::One,
        }
    }

    /// Those of a file.
    pub fn parse(
        text: &[u8],
        order: Order,
        seed: u64,
        defaults: &Defaults<'_>,
    ) -> Result<Self, BadRequests> {
        let mut list = Self {
            bytes: Vec::with_capacity(text.len()),
            entries: Vec::new(),
            judges: !defaults.expected.is_anything(),
            expected: vec![Right::of(defaults.expected)],
            choosing: Choosing::One,
        };
        let mut known = HashMap::from([(defaults.expected.clone(), 0)]);
        let mut weights = Vec::new();
        let mut sum = 0u64;
        for (index, bytes) in text.split(|byte| *byte == b'\n').enumerate() {
            let bad = |column: usize, wrong: String| BadRequests { line: index + 1, column, wrong };
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
                return Err(bad(1, "`weight` 0 is never asked: write 1 or more".into()));
            }
            sum = sum.saturating_add(line.weight.unwrap_or(1));
            if order == Order::Weighted {
                weights.push(sum);
            }
            list.add(line, &mut known, defaults).map_err(|wrong| bad(1, wrong))?;
        }
        let count = list.entries.len();
        list.choosing = match order {
            _ if count == 0 => {
                let wrong = format!("no requests in it: {EXAMPLE}, one a line");
                return Err(BadRequests { line: 1, column: 1, wrong });
            }
            Order::Weighted => Choosing::Weighted(weights),
            Order::Turn => Choosing::Turn(Vec::new(), AtomicUsize::new(0)),
            Order::Shuffled => {
                let mut places: Vec<u32> = (0..count as u32).collect();
                fastrand::Rng::with_seed(seed).shuffle(&mut places);
                Choosing::Turn(places, AtomicUsize::new(0))
            }
        };
        list.bytes.shrink_to_fit();
        list.entries.shrink_to_fit();
        Ok(list)
    }

    fn add(
        &mut self,
        line: Line<'_>,
        known: &mut HashMap<Expected, u16>,
        defaults: &Defaults<'_>,
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
        let from = self.bytes.len();
        let given = |name: &str| line.headers.keys().any(|own| own.eq_ignore_ascii_case(name));
        let mut head = Head { bytes: &mut self.bytes };
        head.put(&[method, " ", &line.path, " HTTP/1.1\r\n"]);
        if !given("host") {
            head.put(&["Host: ", defaults.host, "\r\n"]);
        }
        for (name, value) in defaults.headers.iter().filter(|(name, _)| !given(name)) {
            head.put(&[name, ": ", value, "\r\n"]);
        }
        for (name, value) in &line.headers {
            head.put(&[name, ": ", value, "\r\n"]);
        }
        if is_json && !given("content-type") {
            head.put(&["Content-Type: application/json\r\n"]);
        }
        if defaults.close {
            head.put(&["Connection: close\r\n"]);
        }
        if body.is_some() || matches!(method, "POST" | "PUT" | "PATCH") {
            let length = body.as_ref().map_or(0, String::len).to_string();
            head.put(&["Content-Length: ", &length, "\r\n"]);
        }
        head.put(&["\r\n", body.as_deref().unwrap_or("")]);
        let too_many = || "these are more than 4GiB of requests: write fewer".to_owned();
        let expected = Expected {
            status: line.status.or_else(|| defaults.expected.status.clone()),
            body: line.answer.or_else(|| defaults.expected.body.clone()),
        };
        let expected = match known.get(&expected) {
            Some(place) => *place,
            None if self.expected.len() == MOST_EXPECTED => {
                return Err(format!(
                    "more than {MOST_EXPECTED} kinds of right answers: write fewer"
                ));
            }
            None => {
                let place = self.expected.len() as u16;
                self.expected.push(Right::of(&expected));
                self.judges = true;
                known.insert(expected, place);
                place
            }
        };
        self.entries.push(Entry {
            from: u32::try_from(from).map_err(|_| too_many())?,
            length: u32::try_from(self.bytes.len() - from).map_err(|_| too_many())?,
            expected,
            head: method == "HEAD",
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
                let at = next.fetch_add(1, Ordering::Relaxed) % self.entries.len();
                places.get(at).map_or(at, |place| *place as usize)
            }
            Choosing::Weighted(sums) => {
                let all = sums.last().copied().unwrap_or(1);
                let drawn = random.u64(..all);
                sums.partition_point(|sum| *sum <= drawn)
            }
        }
    }

    /// A request as it is written.
    #[inline]
    pub fn request(&self, at: usize) -> &[u8] {
        let Entry { from, length, .. } = &self.entries[at];
        &self.bytes[*from as usize..][..*length as usize]
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
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

struct Head<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Head<'_> {
    fn put(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(expected: &Expected) -> Defaults<'_> {
        Defaults { method: "GET", host: "a:80", headers: &[], close: false, expected }
    }

    fn parse(text: &str, order: Order) -> Result<List, BadRequests> {
        List::parse(text.as_bytes(), order, 1, &defaults(&Expected::default()))
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
        let list = List::parse(text.as_bytes(), Order::Turn, 1, &of).unwrap();
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
        assert!(zero.to_string().contains("`weight` 0 is never asked"));
        // What is not UTF-8.
        let list =
            List::parse(b"{\"path\": \"/\xff\"}", Order::Turn, 1, &defaults(&Expected::default()));
        assert!(list.is_err());
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
