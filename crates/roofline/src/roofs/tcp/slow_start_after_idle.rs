//! Slow start after idle: a connection that is kept forgets its window while it has nothing to send, and
//! grows it anew, a round trip a doubling, for each answer.
//!
//! `each = halvings x RTT`, `halvings = idle / RTO`, as far as the window is above ten segments, and no more
//! than from the first byte to the last; what it is cut down to comes with the first byte
//!
//! A connection is idle for as long as its server thinks, its client thinks, or its worker asks others, so
//! the window is cut once for each timeout of that. What it costs beside the idling itself is a round trip
//! a halving: at most RTT / RTO of it, a third where the path is long. It never costs more than that, and
//! on short paths nothing to speak of.
//! Blind spot: congestion control that keeps its own account of the path (bbr) is not reset, and not named.
//! Source: RFC 2861; `tcp_cwnd_restart`, net/ipv4/tcp_output.c; `tcp_slow_start_after_idle_check`,
//! include/net/tcp.h; ip-sysctl.rst, `tcp_slow_start_after_idle`.

use crate::facts::flows::{Bulk, INITIAL_WINDOW, congestion_of, mean_over, min_rtt};
use crate::roofs::prelude::*;

const SETTING: &str = "net.ipv4.tcp_slow_start_after_idle";

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let run = &facts.run;
    facts.is_made()?;
    silent_if(run.setting(SETTING) == Some("0"), "windows are kept while idle")?;
    silent_if(run.opened_per_exchange() >= HALFWAY, "connections are not kept")?;
    let bulk = Bulk::of(facts);
    let mss = mean_over(&bulk.senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))?;
    let first = INITIAL_WINDOW * mss;
    if bulk.sender != Side::Server || bulk.bytes <= first {
        let answer = Bytes(run.load.bytes_read / run.load.exchanges.max(1));
        return not_here(format!("answers of {answer} fit in the first {}", Bytes(first as u64)));
    }
    let is_bbr = congestion_of(run, bulk.sender).contains(&"bbr");
    silent_if(is_bbr, "the senders' congestion control keeps its own account (bbr)")?;
    let again = mean_over(&bulk.senders, |flow| {
        Ok(flow.delta(tcp_info::TOTAL_RETRANS).map_or(0.0, |(count, _)| count as f64))
    })?;
    if again >= 1.0 {
        return not_here(format!(
            "{again:.1} segments of a connection were sent again: windows were lost, not forgotten"
        ));
    }
    let rtt = min_rtt(run)?;
    let timeout = mean_over(&bulk.senders, |flow| Ok(flow.median(tcp_info::RTO)?.as_secs_f64()))?;
    let idle = run.load.first_byte.at(50.0).map(|at| at.value as f64 / 1e9);
    let idle = idle.ok_or_else(|| missing("first_byte", "engine"))? + run.think_s();
    // What an open window would have had in flight, and how often that can be halved.
    let most = (bulk.bytes / first).log2().ceil();
    let halvings = (idle / timeout.max(1e-9)).floor().min(most);
    let (body, costs) = (facts.body(), halvings * rtt);
    let each = costs.min(body);
    let (idle, timeout) = (duration(idle), duration(timeout));
    silent_if(each <= 0.0, format!("no gap of {idle} is as long as a timeout of {timeout}"))?;
    let (body, rtt) = (duration(body), duration(rtt));
    let rate = OpRate(f64::from(run.connections()) / each);
    Ok(Claim {
        sum: format!(
            "{} / ({halvings:.0} halvings in {idle} idle x {rtt} round trip) = {rate}",
            run.connections_words()
        ),
        seen: format!(
            "each answer came after {idle} in which its connection had nothing to send, {halvings:.0} timeouts of \
             {timeout}, and then took {body} where a round trip is {rtt}; no segment was sent again"
        ),
        remedies: vec![
            Remedy::sysctl(
                facts,
                SETTING,
                "0",
                Side::Server,
                format!("keeps the window, and {halvings:.0} round trips of each answer"),
            ),
            Remedy::human(
                "leaves no connection idle for so long",
                "keep the connection warm, or ask more on fewer connections",
            ),
        ],
        ..Claim::cause(vec![Part::Delay { at: At::Path, each }])
    })
}
