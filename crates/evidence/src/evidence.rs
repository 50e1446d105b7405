//! All samples of a run, by subject and metric.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use linerate_model::Timestamp;
use smallvec::SmallVec;

use crate::engine::Slice;
use crate::metric::{Metric, Quantity};
use crate::step::{Step, StepKind};
use crate::subject::{Side, Subject};

/// What was measured in one run.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    series: BTreeMap<Subject, Series>,
    facts: BTreeMap<Subject, BTreeMap<String, String>>,
    /// What the engine's threads counted and timed, slice by slice.
    pub slices: Vec<Slice>,
    /// The steps of the experiment after the main phase, in order of time; empty without one.
    pub steps: Vec<Step>,
    /// Sources that could not be read, with the reason: `sock_diag`, `permission denied`.
    pub unread: BTreeMap<String, String>,
}

/// The samples of one subject, by the metric's name. A sampling round costs mostly the time to store its numbers
/// here: names are borrowed where possible, and the single sample that the evidence of one round has of each needs no
/// memory of its own.
type Series = HashMap<Cow<'static, str>, SmallVec<[(Timestamp, u64); 1]>>;

/// A metric without a sample. Never an error: it leaves a rule as "unmeasured".
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("needs {metric} of {of}")]
pub struct Missing {
    /// The metric's name.
    pub metric: String,
    /// Of what: `flow/*/server`, `target`.
    pub of: String,
}

impl Evidence {
    /// The step of a kind; none where it was not made.
    pub fn step(&self, kind: StepKind) -> Option<&Step> {
        self.steps.iter().find(|step| step.kind == kind)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        let samples = self.series.is_empty() && self.facts.is_empty() && self.unread.is_empty();
        samples && self.slices.is_empty() && self.steps.is_empty()
    }

    /// Adds a sample. Samples of one subject and metric come in order of time.
    pub fn push<Q: Quantity>(&mut self, at: Timestamp, of: Subject, metric: Metric<Q>, value: Q) {
        let metrics = self.series.entry(of).or_default();
        metrics.entry(Cow::Borrowed(metric.name)).or_default().push((at, value.to_raw()));
    }

    /// The same by name, as files and tables have it.
    pub fn push_raw(&mut self, at: Timestamp, of: Subject, metric: &str, raw: u64) {
        let metrics = self.series.entry(of).or_default();
        match metrics.get_mut(metric) {
            Some(samples) => samples.push((at, raw)),
            None => metrics.entry(Cow::Owned(metric.to_owned())).or_default().push((at, raw)),
        }
    }

    /// Adds a text instead of a number: an owner's name, a peer. The last of a name is kept.
    pub fn push_fact(&mut self, of: Subject, name: &str, text: String) {
        self.facts.entry(of).or_default().insert(name.to_owned(), text);
    }

    /// One fact of a subject.
    pub fn fact(&self, of: Subject, name: &str) -> Option<&str> {
        self.facts.get(&of)?.get(name).map(String::as_str)
    }

    /// All facts, by subject and name.
    pub fn facts(&self) -> &BTreeMap<Subject, BTreeMap<String, String>> {
        &self.facts
    }

    /// Adds all of another evidence.
    pub fn absorb(&mut self, other: Evidence) {
        for (subject, metrics) in other.series {
            match self.series.entry(subject) {
                Entry::Vacant(place) => {
                    place.insert(metrics);
                }
                Entry::Occupied(mut mine) => {
                    let mine = mine.get_mut();
                    for (name, samples) in metrics {
                        mine.entry(name).or_default().extend(samples);
                    }
                }
            }
        }
        for (subject, facts) in other.facts {
            self.facts.entry(subject).or_default().extend(facts);
        }
        self.slices.extend(other.slices);
        self.steps.extend(other.steps);
        self.unread.extend(other.unread);
    }

    /// When the main phase ended and the experiment began: later samples are of other load. None without an
    /// experiment.
    pub fn main_phase_ended(&self) -> Option<Timestamp> {
        self.steps.iter().map(|step| step.begun).min()
    }

