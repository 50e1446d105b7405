//! `http`: HTTP/1.1 requests one after the other on a kept-alive connection.
//!
//! Requests are rendered once and shared; those with holes are filled in at each asking. Answers are read by `httparse` from whatever arrived; only
//! a head that was split between reads is kept. Bodies are counted, not kept.
//! Source: RFC 9112, sections 6 (message body length) and 7 (chunked).

use std::sync::Arc;

use linerate_model::{Body, Bytes, Requests, Workload};

use crate::counter::Counter;
use crate::requests::{Asked, BadRequests, Defaults, List, Payload};
use crate::session::{Answer, Broken, Judged, Session, Step, Template};
use crate::{Given, Kind};

mod chunked;

pub use chunked::Chunked;

/// See the module.
pub(crate) static KIND: Kind = Kind {
    name: "http",
    says: "HTTP/1.1 requests one after the other on kept-alive connections",
    template: |workload, given| {
        let list = list(workload, given)?;
        Some(list.map(|list| -> Arc<dyn Template> { Arc::new(HttpTemplate::of(list, given)) }))
    },
};

// Chosen: nginx and Apache accept 8 KiB of a request's head by default; answers' are smaller.
const LONGEST_HEAD: usize = 64 * 1024;

// Chosen: with longer bodies parsing a head costs nothing that shows.
const LONGEST_KNOWN: u64 = 4096;

// Chosen: twice what large sites send.
const MOST_HEADERS: usize = 128;

struct HttpTemplate {
    list: Arc<List>,
    seed: u64,
    /// Sessions made so far: each has random choices of its own.
    sessions: Counter,
}

/// The requests of a plan of this kind.
fn list(workload: &Workload, given: &Given<'_>) -> Option<Result<List, BadRequests>> {
    let Workload::Http {
        method,
        path,
        host,
        headers,
        body,
        close,
        also,
        weight,
        requests,
        expected,
    } = workload
    else {
        return None;
    };
    let host = host.as_deref().unwrap_or(given.authority);
    if let Some(Requests { order, contents, .. }) = requests {
        let defaults = Defaults { method, host, headers, close: *close, expected };
        let contents = contents.as_deref().unwrap_or(&[]);
        return Some(List::parse(contents, *order, &defaults, given));
    }
    let filler;
    let body = match body {
        Body::None => Payload::None,
        Body::Text(text) if text.is_empty() => Payload::None,
        Body::Text(text) => Payload::Text(text),
        Body::Read(bytes) if bytes.is_empty() => Payload::None,
        Body::Read(bytes) => Payload::AsItIs(bytes),
        Body::File(_) => unreachable!("whoever makes the load reads it first"),
        Body::Size(Bytes(0)) => Payload::None,
        Body::Size(Bytes(size)) => {
            filler = vec![b'.'; *size as usize];
            Payload::AsItIs(&filler)
        }
    };
    let asked = |path| Asked {
        method,
        path,
        host: Some(host),
        headers: headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        close: *close,
        body,
    };
    let all = std::iter::once((asked(path), *weight));
    let all = all.chain(also.iter().map(|one| (asked(&one.path), one.weight)));
    Some(List::of_plan(all, expected, given))
}

impl HttpTemplate {
    fn of(list: List, given: &Given<'_>) -> Self {
        Self { list: Arc::new(list), seed: given.seed, sessions: Counter::new(given.part) }
    }
}

impl Template for HttpTemplate {
    fn session(&self) -> Box<dyn Session> {
        let number = self.sessions.next();
        Box::new(HttpSession::of(Arc::clone(&self.list), crate::random_of(self.seed, number)))
    }
}

/// One connection's HTTP.
pub struct HttpSession {
    list: Arc<List>,
    /// The request that is asked, by its place in the list.
    at: usize,
    written: usize,
    random: fastrand::Rng,
    /// The request, where it has holes; empty: it stands in the list.
    filled: Vec<u8>,
    /// How much was found of what the answer's body is to hold.
    found: usize,
    /// The part of a head that came in an earlier read.
    split_head: Vec<u8>,
    expects: Expects,
    answer: Answer,
    known: Known,
}

/// The last head, to the letter, and what it meant: servers repeat theirs until the date changes.
#[derive(Default)]
struct Known {
    head: Vec<u8>,
    /// Whether it answered HEAD, whose length is that of no body.
    is_head: bool,
    length: u64,
    answer: Answer,
}

/// What of an answer comes next.
enum Expects {
    Head,
    Length(u64),
    Chunks(Chunked),
    Close,
}

