//! Listen backlog: more connections arrive at once than the listener's queue holds; the others' SYNs or
//! final ACKs are dropped and come again after 1 s, 3 s, 7 s.
//!
//! `ceiling = connections / latency with those waits`
//!
//! A client whose final ACK was dropped believes it is connected while the server has no socket for it
//! (a phantom): its request waits for the same timers.
//! Blind spot: the overflow counters are the network namespace's, all its listeners together.
//! Source: `LINUX_MIB_LISTENOVERFLOWS`, net/ipv4/tcp_ipv4.c; RFC 6298 (initial timeout 1 s).

use linerate_evidence::sources::{listener, netstat};
use linerate_evidence::{Missing, Side, Subject};
use linerate_model::OpRate;

use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Chosen: the default of most servers that set one (ranch, nginx 511, thousand_island 1024).
const LARGE: u64 = 1024;

pub(super) struct ListenBacklog;

impl Roof for ListenBacklog {
    fn id(&self) -> &'static str {
        "tcp.listen-backlog"
    }

    fn title(&self) -> &'static str {
        "the listener's backlog"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.listen-backlog.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if !run.header.target.local {
            return Ok(Finding::DoesNotApply("the target's listener is on another host".into()));
        }
        if run.is_watched() {
            return watched(run);
        }
        // The overflows while connections were opened at the start count for the note, those within the
        // window for the verdict.
        let stack = Subject::Stack(Side::Server);
        let (ever, _) = run.evidence.of(stack).delta(netstat::LISTEN_OVERFLOWS)?;
        if run.opened_per_exchange() < 0.05 {
            let note = if ever > 0 {
                format!("; it overflowed {ever} times while they were opened")
            } else {
                String::new()
            };
            return Ok(Finding::DoesNotApply(format!("connections are kept{note}")));
        }
        let (overflows, over) = run.of(stack).delta(netstat::LISTEN_OVERFLOWS)?;
        let arrivals = (run.attained().0 * over.as_secs_f64() * run.opened_per_exchange()).max(1.0);
        let late = run.load.connect.share_within(900_000_000, u64::MAX);
        // A phantom's connect is quick; its answer is late by the SYN's or the request's own timer.
        let waits = run.load.latency.share_within(190_000_000, u64::MAX);
        // From due, and with the ages of those that wait still: they are the ones that tell.
        let mean = run.load.latency.mean() / 1e9;
        let rate = OpRate(f64::from(run.connections()) / mean.max(1e-9));
        let port = port_of(&run.header.target.address);
        let limit = run.evidence.of(Subject::Listener(port)).last(listener::WQUEUE);
        let limit_words = limit.as_ref().map_or("unknown".to_owned(), ToString::to_string);
        let seen = format!(
            "{overflows} overflows for some {arrivals:.0} connections; {:.1} % of connects took a second or \
             more, {:.1} % of answers 200 ms or more",
            late * 100.0,
            waits * 100.0
        );
        let binds = if overflows as f64 > 0.01 * arrivals && waits > 0.005 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        // Without the waits an exchange takes what most take now.
        let usual = run.load.service.at(50.0).map_or(mean, |at| at.value as f64 / 1e9).min(mean);
        let unhindered = f64::from(run.connections()) / usual.max(1e-9);
        let attained = run.attained().0;
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "backlog {limit_words}: {} / {} with its waits = {rate}",
                run.connections_words(),
                duration(mean)
            ),
            binds,
            advice: vec![advice(
                run,
                limit.ok(),
                Predicted {
                    low: OpRate(attained * 1.05),
                    mid: OpRate((attained * unhindered.max(attained)).sqrt()),
                    high: OpRate((unhindered * 2.0).max(attained * 2.0)),
                },
            )],
        }))
    }
}

/// Of a service that is watched: its listeners tell themselves what they dropped.
///
/// `ceiling = attained / (1 - share of connections dropped)`
fn watched(run: &Run) -> Result<Finding, Missing> {
    let mut missing = Missing { metric: listener::DROPS.name.into(), of: "listener/*".into() };
    let mut worst: Option<(u16, u64)> = None;
    for subject in run.evidence.subjects() {
        let Subject::Listener(port) = subject else { continue };
        match run.of(subject).delta(listener::DROPS) {
            Ok((drops, _)) if worst.is_none_or(|(_, most)| drops >= most) => {
                worst = Some((port, drops));
            }
            Ok(_) => {}
            Err(none) => missing = none,
        }
    }
    let Some((port, drops)) = worst else { return Err(missing) };
    if drops == 0 {
        return Ok(Finding::DoesNotApply("no listener dropped a connection".into()));
    }
    let opened = run.load.opened.max(1);
    let lost = drops as f64 / (drops + opened) as f64;
    let listener = run.evidence.of(Subject::Listener(port));
    let backlog = listener.last(listener::WQUEUE)?;
    let attained = run.attained().0;
    let rate = OpRate(attained / (1.0 - lost).max(0.01));
    let seen = format!(
        "port {port} dropped {drops} SYNs or final ACKs while {opened} connections were opened here; \
         they come again after 1 s, 3 s, 7 s"
    );
    let binds = if lost > 0.01 && drops >= 10 { Binds::Yes(seen) } else { Binds::No(seen) };
    Ok(Finding::Ceiling(Ceiling {
        rate,
        sum: format!(
            "backlog {backlog} on port {port}, {:.0} % of connections dropped: {} / {:.2} = {rate}",
            lost * 100.0,
            OpRate(attained),
            1.0 - lost
        ),
        binds,
        advice: vec![advice(
            run,
            Some(backlog),
            Predicted {
                low: OpRate(attained),
                mid: OpRate(rate.0.max(attained)),
                high: OpRate(rate.0.max(attained * 2.0)),
            },
        )],
    }))
}

fn advice(run: &Run, backlog: Option<u64>, predicted: Predicted) -> Advice {
    let somaxconn = run.header.host.sysctls.get("net.core.somaxconn").cloned();
    let capped = backlog.is_some() && somaxconn == backlog.map(|backlog| backlog.to_string());
    // Chosen: four times what is too little.
    let enough = backlog.map_or(LARGE, |backlog| LARGE.max(4 * backlog));
    Advice {
        knob: "backlog".into(),
        value: enough.to_string(),
        does: "holds a burst of connections until the acceptors take them".into(),
        by_hand: if capped {
            let most = enough.max(4 * LARGE);
            format!(
                "sysctl -w net.core.somaxconn={most}: the kernel caps the backlog there; and {{backlog, {most}}} \
                 among the listen options"
            )
        } else {
            format!("{{backlog, {enough}}} among the listen options (gen_tcp's default is 5)")
        },
        predicted,
    }
}

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0)
}
