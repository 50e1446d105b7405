//! What is healthy and what is not: how much there is of everything, and how much of it is used.

use linerate_evidence::sources::{listener, netstat, process, snmp, stat, vm};
use linerate_evidence::{Evidence, Header, Side, Subject};
use linerate_model::Bytes;
use serde::{Deserialize, Serialize};

// Chosen: a resource of which four fifths are used is one to watch.
const MUCH: f64 = 0.8;

/// One thing that can run out, or go wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Vital {
    /// What: `schedulers`, `descriptors`.
    pub what: String,
    /// How it is, in words.
    pub says: String,
    /// Whether that is well.
    pub well: bool,
}

/// What the probe inside the node cost it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// Of one scheduler's time.
    pub share: f64,
    /// What it was allowed, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Passes it made.
    pub passes: u64,
    /// Passes in which it left something out to keep its budget.
    pub thinned: u64,
}

/// What watching cost; none where nothing was sampled inside.
pub(super) fn probe(header: &Header, evidence: &Evidence) -> Option<ProbeCost> {
    let of = evidence.of(Subject::Node);
    let (time, over) = of.delta(vm::PROBE_TIME).ok()?;
    let budget = header.target.knobs.get("budget").cloned();
    Some(ProbeCost {
        share: time.as_secs_f64() / over.as_secs_f64(),
        budget: budget.or_else(|| evidence.fact(Subject::Node, "budget").map(str::to_owned)),
        passes: of.delta(vm::PROBE_PASSES).map_or(0, |(passes, _)| passes),
        thinned: of.delta(vm::PROBE_THINNED).map_or(0, |(passes, _)| passes),
    })
}

/// Everything that was measured of them, the node's first.
pub(super) fn vitals(header: &Header, evidence: &Evidence) -> Vec<Vital> {
    let mut found = Vec::new();
    of_node(evidence, &mut found);
    of_process(header, evidence, &mut found);
    of_stack(evidence, &mut found);
    found
}

fn of_node(evidence: &Evidence, found: &mut Vec<Vital>) {
    let of = evidence.of(Subject::Node);
    let mut say = |what: &str, well: bool, says: String| {
        found.push(Vital { what: what.into(), says, well });
    };
    if let (Ok((active, _)), Ok((total, _))) =
        (of.delta(vm::SCHEDULER_ACTIVE), of.delta(vm::SCHEDULER_TOTAL))
    {
        // The total is of all, the offline ones too, which do nothing.
        let offline = match (of.last(vm::SCHEDULERS), of.last(vm::SCHEDULERS_ONLINE)) {
            (Ok(all), Ok(online)) => all as f64 / online.max(1) as f64,
            _ => 1.0,
        };
        let share = active as f64 / total.max(1) as f64 * offline;
        let online = of.last(vm::SCHEDULERS_ONLINE).map_or(String::new(), |n| format!(" of {n}"));
        say("schedulers", share < MUCH, format!("{:.1} %{online} busy", share * 100.0));
    }
    if let (Ok(median), Ok(most)) = (of.median(vm::RUN_QUEUE), of.max(vm::RUN_QUEUE)) {
        let online = of.last(vm::SCHEDULERS_ONLINE).unwrap_or(1);
        let says = format!("{median} processes wait for a scheduler, {most} at most");
        say("run queue", median <= online, says);
    }
    if let Ok(total) = of.last(vm::MEMORY_TOTAL) {
        let part = |metric| of.last(metric).unwrap_or(Bytes(0));
        let says = format!(
            "{total}: processes {}, binaries {}, ETS {}",
            part(vm::MEMORY_PROCESSES),
            part(vm::MEMORY_BINARY),
            part(vm::MEMORY_ETS)
        );
        say("memory", true, says);
    }
    for (what, used, limit) in [
        ("processes", vm::PROCESS_COUNT, vm::PROCESS_LIMIT),
        ("ports", vm::PORT_COUNT, vm::PORT_LIMIT),
        ("atoms", vm::ATOM_COUNT, vm::ATOM_LIMIT),
        ("ETS tables", vm::ETS_COUNT, vm::ETS_LIMIT),
    ] {
        if let (Ok(used), Ok(limit)) = (of.max(used), of.last(limit)) {
            say(what, (used as f64) < MUCH * limit as f64, format!("{used} of {limit}"));
        }
    }
    if let Ok(most) = of.max(vm::ALARMS) {
        let says = evidence.fact(Subject::Node, "alarms").unwrap_or("none");
        say("alarms", most == 0, if most == 0 { "none".into() } else { says.into() });
    }
    if let (Ok(queue), Ok(stalled)) = (of.median(vm::LINK_QUEUE), of.median(vm::LINK_STALLED)) {
        let readers = match of.median(vm::LINK_READERS) {
            Ok(readers) if readers > 0 => format!(
                "; {readers} readers: {} frames unread, {} not taken by destinations",
                of.median(vm::LINK_UNREAD).unwrap_or_default(),
                of.median(vm::LINK_UNCONSUMED).unwrap_or(Bytes(0)),
            ),
            _ => String::new(),
        };
        let says = format!(
            "{}; {queue} messages queued, {} frames unconfirmed, {stalled} destinations without credit ({} kept for them){readers}",
            evidence.fact(Subject::Node, "links").unwrap_or("?"),
            of.median(vm::LINK_UNCONFIRMED).unwrap_or_default(),
            of.median(vm::LINK_KEPT).unwrap_or(Bytes(0)),
        );
        say("links", stalled == 0, says);
    }
    if let Ok((count, _)) = of.delta(vm::LONG_GC) {
        let worst = of.last(vm::LONG_GC_WORST).unwrap_or_default();
        let mut says = format!("{count} over 20 ms, the longest {} ms", worst.as_millis());
        if let Ok((timed, over)) = of.delta(vm::TIMED)
            && timed.as_secs_f64() < 0.9 * over.as_secs_f64()
        {
            let share = timed.as_secs_f64() / over.as_secs_f64() * 100.0;
            says.push_str(&format!(", timed for {share:.0} % of the time"));
        }
        say("garbage collections", count == 0, says);
    }
}