    /// The samples of one subject.
    pub fn of(&self, subject: Subject) -> Of<'_> {
        Of { subject, metrics: self.series.get(&subject), window: None }
    }

    /// Every process that has samples, by linerate's number for it.
    pub fn processes(&self) -> Vec<Subject> {
        self.subjects().filter(|subject| matches!(subject, Subject::Process(_))).collect()
    }

    /// Every queue of a broker that has samples, by linerate's number for it.
    pub fn queues(&self) -> Vec<Subject> {
        self.subjects().filter(|subject| matches!(subject, Subject::Queue(_))).collect()
    }

    /// Every listening port that has samples.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.subjects().filter_map(|subject| match subject {
            Subject::Listener(port) => Some(port),
            _ => None,
        })
    }

    /// All subjects that have samples.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> + '_ {
        self.series.keys().copied()
    }

    /// The engine's numbers of the flows sampled on that side.
    pub fn flows(&self, side: Side) -> Vec<u32> {
        let mut ids = BTreeSet::new();
        for subject in self.series.keys() {
            if let Subject::Flow(id, of) = subject
                && *of == side
            {
                ids.insert(*id);
            }
        }
        ids.into_iter().collect()
    }

    /// Every instant at which something was sampled, with what was: the file's rows.
    pub fn rows(&self) -> Vec<(Timestamp, Subject, BTreeMap<&str, u64>)> {
        let mut rows: BTreeMap<(Timestamp, Subject), BTreeMap<&str, u64>> = BTreeMap::new();
        for (subject, metrics) in &self.series {
            for (name, samples) in metrics {
                for (at, raw) in samples {
                    rows.entry((*at, *subject)).or_default().insert(name, *raw);
                }
            }
        }
        rows.into_iter().map(|((at, subject), values)| (at, subject, values)).collect()
    }
}

/// The samples of one subject, perhaps only those of a stretch of time.
#[derive(Clone, Debug)]
pub struct Of<'a> {
    subject: Subject,
    metrics: Option<&'a Series>,
    window: Option<RangeInclusive<Timestamp>>,
}

impl<'a> Of<'a> {
    /// Only samples taken within this stretch.
    pub fn within(mut self, window: RangeInclusive<Timestamp>) -> Self {
        self.window = Some(window);
        self
    }

    /// All samples again.
    pub fn whole(mut self) -> Self {
        self.window = None;
        self
    }

    /// All samples, in order of time. Never empty.
    pub fn all<Q: Quantity>(&self, metric: Metric<Q>) -> Result<Vec<(Timestamp, Q)>, Missing> {
        Ok(self.raw(metric.name)?.iter().map(|(at, raw)| (*at, Q::from_raw(*raw))).collect())
    }

    /// The same without their instants.
    pub fn values<Q: Quantity>(&self, metric: Metric<Q>) -> Result<Vec<Q>, Missing> {
        Ok(self.raw(metric.name)?.iter().map(|(_, raw)| Q::from_raw(*raw)).collect())
    }

    /// Those of two metrics that are sampled together.
    pub fn both<A: Quantity, B: Quantity>(
        &self,
        a: Metric<A>,
        b: Metric<B>,
    ) -> Result<Vec<(A, B)>, Missing> {
        Ok(self.values(a)?.into_iter().zip(self.values(b)?).collect())
    }

    /// The last sample.
    pub fn last<Q: Quantity>(&self, metric: Metric<Q>) -> Result<Q, Missing> {
        let samples = self.raw(metric.name)?;
        Ok(Q::from_raw(samples[samples.len() - 1].1))
    }

    /// The same, in its unit.
    pub fn latest<Q: Quantity>(&self, metric: Metric<Q>) -> Result<f64, Missing> {
        self.last(metric).map(Quantity::number)
    }

    /// The smallest sample.
    pub fn min<Q: Quantity>(&self, metric: Metric<Q>) -> Result<Q, Missing> {
        Ok(Q::from_raw(self.raw(metric.name)?.iter().map(|(_, raw)| *raw).min().unwrap_or(0)))
    }

    /// The largest sample.
    pub fn max<Q: Quantity>(&self, metric: Metric<Q>) -> Result<Q, Missing> {
        Ok(Q::from_raw(self.raw(metric.name)?.iter().map(|(_, raw)| *raw).max().unwrap_or(0)))
    }

    /// The median sample.
    pub fn median<Q: Quantity>(&self, metric: Metric<Q>) -> Result<Q, Missing> {
        let mut raw: Vec<u64> = self.raw(metric.name)?.iter().map(|(_, raw)| *raw).collect();
        raw.sort_unstable();
        Ok(Q::from_raw(raw[raw.len() / 2]))
    }

