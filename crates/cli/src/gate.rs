//! `--fail-if`: a condition on a run's figures, or on what limits it, that must not hold.

use std::str::FromStr;

use linerate_model::{OpRate, Share, parse_duration};
use linerate_report::{Document, Gated, Load, RunDocument, UNEXPLAINED, station_ids};
use linerate_roofline::roofs::ROOFS;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    written: String,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// A figure against a bound.
    Figure { figure: Figure, comparison: Comparison, bound: f64 },
    /// What limits the run is one of these patterns', or none of them.
    Limit { patterns: Vec<String>, is: bool },
}

/// What a gate can be about, but the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Of latency from due. Unit: microseconds.
    Percentile(f64),
    /// Of the same. Unit: microseconds.
    Mean,
    /// Answers a second.
    Rate,
    /// Failed and timed-out share of what was due; answers 4xx and 5xx among them, and what was not asked or
    /// answered because the target was away.
    Errors,
    /// Share of what was due that got a good answer.
    Availability,
    /// Share of the requests under way that are at this station.
    Station(&'static str),
    /// The target's CPU time an exchange. Unit: microseconds.
    Cpu,
    /// The engine's own.
    EngineCpu,
}

/// The figures but percentiles and stations: name, figure, the bound's unit, what it is.
pub const FIGURES: [(&str, Figure, &str, &str); 7] = [
    ("mean", Figure::Mean, "us, ms, s", "mean latency from when a request was due"),
    ("max", Figure::Percentile(100.0), "us, ms, s", "the longest latency"),
    ("rate", Figure::Rate, "/s, or none", "answers a second in the measured stretch"),
    ("errors", Figure::Errors, "%", "requests that failed, of all that were due"),
    (
        "availability",
        Figure::Availability,
        "%",
        "requests that got a good answer, of all that were due",
    ),
    ("cpu", Figure::Cpu, "us, ms", "the target's CPU time for a request"),
    ("engine-cpu", Figure::EngineCpu, "us, ms", "linerate's own CPU time for a request"),
];

/// What limits a run, as gates have it.
const LIMIT: &str = "limit";

/// What a gate looks like, for those that do not.
pub const EXAMPLES: &str = "p99>10ms, mean>5ms, rate<20k, errors>0.1%, availability<99.9%, unread>20%, cpu>80us or limit=tcp.*";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Below,
    AtMost,
    AtLeast,
    Above,
}

/// How each is written; the longer first where one begins with the other.
const COMPARISONS: [(&str, Comparison); 4] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Below),
    (">", Comparison::Above),
];

impl Comparison {
    fn holds(self, found: f64, bound: f64) -> bool {
        match self {
            Self::Below => found < bound,
            Self::AtMost => found <= bound,
            Self::AtLeast => found >= bound,
            Self::Above => found > bound,
        }
    }
}

impl Figure {
    fn of(name: &str) -> Option<Self> {
        if let Some((_, figure, ..)) = FIGURES.iter().find(|(of, ..)| *of == name) {
            return Some(*figure);
        }
        // As in JSON, or as flags are written.
        let is = |id: &&str| *id == name || id.replace('_', "-") == name;
        if let Some(id) = station_ids().find(is) {
            return Some(Self::Station(id));
        }
        let percentile: f64 = name.strip_prefix('p')?.parse().ok()?;
        (0.0..=100.0).contains(&percentile).then_some(Self::Percentile(percentile))
    }

    /// The bound in the figure's own unit: microseconds, a second, a share.
    fn bound(self, value: &str) -> Result<f64, String> {
        // A bare number means milliseconds to one tool and seconds to another.
        let bare = value.parse::<f64>().is_ok();
        match self {
            Self::Percentile(_) | Self::Mean if bare => {
                Err(format!("`{value}` has no unit: write {value}ms or {value}s"))
            }
            Self::Cpu | Self::EngineCpu if bare => {
                Err(format!("`{value}` has no unit: write {value}us or {value}ms"))
            }
            Self::Percentile(_) | Self::Mean | Self::Cpu | Self::EngineCpu => parse_duration(value)
                .map(|time| time.as_secs_f64() * 1e6)
                .map_err(|error| error.to_string()),
            Self::Rate => value.parse().map(|rate: OpRate| rate.0).map_err(|it| it.to_string()),
            Self::Errors | Self::Availability | Self::Station(_) if bare => {
                Err(format!("`{value}` has no unit: write {value}%"))
            }
            Self::Errors | Self::Availability | Self::Station(_) => {
                value.parse().map(|share: Share| share.0).map_err(|it| it.to_string())
            }
        }
    }

    /// The least and the most that it can be.
    fn range(self) -> (f64, f64) {
        match self {
            Self::Percentile(_) | Self::Mean | Self::Rate | Self::Cpu | Self::EngineCpu => {
                (0.0, f64::INFINITY)
            }
            Self::Errors | Self::Availability | Self::Station(_) => (0.0, 1.0),
        }
    }

