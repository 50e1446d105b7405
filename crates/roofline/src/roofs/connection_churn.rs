//! Connection churn: a connection is opened and closed for each exchange, and costs more than the
//! exchange does.
//!
//! `ceiling = attained / utilisation of what is busiest`, with the connection's cost in it, and never
//! more than `connections / service time`
//!
//! Blind spot: the cost of a connection is not told from that of its exchange; what lifting it gives is
//! taken from the part of the service time that connecting takes.

use linerate_evidence::sources::{netstat, snmp};
use linerate_evidence::{Missing, Percentiles, Side};
use linerate_model::OpRate;

use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: fewer new connections a second than this cost nothing that is worth a verdict.
const FEW: f64 = 50.0;

pub(super) struct ConnectionChurn;

impl Roof for ConnectionChurn {
    fn id(&self) -> &'static str {
        "tcp.connection-churn"
    }

    fn title(&self) -> &'static str {
        "a connection for each exchange"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.connection-churn.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if run.is_watched() {
            return watched(run);
        }
        let opened = run.opened_per_exchange();
        if opened < 0.5 {
            return Ok(Finding::DoesNotApply(format!(
                "{} connections for {} exchanges",
                run.load.opened, run.load.answered
            )));
        }
        let attained = run.attained().0.max(1e-9);
        let utilisation = Utilisation::of(run);
        let host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let busiest = host.max(utilisation.engine).clamp(0.05, 1.0);
        // Medians: a dropped SYN's second is the backlog's matter.
        let median = |times: &Percentiles| times.at(50.0).map_or(0.0, |at| at.value as f64 / 1e9);
        let connect = median(&run.load.connect);
        let service = median(&run.load.service).max(1e-9);
        let rate = OpRate((attained / busiest).min(f64::from(run.connections()) / service));
        // The kernel's own count of what it opened, where there is one.
        let opens = run
            .stack(Side::Client)
            .delta(snmp::ACTIVE_OPENS)
            .map(|(opens, over)| opens as f64 / over.as_secs_f64());
        let seen = format!(
            "{opened:.2} connections an exchange{}; connecting takes {} of {}",
            opens.map_or(String::new(), |opens| format!(", {} opened in all", OpRate(opens))),
            duration(connect),
            duration(service)
        );
        // The exchange itself may be slow enough for the connection not to matter.
        let matters = busiest > 0.6 || connect > 0.2 * service;
        // Connections that never came about are the backlog's or the ports' matter.
        let refused = run.load.errors.get("no-address").is_some_and(|missed| *missed > 0)
            || overflowed(run) > 0.01 * run.load.opened as f64;
        // Over TLS the handshake is the price, and has its own roof.
        let tls = run.is_tls();
        let binds = if run.is_held_back() && matters && !refused && !tls && run.load.exchanges > 0 {
            Binds::Yes(seen)
        } else if tls {
            Binds::No(with_handshake(&seen))
        } else {
            Binds::No(seen)
        };
        let by_server = !run.header.plan.opens_each();
        let (knob, value) = if by_server {
            ("keepalive".to_owned(), "on".to_owned())
        } else {
            match run.header.plan.workload {
                linerate_model::Workload::Crr { .. } => ("workload.kind".into(), "rr".into()),
                _ => ("workload.close".into(), "false".into()),
            }
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} with {busiest:.2} of the CPUs used, connections included; {} / {} = {rate} at most",
                OpRate(attained),
                run.connections_words(),
                duration(service)
            ),
            binds,
            advice: vec![advice(knob, value, attained)],
        }))
    }
}

fn advice(knob: String, value: String, attained: f64) -> Advice {
    Advice {
        knob,
        value,
        does: "keeps connections open for the next exchange".into(),
        by_hand: "a connection pool in the client; keep-alive in the server".into(),
        predicted: Predicted {
            // Measured elsewhere at 2 to 3 times an exchange's cost (docs/roofs); more where connections
            // also wait to be accepted.
            low: OpRate(attained * 1.2),
            mid: OpRate(attained * 2.5),
            high: OpRate(attained * 8.0),
        },
    }
}

/// Of a service that is watched: connections that the kernel accepted, against what was read.
///
/// `ceiling = connections a second / utilisation of the CPUs`. The count of connections is the network
/// namespace's, so it is the target's only where the target is what fills the CPUs.
fn watched(run: &Run) -> Result<Finding, Missing> {
    let (opened, over) = run.stack(Side::Server).delta(snmp::PASSIVE_OPENS)?;
    let opens = opened as f64 / over.as_secs_f64().max(1e-9);
    if opens < FEW || run.opened_per_exchange() < 0.5 {
        return Ok(Finding::DoesNotApply(format!(
            "{opened} connections were opened here, {} reads made",
            run.load.exchanges
        )));
    }
    let utilisation = Utilisation::of(run);
    let (target, host) = (utilisation.target?, utilisation.host?);
    let used = (host.busy / host.cpus).clamp(0.05, 1.0);
    let most = opens.max(run.attained().0);
    let rate = OpRate(most / used);
    let seen = format!(
        "{} opened here; the CPUs were {:.0} % used, {:.2} of {:.2} by the target",
        OpRate(opens),
        used * 100.0,
        target.cores,
        host.busy
    );
    let refused = overflowed(run) >= 0.01 * opened as f64;
    let binds = if run.is_tls() {
        Binds::No(with_handshake(&seen))
    } else if used > 0.6 && target.cores > 0.3 * host.busy && !refused {
        Binds::Yes(seen)
    } else {
        Binds::No(seen)
    };
    Ok(Finding::Ceiling(Ceiling {
        rate,
        sum: format!(
            "{} connections with {used:.2} of the CPUs used = {rate} at most",
            OpRate(opens)
        ),
        binds,
        advice: vec![advice("keepalive".into(), "on".into(), most)],
    }))
}

/// Over TLS the handshake is the price.
fn with_handshake(seen: &str) -> String {
    format!("{seen}, and with it comes a TLS handshake: see tls.handshake")
}

/// Overflows of the target's listeners within the window.
fn overflowed(run: &Run) -> f64 {
    run.stack(Side::Server).delta(netstat::LISTEN_OVERFLOWS).map_or(0.0, |(count, _)| count as f64)
}
