//! Roofs of schedulers, VM and CPUs over recorded runs that were changed in one respect: the one that
//! tells a limit from what looks like it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, Header, Subject, summarise};
use linerate_roofline::{Facts, Run, State};

mod altered;

use altered::{changed, judged, of, recording};

/// One metric of every subject, or of none.
fn with(evidence: &Evidence, name: &str, to: impl Fn(u64) -> Option<u64>) -> Evidence {
    changed(evidence, |_, metric, raw| if metric == name { to(raw) } else { Some(raw) })
}

const NODES: [&str; 11] = [
    "vm.schedulers",
    "vm.schedulers-too-few",
    "vm.funnel",
    "vm.hot-connection",
    "vm.large-heap",
    "vm.persistent-term",
    "vm.logger",
    "vm.dirty-cpu",
    "vm.dirty-io",
    "vm.native-code",
    "vm.tracing",
];

#[test]
fn a_target_that_is_no_node_has_none_of_these_and_its_cpu_time_is_all_that_is_known() {
    let (header, evidence) = recording("target-cpu");
    let judgement = judged(&header, &evidence);
    for id in NODES {
        assert_eq!(of(&judgement, id).state, State::DoesNotApply, "{id}");
    }
    assert_eq!(judgement.verdict.by(), Some("target.cpu"));
}

#[test]
fn of_a_node_that_is_sampled_inside_the_schedulers_tell_and_not_its_cpu_time() {
    let (header, evidence) = recording("schedulers");
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "target.cpu").state, State::DoesNotApply);
    // Not sampled inside, the same run is the target's CPU.
    let outside = changed(&evidence, |subject, _, raw| match subject {
        Subject::Node | Subject::Scheduler(_) | Subject::Process(_) => None,
        _ => Some(raw),
    });
    assert_eq!(judged(&header, &outside).verdict.by(), Some("target.cpu"));
}

#[test]
fn what_samples_of_its_code_find_spinning_is_no_work_of_a_target() {
    let (header, evidence) = recording("target-cpu");
    let sampled = |spins: bool| {
        let mut sampled = with(&evidence, "none", Some);
        for (at, of, values) in evidence.rows() {
            if of == Subject::Target && values.contains_key("process.utime") {
                // Of two threads that never rest.
                let samples = at.0 * 2 * 97 / 1_000_000_000;
                for metric in ["spinning.samples", "spinning.fullest_samples"] {
                    sampled.push_raw(at, of, metric, samples);
                }
                for metric in ["spinning.spun", "spinning.fullest_spun"] {
                    sampled.push_raw(at, of, metric, samples * u64::from(spins));
                }
            }
        }
        judged(&header, &sampled)
    };
    assert_eq!(sampled(false).verdict.by(), Some("target.cpu"));
    assert_ne!(sampled(true).verdict.by(), Some("target.cpu"));
}

#[test]
fn who_has_time_to_read_and_does_not_sleeps_and_who_is_ready_to_run_does_not() {
    // A server of one thread that sleeps 50 ms, and then answers all that came.
    let (header, evidence) = recording("foreign/late-to-read");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("app.wait"));
    let mut ready = with(&evidence, "process.run_delay", |_| None);
    ready.steps.clone_from(&evidence.steps);
    for (at, of, values) in evidence.rows() {
        if values.contains_key("process.run_delay") {
            ready.push_raw(at, of, "process.run_delay", at.0);
        }
    }
    assert_ne!(judged(&header, &ready).verdict.by(), Some("app.wait"));
}

#[test]
fn a_node_that_spins_is_not_full() {
    let (header, evidence) = recording("schedulers");
    // Had its schedulers counted a quarter as work: the rest of the CPU time would be spinning.
    let spinning = with(&evidence, "vm.scheduler_active", |raw| Some(raw / 4));
    let judgement = judged(&header, &spinning);
    let schedulers = of(&judgement, "vm.schedulers");
    assert!(!schedulers.binds, "{schedulers:?}");
    assert!(schedulers.because.contains("busy waiting"), "{}", schedulers.because);
    assert!(!of(&judgement, "host.cpu").binds);
}