impl HttpSession {
    /// A session that asks with these bytes; for tests and fuzzing.
    pub fn asking(request: &[u8]) -> Self {
        Self::of(Arc::new(List::of_bytes(request.to_vec())), crate::random_of(0, 0))
    }

    fn of(list: Arc<List>, random: fastrand::Rng) -> Self {
        Self {
            written: list.request(0).len(),
            at: 0,
            list,
            random,
            filled: Vec::new(),
            found: 0,
            split_head: Vec::new(),
            expects: Expects::Head,
            answer: Answer::default(),
            known: Known::default(),
        }
    }

    /// The request as it is written.
    #[inline]
    fn request(&self) -> &[u8] {
        match self.filled.as_slice() {
            [] => self.list.request(self.at),
            filled => filled,
        }
    }

    /// Reads a head at the front of `bytes`: its length when it is whole.
    fn head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        let is_head = self.list.is_head(self.at);
        if !self.known.head.is_empty()
            && self.known.is_head == is_head
            && bytes.starts_with(&self.known.head)
        {
            self.expects = Expects::Length(self.known.length);
            self.answer = self.known.answer;
            return Ok(Some(self.known.head.len()));
        }
        let mut headers = [const { std::mem::MaybeUninit::uninit() }; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut headers,
        );
        let head = match parsed {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) if bytes.len() > LONGEST_HEAD => {
                return Err(Broken::LongHead(LONGEST_HEAD));
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(Broken::NotHttp(start_of(bytes))),
        };
        let code = response.code.unwrap_or(0);
        // HTTP/1.0 closes unless it says otherwise.
        let mut last = response.version == Some(0);
        let mut expects = Expects::Close;
        for header in response.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                if !matches!(expects, Expects::Chunks(_)) {
                    expects = Expects::Length(length_of(header.value)?);
                }
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if contains_word(header.value, b"chunked") {
                    expects = Expects::Chunks(Chunked::default());
                }
            } else if header.name.eq_ignore_ascii_case("connection") {
                if contains_word(header.value, b"close") {
                    last = true;
                } else if contains_word(header.value, b"keep-alive") {
                    last = false;
                }
            }
        }
        if is_head || code / 100 == 1 || code == 204 || code == 304 {
            expects = Expects::Length(0);
        }
        if matches!(expects, Expects::Close) {
            last = true;
        }
        // 100 Continue and its like come before the answer.
        self.expects = if code / 100 == 1 && code != 101 { Expects::Head } else { expects };
        self.answer = Answer { status: Some(code), last, judged: Judged::Not };
        if let Expects::Length(length) = self.expects
            && length <= LONGEST_KNOWN
        {
            self.known.head.clear();
            self.known.head.extend_from_slice(&bytes[..head]);
            (self.known.length, self.known.answer) = (length, self.answer);
            self.known.is_head = is_head;
        }
        Ok(Some(head))
    }

    fn body(&mut self, bytes: &[u8]) -> Result<Step, Broken> {
        if self.list.judges && !matches!(self.expects, Expects::Chunks(_)) {
            self.found = self.list.look(self.at, self.found, bytes);
        }
        match &mut self.expects {
            Expects::Head | Expects::Close => Ok(Step::More),
            Expects::Length(left) => match (bytes.len() as u64).checked_sub(*left) {
                Some(0) => Ok(self.done()),
                Some(extra) => Err(Broken::Extra(extra as usize)),
                None => {
                    *left -= bytes.len() as u64;
                    Ok(Step::More)
                }
            },
            Expects::Chunks(chunked) => match chunked.take_with(bytes, |piece| {
                self.found = self.list.look(self.at, self.found, piece);
            })? {
                None => Ok(Step::More),
                Some(used) if used == bytes.len() => Ok(self.done()),
                Some(used) => Err(Broken::Extra(bytes.len() - used)),
            },
        }
    }

    fn done(&mut self) -> Step {
        self.expects = Expects::Head;
        let judged = self.list.judge(self.at, self.answer.status, self.found);
        Step::Done(Answer { judged, ..self.answer })
    }
}

impl Session for HttpSession {
    fn begin(&mut self) {
        self.at = self.list.next(&mut self.random);
        self.list.fill(self.at, &mut self.random, &mut self.filled);
        (self.written, self.found) = (0, 0);
    }

    fn unsent(&self) -> &[u8] {
        &self.request()[self.written..]
    }

    fn sent(&mut self, bytes: usize) {
        self.written += bytes;
    }

