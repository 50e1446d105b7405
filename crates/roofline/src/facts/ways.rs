//! The ways of the path that the lab laid: what the plan asked of each, and what went over it.

use linerate_evidence::sources::link;
use linerate_evidence::{Direction, Metric, Missing, Of, Subject};
use linerate_model::{BitRate, Plan, Queue, Way, WayChange};

use crate::chosen::AGREE;
use crate::run::Run;

/// One direction of one link.
pub(crate) struct LaidWay<'a> {
    pub asked: Way,
    /// For people: `the way back`, or `east to west`.
    pub name: String,
    /// Round trip that the link adds by itself. Unit: seconds.
    pub rtt: f64,
    /// The share of all exchanges that go over this link.
    pub crossing: f64,
    change: Option<WayChange>,
    keys: String,
    direction: Direction,
    of: Of<'a>,
    attained: f64,
}

/// The way with a rate that is used most, the exchanges a second that it carries, and how far it is used, 0 to
/// 1; none where no rate was asked of the path.
pub(crate) fn fullest<'a>(run: &Run<'a>) -> Result<Option<(LaidWay<'a>, f64, f64)>, Missing> {
    let mut fullest: Option<(LaidWay, f64, f64)> = None;
    for way in laid(run) {
        let (Some(most), Some(used)) = (way.most()?, way.utilisation()?) else { continue };
        if fullest.as_ref().is_none_or(|(_, _, so_far)| used > *so_far) {
            fullest = Some((way, most, used));
        }
    }
    Ok(fullest)
}

/// The share of a CPU that the busiest of the threads uses which carry the ways; none where none is known.
pub(crate) fn busiest_thread(run: &Run) -> Option<f64> {
    laid(run).iter().filter_map(|way| way.cpu().ok()).reduce(f64::max)
}

/// Every direction of every link; none where the plan lays no path.
pub(crate) fn laid<'a>(run: &Run<'a>) -> Vec<LaidWay<'a>> {
    let plan = &run.header.plan;
    let mut all = Vec::new();
    for (index, path) in plan.paths().into_iter().enumerate() {
        for (asked, direction) in path.ways().into_iter().zip(Direction::BOTH) {
            let number = u16::try_from(index).unwrap_or(u16::MAX);
            all.push(LaidWay {
                asked,
                name: name(plan, index, direction),
                rtt: path.round_trip().as_secs_f64(),
                crossing: crossing(plan, index),
                change: match direction {
                    Direction::Out => path.out.clone(),
                    Direction::Back => path.back.clone(),
                },
                keys: run.path_key(""),
                direction,
                of: run.of(Subject::Link(number, direction)),
                attained: run.attained().0.max(1e-9),
            });
        }
    }
    all
}

