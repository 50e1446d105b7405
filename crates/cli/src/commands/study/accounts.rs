//! The accounts of a study's series: what each part costs in the runs that it was measured in, and the rate that follows.

use linerate_report::{End, LinkAccount, LinkCost, LinkRun, LinkUnit, NodesCpu, StudyRow};

use super::Made;
use super::file::{AccountRule, CostRule};

/// What a round of a series said of both nodes.
pub(super) struct Round {
    series: String,
    case: u32,
    messages_per_s: f64,
    bytes_per_s: f64,
    cpu: NodesCpu,
}

impl Round {
    /// Of a run in that case; none: its nodes' CPU time could not be read.
    pub fn of(row: &StudyRow, case: u32) -> Option<Self> {
        let carried = row.run.load.carried.as_ref().filter(|it| it.bytes_per_s > 0.0)?;
        let (messages_per_s, bytes_per_s) = (carried.messages_per_s, carried.bytes_per_s);
        let (series, cpu) = (row.series.clone(), carried.nodes_cpu?);
        Some(Self { series, case, messages_per_s, bytes_per_s, cpu })
    }
}

/// All rounds of a series as one long run: what a CPU does in a second differs from round to round.
struct Whole {
    /// One way. Unit: bit/s.
    bit_s: f64,
    /// Unit: bytes a message.
    bytes: f64,
    /// CPU time, near and far. Unit: microseconds a megabyte.
    own_code: [f64; 2],
    kernel: [f64; 2],
    cpus_left: f64,
}

impl Whole {
    fn of<'a>(rounds: impl Iterator<Item = &'a Round>) -> Option<Self> {
        let rounds: Vec<&Round> = rounds.collect();
        let sum = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(|round| of(round)).sum::<f64>();
        let (messages, bytes) = (sum(&|it| it.messages_per_s), sum(&|it| it.bytes_per_s));
        let us_per_mb =
            |of: fn(&NodesCpu) -> f64| 1e6 * sum(&|it| of(&it.cpu) * it.messages_per_s) / bytes;
        let count = rounds.len() as f64;
        (messages > 0.0 && bytes > 0.0).then(|| Self {
            bit_s: 8.0 * bytes / count,
            bytes: bytes / messages,
            own_code: [us_per_mb(|cpu| cpu.near_user_us), us_per_mb(|cpu| cpu.far_user_us)],
            kernel: [us_per_mb(|cpu| cpu.near_kernel_us), us_per_mb(|cpu| cpu.far_kernel_us)],
            cpus_left: sum(&|it| it.cpu.cpus_left) / count,
        })
    }
}

impl<'a> Made<'a> {
    /// What a megabyte costs, by the series; where a part of it was not measured, which.
    pub(super) fn accounts(&self) -> Vec<(&'a str, Result<LinkAccount, String>)> {
        let rules = self.study.accounts.iter();
        rules.map(|rule| (rule.series.as_str(), self.account(rule))).collect()
    }

    fn account(&self, rule: &AccountRule) -> Result<LinkAccount, String> {
        let row = |series: &str| {
            let is = |row: &&StudyRow| row.series == series && row.case == Some(rule.case);
            self.rows.iter().find(is)
        };
        let elapsed = |series: &str| {
            let bit_s = row(series).and_then(|row| row.measured_bit_s);
            let bit_s = bit_s.filter(|bit_s| *bit_s > 0.0);
            bit_s.map(|bit_s| 8e12 / bit_s).ok_or_else(|| format!("`{series}` was not measured"))
        };
        let rounds = |series: &str| {
            let is = |it: &&Round| it.series == series && it.case == rule.case;
            let whole = Whole::of(self.rounds.iter().filter(is));
            whole.ok_or_else(|| format!("the nodes' CPU time in `{series}` was not measured"))
        };
        let whole = rounds(&rule.series)?;
        let unmeasured = || format!("`{}` was not measured", rule.series);
        let no_knob = || format!("`{}` has no knob `window` or `burst`", rule.series);
        let plan = &row(&rule.series).ok_or_else(unmeasured)?.run.plan;
        let knob = |name: &str| plan.target.knobs.get(name)?.parse().ok();
        let cost = |cost: &CostRule| {
            let (us_per_mb, by) = measured(cost, &whole, &elapsed, &rounds)?;
            let (says, copies) = (cost.says.clone(), cost.copies);
            Ok(LinkCost { says, node: cost.node, us_per_mb, by, copies })
        };
        let costs: Result<Vec<LinkCost>, String> = rule.costs.iter().map(cost).collect();
        let both = |at: usize| whole.own_code[at] + whole.kernel[at];
        let run = LinkRun {
            measured_bit_s: whole.bit_s,
            // Where nothing else holds the sender, all of a request may be.
            on_their_way: knob("window").or_else(|| knob("burst")).ok_or_else(no_knob)?,
            pairs: plan.load.connections,
            cpus_left: whole.cpus_left,
            near_cpu_us_per_mb: both(0),
            far_cpu_us_per_mb: both(1),
        };
        let unit = rule.unit.as_ref();
        let unit = unit.map(|says| LinkUnit { says: says.clone(), bytes: whole.bytes });
        let account = LinkAccount::of((rule.series.clone(), rule.case), costs?, run);
        Ok(account.ok_or("the parts of a node sum to nothing")?.by(unit))
    }
}

