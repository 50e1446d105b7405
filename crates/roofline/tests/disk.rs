//! Waits for a disk, told from each other and from what else its threads do: evidence made by hand, and a recorded run.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::Evidence;
use linerate_roofline::{Judgement, State};

mod altered;
mod told;

use told::{Told, places};

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
fn whoever_syncs_all_that_is_queued_together_is_not_told_to_do_so() {
    // Perl: one process that syncs once for all orders that have come, 22 among 32 clients, one alone.
    let (header, evidence) = altered::recording("foreign/one-sync-for-many");
    let said = |evidence: &Evidence| {
        let judgement = altered::judged(&header, evidence);
        let says = &altered::of(&judgement, "app.disk-sync").because;
        says.contains("one sync for 22 exchanges")
    };
    let by_hand = &altered::judged(&header, &evidence).advice[0].by_hand;
    assert!(said(&evidence) && !by_hand.contains("group"), "{by_hand}");
    // Several threads at once may share a flush.
    let several = altered::changed(&evidence, |_, metric, raw| {
        Some(if metric == "threads.sync" || metric == "threads.disk" { 3 * raw } else { raw })
    });
    assert!(!said(&several));
    let unknown =
        altered::changed(&evidence, |_, metric, raw| (metric != "disk.flushes").then_some(raw));
    assert!(!said(&unknown));
}