fn of_process(header: &Header, evidence: &Evidence, found: &mut Vec<Vital>) {
    let of = evidence.of(Subject::Target);
    let mut say = |what: &str, well: bool, says: String| {
        found.push(Vital { what: what.into(), says, well });
    };
    if let (Ok((user, over)), Ok((system, _))) =
        (of.delta(process::UTIME), of.delta(process::STIME))
    {
        let cores = (user + system).as_secs_f64() / over.as_secs_f64();
        let limit = f64::from(header.target.cpus.unwrap_or(header.host.cpus).max(1));
        let quota =
            of.last(process::CPU_QUOTA).map_or(limit, |quota| quota.as_secs_f64().max(0.01));
        let limit = limit.min(quota);
        say("CPU", cores < MUCH * limit, format!("{cores:.2} of {limit:.2} CPUs it may use"));
    }
    if let Ok((throttled, _)) = of.delta(process::NR_THROTTLED) {
        let periods = of.delta(process::NR_PERIODS).map_or(0, |(periods, _)| periods);
        // Without a quota there are no periods.
        if periods > 0 {
            let says = format!("{throttled} of {periods} periods throttled");
            say("CPU quota", throttled * 20 <= periods, says);
        }
    }
    if let (Ok(used), Ok(limit)) = (of.max(process::FDS_MAX), of.last(process::NOFILE)) {
        say("descriptors", (used as f64) < MUCH * limit as f64, format!("{used} of {limit}"));
    }
    let host = evidence.of(Subject::Host);
    if let Ok((idle, over)) = host.delta(stat::IDLE) {
        let cpus = f64::from(header.host.cpus.max(1));
        let busy = 1.0 - (idle.as_secs_f64() / over.as_secs_f64() / cpus).clamp(0.0, 1.0);
        let says = format!("{:.0} % of {cpus:.0} CPUs busy in total", busy * 100.0);
        say("host", busy < MUCH, says);
    }
}

