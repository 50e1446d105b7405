//! Slow start after idle: a kept connection loses its window while it has nothing to send.
//! `each = halvings x RTT`, `halvings = idle / RTO` above ten segments, at most from the first byte to the last
//! Source: RFC 2861; `tcp_cwnd_restart`, net/ipv4/tcp_output.c; ip-sysctl.rst, `tcp_slow_start_after_idle`.

use crate::prelude::*;

const AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let run = &facts.run;
    facts.is_made()?;
    silent_if(run.setting(AFTER_IDLE) == Some("0"), "windows are kept while idle")?;
    silent_if(run.opened_per_exchange() >= HALFWAY, "connections are not kept")?;
    let bulk = Bulk::of(facts);
    let first = INITIAL_WINDOW * segment(&bulk.senders)?;
    let (answer, begin) = (run.load.bytes_read / run.load.exchanges.max(1), bytes(first));
    let fits = bulk.sender != Side::Server || bulk.bytes <= first;
    silent_if(fits, format!("answers of {} fit in the first {begin}", Bytes(answer)))?;
    let is_bbr = congestion_of(run, bulk.sender).contains(&"bbr");
    silent_if(is_bbr, "the senders' congestion control (bbr) keeps its window")?;
    let retransmitted = |flow: &Of| Ok(flow.grown(tcp_info::TOTAL_RETRANS).unwrap_or(0.0));
    let again = mean_over(&bulk.senders, retransmitted)?;
    silent_if(again >= 1.0, "segments were retransmitted: losses, not idle times, cut windows")?;
    let rtt = min_rtt(run)?;
    let timeout = mean_over(&bulk.senders, |flow| Ok(flow.median(tcp_info::RTO)?.as_secs_f64()))?;
    let idle = run.load.first_byte.at(50.0).map(|at| at.value as f64 / 1e9);
    let idle = idle.ok_or_else(|| missing("first_byte", "engine"))? + run.think_s();
    // The bytes that an open window would have in flight, and how often that can be halved.
    let halvings = (idle / timeout.max(1e-9)).floor().min((bulk.bytes / first).log2().ceil());
    let body = facts.body();
    let each = (halvings * rtt).min(body);
    let [idle, timeout, body, rtt] = [idle, timeout, body, rtt].map(duration);
    silent_if(each <= 0.0, format!("no gap of {idle} is as long as a timeout of {timeout}"))?;
    let (all, rate) = (run.connections_words(), facts.rate_at(each));
    let does = format!("keeps the window, and {halvings:.0} round trips of each answer");
    let busy = "keep the connection busy, or send more on fewer connections";
    Ok(Claim::delay(At::Path, each)
        .sum(format!(
            "{all} / ({halvings:.0} halvings in {idle} idle x {rtt} round trip) = {rate}"
        ))
        .seen(format!(
            "each answer came after {idle} of idle time, {halvings:.0} timeouts of {timeout}, and took {body} on a \
             round trip of {rtt}; no segment was retransmitted"
        ))
        .lifted_by([
            Remedy::kernel(AFTER_IDLE, "0", Side::Server, does).or_of_path(facts),
            Remedy::human("leaves no connection idle for that long", busy),
        ]))
}
