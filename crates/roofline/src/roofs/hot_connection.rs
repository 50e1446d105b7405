//! Hot connection: one connection has the traffic, and the process that owns it works all the time. A
//! process is on one scheduler at a time, so one connection is never more than one CPU's worth.
//!
//! `ceiling = attained / part of the time in which the owner works`
//!
//! Blind spot: work that the owner has another process do (a TLS sender, a parser) is not its own.

use linerate_evidence::sources::port;
use linerate_evidence::{Missing, Side, Subject};
use linerate_model::{Bytes, OpRate};

use super::suspects::{serving_node, suspects};
use crate::node_cpu::NodeCpu;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Chosen: what is left to the others then is next to nothing.
const HOT: f64 = 0.8;

// Chosen: as for a funnel: less, and it waits for more than its scheduler.
const WORKING: f64 = 0.8;

// Chosen: of the schedulers; above it others have work too.
const ROOM: f64 = 0.85;

pub(super) struct HotConnection;

impl Roof for HotConnection {
    fn id(&self) -> &'static str {
        "vm.hot-connection"
    }

    fn title(&self) -> &'static str {
        "one connection, one scheduler"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.hot-connection.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Err(finding) = serving_node(run) {
            return Ok(finding);
        }
        let node = NodeCpu::of(run)?;
        let (hot, share, connections) = hottest(run)?;
        if share < HOT {
            return Ok(Finding::DoesNotApply(format!(
                "of {connections} connections the busiest has {:.0} % of the bytes",
                share * 100.0
            )));
        }
        let owner = run.fact(hot, "owner").unwrap_or("?");
        let peer = run.fact(hot, "peer").unwrap_or("?");
        let Some(owner) = suspects(run).into_iter().find(|suspect| suspect.pid == owner) else {
            return Err(Missing { metric: "suspect.running".into(), of: format!("{hot}'s owner") });
        };
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / owner.running.max(0.01));
        let seen = format!(
            "the connection with {peer} has {:.0} % of the bytes; its owner, {}, worked in {:.0} % of looks, \
             with {:.2} of {:.0} schedulers in use",
            share * 100.0,
            owner.words(),
            owner.running * 100.0,
            node.active,
            node.online
        );
        let room = node.online >= 2.0 && node.active < ROOM * node.online;
        let binds = if owner.running >= WORKING && room && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let gain = (1.0 + node.online - node.active).max(1.0);
        let more = (node.online as u32).max(2);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("one process, {:.0} % of its time used = {rate}", owner.running * 100.0),
            binds,
            advice: vec![Advice {
                knob: "load.connections".into(),
                value: more.to_string(),
                does: format!("spreads the same requests over {more} connections, and so over schedulers"),
                by_hand: "in the client: a pool of connections instead of one; in the server: hand the \
                          work of a request to a process of its own, and let the owner only read and write"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.7)),
                    high: OpRate(attained * gain * 1.3),
                },
            }],
        }))
    }
}

/// The connection with most bytes, its part of all, and how many were sampled.
fn hottest(run: &Run) -> Result<(Subject, f64, usize), Missing> {
    let bytes = |subject: Subject| -> Result<f64, Missing> {
        let grew = |metric: linerate_evidence::Metric<Bytes>| {
            run.of(subject).delta(metric).map(|(bytes, _)| bytes.0 as f64)
        };
        Ok(grew(port::RECV_OCT)? + grew(port::SEND_OCT)?)
    };
    let flows = run.evidence.flows(Side::Server).into_iter();
    let subjects = flows.map(|id| Subject::Flow(id, Side::Server));
    // Linerate's own channel to the node is none of its service.
    let subjects = subjects.filter(|of| run.fact(*of, "role") != Some("linerate"));
    let all: Vec<_> = subjects.filter_map(|of| Some((of, bytes(of).ok()?))).collect();
    let sum: f64 = all.iter().map(|(_, bytes)| bytes).sum();
    let most = all.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| sum > 0.0);
    let missing = || Missing { metric: port::RECV_OCT.name.into(), of: "flow/*/server".into() };
    let (of, bytes) = most.ok_or_else(missing)?;
    Ok((*of, bytes / sum, all.len()))
}
