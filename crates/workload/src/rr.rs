//! `rr`: one request, one response, again. `crr`: the same with a connection for each. netperf's
//! TCP_RR and TCP_CRR.

use std::sync::Arc;

use linerate_model::{Framing, Workload};

use crate::Kind;
use crate::session::{Answer, Broken, Session, Step, Template};

/// See the module.
pub(crate) static RR: Kind = Kind {
    name: "rr",
    says: "one request, one response of known or prefixed length, again (netperf's TCP_RR)",
    template: |workload, _| match workload {
        Workload::Rr { framing, request, response } => {
            Some(Arc::new(RrTemplate::new(*framing, request.0, response.0)))
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
            Some(Arc::new(RrTemplate::new(*framing, request.0, response.0)))
        }
        _ => None,
    },
};

struct RrTemplate {
    request: Arc<[u8]>,
    framing: Framing,
    response: u64,
}

impl RrTemplate {
    fn new(framing: Framing, request: u64, response: u64) -> Self {
        let mut bytes = match framing {
            Framing::Fixed => Vec::new(),
            Framing::Length2 => (request as u16).to_be_bytes().to_vec(),
            Framing::Length4 => (request as u32).to_be_bytes().to_vec(),
        };
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
}
