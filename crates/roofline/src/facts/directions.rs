//! The directions of the path that the lab laid: what the plan asked of each, and what it carried.

use linerate_model::DirectionChange;

use crate::prelude::*;

pub(crate) struct LaidDirection<'a> {
    pub asked: OneDirection,
    /// For people: `the return path`, or `east to west`.
    pub name: String,
    /// Round trip that the link adds. Unit: seconds.
    pub rtt: f64,
    /// The share of all exchanges that cross this link.
    pub crossing: f64,
    change: Option<DirectionChange>,
    keys: String,
    direction: Direction,
    pub of: Of<'a>,
    attained: f64,
}

pub(crate) fn laid<'a>(run: &Run<'a>) -> Vec<LaidDirection<'a>> {
    let plan = &run.header.plan;
    let mut all = Vec::new();
    for (index, path) in plan.paths().into_iter().enumerate() {
        let number = u16::try_from(index).unwrap_or(u16::MAX);
        let names = match plan.links.get(index).map(|link| &link.between) {
            None => ["the outbound path".into(), "the return path".into()],
            Some([one, other]) => [format!("{one} to {other}"), format!("{other} to {one}")],
        };
        let changes = [path.out.clone(), path.back.clone()].into_iter().zip(names);
        let directions = path.directions().into_iter().zip(Direction::BOTH).zip(changes);
        all.extend(directions.map(|((asked, direction), (change, name))| LaidDirection {
            asked,
            name,
            rtt: path.round_trip().as_secs_f64(),
            crossing: plan.crossing(index),
            change,
            keys: run.path_key(""),
            direction,
            of: run.of(Subject::Link(number, direction)),
            attained: run.attained().0.max(1e-9),
        }));
    }
    all
}

impl<'a> Facts<'a> {
    /// The most used direction with a rate, the exchanges a second that it carries, its use, 0 to 1; silent: no rate.
    pub(crate) fn fullest_direction(&self) -> Result<(&LaidDirection<'a>, f64, f64), Silent> {
        let used = |of: &LaidDirection| Ok(of.utilisation()?.unwrap_or(f64::NEG_INFINITY));
        let (fullest, used) = self.worst_direction(used)?;
        let most = fullest.most()?.or_not_here("the plan sets no rate for the path")?;
        Ok((fullest, most, used))
    }

    pub(crate) fn worst_direction(
        &self,
        figure: impl Fn(&LaidDirection) -> Result<f64, Missing>,
    ) -> Result<(&LaidDirection<'a>, f64), Silent> {
        let figures = self.directions.iter().map(|direction| Ok((direction, figure(direction)?)));
        let figures = figures.collect::<Result<Vec<_>, Missing>>()?;
        figures.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).or_not_here("the plan has no path")
    }
}

impl LaidDirection<'_> {
    /// What it carried, an exchange, wherever that went.
    pub fn each<Q: Quantity>(&self, metric: Metric<Q>) -> Result<f64, Missing> {
        Ok(self.of.rate(metric)? / self.attained)
    }

    /// Packets of an exchange that crosses this link, ACKs and retransmissions included.
    pub fn packets_of_a_crossing(&self) -> Result<f64, Missing> {
        Ok(self.each(link::PACKETS_IN)? / self.crossing.max(1e-9))
    }

    /// Packets dropped a second because its queue was full, and because the path's limit was.
    pub fn overflows(&self) -> Result<[f64; 2], Missing> {
        let of = |metric| self.of.rate(metric);
        let queue = of(link::DROPPED_QUEUE);
        if let (Ok(queue), Ok(limit)) = (&queue, of(link::DROPPED_LIMIT)) {
            return Ok([*queue, limit]);
        }
        // Where no reason is given, losses on purpose are known by the plan.
        let dropped = of(link::DROPPED).or(queue)?;
        let lost = of(link::PACKETS_IN)? * self.asked.loss.0;
        let is_full = self.asked.largest.is_none() && dropped - lost > AGREE * lost;
        let full = if is_full { dropped - lost } else { 0.0 };
        Ok(if self.asked.limit.is_some() { [0.0, full] } else { [full, 0.0] })
    }

    /// Packets dropped as too large, a second.
    pub fn too_large(&self) -> Result<f64, Missing> {
        // Where no reason is given, a size that was not asked for drops nothing.
        let none = |missing| if self.asked.largest.is_none() { Ok(0.0) } else { Err(missing) };
        self.of.rate(link::DROPPED_SIZE).or_else(none)
    }

    /// Packets lost at random, a second.
    pub fn lost_per_second(&self) -> Result<f64, Missing> {
        Ok(self.lost()? * self.of.rate(link::PACKETS_IN)?)
    }

    /// The share of packets lost at random.
    pub fn lost(&self) -> Result<f64, Missing> {
        let came = self.of.rate(link::PACKETS_IN)?.max(1e-9);
        match self.of.rate(link::DROPPED_LOSS) {
            Ok(lost) => Ok(lost / came),
            // The kernel's netem says only how many it dropped.
            Err(_) if self.of.rate(link::DROPPED).is_ok() => Ok(self.asked.loss.0),
            Err(missing) => Err(missing),
        }
    }

    /// Its use, 0 to 1; with a trace the share of time in which packets waited. None: as fast as the machine.
    pub fn utilisation(&self) -> Result<Option<f64>, Missing> {
        match (self.asked.rate, &self.asked.trace) {
            (Some(BitRate(rate)), _) => Ok(Some(self.of.rate(link::BYTES_OUT)? * 8.0 / rate)),
            (None, Some(_)) => self.of.share(link::QUEUE, |waits| waits > 0).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Exchanges a second that its rate carries; none where it is as fast as the machine.
    pub fn most(&self) -> Result<Option<f64>, Missing> {
        if let Some(BitRate(rate)) = self.asked.rate {
            return Ok(Some(rate / 8.0 / self.each(link::BYTES_OUT)?.max(1e-9)));
        }
        // A trace's mean is in its file; while packets wait it is used as far as it goes.
        Ok(self.utilisation()?.map(|used| self.attained / used.max(0.01)))
    }

    pub fn rate_words(&self) -> String {
        self.asked.rate.map_or("the trace's rate".into(), |rate| rate.to_string())
    }

    /// Mean time by which frames leave late. Unit: seconds.
    pub fn late(&self) -> Result<f64, Missing> {
        Ok(self.of.rate(link::LATE)? / self.of.rate(link::FRAMES_OUT)?.max(1e-9))
    }

    /// The key of a part of it: `path.limit`, or `path.back.limit` where the plan has it.
    pub fn knob(&self, part: &str) -> String {
        let changed = self.change.as_ref().is_some_and(|change| change.sets(part));
        let of = if changed { format!("{}.", self.direction) } else { String::new() };
        format!("{}{of}{part}", self.keys)
    }

    /// Packets of full size that its rate carries in its round trip; none without a rate.
    pub fn bandwidth_delay(&self) -> Option<f64> {
        self.asked.rate.map(|rate| rate.0 / 8.0 * self.rtt / 1500.0)
    }
}
