//! What the requests under way at a service that is watched wait for, and whether that is work.

use std::collections::BTreeMap;

use crate::facts::connections::Connection;
use crate::prelude::*;

/// What was seen of them; and whether they wait for work, the path, or nothing at all, else something makes them wait.
pub(crate) fn of(facts: &Facts) -> (String, bool) {
    let sum = |of: fn(&Watched) -> f64| facts.ports(of);
    if facts.watched.is_empty() {
        let says = "what its requests wait for could not be seen".to_owned();
        return (says, false);
    }
    let connections = sum(|port| port.connections);
    let states = [
        (sum(|port| port.idle), "idle"),
        (sum(|port| port.accept_queue), "in the accept queue"),
        (sum(|port| port.unread), "unread"),
        (sum(Watched::in_application), "with the application"),
        (sum(|port| port.held.nagle), "held by Nagle"),
        (sum(|port| port.held.congestion), "held by the congestion window"),
        (sum(|port| port.held.window), "held by their peer's window"),
        (sum(|port| port.held.other), "held in the send queue"),
        (sum(|port| port.air), "in the air"),
        (sum(Watched::untold), "undecided"),
    ];
    // Less would be said to be 0.0.
    let said = states.iter().filter(|(count, _)| *count >= 0.05);
    let said: Vec<_> = said.map(|(count, what)| format!("{count:.1} {what}")).collect();
    let mut says = format!("of {connections:.1} connections {}", said.join(", "));
    // What its own processes have not taken yet waits as well, whatever sockets show.
    let in_mailbox = |connection: &Connection| connection.of.mean(owner::MAILBOX).unwrap_or(0.0);
    let sampled = facts.connections().unwrap_or_default();
    let by_owner: BTreeMap<_, f64> = sampled.iter().map(|of| (of.owner, in_mailbox(of))).collect();
    let mail: f64 = by_owner.values().sum();
    let is_behind = mail >= FEW * (sampled.len() as f64).max(1.0);
    if is_behind {
        says += &format!(", {mail:.0} messages in the mailboxes of their owners");
    }
    let inside = &facts.inside;
    let mut headers = facts.watched.iter().filter_map(|port| port.exchanges.as_ref());
    let in_application = sum(Watched::in_application);
    let held = sum(|port| port.held.nagle + port.held.other);
    let is_held = held >= HOLDS * facts.place.of.max(1e-9);
    if headers.any(|of| !of.alternate) {
        says += "; requests and answers do not alternate: who has to speak next cannot be told";
        return (says, !is_held && !is_behind);
    }
    if in_application >= 0.05 {
        let Inside { running, runnable, asleep, .. } = inside;
        says += &format!(
            "; of those in the application {running:.1} run, {runnable:.1} are ready to, {asleep:.1} sleep"
        );
    }
    // Behind one that runs stand those that it has not read; that it runs all the time is a limit too.
    let waits = inside.asleep + sum(|port| port.accept_queue) + sum(|port| port.unread);
    let working = inside.running + inside.runnable + inside.disk;
    // A peer that does not read has others wait only by what the service does about it.
    let away = sum(|port| port.air) + sum(|port| port.held.congestion);
    // Where fewer than one wait a request finds nobody before it.
    let is_work = !is_held
        && !is_behind
        && (waits <= working + away || waits < 1.0)
        && !matches!(facts.place.station, Some(Station::AcceptQueue));
    (says, is_work)
}
