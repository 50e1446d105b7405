//! Initial window: each exchange has a connection of its own, which begins with ten segments and doubles
//! what it has in flight each round trip; the exchange ends before that is much.
//!
//! `ceiling = connections / ((1 + rounds) x RTT)`, `rounds = log2(bytes / (10 x MSS) + 1)`
//!
//! Told from tcp.connection-churn by where the time goes: there into the handshake and the CPU, here into
//! round trips in which the path is all but empty. A loss would end the doubling; there is none.
//! Blind spot: a route with an `initcwnd` of its own.
//! Source: RFC 6928 (ten segments); RFC 5681, 3.1 (slow start).

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Side};
use linerate_model::{Bytes, OpRate};

use super::window::{directions, mean_over, min_rtt};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Source: RFC 6928; `TCP_INIT_CWND`, linux/include/net/tcp.h.
const INITIAL: f64 = 10.0;

pub(super) struct InitialWindow;

impl Roof for InitialWindow {
    fn id(&self) -> &'static str {
        "tcp.initial-window"
    }

    fn title(&self) -> &'static str {
        "slow start on every exchange"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.initial-window.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(finding) = run.no_load() {
            return Ok(finding);
        }
        if run.opened_per_exchange() < 0.5 {
            return Ok(Finding::DoesNotApply(
                "connections are kept, and their windows with them".into(),
            ));
        }
        let [heavier, _] = directions(run);
        let senders = run.flows(heavier.sender);
        let mss = mean_over(&senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))?;
        let first = INITIAL * mss;
        if heavier.bytes <= first {
            return Ok(Finding::DoesNotApply(format!(
                "the {} of an exchange fit in the first {}",
                Bytes(heavier.bytes as u64),
                Bytes(first as u64)
            )));
        }
        let rtt = min_rtt(run)?;
        let rounds = (heavier.bytes / first + 1.0).log2().ceil();
        let takes = (1.0 + rounds) * rtt;
        let connections = f64::from(run.connections());
        let rate = OpRate(connections / takes);
        let again = mean_over(&senders, |flow| Ok(flow.max(tcp_info::TOTAL_RETRANS)? as f64))?;
        let service = run.load.service.at(50.0).map_or(0.0, |at| at.value as f64 / 1e9).max(1e-9);
        let connect = run.load.connect.at(50.0).map_or(0.0, |at| at.value as f64 / 1e9);
        let busiest = Utilisation::of(run).host.map_or(0.0, |host| host.busy / host.cpus);
        let seen = format!(
            "an exchange takes {}, and the handshake and {rounds:.0} round trips of {} are {} of it; {:.1} \
             segments of a connection were sent again",
            duration(service),
            duration(rtt),
            duration(takes.min(service)),
            again
        );
        // The handshake is a fifth of it and more: then not opening is the cure, whatever the window.
        let is_slow_start = takes >= 0.6 * service && connect < 0.2 * service;
        let binds = if is_slow_start && again < 1.0 && busiest < 0.85 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let by_server = !run.header.plan.opens_each();
        let (knob, value) = match (by_server, &run.header.plan.workload) {
            (true, _) => ("keepalive", "on"),
            (false, linerate_model::Workload::Http { .. }) => ("workload.close", "false"),
            (false, _) => ("workload.kind", "rr"),
        };
        let sender = match heavier.sender {
            Side::Client => "client",
            Side::Server => "target",
        };
        // On a window that is open an exchange takes a round trip and some.
        let (low, high) = (run.attained().0, (connections / rtt).max(run.attained().0 * 1.5));
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / (handshake and {rounds:.0} rounds of {}, for {} from {}) = {rate}",
                run.connections_words(),
                duration(rtt),
                Bytes(heavier.bytes as u64),
                Bytes(first as u64)
            ),
            binds,
            advice: vec![Advice {
                knob: knob.into(),
                value: value.into(),
                does: "keeps connections open, and with them the window that they have reached"
                    .into(),
                by_hand: format!(
                    "a connection pool; where that can't be: on the {sender}'s host \
                     `ip route change default via GATEWAY initcwnd 40`"
                ),
                predicted: Predicted {
                    low: OpRate(low),
                    mid: OpRate((low * high).sqrt()),
                    high: OpRate(high),
                },
            }],
        }))
    }
}
