//! The same limit of a service that is watched and not loaded: no stamps tell the stall, but a sample of
//! a socket at any moment finds it waiting.
//!
//! `ceiling = reads of the held connections / share of the time in which they were held + reads of the others`
//!
//! A connection is held when bytes were sent and not acknowledged, and less than a segment more was
//! not let go though the window was open; how long it is held each time follows from how many segments
//! it sent meanwhile, two a stall.
//! Blind spot: only the target's own writes. A client that asks in two writes is held on its side.

use linerate_evidence::sources::{netstat, port, tcp_info};
use linerate_evidence::{Missing, Of, Side};
use linerate_model::OpRate;

use super::advice;
use crate::predict::{Demand, Predicted, closed_network};
use crate::roof::{Binds, Ceiling, Finding};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: a stalled connection is found waiting in nearly every sample; one that is not, by chance.
const HELD: f64 = 0.3;

// Chosen: a wait of a round trip within a data centre is not worth a verdict. Unit: seconds.
const STALL: f64 = 5e-3;

pub(super) fn judge(run: &Run) -> Result<Finding, Missing> {
    let mut missing = Missing { metric: "tcp.notsent_bytes".into(), of: "flow/*/server".into() };
    let (mut writing, mut held, mut here) = (0u32, Vec::new(), 0u32);
    for id in run.evidence.flows(Side::Server) {
        let of = |side| run.of(linerate_evidence::Subject::Flow(id, side));
        match waits(&of(Side::Server)) {
            Ok(waits) if waits.segments == 0 => {}
            Ok(waits) => {
                writing += 1;
                if waits.share >= HELD && !waits.nodelay {
                    held.push(waits);
                    here += u32::from(of(Side::Client).last(tcp_info::UNACKED).is_ok());
                }
            }
            Err(none) => missing = none,
        }
    }
    if writing == 0 {
        return match run.load.exchanges {
            0 => Ok(Finding::DoesNotApply("nothing was written on a sampled connection".into())),
            _ => Err(missing),
        };
    }
    if held.is_empty() {
        return Ok(Finding::DoesNotApply(format!(
            "none of {writing} connections that wrote was found holding bytes back"
        )));
    }
    let count = held.len() as f64;
    let share = held.iter().map(|waits| waits.share).sum::<f64>() / count;
    let stall = held.iter().map(Waits::stall).sum::<f64>() / count;
    let theirs = OpRate(held.iter().map(|waits| waits.reads).sum::<f64>().min(run.attained().0));
    let others = OpRate(run.attained().0 - theirs.0);
    let rate = OpRate(theirs.0 / share + others.0);
    let beside = match held.len() as u32 {
        all if all == writing => String::new(),
        _ => format!(", and {others} on the others"),
    };
    // The receivers' stack is seen only where they are on this host.
    let acks = run.stack(Side::Client).delta(netstat::DELAYED_ACKS).ok();
    let stalls: f64 = held.iter().map(|waits| waits.segments as f64 / 2.0).sum();
    let per_stall = acks.filter(|_| here > 0).map(|(acks, _)| acks as f64 / stalls.max(1.0));
    let seen = format!(
        "{} of {writing} connections that wrote held back less than a segment in {:.0} % of samples, \
         with an open window and an ACK outstanding, {} at a time{}",
        held.len(),
        share * 100.0,
        duration(stall),
        per_stall.map_or(String::new(), |acks| format!("; {acks:.2} delayed ACKs a stall"))
    );
    let common = held.len() as u32 * 4 >= writing;
    let late = per_stall.is_none_or(|acks| acks >= 0.3);
    let binds = if stall >= STALL && share >= 0.5 && common && late {
        Binds::Yes(seen)
    } else {
        Binds::No(seen)
    };
    Ok(Finding::Ceiling(Ceiling {
        rate,
        sum: format!(
            "{} connections held {:.0} % of the time, {} at a time: {theirs} / {share:.2}{beside} = {rate}",
            held.len(),
            share * 100.0,
            duration(stall)
        ),
        binds,
        advice: advice(without(run, held.len() as u32)),
    }))
}

/// What a connection's samples say.
struct Waits {
    /// Of its samples, those in which it waited.
    share: f64,
    /// Data segments that it sent meanwhile.
    segments: u64,
    /// Over how long. Unit: seconds.
    seconds: f64,
    /// Reads a second.
    reads: f64,
    /// Whether Nagle is off: then something else holds its bytes.
    nodelay: bool,
}

impl Waits {
    /// Two segments leave a stall: the one that waits for no ACK, and the one that does. Unit: seconds.
    fn stall(&self) -> f64 {
        self.share * self.seconds / (self.segments as f64 / 2.0).max(1.0)
    }
}

fn waits(flow: &Of) -> Result<Waits, Missing> {
    let (notsent, unacked) = (flow.all(tcp_info::NOTSENT_BYTES)?, flow.all(tcp_info::UNACKED)?);
    let mss = flow.max(tcp_info::SND_MSS)?.0;
    let (segments, over) = flow.delta(tcp_info::DATA_SEGS_OUT)?;
    let held = |((_, notsent), (_, unacked)): &(&(_, linerate_model::Bytes), &(_, u64))| {
        notsent.0 > 0 && notsent.0 < mss && (1..=4).contains(unacked)
    };
    let samples = notsent.len().min(unacked.len());
    let waiting = notsent.iter().zip(&unacked).filter(held).count();
    Ok(Waits {
        share: waiting as f64 / samples.max(1) as f64,
        segments,
        seconds: over.as_secs_f64(),
        reads: flow
            .delta(port::RECV_CNT)
            .or_else(|_| flow.delta(tcp_info::DATA_SEGS_IN))
            .map_or(0.0, |(count, over)| count as f64 / over.as_secs_f64().max(1e-9)),
        nodelay: flow.last(port::NODELAY) == Ok(1),
    })
}

/// Without the stall reads cost what they cost now at worst, a tenth of it at best: an idle node spins and
/// wakes for each (docs/adr/0006). What the clients need is not known.
fn without(run: &Run, held: u32) -> Predicted {
    let attained = run.attained().0.max(1e-9);
    let utilisation = Utilisation::of(run);
    let (cpus, used) = match (&utilisation.target, &utilisation.host) {
        (Ok(target), Ok(host)) => (host.cpus as u16, target.cores),
        _ => (1, 0.01),
    };
    let delay = super::min_rtt(run).unwrap_or(1e-4);
    let rate = |cpu: f64| closed_network(held, cpus, Demand { cpu, delay }).0;
    let low = rate(used / attained).max(attained * 1.2);
    let high = rate(used / attained / 10.0).max(low * 2.0);
    Predicted { low: OpRate(low), mid: OpRate((low * high).sqrt()), high: OpRate(high) }
}
