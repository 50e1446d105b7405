//! What holds of every pipe, whatever it is asked for: driven in virtual time, to each next instant at which
//! a packet comes or something is due.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use linerate_model::{Aqm, BitRate, Bytes, OneDirection, Path, Queue, Share, Timestamp};
use linerate_netpath::{Counters, Packet, Pipe, Trace};
use proptest::prelude::*;

/// Segments of consecutive ids, all but the last of one size.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Frame {
    id: u64,
    segments: u32,
    each: u64,
    last: u64,
}

impl Packet for Frame {
    fn segments(&self) -> u32 {
        self.segments
    }

    fn bytes(&self) -> u64 {
        u64::from(self.segments - 1) * self.each + self.last
    }

    fn largest(&self) -> u64 {
        if self.segments == 1 { self.last } else { self.each }
    }

    fn split_first(&mut self, segments: u32) -> Self {
        assert!(0 < segments && segments < self.segments, "{segments} of {}", self.segments);
        let first = Self { id: self.id, segments, each: self.each, last: self.each };
        self.id += u64::from(segments);
        self.segments -= segments;
        first
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}

impl Frame {
    fn ids(&self) -> impl Iterator<Item = u64> + use<> {
        self.id..self.id + u64::from(self.segments)
    }

    fn apart(&self) -> Vec<Self> {
        let size = |place| if place + 1 == self.segments { self.last } else { self.each };
        (0..self.segments)
            .map(|place| (self.id + u64::from(place), size(place)))
            .map(|(id, size)| Self { id, segments: 1, each: size, last: size })
            .collect()
    }
}

/// What came of a drive.
#[derive(Debug, Eq, PartialEq)]
struct Driven {
    left: Vec<(Timestamp, Frame)>,
    counters: Counters,
}

impl Driven {
    /// When each segment left, in the order in which they left.
    fn segments(&self) -> Vec<(Timestamp, u64)> {
        self.left.iter().flat_map(|(at, frame)| frame.ids().map(|id| (*at, id))).collect()
    }
}

/// Sends all through and checks at every step what holds at every step.
fn drive(way: &OneDirection, trace: Option<Trace>, frames: &[(Timestamp, Frame)]) -> Driven {
    let mut pipe = Pipe::new(way, trace);
    let mut left = Vec::new();
    let mut coming = frames.iter().cloned().peekable();
    loop {
        let arrival = coming.peek().map(|(at, _)| *at);
        let now = match (arrival, pipe.next_due()) {
            (None, None) => break,
            (Some(at), None) | (None, Some(at)) => at,
            (Some(at), Some(due)) => at.min(due),
        };
        while let Some(frame) = pipe.pop(now) {
            left.push((now, frame));
        }
        assert!(pipe.next_due().is_none_or(|due| due > now), "nothing is due twice");
        while let Some((_, frame)) = coming.next_if(|(at, _)| *at == now) {
            pipe.push(now, frame);
            while let Some(frame) = pipe.pop(now) {
                left.push((now, frame));
            }
        }
        let counters = pipe.counters();
        assert_eq!(
            counters.packets_in + counters.duplicated,
            counters.packets_out + counters.dropped() + pipe.held()
        );
        assert!(way.limit.is_none_or(|limit| pipe.held() <= u64::from(limit)));
        match way.queue {
            Queue::Packets(most) => {
                assert!(pipe.queued() <= u64::from(most));
                assert!(counters.queue_most <= u64::from(most));
            }
            Queue::Bytes(most) => assert!(pipe.queued_bytes() <= most.0),
        }
        assert!(pipe.queued() <= pipe.held() && pipe.held() <= counters.held_most);
    }
    assert_eq!((pipe.held(), pipe.queued()), (0, 0));
    Driven { left, counters: pipe.counters() }
}

fn way(path: Path) -> OneDirection {
    path.directions()[0].clone()
}

fn plain(bytes: u64, at: impl IntoIterator<Item = u64>) -> Vec<(Timestamp, Frame)> {
    at.into_iter()
        .enumerate()
        .map(|(id, at)| {
            (Timestamp(at), Frame { id: id as u64, segments: 1, each: bytes, last: bytes })
        })
        .collect()
}

prop_compose! {
    fn frames(most_segments: u32)(
        shapes in proptest::collection::vec(
            (0u64..3_000_000, 1..=most_segments, 60u64..=1500, 0.0..1.0f64, any::<bool>()), 0..120),
    ) -> Vec<(Timestamp, Frame)> {
        let (mut now, mut id) = (1_000, 0);
        shapes
            .into_iter()
            .map(|(gap, segments, each, last, burst)| {
                now += if burst { 0 } else { gap };
                let last = 60 + ((each - 60) as f64 * last) as u64;
                let frame = Frame { id, segments, each, last };
                id += u64::from(segments);
                (Timestamp(now), frame)
            })
            .collect()
    }
}

prop_compose! {
    fn any_queue()(packets in 1u32..300, bytes in 1500u64..200_000, by_bytes: bool) -> Queue {
        if by_bytes { Queue::Bytes(Bytes(bytes)) } else { Queue::Packets(packets) }
    }
}

prop_compose! {
    /// All but what makes delays differ.
    fn steady()(
        rtt in 0u64..40_000_000,
        rate in proptest::option::of(1e5..1e10f64),
        queue in any_queue(),
        codel: bool,
        (loss, burst) in (0.0..0.5f64, 1.0..8.0f64),
        duplicate in 0.0..0.3f64,
        largest in proptest::option::of(200u64..1500),
        (lossy, doubling) in any::<(bool, bool)>(),
        seed: u64,
    ) -> Path {
        Path {
            rtt: Duration::from_nanos(rtt),
            rate: rate.map(BitRate),
            queue: Some(queue),
            aqm: if codel { Aqm::Codel } else { Aqm::Droptail },
            loss: Share(if lossy { loss } else { 0.0 }),
            loss_burst: burst,
            duplicate: Share(if doubling { duplicate } else { 0.0 }),
            largest: largest.map(Bytes),
            seed,
            ..Path::default()
        }
    }
}

prop_compose! {
    fn any_path()(
        steady in steady(),
        jitter in 0.0..1.0f64,
        (shaky, keep_order, overtaking) in any::<(bool, bool, bool)>(),
        reorder in 0.0..0.5f64,
        limit in proptest::option::of(1u32..500),
    ) -> Path {
        Path {
            jitter: if shaky { steady.rtt.mul_f64(jitter / 2.0) } else { Duration::ZERO },
            keep_order,
            reorder: Share(if overtaking { reorder } else { 0.0 }),
            limit,
            ..steady
        }
    }
}

fn any_trace() -> impl Strategy<Value = Option<Trace>> {
    let trace = proptest::collection::vec(0u64..4, 1..40).prop_map(|gaps| {
        let mut at = 0;
        let mut text = String::new();
        for gap in gaps {
            at += gap;
            text += &format!("{at}\n");
        }
        Trace::parse(&format!("{text}{}\n", at + 1)).unwrap()
    });
    proptest::option::weighted(0.3, trace)
}

proptest! {
    #[test]
    fn what_went_in_left_was_dropped_or_is_held_and_the_same_seed_does_the_same(
        path in any_path(), trace in any_trace(), frames in frames(50),
    ) {
        let way = way(path);
        let driven = drive(&way, trace.clone(), &frames);
        let segments: u64 = frames.iter().map(|(_, frame)| u64::from(frame.segments)).sum();
        prop_assert_eq!(driven.counters.packets_in, segments);
        let bytes: u64 = driven.left.iter().map(|(_, frame)| frame.bytes()).sum();
        prop_assert_eq!(driven.counters.bytes_out, bytes);
        // Each segment that left has the size that it came with.
        let sizes: Vec<u64> = frames
            .iter()
            .flat_map(|(_, frame)| frame.apart().into_iter().map(|segment| segment.last))
            .collect();
        for (_, frame) in &driven.left {
            for segment in frame.apart() {
                prop_assert_eq!(segment.last, sizes[segment.id as usize]);
            }
        }
        prop_assert_eq!(drive(&way, trace, &frames), driven);
    }

    #[test]
    fn what_is_to_keep_its_order_keeps_it(
        path in any_path(), trace in any_trace(), frames in frames(50),
    ) {
        let path = Path { keep_order: true, reorder: Share(0.0), ..path };
        let driven = drive(&way(path), trace, &frames);
        let ids: Vec<u64> = driven.segments().into_iter().map(|(_, id)| id).collect();
        prop_assert!(ids.is_sorted(), "{ids:?}");
    }

    #[test]
    fn a_delay_alone_is_exact(rtt in 0u64..400_000_000, frames in frames(50)) {
        let path = Path::of_rtt(Duration::from_nanos(rtt));
        let driven = drive(&way(path), None, &frames);
        let expected: Vec<_> = frames
            .into_iter()
            .map(|(at, frame)| (Timestamp(at.0 + rtt / 2), frame))
            .collect();
        prop_assert_eq!(driven.left, expected);
    }

    #[test]
    fn jitter_is_within_what_was_asked(
        jitter in 0u64..10_000_000, keep_order: bool, frames in frames(1),
    ) {
        let path = Path {
            jitter: Duration::from_nanos(jitter),
            keep_order,
            ..Path::of_rtt(Duration::from_millis(20))
        };
        let driven = drive(&way(path), None, &frames);
        prop_assert_eq!(driven.left.len(), frames.len());
        for (at, frame) in &driven.left {
            let delay = at.since(frames[frame.id as usize].0).as_nanos() as u64;
            prop_assert!(delay.abs_diff(10_000_000) <= jitter, "{delay}");
        }
    }

    /// Lindley's recursion, packet by packet, in floating point: off by a nanosecond at most.
    #[test]
    fn a_rate_sends_each_bit_when_those_before_it_have_left(
        rate in 1e5..1e10f64, rtt in 0u64..20_000_000, frames in frames(1),
    ) {
        let path = Path {
            rate: Some(BitRate(rate)),
            queue: Some(Queue::Packets(100_000)),
            ..Path::of_rtt(Duration::from_nanos(rtt))
        };
        let driven = drive(&way(path), None, &frames);
        prop_assert_eq!(driven.left.len(), frames.len());
        let mut end = 0.0f64;
        for ((came, packet), (left, _)) in frames.iter().zip(&driven.left) {
            end = end.max(came.0 as f64) + packet.bytes() as f64 * 8e9 / rate;
            let expected = end + (rtt / 2) as f64;
            let left = left.0 as f64;
            prop_assert!((-0.01..1.01).contains(&(left - expected)), "{left} {expected}");
        }
    }

    #[test]
    fn a_rate_holds_within_one_packet_over_any_window(
        rate in 1e5..1e9f64, queue in any_queue(), frames in frames(50),
    ) {
        let path = Path { rate: Some(BitRate(rate)), queue: Some(queue), ..Path::default() };
        let driven = drive(&way(path), None, &frames);
        // What left after one instant and by another took the time that its bits take; a frame that left
        // whole was sent before it left.
        for (index, (from, _)) in driven.left.iter().enumerate() {
            let mut bytes = 0;
            for (to, frame) in &driven.left[index + 1..] {
                bytes += frame.bytes();
                let needs = bytes as f64 * 8e9 / rate;
                prop_assert!(to.nanos_since(*from) as f64 + 1.0 >= needs);
            }
        }
    }

    /// The same segments survive, in the same order, and none is early or more than a millisecond late.
    #[test]
    fn a_frame_meets_what_its_segments_would_meet(
        path in steady(), trace in any_trace(), frames in frames(50),
    ) {
        let apart: Vec<_> = frames
            .iter()
            .flat_map(|(at, frame)| frame.apart().into_iter().map(|segment| (*at, segment)))
            .collect();
        let way = way(path);
        let whole = drive(&way, trace.clone(), &frames);
        let apart = drive(&way, trace, &apart);
        prop_assert_eq!(Counters { held_most: 0, ..whole.counters }, Counters { held_most: 0, ..apart.counters });
        let (whole, apart) = (whole.segments(), apart.segments());
        prop_assert_eq!(whole.len(), apart.len());
        for ((left, id), (alone, same)) in whole.into_iter().zip(apart) {
            prop_assert_eq!(id, same);
            prop_assert!(left >= alone && left.nanos_since(alone) <= 1_000_001, "{left:?} {alone:?}");
        }
    }

    #[test]
    fn a_trace_delivers_at_most_an_opportunitys_bytes_each(
        gaps in proptest::collection::vec(0u64..4, 1..40), frames in frames(1),
    ) {
        let times: Vec<u64> =
            gaps.iter().scan(1, |at, gap| { *at += gap; Some(*at) }).collect();
        let text: String = times.iter().map(|at| format!("{at}\n")).collect();
        let driven = drive(&way(Path::default()), Some(Trace::parse(&text).unwrap()), &frames);
        let (began, length) = (frames.first().map_or(0, |(at, _)| at.0), times.last().unwrap());
        let mut bytes = 0;
        for (at, frame) in &driven.left {
            let ms = (at.0 - began) / 1_000_000;
            prop_assert_eq!((at.0 - began) % 1_000_000, 0);
            bytes += frame.bytes();
            let rounds = ms / length * times.len() as u64;
            let so_far = times.iter().filter(|time| **time <= ms % length).count() as u64;
            prop_assert!(bytes <= (rounds + so_far) * 1504);
        }
    }
}

#[test]
fn a_packet_is_due_one_delay_after_it_came_and_not_a_nanosecond_before() {
    let mut pipe = Pipe::new(&way(Path::of_rtt(Duration::from_millis(20))), None);
    let (_, packet) = plain(100, [0]).remove(0);
    pipe.push(Timestamp(5), packet.clone());
    assert_eq!(pipe.next_due(), Some(Timestamp(10_000_005)));
    assert_eq!(pipe.pop(Timestamp(10_000_004)), None);
    assert_eq!(pipe.pop(Timestamp(10_000_005)), Some(packet));
    assert_eq!((pipe.next_due(), pipe.held()), (None, 0));
}

#[test]
fn a_clock_that_steps_back_reorders_nothing() {
    let mut pipe = Pipe::new(&way(Path::of_rtt(Duration::from_millis(20))), None);
    for (at, (_, packet)) in [100, 50].into_iter().zip(plain(100, [0, 0])) {
        pipe.push(Timestamp(at), packet);
    }
    let id = |frame: Option<Frame>| frame.map(|frame| frame.id);
    assert_eq!(id(pipe.pop(Timestamp(10_000_099))), None);
    assert_eq!(id(pipe.pop(Timestamp(10_000_100))), Some(0));
    assert_eq!(id(pipe.pop(Timestamp(10_000_100))), Some(1));
}

#[test]
fn a_thousand_packets_at_5_ms_admit_200_000_a_second() {
    // 300,000 packets/s for a second into limit 1000 over 5 ms: 1,000 leave each 5 ms.
    let path = Path { limit: Some(1000), ..Path::of_rtt(Duration::from_millis(10)) };
    let driven = drive(&way(path), None, &plain(1026, (0..300_000).map(|n| n * 10_000 / 3)));
    assert!((199_000..=201_000).contains(&driven.counters.packets_out), "{:?}", driven.counters);
    assert_eq!(driven.counters.packets_out + driven.counters.dropped_limit, 300_000);
    assert_eq!(driven.counters.held_most, 1000);
}

#[test]
fn a_full_queue_adds_its_own_length_over_the_rate() {
    // 12 Mbit/s: 1500 bytes a millisecond. 20 packets at once, room for 10.
    let path = Path {
        rate: Some(BitRate(12e6)),
        queue: Some(Queue::Packets(10)),
        ..Path::of_rtt(Duration::from_millis(2))
    };
    let driven = drive(&way(path), None, &plain(1500, std::iter::repeat_n(0, 20)));
    let times: Vec<u64> = driven.left.iter().map(|(at, _)| at.0 / 1_000_000).collect();
    assert_eq!(times, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!((driven.counters.dropped_queue, driven.counters.queue_most), (10, 10));
}

#[test]
fn codel_ends_a_standing_queue_that_drop_tail_keeps() {
    // 13 packets a 12 ms into 12 a 12 ms: after 5 s drop-tail's 1,000 are some 400 full, and 400 ms late.
    let coming = || plain(1500, (0..5_400).map(|n| n * 12_000_000 / 13));
    let latest = |aqm| {
        let path = Path {
            rate: Some(BitRate(12e6)),
            queue: Some(Queue::Packets(1000)),
            aqm,
            ..Path::default()
        };
        let driven = drive(&way(path), None, &coming());
        let late: Vec<u64> = driven
            .left
            .iter()
            .map(|(at, frame)| (at.0 - frame.id * 12_000_000 / 13) / 1_000_000)
            .collect();
        late[late.len() - 500..].iter().sum::<u64>() / 500
    };
    let (droptail, codel) = (latest(Aqm::Droptail), latest(Aqm::Codel));
    assert!(droptail > 300, "{droptail} ms");
    assert!(codel < droptail / 2, "{codel} ms of {droptail}");
}

#[test]
fn as_many_overtake_as_were_asked_for() {
    let path = Path { reorder: Share(0.1), ..Path::of_rtt(Duration::from_millis(10)) };
    let driven = drive(&way(path), None, &plain(100, (0..20_000).map(|n| n * 10_000)));
    let skipped = driven.left.iter().filter(|(at, frame)| at.0 == frame.id * 10_000).count();
    // 2,000, deviation 42
    assert!((1_790..2_210).contains(&skipped), "{skipped}");
    assert_eq!(driven.counters.reordered, skipped as u64);
}

#[test]
fn the_way_back_draws_apart_from_the_way_out() {
    let path = Path { loss: Share(0.5), ..Path::default() };
    let lost = |way: &OneDirection| drive(way, None, &plain(100, 0..1000)).left;
    let [out, back] = path.directions();
    assert_ne!(lost(&out), lost(&back));
}
