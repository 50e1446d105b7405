//! What the requests under way at a watched service wait for, whether that is work, and what one without traffic does.

use crate::prelude::*;

/// Connections by what they wait for: station, what holds them, number, and words. No station: none or unknown.
pub(crate) fn states(facts: &Facts) -> [(Option<Station>, Option<Held>, f64, &'static str); 14] {
    use Station::*;
    let at = |station, of: fn(&Watched) -> f64, words| (station, None, facts.ports(of), words);
    let held = |by, words| (Some(ServerSending), Some(by), facts.ports(|of| of.held(by)), words);
    [
        at(None, |port| port.idle, "idle"),
        at(Some(AcceptQueue), |port| port.accept_queue, "in the accept queue"),
        at(Some(PathOut), Watched::asking, "in the midst of a request"),
        at(Some(Unread), |port| port.unread, "unread"),
        at(Some(TlsHandshake), Watched::shaking, "in the TLS handshake"),
        at(Some(Application), Watched::in_application, "in the application"),
        held(Held::Nagle, "held by Nagle"),
        held(Held::Congestion, "held by the congestion window"),
        held(Held::Window, "held by the peer's window"),
        held(Held::Buffer, "held by its full send buffer"),
        at(None, |port| port.held(Held::Pacing), "held in the send queue"),
        at(Some(PathBack), |port| port.air, "with an answer in flight"),
        at(None, |port| port.unanswered, "unanswered throughout"),
        at(None, Watched::untold, "of unknown state"),
    ]
}

/// What was seen of them, and whether they wait for work, the path, or nothing at all.
pub(crate) fn of(facts: &Facts) -> (String, bool) {
    if facts.watched.is_empty() {
        return (asked_only(facts), false);
    }
    let connections = facts.ports(|port| port.connections);
    // Smaller numbers would read 0.0.
    let said = states(facts).into_iter().filter(|(.., count, _)| *count >= 0.05);
    let said = Vec::from_iter(said.map(|(.., count, what)| format!("{count:.1} {what}")));
    let mut says = format!("of {connections:.1} connections {}", said.join(", "));
    // Messages in its own processes' mailboxes wait as well, whatever sockets show.
    let sampled = facts.connections().unwrap_or_default();
    let mail = sampled.iter().map(|of| (of.owner, of.of.mean(owner::MAILBOX).unwrap_or(0.0)));
    let mail: f64 = BTreeMap::from_iter(mail).values().sum();
    let is_behind = mail >= FEW * (sampled.len() as f64).max(1.0);
    if is_behind {
        says += &format!(", {mail:.0} messages in the mailboxes of their owners");
    }
    let held = facts.ports(|port| port.held(Held::Nagle) + port.held(Held::Pacing));
    let is_held = held >= HOLDS * facts.place.of.max(1e-9);
    if facts.headers().any(|of| !of.alternate) {
        says += "; requests and answers do not alternate: the state of connections is unknown";
        return (says, !is_held && !is_behind);
    }
    let inside = &facts.inside;
    if facts.ports(Watched::in_application) >= 0.05 {
        let Inside { running, runnable, asleep, .. } = inside;
        says += &format!(
            "; of those in the application {running:.1} run, {runnable:.1} are runnable, {asleep:.1} sleep"
        );
        if *asleep >= HALFWAY {
            says += &facts.waits_words();
        }
    }
    let hang = facts.passed_over();
    if let Some(hang) = hang {
        let (seconds, stopped) = (duration(facts.run.seconds()), stopped(facts));
        says += &format!(
            "; {hang:.0} sent requests as long as others', and had no answer in all of the {seconds}{stopped}"
        );
    }
    let again = facts.by_headers(|of| of.asking_again);
    let is_again = again >= HALFWAY * facts.place.of.max(1.0);
    if is_again {
        says += "; their clients send the next request without an answer: they want none, or their answers are lost";
    }
    // Those unread wait behind one that runs; that it always runs is a limit too. Those that could run wait for a CPU.
    let unserved = facts.ports(|of| of.accept_queue + of.unread);
    let waits = inside.asleep + inside.runnable + unserved;
    let working = inside.running + inside.disk;
    // A peer that does not read delays others only by what the service does about it.
    let away = facts.ports(|of| of.air + of.asking()) + facts.ports(|of| of.held(Held::Congestion));
    // For most of them it is unknown whether they wait.
    let untold = facts.ports(Watched::untold);
    let is_told = untold < 1.0 || untold < HALFWAY * connections || facts.captured().is_ok();
    // Where fewer than one wait, a request finds none before it.
    let is_work = is_told
        && !is_held
        && !is_behind
        && hang.is_none()
        && !is_again
        && (waits <= working + away || waits < 1.0)
        && !matches!(facts.place.station, Some(Station::AcceptQueue));
    if !is_work {
        says += &silent_peers(facts);
    }
    (says, is_work)
}

/// Of a target that serves nobody: whether others have what it waits for, answers or work, is not told.
fn asked_only(facts: &Facts) -> String {
    let asked = facts.inside.asked.iter().filter(|of| of.asked >= 0.05).take(SAMPLES);
    let words = |of: &Asked| format!("{:.1} of {:.1} to {}", of.asked, of.connections, of.words());
    let (to, threads) = (Vec::from_iter(asked.map(words)).join(", "), facts.inside.threads_words());
    if to.is_empty() {
        return "what its requests wait for is unknown".into();
    }
    format!(
        "it serves nobody, and of its own connections wait, for answers or for work: {to}{threads}"
    )
}

/// The answer where nothing is asked, answered or taken. Where most connections wait, the service is not idle.
pub(crate) fn idle(facts: &Facts) -> Verdict {
    let run = &facts.run;
    let none = match run.load.open {
        0 => "no connection carried traffic".into(),
        _ => format!("no traffic on {}", run.connections_words()),
    };
    // Too short-lived for a sample, or another service's.
    let opened = format!("; {} were opened to its host, most to other services", run.load.opened);
    let opened = if run.opens_many() { &opened } else { "" };
    let seen = format!("{none} in {}{opened}", duration(run.seconds()));
    let most = |count: f64| count >= 1.0 && count >= HALFWAY * facts.ports(|of| of.connections);
    let held = facts.ports(Watched::unsent);
    let unanswered = facts.ports(|port| port.unanswered);
    if most(held) {
        let says = format!("{seen}; {held:.0} hold answers that their clients do not read");
        return Verdict::none(Answer::Unexplained, format!("nothing is taken: {says}"));
    }
    if unanswered < 1.0 {
        return Verdict::none(Answer::Idle, format!("idle: {seen}"));
    }
    let spoke = format!("{seen}; {unanswered:.0} spoke last, before that");
    let unread = facts.ports(|port| port.unanswered_unread);
    // A consumer's acknowledgement needs no answer.
    if !most(unanswered) || of_broker(run).is_some() && unread < 1.0 {
        return Verdict::none(Answer::Idle, format!("idle: {spoke}"));
    }
    let why = match unread {
        1.0.. => format!("{unread:.0} of them are not even read"),
        _ => "they hang, poll for long, or need no answer".into(),
    };
    let waits = silent_peers(facts) + &inside(facts) + &facts.inside.threads_words();
    Verdict::none(Answer::Unexplained, format!("nothing is answered: {spoke}: {why}{waits}"))
}

/// Those that it has asked, and that have not answered it all the time.
fn silent_peers(facts: &Facts) -> String {
    let silent = facts.inside.asked.iter().filter(|of| of.unanswered >= 1.0);
    let words = |of: &Asked| {
        let who = of.words();
        let (unanswered, all) = (of.unanswered, of.connections.max(of.unanswered));
        format!("; {unanswered:.0} of {all:.0} connections to {who} had no answer all the time")
    };
    silent.map(words).take(SAMPLES).collect()
}

/// The processes of a node that have mail and wait in the midst of something; else where those of connections wait.
fn inside(facts: &Facts) -> String {
    let stopped = stopped(facts);
    let owner = facts.processes.iter().find(|of| of.is_owner && stopped.is_empty());
    owner.map_or(stopped, |of| format!("; its {} waits in {}", of.words(), of.stack))
}

/// The processes of a node that always have mail, and wait in the midst of something.
fn stopped(facts: &Facts) -> String {
    let stopped = facts.processes.iter().filter(|of| of.with_mail >= FULL && of.waits_inside());
    let words = |of: &Process| {
        format!("; its {} has {} messages and waits in {}", of.words(), of.mailbox, of.stack)
    };
    stopped.map(words).take(SAMPLES).collect()
}
