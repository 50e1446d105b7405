//! What several hosts report of one subject, added up: four servers' stacks are one `stack/server`.

use std::collections::BTreeMap;

use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;

/// Adds the sum of all readings to the evidence, each number as of the last reading that has it. What is not in every
/// reading is left out: a counter must not fall because a host could not be read.
///
/// Blind spot: a limit or a state that is the same for all, as a protocol's memory limits are, is added
/// up as well.
pub(crate) fn add_up(mut readings: Vec<Evidence>, evidence: &mut Evidence) {
    if readings.len() <= 1 {
        if let Some(one) = readings.pop() {
            evidence.absorb(one);
        }
        return;
    }
    let mut sums: BTreeMap<(Subject, &str), (Timestamp, u64, usize)> = BTreeMap::new();
    for reading in &readings {
        for (at, of, values) in reading.rows() {
            for (metric, raw) in values {
                let sum = sums.entry((of, metric)).or_default();
                *sum = (sum.0.max(at), sum.1.saturating_add(raw), sum.2 + 1);
            }
        }
    }
    for ((of, metric), (at, sum, count)) in sums {
        if count == readings.len() || matches!(of, Subject::Listener(_)) {
            evidence.push_raw(at, of, metric, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_evidence::{Metric, Side};

    use super::*;

    const SEGMENTS: Metric<u64> = Metric::new("snmp.in_segs");
    const STACK: Subject = Subject::Stack(Side::Server);

    fn reading(at: u64, of: Subject, value: u64) -> Evidence {
        let mut evidence = Evidence::default();
        evidence.push(Timestamp(at), of, SEGMENTS, value);
        evidence
    }

    #[test]
    fn two_hosts_are_their_sum_and_one_is_itself() {
        let mut evidence = Evidence::default();
        add_up(vec![reading(5, STACK, 40), reading(7, STACK, 2)], &mut evidence);
        assert_eq!(evidence.of(STACK).all(SEGMENTS), Ok(vec![(Timestamp(7), 42)]));
        let mut evidence = Evidence::default();
        add_up(vec![reading(5, STACK, 40)], &mut evidence);
        assert_eq!(evidence.of(STACK).all(SEGMENTS), Ok(vec![(Timestamp(5), 40)]));
    }

    #[test]
    fn a_host_that_could_not_be_read_leaves_no_half_sum() {
        let mut evidence = Evidence::default();
        add_up(vec![reading(5, STACK, 40), Evidence::default()], &mut evidence);
        assert!(evidence.of(STACK).last(SEGMENTS).is_err());
        // Listeners of other ports are other subjects.
        let port = Subject::Listener(80);
        add_up(vec![reading(5, port, 40), Evidence::default()], &mut evidence);
        assert_eq!(evidence.of(port).last(SEGMENTS), Ok(40));
    }
}