fn of_stack(evidence: &Evidence, found: &mut Vec<Vital>) {
    let mut say = |what: String, well: bool, says: String| found.push(Vital { what, says, well });
    let stack = evidence.of(Subject::Stack(Side::Server));
    let deferred = stack.delta(netstat::DEFER_ACCEPT_DROP).map_or(0, |(count, _)| count);
    for subject in evidence.subjects() {
        let Subject::Listener(port) = subject else { continue };
        let of = evidence.of(subject);
        if let (Ok(queued), Ok(limit)) = (of.max(listener::RQUEUE), of.last(listener::WQUEUE)) {
            // A listener with TCP_DEFER_ACCEPT counts a bare ACK of each healthy connection too; how many
            // those were the kernel tells for the whole namespace alone.
            let drops = of.delta(listener::DROPS).map_or(0, |(drops, _)| drops);
            let drops = drops.saturating_sub(deferred);
            let well = drops == 0 && queued as f64 <= MUCH * limit as f64;
            let dropped = if drops > 0 { format!(", {drops} dropped") } else { String::new() };
            let says = format!("at most {queued} of {limit} wait to be accepted{dropped}");
            say(format!("port {port}"), well, says);
        }
    }
    if let (Ok((sent, _)), Ok((again, _))) =
        (stack.delta(snmp::OUT_SEGS), stack.delta(snmp::RETRANS_SEGS))
        && sent > 0
    {
        let share = again as f64 / sent as f64;
        let says = format!("{again} of the host's {sent} segments retransmitted");
        say("loss".into(), share < 0.001 || again < 10, says);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Timestamp;

    #[test]
    fn a_queue_that_dropped_is_not_well_however_empty_it_was_found() {
        let mut evidence = Evidence::default();
        for (at, drops) in [(0, 5), (1_000_000_000, 9)] {
            let of = Subject::Listener(8080);
            evidence.push(Timestamp(at), of, listener::RQUEUE, 0);
            evidence.push(Timestamp(at), of, listener::WQUEUE, 5);
            evidence.push(Timestamp(at), of, listener::DROPS, drops);
        }
        let mut found = Vec::new();
        of_stack(&evidence, &mut found);
        assert_eq!(found[0].says, "at most 0 of 5 wait to be accepted, 4 dropped");
        assert!(!found[0].well);
        // As Apache's, whose listener defers.
        for (at, deferred) in [(0, 100), (1_000_000_000, 104)] {
            let of = Subject::Stack(Side::Server);
            evidence.push(Timestamp(at), of, netstat::DEFER_ACCEPT_DROP, deferred);
        }
        let mut found = Vec::new();
        of_stack(&evidence, &mut found);
        assert!(found[0].well, "{}", found[0].says);
    }

    #[test]
    fn a_link_is_shown_and_is_not_well_where_destinations_have_no_credit() {
        for (stalled, well) in [(0, true), (2, false)] {
            let mut evidence = Evidence::default();
            let (at, of) = (Timestamp(0), Subject::Node);
            evidence.push(at, of, vm::LINK_QUEUE, 3);
            evidence.push(at, of, vm::LINK_UNCONFIRMED, 4);
            evidence.push(at, of, vm::LINK_STALLED, stalled);
            evidence.push(at, of, vm::LINK_KEPT, Bytes(512));
            evidence.push_fact(of, "links", "b@there: 2 small, 1 bulk".into());
            let mut found = Vec::new();
            of_node(&evidence, &mut found);
            let says = format!(
                "b@there: 2 small, 1 bulk; 3 messages queued, 4 frames unconfirmed, {stalled} destinations without \
                 credit ({} kept for them)",
                Bytes(512)
            );
            assert_eq!(
                (found[0].what.as_str(), &found[0].says, found[0].well),
                ("links", &says, well)
            );
        }
    }

    #[test]
    fn a_node_to_which_a_link_was_opened_shows_its_readers() {
        let mut evidence = Evidence::default();
        let (at, of) = (Timestamp(0), Subject::Node);
        for metric in [vm::LINK_QUEUE, vm::LINK_STALLED, vm::LINK_UNCONFIRMED] {
            evidence.push(at, of, metric, 0);
        }
        evidence.push(at, of, vm::LINK_READERS, 3);
        evidence.push(at, of, vm::LINK_UNREAD, 2);
        evidence.push(at, of, vm::LINK_UNCONSUMED, Bytes(1024));
        evidence.push_fact(of, "links", "from a@there: 2 small, 1 bulk".into());
        let mut found = Vec::new();
        of_node(&evidence, &mut found);
        assert!(found[0].says.starts_with("from a@there: 2 small, 1 bulk; 0 messages queued"));
        let readers = "; 3 readers: 2 frames unread, 1.00 KiB not taken by destinations";
        assert!(found[0].says.ends_with(readers), "{}", found[0].says);
    }

    #[test]
    fn what_was_not_measured_is_no_vital() {
        let mut found = Vec::new();
        of_node(&Evidence::default(), &mut found);
        of_stack(&Evidence::default(), &mut found);
        assert!(found.is_empty());
    }
}