#[test]
fn schedulers_that_are_stopped_by_a_quota_are_not_full() {
    let (header, evidence) = recording("cpu-quota");
    assert!(!of(&judged(&header, &evidence), "vm.schedulers").binds);
    // Nothing throttled, and the CPUs idle: whatever it is, it is no quota.
    let free = with(&evidence, "process.nr_throttled", |_| Some(7));
    assert_ne!(judged(&header, &free).verdict.by(), Some("host.cpu-quota"));
    let none = with(&evidence, "process.cpu_quota", |_| None);
    assert_eq!(of(&judged(&header, &none), "host.cpu-quota").state, State::DoesNotApply);
}

#[test]
fn neighbours_are_not_the_target_and_not_the_engine() {
    let (header, evidence) = recording("neighbours");
    let judgement = judged(&header, &evidence);
    for id in ["vm.schedulers", "host.cpu", "host.cpu-quota", "vm.native-code"] {
        assert!(!of(&judgement, id).binds, "{id}");
    }
    // Where none of its threads waited for a CPU, nobody took one from it.
    let calm = with(&evidence, "process.run_delay", |_| Some(1));
    assert!(!of(&judged(&header, &calm), "host.neighbours").binds);
}

/// haproxy with TLS before two servers: the hypervisor has a sixth of the machine, they and the engine all the rest.
#[test]
fn a_small_part_of_a_full_machine_that_others_have_is_not_its_limit() {
    let (header, evidence) = recording("foreign/a-sixth-is-stolen");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("host.cpu"));
    // They are where those two are none that it asks.
    let others = with(&evidence, "peer.run", |_| None);
    assert_eq!(judged(&header, &others).verdict.by(), Some("host.neighbours"));
}

/// The same run on the machine's first CPU alone, of which the target had a part, waited for a part, and others
/// had the rest.
fn pinned(name: &str, running: f64, runnable: f64) -> (Header, Evidence) {
    let (mut header, evidence) = recording(name);
    header.target.cpus = Some(1);
    let idle = std::cell::Cell::new(None);
    let mut pinned = changed(&evidence, |of, metric, raw| match metric {
        "stat.user" if of == Subject::Host => None,
        // One of its two CPUs never idles.
        "stat.idle" => {
            let first = idle.get().unwrap_or(raw);
            idle.set(Some(first));
            Some(first + (raw - first) / 2)
        }
        "process.utime" => Some((raw as f64 * running) as u64),
        "process.stime" => Some(0),
        "process.busiest_thread" | "process.run_delay" => None,
        _ => Some(raw),
    });
    let mut slept = None;
    for (at, of, values) in evidence.rows() {
        // What others had of it is a program's.
        if let Some((user, idle)) = values.get("stat.user").zip(values.get("stat.idle"))
            && of == Subject::Host
        {
            let others = (idle - *slept.get_or_insert(*idle)) / 2;
            pinned.push_raw(at, of, "stat.user", user + others);
        }
        if of == Subject::Target && values.contains_key("process.utime") {
            let part = |part: f64| (at.0 as f64 * part) as u64;
            pinned.push_raw(at, of, "process.utime", part(running));
            pinned.push_raw(at, of, "process.busiest_thread", part(running));
            pinned.push_raw(at, of, "process.run", part(running));
            pinned.push_raw(at, of, "process.run_delay", part(runnable));
            pinned.push_raw(at, of, "process.cpus_allowed", 1);
            pinned.push_raw(at, Subject::Cpu(0), "stat.idle", 7);
        }
    }
    pinned.push_fact(Subject::Target, "cpus", "0".into());
    (header, pinned)
}

#[test]
fn a_loop_on_the_targets_own_cpu_is_a_neighbour_and_one_that_it_hardly_waits_for_is_none() {
    let (header, evidence) = pinned("target-cpu", 0.5, 0.5);
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("host.neighbours"), "{:?}", judgement.verdict);
    let twice = judgement.advice[0].predicted.mid.0 / 622.7;
    assert!((1.9..2.1).contains(&twice), "{twice}");

    let (header, evidence) = pinned("concurrency", 0.03, 0.01);
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("load.concurrency"), "{:?}", judgement.verdict);
    assert!(!of(&judgement, "host.neighbours").binds);

    // Threads of its own wait for each other: others took no more than they had.
    let (header, evidence) = pinned("target-cpu", 0.96, 14.0);
    let strangers = with_facts(&header, &evidence, |facts| facts.stations.strangers.unwrap());
    assert!(strangers.had < 0.06 && strangers.lost <= strangers.had, "{strangers:?}");
}

fn with_facts<T>(header: &Header, evidence: &Evidence, figure: impl Fn(&Facts) -> T) -> T {
    let load = summarise(evidence, &header.plan);
    figure(&Facts::of(Run { header, evidence, load: &load }))
}