    /// The growth of a counter from the first sample to the last, and over how long.
    ///
    /// Missing with fewer than two samples: a counter's single reading holds the whole past. One that fell began
    /// anew, like those of a restarted probe; its loss in between is not estimated.
    pub fn delta<Q: Quantity>(
        &self,
        metric: Metric<Q>,
    ) -> Result<(Q, std::time::Duration), Missing> {
        let samples = self.raw(metric.name)?;
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        if samples.len() < 2 || last.0 <= first.0 {
            return Err(self.missing(metric.name));
        }
        let grown = samples.windows(2).map(|pair| pair[1].1.saturating_sub(pair[0].1)).sum();
        Ok((Q::from_raw(grown), last.0.since(first.0)))
    }

    /// The growth of a counter from the first sample to the last, in its unit.
    pub fn grown<Q: Quantity>(&self, metric: Metric<Q>) -> Result<f64, Missing> {
        Ok(self.delta(metric)?.0.number())
    }

    /// The same a second; of a time, the share of each second, or CPUs' worth where several have
    /// it.
    pub fn rate<Q: Quantity>(&self, metric: Metric<Q>) -> Result<f64, Missing> {
        let (grown, over) = self.delta(metric)?;
        Ok(grown.number() / over.as_secs_f64())
    }

    /// The mean over all samples, in its unit.
    pub fn mean<Q: Quantity>(&self, metric: Metric<Q>) -> Result<f64, Missing> {
        let all = self.all(metric)?;
        Ok(all.iter().map(|(_, value)| value.number()).sum::<f64>() / all.len() as f64)
    }

    /// The share of the samples of which this is so, 0 to 1.
    pub fn share<Q: Quantity>(
        &self,
        metric: Metric<Q>,
        is: impl Fn(Q) -> bool,
    ) -> Result<f64, Missing> {
        let all = self.all(metric)?;
        Ok(all.iter().filter(|(_, value)| is(*value)).count() as f64 / all.len() as f64)
    }

    /// The same of two metrics that are sampled together, by the samples of the first.
    pub fn share_of_both<A: Quantity, B: Quantity>(
        &self,
        a: Metric<A>,
        b: Metric<B>,
        are: impl Fn(A, B) -> bool,
    ) -> Result<f64, Missing> {
        let (all, both) = (self.raw(a.name)?.len(), self.both(a, b)?);
        Ok(both.into_iter().filter(|(a, b)| are(*a, *b)).count() as f64 / all as f64)
    }

    fn raw(&self, metric: &str) -> Result<&'a [(Timestamp, u64)], Missing> {
        let samples = self
            .metrics
            .and_then(|metrics| metrics.get(metric))
            .ok_or_else(|| self.missing(metric))?;
        let samples = match &self.window {
            None => samples.as_slice(),
            Some(window) => {
                let from = samples.partition_point(|(at, _)| at < window.start());
                let to = samples.partition_point(|(at, _)| at <= window.end());
                &samples[from.min(to)..to]
            }
        };
        if samples.is_empty() { Err(self.missing(metric)) } else { Ok(samples) }
    }

    fn missing(&self, metric: &str) -> Missing {
        Missing { metric: metric.to_owned(), of: self.subject.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACKS: Metric<u64> = Metric::new("netstat.delayed_acks");

    #[test]
    fn a_counter_that_began_anew_grew_before_and_after() {
        let mut evidence = Evidence::default();
        for (at, count) in [(0, 100), (1, 130), (2, 5), (3, 25)] {
            evidence.push(Timestamp(at), Subject::Host, ACKS, count);
        }
        let (grown, over) = evidence.of(Subject::Host).delta(ACKS).unwrap();
        // 30 before, 20 after.
        assert_eq!((grown, over.as_nanos()), (50, 3));
    }

    #[test]
    fn a_counter_is_subtracted_and_one_reading_is_missing_evidence() {
        let mut evidence = Evidence::default();
        evidence.push(Timestamp(0), Subject::Stack(Side::Server), ACKS, 1_000);
        let of = evidence.of(Subject::Stack(Side::Server));
        assert!(of.delta(ACKS).is_err());

        evidence.push(Timestamp(2_000_000_000), Subject::Stack(Side::Server), ACKS, 1_048);
        let of = evidence.of(Subject::Stack(Side::Server));
        assert_eq!(of.delta(ACKS), Ok((48, std::time::Duration::from_secs(2))));
    }

    #[test]
    fn a_window_without_samples_is_missing_and_says_of_what() {
        let mut evidence = Evidence::default();
        evidence.push(Timestamp(5), Subject::Host, ACKS, 1);
        let of = evidence.of(Subject::Host).within(Timestamp(6)..=Timestamp(9));
        assert_eq!(of.last(ACKS).unwrap_err().to_string(), "needs netstat.delayed_acks of host");
    }
}
