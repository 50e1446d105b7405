//! CPUs, or a thread, that were busy all the time.

use super::{Limit, Seen, is};

// Chosen: beside a load that makes a tenth of a busy CPU's noise, so much of all CPUs is all of them.
const BUSY: f64 = 0.9;

pub(super) fn engine(seen: &Seen<'_>) -> Option<Limit> {
    let busy = seen.share("engine.cpu_ns");
    if !seen.is_slow() || busy < BUSY {
        return None;
    }
    let says = format!(
        "the engine's own thread was busy for {:.0} % of the time: {}",
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
    let busy = seen.busy();
    if !seen.is_slow() || busy < BUSY {
        return None;
    }
    let says = format!(
        "{:.0} % of {} CPUs were busy, {:.2} CPUs' worth by the target, at {} users online",
        busy * 100.0,
        seen.at.cpus,
        seen.share("target.cpu_ns"),
        seen.met.online
    );
    is("host.cpu", says)
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
