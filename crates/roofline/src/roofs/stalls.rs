//! What drops cost: exchanges that stand until the retransmission timer, and windows that stay small.
//!
//! A small exchange has nothing behind it that could tell of a lost packet, so it waits for the timer: 200 ms
//! at the least, whatever the round trip. A large one is told by what follows, and pays with its congestion
//! window.
//! Source: `TCP_RTO_MIN`, include/net/tcp.h; RFC 6298; RFC 8985 (tail loss probes, which need two round
//! trips and, for one segment alone, the same 200 ms); RFC 5681.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Of};

use super::window::{directions, mean_over};
use crate::run::Run;
use crate::utilisation::{Utilisation, unhindered};

/// Unit: seconds. Source: see the module.
pub(super) const TIMER: f64 = 0.2;

// Chosen: of the connections' time; less than this, and another limit is worth more.
const MUCH: f64 = 0.15;

/// What the run lost to the timer.
pub(super) struct Stalls {
    /// The share of exchanges that took so much longer that a timer must have run out.
    pub exchanges: f64,
    /// The share of the connections' time that went into those.
    pub time: f64,
}

impl Stalls {
    /// Missing where no exchange was answered.
    pub fn of(run: &Run) -> Result<Self, Missing> {
        let missing = || Missing { metric: "service".into(), of: "engine".into() };
        let service = &run.load.service;
        let alone = unhindered(run).ok_or_else(missing)?;
        let mean = service.mean() / 1e9;
        // Chosen: four fifths of the timer; it is armed a little before the exchange's clock is read.
        let late = ((alone + 0.8 * TIMER) * 1e9) as u64;
        let quick = service.share_within(0, late);
        let typical = service.at(50.0).map_or(alone, |at| at.value as f64 / 1e9);
        // Most exchanges late: then the median is one of those. Servers near and far: it is one of either.
        let typical = if quick > 0.5 && run.load.pairs.is_empty() { typical } else { alone };
        let time = (1.0 - quick * typical / mean.max(1e-9)).clamp(0.0, 1.0);
        Ok(Self { exchanges: 1.0 - quick, time })
    }

    /// Whether so many drops for each exchange are what the run waits for: the time is lost, and no
    /// exchange stands without a drop, so that there are about as many drops as exchanges that stood.
    pub fn are_by(&self, drops_each: f64) -> bool {
        // Chosen: half; not all that is late stood for the timer.
        self.exchanges > 0.0 && self.time >= MUCH && drops_each >= 0.5 * self.exchanges
    }

    pub fn words(&self) -> String {
        format!(
            "{} of the exchanges stood until a retransmission timer ran out, and that was {:.0} % of the \
             connections' time",
            percent(self.exchanges),
            self.time * 100.0
        )
    }
}

/// The share of busy samples in which senders of the bulk had their congestion window full, and nothing
/// else full: no CPU, for one.
pub(super) struct FullWindow {
    pub share: f64,
    busiest: f64,
}

impl FullWindow {
    pub fn of(run: &Run) -> Result<Self, Missing> {
        let [heavier, _] = directions(run);
        let share = mean_over(&run.flows(heavier.sender), full_share)?;
        let utilisation = Utilisation::of(run);
        let host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        Ok(Self { share, busiest: host.max(utilisation.engine) })
    }

    pub fn holds(&self) -> bool {
        self.share >= 0.5 && self.busiest < 0.85
    }

    pub fn words(&self) -> String {
        format!("in {:.0} % of busy samples the congestion window was full", self.share * 100.0)
    }
}

/// `0.12 %`: so many digits that it is not zero.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        most if most >= 10.0 => format!("{most:.0} %"),
        some if some >= 1.0 => format!("{some:.1} %"),
        few => format!("{few:.2} %"),
    }
}

/// Of the samples in which a sender had segments out: in how many they were nine tenths of what congestion
/// control lets it have, or it was mending a loss.
fn full_share(flow: &Of) -> Result<f64, Missing> {
    let unacked = flow.all(tcp_info::UNACKED)?;
    let cwnd = flow.all(tcp_info::SND_CWND)?;
    let state = flow.all(tcp_info::CA_STATE)?;
    let (mut busy, mut full) = (0u32, 0u32);
    for (((_, unacked), (_, cwnd)), (_, state)) in unacked.iter().zip(&cwnd).zip(&state) {
        if *unacked == 0 {
            continue;
        }
        busy += 1;
        // Source: `TCP_CA_Recovery`, linux/tcp.h; from then on the window is being cut down.
        full += u32::from(unacked * 10 >= cwnd * 9 || *state >= 3);
    }
    match busy {
        0 => Err(Missing { metric: "tcp.unacked".into(), of: "flow/* while sending".into() }),
        busy => Ok(f64::from(full) / f64::from(busy)),
    }
}
