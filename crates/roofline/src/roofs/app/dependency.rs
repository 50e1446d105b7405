//! A dependency: requests wait for another service that the target asked.
//! `each = questions out / throughput`, on the target's own connections: those on which it sent last and has no answer yet
//! On connections that many requests share, segments count ([`Inside::by_segments`]), or [`crate::facts::shared`].
//! Source: `tcpi_last_data_sent`, `tcpi_last_data_recv`, linux/tcp.h.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    if let Some(claim) = hangs(facts) {
        return Ok(claim);
    }
    if let Some(output) = facts.unread_output().filter(|output| !output.is_log_of_beam) {
        return Ok(writes(facts, &output));
    }
    let most = facts.inside.asked.first().filter(|asked| asked.asked > 0.0);
    let most = most.map(|asked| (asked, facts.shared(asked)));
    let of_many = facts.asked_by_many().map(|(asked, out)| (asked, Some(out)));
    let out = |of: &(&Asked, Option<f64>)| of.1.unwrap_or(of.0.asked);
    let asked = most.into_iter().chain(of_many).max_by(|a, b| out(a).total_cmp(&out(b)));
    let (asked, shared) = asked.or_not_here("it waits for no answer of a dependency")?;
    // A service that does not read though it could waits for an answer first: an event loop with one task at a time.
    // What asks is none of those unread where it was read: it is in the application.
    let taken = (1.0 + HALFWAY) * facts.ports(Watched::in_application);
    let unread = facts.place.station == Some(Station::Unread)
        && (asked.asked < TWO || asked.asked >= taken)
        && facts.load == Load::Watched
        && facts.target.as_ref().is_some_and(|target| target.running < HALFWAY)
        && facts.threads().is_some_and(|threads| threads.fullest < HALFWAY);
    // No other known cause keeps it from reading.
    let (station, asleep, enough) = match unread {
        true => (Station::Unread, facts.place.exchanges, HOLDS),
        false => (Station::Application, facts.inside.asleep, HALFWAY),
    };
    let inside = if unread { asleep } else { facts.at(station).max(asleep) };
    // What runs, or is ready, waits for no answer; nor does what Nagle holds in the service's own socket.
    let shared = shared.map(|out| out * (1.0 - asked.held_nagle / asked.asked.max(1e-9)).max(0.0));
    let own = (asked.asked - asked.held_nagle).max(0.0) / facts.asked_at_once(asked);
    let served = facts.serves_fewer().filter(|(of, _)| of.address == asked.address);
    let is_own = served.is_some() && facts.application_serves_fewer().is_some();
    silent_if(is_own, "what serves fewer than are asked is the service's own application")?;
    // Fewer than two are one, as in app.serial.
    let served = served.map(|(_, at_once)| if at_once < TWO { 1.0 } else { at_once });
    let share = match shared {
        _ if served.is_some() => ", and it serves fewer at a time; the others wait to ask it",
        Some(_) if facts.load == Load::Watched => {
            ", shared by requests, nearly always: the service's threads wait for events only, and for no timer in an exchange's \
             time"
        }
        Some(_) => ", shared by requests: even a single one waits there",
        None if asked.asked > asked.connections && asked.is_by_datagrams() => {
            "; as many UDP datagrams reached this host as there were requests, and the service's threads wait for events \
             only"
        }
        None if asked.asked > asked.connections => {
            "; requests share them, and so many segments sent there have no answer"
        }
        None if asked.untold >= HALFWAY * asked.asked => {
            ", as they must: its own threads wait for events, and for no timer in an exchange's time"
        }
        None => "",
    };
    let out = if served.is_some() { asleep } else { shared.unwrap_or(own.min(asleep)) };
    let (there, peer) = (station.words(), &asked.address);
    let few = format!("{out:.1} requests wait for an answer of {peer}, of {inside:.1} exchanges");
    let is_there = facts.place.station == Some(station) && out >= enough * inside;
    silent_if(!is_there, format!("{few} {there}"))?;
    let (each, at_once) = (facts.per_exchange(out), served.unwrap_or(out));
    let (who, last) = (asked.words(), onward(asked).last().unwrap_or(asked));
    let (all, open) = (asked.connections, asked.asked.min(asked.connections));
    let part = match facts.place.regime {
        Regime::Full => Part::capacity(Resource::Slots, at_once, facts.per_exchange(at_once)),
        _ => Part::Delay { at: At::Station(station), each },
    };
    let (how, lifts) = match served {
        Some(served) => {
            let (each, rate) = (facts.per_exchange(served), OpRate(facts.attained));
            let many = if served < TWO { "one".into() } else { format!("{served:.0}") };
            let how = format!(", which serves {many} at a time / {} = {rate}", duration(each));
            (how, "serves more at a time, or each sooner")
        }
        None => (format!(", {} each", duration(each)), "answers sooner, or gets fewer calls"),
    };
    let used = |cores: f64| {
        let is_one = (FULL..1.0 + AGREE).contains(&cores);
        let full = if is_one { ": as much as one thread can" } else { "" };
        format!("it used {cores:.2} CPUs{full}")
    };
    // Who asks less often spares also what asking takes here.
    let least = served.is_none().then_some(Least::OfTarget);
    Ok(Claim { role: Role::Elsewhere, least, ..Claim::cause(vec![part]) }
        .sum(format!("{out:.1} of {inside:.1} requests {there} wait for {who}{how}"))
        .seen(format!("{open:.1} of {all:.1} connections to it wait for an answer{share}"))
        .also(several(facts, asked))
        .also(in_turn(asked))
        .also(last.cores.map(used))
        .lifted_by([Remedy::human(lifts, by_hand(last, served))]))
}

