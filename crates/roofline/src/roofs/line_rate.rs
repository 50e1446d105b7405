//! Line rate: a way of the path carries as many bits a second as it can.
//!
//! `ceiling = rate / bytes an exchange, headers included`, of the way that is nearest to full
//!
//! Blind spot: a rate that nobody told linerate, such as a cloud's or a router's between.
//! Source: the utilisation law; tc-tbf(8) and tc-netem(8), `rate`.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use super::ways::{LaidWay, laid};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::unhindered;

// Chosen: the rest are gaps between answers, and while windows recover, that no rate would fill.
pub(super) const FULL: f64 = 0.92;

pub(super) struct LineRate;

impl Roof for LineRate {
    fn id(&self) -> &'static str {
        "path.rate"
    }

    fn title(&self) -> &'static str {
        "the path's rate"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/path.rate.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let Some((way, most, used)) = fullest(run)? else {
            return Ok(Finding::DoesNotApply("no rate was asked of the path".into()));
        };
        let seen = format!("{} carried {:.0} % of its rate", way.name, used * 100.0);
        let binds =
            if used >= FULL && run.is_held_back() { Binds::Yes(seen) } else { Binds::No(seen) };
        let rate = OpRate(most);
        let bytes = way.bytes_each()?;
        let attained = run.attained().0;
        // Twice the rate, unless connections are too few for it.
        let alone = unhindered(run).unwrap_or(f64::INFINITY);
        let high = (2.0 * attained * 1.05).min(f64::from(run.connections()) / alone).max(attained);
        let twice = way.asked.rate.map(|rate| rate.0 * 2.0);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / {bytes:.0} B an exchange with its headers, on {} = {rate}",
                way.rate_words(),
                way.name
            ),
            binds,
            advice: vec![Advice {
                knob: way.knob("rate"),
                value: twice.map_or("default".into(), |twice| format!("{twice:.0}bit")),
                does: "carries twice as many bits a second".into(),
                by_hand: format!(
                    "a faster line; or fewer bytes an exchange ({bytes:.0} B now): compression, smaller \
                     answers, a cache on the near side, larger segments"
                ),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate((attained * high).sqrt()),
                    high: OpRate(high),
                },
            }],
        }))
    }
}

/// The way with a rate that is used most, the exchanges a second that it carries, and how far it is used.
pub(super) fn fullest<'a>(run: &Run<'a>) -> Result<Option<(LaidWay<'a>, f64, f64)>, Missing> {
    let mut fullest: Option<(LaidWay, f64, f64)> = None;
    for way in laid(run) {
        let (Some(most), Some(used)) = (way.most()?, way.utilisation()?) else { continue };
        if fullest.as_ref().is_none_or(|(_, _, so_far)| used > *so_far) {
            fullest = Some((way, most, used));
        }
    }
    Ok(fullest)
}
