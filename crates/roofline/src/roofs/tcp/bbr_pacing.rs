//! bbr's pacing: single answers have never shown it that the path carries more than one a trip.
//! `each = bytes an answer / pacing rate`, and no more than from the first byte to the last
//! Source: Cardwell, Cheng, Gunn, Yeganeh, Jacobson, "BBR: Congestion-based congestion control", 2016;
//! `bbr_high_gain`, `bbr_check_full_bw_reached`, net/ipv4/tcp_bbr.c.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let bulk = Bulk::of(facts);
    let controls = congestion_of(&facts.run, bulk.sender);
    missing_if(controls.is_empty(), "congestion", "flow/*")?;
    silent_if(!controls.contains(&"bbr"), "the senders' congestion control is not bbr")?;
    let is_kept = facts.run.opened_per_exchange() < HALFWAY && bulk.sender == Side::Server;
    silent_if(!is_kept, "connections are not kept, or requests are larger than answers")?;
    let answer = bytes(bulk.bytes);
    let is_one = bulk.bytes <= INITIAL_WINDOW * segment(&bulk.senders)?;
    silent_if(is_one, format!("answers of {answer} are one burst at most"))?;
    silent_if(pacing_was_set(&bulk.senders)?, "the pacing rate was configured")?;
    let limited = mean_over(&bulk.senders, |flow| flow.share(tcp_info::APP_LIMITED, |is| is == 1))?;
    silent_if(limited < HALFWAY, "the path limits the flows, not the application")?;
    let paced = mean_over(&bulk.senders, |flow| Ok(flow.median(tcp_info::PACING_RATE)? as f64))?;
    let (spread, body) = (bulk.bytes / paced.max(1.0), facts.body());
    let each = spread.min(body);
    silent_if(each <= 0.0, "an answer's first and last byte come together")?;
    let (rate, paced, all) = (facts.rate_at(each), bytes(paced), facts.run.connections_words());
    let ([body, spread], limited) = ([body, spread].map(duration), in_percent(limited));
    Ok(Claim::delay(At::Path, each)
        .sum(format!("{all} / ({answer} / {paced}/s) = {rate}"))
        .seen(format!(
            "an answer took {body} from its first byte to its last, and {answer} at {paced}/s take {spread}; the flow \
             was app-limited in {limited} of samples"
        ))
        .lifted_by([without_bbr(facts)]))
}

fn without_bbr(facts: &Facts) -> Remedy {
    let name = "net.ipv4.tcp_congestion_control";
    let does = "sends an open window at once (on lossy paths bbr gains more than this costs)";
    // Of a host with another one, sockets have it by an option of theirs, which goes before the host's.
    if facts.run.setting(name).is_some_and(|host| host != "bbr") {
        let by_hand = "remove TCP_CONGESTION from the sockets' options (Erlang: {raw, 6, 13, _}), or set it to cubic";
        return Remedy::human(does, by_hand);
    }
    // A namespace of ours has the host's unprivileged algorithms, perhaps only reno.
    let control = if facts.run.header.plan.paths().is_empty() { "cubic" } else { "reno" };
    Remedy::kernel(name, control, Side::Server, does).or_of_path(facts)
}
