//! One direction of a link that the lab laid: what entered, what left, and what happened to the
//! rest.
//!
//! The path's emulator counts it: our own line by its threads, the kernel's netem by its queueing discipline's
//! statistics. Packets are segments everywhere: a super-frame counts as what it holds.
//!
//! Blind spot: netem has no separate counts of losses on purpose and at its limit, nor of its lateness; those metrics
//! are missing there.

use std::time::Duration;

use linerate_model::{Bytes, Timestamp};

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::metric::{Metric, Quantity};
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "link",
    says: "one direction of a link that the lab laid",
    of: "link/N/WAY",
    fetch: Fetch::Link,
    metrics: METRICS,
    parse: Parse::Link,
};

metrics! {
    /// Packets that came to the link, since it was laid; a super-frame counts as the segments it holds.
    PACKETS_IN: u64 = "link.packets_in", "1";
    /// Their bytes, IP headers included, since the link was laid.
    BYTES_IN: Bytes = "link.bytes_in", "B";
    /// Packets that left the link at its other end, since it was laid; duplicates count.
    PACKETS_OUT: u64 = "link.packets_out", "1";
    /// Their bytes, IP headers included, since the link was laid.
    BYTES_OUT: Bytes = "link.bytes_out", "B";
    /// Frames in which the packets came, since the link was laid; fewer than packets where super-frames are let through.
    FRAMES_IN: u64 = "link.frames_in", "1";
    /// Packets dropped because the queue before the rate was full, or by its AQM, since the link was laid.
    DROPPED_QUEUE: u64 = "link.dropped_queue", "1";
    /// Packets dropped because the link held as many as its `limit` lets it, since it was laid.
    DROPPED_LIMIT: u64 = "link.dropped_limit", "1";
    /// Packets lost at random as the plan asks, since the link was laid.
    DROPPED_LOSS: u64 = "link.dropped_loss", "1";
    /// Packets dropped because they were larger than the link carries, since it was laid.
    DROPPED_SIZE: u64 = "link.dropped_size", "1";
    /// Frames that the emulator itself failed to carry, since the link was laid: its device's queue was full, or the far device took no more. Not of the plan.
    DROPPED_DEVICE: u64 = "link.dropped_device", "1";
    /// Packets dropped for whatever reason, where the emulator does not say why, since the link was laid.
    DROPPED: u64 = "link.dropped", "1";
    /// Packets that were sent twice as the plan asks, since the link was laid.
    DUPLICATED: u64 = "link.duplicated", "1";
    /// Packets that skipped the delay as the plan asks, since the link was laid.
    REORDERED: u64 = "link.reordered", "1";
    /// Packets that wait for the rate; a state.
    QUEUE: u64 = "link.queue", "1";
    /// Most packets that waited for the rate at once since the sample before.
    QUEUE_MOST: u64 = "link.queue_most", "1";
    /// Packets that the link holds, those in delay included; a state.
    HELD: u64 = "link.held", "1";
    /// Most packets that it held at once since the sample before.
    HELD_MOST: u64 = "link.held_most", "1";
    /// Time by which frames left later than they were due, summed up since the link was laid: the emulator's own error.
    LATE: Duration = "link.late", "ns";
    /// Most by which a frame left later than it was due since the sample before.
    LATE_MOST: Duration = "link.late_most", "ns";
    /// Frames that left, since the link was laid: what `link.late` is to be divided by.
    FRAMES_OUT: u64 = "link.frames_out", "1";
    /// CPU time of the thread that carries this way, since the link was laid.
    CPU: Duration = "link.cpu", "ns";
}

/// One direction's figures. None: the emulator does not have it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DirectionReading {
    /// See [`PACKETS_IN`].
    pub packets_in: Option<u64>,
    /// See [`BYTES_IN`].
    pub bytes_in: Option<Bytes>,
    /// See [`PACKETS_OUT`].
    pub packets_out: Option<u64>,
    /// See [`BYTES_OUT`].
    pub bytes_out: Option<Bytes>,
    /// See [`FRAMES_IN`].
    pub frames_in: Option<u64>,
    /// See [`FRAMES_OUT`].
    pub frames_out: Option<u64>,
    /// See [`DROPPED_QUEUE`].
    pub dropped_queue: Option<u64>,
    /// See [`DROPPED_LIMIT`].
    pub dropped_limit: Option<u64>,
    /// See [`DROPPED_LOSS`].
    pub dropped_loss: Option<u64>,
    /// See [`DROPPED_SIZE`].
    pub dropped_size: Option<u64>,
    /// See [`DROPPED_DEVICE`].
    pub dropped_device: Option<u64>,
    /// See [`DROPPED`].
    pub dropped: Option<u64>,
    /// See [`DUPLICATED`].
    pub duplicated: Option<u64>,
    /// See [`REORDERED`].
    pub reordered: Option<u64>,
    /// See [`QUEUE`].
    pub queue: Option<u64>,
    /// See [`QUEUE_MOST`].
    pub queue_most: Option<u64>,
    /// See [`HELD`].
    pub held: Option<u64>,
    /// See [`HELD_MOST`].
    pub held_most: Option<u64>,
    /// See [`LATE`].
    pub late: Option<Duration>,
    /// See [`LATE_MOST`].
    pub late_most: Option<Duration>,
    /// See [`CPU`].
    pub cpu: Option<Duration>,
}

