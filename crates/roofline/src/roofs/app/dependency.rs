//! A dependency: requests wait for somebody whom the service asked.
//!
//! `each = questions out / throughput`
//!
//! Seen on the target's own connections: those on which it sent last and has no answer yet. On this host the
//! peer's process is named, and how busy it is.
//! Source: `tcpi_last_data_sent`, `tcpi_last_data_recv`, linux/tcp.h.

use linerate_account::Asked;

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let asked = facts.inside.asked.first().filter(|asked| asked.asked > 0.0);
    let asked = asked.or_not_here("it has no question out to anybody")?;
    // Who has time to read, and does not, waits for an answer before it does: an event loop that takes a connection's next
    // request when what the last one began has ended.
    let unread = facts.place.station == Some(Station::Unread) && is_free(facts);
    // Nothing else is known that keeps it from reading.
    let (station, inside, asleep, enough) = match unread {
        true => (Station::Unread, facts.place.exchanges, facts.place.exchanges, HOLDS),
        false => {
            let asleep = facts.inside.asleep;
            let inside = facts.at(Station::Application).max(asleep);
            (Station::Application, inside, asleep, HALFWAY)
        }
    };
    // What runs, or is ready to, does not wait for an answer.
    let out = asked.asked.min(asleep);
    if facts.place.station != Some(station) || out < enough * inside {
        return not_here(format!(
            "{out:.1} questions are out to {} and waited for, of {inside:.1} exchanges {}",
            asked.address,
            station.words()
        ));
    }
    let each = facts.per_exchange(out);
    let who = asked.process.as_ref().map(|process| format!("{} ({process})", asked.address));
    let who = who.unwrap_or_else(|| asked.address.clone());
    let took = duration(each);
    let part = match facts.place.regime {
        Regime::Full => Part::capacity(Resource::Slots, out, each),
        _ => Part::Delay { at: At::Station(station), each },
    };
    Ok(Claim {
        sum: format!(
            "{out:.1} of {inside:.1} requests {} wait for {who}, {took} each",
            station.words()
        ),
        seen: format!(
            "{out:.1} of {:.1} connections to it have a question out{}",
            asked.connections,
            busy(asked)
        ),
        remedies: vec![Remedy::human("answers sooner, or is asked less", by_hand(asked, &who))],
        ..Claim::cause(vec![part])
    })
}

/// Whether a watched service's CPUs and threads have time for what is unread.
fn is_free(facts: &Facts) -> bool {
    let threads = facts.inside.threads.as_ref();
    facts.load == Load::Watched
        && facts.target.as_ref().is_some_and(|target| target.running < HALFWAY)
        && threads.is_some_and(|threads| threads.fullest < HALFWAY)
}

fn by_hand(asked: &Asked, who: &str) -> String {
    if asked.address.ends_with("/udp") {
        return format!(
            "see what {who} does; a name server's answers can be kept (nscd, systemd-resolved, dnsmasq, the runtime's \
             own cache), or the name written as an address"
        );
    }
    format!(
        "see what {who} does: linerate doctor :PORT on its host; ask it less often, or several questions at once"
    )
}

/// `; it used 1.00 CPUs: one thread, full`.
fn busy(asked: &Asked) -> String {
    match asked.cores {
        Some(cores) if (FULL..1.0 + AGREE).contains(&cores) => {
            format!("; it used {cores:.2} CPUs: as much as one thread can")
        }
        Some(cores) => format!("; it used {cores:.2} CPUs"),
        None => String::new(),
    }
}
