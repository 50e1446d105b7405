//! Nagle with delayed ACK: a message leaves in two writes, the second waits for the first's ACK, and the
//! receiver delays that ACK by 40 ms.
//!
//! `ceiling = connections / stall`
//!
//! Blind spot: a stall on fewer than one exchange in five is not looked into.
//! Source: RFC 896 (Nagle); RFC 1122, 4.2.3.2 (delayed ACK); `TCP_DELACK_MIN` = 40 ms and `TCP_DELACK_MAX`
//! = 200 ms, linux/include/net/tcp.h.

use linerate_evidence::sources::{netstat, tcp_info};
use linerate_evidence::{Missing, Percentiles, Side};
use linerate_model::OpRate;

use super::window::min_rtt;
use crate::predict::{Demand, Predicted, closed_network};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

mod watched;

// Chosen: around the two lengths of the kernel's delayed-ACK timer, with room for a timer tick and a
// busy machine. Unit: ns.
const STALLS: [(u64, u64); 2] = [(36_000_000, 60_000_000), (190_000_000, 230_000_000)];

pub(super) struct NagleDelayedAck;

impl Roof for NagleDelayedAck {
    fn id(&self) -> &'static str {
        "tcp.nagle-delayed-ack"
    }

    fn title(&self) -> &'static str {
        "Nagle with delayed ACK"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.nagle-delayed-ack.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if run.is_watched() {
            return watched::judge(run);
        }
        let service = &run.load.service;
        let median = |times: &Percentiles| times.at(50.0).map_or(0, |at| at.value);
        let (first, last) = (median(&run.load.first_byte), median(service));
        let split = first < last / 2;
        // The stall comes after the first byte, so path and service time are left out of it.
        let before = if split { first } else { 0 };
        let stalled: f64 =
            STALLS.iter().map(|(from, to)| service.share_within(from + before, to + before)).sum();
        if stalled < 0.2 {
            return Ok(Finding::DoesNotApply(format!(
                "{:.1} % of exchanges took as long as a delayed ACK (40 or 200 ms)",
                stalled * 100.0
            )));
        }
        let mean = service.mean() / 1e9;
        let rate = OpRate(f64::from(run.connections()) / mean);

        // Who delays: the engine's stack acknowledges the target's first write late.
        let (acks, over) = run.stack(Side::Client).delta(netstat::DELAYED_ACKS)?;
        let exchanges = run.attained().0 * over.as_secs_f64();
        let per_exchange = acks as f64 / exchanges.max(1.0);
        // Who waits: the target's socket holds bytes back though its window is open. From far away only
        // the stamps tell: the answer's first byte comes at once and its last a stall later.
        let held = held_back(run, Side::Server);
        let (first, last) = (first as f64, last as f64);
        let seen = match &held {
            Ok(share) => format!(
                "bytes were held back in {:.0} % of the target's socket samples",
                share * 100.0
            ),
            Err(_) => "the target's sockets are not on this host".to_owned(),
        };
        let waits = split || held.is_ok_and(|share| share > 0.3);
        let binds = if !run.is_held_back() {
            Binds::No(format!(
                "it does not hold the rate, but {:.0} % of exchanges are {} late by it",
                stalled * 100.0,
                duration(mean)
            ))
        } else if per_exchange >= 0.5 && waits && stalled >= 0.5 {
            Binds::Yes(format!(
                "{:.0} % of exchanges stall; the first byte comes after {}, the last after {}; \
                 {per_exchange:.2} delayed ACKs an exchange; {seen}",
                stalled * 100.0,
                duration(first / 1e9),
                duration(last / 1e9)
            ))
        } else {
            Binds::No(format!(
                "{:.0} % of exchanges take that long, but with {per_exchange:.2} delayed ACKs an exchange \
                 and the first byte after {}: something else takes that time",
                stalled * 100.0,
                duration(first / 1e9)
            ))
        };
        let predicted = without_stall(run);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{} / {} = {rate}", run.connections_words(), duration(mean)),
            binds,
            advice: advice(predicted),
        }))
    }
}

