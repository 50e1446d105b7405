//! Offered rate: an open loop reaches no more than it offers.
//! `ceiling = rate`
//! Source: Schroeder, Wierman, Harchol-Balter, "Open Versus Closed: A Cautionary Tale", NSDI 2006.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let run = &facts.run;
    let rate = run.header.plan.load.rate.or_not_here("a closed loop has no offered rate")?;
    let why = format!("only {} of the offered {rate} were answered", run.attained());
    silent_if(run.demand_is_unmet(), why)?;
    let more = rate.0 * 2.0;
    Ok(Claim::place(vec![Part::capacity(Resource::Load, rate.0, 1.0)])
        .sum(format!("{rate} were offered"))
        .seen("97 % or more of the due exchanges were answered")
        .lifted_by([Remedy::plan(
            ("load.rate", format!("{more:.0}")),
            "offers twice as much, to find the service's capacity",
            format!("--rate {more:.0}"),
        )]))
}