    fn received(&mut self, bytes: &[u8]) -> Result<Step, Broken> {
        if !matches!(self.expects, Expects::Head) {
            return self.body(bytes);
        }
        if self.split_head.is_empty() {
            let mut bytes = bytes;
            // More than once only for 1xx heads in front of the answer's.
            while let Some(length) = self.head(bytes)? {
                bytes = &bytes[length..];
                if !matches!(self.expects, Expects::Head) {
                    return self.body(bytes);
                }
            }
            self.split_head.extend_from_slice(bytes);
            return Ok(Step::More);
        }
        let mut whole = std::mem::take(&mut self.split_head);
        whole.extend_from_slice(bytes);
        // Empty again, so this takes the other way and does not come back here.
        let step = self.received(&whole);
        if self.split_head.is_empty() {
            whole.clear();
            self.split_head = whole;
        }
        step
    }

    fn closed(&mut self) -> Result<Step, Broken> {
        match self.expects {
            Expects::Close => Ok(self.done()),
            _ => Err(Broken::CutShort),
        }
    }

    fn renew(&mut self) {
        self.written = self.request().len();
        self.split_head.clear();
        self.expects = Expects::Head;
    }
}

fn length_of(value: &[u8]) -> Result<u64, Broken> {
    let text = std::str::from_utf8(value).unwrap_or("").trim();
    // `parse` alone would take a sign.
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Broken::BadLength(start_of(value)));
    }
    text.parse().map_err(|_| Broken::BadLength(start_of(value)))
}

/// Whether a comma-separated header value has this word.
fn contains_word(value: &[u8], word: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
}

