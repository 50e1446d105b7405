//! A configured rate (limiter, shaper, token bucket, so many at each look): so much a second, whatever the load.
//! `ceiling = that rate`
//! At a watched service it shows by its answers, which follow a clock: when one is late, the next is not.
//! Source: nginx `limit_req`, HAProxy `rate-limit`; Turner, "New directions in communications", 1986.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let why = "no pause before an exchange makes it faster, and its answers follow no clock";
    silent_if(facts.place.regime != Regime::RateSet, why)?;
    let (rate, seen) = if facts.load == Load::Made { made(facts)? } else { watched(facts)? };
    Ok(Claim::place(vec![Part::capacity(Resource::Slots, 1.0, 1.0 / rate.0)])
        .sum(format!("{rate}, whatever the load"))
        .seen(seen)
        // At a rate far below what it could, each exchange finds everybody asleep.
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::human(
            "allows more",
            "raise the limiter's rate (nginx: limit_req rate=; HAProxy: rate-limit; an API gateway's quota), \
             or exempt this client; where something looks for work at set times, let it take more at a time",
        )]))
}

fn made(facts: &Facts) -> Result<(OpRate, String), Silent> {
    let it = facts.experiment.as_ref();
    let of = it.and_then(|it| Some([it.spaced_s?, it.alone_s?]));
    let of = of.or_not_here("no exchange was made after a pause")?;
    let [spaced, alone] = of.map(|time| duration(time.mid));
    let are_early = it.is_some_and(|it| it.some_spaced_are_early);
    let some = if are_early { ", some less than half" } else { "" };
    let (rate, all) = (OpRate(facts.attained), facts.run.connections());
    let seen = format!(
        "one connection alone takes {alone} an exchange, and {spaced} after a pause{some}: the rest is waiting for a clock; {all} \
         connections gave {rate}"
    );
    Ok((rate, seen))
}

fn watched(facts: &Facts) -> Result<(OpRate, String), Silent> {
    let (_, headers) = facts.captured()?;
    let rhythm = headers.rhythm.or_not_here("its answers have no rhythm")?;
    let waiting = headers.under_way;
    if let Some(beat) = rhythm.beat.filter(|beat| beat.answers > waiting) {
        let [each, spread] = [beat.period_s, beat.spread_s].map(duration);
        let answers = beat.answers;
        let seen = format!(
            "{waiting:.1} requests wait; answers come {answers:.0} at a time, every {each} (within {spread}), with \
             none between: a clock releases them"
        );
        return Ok((OpRate(headers.per_s), seen));
    }
    let (beat, [few, many]) = (duration(rhythm.mean_s), rhythm.spreads_s.map(duration));
    let seen = format!(
        "{waiting:.1} requests wait, and are answered one by one every {beat}; 4 answers in a row vary by {few} and 32 \
         by {many}: a clock sets the interval"
    );
    Ok((OpRate(1.0 / rhythm.mean_s), seen))
}