impl DirectionReading {
    /// Adds its figures as samples of `of`, a [`Subject::Link`].
    pub fn push(&self, at: Timestamp, of: Subject, evidence: &mut Evidence) {
        fn add<Q: Quantity>(
            (at, of, evidence): (Timestamp, Subject, &mut Evidence),
            metric: Metric<Q>,
            value: Option<Q>,
        ) {
            if let Some(value) = value {
                evidence.push(at, of, metric, value);
            }
        }
        add((at, of, evidence), PACKETS_IN, self.packets_in);
        add((at, of, evidence), BYTES_IN, self.bytes_in);
        add((at, of, evidence), PACKETS_OUT, self.packets_out);
        add((at, of, evidence), BYTES_OUT, self.bytes_out);
        add((at, of, evidence), FRAMES_IN, self.frames_in);
        add((at, of, evidence), FRAMES_OUT, self.frames_out);
        add((at, of, evidence), DROPPED_QUEUE, self.dropped_queue);
        add((at, of, evidence), DROPPED_LIMIT, self.dropped_limit);
        add((at, of, evidence), DROPPED_LOSS, self.dropped_loss);
        add((at, of, evidence), DROPPED_SIZE, self.dropped_size);
        add((at, of, evidence), DROPPED_DEVICE, self.dropped_device);
        add((at, of, evidence), DROPPED, self.dropped);
        add((at, of, evidence), DUPLICATED, self.duplicated);
        add((at, of, evidence), REORDERED, self.reordered);
        add((at, of, evidence), QUEUE, self.queue);
        add((at, of, evidence), QUEUE_MOST, self.queue_most);
        add((at, of, evidence), HELD, self.held);
        add((at, of, evidence), HELD_MOST, self.held_most);
        add((at, of, evidence), LATE, self.late);
        add((at, of, evidence), LATE_MOST, self.late_most);
        add((at, of, evidence), CPU, self.cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Direction;

    #[test]
    fn what_a_link_does_not_say_is_missing_and_not_zero() {
        let mut evidence = Evidence::default();
        let of = Subject::Link(0, Direction::Outbound);
        let reading = DirectionReading { packets_in: Some(7), ..DirectionReading::default() };
        reading.push(Timestamp(5), of, &mut evidence);
        assert_eq!(evidence.of(of).last(PACKETS_IN), Ok(7));
        assert!(evidence.of(of).last(DROPPED_QUEUE).is_err());
    }

    #[test]
    fn every_metric_of_the_table_is_pushed_where_it_is_told() {
        let all = DirectionReading {
            packets_in: Some(1),
            bytes_in: Some(Bytes(1)),
            packets_out: Some(1),
            bytes_out: Some(Bytes(1)),
            frames_in: Some(1),
            frames_out: Some(1),
            dropped_queue: Some(1),
            dropped_limit: Some(1),
            dropped_loss: Some(1),
            dropped_size: Some(1),
            dropped_device: Some(1),
            dropped: Some(1),
            duplicated: Some(1),
            reordered: Some(1),
            queue: Some(1),
            queue_most: Some(1),
            held: Some(1),
            held_most: Some(1),
            late: Some(Duration::from_nanos(1)),
            late_most: Some(Duration::from_nanos(1)),
            cpu: Some(Duration::from_nanos(1)),
        };
        let mut evidence = Evidence::default();
        all.push(Timestamp(5), Subject::Link(1, Direction::Return), &mut evidence);
        let (_, _, values) = evidence.rows().remove(0);
        assert_eq!(values.len(), METRICS.len());
        assert!(METRICS.iter().all(|metric| values.contains_key(metric.name)));
    }
}
