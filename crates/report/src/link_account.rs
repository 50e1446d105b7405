//! The account of a link: what a megabyte takes at either node, each part by its own cost, and the rate that follows.
//!
//! The parts are measured, and what is left of the run is none of them: so their sum may differ from what the link
//! moved, and says by how much. A megabyte passes both nodes, which work at once: the busier one sets the rate, as far as
//! the messages on their way keep it busy; or both together, where other programs leave them less than a CPU for each
//! process.
//!
//! Of small messages it is told by the message: a unit changes what is shown, and no figure of the document.

use serde::{Deserialize, Serialize};

use crate::number::{bits, count, time};

/// One of the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Messages leave here.
    Near,
    /// They arrive here.
    Far,
}

impl End {
    /// In words.
    pub fn says(self) -> &'static str {
        match self {
            Self::Near => "sends",
            Self::Far => "receives",
        }
    }
}

/// A part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkCost {
    /// What is done.
    pub says: String,
    /// Where.
    pub node: End,
    /// What it costs. Unit: microseconds a megabyte.
    pub us_per_mb: f64,
    /// How that was measured.
    pub by: String,
    /// How often it copies each byte, by the rule of who does it (`docs/studies.md`). Absent: of an older linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
}

/// A message, where the account is told by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkUnit {
    /// What it is: `term`.
    pub says: String,
    /// Unit: bytes.
    pub bytes: f64,
}

/// The account of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkAccount {
    /// The series.
    pub series: String,
    /// In which case.
    pub case: u32,
    /// In the order in which a message meets them.
    pub costs: Vec<LinkCost>,
    /// Those of the node that sends. Unit: microseconds a megabyte.
    pub near_us_per_mb: f64,
    /// Those of the node that receives. Unit: microseconds a megabyte.
    pub far_us_per_mb: f64,
    /// How much of the time the node with the larger sum is busy with them, 0 to 1.
    pub busy: f64,
    /// Throughput that follows. Unit: bit/s.
    pub predicted_bit_s: f64,
    /// What it is told by. Absent: a megabyte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<LinkUnit>,
    /// The run that it is compared with.
    #[serde(flatten)]
    pub run: LinkRun,
}

/// What the run had, none of which is a cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRun {
    /// Throughput. Unit: bit/s.
    pub measured_bit_s: f64,
    /// Messages that may be on their way.
    pub on_their_way: u32,
    /// Pairs of processes, all of which send at once. Absent: of an older linerate, which had accounts of one.
    #[serde(default = "one")]
    pub pairs: u32,
    /// CPUs that other programs left to both nodes.
    pub cpus_left: f64,
    /// CPU time of the node that sends, by the kernel. Unit: microseconds a megabyte.
    pub near_cpu_us_per_mb: f64,
    /// The same of the node that receives. Unit: microseconds a megabyte.
    pub far_cpu_us_per_mb: f64,
}

fn one() -> u32 {
    1
}

impl LinkAccount {
    /// Of costs; none where a sum is nothing.
    pub fn of((series, case): (String, u32), costs: Vec<LinkCost>, run: LinkRun) -> Option<Self> {
        let sum = |node| {
            let costs = costs.iter().filter(|cost| cost.node == node);
            costs.map(|cost| cost.us_per_mb).sum::<f64>()
        };
        let [near, far] = [End::Near, End::Far].map(sum);
        let busy = busy(near.min(far) / near.max(far), run.on_their_way);
        let pairs = f64::from(run.pairs.max(1));
        let shared = (near + far) / run.cpus_left.clamp(0.01, 2.0 * pairs);
        let us_per_mb = (near.max(far) / busy / pairs).max(shared);
        (near > 0.0 && far > 0.0 && run.measured_bit_s > 0.0).then(|| Self {
            series,
            case,
            costs,
            near_us_per_mb: near,
            far_us_per_mb: far,
            busy,
            predicted_bit_s: 8e12 / us_per_mb,
            unit: None,
            run,
        })
    }

