//! Roofs of the path over recorded runs that were changed in one respect: the one that tells a limit from
//! what looks like it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, Header, Subject};
use linerate_model::{BitRate, Path};
use linerate_roofline::{Judgement, State};

mod altered;

use altered::{changed, judged, of, recording};

const OF_THE_PATH: [&str; 6] = [
    "path.queue-limit",
    "path.rate",
    "path.bufferbloat",
    "path.loss",
    "path.black-hole",
    "path.emulator",
];

/// The plans whose runs have samples of their path.
const LAID: [&str; 8] = [
    "queue-limit",
    "queue-short",
    "line-rate",
    "bufferbloat",
    "loss",
    "loss-bulk",
    "black-hole",
    "emulator",
];

fn named(header: &Header, evidence: &Evidence) -> Option<String> {
    judged(header, evidence).verdict.by().map(str::to_owned)
}

/// The path of the plan, to be changed.
fn path(header: &mut Header) -> &mut Path {
    header.plan.path.as_mut().unwrap()
}

/// One metric of every subject.
fn with(evidence: &Evidence, name: &str, to: impl Fn(u64) -> u64) -> Evidence {
    changed(evidence, |_, metric, raw| Some(if metric == name { to(raw) } else { raw }))
}

/// Two counters, one read as the other.
fn swapped(evidence: &Evidence, one: &str, other: &str) -> Evidence {
    let mut swapped = Evidence::default();
    swapped.slices.clone_from(&evidence.slices);
    for (subject, facts) in evidence.facts() {
        for (name, text) in facts {
            swapped.push_fact(*subject, name, text.clone());
        }
    }
    for (at, subject, values) in evidence.rows() {
        for (metric, raw) in values {
            let name = match metric {
                metric if metric == one => other,
                metric if metric == other => one,
                metric => metric,
            };
            swapped.push_raw(at, subject, name, raw);
        }
    }
    swapped
}

fn assert_no_path_roof_binds(judgement: &Judgement, why: &str) {
    for id in OF_THE_PATH {
        assert!(!of(judgement, id).binds, "{why}: {:?}", of(judgement, id));
    }
}

#[test]
fn a_full_path_and_a_lossy_one_are_told_apart_by_what_dropped() {
    let (mut header, evidence) = recording("queue-limit");
    let at_random = swapped(&evidence, "link.dropped_limit", "link.dropped_loss");
    path(&mut header).limit = None;
    assert_eq!(named(&header, &at_random).as_deref(), Some("path.loss"));

    let (mut header, evidence) = recording("loss");
    let when_full = swapped(&evidence, "link.dropped_limit", "link.dropped_loss");
    path(&mut header).limit = Some(20);
    assert_eq!(named(&header, &when_full).as_deref(), Some("path.queue-limit"));
}

#[test]
fn a_line_that_is_full_drops_and_is_not_short_of_a_queue() {
    let (mut header, evidence) = recording("queue-short");
    // 100 Mbit/s asked and less than two thirds of it used; had half been asked, the line would be full.
    let carried = of(&judged(&header, &evidence), "path.rate").share.unwrap();
    path(&mut header).rate = Some(BitRate(100e6 * carried));
    let judgement = judged(&header, &evidence);
    assert!(!of(&judgement, "path.queue-limit").binds);
    assert_eq!(judgement.verdict.by(), Some("path.rate"));
}

#[test]
fn few_drops_hold_nobody() {
    for (plan, metric) in [("queue-limit", "link.dropped_limit"), ("loss", "link.dropped_loss")] {
        let (header, evidence) = recording(plan);
        let few = with(&evidence, metric, |drops| drops / 1000);
        assert_no_path_roof_binds(&judged(&header, &few), plan);
    }
}

#[test]
fn a_short_queue_before_a_full_line_is_its_rate_and_no_bloat() {
    let (header, evidence) = recording("bufferbloat");
    let long = judged(&header, &evidence);
    assert_eq!(long.verdict.by(), Some("path.rate"));
    let latency = long.latency.unwrap();
    assert_eq!(latency.by.as_deref(), Some("path.bufferbloat"));
    // 1,268 packets at 4,193 a second are 302 ms, of which the path's round trip has 20.
    assert!((0.27..0.29).contains(&latency.seconds), "{latency:?}");
    let short = with(&evidence, "link.queue", |_| 40);
    let judgement = judged(&header, &short);
    assert_eq!(of(&judgement, "path.bufferbloat").state, State::DoesNotApply);
    assert_eq!(judgement.verdict.by(), Some("path.rate"));
    assert_eq!(judgement.latency, None);
}

