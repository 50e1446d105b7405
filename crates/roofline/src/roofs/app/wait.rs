//! Waits of the application for no CPU, disk or other service: a timer, a poll interval, a sleep.
//! `each = (application asleep + unread while the service has time to read - stopped together with all) / throughput`
//! Source: off-CPU analysis, B. Gregg, "Systems Performance", 2nd edition, 5.4.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let is_made = facts.load == Load::Made;
    let is_delayed = facts.is_split() && facts.place.regime == Regime::Delayed;
    let is_seen = if is_made { is_delayed } else { each_for_itself(facts) };
    silent_if(!is_seen, "the place of the exchanges is unknown, or something is full")?;
    // A service with time to read that is late to read sleeps before: a loop that polls.
    let unread = if is_made { late_to_read(facts) } else { 0.0 };
    let under_way = facts.under_way();
    // What stops all of them at a time is no wait of each.
    let stopped = Stops::of(facts).map_or(0.0, |stops| stops.share * under_way);
    let asleep = (facts.inside.asleep + unread - stopped).max(0.0);
    let few = format!("{asleep:.1} of {under_way:.1} exchanges sleep in the application");
    silent_if(asleep < HALFWAY * under_way, few)?;
    let questions = facts.inside.questions();
    let inside = facts.at(Station::Application).max(asleep);
    let are_many = questions >= HALFWAY * inside || facts.asked_by_many().next().is_some();
    silent_if(are_many, format!("{questions:.1} of them wait for a dependency"))?;
    let each = asleep / facts.attained;
    let (took, whole) = (duration(each), duration(under_way / facts.attained));
    let (rate, threads) = (OpRate(facts.attained), facts.waits_words());
    let watched = format!("{under_way:.1} requests");
    let many = if is_made { facts.run.connections_words() } else { watched };
    let twice = facts.run.connections().saturating_mul(2).to_string();
    let does = "keeps twice as many exchanges under way; nothing is full";
    let more = Remedy::plan(("load.connections", &twice), does, format!("-c {twice}"));
    let in_service = "in the service, and none of its threads runs for them";
    let (at, sleeps, seen) = match unread < HALFWAY * asleep {
        true => (At::Station(Station::Application), "asleep in the application", in_service),
        false => (At::Service, "before it is read", "unread while the service sleeps"),
    };
    Ok(Claim::place(vec![Part::Delay { at, each }])
        .sum(format!("{many} / {whole}, of which {took} {sleeps} = {rate}"))
        .seen(format!("{asleep:.1} of {under_way:.1} exchanges are {seen}{threads}"))
        .lifted_by([Remedy::human(
            "removes the wait from each request",
            "find out what a request waits for: a timer, a poll interval, a retry's pause, a sleep; strace -f -p PID \
             shows the call, py-spy dump, jstack or pprof the line",
        )])
        .lifted_by(is_made.then_some(more)))
}

/// Exchanges unread for much longer than waking a process takes, but for those whose queue is full.
fn late_to_read(facts: &Facts) -> f64 {
    let unread = facts.at(Station::Unread);
    let is_long = facts.per_exchange(unread) * 1e9 >= FEW * WAKING;
    let is_ready = facts.target.as_ref().and_then(|of| of.runnable).unwrap_or(0.0) >= HALFWAY;
    // A thread that is often busy reads late without any sleep.
    let is_free = facts.stations.fullest().is_none_or(|(_, full)| full < HALFWAY);
    let full = facts.unread().map_or(0.0, |of| of.full);
    if is_long && is_free && !is_ready { unread - full } else { 0.0 }
}

/// Whether each request of a watched service waits in the application for a time of its own.
fn each_for_itself(facts: &Facts) -> bool {
    let place = &facts.place;
    if place.station != Some(Station::Application) || place.of < 2.0 {
        return false;
    }
    // One thread in a timer is most runtimes' clock.
    let timers = facts.threads().map_or(0.0, |threads| threads.timer);
    // Of a node its processes are asked. Where answers come in an order, some hold what others sleep for (mnesia's locks).
    let timers = if facts.pace().is_none() { timers.max(facts.owners_sleep()) } else { timers };
    let of_threads = timers >= 2.0 && timers >= EXPLAINED * place.exchanges;
    place.regime == Regime::Delayed
        || ((of_threads || by_event_loop(facts)) && place.regime == Regime::Unknown)
}

/// Whether an event loop waits for timers, and no request for another.
fn by_event_loop(facts: &Facts) -> bool {
    let (Some(threads), Ok((_, headers))) = (facts.threads(), facts.captured()) else {
        return false;
    };
    let exchange_s = facts.exchange_s();
    let [.., longest] = linerate_evidence::sources::threads::TIMEOUTS;
    headers.alternate
        && exchange_s <= longest.as_secs_f64()
        // Where all wait for nearly as long, none waits for more or less than the one before.
        && headers.p99_s > (1.0 + HOLDS) * headers.p50_s
        // Of as many as there are requests each may have one of its own.
        && threads.poll + threads.poll_timed < facts.under_way()
        && headers.rhythm.and_then(|rhythm| rhythm.alike).is_some_and(|alike| alike < HOLDS)
        && facts.pace().is_none()
        // Who begins a transaction may wait until another one's ends.
        && headers.in_transactions().is_none()
        && threads.poll_within(exchange_s) >= HALFWAY
}
