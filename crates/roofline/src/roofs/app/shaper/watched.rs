//! The same limit of a service that is watched, put on what its clients send: it reads a little, and then
//! leaves the connection alone until that much is due again.
//!
//! `delay = connections that wait to be read / reads a second`
//!
//! No stamps tell the pace, but a sample at any moment finds the pause: bytes lie in the kernel, the socket is
//! passive, and its owner is idle in its receive loop. A process that waits there waits for any message; so it
//! is no call, disk or sleep that keeps it from reading, but its own decision.
//! Distinguished from a slow reader by that, and by the rate, which is the same for each connection. From a
//! service that reads nothing (an alarm, a lock) by its reading on.
//! Blind spots: a loop that no behaviour made. Clients that all send less than they may are not held.

use linerate_account::Station;
use linerate_evidence::sources::{port, tcp_info};
use linerate_evidence::{Metric, Missing, Of, Quantity};
use linerate_model::Bytes;

use super::remedy;
use crate::chosen::HALFWAY;
use crate::claim::{At, Claim, Known, Part, Role, Silent, not_here};
use crate::facts::Facts;
use crate::facts::connections::{Connection, connections};
use crate::facts::sampled::{Process, sampled};
use crate::run::Run;

/// Where an owner is idle that would take any message. The modules whose loops they are; those of ejabberd
/// (p1_utils) and RabbitMQ beside OTP's.
const LOOPS: &[&str] = &[
    "gen_server:",
    "gen_statem:",
    "gen_fsm:",
    "p1_server:",
    "p1_fsm:",
    "gen_server2:",
    "erlang:hibernate/",
];

/// What the connections of a shaped service show.
struct Paced {
    /// Connections that read or wait to be read.
    all: usize,
    /// Of them, those that wait while their socket is passive.
    held: usize,
    /// Bytes and reads a second of one of those, in the middle.
    bytes: f64,
    reads: f64,
    /// How many of the held have that rate, but for a read more or less at either end.
    alike: usize,
    /// Owners of held connections that were sampled, and those of them that are idle in a loop.
    sampled: usize,
    idle: usize,
    /// Where one of the others was, if there is one.
    elsewhere: Option<String>,
    /// Bytes that lie unread in one of them.
    unread: f64,
}

impl Paced {
    /// Why it is no pace that is set.
    fn is_none(&self) -> Option<String> {
        let most = |part: usize, of: usize| part as f64 > HALFWAY * of as f64;
        if self.held < 2 || 2 * self.held < self.all || self.bytes <= 0.0 {
            return Some(format!(
                "{} of {} connections wait to be read, and read on",
                self.held, self.all
            ));
        }
        if !most(self.alike, self.held) {
            return Some(format!(
                "{} of {} of them are read at the same rate",
                self.alike, self.held
            ));
        }
        let elsewhere =
            self.elsewhere.as_ref().map_or(String::new(), |at| format!("; one is in {at}"));
        (!most(self.idle, self.sampled)).then(|| {
            format!("{} of {} owners are idle meanwhile{elsewhere}", self.idle, self.sampled)
        })
    }
}

pub(super) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let run = &facts.run;
    facts.serving_node()?;
    let Some(paced) = paced(run)? else {
        return not_here("no two connections have bytes unread while their sockets are passive");
    };
    if let Some(why) = paced.is_none() {
        return not_here(why);
    }
    let rate = Bytes(paced.bytes as u64);
    Ok(Claim {
        parts: vec![Part::Delay {
            at: At::Station(Station::Unread),
            each: paced.held as f64 / facts.attained.max(1e-9),
        }],
        known: Known::Sized,
        role: Role::Cause,
        sum: format!(
            "{} connections x {rate}/s, {} a read",
            paced.held,
            Bytes((paced.bytes / paced.reads.max(1e-9)) as u64)
        ),
        seen: format!(
            "{} of {} connections have {} unread and passive sockets; {} of them are read at {rate}/s; {} of {} \
             owners are idle in their receive loops meanwhile",
            paced.held,
            paced.all,
            Bytes(paced.unread as u64),
            paced.alike,
            paced.idle,
            paced.sampled
        ),
        remedies: vec![remedy()],
    })
}

/// None where fewer than two connections are held.
fn paced(run: &Run) -> Result<Option<Paced>, Missing> {
    let mut all = 0;
    let mut held: Vec<Connection> = Vec::new();
    let mut missing = None;
    for connection in connections(run)? {
        match is_held(&connection.of) {
            Ok(true) => held.push(connection),
            Ok(false) if connection.bytes > 0.0 => {}
            Ok(false) => continue,
            Err(none) => {
                missing = Some(none);
                continue;
            }
        }
        all += 1;
    }
    if held.len() < 2 {
        // Where the kernel's side or the options of all are unknown, so is this.
        return match missing {
            Some(missing) if all == 0 => Err(missing),
            _ => Ok(None),
        };
    }
    let middle = |figure: fn(&Connection) -> f64| {
        let mut figures: Vec<f64> = held.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let (bytes, reads) = (middle(|of| of.bytes), middle(|of| of.reads));
    let seconds = run.load.window.1.since(run.load.window.0).as_secs_f64();
    let chance = 2.0 / (reads * seconds).max(1e-9);
    let alike = held.iter().filter(|one| (one.bytes - bytes).abs() <= chance * bytes).count();
    let owners: Vec<Process> = sampled(run)
        .into_iter()
        .filter(|suspect| held.iter().any(|one| one.owner == Some(suspect.pid.as_str())))
        .collect();
    let (idle, others): (Vec<&Process>, Vec<&Process>) =
        owners.iter().partition(|one| is_idle(one));
    Ok(Some(Paced {
        all,
        held: held.len(),
        bytes,
        reads,
        alike,
        sampled: owners.len(),
        idle: idle.len(),
        elsewhere: others.first().map(|one| one.function.to_owned()),
        unread: middle(|connection| connection.unread().unwrap_or(0.0)),
    }))
}

/// Whether bytes lay in the kernel and the socket was passive, each in most of its samples.
fn is_held(flow: &Of) -> Result<bool, Missing> {
    let unread = share(flow, tcp_info::RQUEUE, |bytes| bytes.0 > 0)?;
    let passive = share(flow, port::ACTIVE, |active| active == 0)?;
    Ok(unread > HALFWAY && passive > HALFWAY)
}

fn share<Q: Quantity>(
    flow: &Of,
    metric: Metric<Q>,
    is: impl Fn(Q) -> bool,
) -> Result<f64, Missing> {
    let samples = flow.all(metric)?;
    let count = samples.len() as f64;
    Ok(samples.into_iter().filter(|(_, value)| is(*value)).count() as f64 / count)
}

/// Whether it has nothing to do and would take any message.
fn is_idle(owner: &Process) -> bool {
    let in_loop = LOOPS.iter().any(|own| owner.function.starts_with(own));
    in_loop && owner.running < HALFWAY && owner.with_mail < HALFWAY
}