impl LaidWay<'_> {
    /// What a counter of it grew by, a second.
    pub fn per_second(&self, metric: Metric<u64>) -> Result<f64, Missing> {
        self.of.rate(metric)
    }

    /// The same by exchanges, wherever they went.
    pub fn each(&self, metric: Metric<u64>) -> Result<f64, Missing> {
        Ok(self.per_second(metric)? / self.attained)
    }

    /// Bytes that left it at its end, a second, IP headers included.
    pub fn bytes_per_second(&self) -> Result<f64, Missing> {
        self.of.rate(link::BYTES_OUT)
    }

    /// The same by exchanges.
    pub fn bytes_each(&self) -> Result<f64, Missing> {
        Ok(self.bytes_per_second()? / self.attained)
    }

    /// Packets of an exchange that goes over this link, acknowledgements and what is sent again included.
    pub fn packets_of_a_crossing(&self) -> Result<f64, Missing> {
        Ok(self.each(link::PACKETS_IN)? / self.crossing.max(1e-9))
    }

    /// Packets dropped because something was full, a second: the queue before the rate, and all that the
    /// path holds.
    pub fn overflows(&self) -> Result<Overflows, Missing> {
        let of = |metric| self.per_second(metric);
        match (of(link::DROPPED_QUEUE), of(link::DROPPED_LIMIT)) {
            (Ok(queue), Ok(limit)) => Ok(Overflows { queue, limit }),
            // Where it isn't said why, what was lost on purpose is known by the plan.
            (queue, _) => {
                let dropped = of(link::DROPPED).or(queue)?;
                let lost = of(link::PACKETS_IN)? * self.asked.loss.0;
                let full = if self.asked.largest.is_some() { 0.0 } else { dropped - lost };
                let full = if full > AGREE * lost { full } else { 0.0 };
                Ok(match self.asked.limit {
                    Some(_) => Overflows { queue: 0.0, limit: full },
                    None => Overflows { queue: full, limit: 0.0 },
                })
            }
        }
    }

    /// Packets dropped as too large, a second.
    pub fn too_large(&self) -> Result<f64, Missing> {
        match self.per_second(link::DROPPED_SIZE) {
            // Where it isn't said why, a size that nobody asked for drops nothing.
            Err(_) if self.asked.largest.is_none() => Ok(0.0),
            told => told,
        }
    }

    /// Packets lost at random, a second.
    pub fn lost_per_second(&self) -> Result<f64, Missing> {
        Ok(self.lost()? * self.per_second(link::PACKETS_IN)?)
    }

    /// The share of packets lost at random.
    pub fn lost(&self) -> Result<f64, Missing> {
        let came = self.per_second(link::PACKETS_IN)?.max(1e-9);
        match self.per_second(link::DROPPED_LOSS) {
            Ok(lost) => Ok(lost / came),
            // The kernel's netem says only how many it dropped.
            Err(_) if self.per_second(link::DROPPED).is_ok() => Ok(self.asked.loss.0),
            Err(missing) => Err(missing),
        }
    }

    /// How much of its rate is used, 0 to 1; with a trace the share of time in which something waited. None
    /// where it is as fast as the machine.
    pub fn utilisation(&self) -> Result<Option<f64>, Missing> {
        if let Some(BitRate(rate)) = self.asked.rate {
            return Ok(Some(self.bytes_per_second()? * 8.0 / rate));
        }
        if self.asked.trace.is_none() {
            return Ok(None);
        }
        self.of.share(link::QUEUE, |waits| waits > 0).map(Some)
    }

    /// Exchanges a second that its rate carries; none where it is as fast as the machine.
    pub fn most(&self) -> Result<Option<f64>, Missing> {
        if let Some(BitRate(rate)) = self.asked.rate {
            return Ok(Some(rate / 8.0 / self.bytes_each()?.max(1e-9)));
        }
        // A trace's mean stands in its file; while packets wait it is used as far as it goes.
        Ok(self.utilisation()?.map(|used| self.attained / used.max(0.01)))
    }

    /// Its rate in words.
    pub fn rate_words(&self) -> String {
        self.asked.rate.map_or("the trace's rate".into(), |rate| rate.to_string())
    }

    /// Packets that wait for the rate, in the median.
    pub fn standing(&self) -> Result<f64, Missing> {
        Ok(self.of.median(link::QUEUE)? as f64)
    }

    /// The share of a CPU that carries it.
    pub fn cpu(&self) -> Result<f64, Missing> {
        self.of.rate(link::CPU)
    }

    /// Time by which a frame leaves later than it is due, in the mean. Unit: seconds.
    pub fn late(&self) -> Result<f64, Missing> {
        let (late, over) = self.of.delta(link::LATE)?;
        let frames = self.per_second(link::FRAMES_OUT)? * over.as_secs_f64();
        Ok(late.as_secs_f64() / frames.max(1.0))
    }

    /// The knob of a part of it: `path.limit`, or `path.back.limit` where the plan says it so.
    pub fn knob(&self, part: &str) -> String {
        let changed = self.change.as_ref().is_some_and(|change| match part {
            "rate" => change.rate.is_some(),
            "queue" => change.queue.is_some(),
            "limit" => change.limit.is_some(),
            "loss" => change.loss.is_some(),
            "largest" => change.largest.is_some(),
            _ => false,
        });
        match changed {
            true => format!("{}{}.{part}", self.keys, self.direction),
            false => format!("{}{part}", self.keys),
        }
    }

    /// Packets of full size that its rate carries in its round trip; none without a rate.
    pub fn bandwidth_delay(&self) -> Option<f64> {
        self.asked.rate.map(|rate| rate.0 / 8.0 * self.rtt / 1500.0)
    }
}

/// Packets dropped a second, by what was full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overflows {
    pub queue: f64,
    pub limit: f64,
}

impl Overflows {
    pub fn sum(&self) -> f64 {
        self.queue + self.limit
    }
}

/// A queue in packets of full size.
pub(crate) fn in_packets(queue: Queue) -> f64 {
    match queue {
        Queue::Packets(packets) => f64::from(packets),
        Queue::Bytes(bytes) => bytes.0 as f64 / 1500.0,
    }
}

/// Two significant digits, upwards: 1,234 is 1,300.
pub(crate) fn rounded_up(number: f64) -> u64 {
    let number = number.ceil().max(1.0);
    let unit = 10f64.powf(number.log10().floor() - 1.0).max(1.0);
    ((number / unit).ceil() * unit) as u64
}

fn name(plan: &Plan, index: usize, direction: Direction) -> String {
    match (plan.links.get(index), direction) {
        (None, Direction::Out) => "the way out".into(),
        (None, Direction::Back) => "the way back".into(),
        (Some(link), Direction::Out) => format!("{} to {}", link.between[0], link.between[1]),
        (Some(link), Direction::Back) => format!("{} to {}", link.between[1], link.between[0]),
    }
}

/// Servers are chosen uniformly at random, and engine hosts have equal parts of the load.
fn crossing(plan: &Plan, index: usize) -> f64 {
    let Some(link) = plan.links.get(index) else { return 1.0 };
    let of = |name: &str| plan.sites.iter().find(|site| site.name == name);
    let [Some(one), Some(other)] = [of(&link.between[0]), of(&link.between[1])] else { return 1.0 };
    let engines: f64 = plan.sites.iter().map(|site| f64::from(site.engines)).sum();
    let servers = f64::from(plan.servers());
    let there = f64::from(one.engines) * f64::from(other.servers);
    let back = f64::from(other.engines) * f64::from(one.servers);
    (there + back) / (engines * servers).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_enough_and_never_less_than_what_is_needed() {
        assert_eq!([1.0, 9.2, 99.0, 101.0, 1234.0].map(rounded_up), [1, 10, 99, 110, 1300]);
    }

    #[test]
    fn half_of_all_exchanges_go_over_the_link_of_two_equal_sites() {
        let plan = Plan::from_toml(
            "[target]\nbeam = 'echo'\n[[sites]]\nname = 'a'\nservers = 2\nengines = 1\n\
             [[sites]]\nname = 'b'\nservers = 2\nengines = 1\n[[links]]\nbetween = ['a', 'b']\n",
        )
        .unwrap();
        // An engine of each site: two of its four servers are beyond the link.
        assert_eq!(crossing(&plan, 0), 0.5);
    }
}
