//! Loss: packets are lost at random, and TCP takes each for congestion.
//!
//! Small exchanges: `each = those that wait for the timer x how long they do / all`; larger ones: `each = (bytes / W
//! - 1) x RTT`, `W` the window that such losses leave, at most while the congestion window was full.
//! Source: Padhye, Firoiu, Towsley, Kurose, "Modeling TCP throughput", 1998; the rest with [`crate::facts::drops`].

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (direction, most) =
        facts.worst_direction(|of| Ok(of.of.rate(link::BYTES_OUT)? * of.lost()?))?;
    silent_if(most <= 0.0, "the path lost no packet at random")?;
    let (share, name) = (direction.lost()?, &direction.name);
    let all = facts.directions.iter().map(|of| of.lost_per_second()).sum::<Result<_, _>>()?;
    let Cost { each, words } = Cost::of(facts, Drops::AtRandom, all, share)?;
    let ([took, exchange], lost) = ([each, facts.exchange_s()].map(duration), percent(share));
    Ok(Claim::delay(At::Path, each)
        .sum(format!(
            "{took} of {exchange} an exchange wait for lost packets: {lost} of the packets on {name}"
        ))
        .seen(format!("{name} lost {lost} of its packets; {words}"))
        .lifted_by([Remedy::plan(
            (direction.knob("loss"), "0%"),
            "ends the losses that TCP mistakes for congestion",
            "find where packets drop: ip -s link, ethtool -S (a policer, a bad cable, wireless, a full conntrack \
             table), tc -s qdisc; put pacing or a shaper before a policer. Where it can't be repaired: \
             net.ipv4.tcp_congestion_control=bbr on bulk senders, which follows the delivery rate instead of losses, \
             or more parallel connections",
        )]))
}