/// The first bytes of something, for an error message.
fn start_of(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(24)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use linerate_model::{Also, Expected};
    use proptest::prelude::*;

    use super::*;

    fn session() -> HttpSession {
        let mut session = HttpSession::asking(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        session.begin();
        session
    }

    const OK: Step = Step::Done(Answer { status: Some(200), last: false, judged: Judged::Not });

    #[test]
    fn the_request_is_what_the_plan_says() {
        let workload = |path: &str, body| Workload::Http {
            method: "POST".into(),
            path: path.into(),
            host: None,
            headers: vec![("X-A".into(), "b".into())],
            body,
            close: true,
            also: Vec::new(),
            weight: 1,
            requests: None,
            expected: Expected::default(),
        };
        let asked = |workload: &Workload| {
            let mut session = crate::template(workload, &Given::of("127.0.0.1:8080"))?.session();
            session.begin();
            Ok::<_, BadRequests>(String::from_utf8(session.unsent().to_vec()).unwrap())
        };
        assert_eq!(
            asked(&workload("/q?a=1", Body::Size(Bytes(3)))).unwrap(),
            "POST /q?a=1 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-A: b\r\nConnection: close\r\nContent-Length: 3\r\n\r\n..."
        );
        let holed = asked(&workload("/{{counter:8}}", Body::Text("n={{counter}}".into()))).unwrap();
        assert!(holed.starts_with("POST /8 HTTP/1.1\r\n"), "{holed}");
        assert!(holed.ends_with("Content-Length:  3\r\n\r\nn=1"), "{holed}");
        // A file is sent as it is.
        let read = Body::Read((*b"{{uuid}}").into());
        assert!(asked(&workload("/", read)).unwrap().ends_with("\r\n\r\n{{uuid}}"));
        let error = asked(&workload("/", Body::Text("{{env:A}}".into()))).unwrap_err();
        assert!(error.to_string().starts_with("workload.body: `{{env:A}}`: the environment"));
    }

    #[test]
    fn several_paths_are_asked_by_their_weights() {
        let workload = Workload::Http {
            method: "GET".into(),
            path: "/{{counter}}".into(),
            host: Some("a".into()),
            headers: Vec::new(),
            body: Body::None,
            close: false,
            also: vec![
                Also { path: "/a".into(), weight: 3 },
                Also { path: "/b".into(), weight: 6 },
            ],
            weight: 1,
            requests: None,
            expected: Expected::default(),
        };
        let mut session = crate::template(&workload, &Given::of("a")).unwrap().session();
        let mut counts = [0; 3];
        for _ in 0..10_000 {
            session.begin();
            let of = session.unsent()[5];
            counts[usize::from(of == b'a') + 2 * usize::from(of == b'b')] += 1;
        }
        // Binomial, p = 0.1, 0.3 and 0.6: standard deviations are 30, 46 and 49; the seed is fixed.
        for (count, expected) in counts.iter().zip([1_000_i32, 3_000, 6_000]) {
            assert!((count - expected).abs() < 200, "{counts:?}");
        }
    }

    #[test]
    fn a_request_with_holes_is_written_in_pieces_and_another_each_time() {
        let mut workload = Workload::default();
        if let Workload::Http { path, .. } = &mut workload {
            *path = "/{{counter}}".into();
        }
        let mut session = crate::template(&workload, &Given::of("a")).unwrap().session();
        assert!(session.unsent().is_empty());
        session.begin();
        session.sent(5);
        assert_eq!(session.unsent(), b"1 HTTP/1.1\r\nHost: a\r\n\r\n");
        session.renew();
        assert!(session.unsent().is_empty());
        session.begin();
        assert!(session.unsent().starts_with(b"GET /2 "));
    }

    #[test]
    fn an_answer_with_a_length_ends_there() {
        assert_eq!(session().received(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), Ok(OK));
    }

    #[test]
    fn an_answer_may_be_chunked() {
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        assert_eq!(session().received(answer), Ok(OK));
    }

    #[test]
    fn chunked_wins_over_a_length() {
        // Source: RFC 9112, 6.3: Transfer-Encoding overrides Content-Length.
        for answer in [
            &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n0\r\n\r\n"
                [..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(session().received(answer), Ok(OK));
        }
    }

    #[test]
    fn an_answer_without_length_ends_when_the_peer_closes() {
        let mut session = session();
        assert_eq!(session.received(b"HTTP/1.1 200 OK\r\n\r\nhi"), Ok(Step::More));
        let last = Step::Done(Answer { status: Some(200), last: true, judged: Judged::Not });
        assert_eq!(session.closed(), Ok(last));
    }

    #[test]
    fn a_close_in_the_middle_of_a_length_is_cut_short() {
        let mut session = session();
        assert_eq!(
            session.received(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi"),
            Ok(Step::More)
        );
        assert_eq!(session.closed(), Err(Broken::CutShort));
    }

    #[test]
    fn a_continue_comes_before_the_answer() {
        let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        let none = Step::Done(Answer { status: Some(204), last: false, judged: Judged::Not });
        assert_eq!(session().received(answer), Ok(none));
    }

    #[test]
    fn connection_close_is_the_last_answer() {
        let answer = b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let last = Step::Done(Answer { status: Some(503), last: true, judged: Judged::Not });
        assert_eq!(session().received(answer), Ok(last));
    }

    #[test]
    fn what_is_not_http_is_quoted() {
        let error = session().received(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the answer is not HTTP/1.1: it begins with `SSH-2.0-OpenSSH_9.2\\r\\n`"
        );
    }

    #[test]
    fn a_repeated_head_means_the_same_and_another_is_read_anew() {
        let mut session = session();
        let (a, b) = (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        );
        for _ in 0..2 {
            session.begin();
            assert_eq!(session.received(a), Ok(OK));
        }
        session.begin();
        let broken = Step::Done(Answer { status: Some(500), last: false, judged: Judged::Not });
        assert_eq!(session.received(b), Ok(broken));
        session.begin();
        assert_eq!(session.received(a), Ok(OK));
    }

    #[test]
    fn a_length_with_a_sign_is_refused() {
        let error = session().received(b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi");
        assert!(matches!(error, Err(Broken::BadLength(_))));
    }

    proptest! {
        #[test]
        fn where_an_answer_is_cut_makes_no_difference(cuts in proptest::collection::vec(0usize..120, 0..6)) {
            let answer = b"HTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nT: t\r\n\r\n";
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % answer.len()).collect();
            cuts.push(answer.len());
            cuts.sort_unstable();
            let mut session = session();
            let mut from = 0;
            let mut last = Ok(Step::More);
            for cut in cuts {
                if cut > from {
                    prop_assert_eq!(&last, &Ok(Step::More));
                    last = session.received(&answer[from..cut]);
                    from = cut;
                }
            }
            prop_assert_eq!(last, Ok(OK));
        }

        #[test]
        fn no_bytes_make_it_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..6)) {
            let mut session = session();
            for piece in pieces {
                if session.received(&piece).is_err() {
                    break;
                }
            }
            let _ = session.closed();
        }

        #[test]
        fn no_damage_to_an_answer_makes_it_panic(at in 0usize..100, byte in any::<u8>()) {
            let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\nffffffffffffffff\r\nhi\r\n0\r\n\r\n".to_vec();
            let length = answer.len();
            answer[at % length] = byte;
            let _ = session().received(&answer);
        }
    }
}
