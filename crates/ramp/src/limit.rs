//! Which limit a climb met: from what failed, and from what host and target had left of everything at that moment.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::reading::Reading;

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
    /// Users that failed since the last clean level, by cause.
    pub failed: BTreeMap<String, u64>,
    /// The 99th percentile of message latency of the level, if it is that. Unit: ns.
    pub p99_ns: Option<u64>,
}

// Chosen: what is so full has no place for another level's users, and a reading may be a moment old.
const FULL: f64 = 0.98;

// Chosen: beside a load that makes a tenth of a busy CPU's noise, so much of all CPUs is all of them.
const BUSY: f64 = 0.9;

/// Names it. `before` is the reading of the last level that was clean, `at` the one of the moment.
///
/// What the engine itself lacked comes first: nothing that is seen then is the target's. Then what is full, the fullest
/// first; then what was turned away and counted; then what took too long.
pub(crate) fn name(met: &Met, before: &Reading, at: &Reading, gate: Duration) -> Limit {
    let is = |id: &str, says: String| Limit { id: id.to_owned(), says };
    let failed = |word: &str| -> u64 {
        met.failed.iter().filter(|(cause, _)| cause.starts_with(word)).map(|(_, count)| count).sum()
    };
    let online = met.online;
    let own = [
        ("descriptors", "engine.descriptors", "the engine may open no more descriptors"),
        (
            "no-address",
            "engine.source_ports",
            "the engine has no more source ports to this address",
        ),
    ];
    for (cause, id, says) in own {
        let count = failed(cause);
        if count > 0 {
            return is(
                id,
                format!("{says}: {count} connects failed by it at {online} users online"),
            );
        }
    }
    if let Some(died) = &at.died {
        if at.grown(before, "target.oom_kills") > 0 {
            return is(
                "target.memory",
                format!("its memory cgroup was full and the kernel ended it ({died})"),
            );
        }
        return is("target.died", format!("the target ended at {online} users online: {died}"));
    }
    // What the engine has left is its own limit only where it failed by it.
    let full =
        at.roofs.iter().filter(|roof| roof.share() >= FULL && !roof.id.starts_with("engine."));
    if let Some(roof) = full.max_by(|a, b| a.share().total_cmp(&b.share())) {
        let (used, most, what) = (roof.used, roof.most, roof.what);
        return is(roof.id, format!("{used} of {most} {what} are used, at {online} users online"));
    }
    let overflows = at.grown(before, "listen.overflows");
    let waits = failed("timed out") + failed("refused while connecting") + failed("reset");
    if overflows > 0 && waits > 0 {
        let says = format!(
            "its accept queue was full: {overflows} times a connect was dropped, and {waits} users failed"
        );
        return is("target.backlog", says);
    }
    let span = at.at.nanos_since(before.at) as f64;
    let busy = at.grown(before, "host.busy_ns") as f64 / (span * at.cpus.max(1) as f64);
    let slow = met.p99_ns.is_some() || failed("timed out") > 0;
    if slow && span > 0.0 && busy >= BUSY {
        let target = at.grown(before, "target.cpu_ns") as f64 / span;
        let says = format!(
            "{:.0} % of {} CPUs were busy, {target:.2} CPUs' worth by the target, at {online} users online",
            busy * 100.0,
            at.cpus
        );
        return is("host.cpu", says);
    }
    let turned_away: Vec<_> =
        met.failed.iter().filter(|(cause, _)| cause.starts_with("turned away")).collect();
    if let Some((cause, count)) = turned_away.first() {
        return is("target.turns_away", format!("{count} users {cause}, at {online} users online"));
    }
    let refused = failed("refused while connecting");
    if refused > 0 {
        return is(
            "target.refuses",
            format!(
                "nobody accepts at its address: {refused} connects were refused at {online} users online"
            ),
        );
    }
    if let Some(p99) = met.p99_ns {
        let says = format!(
            "the 99th percentile of message latency is {:.0} ms, above {:.0} ms, at {online} users online; no resource was full",
            p99 as f64 / 1e6,
            gate.as_secs_f64() * 1e3
        );
        return is("unexplained", says);
    }
    let causes: Vec<_> =
        met.failed.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    is(
        "unexplained",
        format!("users failed at {online} online: {}; no resource was full", causes.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use linerate_model::Timestamp;

    use super::*;
    use crate::reading::Roof;

    fn named(
        failed: &[(&str, u64)],
        p99: Option<u64>,
        change: impl FnOnce(&mut Reading),
    ) -> String {
        let before = Reading {
            at: Timestamp(0),
            roofs: vec![Roof {
                id: "target.descriptors",
                what: "descriptors",
                used: 300,
                most: 1_000,
            }],
            counters: ["listen.overflows", "host.busy_ns", "target.cpu_ns", "target.oom_kills"]
                .map(|name| (name, 0))
                .into(),
            cpus: 2,
            ..Reading::default()
        };
        let mut at = Reading { at: Timestamp(1_000_000_000), ..before.clone() };
        change(&mut at);
        let failed = failed.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect();
        let met = Met { online: 950, failed, p99_ns: p99 };
        name(&met, &before, &at, Duration::from_secs(1)).id
    }

    #[test]
    fn each_limit_is_named_by_what_only_it_shows() {
        let late = [("timed out while logging in", 5)];
        let full = |at: &mut Reading| at.roofs[0].used = 1_000;
        let dropped = |at: &mut Reading| *at.counters.get_mut("listen.overflows").unwrap() = 40;
        let busy = |at: &mut Reading| *at.counters.get_mut("host.busy_ns").unwrap() = 1_950_000_000;
        assert_eq!(named(&[("descriptors while connecting", 3)], None, full), "engine.descriptors");
        assert_eq!(
            named(&[("no-address while connecting", 3)], None, |_| {}),
            "engine.source_ports"
        );
        assert_eq!(named(&late, None, full), "target.descriptors");
        assert_eq!(named(&late, None, dropped), "target.backlog");
        assert_eq!(named(&late, None, busy), "host.cpu");
        assert_eq!(named(&[], Some(2_000_000_000), busy), "host.cpu");
        assert_eq!(named(&[("turned away: full", 3)], None, |_| {}), "target.turns_away");
        assert_eq!(named(&[("refused while connecting", 3)], None, |_| {}), "target.refuses");
        assert_eq!(
            named(&[("reset while online", 900)], None, |at| {
                at.died = Some("signal 9".into());
                *at.counters.get_mut("target.oom_kills").unwrap() = 1;
            }),
            "target.memory"
        );
        assert_eq!(
            named(&[("reset while online", 900)], None, |at| at.died = Some("signal 9".into())),
            "target.died"
        );
    }

    #[test]
    fn what_nothing_explains_is_not_explained() {
        let late = [("timed out while logging in", 5)];
        assert_eq!(named(&late, None, |_| {}), "unexplained");
        assert_eq!(named(&[], Some(2_000_000_000), |_| {}), "unexplained");
        // A queue that dropped connects which came again in time has failed nobody.
        let dropped = |at: &mut Reading| *at.counters.get_mut("listen.overflows").unwrap() = 40;
        assert_eq!(named(&[], Some(2_000_000_000), dropped), "unexplained");
    }
}
