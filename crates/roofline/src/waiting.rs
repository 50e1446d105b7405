//! What the requests under way at a service that is watched wait for, and whether that is work.

use linerate_account::{Station, Watched};

use crate::chosen::HOLDS;
use crate::facts::Facts;

pub(crate) struct Waiting {
    pub says: String,
    /// Whether they wait for work, the path, or nothing at all; else something makes them wait.
    pub is_work: bool,
}

/// What was seen of them.
pub(crate) fn of(facts: &Facts) -> Waiting {
    let sum = |of: fn(&Watched) -> f64| facts.watched.iter().map(of).sum::<f64>();
    if facts.watched.is_empty() {
        let says = "what its requests wait for could not be seen".to_owned();
        return Waiting { says, is_work: false };
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
        (sum(|port| port.undecided), "undecided"),
    ];
    // Less would be said to be 0.0.
    let said: Vec<_> = states
        .iter()
        .filter(|(count, _)| *count >= 0.05)
        .map(|(count, what)| format!("{count:.1} {what}"))
        .collect();
    let mut says = format!("of {connections:.1} connections {}", said.join(", "));
    let inside = &facts.inside;
    let alternate = facts
        .watched
        .iter()
        .all(|port| port.exchanges.as_ref().is_none_or(|headers| headers.alternate));
    let in_application = sum(Watched::in_application);
    let held = sum(|port| port.held.nagle + port.held.other);
    let is_held = held >= HOLDS * facts.place.of.max(1e-9);
    if !alternate {
        says.push_str(
            "; requests and answers do not alternate: who has to speak next cannot be told",
        );
        return Waiting { says, is_work: !is_held };
    }
    if in_application >= 0.05 {
        says.push_str(&format!(
            "; of those in the application {:.1} run, {:.1} are ready to, {:.1} sleep",
            inside.running, inside.runnable, inside.asleep
        ));
    }
    // Behind one that runs stand those that it has not read; that it runs all the time is a limit too.
    let waits = inside.asleep + sum(|port| port.accept_queue) + sum(|port| port.unread);
    let working = inside.running + inside.runnable + inside.disk;
    // A peer that does not read has others wait only by what the service does about it.
    let away = sum(|port| port.air) + sum(|port| port.held.congestion);
    // Where fewer than one wait a request finds nobody before it.
    let is_work = !is_held
        && (waits <= working + away || waits < 1.0)
        && !matches!(facts.place.station, Some(Station::AcceptQueue));
    Waiting { says, is_work }
}
