//! Slow start after idle: a connection that is kept forgets its window while it has nothing to send, and
//! grows it anew, a round trip a doubling, for each answer.
//!
//! `ceiling = connections / (first byte + halvings x RTT)`, `halvings = idle / RTO`, as far as the window is
//! above ten segments; what it is cut down to comes with the first byte
//!
//! In a closed loop a connection is idle for as long as its server thinks (or its worker asks others), so
//! the window is cut once for each timeout of that. What it costs beside the idling itself is a round trip
//! a halving: at most RTT / RTO of it, a third where the path is long. It never costs more than that, and
//! on short paths nothing to speak of.
//! Told from tcp.initial-window by connections that are kept. Told from tcp.receive-window and
//! tcp.send-buffer, which make each exchange take as many round trips, by gaps that are longer than the
//! timeout, and by windows that are not theirs.
//! Blind spot: congestion control that keeps its own account of the path (bbr) is not reset, and not named.
//! Source: RFC 2861; `tcp_cwnd_restart`, net/ipv4/tcp_output.c; `tcp_slow_start_after_idle_check`,
//! include/net/tcp.h; ip-sysctl.rst, `tcp_slow_start_after_idle`.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Side};
use linerate_model::{Bytes, OpRate};

use super::ways::{setting_knob, setting_of};
use super::window::{directions, mean_over, min_rtt};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

const SETTING: &str = "net.ipv4.tcp_slow_start_after_idle";

// Source: RFC 6928; `TCP_INIT_CWND`. Unit: segments.
const INITIAL: f64 = 10.0;

// Chosen: of an exchange's time; less is not worth a setting.
const MUCH: f64 = 0.15;

pub(super) struct SlowStartAfterIdle;

impl Roof for SlowStartAfterIdle {
    fn id(&self) -> &'static str {
        "tcp.slow-start-after-idle"
    }

    fn title(&self) -> &'static str {
        "windows forgotten while idle"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.slow-start-after-idle.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(finding) = run.no_load() {
            return Ok(finding);
        }
        let no = |why: &str| Ok(Finding::DoesNotApply(why.into()));
        if setting_of(run, SETTING) == Some("0") {
            return no("windows are kept while idle");
        }
        if run.opened_per_exchange() >= 0.5 {
            return no("connections are not kept: tcp.initial-window");
        }
        let [heavier, _] = directions(run);
        let senders = run.flows(heavier.sender);
        let mss = mean_over(&senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))?;
        let first = INITIAL * mss;
        if heavier.sender != Side::Server || heavier.bytes <= first {
            return Ok(Finding::DoesNotApply(format!(
                "answers of {} fit in the first {}",
                Bytes(run.load.bytes_read / run.load.exchanges.max(1)),
                Bytes(first as u64)
            )));
        }
        let by_itself = |side| -> Vec<&str> {
            let ids = run.evidence.flows(side).into_iter();
            let flows = ids.map(|id| linerate_evidence::Subject::Flow(id, side));
            flows.filter_map(|flow| run.fact(flow, "congestion")).collect()
        };
        if by_itself(heavier.sender).contains(&"bbr") {
            return no("the senders' congestion control keeps its own account (bbr)");
        }
        let rtt = min_rtt(run)?;
        let timeout = mean_over(&senders, |flow| Ok(flow.median(tcp_info::RTO)?.as_secs_f64()))?;
        let missing = || Missing { metric: "service".into(), of: "engine".into() };
        let median = |of: &linerate_evidence::Percentiles| {
            of.at(50.0).map(|at| at.value as f64 / 1e9).ok_or_else(missing)
        };
        let (service, idle) = (median(&run.load.service)?, median(&run.load.first_byte)?);
        // What an open window would have had in flight, and how often that can be halved.
        let most = (heavier.bytes / first).log2().ceil().max(0.0);
        let halvings = (idle / timeout).floor().min(most);
        let takes = idle + halvings * rtt;
        let connections = f64::from(run.connections());
        let rate = OpRate(connections / takes);
        let body = (service - idle).max(0.0);
        let again = mean_over(&senders, |flow| {
            Ok(flow.delta(tcp_info::TOTAL_RETRANS).map_or(0.0, |(count, _)| count as f64))
        })?;
        let seen = format!(
            "each answer came {} after it was asked for, {halvings:.0} timeouts of {} later, and then took {} \
             where a round trip is {}; {again:.1} segments of a connection were sent again",
            duration(idle),
            duration(timeout),
            duration(body.max(1e-9)),
            duration(rtt)
        );
        let costs = halvings >= 1.0 && body >= 0.75 * rtt && body >= MUCH * service;
        // Twice the round trips that slow start takes: then something else is slow as well.
        let is_slow_start = body <= 2.0 * (1.0 + halvings) * rtt;
        let binds = if costs && is_slow_start && again < 1.0 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let open = connections / (service - halvings * rtt).max(idle);
        let attained = run.attained().0;
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / ({} until the first byte + {halvings:.0} rounds of {} for the rest of {}) = {rate}",
                run.connections_words(),
                duration(idle),
                duration(rtt),
                Bytes(heavier.bytes as u64)
            ),
            binds,
            advice: vec![Advice {
                knob: setting_knob(&run.header.plan, SETTING),
                value: "0".into(),
                does: format!("keeps the window, and {halvings:.0} round trips of each answer"),
                by_hand: format!(
                    "sysctl -w {SETTING}=0 on the host that answers; or keep the connection warm, or ask more on \
                     fewer connections"
                ),
                predicted: Predicted {
                    low: OpRate(attained * 1.02),
                    mid: OpRate((attained * 1.02).max(open * 0.95)),
                    high: OpRate((connections / idle.max(1e-9) * 1.05).max(attained * 1.1)),
                },
            }],
        }))
    }
}
