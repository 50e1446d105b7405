//! bbr's pacing: it sends as fast as it has seen arrive, and a flow that is asked for one answer at a time has
//! never shown it more than an answer a round trip.
//!
//! `each = bytes an answer / pacing rate`, and no more than from the first byte to the last
//!
//! A window that is open lets a whole answer out at once. bbr spreads it, at 2.89 times the rate that it
//! believes in while it is starting up (it stays there: what the application limits is no proof of a full
//! path), at about that rate later. So an answer takes a third of a round trip longer, up to one.
//! Blind spot: two sockets that share one path may need just that. Requests that are the bulk.
//! Source: Cardwell, Cheng, Gunn, Yeganeh, Jacobson, "BBR: Congestion-based congestion control", 2016;
//! `bbr_high_gain`, `bbr_check_full_bw_reached`, net/ipv4/tcp_bbr.c.

use crate::facts::flows::{Bulk, INITIAL_WINDOW, congestion_of, mean_over, pacing_was_set};
use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let bulk = Bulk::of(facts);
    let controls = congestion_of(&facts.run, bulk.sender);
    if controls.is_empty() {
        return Err(missing("congestion", "flow/*").into());
    }
    silent_if(!controls.contains(&"bbr"), "the senders' congestion control is not bbr")?;
    let is_kept = facts.run.opened_per_exchange() < HALFWAY && bulk.sender == Side::Server;
    silent_if(!is_kept, "connections are not kept, or answers are not the bulk")?;
    let mss = mean_over(&bulk.senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))?;
    if bulk.bytes <= INITIAL_WINDOW * mss {
        return not_here(format!("answers of {} are one burst at most", Bytes(bulk.bytes as u64)));
    }
    silent_if(pacing_was_set(&bulk.senders)?, "the pacing rate was set")?;
    let by_application =
        mean_over(&bulk.senders, |flow| flow.share(tcp_info::APP_LIMITED, |limited| limited == 1))?;
    silent_if(by_application < HALFWAY, "the path limits the flows, not the application")?;
    let paced = mean_over(&bulk.senders, |flow| Ok(flow.median(tcp_info::PACING_RATE)? as f64))?;
    let (spread, body) = (bulk.bytes / paced.max(1.0), facts.body());
    let each = spread.min(body);
    silent_if(each <= 0.0, "an answer's last byte comes with its first")?;
    let rate = OpRate(f64::from(facts.run.connections()) / each);
    let (answer, paced) = (Bytes(bulk.bytes as u64), Bytes(paced as u64));
    let (body, spread, limited) = (duration(body), duration(spread), in_percent(by_application));
    Ok(Claim {
        sum: format!("{} / ({answer} / {paced}/s) = {rate}", facts.run.connections_words()),
        seen: format!(
            "from the first byte to the last an answer took {body}, and {answer} at {paced}/s take {spread}; in \
             {limited} of samples the application limited the flow"
        ),
        remedies: vec![remedy(facts)],
        ..Claim::cause(vec![Part::Delay { at: At::Path, each }])
    })
}

fn remedy(facts: &Facts) -> Remedy {
    // A namespace of ours has what the host lets everybody have, and that may be reno alone.
    let control = if facts.run.header.plan.paths().is_empty() { "cubic" } else { "reno" };
    let does = "lets an open window out at once (where packets are lost, bbr is worth more than this costs)";
    Remedy::sysctl(facts, "net.ipv4.tcp_congestion_control", control, Side::Server, does)
}
