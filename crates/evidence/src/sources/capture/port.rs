//! A watched port: the sums over its connections, and the orders in which it serves.

use std::time::Duration;

use linerate_model::Timestamp;

use super::orders::Orders;
use super::rhythm::Rhythm;
use super::totals::Totals;
use crate::packed::Live;

/// An answer that takes longer is lasting.
// Chosen: many round trips of any path; less depends on the network.
const LASTING: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub number: u16,
    pub totals: Totals,
    /// Times from a request's last byte to its answer's first. Unit: ns.
    pub service_times: Live,
    /// Bytes a second of each lasting answer.
    pub paces: Live,
    pub rhythm: Rhythm,
    pub orders: Orders,
    /// New connections on which the server sent first, and on which the client did.
    pub spoke_first: [u64; 2],
    /// Bytes of the requests that were answered; multiplied as counts are.
    pub asked_bytes: u64,
    /// When the first packet was seen.
    pub began: Option<Timestamp>,
}

/// An answer, as far as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub first: Timestamp,
    pub last: Timestamp,
    /// After its first segment.
    pub bytes: u64,
    /// Whether it is of a handshake of TLS.
    pub shakes: bool,
}

impl Port {
    pub fn new(number: u16) -> Self {
        Self {
            number,
            totals: Totals::default(),
            service_times: Live::default(),
            paces: Live::default(),
            rhythm: Rhythm::default(),
            orders: Orders::default(),
            spoke_first: [0; 2],
            asked_bytes: 0,
            began: None,
        }
    }

    /// Whether its server sends first, as of mail, MySQL, FTP, SSH.
    pub fn greets(&self) -> bool {
        self.spoke_first[0] > self.spoke_first[1]
    }

    /// Whether a request is like those that were answered: more than half as long as their mean. Goodbyes are shorter, and
    /// so is the smaller part of two.
    // Chosen: six tenths; halves of equal length are parts.
    pub fn is_request(&self, bytes: u64) -> bool {
        let answered = self.totals.exchanges;
        answered > 0 && 10 * bytes.saturating_mul(answered) >= 6 * self.asked_bytes
    }

    /// An answer is known to have ended.
    pub fn answered(&mut self, answer: &Answer, weight: u64) {
        self.answered_in(answer, weight);
        let Answer { first, last, bytes, .. } = *answer;
        if last.since(first) >= LASTING {
            let lasted = last.nanos_since(first);
            self.paces.record_n((bytes as f64 * 1e9 / lasted as f64) as u64, weight);
        }
    }

    /// So much of an answer was seen.
    pub fn answered_in(&mut self, answer: &Answer, weight: u64) {
        let lasted = weight * answer.last.nanos_since(answer.first);
        self.totals.answer_time += lasted;
        self.totals.handshake_time += if answer.shakes { lasted } else { 0 };
    }
}
