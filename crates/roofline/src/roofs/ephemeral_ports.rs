//! Ephemeral ports: each connection of the client takes a local port, and keeps it for a minute after
//! closing it first (TIME_WAIT).
//!
//! `ceiling = ports / min(60 s, length of the run)`; 1 s instead of 60 s where TIME_WAIT ports are reused
//!
//! Blind spot: other programs' connections to the same address use the same ports.
//! Source: `TCP_TIMEWAIT_LEN` = 60 s, linux/include/net/tcp.h; `tcp_tw_reuse` 1 always, 2 on loopback,
//! after 1 s, Documentation/networking/ip-sysctl.rst.

use linerate_evidence::sources::sockstat;
use linerate_evidence::{Missing, Side, Subject};
use linerate_model::OpRate;

use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct EphemeralPorts;

impl Roof for EphemeralPorts {
    fn id(&self) -> &'static str {
        "tcp.ephemeral-ports"
    }

    fn title(&self) -> &'static str {
        "the client's local ports"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.ephemeral-ports.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_load() {
            return Ok(none);
        }
        let plan = &run.header.plan;
        let missed = run.load.errors.get("no-address").copied().unwrap_or(0);
        let (ports, own_range) = match &plan.engine.local_ports {
            Some(range) => (ports_of(range, '-'), true),
            None => (
                run.header
                    .host
                    .sysctls
                    .get("net.ipv4.ip_local_port_range")
                    .and_then(|range| ports_of(range, '\t').or_else(|| ports_of(range, ' '))),
                false,
            ),
        };
        let Some(ports) = ports else {
            return Err(Missing {
                metric: "net.ipv4.ip_local_port_range".into(),
                of: "host".into(),
            });
        };
        if run.opened_per_exchange() < 0.05 && missed == 0 {
            return Ok(Finding::DoesNotApply(format!(
                "connections are kept: {} of {ports} ports in use",
                run.load.open
            )));
        }
        // Who closes first keeps the port: with `Connection: close` that is the server.
        if !plan.opens_each() && missed == 0 {
            return Ok(Finding::DoesNotApply(
                "the target closes first, so its side keeps the TIME_WAIT".into(),
            ));
        }
        let reuse = run.header.host.sysctls.get("net.ipv4.tcp_tw_reuse").map(String::as_str);
        let loopback = run.header.target.address.starts_with("127.")
            || run.header.target.address.starts_with("[::1]");
        // A bound port is not reused, whatever the setting.
        let reused = !own_range && (reuse == Some("1") || (reuse == Some("2") && loopback));
        let hold: f64 = if reused { 1.0 } else { 60.0 };
        let length = run.load.points.last().map_or(1.0, |point| point.at.as_secs_f64()).max(1.0);
        let kept = run.opened_per_exchange() < 0.05;
        let rate = if kept {
            // The ports carry as many connections as there are ports, and those carried this.
            OpRate(run.attained().0)
        } else {
            OpRate(f64::from(ports) / hold.min(length))
        };
        let waiting =
            run.evidence.of(Subject::Stack(Side::Server)).max(sockstat::TCP_TW).unwrap_or(0);
        let seen =
            format!("{missed} connects found no free port; at most {waiting} sockets in TIME_WAIT");
        let attempts = run.load.opened + missed;
        let binds = if missed as f64 > 0.01 * attempts as f64 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let attained = run.attained().0;
        // With ports for all, exchanges take what those take now that found one; an open loop asks no more
        // than it offers.
        let usual = run.load.service.at(50.0).map_or(1.0, |at| (at.value as f64 / 1e9).max(1e-6));
        let offered = plan.load.rate.map_or(f64::INFINITY, |rate| rate.0 * 1.02);
        let low = attained * 1.05;
        let high = (f64::from(run.connections()) / usual).min(offered).max(low);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: if kept {
                format!("{ports} ports hold {} of {}", run.load.open, run.connections_words())
            } else {
                format!("{ports} ports / {:.0} s held = {rate}", hold.min(length))
            },
            binds,
            advice: vec![Advice {
                knob: "engine.local_ports".into(),
                value: "default".into(),
                does: "uses the host's whole range, whose ports it may take again after 1 s on loopback"
                    .into(),
                by_hand: "keep connections; or more source or destination addresses; or \
                          sysctl -w net.ipv4.ip_local_port_range='1024 65535' net.ipv4.tcp_tw_reuse=1"
                    .into(),
                predicted: Predicted {
                    low: OpRate(low),
                    mid: OpRate((low * high).sqrt()),
                    high: OpRate(high),
                },
            }],
        }))
    }
}

fn ports_of(range: &str, between: char) -> Option<u32> {
    let (low, high) = range.trim().split_once(between)?;
    let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some(high - low + 1)
}