#[test]
fn a_full_machine_is_whose_it_nearly_all_is() {
    let of_name =
        [("host-cpu", "host_cpu"), ("engine-cpu", "engine_cpu"), ("native-code", "target_cpu")];
    for (name, whose) in of_name {
        let (header, evidence) = recording(name);
        let full = with(&with(&evidence, "stat.idle", |_| Some(0)), "stat.iowait", |_| Some(0));
        let (fullest, used) = with_facts(&header, &full, |facts| facts.stations.fullest().unwrap());
        assert_eq!(fullest.id(), whose, "{name}: {used}");
        assert!(used >= 0.95, "{name}: {used}");
    }
}

#[test]
fn one_thread_is_full_alone_and_several_when_each_of_them_is() {
    let threads = |cores: f64, busiest: f64| {
        let (mut header, evidence) = recording("target-cpu");
        (header.host.cpus, header.target.cpus) = (4, Some(4));
        let mut threads = changed(&evidence, |_, metric, raw| {
            let is_ours = ["process.utime", "process.stime", "process.busiest_thread"];
            (!is_ours.contains(&metric)).then_some(raw)
        });
        for (at, of, values) in evidence.rows() {
            if of == Subject::Target && values.contains_key("process.utime") {
                let part = |part: f64| (at.0 as f64 * part) as u64;
                threads.push_raw(at, of, "process.utime", part(cores));
                threads.push_raw(at, of, "process.stime", 0);
                threads.push_raw(at, of, "process.busiest_thread", part(busiest));
            }
        }
        of(&judged(&header, &threads), "target.cpu").sum.clone()
    };
    assert!(threads(1.0, 1.0).starts_with("one of its threads 100 % used"));
    assert!(threads(2.0, 1.0).starts_with("2 of its threads, each 100 % used"));
    // A lock over five threads: one CPU's worth in all, and no thread is full.
    let lock = threads(1.0, 0.2);
    assert!(lock.starts_with("4 CPUs / "), "{lock}");
}

#[test]
fn few_schedulers_are_not_too_few_where_no_cpu_is_idle_or_there_are_no_more() {
    let (header, evidence) = recording("schedulers-too-few");
    let busy = with(&evidence, "stat.idle", |_| Some(1));
    let judgement = judged(&header, &busy);
    assert!(!of(&judgement, "vm.schedulers-too-few").binds);
    let small = with(&evidence, "vm.logical_processors_available", |_| Some(1));
    let judgement = judged(&header, &small);
    assert_eq!(of(&judgement, "vm.schedulers-too-few").state, State::DoesNotApply);
}

#[test]
fn schedulers_that_a_process_has_blocked_are_too_few_though_as_many_are_online_as_cpus() {
    let (header, evidence) = recording("schedulers-too-few");
    let two = with(&evidence, "vm.schedulers_online", |_| Some(2));
    let blocked = |count| {
        let mut blocked = with(&two, "none", Some);
        for (at, of, values) in two.rows() {
            if values.contains_key("vm.schedulers_online") {
                blocked.push_raw(at, of, "vm.schedulers_blocked", count);
            }
        }
        judged(&header, &blocked)
    };
    assert_eq!(of(&blocked(0), "vm.schedulers-too-few").state, State::DoesNotApply);
    let judgement = blocked(1);
    assert_eq!(judgement.verdict.by(), Some("vm.schedulers-too-few"));
    assert!(judgement.advice[0].by_hand.contains("multi_scheduling_blockers"));
}

#[test]
fn a_funnel_has_mail_and_works_while_schedulers_have_room() {
    let (header, evidence) = recording("funnel");
    for (metric, to) in [
        ("suspect.mailbox", 0),
        // It waits itself.
        ("suspect.running", 0),
    ] {
        let other = with(&evidence, metric, |_| Some(to));
        assert!(!of(&judged(&header, &other), "vm.funnel").binds, "{metric} {to}");
    }
    // Nobody waits for the answers of so many, where no request sleeps.
    let many = with(&evidence, "suspect.mailbox", |raw| Some(raw * 10_000));
    assert!(!of(&judged(&header, &many), "vm.funnel").binds);
    let full = with(&evidence, "vm.scheduler_active", |raw| Some(raw * 2));
    assert!(!of(&judged(&header, &full), "vm.funnel").binds);
}

