//! `rr`: one request, one response, again; with `echo` the response must be the request's own bytes.
//! `crr`: the same with a connection for each. netperf's TCP_RR and TCP_CRR.

use std::sync::Arc;

use linerate_model::{Framing, Workload};

use crate::Kind;
use crate::counter::{Counter, Part};
use crate::session::{Answer, Broken, Session, Step, Template};

/// See the module.
pub(crate) static RR: Kind = Kind {
    name: "rr",
    says: "one request, one response of known or prefixed length, again (netperf's TCP_RR)",
    template: |workload, given| match workload {
        Workload::Rr { framing, request, response, echo: false } => {
            Some(Ok(Arc::new(RrTemplate::new(*framing, request.0, response.0))))
        }
        Workload::Rr { framing, request, echo: true, .. } => {
            Some(Ok(Arc::new(EchoTemplate::new(*framing, request.0, given.part))))
        }
        _ => None,
    },
};

/// See the module.
pub(crate) static CRR: Kind = Kind {
    name: "crr",
    says: "rr with a connection opened and closed for each exchange (netperf's TCP_CRR)",
    template: |workload, _| match workload {
        // Opening and closing is the engine's part: it reads `Plan::opens_each`.
        Workload::Crr { framing, request, response } => {
            Some(Ok(Arc::new(RrTemplate::new(*framing, request.0, response.0))))
        }
        _ => None,
    },
};

/// The length in front of a payload.
fn prefix(framing: Framing, payload: u64) -> Vec<u8> {
    match framing {
        Framing::Fixed => Vec::new(),
        Framing::Length2 => (payload as u16).to_be_bytes().to_vec(),
        Framing::Length4 => (payload as u32).to_be_bytes().to_vec(),
    }
}

struct RrTemplate {
    request: Arc<[u8]>,
    framing: Framing,
    response: u64,
}

impl RrTemplate {
    fn new(framing: Framing, request: u64, response: u64) -> Self {
        let mut bytes = prefix(framing, request);
        bytes.resize(bytes.len() + request as usize, b'.');
        Self { request: bytes.into(), framing, response }
    }
}

impl Template for RrTemplate {
    fn session(&self) -> Box<dyn Session> {
        Box::new(Rr {
            request: Arc::clone(&self.request),
            framing: self.framing,
            response: self.response,
            written: self.request.len(),
            prefix: 0,
            prefix_left: 0,
            awaited: 0,
        })
    }
}

struct Rr {
    request: Arc<[u8]>,
    framing: Framing,
    response: u64,
    written: usize,
    prefix: u64,
    prefix_left: u8,
    awaited: u64,
}

impl Rr {
    fn expect(&mut self) {
        self.prefix = 0;
        (self.prefix_left, self.awaited) = match self.framing {
            Framing::Fixed => (0, self.response),
            Framing::Length2 => (2, 0),
            Framing::Length4 => (4, 0),
        };
    }
}

impl Session for Rr {
    fn begin(&mut self) {
        self.written = 0;
        self.expect();
    }

    fn unsent(&self) -> &[u8] {
        &self.request[self.written..]
    }

    fn sent(&mut self, bytes: usize) {
        self.written += bytes;
    }

    fn received(&mut self, mut bytes: &[u8]) -> Result<Step, Broken> {
        while self.prefix_left > 0 {
            let Some((first, rest)) = bytes.split_first() else { return Ok(Step::More) };
            self.prefix = self.prefix << 8 | u64::from(*first);
            self.prefix_left -= 1;
            bytes = rest;
            if self.prefix_left == 0 {
                self.awaited = self.prefix;
            }
        }
        let extra = (bytes.len() as u64).checked_sub(self.awaited);
        match extra {
            Some(0) => {
                self.awaited = 0;
                Ok(Step::Done(Answer::default()))
            }
            Some(extra) => Err(Broken::Extra(extra as usize)),
            None => {
                self.awaited -= bytes.len() as u64;
                Ok(Step::More)
            }
        }
    }

    fn closed(&mut self) -> Result<Step, Broken> {
        Err(Broken::CutShort)
    }

    fn renew(&mut self) {
        self.written = self.request.len();
        self.expect();
    }
}

// Chosen: many times the largest usual payload, so that one exchange's bytes are hardly ever another's,
// and small enough for a second-level cache.
const RANDOM: usize = 64 * 1024;

/// An echo's requests: each a stretch of the same random bytes, from another place.
struct EchoTemplate {
    random: Arc<[u8]>,
    prefix: Vec<u8>,
    payload: usize,
    /// Sessions made so far: each draws its places from another stream.
    made: Counter,
}

impl EchoTemplate {
    fn new(framing: Framing, payload: u64, part: Part) -> Self {
        let payload = payload as usize;
        let mut random = vec![0; RANDOM + payload];
        fastrand::Rng::with_seed(0x5eed).fill(&mut random);
        let prefix = prefix(framing, payload as u64);
        Self { random: random.into(), prefix, payload, made: Counter::new(part) }
    }
}

