//! How far the account agrees with other measurements of the same.
//!
//! Random samples of sockets against the kernel's clocks of what limited them; run time against CPU time.
//! Blind spot: the clock of the send buffer does not run while the congestion window is full too.
//! Source: `struct tcp_info`, include/uapi/linux/tcp.h; `tcp_cwnd_validate`, net/ipv4/tcp_output.c.

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
    evidence: &Evidence,
    connections: u32,
    window: &RangeInclusive<Timestamp>,
) -> Vec<Agreement> {
    let per_exchange = |busy: f64| busy / account.per_s.max(1e-12);
    let clock = |side: Side, clock: Metric<Duration>| {
        let ends = evidence.flows(side).into_iter().map(|id| evidence.of(Subject::Flow(id, side)));
        let rates = ends.filter_map(|end| end.within(window.clone()).rate(clock).ok());
        let rates = Vec::from_iter(rates);
        rates.iter().sum::<f64>() / rates.len().max(1) as f64 * f64::from(connections)
    };
    let ends = [(Side::Client, Station::ClientSending), (Side::Server, Station::ServerSending)];
    let clocks = [(Held::Window, tcp_info::RWND_LIMITED), (Held::Buffer, tcp_info::SNDBUF_LIMITED)];
    let held = clocks.into_iter().filter(|_| account.is_split()).map(|(held, metric)| {
        let both = ends.map(|(side, station)| {
            let other = clock(side, metric);
            // A clock that never ran measured nothing.
            if other > 0.0 { (account.held(station, held), other) } else { (0.0, 0.0) }
        });
        (metric.name, both[0].0 + both[1].0, both[0].1 + both[1].1)
    });
    let target = evidence.of(Subject::Target).within(window.clone());
    let rate = |metric| target.rate(metric).ok();
    let cpu = || {
        let by_ticks = rate(process::UTIME)? + rate(process::STIME)?;
        Some((process::UTIME.name, rate(process::RUN)?, by_ticks))
    };
    // Chosen with FEW: smaller shares have too few samples to be compared.
    let least = [account.under_way / FEW, 1.0 / FEW];
    held.filter(|(_, of, other)| of.max(*other) > least[0])
        .chain(cpu().filter(|(_, of, other)| of.max(*other) > least[1]))
        .map(|(by, of, other)| Agreement {
            by,
            account_s: per_exchange(of),
            other_s: per_exchange(other),
        })
        .collect()
}