#[test]
fn a_process_that_works_all_the_time_is_a_connections_or_a_funnel_by_who_owns_what() {
    let (header, evidence) = recording("hot-connection");
    assert!(!of(&judged(&header, &evidence), "vm.funnel").binds);
    let (header, evidence) = recording("funnel");
    assert!(!of(&judged(&header, &evidence), "vm.hot-connection").binds);
    // Its owner waits: then the connection does.
    let (header, evidence) = recording("hot-connection");
    let waiting = with(&evidence, "suspect.running", |_| Some(0));
    assert_eq!(judged(&header, &waiting).verdict.by(), Some("load.concurrency"));
}

#[test]
fn a_pool_of_dirty_schedulers_is_full_when_jobs_wait_and_cpus_are_idle() {
    let (header, evidence) = recording("dirty-cpu");
    let alone = with(&evidence, "vm.run_queue_dirty_cpu", |_| Some(0));
    assert!(!of(&judged(&header, &alone), "vm.dirty-cpu").binds);
    let busy = with(&evidence, "stat.idle", |_| Some(1));
    assert!(!of(&judged(&header, &busy), "vm.dirty-cpu").binds);
    let (header, evidence) = recording("dirty-io");
    assert!(!of(&judged(&header, &evidence), "vm.dirty-cpu").binds);
    let alone = with(&evidence, "vm.run_queue_dirty_io", |_| Some(0));
    assert!(!of(&judged(&header, &alone), "vm.dirty-io").binds);
}

#[test]
fn dirty_schedulers_that_are_offline_are_not_idle_ones() {
    let (header, evidence) = recording("dirty-cpu");
    let mut half = changed(&evidence, |_, metric, raw| match metric {
        "vm.dirty_cpu_total" | "vm.dirty_cpu_schedulers" => Some(raw * 2),
        _ => Some(raw),
    });
    for (at, of, values) in evidence.rows() {
        if let Some(raw) = values.get("vm.dirty_cpu_schedulers") {
            half.push_raw(at, of, "vm.dirty_cpu_schedulers_online", *raw);
        }
    }
    let judgement = judged(&header, &half);
    assert_eq!(judgement.verdict.by(), Some("vm.dirty-cpu"));
    assert_eq!(
        of(&judgement, "vm.dirty-cpu").ceiling,
        of(&judged(&header, &evidence), "vm.dirty-cpu").ceiling
    );
    assert!(judgement.advice[0].by_hand.starts_with("+SDcpu 2:2 in"), "{:?}", judgement.advice);
    // There are never more of them than of the others.
    let one = with(&half, "vm.schedulers_online", |_| Some(1));
    let advice = judged(&header, &one).advice;
    assert!(advice[0].by_hand.starts_with("+S 2:2 +SDcpu 2:2 in"), "{advice:?}");
}

#[test]
fn jobs_on_dirty_schedulers_are_collections_where_heaps_are_large() {
    let (header, evidence) = recording("large-heap");
    assert!(!of(&judged(&header, &evidence), "vm.dirty-cpu").binds);
    let small = with(&evidence, "suspect.heap", |_| Some(30_000));
    assert!(!of(&judged(&header, &small), "vm.large-heap").binds);
    // Large, and collected by nobody.
    let still = changed(&evidence, |_, metric, raw| match metric {
        "vm.dirty_cpu_active" | "vm.micro_gc" => Some(1),
        _ => Some(raw),
    });
    assert!(!of(&judged(&header, &still), "vm.large-heap").binds);
}

#[test]
fn a_handler_that_nobody_waits_for_and_terms_that_stay_are_no_limits() {
    let (header, evidence) = recording("logger");
    let none = with(&evidence, "waits.logger", |_| Some(0));
    assert_eq!(of(&judged(&header, &none), "vm.logger").state, State::DoesNotApply);
    let (header, evidence) = recording("persistent-term");
    let still = with(&evidence, "suspect.reductions", |_| Some(11_000));
    assert_eq!(of(&judged(&header, &still), "vm.persistent-term").state, State::DoesNotApply);
    let (header, evidence) = recording("tracing");
    let untraced = with(&evidence, "suspect.traced", |_| Some(0));
    // The tracer's own heap is large, and collected.
    let judgement = judged(&header, &with(&untraced, "suspect.heap", |_| Some(30_000)));
    assert_eq!(judgement.verdict.by(), Some("vm.schedulers"));
    assert_eq!(of(&judged(&header, &untraced), "vm.tracing").state, State::DoesNotApply);
}

