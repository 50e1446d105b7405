//! MTU black hole: packets over some size are dropped on the path without an error.
//! `each = share of the samples in which the sender's timer has doubled x an exchange's time`
//! The sender repeats the same segment for ever, each time after twice the wait. With net.ipv4.tcp_mtu_probing = 1
//! each connection tries smaller ones after three retransmissions (`tcp_retries1`): (2^4 - 1) x 200 ms.
//! Source: RFC 4821; ip-sysctl.rst, `tcp_mtu_probing`; `retransmits_timed_out`, net/ipv4/tcp_timer.c.

use crate::prelude::*;

const PROBING: &str = "net.ipv4.tcp_mtu_probing";

// Source: IPv4 and TCP, without options, which TCP_MAXSEG does not count. Unit: bytes.
const HEADERS: u64 = 40;

// Source: see the module: (2 << tcp_retries1) - 1 timers, and 3 is that setting's default.
const TIMERS: f64 = 15.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (direction, dropped) = facts.worst_direction(|direction| direction.too_large())?;
    let largest = direction.asked.largest.filter(|_| dropped > 0.0);
    let largest = largest.or_not_here("no packet was too large for the path")?;
    let flows: Vec<Of> = [Side::Client, Side::Server].map(|side| facts.run.flows(side)).concat();
    let share = mean_over(&flows, stood).unwrap_or(0.0);
    let (each, exchange, name) = (share * facts.exchange_s(), facts.exchange_s(), &direction.name);
    // Where nothing is answered there is nothing to distinguish it from.
    let cost = Cost::of(facts, Drops::Together, dropped, 0.0).ok();
    let each = cost.as_ref().map_or(each, |cost| each.max(cost.each));
    // Packets that get through still take a round trip.
    let each = each.min(exchange - direction.rtt).max(0.0);
    let probes = facts.run.setting(PROBING).is_some_and(|set| set != "0");
    let ([timer, took, exchange], share) =
        ([TIMER, each, exchange].map(duration), in_percent(share));
    let sum = match probes {
        true => format!(
            "{TIMERS:.0} x {timer} of timers until smaller segments are tried: {took} of {exchange} an exchange"
        ),
        false => format!("packets over {largest} never pass {name}: exchanges that need them hang"),
    };
    let (whole, most) = (largest.0, largest.0.saturating_sub(HEADERS));
    let by_hand = format!(
        "let ICMP `fragmentation needed` through, or repair the hop that drops them. Until then use smaller segments: \
         clamp the MSS on the router (--clamp-mss-to-pmtu), ip route change default via GATEWAY mtu lock {whole} on both \
         hosts, or TCP_MAXSEG {most} on one listener"
    );
    let passes = (direction.knob("largest"), "1500B");
    let probe = Remedy::plan(
        (facts.run.path_key(&format!("sysctls.{PROBING}")), "1"),
        "tries smaller segments after 3 s, on each connection anew",
        format!("sysctl -w {PROBING}=1 on both hosts: helps where connections are kept"),
    );
    Ok(Claim::delay(At::Path, each)
        .sum(sum)
        .seen(format!(
            "{name} dropped {dropped:.1} packets a second as too large; senders waited for a doubled timer in {share} \
             of the samples"
        ))
        .also(cost.map(|cost| cost.words))
        .lifted_by([Remedy::plan(passes, "lets whole packets pass", by_hand)])
        .lifted_by((!probes).then_some(probe)))
}

/// The share of samples with segments in flight in which the timer had doubled; missing without any.
fn stood(flow: &Of) -> Result<f64, Missing> {
    let mut busy = flow.both(tcp_info::UNACKED, tcp_info::BACKOFF)?;
    busy.retain(|(unacked, _)| *unacked > 0);
    missing_if(busy.is_empty(), tcp_info::UNACKED.name, "flow/* while sending")?;
    let doubled = busy.iter().filter(|(_, backoff)| *backoff > 0).count();
    Ok(doubled as f64 / busy.len() as f64)
}
