//! Consumers of a broker's queue: more is published into it than they consume, and the rest waits there.
//! `consumed = messages that consumers may hold / time that they take for one`
//! Source: RabbitMQ guides, "Consumer Prefetch", "Consumers" (consumer capacity); Little (1961).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    grows(facts).or_else(|why| full(facts).or_else(|| works_off(facts)).ok_or(why))
}

/// Consumers that always hold all that they may: publishers that wait for them ask no more.
fn full(facts: &Facts) -> Option<Claim> {
    let queue = always_full(&facts.run)?;
    let (limit, each) = (queue.consumers?.prefetch?, queue.each()?);
    let (took, rate) = (duration(each), OpRate(queue.taken / queue.seconds));
    let sum = format!(
        "consumers always hold the {limit:.0} messages that they may: {limit:.0} / {took} = {rate}"
    );
    let part = Part::capacity(Resource::Slots, limit, each);
    Some(claim(facts, &queue, part, sum, remedies(facts, &queue)))
}

/// Consumers without a limit that hold more than they acknowledge meanwhile: what has come is worked off.
fn works_off(facts: &Facts) -> Option<Claim> {
    let queue = worked_off(&facts.run)?;
    let (held, rate) = (queue.consumers?.held?, OpRate(queue.taken / queue.seconds));
    let left = duration(held / rate.0);
    let sum = format!(
        "{held:.0} messages are with consumers and not acknowledged; {rate} are: {left} of work"
    );
    let share = Remedy::human(
        "lets each consumer have its part",
        "a prefetch (basic.qos; STOMP: prefetch-count; MQTT: mqtt.prefetch): without one the first consumer is given all \
         that wait, and those that come later have nothing to do",
    );
    // One after the other, as it seems: how many of them work is not known.
    let part = Part::capacity(Resource::Slots, 1.0, 1.0 / rate.0);
    Some(claim(facts, &queue, part, sum, vec![share, faster(facts)]))
}

fn grows(facts: &Facts) -> Result<Claim, Silent> {
    let queue = growing(&facts.run)?;
    let at_once = queue.consumers.and_then(|of| of.prefetch).unwrap_or(0.0);
    let part = match queue.consumers.is_some_and(|of| of.are_full()) {
        true => Part::TurnedAway { asked: queue.published, served: queue.taken },
        false => Part::capacity(Resource::Slots, at_once, queue.each().unwrap_or(0.0)),
    };
    let name = queue.name.as_ref().map_or("its queues in total".into(), |of| format!("queue {of}"));
    let more = format!("{name} grew by {:.0} in {}", queue.grown, duration(queue.seconds));
    let [put, taken] = [queue.published, queue.taken].map(|count| OpRate(count / queue.seconds));
    // Of a cluster's queues only the growth is known.
    let sum = match (queue.published > 0.0, queue.consumers.is_some_and(|of| of.count == 0.0)) {
        (true, true) => format!("{put} published, none consumed; {more}"),
        (true, false) => format!("{put} published, {taken} acknowledged; {more}"),
        (false, true) => format!("none consumed; {more}"),
        (false, false) => more,
    };
    Ok(claim(facts, &queue, part, sum, remedies(facts, &queue)))
}

fn claim(facts: &Facts, of: &Growing, part: Part, sum: String, lift: Vec<Remedy>) -> Claim {
    Claim::cause(vec![part]).sum(sum).seen(seen(facts, of)).lifted_by(lift)
}

fn seen(facts: &Facts, queue: &Growing) -> String {
    let Some(of) = queue.consumers else {
        let many = facts.if_beam(": there are more than a sample reads");
        return format!("its consumers were not counted{many}");
    };
    let consumers = match of.count as u64 {
        0 => return "no consumer".into(),
        1 => "1 consumer".into(),
        many => format!("{many} consumers"),
    };
    let Some(limit) = of.prefetch else { return format!("{consumers} without a prefetch limit") };
    let each = queue.each().filter(|_| of.are_full()).map(duration);
    let each = each.map_or(String::new(), |each| format!(", {each} a message"));
    let limits = match of.count {
        _ if !facts.is_beam() => String::new(),
        _ if of.least != of.prefetch => " with different limits of prefetch".into(),
        ..=1.0 => format!(" with a prefetch of {limit:.0}"),
        count => format!(" with a prefetch of {:.0} each", limit / count),
    };
    let held = of.held.map(|held| match held.min(limit) {
        held if facts.is_beam() => format!("; {held:.0} of {limit:.0} unacknowledged"),
        held => format!("; {held:.0} are at work"),
    });
    format!("{consumers}{limits}{each}{}", held.unwrap_or_default())
}

fn remedies(facts: &Facts, queue: &Growing) -> Vec<Remedy> {
    if queue.consumers.is_some_and(|of| of.count == 0.0) {
        let list = facts.if_beam("rabbitmqctl list_consumers, ");
        let start = format!("start its consumer, or find out why it is gone ({list}its log)");
        let limit = Remedy::human(
            "limits the queue, if its messages are not needed",
            "unbind it, or give it a policy with max-length or message-ttl",
        );
        let start = Remedy::human("gives the queue a consumer", start);
        return std::iter::once(start).chain(facts.is_beam().then_some(limit)).collect();
    }
    let Some((of, takes)) = queue.consumers.filter(|of| of.are_full()).zip(queue.each()) else {
        let shown = facts.if_beam(" (rabbitmqctl list_consumers shows the present ones)");
        let more = format!("more consumers of this queue{shown}");
        return vec![Remedy::human("processes more messages at a time", more), faster(facts)];
    };
    // As many as hold what is published while one message is processed.
    let wanted = (queue.published / queue.seconds * takes).ceil();
    // What waits comes on top of what is published.
    let limit = of.prefetch.unwrap_or(0.0);
    let wanted = if wanted > limit { wanted } else { 2.0 * limit };
    let each = (wanted / of.count.max(1.0)).ceil();
    let larger = Remedy::plan(
        ("consumer.prefetch", format!("{each:.0}")),
        "lets a consumer work on several messages at a time",
        format!(
            "basic.qos(prefetch_count={each:.0}) or more before basic.consume, in a consumer that works on its messages \
             concurrently"
        ),
    ).serving(wanted);
    let one = facts.if_beam(" with a prefetch of 1");
    let more = format!("{wanted:.0} consumers{one}, instead of {:.0}", of.count);
    let does = "processes as many messages at a time as are published while one is processed";
    let more = Remedy::human(does, more).serving(wanted);
    facts.is_beam().then_some(larger).into_iter().chain([more, faster(facts)]).collect()
}

fn faster(facts: &Facts) -> Remedy {
    let batches = facts.if_beam(", and acknowledgements in batches (multiple=true)");
    Remedy::human(
        "processes each message faster",
        format!("less work a message in the consumer: several in one commit or call{batches}"),
    )
}
