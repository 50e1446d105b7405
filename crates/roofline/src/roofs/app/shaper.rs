//! A rate set for each connection: all move the same bytes a second, and wait in between.
//!
//! `delay = (last byte - first byte) x share of samples with nothing unsent`
//!
//! For a watched service: [`watched`].
//! Source: limit_rate of nginx, shapers of ejabberd, limiters of EMQX, per-connection limits of proxies.

use crate::prelude::*;

mod watched;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let claim = if facts.load == Load::Made { made(facts)? } else { watched::explain(facts)? };
    Ok(claim.lifted_by([Remedy::by_knob(
        ("quota", "0"),
        "lets a connection use what it can",
        "raise or lift the limit in the service's configuration: nginx limit_rate 0, ejabberd \
         `shaper: normal: none`, elsewhere a limiter, quota or rate",
    )]))
}

struct Flows {
    /// Mean bytes a second of one.
    rate: f64,
    /// The largest deviation from the mean, relative to it.
    spread: f64,
    /// The share of samples with nothing unsent, 0 to 1.
    idle: f64,
    /// Of one, a second.
    segments: f64,
    /// How long they were counted. Unit: seconds.
    over: f64,
}

fn made(facts: &Facts) -> Result<Claim, Silent> {
    let load = facts.run.load;
    silent_if(load.bytes_written > load.bytes_read, "requests are larger than answers")?;
    let answer = load.bytes_read as f64 / load.exchanges.max(1) as f64;
    let flows = flows(facts)?;
    let answers = flows.rate / answer.max(1.0);
    let pieces = flows.segments / answers.max(1e-9);
    // Two, but for an answer that was cut at either end of what was counted.
    let few = format!("answers leave in {pieces:.1} pieces: they are not spread");
    silent_if(pieces < 1.0 + HALFWAY, few)?;
    // One answer more or less at either end of the counted time.
    let chance = 2.0 / (answers * flows.over).max(1e-9);
    let (each, within) = (bytes(flows.rate), in_percent(flows.spread));
    let differ = format!("connections differ: {each}/s on average, one by {within}");
    silent_if(flows.spread > chance, differ)?;
    let inside = facts.at(Station::Application);
    // A piece that a peer is asked for comes when the peer answers.
    let asleep = (facts.inside.asleep - facts.inside.questions()).max(0.0);
    let asleep = if inside > 0.0 { asleep / inside } else { 1.0 };
    // Each has its rate for itself, however many others there are.
    let alone = facts.experiment.as_ref().and_then(|it| it.alone_s);
    let alone = alone.map_or(f64::INFINITY, |it| it.high);
    let slower = format!("alone an exchange takes {}: they wait for each other", duration(alone));
    silent_if(alone < EXPLAINED * load.service.mean() / 1e9, slower)?;
    let [first, service] = [&load.first_byte, &load.service].map(|of| of.mean() / 1e9);
    let spread = (service - first).max(0.0) * flows.idle * asleep;
    let why = "the kernel holds the late part of an answer, or the CPU computes it";
    silent_if(spread <= 0.0, why)?;
    let rate = OpRate(f64::from(facts.run.connections()) * answers);
    let all = facts.run.connections_words();
    let (first, service, idle) = (duration(first), duration(service), in_percent(flows.idle));
    Ok(Claim::delay(At::Service, spread)
        .sum(format!("{all} x {each}/s / {} = {rate}", bytes(answer)))
        .seen(format!(
            "each connection gets {each}/s, within {within}; answers begin after {first} and end after {service}, \
             in {pieces:.0} pieces; the kernel held nothing in {idle} of the samples"
        )))
}

fn flows(facts: &Facts) -> Result<Flows, Missing> {
    let (mut rates, mut idle, mut segments, mut longest) = (Vec::new(), 0.0, 0.0, 0.0_f64);
    // Nothing left to send, at most two segments in flight: a piece, and the one before where its ACK was delayed.
    let is_idle = |unacked, unsent: Bytes| unacked <= 2 && unsent.0 == 0;
    for flow in facts.run.flows(Side::Server) {
        // Flows that moved nothing were opened for nothing, or just now.
        let moved = flow.delta(tcp_info::BYTES_ACKED).ok().filter(|(bytes, _)| bytes.0 > 0);
        let Some((bytes, over)) = moved else { continue };
        let seconds = over.as_secs_f64();
        rates.push(bytes.0 as f64 / seconds);
        idle += flow.share_of_both(tcp_info::UNACKED, tcp_info::NOTSENT_BYTES, is_idle)?;
        segments += flow.delta(tcp_info::DATA_SEGS_OUT)?.0 as f64 / seconds;
        longest = longest.max(seconds);
    }
    missing_if(rates.len() < 2, tcp_info::BYTES_ACKED.name, "two flows")?;
    let count = rates.len() as f64;
    let rate = rates.iter().sum::<f64>() / count;
    let spread = rates.iter().map(|of| (of - rate).abs()).fold(0.0, f64::max) / rate;
    Ok(Flows { rate, spread, idle: idle / count, segments: segments / count, over: longest })
}
