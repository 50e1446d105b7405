//! How far the account agrees with other measurements of the same.
//!
//! Random samples of sockets against the kernel's clock of what limited them, run time against CPU time. The clock runs
//! wherever the exchange is: also while the reader's kernel holds bytes that nobody reads, so it is not compared with a
//! station.
//!
//! The clock of the send buffer (`tcp.sndbuf_limited`) is not compared: it begins only with a segment that is sent after
//! the writer was told to wait, and never while the congestion window is in use.
//! Source: `struct tcp_info`, include/uapi/linux/tcp.h; `tcp_cwnd_validate`, `tcp_write_xmit`, net/ipv4/tcp_output.c.

use crate::prelude::*;

/// One figure, measured in two ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// The metric of the other measurement.
    pub by: &'static str,
    /// By the account, an exchange. Unit: seconds.
    pub account_s: f64,
    /// By the other measurement, an exchange. Unit: seconds.
    pub other_s: f64,
}

/// Every figure that both have and that is large enough to be compared.
pub fn agreements(
    account: &Account,
    header: &Header,
    evidence: &Evidence,
    window: &RangeInclusive<Timestamp>,
) -> Vec<Agreement> {
    let per_exchange = |busy: f64| busy / account.per_s.max(1e-12);
    let connections = f64::from(header.plan.connections());
    let rate = |of, metric| evidence.of(of).within(window.clone()).rate(metric).ok();
    let by_clock = |side: Side| {
        let ends = evidence.flows(side).into_iter().map(|id| Subject::Flow(id, side));
        let rates = Vec::from_iter(ends.filter_map(|end| rate(end, tcp_info::RWND_LIMITED)));
        rates.iter().sum::<f64>() / rates.len().max(1) as f64 * connections
    };
    let rwnd = || {
        // A clock is read some times a second: of a connection for each exchange it is seen in part.
        let is_clocked = account.is_split() && !header.plan.opens_each();
        let census = Batches::of(evidence, window).filter(|_| is_clocked)?;
        let sides = [Side::Client, Side::Server].into_iter().zip(census.limited()?);
        let both = sides.map(|(side, limited)| (limited * connections, by_clock(side)));
        // A clock that never ran measured nothing.
        let ran = both.filter(|(_, clock)| *clock > 0.0);
        let (of, clock) = ran.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        Some((tcp_info::RWND_LIMITED.name, of, clock))
    };
    let cpu = || {
        let [run, user, system] = [process::RUN, process::UTIME, process::STIME]
            .map(|metric| rate(Subject::Target, metric));
        Some((process::UTIME.name, run?, user? + system?))
    };
    // Chosen with FEW: smaller shares have too few samples to be compared.
    let pairs = [(rwnd(), account.under_way / FEW), (cpu(), 1.0 / FEW)];
    let agreement = |(pair, least): (Option<(_, f64, f64)>, f64)| {
        let (by, of, other) = pair.filter(|(_, of, other)| of.max(*other) > least)?;
        Some(Agreement { by, account_s: per_exchange(of), other_s: per_exchange(other) })
    };
    pairs.into_iter().filter_map(agreement).collect()
}
