//! The path's emulator: what delays, queues and drops packets for us is a program too, and may be the limit.
//! `ceiling = attained / share of a CPU of the thread that carries the busiest direction`; `each = how late packets
//! leave in a round trip`, or the cost of drops that the plan did not ask for

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (busiest, cpu) = facts.worst_direction(|direction| direction.of.rate(link::CPU))?;
    let name = &busiest.name;
    let directions = || facts.directions.iter();
    // A direction that carried nothing was not late.
    let late: f64 = directions().map(|of| of.late().unwrap_or(0.0) * of.crossing).sum();
    let sum = |metric| directions().map(|of| of.of.rate(metric)).sum::<Result<f64, Missing>>();
    let (lost, came) = (sum(link::DROPPED_DEVICE)?, sum(link::FRAMES_IN)?);
    let each = facts.per_exchange(cpu);
    let rate = rate(1.0, each);
    let delay = |each| Part::Delay { at: At::Path, each };
    let share = lost / came.max(1e-9);
    let cost = (lost > 0.0).then(|| Cost::of(facts, Drops::Together, lost, share)).transpose()?;
    let (attained, cpu, lost) = (OpRate(facts.attained), in_percent(cpu), percent(share));
    let [late_by, exchange] = [late, facts.exchange_s()].map(|seconds| duration(seconds.max(1e-9)));
    let (knob, value, does) = match facts.run.header.plan.paths().first() {
        Some(path) if path.offload => ("backend", "netem", "uses the kernel's netem"),
        _ => ("offload", "true", "lets the ends send many segments in one frame"),
    };
    let by_hand = "more CPUs, or less other work: the emulator has a thread for each direction, and each needs a CPU; else \
                   a lower rate or larger packets; else a kernel with netem";
    Ok(Claim::cause(vec![Part::capacity(Resource::Emulator, 1.0, each)])
        .and((late > 0.0).then_some(delay(late)))
        .and(cost.map(|cost| delay(cost.each)))
        .sum(format!("{attained} / {cpu} of a CPU that the thread of {name} used = {rate}"))
        .seen(format!(
            "the thread of {name} used {cpu} of a CPU; packets were {late_by} late in a round trip, of an exchange's \
             {exchange}; {lost} of the frames were lost in the emulator's own devices: the limit is linerate's path, \
             not the target"
        ))
        .lifted_by([Remedy::plan((facts.run.path_key(knob), value), does, by_hand)]))
}
