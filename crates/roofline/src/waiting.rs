//! What the requests under way at a watched service wait for, and whether that is work.

use crate::prelude::*;

/// Connections by what they wait for: station, what holds them, number, and words. No station: none or unknown.
pub(crate) fn states(facts: &Facts) -> [(Option<Station>, Option<Held>, f64, &'static str); 14] {
    use Station::*;
    let at = |station, of: fn(&Watched) -> f64, words| (station, None, facts.ports(of), words);
    let held =
        |by, words| (Some(ServerSending), Some(by), facts.ports(|port| port.held(by)), words);
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
    let said: Vec<_> = said.map(|(.., count, what)| format!("{count:.1} {what}")).collect();
    let mut says = format!("of {connections:.1} connections {}", said.join(", "));
    // Messages in its own processes' mailboxes wait as well, whatever sockets show.
    let in_mailbox = |connection: &Connection| connection.of.mean(owner::MAILBOX).unwrap_or(0.0);
    let sampled = facts.connections().unwrap_or_default();
    let by_owner: BTreeMap<_, f64> = sampled.iter().map(|of| (of.owner, in_mailbox(of))).collect();
    let mail: f64 = by_owner.values().sum();
    let is_behind = mail >= FEW * (sampled.len() as f64).max(1.0);
    if is_behind {
        says += &format!(", {mail:.0} messages in the mailboxes of their owners");
    }
    let inside = &facts.inside;
    let in_application = facts.ports(Watched::in_application);
    let held = facts.ports(|port| port.held(Held::Nagle) + port.held(Held::Pacing));
    let is_held = held >= HOLDS * facts.place.of.max(1e-9);
    if facts.headers().any(|of| !of.alternate) {
        says += "; requests and answers do not alternate: the state of connections is unknown";
        return (says, !is_held && !is_behind);
    }
    if in_application >= 0.05 {
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
        let seconds = duration(facts.run.seconds());
        says += &format!(
            "; {hang:.0} sent requests as long as others', and had no answer in all of the {seconds}{}",
            crate::silence::stopped(facts)
        );
    }
    let again = facts.by_headers(|of| of.asking_again);
    let is_again = again >= HALFWAY * facts.place.of.max(1.0);
    if is_again {
        says += "; their clients send the next request without an answer: they want none, or their answers are lost";
    }
    // Those unread wait behind one that runs; that it always runs is a limit too.
    let waits =
        inside.asleep + facts.ports(|port| port.accept_queue) + facts.ports(|port| port.unread);
    let working = inside.running + inside.runnable + inside.disk;
    // A peer that does not read delays others only by what the service does about it.
    let away = facts.ports(|port| port.air + port.asking())
        + facts.ports(|port| port.held(Held::Congestion));
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
        says += &crate::silence::silent_peers(facts);
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