    /// What it is in this run, and the same in words; none: the run says nothing of it.
    fn found(self, run: &RunDocument) -> Option<(f64, String)> {
        let load = &run.load;
        let each = |us: f64| format!("{us:.3} us");
        Some(match self {
            Self::Station(id) => {
                let share = run.account.as_ref()?.share_at(id)?;
                (share, format!("{} of the requests under way are there", Share(share)))
            }
            Self::Cpu => {
                let us = load.target_cpu_us_per_exchange?;
                (us, format!("the target takes {} of CPU an exchange", each(us)))
            }
            Self::EngineCpu => {
                let us = load.engine_cpu_us_per_exchange;
                (us, format!("the engine takes {} of CPU an exchange", each(us)))
            }
            Self::Percentile(percentile) => {
                let found = percentile_of(load, percentile);
                (found, format!("p{percentile} is {:.3} ms", found / 1e3))
            }
            Self::Mean => {
                (load.latency_us.mean, format!("the mean is {:.3} ms", load.latency_us.mean / 1e3))
            }
            Self::Rate => {
                (load.throughput_per_s, format!("throughput is {}", OpRate(load.throughput_per_s)))
            }
            Self::Errors => {
                let (lost, due) = load.unserved();
                // Where it was said what a right answer is, a 404 may be one.
                let bad = match &load.wrong {
                    Some(wrong) => wrong.values().sum(),
                    None => load.status[3] + load.status[4],
                };
                let share = (lost + bad) as f64 / due.max(1) as f64;
                (share, format!("{} failed", Share(share)))
            }
            Self::Availability => {
                let share = load.availability.as_ref()?.share?;
                (share, format!("{:.3} % of what was due was answered well", share * 100.0))
            }
        })
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: String| format!("--fail-if `{text}`: {why}; write for example {EXAMPLES}");
        if let Some(condition) = of_limit(text) {
            return Ok(Self { written: text.to_owned(), condition: condition.map_err(bad)? });
        }
        let at = text.find(['<', '>']).ok_or_else(|| bad("no < or > in it".into()))?;
        let (name, rest) = text.split_at(at);
        let (sign, comparison) = *COMPARISONS
            .iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| bad("no < or > in it".into()))?;
        let name = name.trim();
        if name == LIMIT {
            return Err(bad("a limit is a name: write limit=NAME or limit!=NAME".into()));
        }
        let figure = Figure::of(name).ok_or_else(|| bad(format!("`{name}` is no figure")))?;
        let bound = figure.bound(rest[sign.len()..].trim()).map_err(bad)?;
        let (least, most) = figure.range();
        let at_the_ends = [comparison.holds(least, bound), comparison.holds(most, bound)];
        match at_the_ends {
            [false, false] => Err(bad("it is never true".into())),
            [true, true] => Err(bad("it is always true".into())),
            _ => Ok(Self {
                written: text.to_owned(),
                condition: Condition::Figure { figure, comparison, bound },
            }),
        }
    }
}

/// `limit=tcp.*,path.rate` or `limit!=...`; none where it is about something else.
fn of_limit(text: &str) -> Option<Result<Condition, String>> {
    let (name, patterns) = text.split_once('=')?;
    let is = !name.ends_with('!');
    (name.trim_end_matches('!').trim() == LIMIT).then(|| limit(patterns, is))
}

fn limit(written: &str, is: bool) -> Result<Condition, String> {
    let patterns: Vec<String> = written.split(',').map(|it| it.trim().to_owned()).collect();
    let names = || ROOFS.iter().map(|roof| roof.id).chain([UNEXPLAINED]);
    if let Some(none) = patterns.iter().find(|pattern| !names().any(|id| matches(pattern, id))) {
        return Err(format!(
            "`{none}` is not a limit, so it is never true (`linerate explain` lists them)"
        ));
    }
    let all = names().all(|id| patterns.iter().any(|pattern| matches(pattern, id)));
    match (all, is) {
        (true, true) => Err("it is always true".into()),
        (true, false) => Err("it is never true".into()),
        (false, _) => Ok(Condition::Limit { patterns, is }),
    }
}

/// Whether a name is of a pattern's, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(after, &rest[at..]))
        }),
    }
}

impl Gate {
    /// Those of a command line; the first that is none is the error.
    pub fn all(written: &[String]) -> Result<Vec<Self>, String> {
        written.iter().map(|gate| gate.parse()).collect()
    }

    /// What became of it in a run. What the run does not show it is breached: nobody can tell that it holds.
    pub fn judge(&self, run: &RunDocument) -> Gated {
        let (breached, says) = match &self.condition {
            Condition::Limit { patterns, is } => {
                let by = run.verdict.by().unwrap_or(UNEXPLAINED);
                let of_them = patterns.iter().any(|pattern| matches(pattern, by));
                (of_them == *is, format!("the limit is {by}"))
            }
            Condition::Figure { figure, comparison, bound } => match figure.found(run) {
                Some((found, words)) => (comparison.holds(found, *bound), words),
                None => (true, "the run does not show it".into()),
            },
        };
        Gated { gate: self.written.clone(), breached, says }
    }