    /// The node whose sum sets the rate; none: both together do, on the CPUs that are left.
    pub fn busier(&self) -> Option<End> {
        let (near, far) = (self.near_us_per_mb, self.far_us_per_mb);
        let each = near.max(far) / self.busy / f64::from(self.run.pairs.max(1));
        let alone = 8e12 / self.predicted_bit_s <= each * (1.0 + 1e-9);
        alone.then_some(if near < far { End::Far } else { End::Near })
    }

    /// The same told by so many bytes.
    pub fn by(self, unit: Option<LinkUnit>) -> Self {
        Self { unit, ..self }
    }

    /// What it is told by: `a megabyte`.
    pub fn unit(&self) -> String {
        self.unit.as_ref().map_or_else(|| "a megabyte".into(), |unit| format!("a {}", unit.says))
    }

    /// The time of one of them, of what a megabyte takes. Unit: microseconds.
    pub fn us(&self, us_per_mb: f64) -> f64 {
        us_per_mb * self.unit.as_ref().map_or(1.0, |unit| unit.bytes / 1e6)
    }

    /// Throughput: `12.7 Gbit/s`, or `715,814 terms/s`.
    pub fn rate(&self, bit_s: f64) -> String {
        let Some(unit) = self.unit.as_ref().filter(|unit| unit.bytes > 0.0) else {
            return bits(bit_s / 8.0);
        };
        format!("{} {}s/s", count((bit_s / 8.0 / unit.bytes).round() as u64), unit.says)
    }

    /// The sum that sets the rate, with its parts: `the node that sends: encode 0.3 + writev 420.0 = 420 us a megabyte`.
    pub fn sum(&self) -> String {
        let one = |us_per_mb: f64| match self.unit {
            Some(_) => time(self.us(us_per_mb)),
            None => format!("{us_per_mb:.1}"),
        };
        let all = |us_per_mb: f64| match self.unit {
            Some(_) => format!("{} {}", time(self.us(us_per_mb)), self.unit()),
            None => format!("{us_per_mb:.0} us a megabyte"),
        };
        let of = |node: End| {
            let costs = self.costs.iter().filter(|cost| cost.node == node);
            let costs = costs.map(|cost| format!("{} {}", cost.says, one(cost.us_per_mb)));
            costs.collect::<Vec<_>>().join(" + ")
        };
        let (near, far) = (self.near_us_per_mb, self.far_us_per_mb);
        match self.busier() {
            Some(node) => format!(
                "the node that {}: {} = {}, {}",
                node.says(),
                of(node),
                all(near.max(far)),
                self.why()
            ),
            None => format!(
                "both nodes: {} + {} = {}, {}",
                of(End::Near),
                of(End::Far),
                all(near + far),
                self.why()
            ),
        }
    }

    /// What makes a rate of a sum.
    pub fn why(&self) -> String {
        match self.busier() {
            Some(_) => format!(
                "busy for {:.0} % of the time with {} messages on their way",
                self.busy * 100.0,
                self.run.on_their_way
            ),
            None => format!("on the {:.2} CPUs that other programs left", self.run.cpus_left),
        }
    }

    /// The predicted rate by the measured one.
    pub fn ratio(&self) -> f64 {
        self.predicted_bit_s / self.run.measured_bit_s
    }

    /// What a megabyte took. Unit: microseconds.
    pub fn measured_us_per_mb(&self) -> f64 {
        8e12 / self.run.measured_bit_s
    }
}

