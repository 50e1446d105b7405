//! Line rate: a direction of the path carries as many bits a second as it can.
//! `ceiling = rate / bytes an exchange, headers included`, of the fullest direction
//! Source: the utilisation law; tc-tbf(8) and tc-netem(8), `rate`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (direction, most, used) = facts.fullest_direction()?;
    let (rate, bytes) = (direction.rate_words(), direction.each(link::BYTES_OUT)?);
    let twice = direction.asked.rate.map(|rate| format!("{:.0}bit", rate.0 * 2.0));
    let (name, all) = (&direction.name, OpRate(most));
    let by_hand = format!(
        "a faster line; or fewer bytes an exchange ({bytes:.0} B now): compression, smaller answers, a cache on the near \
         side, larger segments"
    );
    let twice = (direction.knob("rate"), twice.unwrap_or("default".into()));
    Ok(Claim::place(vec![Part::capacity(Resource::Line, 1.0, 1.0 / most.max(1e-9))])
        .sum(format!("{rate} / {bytes:.0} B an exchange with its headers, on {name} = {all}"))
        .seen(format!("{name} carried {} of its rate", in_percent(used)))
        .lifted_by([Remedy::plan(twice, "carries twice as many bits a second", by_hand)]))
}
