//! Nodes without a name, which nobody can enter: what their memory, their threads and the VM's own functions show, over
//! recorded runs of software that others wrote (`fixtures/heldout`), as they are and without that.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod altered;

use altered::{changed, judged, of, recording};

/// What is named, with all metrics but those that begin so.
fn named_without(name: &str, metrics: &[&str]) -> Option<String> {
    let (header, evidence) = recording(&format!("foreign/{name}"));
    let is_left = |metric: &str| !metrics.iter().any(|of| metric.starts_with(of));
    let altered = changed(&evidence, |_, metric, raw| is_left(metric).then_some(raw));
    judged(&header, &altered).verdict.by().map(str::to_owned)
}

#[track_caller]
fn assert_named(name: &str, with: &str, metrics: &[&str], without: &str) {
    assert_eq!(named_without(name, &[]).as_deref(), Some(with));
    assert_eq!(named_without(name, metrics).as_deref(), Some(without));
}

#[test]
fn a_process_whose_mailbox_has_the_other_requests_is_what_they_wait_for() {
    // Elixir: each basket asks one process, which asks the tax service, 4 ms, and waits for the answer.
    let all = ["erlang.", "suspect."];
    assert_named("one-process-asks-another-service", "vm.funnel", &all, "app.serial");
    let (header, evidence) = recording("foreign/one-process-asks-another-service");
    let judgement = judged(&header, &evidence);
    let seen = &of(&judgement, "vm.funnel").because;
    assert!(seen.starts_with("tax1 (<0.98.0>) had 11 messages waiting"), "{seen}");
    assert!(seen.contains("it was in prim_inet:recv0/3"), "{seen}");
}

#[test]
fn a_process_that_is_collected_while_all_wait_for_it_needs_a_smaller_heap() {
    // Elixir: a server with 60,000 tariffs in its state hibernates after each call. Alone a request takes 22 ms, of eight each 5 ms.
    let all = ["erlang.", "suspect."];
    assert_named("hibernates-after-each-call", "vm.large-heap", &all, "app.wait");
    let (header, evidence) = recording("foreign/hibernates-after-each-call");
    let judgement = judged(&header, &evidence);
    let advice = &judgement.advice[0];
    assert!(advice.by_hand.starts_with("return no `hibernate`"), "{advice:?}");
    assert!(advice.is_bound, "{advice:?}");
    assert_eq!(judgement.place.resource.map(|of| of.id()), Some("process"));
    // Did nobody wait for it, its collections would be a share of the node's work, some 0.7 ms a request on two CPUs.
    let alone = changed(&evidence, |_, metric, raw| {
        Some(if metric == "suspect.mailbox" { 0 } else { raw })
    });
    let large = of(&judged(&header, &alone), "vm.large-heap").clone();
    assert!(large.sum.contains("of the node's work is collection"), "{large:?}");
    assert!((2_000.0..20_000.0).contains(&large.ceiling.unwrap().0), "{large:?}");
}

#[test]
fn requests_that_wait_within_a_log_handler_wait_for_the_log() {
    // Elixir: its Logger's backend sends each line to a collector, 3 ms away.
    let all = ["erlang.", "suspect."];
    assert_named("log-over-the-network", "vm.logger", &all, "app.serial");
    // The process of the handlers is no server that could be called less.
    assert_named("log-over-the-network", "vm.logger", &["erlang."], "app.serial");
}

#[test]
fn calls_to_another_node_one_after_the_other_are_counted_by_its_answers() {
    // Erlang: twelve calls a page to a depot's node, 5 ms away behind a program that forwards bytes; both names in no EPMD.
    let name = "calls-to-a-node-behind-a-line";
    assert_named(name, "dist.lockstep", &["erlang.calling"], "app.dependency");
    let (header, evidence) = recording(&format!("foreign/{name}"));
    let seen = of(&judged(&header, &evidence), "dist.lockstep").because.clone();
    assert!(seen.contains("with 10 answers of it for a request alone"), "{seen}");
}

#[test]
fn one_connection_that_stays_unread_in_an_idle_node_is_shaped() {
    // ejabberd: 3,000 bytes a second of a gateway that sends twelve times as many.
    let name = "one-connection-of-a-shaper";
    assert_named(name, "app.shaper", &["erlang.sleeping"], "tcp.slow-reader");
    let (header, evidence) = recording(&format!("foreign/{name}"));
    // A process that sleeps reads when it wakes.
    let rounds = std::cell::Cell::new(0);
    let asleep = changed(&evidence, |_, metric, raw| {
        let is_it = metric == "erlang.sleeping";
        rounds.set(rounds.get() + u64::from(is_it));
        Some(if is_it { rounds.get() } else { raw })
    });
    assert_eq!(judged(&header, &asleep).verdict.by(), Some("tcp.slow-reader"));
}

#[test]
fn messages_that_stay_in_the_mailboxes_of_those_that_run_are_searched() {
    // Elixir: 20,000 broadcasts in the mailbox of each session, whose receive has no clause for them.
    let all = ["erlang.", "suspect."];
    assert_named("broadcasts-that-nobody-takes", "beam.selective-receive", &all, "target.cpu");
}

#[test]
fn messages_that_come_and_stay_are_searched_by_who_answers_before_it_takes_them() {
    // Erlang: a dispatcher traps exits and takes none that is normal: one more message for each question, 27,000 so far.
    let all = ["erlang.", "suspect."];
    assert_named("exits-that-nobody-takes", "beam.selective-receive", &all, "app.pool");
    let (header, evidence) = recording("foreign/exits-that-nobody-takes");
    // Were there no more of them than of requests, these could be they: one after the other.
    let few = changed(&evidence, |_, metric, raw| {
        Some(if metric == "suspect.mailbox" { raw.min(15) } else { raw })
    });
    assert_eq!(judged(&header, &few).verdict.by(), Some("vm.funnel"));
}

#[test]
fn a_tracer_that_is_called_is_known_by_the_function_that_calls_it() {
    // Erlang: dbg traces the basket's functions into files. Without the count nothing says so, whatever is traced.
    assert_named("traced-into-a-file", "vm.tracing", &["code.tracing"], "target.cpu");
}

#[test]
fn a_dirty_scheduler_that_always_runs_while_a_cpu_is_idle_is_full() {
    // Elixir: passwords are hashed by a NIF on the only dirty scheduler for computing (+SDcpu 1:1).
    let running = ["threads.running_dirty"];
    assert_named("one-dirty-scheduler", "vm.dirty-cpu", &running, "target.cpu");
}
