//! Waits for a disk, told from each other and from what else its threads do: evidence made by hand.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::time::Duration;

use linerate_evidence::sources::diskstats;
use linerate_evidence::{Subject, summarise};
use linerate_model::Timestamp;
use linerate_roofline::{Judgement, Run, State, judge};

mod told;

use told::{SECONDS, Told, header, places};

#[test]
fn a_sync_is_told_from_other_waits_for_a_disk() {
    let of = |sync| Told {
        places: places([("bursts.application", 8.0)]),
        threads: places([("threads.disk", 0.95), ("threads.sync", sync), ("threads.lock", 7.0)]),
        exchanges: 500.0,
        under_way: 8.0,
        cpu: 0.04,
        ..Told::default()
    };
    for (sync, named, other) in
        [(0.9, "app.disk-sync", "app.disk"), (0.1, "app.disk", "app.disk-sync")]
    {
        let judgement = of(sync).judged();
        let state = |id: &str| judgement.roofs.iter().find(|roof| roof.id == id).unwrap().state;
        assert_eq!((state(named), state(other)), (State::Ceiling, State::DoesNotApply), "{named}");
    }
}

/// A node's thread for files writes and waits for the disk by turns, while its others hand over to it.
#[test]
fn what_a_full_thread_waits_for_is_measured_by_its_own_time() {
    let of = |busiest| Told {
        places: places([("bursts.application", 11.8)]),
        threads: places([
            ("threads.running", 1.2),
            ("threads.disk", 0.38),
            ("threads.sync", 0.38),
            ("threads.fullest", 0.98),
            ("threads.lock", 13.0),
        ]),
        exchanges: 2000.0,
        under_way: 11.8,
        cpu: 1.0,
        busiest,
        ..Told::default()
    };
    assert_eq!(of(0.55).judged().verdict.by(), Some("app.disk-sync"));
    // Another thread is at the disk, as Redis's in the background.
    assert_eq!(of(0.98).judged().verdict.by(), Some("target.cpu"));
}

/// In a virtual machine the disk is a program's work on the same CPU.
#[test]
fn a_sync_that_runs_is_waited_for_and_a_full_cpu_has_a_system_call() {
    let of = |cpu, syncs| Told {
        places: places([("bursts.application", 8.0)]),
        threads: places([("threads.running", cpu), ("threads.lock", 7.0)]),
        exchanges: 500.0,
        under_way: 8.0,
        cpu,
        in_kernel: 0.9 * cpu,
        syncs,
        ..Told::default()
    };
    let (syncs, judgement) = (of(0.95, 0.9).judged(), of(1.95, 0.0).judged());
    let of = |id: &str, of: &Judgement| of.roofs.iter().find(|roof| roof.id == id).cloned();
    let roof = |id: &str| of(id, &judgement).unwrap();
    assert_eq!(of("app.disk-sync", &syncs).unwrap().state, State::Ceiling);
    assert_eq!(roof("app.disk-sync").state, State::DoesNotApply);
    assert_eq!(judgement.verdict.by(), Some("target.cpu"));
    let said = format!("{:?}", roof("target.cpu"));
    assert!(said.contains("in the kernel, 100 % of that in pwrite64"), "{said}");
}

#[test]
fn whoever_syncs_all_that_is_queued_together_is_known_by_flushes() {
    let said = |flushes: u64, threads: f64| {
        let told = Told {
            places: places([("bursts.application", 8.0)]),
            threads: places([("threads.disk", threads), ("threads.sync", threads)]),
            exchanges: 500.0,
            under_way: 8.0,
            cpu: 0.04,
            ..Told::default()
        };
        let mut evidence = told.evidence();
        for second in 0..=SECONDS {
            let at = Timestamp(1_000_000_000 * (second + 1));
            evidence.push(at, Subject::Host, diskstats::FLUSHES, flushes * second);
            let took = Duration::from_millis(300 * second);
            evidence.push(at, Subject::Host, diskstats::FLUSHING, took);
        }
        let header = header();
        let load = summarise(&evidence, &header.plan);
        let judgement = judge(&Run { header: &header, evidence: &evidence, load: &load });
        let roof = judgement.roofs.iter().find(|roof| roof.id == "app.disk-sync").unwrap();
        format!("{roof:?}")
    };
    // 1,000 answers a second.
    assert!(said(25, 0.95).contains("one sync for 40 answers"));
    assert!(!said(1000, 0.95).contains("one sync for"));
    // Several threads at once may share a flush.
    assert!(!said(25, 4.0).contains("one sync for"));
}
