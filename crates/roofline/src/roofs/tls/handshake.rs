//! TLS handshakes: they cost the target far more than what a connection then carries.
//! `delay = exchanges in the handshake / throughput`
//! `work = target's CPU time an exchange x exchanges in the handshake / exchanges inside it`, or its time in libraries of
//! ciphers that bytes and records do not explain; without the account, of a BEAM node, handshakes at their least price.
//! Source: RFC 8446, 2; ssl of OTP, `session_tickets`.

use crate::prelude::*;

// Measured: OTP 25, 2.5 GHz: CPU time of a handshake with a P-256 key; RSA of 2048 bits takes twice as much. Unit: seconds.
const OF_OTP: f64 = 0.0012;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.speaks_tls()?;
    let kept = if facts.load == Load::Made { u64::from(facts.run.connections()) } else { 0 };
    let again = facts.run.load.opened.saturating_sub(kept);
    silent_if((again as f64) < FEW, format!("{again} connections were opened with a handshake"))?;
    // What they wait for there is no part of a handshake: a process that looks up a certificate, say.
    let waits = facts.place.is_full_of(Resource::Process);
    silent_if(waits, "in the handshake they wait for one process")?;
    let opened = facts.opening().each;
    let (claim, how) = if let Some((each, work)) = facts.shaking() {
        let works = |resource| move |each| Part::Work { resource, each };
        // Both ends work on it.
        let share = work.map_or(0.0, |work| work / facts.target_work().unwrap_or(work).max(1e-12));
        let host = facts.host.as_ref().ok().filter(|_| facts.load == Load::Made);
        let of_host = host.map(|host| share * facts.per_exchange(host.busy));
        let (shaking, all) = (facts.in_handshake(), facts.under_way());
        let how = format!("{shaking:.1} of {all:.1} exchanges are in the handshake");
        let claim = Claim::delay(At::Station(Station::TlsHandshake), each)
            .and(work.map(works(Resource::TargetCpu)))
            .and(of_host.map(works(Resource::HostCpu)));
        (claim, how)
    } else {
        let work = facts.target_work()?;
        let least = if facts.is_beam() { OF_OTP * opened } else { 0.0 };
        let how = format!("the target's CPUs work {} for {}", duration(work), facts.each());
        (Claim::priced(least, work), how)
    };
    let does = "keeps a connection, and its handshake, for many exchanges";
    let of_otp = facts.if_beam(" ({session_tickets, stateless} in the server's ssl options)");
    let by_hand = "keep-alive or a connection pool in the client; session tickets";
    let by_hand = format!("{by_hand}{of_otp}; a P-256 key instead of RSA");
    Ok(claim
        .at_least(Least::OfBothEnds)
        .sum(format!("{opened:.2} handshakes for {}", facts.each()))
        .seen(format!("{:.0} handshakes a second; {how}", opened * facts.attained))
        .lifted_by([Remedy::keep_connections(facts, does, by_hand)]))
}
