//! Connects that end nowhere: dropped on the way, or not accepted.

use super::{Limit, Seen, is};

pub(super) fn connection_tracking(seen: &Seen<'_>) -> Option<Limit> {
    let (drops, late) = (seen.grown("conntrack.drops"), seen.failed("timed out while connecting"));
    if drops == 0 || late == 0 {
        return None;
    }
    let says = format!(
        "connection tracking dropped {drops} packets for which it had no entry, and {late} connects were not answered"
    );
    is("host.conntrack", says)
}

/// Nobody came between the two readings: a queue that has not become shorter is not accepted from.
pub(super) fn suspended(seen: &Seen<'_>) -> Option<Limit> {
    let (then, later) = (seen.at.queue?, seen.later.queue?);
    // Chosen: whoever accepts at all takes one of a queue in so long.
    const ONE: f64 = 0.1;
    let apart_s = seen.later.at.nanos_since(seen.at.at) as f64 / 1e9;
    if then.queued == 0 || later.queued < then.queued || apart_s < ONE || !seen.waits() {
        return None;
    }
    let says = format!(
        "it accepts no connection: {} waited in its accept queue, and {} after {apart_s:.1} s",
        then.queued, later.queued
    );
    is("target.accept_suspended", says)
}

pub(super) fn backlog(seen: &Seen<'_>) -> Option<Limit> {
    let overflows = seen.overflows();
    let failed =
        seen.failed("timed out") + seen.failed("refused while connecting") + seen.failed("reset");
    if overflows == 0 || failed == 0 {
        return None;
    }
    let says = format!(
        "its accept queue was full: {overflows} times a connect was dropped, and {failed} users failed"
    );
    is("target.backlog", says)
}

pub(super) fn phantoms(seen: &Seen<'_>) -> Option<Limit> {
    let phantoms = seen.at.queue?.phantoms;
    if seen.met.not_accepted == 0 || phantoms < seen.met.not_accepted.div_ceil(2) {
        return None;
    }
    let says = format!(
        "{phantoms} of {} users are connected at their end, and not at the service's: {} times its accept queue was \
         full when the handshake ended, {} SYN cookies were sent",
        seen.met.online,
        seen.overflows(),
        seen.grown("syncookies.sent")
    );
    is("target.phantoms", says)
}

/// Whoever waits stands in the accept queue, and it becomes shorter: slowly.
pub(super) fn acceptor(seen: &Seen<'_>) -> Option<Limit> {
    let then = seen.at.queue?;
    // Chosen: where most of those that wait are accepted already, it is something else that they wait for.
    if !seen.waits() || then.queued == 0 || then.queued < seen.under_way.div_ceil(2) {
        return None;
    }
    let apart_s = seen.later.at.nanos_since(seen.at.at) as f64 / 1e9;
    let rate =
        seen.later.queue.map(|later| then.queued.saturating_sub(later.queued) as f64 / apart_s);
    let rate = match rate.filter(|rate| rate.is_finite()) {
        Some(rate) => format!("; it accepts {rate:.0} a second"),
        None => String::new(),
    };
    let says = format!(
        "it accepts too slowly: {} connections waited in its accept queue, of {} users under way, and no CPU was \
         busy{rate}",
        then.queued, seen.under_way
    );
    is("target.acceptor", says)
}

/// A connect to a socket that listens here is answered by the kernel, unless its queue is full: by elimination.
pub(super) fn filtered(seen: &Seen<'_>) -> Option<Limit> {
    let late = seen.failed("timed out while connecting");
    if late == 0 || seen.at.queue.is_none() {
        return None;
    }
    let tracked = seen.at.roofs.iter().find(|roof| roof.id == "host.conntrack");
    let tracked = tracked.map_or(String::new(), |roof| {
        format!("; {} connections are tracked here: look for `ct count` or connlimit", roof.used)
    });
    let says = format!(
        "{late} connects were not answered at {} users online, and no queue of the listening socket was full: a rule of this host's packet filter drops them{tracked}",
        seen.met.online
    );
    is("host.packet_filter", says)
}
