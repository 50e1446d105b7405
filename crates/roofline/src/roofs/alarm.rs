//! An alarm of the service's own: while it stands, connections that publish are not read.
//!
//! `ceiling = attained`: what is read in spite of it
//!
//! The service says itself that it stands, so nothing is concluded from queues; the kernel's side shows what
//! waits because of it. That no bytes wait is no sign of health: clients that are told to wait do.
//! Blind spot: who keeps alarms in a way that the probe does not know; RabbitMQ's are known.
//! Source: `rabbit_alarm` of RabbitMQ; its guides "Memory and Disk Alarms" and "Blocked Connections".

use linerate_evidence::sources::{port, tcp_info, vm};
use linerate_evidence::{Missing, Of, Side, Subject};
use linerate_model::{Bytes, OpRate};

use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Chosen: of the samples. One that comes and goes within seconds (a burst, a collection) is seen in few.
const STANDS: f64 = 0.5;

pub(super) struct Alarm;

impl Roof for Alarm {
    fn id(&self) -> &'static str {
        "app.alarm"
    }

    fn title(&self) -> &'static str {
        "an alarm of the service's own"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/app.alarm.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match run.node() {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        // Asked once a second: of a short window the whole run's readings stand for it.
        let alarms = match node.all(vm::ALARMS) {
            Ok(alarms) => alarms,
            Err(_) => match run.evidence.of(Subject::Node).all(vm::ALARMS) {
                Ok(alarms) => alarms,
                Err(_) => {
                    let why =
                        "nobody who keeps alarms was found on the node (RabbitMQ's are known)";
                    return Ok(Finding::DoesNotApply(why.into()));
                }
            },
        };
        let standing = alarms.iter().filter(|(_, count)| *count > 0).count();
        let share = standing as f64 / alarms.len().max(1) as f64;
        let named = run.fact(Subject::Node, "alarms").unwrap_or("?");
        let seen = if standing == 0 {
            "no alarm stands".into()
        } else {
            let share = share * 100.0;
            format!("an alarm stood in {share:.0} % of looks, the last: {named}{}", waiting(run))
        };
        let binds = if share >= STANDS { Binds::Yes(seen) } else { Binds::No(seen) };
        let attained = run.attained();
        Ok(Finding::Ceiling(Ceiling {
            rate: if standing == 0 { OpRate(f64::INFINITY) } else { attained },
            sum: if standing == 0 {
                "no alarm holds anybody back".into()
            } else {
                format!("{named}: who publishes is not read meanwhile; all others = {attained}")
            },
            binds,
            advice: vec![advice(named, attained)],
        }))
    }
}

/// Connections in which bytes lay all the time while nothing was read.
fn waiting(run: &Run) -> String {
    let unread = |flow: &Of| {
        let queue = flow.all(tcp_info::RQUEUE).ok()?;
        let lay = queue.iter().all(|(_, bytes)| bytes.0 > 0);
        let read = flow.delta(port::RECV_OCT).map_or(0, |(bytes, _)| bytes.0);
        (lay && read == 0).then(|| queue.last().map_or(0, |(_, bytes)| bytes.0))
    };
    let found: Vec<u64> = run.flows(Side::Server).iter().filter_map(unread).collect();
    match found.len() {
        0 => String::new(),
        1 => format!("; 1 connection has {} that nobody reads", Bytes(found[0])),
        many => {
            format!("; {many} connections have {} that nobody reads", Bytes(found.iter().sum()))
        }
    }
}

fn advice(named: &str, attained: OpRate) -> Advice {
    let (knob, value, does, by_hand) = if named.contains("memory") {
        (
            "vm_memory_high_watermark",
            "0.6",
            "lets the broker use more memory before it stops to read",
            "rabbitmqctl set_vm_memory_high_watermark 0.6 (and vm_memory_high_watermark.relative = 0.6 in \
             rabbitmq.conf, for the next start). Before that look at what has the memory: rabbitmq-diagnostics \
             memory_breakdown; queues that nobody consumes want consumers, x-max-length or lazy mode",
        )
    } else if named.contains("disk") {
        (
            "disk_free_limit",
            // Its default. Source: rabbitmq.com, "Free Disk Space Alarms".
            "50MB",
            "lets the broker go on with less free disk",
            "free the disk that holds its database; or, if what is left is enough for you, rabbitmqctl \
             set_disk_free_limit 50MB (disk_free_limit.absolute in rabbitmq.conf), or whatever is less than \
             rabbitmq-diagnostics status tells to be free",
        )
    } else if named.contains("descriptors") {
        (
            "nofile",
            "65536",
            "lets the broker open more files and connections",
            "LimitNOFILE=65536 in the service's unit (systemctl edit rabbitmq-server), or ulimit -n 65536",
        )
    } else {
        (
            "alarm",
            "clear",
            "lets the service read on",
            "rabbitmq-diagnostics alarms tells what is used up: raise its limit, or use less of it",
        )
    };
    Advice {
        knob: format!("app.{knob}"),
        value: value.into(),
        does: does.into(),
        by_hand: by_hand.into(),
        // Who is not read asks for nobody knows how much.
        predicted: Predicted {
            low: attained,
            mid: OpRate(attained.0.max(1.0) * 10.0),
            high: OpRate(attained.0.max(1.0) * 10_000.0),
        },
    }
}