    /// What became of it in several runs of one side: breached where it is in half of them or more, since a single
    /// run may have met a neighbour. What is said is of a run that decides it.
    pub fn judge_side(&self, runs: &[&RunDocument]) -> Gated {
        let judged: Vec<Gated> = runs.iter().map(|run| self.judge(run)).collect();
        let count = judged.iter().filter(|gate| gate.breached).count();
        let breached = count > 0 && 2 * count >= judged.len();
        let one = judged.into_iter().find(|gate| gate.breached == breached);
        let says = one.map(|gate| gate.says).unwrap_or_default();
        let says = format!(
            "breached in {count} of {} runs; in one of {}, {says}",
            runs.len(),
            match breached {
                true => "these",
                false => "the others",
            }
        );
        Gated { gate: self.written.clone(), breached, says }
    }

    /// Has every run of a document say what became of the gates.
    pub fn judge_all(gates: &[Self], document: &mut Document) {
        for run in document.runs_mut() {
            run.gates = gates.iter().map(|gate| gate.judge(run)).collect();
        }
    }
}

/// Any percentile, recomputed from the histogram itself.
fn percentile_of(load: &Load, percentile: f64) -> f64 {
    match linerate_evidence::Packed::from_base64(&load.histogram_v2_base64) {
        Ok(packed) => {
            let mut live = linerate_evidence::live_histogram();
            packed.add_to(&mut live);
            live.value_at_percentile(percentile) as f64 / 1e3
        }
        // Nothing was answered: no latency is low enough.
        Err(_) => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(gate: &str) -> String {
        gate.parse::<Gate>().unwrap_err()
    }

    #[test]
    fn gates_read_as_they_are_written() {
        let gate: Gate = "p99>10ms".parse().unwrap();
        assert_eq!(
            gate.condition,
            Condition::Figure {
                figure: Figure::Percentile(99.0),
                comparison: Comparison::Above,
                bound: 10_000.0
            }
        );
        for gate in ["rate<20k", "rate < 20k/s", "errors>0.1%", "availability<99.9%", "max>=1s"] {
            assert!(gate.parse::<Gate>().is_ok(), "{gate}");
        }
        for gate in ["unread>20%", "path-out >= 5%", "path_out>5%", "cpu>80us", "engine-cpu>1ms"] {
            assert!(gate.parse::<Gate>().is_ok(), "{gate}");
        }
        assert!(refused("p99=10ms").contains("no < or >"));
        assert!(refused("speed>1").contains("`speed` is no figure"));
    }

    #[test]
    fn a_limit_is_named_by_a_pattern_that_some_limit_has() {
        for gate in ["limit=tcp.*", "limit!=load.*,host.cpu", "limit = unexplained", "limit!=*cpu"]
        {
            assert!(gate.parse::<Gate>().is_ok(), "{gate}");
        }
        assert!(matches("tcp.*", "tcp.nagle-delayed-ack") && matches("*.cpu", "host.cpu"));
        assert!(!matches("tcp.*", "path.rate") && !matches("tcp", "tcp.loss"));
        assert!(refused("limit=tpc.*").contains("`tpc.*` is not a limit"));
        assert!(refused("limit=tcp.*,x").contains("`x` is not a limit"));
        assert!(refused("limit=").contains("`` is not a limit"));
        assert!(refused("limit=*").contains("it is always true"));
        assert!(refused("limit!=*").contains("it is never true"));
        assert!(refused("limit>tcp").contains("write limit=NAME or limit!=NAME"));
    }

    #[test]
    fn a_time_or_a_share_without_a_unit_is_refused_with_what_to_write() {
        assert!(refused("p95>200").contains("`200` has no unit: write 200ms or 200s"));
        assert!(refused("mean>=5").contains("write 5ms or 5s"));
        assert!(refused("errors>1").contains("`1` has no unit: write 1%"));
        assert!(refused("availability<0.999").contains("write 0.999%"));
        assert!(refused("unread>0.2").contains("write 0.2%"));
        assert!(refused("cpu>80").contains("write 80us or 80ms"));
    }

    #[test]
    fn a_gate_that_never_or_always_fires_is_refused() {
        for never in ["errors>100%", "availability<0%", "availability>100%", "p99<0s", "cpu<0us"] {
            assert!(refused(never).contains("it is never true"), "{never}");
        }
        for always in ["errors>=0%", "availability<=100%", "max>=0s"] {
            assert!(refused(always).contains("it is always true"), "{always}");
        }
        // These may.
        for gate in ["errors>=100%", "errors>0%", "availability<100%", "errors<=0%"] {
            assert!(gate.parse::<Gate>().is_ok(), "{gate}");
        }
    }
}
