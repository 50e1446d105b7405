//! The same limit of a service that is watched, put on what its clients send: it reads a little, and then
//! leaves the connection alone until that much is due again.
//!
//! `ceiling = held connections x bytes a second of one / bytes of a read + reads of the others`
//!
//! No stamps tell the pace, but a look at any moment finds the pause: bytes lie in the kernel, the socket is
//! passive, and its owner rests in the loop of its behaviour with nothing to do. Who waits there waits for
//! any message; so it is no call, disk or sleep that keeps it from reading, but its own decision.
//! Told from a slow reader by that, and by the rate, which is the same for each connection. Told from a
//! service that reads nothing (an alarm, a lock) by its reading on.
//! Blind spots: a loop that no behaviour made. Clients that all send less than they may are not held.

use linerate_evidence::sources::{port, tcp_info};
use linerate_evidence::{Metric, Missing, Of, Quantity};
use linerate_model::{Bytes, OpRate};

use super::{ALIKE, advice};
use crate::roof::{Binds, Ceiling, Finding};
use crate::roofs::sockets::{Connection, connections};
use crate::roofs::suspects::{Suspect, serving_node, suspects};
use crate::run::Run;
use crate::utilisation::Utilisation;

// Chosen: of the samples. A pause is longer than what lies between two of them: one that was read in between
// is passive again a millisecond later.
const MOSTLY: f64 = 0.7;

// Chosen: above this somebody works, and need not be waiting for its turn to read.
const IDLE: f64 = 0.6;

/// Where an owner rests that would take any message. The modules whose loops they are; those of ejabberd
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
    /// What part of the held has that rate.
    alike: f64,
    /// Owners of held connections that were looked at, and those of them that rest in a loop.
    looked_at: usize,
    resting: usize,
    /// Where one of the others was, if there is one.
    elsewhere: Option<String>,
    /// Bytes that lie unread in one of them.
    unread: f64,
    /// Of the CPUs that the target may use.
    used: f64,
}

impl Paced {
    fn is_held(&self) -> bool {
        let mostly = |part: usize, of: usize| part as f64 >= MOSTLY * of as f64;
        self.held >= 2
            && 2 * self.held >= self.all
            && self.bytes > 0.0
            && self.alike >= MOSTLY
            && self.looked_at > 0
            && mostly(self.resting, self.looked_at)
            && self.used < IDLE
    }
}

/// Whether its connections are held to a rate each.
pub(in crate::roofs) fn is_paced(run: &Run) -> bool {
    run.is_watched() && paced(run).is_ok_and(|paced| paced.is_some_and(|paced| paced.is_held()))
}

pub(super) fn judge(run: &Run) -> Result<Finding, Missing> {
    if let Err(finding) = serving_node(run) {
        return Ok(finding);
    }
    let Some(paced) = paced(run)? else {
        let why = "no two connections have bytes unread while their sockets are passive";
        return Ok(Finding::DoesNotApply(why.into()));
    };
    let attained = run.attained();
    let each = Bytes(paced.bytes as u64);
    let theirs = OpRate((paced.held as f64 * paced.reads).min(attained.0));
    let others = OpRate(attained.0 - theirs.0);
    let mut seen = format!(
        "{} of {} connections have {} unread and passive sockets; {:.0} % of them are read at {each}/s, \
         within {:.0} %; {} of {} owners rest meanwhile, with {:.0} % of the CPUs in use",
        paced.held,
        paced.all,
        Bytes(paced.unread as u64),
        paced.alike * 100.0,
        ALIKE * 100.0,
        paced.resting,
        paced.looked_at,
        paced.used * 100.0
    );
    if let Some(elsewhere) = &paced.elsewhere {
        seen.push_str(&format!("; one is in {elsewhere}"));
    }
    let binds = if paced.is_held() { Binds::Yes(seen) } else { Binds::No(seen) };
    Ok(Finding::Ceiling(Ceiling {
        rate: attained,
        sum: format!(
            "{} connections x {each}/s / {} a read, and {others} of the others = {attained}",
            paced.held,
            Bytes((paced.bytes / paced.reads.max(1e-9)) as u64)
        ),
        binds,
        advice: vec![advice(run, attained)],
    }))
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
    let bytes = middle(|connection| connection.bytes);
    let alike = held.iter().filter(|one| (one.bytes - bytes).abs() <= ALIKE * bytes).count();
    let owners: Vec<Suspect> = suspects(run)
        .into_iter()
        .filter(|suspect| held.iter().any(|one| one.owner == Some(suspect.pid.as_str())))
        .collect();
    let (resting, others): (Vec<&Suspect>, Vec<&Suspect>) =
        owners.iter().partition(|one| rests(one));
    Ok(Some(Paced {
        all,
        held: held.len(),
        bytes,
        reads: middle(|connection| connection.reads),
        alike: alike as f64 / held.len() as f64,
        looked_at: owners.len(),
        resting: resting.len(),
        elsewhere: others.first().map(|one| one.function.to_owned()),
        unread: middle(|connection| connection.unread().unwrap_or(0.0)),
        used: Utilisation::of(run).target?.utilisation(),
    }))
}

/// Whether bytes lay in the kernel and the socket was passive, each in most of its samples.
fn is_held(flow: &Of) -> Result<bool, Missing> {
    let unread = share(flow, tcp_info::RQUEUE, |bytes| bytes.0 > 0)?;
    let passive = share(flow, port::ACTIVE, |active| active == 0)?;
    Ok(unread >= MOSTLY && passive >= MOSTLY)
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
fn rests(owner: &Suspect) -> bool {
    let in_loop = LOOPS.iter().any(|own| owner.function.starts_with(own));
    in_loop && owner.running < 0.3 && owner.with_mail < 0.3
}
