//! CPUs, or a thread, that were busy all the time.

use super::{Limit, Seen, is};

// Chosen: beside a load that makes a tenth of a busy CPU's noise, so much of all CPUs is all of them.
const BUSY: f64 = 0.9;

pub(super) fn engine(seen: &Seen<'_>) -> Option<Limit> {
    let busy = seen.busiest_engine();
    if !seen.is_slow() || busy < BUSY {
        return None;
    }
    let of = if seen.at.engine.len() > 1 {
        "a process of the engine"
    } else {
        "the engine's own thread"
    };
    let says = format!(
        "{of} was busy for {:.0} % of the time: {}",
        busy * 100.0,
        seen.each("engine.cpu_ns")
    );
    is("engine.cpu", says)
}

/// Users that wait for their login while the target computes.
pub(super) fn logins(seen: &Seen<'_>) -> Option<Limit> {
    let late = seen.failed("timed out while logging in");
    let (thread, all) = (seen.busiest_thread(), seen.busy());
    // Chosen: with less than half of what was busy it is not the target's doing.
    let is_the_targets = seen.share("target.cpu_ns") >= all * seen.at.cpus as f64 / 2.0;
    let is_busy = thread >= BUSY || (all >= BUSY && is_the_targets);
    if late == 0 || seen.met.p99_ns.is_some() || !is_busy {
        return None;
    }
    let busy = match thread >= BUSY {
        true => format!("a thread of the target was busy for {:.0} % of the time", thread * 100.0),
        false => format!("{:.0} % of {} CPUs were busy", all * 100.0, seen.at.cpus),
    };
    let each = seen.each("target.cpu_ns");
    is("target.login_cpu", format!("{late} logins were not answered in time: {busy}, {each}"))
}

pub(super) fn cpus(seen: &Seen<'_>) -> Option<Limit> {
    let (says, is_ours) = all_busy(seen)?;
    if is_ours { is("host.cpu", says) } else { None }
}

/// Others have the CPUs. It explains what nothing else does: what is slow behind a limit is slow without them as well.
pub(super) fn neighbours(seen: &Seen<'_>) -> Option<Limit> {
    let (says, is_ours) = all_busy(seen)?;
    if is_ours { None } else { is("host.neighbours", format!("{says}: others had the rest")) }
}

/// All CPUs were busy and users late: as a sentence, and whether it is target and engine who had most of them.
fn all_busy(seen: &Seen<'_>) -> Option<(String, bool)> {
    let busy = seen.busy();
    if !seen.is_slow() || busy < BUSY {
        return None;
    }
    let (target, engine) = (seen.share("target.cpu_ns"), seen.share("engine.cpu_ns"));
    let says = format!(
        "{:.0} % of {} CPUs were busy, {target:.2} CPUs' worth by the target and {engine:.2} by linerate, at {} users \
         online",
        busy * 100.0,
        seen.at.cpus,
        seen.met.online
    );
    // Chosen: with less than half of what was busy it is not their doing.
    Some((says, target + engine >= busy * seen.at.cpus as f64 / 2.0))
}

pub(super) fn thread(seen: &Seen<'_>) -> Option<Limit> {
    let busy = seen.busiest_thread();
    if !seen.is_slow() || busy < BUSY {
        return None;
    }
    let says = format!(
        "a thread of the target was busy for {:.0} % of the time, at {} users online; it can have one CPU",
        busy * 100.0,
        seen.met.online
    );
    is("target.thread", says)
}
