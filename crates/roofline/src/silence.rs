//! A watched service without traffic: nothing is asked, nothing is answered, or nothing is taken.

use crate::prelude::*;

/// The answer. Where most connections wait, the service is not idle.
pub(crate) fn of(facts: &Facts) -> Verdict {
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
pub(crate) fn silent_peers(facts: &Facts) -> String {
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
pub(crate) fn stopped(facts: &Facts) -> String {
    let stopped = facts.processes.iter().filter(|of| of.with_mail >= FULL && of.waits_inside());
    let words = |of: &Process| {
        format!("; its {} has {} messages and waits in {}", of.words(), of.mailbox, of.stack)
    };
    stopped.map(words).take(SAMPLES).collect()
}
