//! One at a time, or as many as a pool has: what shows it, and what only looks like it, over recorded runs of software
//! that others wrote (`fixtures/foreign`), changed in one respect.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::{Evidence, StepKind, Subject};
use linerate_roofline::Answer;

mod altered;

use altered::{changed, judged, of, recording};

fn named(name: &str, change: impl Fn(&str, u64) -> Option<u64>) -> Option<String> {
    let (header, evidence) = recording(&format!("foreign/{name}"));
    let mut altered: Evidence = changed(&evidence, |_, metric, raw| change(metric, raw));
    altered.steps.clone_from(&evidence.steps);
    judged(&header, &altered).verdict.by().map(str::to_owned)
}

#[test]
fn clients_that_asked_a_pool_together_are_answered_so_many_at_a_time() {
    // The README's service: Node, four connections of 20 ms to a database, 16 clients. Their waits are alike, as those of sleepers.
    let pool = "asked-together-of-a-pool";
    assert_eq!(named(pool, |_, raw| Some(raw)).as_deref(), Some("app.pool"));
    let unordered = |metric: &str, raw| (!metric.starts_with("capture.servers")).then_some(raw);
    assert_eq!(named(pool, unordered).as_deref(), Some("app.wait"));
}

#[test]
fn a_lock_that_is_held_until_the_commit_shows_in_the_order_of_transactions() {
    // MariaDB: 10 clients lock all rows of a table, for 4 ms of their own between two statements.
    assert_eq!(named("held-to-commit", |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    let single = |metric: &str, raw| (!metric.starts_with("capture.transactions")).then_some(raw);
    assert_eq!(named("held-to-commit", single), None);
    // Out of order there is no queue.
    let early =
        |metric: &str, raw| Some(if metric.ends_with("transactions_early") { 300 } else { raw });
    assert_eq!(named("held-to-commit", early), None);
}

#[test]
fn who_begins_a_transaction_waits_for_anothers_end_and_for_no_clock() {
    // pgbouncer: 32 customers and four connections to PostgreSQL, each kept for a transaction with 20 ms elsewhere in its midst.
    let pool = "transactions-behind-a-pool";
    assert_eq!(named(pool, |_, raw| Some(raw)).as_deref(), Some("app.pool"));
    let single = |metric: &str, raw| (!metric.starts_with("capture.transactions")).then_some(raw);
    assert_eq!(named(pool, single).as_deref(), Some("app.wait"));
}

#[test]
fn what_is_asked_for_those_that_hardly_wait_is_no_pool_of_those_that_do() {
    // 40 browsers wait for news, and 8 guests are answered at once; of their orders somebody else is told.
    let (header, evidence) = recording("foreign/others-wait");
    // As it was before that was counted.
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.pool"), "{:?}", judgement.verdict);
    let mut counted = changed(&evidence, |_, _, raw| Some(raw));
    for (at, of, values) in evidence.rows() {
        if let Some(answers) = values.get("capture.exchanges") {
            counted.push_raw(at, of, "capture.waiters_exchanges", answers / 9);
        }
    }
    let judgement = judged(&header, &counted);
    assert_eq!(judgement.verdict.by(), None, "{:?}", judgement.verdict);
    let why = &of(&judgement, "app.pool").sum;
    assert!(why.contains("hardly wait"), "{why}");
}

#[test]
fn who_reads_one_client_keeps_the_others_waiting_and_who_sleeps_for_a_set_time_does_not() {
    // Perl, one process, which reads a slow upload to its end; then it answers all that came meanwhile.
    assert_eq!(named("one-away", |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    let (header, evidence) = recording("foreign/one-away");
    let mut asleep =
        changed(&evidence, |_, metric, raw| (metric != "threads.timer").then_some(raw));
    for (at, of, values) in evidence.rows() {
        if let Some(reading) = values.get("threads.read") {
            asleep.push_raw(at, of, "threads.timer", *reading);
        }
    }
    let asleep = changed(&asleep, |_, metric, raw| (metric != "threads.read").then_some(raw));
    assert_ne!(judged(&header, &asleep).verdict.by(), Some("app.serial"));
}

#[test]
fn time_in_which_nobody_ran_is_no_other_tenants() {
    // Ten threads wake 10,000 times a second; what the kernel needs for that is neither idle nor a program's.
    let half = |metric: &str, raw| if metric == "stat.idle" { raw / 2 } else { raw };
    let kernels = |metric: &str, raw| Some(half(metric, raw));
    assert_eq!(named("many-wake-ups", kernels).as_deref(), Some("app.serial"));
    let used = |metric: &str, raw| (metric != "stat.user").then_some(half(metric, raw));
    assert_eq!(named("many-wake-ups", used).as_deref(), Some("host.neighbours"));
}

#[test]
fn what_stops_all_is_named_by_its_cause_where_that_is_known() {
    // A room is one process, which waits to send to a member who hears slowly.
    assert_eq!(named("slow-member", |_, raw| Some(raw)).as_deref(), Some("beam.slow-subscriber"));
    // Whose queue is long is not known: all ask one process.
    let no_queues = |metric: &str, raw| (!metric.starts_with("port.")).then_some(raw);
    assert_eq!(named("slow-member", no_queues).as_deref(), Some("vm.funnel"));
}

#[test]
fn several_of_a_kind_that_wait_inside_a_call_hold_up_their_own_callers() {
    // Ten users' sessions hang in a long poll while the other windows of the same user wait.
    assert_eq!(named("stuck-of-a-kind", |_, raw| Some(raw)).as_deref(), Some("vm.funnel"));
    // In their loops they would wait for events, as healthy long polls do.
    let (header, mut evidence) = recording("foreign/stuck-of-a-kind");
    for of in evidence.processes() {
        evidence.push_fact(of, "function", "gen_server:loop/7".into());
    }
    assert_eq!(judged(&header, &evidence).verdict.by(), None);
    // Mail that nobody waits for is none of calls.
    let nobody = |metric: &str, raw| Some(if metric == "callees.calling" { 0 } else { raw });
    assert_eq!(named("stuck-of-a-kind", nobody), None);
}

#[test]
fn connections_that_begin_together_are_no_queue_of_an_acceptor() {
    // 2 of 11 looks at the listener met 16 that waited; on average 0.1 do.
    assert_eq!(named("all-connect-at-once", |_, raw| Some(raw)), None);
    let wait =
        |metric: &str, raw| Some(if metric == "bursts.accept_queue" { raw * 40 } else { raw });
    assert_eq!(named("all-connect-at-once", wait).as_deref(), Some("tcp.acceptor"));
}

#[test]
fn those_that_are_answered_together_wait_for_an_event_and_not_for_each_other() {
    // 100 guests wait for news, which a process of its own has for all of them once a second.
    assert_eq!(named("news-for-all", |_, raw| Some(raw)), None);
    // Where nothing tells when answers come, that process is taken for one that serves them one by one.
    let unknown = |metric: &str, raw| {
        let tells = ["capture.beat", "capture.burst", "capture.servers"];
        (!tells.iter().any(|known| metric.starts_with(known))).then_some(raw)
    };
    assert_eq!(named("news-for-all", unknown).as_deref(), Some("app.serial"));
}

#[test]
fn one_of_two_that_are_called_serves_not_all() {
    // ejabberd: 16 logins wait for one of two processes with a connection to the database each.
    let (header, evidence) = recording("foreign/two-called");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.pool"), "{:?}", judgement.verdict);
    assert!(judgement.verdict.says.contains(": 2 at a time"), "{}", judgement.verdict.says);
    // The second is called by nobody.
    let only = changed(&evidence, |of, metric, raw| {
        let is_second = matches!(of, Subject::Process(9 | 10)) && metric == "callees.callers";
        (!is_second).then_some(raw)
    });
    assert_eq!(judged(&header, &only).verdict.by(), Some("vm.funnel"));
}

#[test]
fn who_asks_one_question_at_a_time_waits_for_its_turn_and_not_for_a_busy_peer() {
    // Node.js: 16 requests, and one client of PostgreSQL that sends a query when the last one is answered.
    let (header, evidence) = recording("foreign/one-asks");
    let by = |mut changed: Evidence| {
        changed.steps.clone_from(&evidence.steps);
        judged(&header, &changed).verdict.by().map(str::to_owned)
    };
    assert_eq!(by(changed(&evidence, |_, _, raw| Some(raw))).as_deref(), Some("app.serial"));
    // PostgreSQL has one CPU all the time.
    let mut busy = changed(&evidence, |_, metric, raw| (metric != "peer.run").then_some(raw));
    for (at, of, values) in evidence.rows() {
        if values.contains_key("peer.run") {
            busy.push_raw(at, of, "peer.run", at.0);
        }
    }
    assert_eq!(by(busy).as_deref(), Some("app.dependency"));
}

#[test]
fn a_queue_that_grows_is_its_consumers_though_another_queues_may_hold_more() {
    // RabbitMQ: a shovel that may hold one message, and a consumer that may hold 300.
    assert_eq!(named("one-queue-full", |_, raw| Some(raw)).as_deref(), Some("app.consumer"));
}

#[test]
fn connections_that_are_reset_after_the_answers_that_each_has_are_not_refused() {
    // uWSGI answers once on each connection and closes it; clients have asked again by then.
    let refused = |change: &dyn Fn(&str, u64) -> u64| {
        named("reset-after-answers", |metric, raw| Some(change(metric, raw)))
    };
    assert_ne!(refused(&|_, raw| raw).as_deref(), Some("app.refused"));
    let some =
        |metric: &str, raw| if metric == "capture.sessions_exchanges" { raw * 3 / 2 } else { raw };
    assert_eq!(refused(&some).as_deref(), Some("app.refused"));
}

#[test]
fn a_queue_of_connections_that_is_never_empty_waits_for_whoever_lets_them_in() {
    // dovecot: three processes that log in, and a queue of four before them, which overflows.
    assert_eq!(
        named("let-in-by-three", |_, raw| Some(raw)).as_deref(),
        Some("app.connection-limit")
    );
    let at_times =
        |metric: &str, raw| Some(if metric == "listener.rqueue_total" { 0 } else { raw });
    assert_eq!(named("let-in-by-three", at_times).as_deref(), Some("tcp.listen-backlog"));
}

#[test]
fn what_stops_all_of_a_watched_service_shows_in_silences_while_few_answers_are_late() {
    // MariaDB: 10 readers behind a lock of a table's definition, which is free for 0.2 s in each 1.2 s.
    assert_eq!(named("all-stop", |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    // Where somebody is asked or answered meanwhile, each waits by itself.
    let asked = |metric: &str, raw| match metric {
        "capture.gap_unasked" => Some(raw / 4),
        _ => Some(raw),
    };
    assert_eq!(named("all-stop", asked), None);
    // Where most answers take as long as the mean, they are slow, and not stopped.
    let slow = |metric: &str, raw| match metric {
        "capture.service_p50" => Some(20_000_000),
        _ => Some(raw),
    };
    assert_eq!(named("all-stop", slow), None);
}

#[test]
fn what_is_left_unread_at_one_rate_by_a_service_with_nothing_to_do_is_shaped() {
    // ejabberd, not seen inside: ten clients of whom each is read 3,000 bytes a second.
    assert_eq!(named("read-at-one-rate", |_, raw| Some(raw)).as_deref(), Some("app.shaper"));
    // Not at one rate: the first connections are read more and more slowly.
    let (header, evidence) = recording("foreign/read-at-one-rate");
    let uneven = changed(&evidence, |of, metric, raw| match (of, metric) {
        (Subject::Flow(id, _), "tcp.bytes_received") if id % 2 == 0 => Some(raw / 2),
        _ => Some(raw),
    });
    let judgement = judged(&header, &uneven);
    assert_eq!(judgement.verdict.by(), None, "{:?}", judgement.verdict);
    let why = &of(&judgement, "app.shaper").sum;
    assert!(why.contains("not all at the same rate"), "{why}");
    // One that is always served is one of a queue.
    let served = |metric: &str, raw| match metric {
        "capture.asked_area" => Some(raw + raw / 5),
        _ => Some(raw),
    };
    assert_ne!(named("read-at-one-rate", served).as_deref(), Some("app.shaper"));
}

#[test]
fn who_is_not_answered_at_all_waits_for_whom_the_evidence_shows() {
    let says = |name| {
        let (header, evidence) = recording(name);
        let verdict = judged(&header, &evidence).verdict;
        assert_eq!(verdict.state, Answer::Unexplained, "{verdict:?}");
        verdict.says
    };
    // A process that calls one that calls it: both wait for ever, and ten connections for the first.
    let node = says("foreign/silent-node");
    assert!(node.contains("reg (<0.86.0>) has 10 messages and waits in dead:call/2"), "{node}");
    // Go with four connections to a database that hangs.
    let front = says("foreign/silent-dependency");
    assert!(
        front.contains("4 of 4 connections to 127.0.0.1:7981 (python3.11) had no answer"),
        "{front}"
    );
}

#[test]
fn consumers_that_always_hold_all_that_they_may_are_waited_for_though_no_queue_grows() {
    // RabbitMQ: eight requests outstanding, and two workers with a prefetch of 1, who take 20 ms for each.
    let named = |change: &dyn Fn(&str, u64) -> u64| {
        named("consumers-full", |it, raw| Some(change(it, raw)))
    };
    assert_eq!(named(&|_, raw| raw).as_deref(), Some("app.consumer"));
    let idle = |metric: &str, raw| if metric == "broker.acknowledged" { raw + 1 } else { raw };
    assert_ne!(named(&idle).as_deref(), Some("app.consumer"), "a hand is free");
}

#[test]
fn who_answers_all_when_none_is_left_still_serves_them_one_by_one() {
    // Thin, one thread: 12 requests come and are answered together, and half of them are unread on average.
    assert_eq!(named("emptied-by-turns", |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    // Read at once, they would all wait for as long.
    let read = |metric: &str, raw| Some(if metric == "bursts.unread" { 0 } else { raw });
    assert_eq!(named("emptied-by-turns", read).as_deref(), Some("app.wait"));
}

#[test]
fn what_is_left_to_do_after_an_answer_is_no_clock_where_it_asks_one_peer_all_the_time() {
    // Yaws, whose log is kept elsewhere by one process: a pause before a request hides 3 ms of it.
    assert_eq!(named("always-asks", |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    // A peer that answers nothing, and one that is asked now and then, is no reason.
    for (metric, by) in [("peer.came", 0), ("peer.asked", 2)] {
        let rarely = |of: &str, raw| Some(if of == metric { raw * by / 4 } else { raw });
        assert_eq!(named("always-asks", rarely).as_deref(), Some("app.rate-limit"), "{metric}");
    }
}

#[test]
fn where_a_nodes_processes_wait_is_said_by_their_stacks() {
    // 16 handlers of connections wait for three workers, which nobody calls and which sleep for 20 ms a job.
    let (header, evidence) = recording("foreign/waits-by-stack");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.pool"), "{:?}", judgement.verdict);
    let says = &of(&judgement, "app.pool").because;
    let owners = "of its processes wait 16.0 in shop:price/1 < shop:loop/2, and ";
    assert!(says.contains(owners), "{says}");
    assert!(says.ends_with("in timer:sleep/1 < shop:backoff/1 < shop:worker/0"), "{says}");
    // None was met in the middle of anything: its threads are said.
    let mut unmet = changed(&evidence, |_, _, raw| Some(raw));
    unmet.push_fact(Subject::Node, "waits", "412".into());
    for of in evidence.processes() {
        unmet.push_fact(of, "stack", "gen_server:loop/7".into());
    }
    let says = of(&judged(&header, &unmet), "app.pool").because.clone();
    assert!(says.contains("; its threads: "), "{says}");
}

#[test]
fn who_waits_as_long_as_all_while_clients_rest_stands_in_no_queue() {
    // 12 guests who think for 5 ms, each of whose prices takes 4 ms of sleep: answers come in the order of requests.
    assert_eq!(named("alike-and-at-rest", |_, raw| Some(raw)), None);
    // Whoever finds more before it waits for longer.
    let longer =
        |metric: &str, raw| Some(if metric == "capture.service_p99" { 2 * raw } else { raw });
    assert_eq!(named("alike-and-at-rest", longer).as_deref(), Some("app.serial"));
}

#[test]
fn whom_a_dependency_waits_for_is_said_and_so_is_what_holds_its_request() {
    // nginx before PHP-FPM, which writes its question to memcached in two parts.
    let chain = "held-two-hops-away";
    assert_eq!(named(chain, |_, raw| Some(raw)).as_deref(), Some("tcp.nagle-delayed-ack"));
    let (header, evidence) = recording(&format!("foreign/{chain}"));
    let no_nagle = |_, metric: &str, raw| Some(if metric == "peer.held_nagle" { 0 } else { raw });
    let altered = changed(&evidence, no_nagle);
    let judgement = judged(&header, &altered);
    let roof = of(&judgement, "app.dependency");
    assert!(roof.binds && roof.because.contains("it waits in turn for 127.0.0.1:"), "{roof:?}");
    assert!(roof.because.contains("(memcached)"), "{}", roof.because);
}

#[test]
fn what_consumers_without_a_limit_hold_is_worked_off_where_nothing_more_is_published() {
    // RabbitMQ by STOMP: one of four consumers was handed 8,000 messages.
    let named =
        |change: &dyn Fn(&str, u64) -> u64| named("worked-off", |it, raw| Some(change(it, raw)));
    assert_eq!(named(&|_, raw| raw).as_deref(), Some("app.consumer"));
    let few = |metric: &str, raw| if metric == "broker.delivered" { raw - 7_000 } else { raw };
    assert_ne!(named(&few).as_deref(), Some("app.consumer"), "it is at their end soon");
}

#[test]
fn who_closes_in_place_of_an_answer_has_refused() {
    // mosquitto hangs up at each retained message.
    assert_eq!(named("hung-up-on", |_, raw| Some(raw)).as_deref(), Some("app.refused"));
    let goodbyes = |metric: &str, raw| (metric != "capture.hung_up").then_some(raw);
    assert_eq!(named("hung-up-on", goodbyes), None);
}

#[test]
fn requests_that_share_a_connection_are_counted_by_its_segments() {
    // Node: 16 clients, whose questions go to one connection and take 20 ms.
    let shared = "shares-a-connection";
    assert_eq!(named(shared, |_, raw| Some(raw)).as_deref(), Some("app.dependency"));
    let without = |metric: &str, raw| (!metric.starts_with("peer.segments")).then_some(raw);
    assert_eq!(named(shared, without), None);
    // One at a time: what is sent is ahead of what came by one.
    let exclusive = |metric: &str, raw: u64| {
        Some(if metric == "peer.segments_out" { raw.saturating_sub(15) } else { raw })
    };
    assert_eq!(named(shared, exclusive), None);
}

#[test]
fn a_thread_that_only_keeps_its_process_alive_serves_nobody() {
    // Python: a thread a client, all of which ask on one connection; and the main thread, in sleep(3600).
    let sleeps = "main-thread-sleeps";
    assert_eq!(named(sleeps, |_, raw| Some(raw)).as_deref(), Some("app.dependency"));
    let asks_nobody = |metric: &str, raw| (!metric.starts_with("peer.")).then_some(raw);
    assert_eq!(named(sleeps, asks_nobody), None);
    // It would be what all wait for, if it woke for each.
    let wakes = |metric: &str, raw| {
        let is_left = metric != "threads.timer_runs" && !metric.starts_with("peer.");
        is_left.then_some(raw)
    };
    assert_eq!(named(sleeps, wakes).as_deref(), Some("app.serial"));
}

#[test]
fn an_event_loop_whose_requests_sleep_is_told_from_one_in_which_they_wait_in_a_queue() {
    // asyncio: 16 clients, a sleep of 5 ms each in the mean, by chance.
    let sleeps = "sleeps-in-a-loop";
    assert_eq!(named(sleeps, |_, raw| Some(raw)).as_deref(), Some("app.wait"));
    let queue = |metric: &str, raw| Some(if metric == "capture.service_alike" { 600 } else { raw });
    assert_eq!(named(sleeps, queue), None);
    // Its timers are due later than its answers.
    let (header, evidence) = recording("foreign/sleeps-in-a-loop");
    let mut later = changed(&evidence, |_, _, raw| Some(raw));
    for (at, of, values) in evidence.rows() {
        if let Some(polls) = values.get("threads.poll_timed") {
            later.push_raw(at, of, "threads.poll_30_ms", *polls);
        }
    }
    assert_eq!(judged(&header, &later).verdict.by(), None);
    // Three at a time, 2 ms each, are answered together.
    assert_eq!(named("answers-by-three", |_, raw| Some(raw)).as_deref(), Some("app.pool"));
}

#[test]
fn who_is_asked_more_at_a_time_than_is_served_serves_so_few() {
    // Go: eight clients, two connections to a peer that answers one question after the other.
    let asked = "asked-more-than-it-serves";
    assert_eq!(named(asked, |_, raw| Some(raw)).as_deref(), Some("app.dependency"));
    // With one question at a time it is the service that asks one by one.
    let of_one = |metric: &str, raw| {
        Some(if matches!(metric, "peer.asked" | "peer.connections") { raw / 2 } else { raw })
    };
    assert_eq!(named(asked, of_one).as_deref(), Some("app.serial"));
}

#[test]
fn a_lock_in_no_order_shows_in_answers_that_keep_apart_though_clients_rest() {
    // Java: 16 clerks who rest for 20 ms, one parcel of 8 ms at a time, by a monitor, which knows no order.
    let lock = "lock-while-clients-rest";
    assert_eq!(named(lock, |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    // As near to each other as answers of their own times come by chance.
    let near = |metric: &str, raw| Some(if metric == "capture.gap_low" { raw / 20 } else { raw });
    assert_eq!(named(lock, near), None);
}

#[test]
fn who_sleeps_beside_its_own_mail_waits_in_the_middle_of_a_call() {
    // Erlang: the process of a line to a price engine hands each answer over, and waits until that is confirmed.
    let (header, evidence) = recording("foreign/passes-over-its-mail");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("vm.funnel"));
    // What nobody takes holds nobody up.
    let stands = |metric: &str, raw| Some(if metric == "suspect.mailbox" { 10 } else { raw });
    let stands = changed(&evidence, |_, metric, raw| stands(metric, raw));
    assert_eq!(judged(&header, &stands).verdict.by(), None);
}

#[test]
fn who_asks_five_things_at_once_alone_asks_for_one_request_with_five_questions_out() {
    // Go: a page needs five answers of a peer that takes any number; all pages share five places to ask from.
    let several = "asks-several-at-once";
    assert_eq!(named(several, |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    // Had one request alone not asked so many, the others would wait for the peer.
    let (header, mut evidence) = recording(&format!("foreign/{several}"));
    let alone = evidence.steps.iter().find(|step| step.kind == StepKind::Alone).unwrap();
    let (from, to) = (alone.from, alone.to);
    let mut fewer = Evidence::default();
    fewer.slices.clone_from(&evidence.slices);
    let (mut asked, mut before) = (0, 0);
    for (at, of, values) in evidence.rows() {
        for (metric, raw) in values {
            let is_asked = metric == "peer.asked";
            // A sum over instants: nothing is added while one request is alone.
            if is_asked && !(from..=to).contains(&at) {
                asked += raw - before;
            }
            before = if is_asked { raw } else { before };
            fewer.push_raw(at, of, metric, if is_asked { asked } else { raw });
        }
    }
    for (of, facts) in evidence.facts() {
        facts.iter().for_each(|(name, text)| fewer.push_fact(*of, name, text.clone()));
    }
    std::mem::swap(&mut fewer.steps, &mut evidence.steps);
    assert_eq!(judged(&header, &fewer).verdict.by(), Some("app.dependency"));
}

#[test]
fn what_one_thread_computes_is_no_order_of_what_requests_wait_for() {
    // An event loop answers 2,500 a second, of which each takes it a tenth of a millisecond.
    let one_by_one = |each_ns: u64| {
        named("sleeps-in-a-loop", move |metric, raw| {
            Some(match metric {
                "capture.servers" => 1,
                "capture.servers_narrower" => 900,
                "capture.servers_early" => 0,
                "capture.servers_p50" => each_ns,
                _ => raw,
            })
        })
    };
    assert_eq!(one_by_one(50_000).as_deref(), Some("app.wait"));
    assert_ne!(one_by_one(330_000).as_deref(), Some("app.wait"));
}

#[test]
fn who_is_let_in_and_not_read_while_others_are_answered_waits_for_one_of_these_to_end() {
    // Go behind nginx, which keeps 16 connections; two are served, and the next when one of them ends.
    let unread = "not-read";
    assert_eq!(named(unread, |_, raw| Some(raw)).as_deref(), Some("app.connection-limit"));
    // Who was read hangs, or polls for long; who asked something else may wait for it.
    for metric in ["bursts.unanswered_unread", "bursts.unanswered_alike"] {
        assert_eq!(named(unread, |name, raw| Some(if name == metric { 0 } else { raw })), None);
    }
}

#[test]
fn a_machine_that_is_full_where_the_run_is_fastest_is_no_pool() {
    // Go and a service that it asks: both CPUs were nine tenths used by half of the connections, and by all of them later.
    let (header, evidence) = recording("foreign/full-where-fastest");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("host.cpu"));
    let mut slower = changed(&evidence, |_, _, raw| Some(raw));
    for step in slower.steps.iter_mut().filter(|step| step.connections > 1) {
        step.answered = step.answered * 85 / 100;
        step.good = step.answered;
    }
    assert_ne!(judged(&header, &slower).verdict.by(), Some("host.cpu"));
}

#[test]
fn several_processes_that_serve_one_at_a_time_by_turns_are_one_at_a_time() {
    // Erlang: 12 alike, of which another is asked in each second.
    assert_eq!(named("one-of-several-by-turns", |_, raw| Some(raw)).as_deref(), Some("app.serial"));
}

#[test]
fn who_hangs_on_a_connection_of_its_own_waits_for_the_peer_that_does_not_answer() {
    // nginx, a connection a question, before a service that serves three of its 16 connections.
    let hangs = "hangs-at-a-peer";
    assert_eq!(named(hangs, |_, raw| Some(raw)).as_deref(), Some("app.dependency"));
    let without = |none: &'static str| {
        let (header, evidence) = recording(&format!("foreign/{hangs}"));
        let altered = changed(&evidence, |_, metric, raw| (metric != none).then_some(raw));
        judged(&header, &altered).verdict
    };
    // Whoever else keeps them waiting, it is no good service.
    let unknown = without("peer.unanswered");
    assert_eq!((unknown.state, unknown.by()), (Answer::Unexplained, None));
    // Of other requests it is not known that others were answered.
    assert_eq!(without("bursts.silent_alike").by(), None);
}

#[test]
fn as_many_threads_with_timers_as_there_are_connections_are_no_event_loop() {
    // PostgreSQL: a row that is locked while its client works for 5 ms, which then rests for 0 to 20; 10 of them.
    let row = "locked-while-the-client-works";
    assert_eq!(named(row, |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    // Fewer may wait for the timers of all.
    let few = |metric: &str, raw| Some(if metric == "threads.poll" { raw / 8 } else { raw });
    assert_eq!(named(row, few).as_deref(), Some("app.wait"));
}

#[test]
fn requests_that_take_turns_while_a_cpu_idles_do_not_fill_the_cpus() {
    // Elixir, ten lines of log a request: one connection alone was answered as fast as sixteen, by 1.35 of 2 CPUs in either case.
    let turns = "takes-turns-while-a-cpu-idles";
    assert_eq!(named(turns, |_, raw| Some(raw)).as_deref(), Some("app.serial"));
    let never_idle = |metric: &str, raw| Some(if metric == "stat.idle" { 0 } else { raw });
    assert_eq!(named(turns, never_idle).as_deref(), Some("target.cpu"));
}

#[test]
fn one_process_that_computes_is_no_pool_of_two_though_a_request_alone_takes_twice_its_time() {
    // Erlang: each request has a list searched by one process, 60 us of the 112 that it takes alone. Alone it costs 93 us of CPU time,
    // and 72 with fifteen others.
    assert_eq!(named("served-beside-others", |_, raw| Some(raw)).as_deref(), Some("app.serial"));
}

#[test]
fn schedulers_that_sleep_in_a_call_of_native_code_are_no_pool() {
    // Erlang, seen from outside: a scale's library waits 20 ms for it, on both schedulers.
    let held = "schedulers-in-a-timer";
    assert_eq!(named(held, |_, raw| Some(raw)).as_deref(), Some("vm.native-code"));
    let without = |metric: &str, raw| (metric != "threads.held_schedulers").then_some(raw);
    assert_eq!(named(held, without).as_deref(), Some("app.pool"));
}

#[test]
fn dirty_schedulers_whose_jobs_all_wait_are_no_wait_of_the_application() {
    // The same library, flagged as a job for I/O: ten schedulers for these, and twelve connections.
    let all_have_one = "dirty-schedulers-in-a-timer";
    assert_eq!(named(all_have_one, |_, raw| Some(raw)).as_deref(), Some("vm.dirty-io"));
    let half_have =
        |metric: &str, raw| Some(if metric == "threads.held_dirty_io" { raw / 2 } else { raw });
    assert_eq!(named(all_have_one, half_have).as_deref(), Some("app.wait"));
}

#[test]
fn a_log_that_takes_turns_is_one_that_takes_most_of_a_cpu() {
    // The shop with ten lines of log a request again: 9 MB a second into a file.
    let log = "log-of-a-file";
    assert_eq!(named(log, |_, raw| Some(raw)).as_deref(), Some("vm.logger"));
    let a_line =
        |metric: &str, raw| Some(if metric == "process.log_written" { raw / 10 } else { raw });
    assert_eq!(named(log, a_line).as_deref(), Some("app.serial"));
    // Claims with eight lines a request, each written by itself: little of the CPUs, and most of one scheduler for files.
    let by_line = "log-line-by-line";
    assert_eq!(named(by_line, |_, raw| Some(raw)).as_deref(), Some("vm.logger"));
    assert_eq!(named(by_line, a_line), None);
}
