//! Several counters as one, and its growth between any two instants.

use crate::evidence::Of;
use crate::metric::Metric;

/// Its samples: instants in seconds, and values.
#[derive(Clone, Debug, Default)]
pub struct Counter(Vec<(f64, f64)>);

impl Of<'_> {
    /// The sum of several counters, which are sampled together; none where one of them was not.
    pub fn sum(&self, metrics: &[Metric<u64>]) -> Option<Counter> {
        let (first, others) = metrics.split_first()?;
        let samples = self.all(*first).ok()?.into_iter();
        let mut sum: Vec<_> =
            samples.map(|(at, count)| (at.0 as f64 / 1e9, count as f64)).collect();
        for metric in others {
            let counts = self.values(*metric).ok()?;
            sum.iter_mut().zip(counts).for_each(|(total, count)| total.1 += count as f64);
        }
        Some(Counter(sum))
    }
}

impl Counter {
    /// How many samples it has.
    pub fn samples(&self) -> usize {
        self.0.len()
    }

    /// The instants of its first and last sample. Unit: seconds.
    pub fn ends(&self) -> Option<(f64, f64)> {
        Some((self.0.first()?.0, self.0.last()?.0))
    }

    /// Its growth between two instants, in seconds; even between samples.
    pub fn grown(&self, from: f64, to: f64) -> f64 {
        let pairs = self.0.windows(2).map(|pair| {
            let ((begin, before), (end, after)) = (pair[0], pair[1]);
            let inside = (to.min(end) - from.max(begin)).max(0.0);
            // A counter that fell lost the part of a closed channel.
            (after - before).max(0.0) * inside / (end - begin).max(1e-9)
        });
        pairs.sum()
    }
}