/// A part's cost in microseconds a megabyte, and how it was measured. Each is of runs of its own but the kernel's: noise may
/// make a small difference negative.
fn measured(
    cost: &CostRule,
    whole: &Whole,
    elapsed: &dyn Fn(&str) -> Result<f64, String>,
    rounds: &dyn Fn(&str) -> Result<Whole, String>,
) -> Result<(f64, String), String> {
    let at = if cost.node == End::Near { 0 } else { 1 };
    // What is done at one node is done at the near one.
    let own_code_alone = |series: &str| rounds(series).map(|whole| whole.own_code[0]);
    let (us, by) = match (&cost.alone, &cost.own_code_alone, &cost.own_code_of) {
        (Some(series), _, _) => {
            let less = cost.without.as_ref().map_or(Ok(0.0), |less| elapsed(less))?;
            (elapsed(series)? - less, format!("by itself: `{series}`"))
        }
        (None, Some(series), _) => {
            let less = cost.without.as_ref().map_or(Ok(0.0), |less| own_code_alone(less))?;
            (own_code_alone(series)? - less, format!("CPU time by itself: `{series}`"))
        }
        (None, None, Some(series)) => {
            let less = cost.without.as_ref().map_or(Ok(0.0), |less| own_code_alone(less))?;
            let us = rounds(series)?.own_code[at] - less;
            (us, format!("CPU time in the node's own code: `{series}`"))
        }
        (None, None, None) => (whole.kernel[at], "CPU time in the kernel for the node".to_owned()),
    };
    let less = cost.without.as_ref().map(|less| format!(" without `{less}`"));
    Ok((us.max(0.0), by + &less.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_one_long_run_whatever_the_cpus_did_in_each() {
        let round = |messages_per_s: f64, near_user_us: f64, cpus_left: f64| Round {
            series: "terms".into(),
            case: 4,
            messages_per_s,
            bytes_per_s: 20.0 * messages_per_s,
            cpu: NodesCpu {
                near_user_us,
                near_kernel_us: 1.0,
                far_user_us: 0.5,
                far_kernel_us: 0.0,
                cpus_left,
            },
        };
        // A CPU second each, of which both use all: 800,000 terms of 2.5 us, and 200,000 of 4 us.
        let rounds = [round(800_000.0, 1.0, 2.0), round(200_000.0, 2.5, 0.8)];
        let whole = Whole::of(rounds.iter()).unwrap();
        assert_eq!((whole.bit_s, whole.bytes, whole.cpus_left), (80e6, 20.0, 1.4));
        let all: f64 = whole.own_code.iter().chain(&whole.kernel).sum();
        // 50,000 terms a megabyte, 2.8 us each: on 1.4 CPUs 500,000 a second.
        assert!((all - 140_000.0).abs() < 1e-6, "{all}");
        assert!((whole.cpus_left * 8e12 / all - whole.bit_s).abs() < 1.0);
        assert!(Whole::of([].into_iter()).is_none());
    }
}
