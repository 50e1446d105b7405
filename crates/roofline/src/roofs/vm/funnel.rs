//! Funnel: every request asks one process, which serves one caller at a time.
//! `ceiling = 1 / a call's time of that process`; of several of a kind (a process for each user, room, device) that wait in
//! the middle of a call while others wait for them, `delay = messages in their mailboxes / throughput`
//! Source: the same as for one server of a closed network, Lazowska et al., 1984, chapter 5.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    if let Some(claim) = by_memory(facts).or_else(|| from_outside(facts)) {
        return Ok(claim);
    }
    facts.serving_node()?;
    let (node, _, let_run) = facts.schedulers()?;
    facts.processes.first().ok_or_else(|| missing(suspect::RUNNING.name, "process/*"))?;
    let callers = facts.callers();
    let taken = |of: &Process| if of.waits_inside() { of.wanted() } else { of.running };
    let is_full = facts.place.resource == Some(Resource::Process);
    let asleep = facts.inside.asleep;
    // Who has asked somebody else waits for that one.
    let sleep = asleep >= (HALFWAY * facts.under_way()).max(1.0)
        && facts.inside.questions() < HALFWAY * asleep;
    let asked = facts.processes.iter().filter(|of| {
        let has_mail = of.standing(callers) > 0 || of.mailbox > 0;
        let is_asked = has_mail && of.with_mail >= HALFWAY && of.waiting(callers) <= callers;
        // Messages beyond one a caller are several of a request, unless no request waits.
        let works_always = is_full && of.running >= FULL && (of.with_mail < HALFWAY || sleep);
        let is_called = of.is_called() && taken(of) >= HALFWAY;
        // Who owns a connection reads it, unless it takes none of its messages for a while.
        let may_serve = !of.is_owner || of.passes_over();
        let is_server = may_serve && !of.is_one_of_several && !of.is_log_handler();
        is_server && (is_called || is_asked || works_always)
    });
    if let Some(claim) = of_a_kind(facts) {
        return Ok(claim);
    }
    let known = |of: &Process| (of.is_called(), of.with_mail >= HALFWAY);
    let funnel = asked.max_by(|a, b| known(a).cmp(&known(b)).then(taken(a).total_cmp(&taken(b))));
    let none = "callers wait for no process, and none has as many messages as callers that wait";
    let funnel = funnel.or_not_here(none)?;
    let (who, worked) = (funnel.words(), in_percent(funnel.running));
    // A process holds up its callers while it waits for another as while it works.
    let waits = taken(funnel) - funnel.running;
    let idle = format!("{who} has messages, and neither works nor waits for another process");
    let called = format!("{} of those that wait in a call wait for it", in_percent(funnel.callers));
    silent_if(funnel.running <= 0.0 && waits <= 0.0, idle)?;
    // Who asks a process that waits for the disk is asked no sooner by itself.
    let syncs = |of: &&Process| {
        let is_other = of.pid != funnel.pid && of.is_called();
        is_other && of.syncing >= HOLDS.max(of.running)
    };
    if let Some(of) = facts.processes.iter().find(syncs).filter(|_| waits > funnel.running) {
        return not_here(format!("{who} waits for {}, which is in a sync", of.words()));
    }
    let each = facts.per_exchange(node.of_one(funnel.running) * let_run + waits.max(0.0));
    let (took, rate) = (duration(each), rate(1.0, each));
    let (active, online, waiting) = (node.active, node.online, funnel.waiting(callers));
    let works = waits <= funnel.running;
    let (function, count) = (funnel.function, processes(facts, works, online));
    Ok(Claim::cause(vec![Part::capacity(Resource::Process, 1.0, each)])
        .sum(format!("{who}: one call at a time, {took} each = {rate}"))
        .seen(format!(
            "{who} had {waiting} messages waiting and worked in {worked} of the samples, with {active:.2} of \
             {online:.0} schedulers in use; it was in {function}"
        ))
        .also(funnel.is_called().then_some(called))
        .lifted_by(remedies(facts, count, &format!("its stack: {}", stack(funnel)), works)))
}

/// How many there should be: as many as schedulers that they would fill, or, where each waits in a call, as callers.
fn processes(facts: &Facts, works: bool, schedulers: f64) -> u64 {
    let most = u64::from(facts.run.connections());
    if works { schedulers.ceil() as u64 } else { most }.max(2)
}

/// Best first. A call that waits does so in the caller as well; of a watched service it is not known what comes without any.
fn remedies(facts: &Facts, count: u64, who: &str, works: bool) -> Vec<Remedy> {
    let spread =
        format!("start {count} processes and choose one by erlang:phash2(Key, {count}); {who}");
    let gives = format!("spreads the calls over {count} processes, each with a part of the keys");
    let shards = Remedy::plan(("shards", count.to_string()), gives, spread).serving(count as f64);
    let by_hand = "do its work in the caller: read from ets ({read_concurrency, true}) or persistent_term, count with counters";
    let spared =
        Remedy { least: Some(Least::OfTarget), ..Remedy::human("spares the call", by_hand) };
    match works {
        true if facts.model.is_some() => vec![spared, shards],
        true => vec![shards, spared],
        false => vec![shards],
    }
}

