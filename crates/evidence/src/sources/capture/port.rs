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
    /// When the first packet was seen.
    pub began: Option<Timestamp>,
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
            began: None,
        }
    }

    /// Whether its server sends first, as of mail, MySQL, FTP, SSH.
    pub fn greets(&self) -> bool {
        self.spoke_first[0] > self.spoke_first[1]
    }

    /// An answer is known to have ended.
    pub fn answered(&mut self, first: Timestamp, last: Timestamp, bytes: u64, weight: u64) {
        let lasted = last.nanos_since(first);
        self.totals.answer_time += weight * lasted;
        if last.since(first) >= LASTING {
            self.paces.record_n((bytes as f64 * 1e9 / lasted as f64) as u64, weight);
        }
    }
}