fn advice(predicted: Predicted) -> Vec<Advice> {
    vec![
        Advice {
            knob: "nodelay".into(),
            value: "on".into(),
            does: "sends the second write at once instead of after the first one's ACK".into(),
            by_hand: "{nodelay, true} among the listen options; without touching code: \
                      erl -kernel inet_default_listen_options '[{nodelay,true}]'"
                .into(),
            predicted,
        },
        Advice {
            knob: "write".into(),
            value: "combined".into(),
            does: "sends head and body in one write, so there is no second one to hold back".into(),
            by_hand: "gen_tcp:send(Socket, [Head, Body]) once, instead of two sends".into(),
            predicted,
        },
    ]
}

/// The share of socket samples in which sent bytes were unacknowledged, more were held back, and the
/// congestion window had room.
fn held_back(run: &Run, side: Side) -> Result<f64, Missing> {
    let (mut all, mut held) = (0u32, 0u32);
    let mut missing = Missing { metric: "tcp.notsent_bytes".into(), of: format!("flow/*/{side}") };
    for flow in run.flows(side) {
        let (notsent, unacked) =
            match (flow.all(tcp_info::NOTSENT_BYTES), flow.all(tcp_info::UNACKED)) {
                (Ok(notsent), Ok(unacked)) => (notsent, unacked),
                (Err(none), _) | (_, Err(none)) => {
                    missing = none;
                    continue;
                }
            };
        for ((_, notsent), (_, unacked)) in notsent.iter().zip(&unacked) {
            all += 1;
            held += u32::from(notsent.0 > 0 && *unacked > 0 && *unacked <= 4);
        }
    }
    if all == 0 { Err(missing) } else { Ok(f64::from(held) / f64::from(all)) }
}

/// Without the stall an exchange takes about what its first byte takes now, and CPU becomes the limit.
///
/// A stalled run is idle, and idle costs: waking, spinning, cold caches. So what it shows of CPU and first
/// byte is the pessimist's view. The optimist takes off the background (3 % of a CPU) and what is left
/// by the factors that idle costs more than busy here.
/// Measured: 1, 10, 100 and 500 connections to inets httpd on 2 CPUs: CPU an exchange 8.5, 2.0, 1.3 and
/// 1.1 times that of the run without stall; first byte 4.5 times at 1 connection (docs/adr/0006).
fn without_stall(run: &Run) -> Predicted {
    let stalled = run.attained().0.max(1e-9);
    let connections = run.connections();
    let utilisation = Utilisation::of(run);
    let at = |percentile: f64| {
        run.load.first_byte.at(percentile).map_or(1e-3, |at| (at.value as f64 / 1e9).max(1e-6))
    };
    let engine = run.engine_cores();
    let (cpus, used) = match (&utilisation.target, &utilisation.host) {
        (Ok(target), Ok(host)) => (host.cpus as u16, target.cores + engine),
        // Another host's CPUs are not known; one is the least it has.
        _ => (1, engine),
    };
    let rate = |cpu: f64, first: f64| {
        closed_network(connections, cpus, Demand { cpu, delay: (first - cpu).max(0.0) }).0
    };
    let pessimist = used / stalled;
    let optimist = (pessimist - 0.03 / stalled).max(pessimist / 10.0) / 1.4;
    let low = (rate(pessimist, at(50.0)) * 0.8).max(stalled);
    // The path takes its time however busy the ends are.
    let rtt = min_rtt(run).unwrap_or(0.0).min(at(25.0));
    let high = rate(optimist, rtt + (at(25.0) - rtt) / 6.0).max(low * 1.2);
    Predicted { low: OpRate(low), mid: OpRate((low * high).sqrt()), high: OpRate(high) }
}