#[test]
fn small_exchanges_before_a_full_line_are_no_bloat_however_many() {
    let (header, evidence) = recording("line-rate");
    let long = with(&evidence, "link.queue", |_| 5_000);
    let judgement = judged(&header, &long);
    assert_eq!(of(&judgement, "path.bufferbloat").state, State::DoesNotApply);
    assert_eq!(judgement.verdict.by(), Some("path.rate"));
    assert_eq!(judgement.latency, None);
}

#[test]
fn a_slow_line_under_an_offered_rate_that_it_carries_is_no_limit() {
    for plan in ["line-rate", "bufferbloat", "queue-limit", "loss"] {
        let (mut header, evidence) = recording(plan);
        // Due was what was answered, so all that was offered is carried.
        header.plan.load.rate = Some(linerate_model::OpRate(1.0));
        assert_no_path_roof_binds(&judged(&header, &evidence), plan);
    }
}

#[test]
fn a_path_that_drops_nothing_for_its_size_is_no_black_hole() {
    let (header, evidence) = recording("black-hole");
    let whole = with(&evidence, "link.dropped_size", |_| 0);
    let judgement = judged(&header, &whole);
    assert_eq!(of(&judgement, "path.black-hole").state, State::DoesNotApply);
}

#[test]
fn without_probing_a_black_hole_lets_nothing_through() {
    let (mut header, evidence) = recording("black-hole");
    let probing = judged(&header, &evidence);
    let sum = &of(&probing, "path.black-hole").sum;
    assert!(sum.contains("until smaller segments are tried"), "{sum}");
    path(&mut header).sysctls.insert("net.ipv4.tcp_mtu_probing".into(), "0".into());
    let judgement = judged(&header, &evidence);
    let sum = &of(&judgement, "path.black-hole").sum;
    assert!(sum.ends_with("never pass the return path: exchanges that need them hang"), "{sum}");
    let knobs: Vec<_> = judgement.advice.iter().map(|advice| advice.knob.as_str()).collect();
    assert_eq!(knobs, ["path.back.largest", "path.sysctls.net.ipv4.tcp_mtu_probing"]);
}

#[test]
fn an_emulator_with_time_to_spare_is_not_the_limit() {
    let (header, evidence) = recording("emulator");
    assert!(of(&judged(&header, &evidence), "path.emulator").binds);
    let resting = changed(&evidence, |_, metric, raw| {
        Some(if matches!(metric, "link.cpu" | "link.late") { raw / 2 } else { raw })
    });
    assert!(!of(&judged(&header, &resting), "path.emulator").binds);
}

#[test]
fn packets_that_leave_late_are_the_emulators_on_a_machine_that_rests() {
    let (header, evidence) = recording("loss");
    assert!(!of(&judged(&header, &evidence), "path.emulator").binds);
    // Each frame 5 ms late, either way, where an exchange takes some 15.
    let frames: std::collections::BTreeMap<_, _> = evidence
        .rows()
        .into_iter()
        .filter_map(|(at, of, values)| Some(((at, of), *values.get("link.frames_out")?)))
        .collect();
    let mut late = changed(&evidence, |_, metric, raw| (metric != "link.late").then_some(raw));
    for ((at, of), frames) in frames {
        late.push_raw(at, of, "link.late", frames * 5_000_000);
    }
    assert!(of(&judged(&header, &late), "path.emulator").binds);
}

#[test]
fn frames_that_its_own_devices_lose_are_the_emulators() {
    let (header, evidence) = recording("loss");
    let own = swapped(&evidence, "link.dropped_device", "link.dropped_loss");
    assert!(of(&judged(&header, &own), "path.emulator").binds);
}