/// Clients that had no answer in all the time in which others had theirs, and as many questions to a peer.
fn hangs(facts: &Facts) -> Option<Claim> {
    let hang = facts.passed_over()?;
    let asked = facts.inside.asked.iter().max_by(|a, b| a.unanswered.total_cmp(&b.unanswered));
    let asked = asked.filter(|of| of.unanswered >= 1.0 && of.unanswered >= EXPLAINED * hang)?;
    let all = facts.ports(Watched::accepted).max(hang);
    let part = Part::TurnedAway { asked: all, served: all - hang };
    let (who, unanswered, run) = (asked.words(), asked.unanswered, duration(facts.run.seconds()));
    let claim = Claim { role: Role::Elsewhere, ..Claim::cause(vec![part]) }
        .sum(format!(
            "{hang:.0} requests had no answer, while others had theirs, and wait for {who}"
        ))
        .seen(format!("{unanswered:.0} connections to it had none in all of the {run}"));
    Some(claim.lifted_by([Remedy::human("answers all", by_hand(asked, None))]))
}

fn writes(facts: &Facts, output: &UnreadOutput) -> Claim {
    let claim = Claim::delay(At::Station(output.station), output.each).at_least(Least::Asleep);
    let took = facts.took(output.each);
    Claim { role: Role::Elsewhere, ..claim }
        .sum(format!("{took} of waiting until {} takes more", output.reader))
        .seen(&output.seen)
        .lifted_by([Remedy::human(
            "reads as fast as it is written, or drops what it can't take",
            "write less (the log level), to a file, or to something that drops what it can't take; find out what its \
             reader waits for. Docker: --log-opt mode=non-blocking",
        )])
}

/// `a request alone takes 12 answers of it`: of each request as many questions, one after the other or at once.
fn several(facts: &Facts, asked: &Asked) -> Option<String> {
    let count = facts.answers_of(asked).filter(|count| *count >= TWO)?;
    Some(format!("a request alone takes {count:.0} answers of it"))
}

/// `it waits in turn for 127.0.0.1:5432 (postgres, pid 812) on 3.9 of its connections`.
fn in_turn(asked: &Asked) -> Option<String> {
    let words = |of: &Asked| format!("for {} on {:.1} of its connections", of.words(), of.asked);
    let each: Vec<String> = onward(asked).map(words).collect();
    (!each.is_empty()).then(|| format!("it waits in turn {}", each.join(", and that ")))
}

fn by_hand(asked: &Asked, served: Option<f64>) -> String {
    let who = asked.words();
    if asked.is_by_datagrams() {
        return format!(
            "find out what {who} does; cache a name server's answers (nscd, systemd-resolved, dnsmasq, the runtime's \
             own cache), or use an address instead of the name"
        );
    }
    let how = "linerate doctor :PORT on its host; call it less often, or several calls at once";
    match served {
        Some(..TWO) => format!(
            "find out what only one request of {who} has at a time (its only worker, a lock, the file of a PHP session): \
             {how}"
        ),
        Some(_) => format!(
            "give {who} more workers (PHP-FPM: pm.max_children; gunicorn, uWSGI, puma: workers or threads; Apache: \
             MaxRequestWorkers), or find out what they wait for: {how}"
        ),
        None => format!("find out what {who} does: {how}"),
    }
}