impl Template for EchoTemplate {
    fn session(&self) -> Box<dyn Session> {
        let mut request = self.prefix.clone();
        request.resize(self.prefix.len() + self.payload, 0);
        let (written, echoed) = (request.len(), request.len());
        let stream = self.made.next();
        Box::new(Echo {
            random: Arc::clone(&self.random),
            places: fastrand::Rng::with_seed(stream),
            prefix: self.prefix.len(),
            request,
            written,
            echoed,
        })
    }
}

/// A request of random bytes, whose response is the very same, the length in front included.
struct Echo {
    random: Arc<[u8]>,
    places: fastrand::Rng,
    prefix: usize,
    request: Vec<u8>,
    written: usize,
    /// So much of the request has come back.
    echoed: usize,
}

impl Session for Echo {
    fn begin(&mut self) {
        let payload = self.request.len() - self.prefix;
        let from = self.places.usize(..RANDOM);
        self.request[self.prefix..].copy_from_slice(&self.random[from..from + payload]);
        (self.written, self.echoed) = (0, 0);
    }

    fn unsent(&self) -> &[u8] {
        &self.request[self.written..]
    }

    fn sent(&mut self, bytes: usize) {
        self.written += bytes;
    }

    fn received(&mut self, bytes: &[u8]) -> Result<Step, Broken> {
        let awaited = &self.request[self.echoed..];
        let Some((same, rest)) = awaited.split_at_checked(bytes.len()) else {
            return Err(Broken::Extra(bytes.len() - awaited.len()));
        };
        if same != bytes {
            return Err(Broken::NotTheSame);
        }
        self.echoed += bytes.len();
        Ok(if rest.is_empty() { Step::Done(Answer::default()) } else { Step::More })
    }

    fn closed(&mut self) -> Result<Step, Broken> {
        Err(Broken::CutShort)
    }

    fn renew(&mut self) {
        (self.written, self.echoed) = (self.request.len(), self.request.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rr(framing: Framing) -> Box<dyn Session> {
        RrTemplate::new(framing, 4, 6).session()
    }

    #[test]
    fn a_partial_write_leaves_the_rest() {
        let mut rr = rr(Framing::Fixed);
        rr.begin();
        rr.sent(1);
        assert_eq!(rr.unsent().len(), 3);
    }

    #[test]
    fn a_split_response_completes_once() {
        let mut rr = rr(Framing::Fixed);
        rr.begin();
        assert_eq!(rr.received(b"..."), Ok(Step::More));
        assert_eq!(rr.received(b"..."), Ok(Step::Done(Answer::default())));
    }

    #[test]
    fn too_long_a_response_breaks_the_session() {
        let mut rr = rr(Framing::Fixed);
        rr.begin();
        assert_eq!(rr.received(b"........"), Err(Broken::Extra(2)));
    }

    #[test]
    fn a_length_prefix_may_arrive_in_pieces() {
        let mut rr = rr(Framing::Length2);
        rr.begin();
        assert_eq!(rr.unsent(), b"\x00\x04....");
        assert_eq!(rr.received(b"\x00"), Ok(Step::More));
        assert_eq!(rr.received(b"\x03a"), Ok(Step::More));
        assert_eq!(rr.received(b"bc"), Ok(Step::Done(Answer::default())));
    }

    #[test]
    fn an_empty_response_is_whole_with_its_prefix() {
        let mut rr = rr(Framing::Length4);
        rr.begin();
        assert_eq!(rr.received(b"\x00\x00\x00\x00"), Ok(Step::Done(Answer::default())));
    }

    #[test]
    fn an_echo_is_its_requests_bytes_in_any_pieces_and_no_two_requests_are_alike() {
        let mut echo = EchoTemplate::new(Framing::Length2, 1024, Part::default()).session();
        echo.begin();
        let first = echo.unsent().to_vec();
        assert_eq!((first.len(), &first[..2]), (1026, [4, 0].as_slice())); // 1024 = 4 x 256
        assert_eq!(echo.received(&first[..1]), Ok(Step::More));
        assert_eq!(echo.received(&first[1..700]), Ok(Step::More));
        assert_eq!(echo.received(&first[700..]), Ok(Step::Done(Answer::default())));
        echo.begin();
        assert_ne!(echo.unsent(), first);
    }

    #[test]
    fn an_echo_of_other_bytes_or_of_another_length_is_none() {
        let mut echo = EchoTemplate::new(Framing::Fixed, 64, Part::default()).session();
        echo.begin();
        let mut other = echo.unsent().to_vec();
        other[63] ^= 1;
        assert_eq!(echo.received(&other), Err(Broken::NotTheSame));
        echo.begin();
        let mut longer = echo.unsent().to_vec();
        longer.push(0);
        assert_eq!(echo.received(&longer), Err(Broken::Extra(1)));
        assert_eq!(echo.received(b"unasked"), Err(Broken::NotTheSame));
    }
}