#[test]
fn long_turns_are_the_native_codes_only_where_the_kernel_let_schedulers_run() {
    let (header, evidence) = recording("native-code");
    let stopped = changed(&evidence, |_, metric, raw| match metric {
        "process.utime" | "process.stime" => Some(raw / 4),
        // How long they were ready is not told; told, it would be the rest.
        "process.run_delay" => None,
        _ => Some(raw),
    });
    assert!(!of(&judged(&header, &stopped), "vm.native-code").binds);
    // Somebody else has the system monitor.
    let unknown = with(&evidence, "vm.long_schedule", |_| None);
    assert_eq!(of(&judged(&header, &unknown), "vm.native-code").state, State::Unmeasured);
}

#[test]
fn what_comes_waits_for_half_of_the_square_of_long_slices() {
    let (header, evidence) = recording("native-code");
    // Each of 50 ms.
    let mut lengths = with(&evidence, "none", Some);
    for (at, subject, values) in evidence.rows() {
        if let Some(slices) = values.get("vm.long_schedule") {
            lengths.push_raw(at, subject, "vm.long_schedule_time", slices * 50_000_000);
            lengths.push_raw(at, subject, "vm.long_schedule_wait", slices * 1_250_000);
        }
    }
    let number_before = |evidence: &Evidence, word: &str, back: usize| -> f64 {
        let judgement = judged(&header, evidence);
        let sum = &of(&judgement, "vm.native-code").sum;
        let words: Vec<&str> = sum.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|found| *found == word).unwrap_or_else(|| panic!("{sum}"));
        words[at - back].parse().unwrap_or_else(|_| panic!("{sum}"))
    };
    let a_second = number_before(&lengths, "long", 1);
    let waits_ms = number_before(&lengths, "behind", 2);
    // Two schedulers.
    let expected_ms = a_second * 1.25 / 2.0;
    assert!((waits_ms / expected_ms - 1.0).abs() < 0.1, "{waits_ms} ms, not {expected_ms}");
    // Of older evidence nothing is known of that.
    assert!(!of(&judged(&header, &evidence), "vm.native-code").sum.contains("behind"));
    // Collections of 30 ms each in them.
    let mut collected = with(&lengths, "vm.micro_gc", |_| None);
    for (at, subject, values) in evidence.rows() {
        if let Some(slices) = values.get("vm.long_schedule") {
            collected.push_raw(at, subject, "vm.micro_gc", slices * 30_000_000);
        }
    }
    let state = of(&judged(&header, &collected), "vm.native-code").state;
    assert_eq!(state, State::DoesNotApply);
}

#[test]
fn turns_that_were_timed_for_a_part_of_the_time_are_a_rate_of_that_part() {
    let (header, evidence) = recording("native-code");
    // Timed for so much of the time between two samples. Unit: of 100.
    let timed = |part: u64| {
        let mut timed = with(&evidence, "vm.timed", |_| None);
        for (at, subject, values) in evidence.rows() {
            if let Some(uptime) = values.get("vm.uptime") {
                timed.push_raw(at, subject, "vm.timed", uptime * part / 100);
            }
        }
        timed
    };
    // "... of the schedulers used, N long turns a second in it = ...".
    let a_second = |evidence: &Evidence| -> f64 {
        let judgement = judged(&header, evidence);
        let sum = &of(&judgement, "vm.native-code").sum;
        let words: Vec<&str> = sum.split(' ').collect();
        let at = words.iter().position(|word| *word == "long").unwrap();
        words[at - 1].parse().unwrap()
    };
    let ratio = a_second(&timed(25)) / a_second(&timed(100));
    assert!((3.5..4.5).contains(&ratio), "{ratio}");
    // A moment is too little to judge by.
    let state = of(&judged(&header, &timed(1)), "vm.native-code").state;
    assert_eq!(state, State::Unmeasured);
}

#[test]
fn what_was_not_looked_at_is_unmeasured_or_absent_and_never_named() {
    for name in ["funnel", "logger", "large-heap", "hot-connection", "persistent-term"] {
        let (header, evidence) = recording(name);
        let blind = changed(&evidence, |subject, metric, raw| match subject {
            Subject::Process(_) => None,
            _ if metric.starts_with("waits.") => None,
            _ => Some(raw),
        });
        let judgement = judged(&header, &blind);
        let id = format!("vm.{name}");
        assert!(!of(&judgement, &id).binds, "{id}");
    }
}
