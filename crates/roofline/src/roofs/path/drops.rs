//! Packets that the path drops: some at random, or all that a full queue, or its limit, does not hold.
//! Source: with [`crate::facts::drops`].

use crate::prelude::*;

/// Loss: packets are lost at random, and TCP takes each for congestion.
/// Small exchanges: `each = those that wait for the timer x how long they do / all`; larger ones:
/// `each = (bytes / W - 1) x RTT`, `W` the window that such losses leave, at most while the congestion window was full
/// Source: Padhye, Firoiu, Towsley, Kurose, "Modeling TCP throughput", 1998.
pub(in crate::roofs) fn at_random(facts: &Facts) -> Result<Claim, Silent> {
    let (direction, most) =
        facts.worst_direction(|of| Ok(of.of.rate(link::BYTES_OUT)? * of.lost()?))?;
    silent_if(most <= 0.0, "the path lost no packet at random")?;
    let (share, name) = (direction.lost()?, &direction.name);
    let all = facts.directions.iter().map(|of| of.lost_per_second()).sum::<Result<_, _>>()?;
    let cost = Cost::of(facts, Drops::AtRandom, all, share)?;
    let lost = percent(share);
    let where_to = "find where packets drop: ip -s link, ethtool -S (a policer, a bad cable, wireless, a full conntrack \
                    table), tc -s qdisc; put pacing or a shaper before a policer. Where it can't be repaired: \
                    net.ipv4.tcp_congestion_control=bbr on bulk senders, which follows the delivery rate instead of \
                    losses, or more parallel connections";
    let does = "ends the losses that TCP mistakes for congestion";
    let what = format!("lost packets: {lost} of the packets on {name}");
    Ok(waits(facts, &cost, &what)
        .seen(format!("{name} lost {lost} of its packets; {}", cost.words))
        .lifted_by([Remedy::plan((direction.knob("loss"), "0%"), does, where_to)]))
}

/// Such a part of an exchange waits for these.
fn waits(facts: &Facts, cost: &Cost, what: &str) -> Claim {
    let [took, exchange] = [cost.each, facts.exchange_s()].map(duration);
    Claim::delay(At::Path, cost.each)
        .sum(format!("{took} of {exchange} an exchange wait for {what}"))
}

/// Queue limit: the path holds so many packets and drops the rest, long before its rate is used.
/// `each = those that wait for the timer x how long they do / all`, or the round trips of windows kept small by drops
/// Source: tc-netem(8), `limit`; Little's law.
pub(in crate::roofs) fn at_a_limit(facts: &Facts) -> Result<Claim, Silent> {
    let (direction, drops) = facts.worst_direction(|of| Ok(overflows(of)?.iter().sum()))?;
    silent_if(drops <= 0.0, "no full queue dropped a packet")?;
    let [queue, limit] = overflows(direction)?;
    let all = facts.directions.iter().flat_map(overflows).flatten().sum();
    let share = drops / direction.of.rate(link::PACKETS_IN)?.max(1e-9);
    let cost = Cost::of(facts, Drops::Together, all, share)?;
    let used = |used| format!("{} of its rate was used", in_percent(used));
    let (lost, name) = (percent(share), &direction.name);
    let larger = if limit > queue { larger_limit } else { larger_queue };
    let (holds, remedy) = larger(facts, direction)?;
    Ok(waits(facts, &cost, &format!("{lost} dropped packets: {holds}"))
        .seen(format!("{name} dropped {lost} of its packets; {}", cost.words))
        .also(direction.utilisation()?.map(used))
        .lifted_by([remedy]))
}

/// Packets dropped a second by a queue that may be full, and by a limit. CoDel's queue drops on purpose.
fn overflows(of: &LaidDirection) -> Result<[f64; 2], Missing> {
    let OneDirection { limit, rate, trace, aqm, .. } = &of.asked;
    if limit.is_none() && rate.is_none() && trace.is_none() {
        return Ok([0.0; 2]);
    }
    let [queue, limit] = of.overflows()?;
    Ok([if *aqm == Aqm::Codel { 0.0 } else { queue }, limit])
}

/// The path's limit, and one that holds whatever all connections may have in flight.
fn larger_limit(facts: &Facts, direction: &LaidDirection) -> Result<(String, Remedy), Missing> {
    let OneDirection { limit, delay, .. } = &direction.asked;
    let (limit, delay) = (limit.unwrap_or_default(), delay.as_secs_f64());
    let (all, name) = (direction.each(link::PACKETS_IN)?, &direction.name);
    let rate = OpRate(f64::from(limit) / delay.max(1e-9) / all.max(1e-9));
    let delay = duration(delay);
    let holds = format!(
        "{limit} packets / {delay} one way / {all:.1} packets an exchange on {name} = {rate}, if evenly spaced"
    );
    // A connection has at most an exchange in flight, or the largest window that its peer may offer.
    // Source: half of the buffer is window (`tcp_adv_win_scale`), ip-sysctl.rst; a packet is 1,500 B.
    let most = setting(&facts.run, "net.ipv4.tcp_rmem");
    let window = most.map_or(f64::INFINITY, |most| most / 2.0 / 1500.0);
    let each = direction.packets_of_a_crossing()?.min(window);
    let need = rounded_up((f64::from(facts.run.connections()) * each).max(2.0 * f64::from(limit)));
    let many = facts.run.connections_words();
    let does = format!("holds all that {many} may have under way at once, {each:.1} packets each");
    let by_hand = format!(
        "where netem delays: tc qdisc change dev DEVICE root netem delay {delay} limit {need} (its default is 1000 \
         packets, delayed ones included); elsewhere: the queue of the device that drops"
    );
    Ok((holds, Remedy::plan((direction.knob("limit"), need.to_string()), does, by_hand)))
}

/// The queue before the rate, and one for every connection's first burst, or two bandwidth-delay products.
fn larger_queue(facts: &Facts, direction: &LaidDirection) -> Result<(String, Remedy), Missing> {
    let (queue, rate) = (direction.asked.queue, direction.rate_words());
    let holds = format!("a queue of {queue} before {rate} on {}", direction.name);
    let connections = f64::from(facts.run.connections());
    let product = direction.bandwidth_delay().unwrap_or(INITIAL_WINDOW);
    let burst = INITIAL_WINDOW.max(2.0 * product / connections);
    let each = direction.packets_of_a_crossing()?.min(burst);
    let need = rounded_up((connections * each).max(2.0 * queue.packets()));
    let does = "holds a burst until the line has sent it";
    let by_hand = format!(
        "tc qdisc change dev DEVICE root pfifo limit {need}, or a longer txqueuelen, on the device that drops. For \
         tbf: limit {}",
        need * 1514
    );
    Ok((holds, Remedy::plan((direction.knob("queue"), need.to_string()), does, by_hand)))
}