/// How much of the time the busier of two stations works, where so many messages circulate between them and each takes
/// a random time there, the other this part of it: exact for a closed network of two stations.
fn busy(ratio: f64, messages: u32) -> f64 {
    let messages = f64::from(messages.max(1));
    if ratio > 1.0 - 1e-6 {
        return messages / (messages + 1.0);
    }
    (1.0 - ratio.powf(messages)) / (1.0 - ratio.powf(messages + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(node: End, us_per_mb: f64) -> LinkCost {
        let by = "its kernel time".into();
        LinkCost { says: "writev".into(), node, us_per_mb, by, copies: Some(1) }
    }

    fn of(costs: Vec<LinkCost>, measured_bit_s: f64, cpus_left: f64) -> Option<LinkAccount> {
        let run = LinkRun {
            measured_bit_s,
            on_their_way: 8,
            pairs: 1,
            cpus_left,
            near_cpu_us_per_mb: 440.0,
            far_cpu_us_per_mb: 310.0,
        };
        LinkAccount::of(("link".into(), 1), costs, run)
    }

    #[test]
    fn the_busier_node_sets_the_rate_and_what_was_measured_is_no_part_of_the_sum() {
        let costs = vec![cost(End::Near, 5.0), cost(End::Near, 395.0), cost(End::Far, 200.0)];
        let account = of(costs.clone(), 16e9, 1.9).unwrap();
        // (1 - 1/2^8) / (1 - 1/2^9) of the time, in which a megabyte takes 400 us: 8e12 / 400.8.
        assert!((account.busy - 0.99805).abs() < 1e-5);
        assert!((account.predicted_bit_s - 19.961e9).abs() < 1e6);
        assert_eq!(account.busier(), Some(End::Near));
        assert_eq!((account.near_us_per_mb, account.far_us_per_mb), (400.0, 200.0));
        assert_eq!(account.measured_us_per_mb(), 500.0);
        let other = of(costs.clone(), 25e9, 4.0).unwrap();
        assert_eq!(other.predicted_bit_s, account.predicted_bit_s);
        // Six hundred on one CPU.
        let shared = of(costs, 16e9, 1.0).unwrap();
        assert_eq!((shared.predicted_bit_s, shared.busier()), (8e12 / 600.0, None));
        let says = "both nodes: writev 5.0 + writev 395.0 + writev 200.0 = 600 us a megabyte, on the 1.00 CPUs that \
                    other programs left";
        assert_eq!(shared.sum(), says);
        assert_eq!(of(Vec::new(), 1e9, 2.0), None);
    }

    #[test]
    fn several_pairs_share_what_is_left_and_small_messages_are_told_one_by_one() {
        let costs = vec![cost(End::Near, 60_000.0), cost(End::Far, 40_000.0)];
        let of = |pairs, cpus_left| {
            let run = of(costs.clone(), 100e6, 1.0).unwrap().run;
            let run = LinkRun { pairs, cpus_left, on_their_way: 10_000, ..run };
            let unit = LinkUnit { says: "term".into(), bytes: 20.0 };
            LinkAccount::of(("terms".into(), 4), costs.clone(), run).unwrap().by(Some(unit))
        };
        // Two microseconds a term on 1.6 CPUs; a pair alone is held by the node that sends, 1.2 us a term.
        let four = of(4, 1.6);
        assert_eq!(four.busier(), None);
        assert_eq!(four.rate(four.predicted_bit_s), "800,000 terms/s");
        assert!(four.sum().contains("writev 1.20 us + writev 800 ns = 2.00 us a term"));
        let one = of(1, 1.9);
        assert_eq!(one.busier(), Some(End::Near));
        assert_eq!(one.rate(one.predicted_bit_s), "833,333 terms/s");
        // Four pairs have up to eight processes at work.
        assert_eq!(of(4, 8.0).rate(of(4, 8.0).predicted_bit_s), "3,333,333 terms/s");
        assert_eq!(of(4, 8.0).busier(), Some(End::Near));
    }

    #[test]
    fn two_nodes_that_take_as_long_wait_for_each_other() {
        let costs = vec![cost(End::Near, 200.0), cost(End::Far, 200.0)];
        assert!((of(costs, 16e9, 3.0).unwrap().busy - 8.0 / 9.0).abs() < 1e-9);
        // Each after the other.
        assert_eq!(busy(1.0, 1), 0.5);
        assert!((busy(0.5, 1) - 1.0 / 1.5).abs() < 1e-12);
        assert_eq!(busy(0.0, 8), 1.0);
    }
}