/// Seen from outside, by its memory: one of the requests under way is served, and most others are in a process's mailbox.
fn by_memory(facts: &Facts) -> Option<Claim> {
    let funnel = facts.most_wait_for()?;
    let (waiting, under_way) = (funnel.waiting(facts.callers()), facts.under_way());
    let logging = facts.by_memory(erlang::LOGGING).unwrap_or(0.0);
    let takes_turns = facts.place.at_a_time().is_some_and(|k| k < TWO);
    let is_one = takes_turns || facts.place.resource == Some(Resource::Process);
    let is_so = is_one && facts.place.regime == Regime::Full && logging < HALFWAY * under_way;
    let (who, each) = (funnel.words(), facts.per_exchange(1.0));
    let (took, rate, function) = (duration(each), rate(1.0, each), funnel.function);
    let works = funnel.running >= HALFWAY;
    let schedulers = facts.threads().map_or(2.0, |of| of.schedulers as f64);
    let count = processes(facts, works, schedulers);
    let claim = Claim::cause(vec![Part::capacity(facts.place.resource?, 1.0, each)])
        .sum(format!("{who}: one call at a time, {took} each = {rate}"))
        .seen(format!(
            "{who} had {waiting} messages waiting while {under_way:.1} requests were under way, and ran in {} of the \
             samples; it was in {function}",
            in_percent(funnel.running)
        ))
        .lifted_by(remedies(facts, count, &format!("its stack: {}", stack(funnel)), works));
    is_so.then_some(claim)
}

/// Seen from outside: what always works in a node, one request at a time, asks nobody and leaves a CPU idle, is one process.
fn from_outside(facts: &Facts) -> Option<Claim> {
    let inside = &facts.inside;
    // One of several schedulers is full, and requests sleep: it runs the same process all the time. The others would take
    // what waits for a scheduler.
    let is_asked = inside.asleep >= TWO;
    let is_several = facts.threads().is_some_and(|of| of.schedulers >= 2 && of.fullest_schedules());
    let thread = facts.stations.of_resource(Resource::TargetThread);
    let full = facts.place.resource.filter(|of| match of {
        Resource::TargetThread => {
            is_several && is_asked && thread.is_some_and(|of| of.servers < TWO)
        }
        Resource::Slots => facts.place.at_once.is_some_and(|k| k.mid < TWO),
        _ => false,
    })?;
    let is_one = facts.place.regime == Regime::Full;
    let waits_for_others = inside.questions().max(inside.disk) >= HALFWAY;
    let work = facts.target_cpu().ok()?.work();
    let works_always = (FULL..TWO).contains(&work) && !facts.no_cpu_is_idle();
    // Several that run or could run are several processes, which ask for what one of them holds.
    let is_alone = inside.running + inside.runnable < TWO;
    let each = facts.per_exchange(1.0);
    let ever = if full == Resource::Slots { ", whatever the load" } else { "" };
    let who = "which process it is, is known of a node with a name, or by its memory (as root, OTP 25), without --no-inside";
    // Who is not accepted has asked nobody.
    let is_accepted = facts.at(Station::AcceptQueue) < HALFWAY * facts.under_way();
    let is_called = is_one && works_always && is_alone && is_accepted && !waits_for_others;
    let is_so = facts.is_node_outside() && is_called;
    is_so.then(|| {
        Claim::cause(vec![Part::capacity(full, 1.0, each)])
            .sum(format!("one at a time, {} each = {}", duration(each), rate(1.0, each)))
            .seen(format!(
                "the node works for {work:.2} CPUs{ever}, while {:.1} requests sleep, a CPU is idle, and nobody else \
                 was asked",
                inside.asleep
            ))
            .lifted_by(remedies(facts, 2, who, true))
    })
}

fn stack<'a>(of: &Process<'a>) -> &'a str {
    if of.stack.is_empty() { "not seen" } else { of.stack }
}

/// Where several alike are asked, each in the middle of a call, and more connections get more or it is not known.
fn of_a_kind(facts: &Facts) -> Option<Claim> {
    let callers = facts.callers();
    let is_stuck = |of: &&Process| {
        let is_asked = of.with_mail >= HALFWAY && (1..=callers).contains(&of.waiting(callers));
        is_asked && !of.is_owner && of.waits_inside()
    };
    let stuck: Vec<_> = facts.processes.iter().filter(is_stuck).collect();
    let alike = |one: &&Process| stuck.iter().filter(|of| of.name == one.name).count();
    let one = stuck.iter().copied().max_by_key(alike)?;
    let (count, kind) = (alike(&one), stuck.iter().filter(|of| of.name == one.name));
    let waiting: u64 = kind.map(|of| of.waiting(callers)).sum();
    let calling = facts.run.whole(Subject::Node).mean(callees::CALLING).ok()?;
    let is_limit = matches!(facts.place.regime, Regime::Full | Regime::RateSet);
    let are_called = calling >= HALFWAY * waiting as f64 && waiting <= callers;
    let each = facts.per_exchange(waiting as f64);
    let claim = Claim::delay(At::Station(Station::Application), each)
        .sum(format!("{waiting} calls wait for {count} processes of {}, {} each", one.name, duration(each)))
        .seen(format!(
            "each of them was in the middle of a call, waiting in {}, while others waited for it; {calling:.1} processes \
             waited in calls",
            one.function
        ))
        .lifted_by([Remedy::human(
            "lets a process take the next call while one waits",
            format!(
                "do not wait inside a call: keep From, return {{noreply, State}}, and answer by gen_server:reply/2 when what \
                 it waits for comes; or let the caller or a process of its own wait. Its stack: {}",
                stack(one)
            ),
        )]);
    (count >= 2 && !is_limit && are_called).then_some(claim)
}
