//! Which limit a climb met: from what failed, and from what host and target had left of everything at that moment.

mod accepts;
mod busy;
mod seen;

use std::collections::BTreeMap;

use serde::Serialize;

pub(crate) use seen::Seen;

use crate::ramp::LOST;

/// The limit that was met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// `target.descriptors`; `unexplained` where nothing that was read explains it.
    pub id: String,
    /// What it is, with its sum.
    pub says: String,
}

/// What was seen when a level was not clean.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Met {
    /// Users that were online then.
    pub online: u64,
    /// Users that had come since the last clean level.
    pub came: u64,
    /// Of those that were online, how many the service had not accepted.
    pub not_accepted: u64,
    /// Users that failed since the last clean level, by cause.
    pub failed: BTreeMap<String, u64>,
    /// The 99th percentile of message latency of the level, if it is that. Unit: ns.
    pub p99_ns: Option<u64>,
}

// Chosen: what is so full has no place for another level's users, and a reading may be a moment old.
const FULL: f64 = 0.98;

/// What names a limit by what was seen; none: it is not this one.
type Explains = fn(&Seen<'_>) -> Option<Limit>;

/// The first that explains it names it. What the engine itself lacked comes first: nothing that is seen then is the
/// target's. Then what is full; what was dropped and counted; what took too long, and where; what the service said.
const EXPLANATIONS: &[Explains] = &[
    engine_lacks,
    died,
    full,
    accepts::connection_tracking,
    busy::engine,
    accepts::suspended,
    accepts::backlog,
    accepts::phantoms,
    busy::logins,
    busy::cpus,
    busy::thread,
    accepts::acceptor,
    turns_away,
    refuses,
    accepts::filtered,
    busy::neighbours,
];

/// Names it.
pub(crate) fn name(seen: &Seen<'_>) -> Limit {
    EXPLANATIONS.iter().find_map(|explains| explains(seen)).unwrap_or_else(|| unexplained(seen))
}

fn is(id: &str, says: String) -> Option<Limit> {
    Some(Limit { id: id.to_owned(), says })
}

fn engine_lacks(seen: &Seen<'_>) -> Option<Limit> {
    let lacks = [
        ("descriptors", "engine.descriptors", "the engine may open no more descriptors"),
        (
            "no-address",
            "engine.source_ports",
            "the engine has no more source ports to this address",
        ),
        (LOST, "engine.process", "a process of the engine was lost"),
    ];
    let online = seen.met.online;
    lacks.into_iter().map(|(cause, id, says)| (seen.failed(cause), id, says)).find_map(
        |(count, id, says)| match count {
            0 => None,
            _ => is(id, format!("{says}: {count} users failed by it at {online} users online")),
        },
    )
}

fn died(seen: &Seen<'_>) -> Option<Limit> {
    let died = seen.at.died.as_ref()?;
    if seen.grown("target.oom_kills") > 0 {
        let says = format!("its memory cgroup was full and the kernel ended it ({died})");
        return is("target.memory", says);
    }
    is("target.died", format!("the target ended at {} users online: {died}", seen.met.online))
}

/// The fullest of what has an end. What the engine has left is its own limit only where it failed by it.
fn full(seen: &Seen<'_>) -> Option<Limit> {
    let roofs = seen.at.roofs.iter();
    let full = roofs.filter(|roof| roof.share() >= FULL && !roof.id.starts_with("engine."));
    let roof = full.max_by(|a, b| a.share().total_cmp(&b.share()))?;
    let (used, most, what) = (roof.used, roof.most, roof.what);
    is(roof.id, format!("{used} of {most} {what} are used, at {} users online", seen.met.online))
}

fn turns_away(seen: &Seen<'_>) -> Option<Limit> {
    let (cause, count) =
        seen.met.failed.iter().find(|(cause, _)| cause.starts_with("turned away"))?;
    let says = format!("{count} users {cause}, at {} users online", seen.met.online);
    is("target.turns_away", says)
}

fn refuses(seen: &Seen<'_>) -> Option<Limit> {
    let refused = seen.failed("refused while connecting");
    if refused == 0 {
        return None;
    }
    let says = format!(
        "nothing listens at its address: {refused} connects were refused at {} users online",
        seen.met.online
    );
    is("target.refuses", says)
}

fn unexplained(seen: &Seen<'_>) -> Limit {
    let online = seen.met.online;
    let says = match seen.met.p99_ns {
        Some(p99) => format!(
            "the 99th percentile of message latency is {:.0} ms, above {:.0} ms, at {online} users online; no resource was full",
            p99 as f64 / 1e6,
            seen.gate.as_secs_f64() * 1e3
        ),
        None => {
            let causes = seen.met.failed.iter().map(|(cause, count)| format!("{count} {cause}"));
            let causes: Vec<_> = causes.collect();
            format!("users failed at {online} online: {}; no resource was full", causes.join(", "))
        }
    };
    Limit { id: "unexplained".into(), says }
}

#[cfg(test)]
mod tests;