#[test]
fn a_window_that_is_kept_is_not_forgotten() {
    let (mut header, evidence) = recording("slow-start-after-idle");
    let id = "tcp.slow-start-after-idle";
    let long = with(&evidence, "tcp.rto", |_| 20_000_000_000);
    assert!(!of(&judged(&header, &long), id).binds);
    path(&mut header).sysctls.insert("net.ipv4.tcp_slow_start_after_idle".into(), "0".into());
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, id).state, State::DoesNotApply);
}

#[test]
fn without_samples_of_the_path_its_roofs_are_unmeasured_and_name_nothing() {
    for plan in LAID {
        let (header, evidence) = recording(plan);
        let blind =
            changed(&evidence, |_, metric, raw| (!metric.starts_with("link.")).then_some(raw));
        let judgement = judged(&header, &blind);
        assert_no_path_roof_binds(&judgement, plan);
        let emulator = of(&judgement, "path.emulator");
        assert_eq!(emulator.state, State::Unmeasured, "{plan}");
        assert!(emulator.sum.contains("link."), "{plan}: {}", emulator.sum);
    }
}

#[test]
fn without_a_path_none_of_its_roofs_applies() {
    for plan in LAID {
        let (mut header, evidence) = recording(plan);
        header.plan.path = None;
        let judgement = judged(&header, &evidence);
        for id in OF_THE_PATH {
            assert_eq!(of(&judgement, id).state, State::DoesNotApply, "{plan}: {id}");
        }
    }
}

#[test]
fn near_and_far_servers_each_have_their_part_in_the_sum() {
    let (header, evidence) = recording("concurrency-sites");
    let judgement = judged(&header, &evidence);
    let roof = of(&judgement, "load.concurrency");
    assert!(roof.binds, "{roof:?}");
    // 16 workers / (0.5 x some us + 0.5 x 10 ms): 3,200/s at most, whatever the near one takes.
    assert!(roof.sum.starts_with("16 workers / (0.5 x "), "{}", roof.sum);
    assert!(roof.sum.contains("between far and near"), "{}", roof.sum);
    assert!((2_500.0..=3_200.0).contains(&roof.ceiling.unwrap().0), "{roof:?}");
}

/// The kernel's netem says how many it dropped, and not why.
#[test]
fn where_it_is_not_said_why_a_packet_was_dropped_the_plan_tells() {
    for (plan, roof) in [("queue-limit", "path.queue-limit"), ("loss", "path.loss")] {
        let (header, evidence) = recording(plan);
        let mut netem = Evidence::default();
        netem.slices.clone_from(&evidence.slices);
        for (at, subject, values) in evidence.rows() {
            let sum =
                |names: &[&str]| names.iter().filter_map(|name| values.get(name)).sum::<u64>();
            for (metric, raw) in &values {
                if !metric.starts_with("link.")
                    || ["link.packets_in", "link.packets_out", "link.bytes_out"].contains(metric)
                {
                    netem.push_raw(at, subject, metric, *raw);
                }
            }
            if matches!(subject, Subject::Link(..)) {
                let dropped =
                    sum(&["link.dropped_queue", "link.dropped_limit", "link.dropped_loss"]);
                netem.push_raw(at, subject, "link.dropped", dropped);
            }
        }
        assert_eq!(named(&header, &netem).as_deref(), Some(roof), "{plan}");
    }
}

#[test]
fn the_advice_of_a_full_path_is_what_all_connections_may_have_out() {
    let (header, evidence) = recording("queue-limit");
    let judgement = judged(&header, &evidence);
    let advice = &judgement.advice[0];
    assert_eq!(advice.knob, "path.limit");
    let value: u32 = advice.value.parse().unwrap();
    // A packet or two of each of the 64, and a quarter more.
    assert!((64..=400).contains(&value), "{value}");
}

#[test]
fn the_knob_of_one_way_is_turned_where_the_plan_has_it() {
    let (mut header, evidence) = recording("queue-limit");
    let change = linerate_model::DirectionChange { limit: Some(20), ..Default::default() };
    (path(&mut header).out, path(&mut header).back) = (Some(change.clone()), Some(change));
    path(&mut header).limit = None;
    let judgement = judged(&header, &evidence);
    let knob = &judgement.advice[0].knob;
    assert!(["path.out.limit", "path.back.limit"].contains(&knob.as_str()), "{knob}");
}
