//! Delay: each packet so much later than it came, give or take its jitter; some skip it, and overtake.
//!
//! Jitter is uniform. Where order is kept, a packet waits for the one before it, so that the delay of a
//! dense flow is near the longest. Where it is not, each segment of a frame has a jitter of its own.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use fastrand::Rng;
use linerate_model::{OneDirection, Timestamp};

use crate::chance::{Hits, Piece, generator};
use crate::counters::Counters;
use crate::packet::{Packet, first};
use crate::stages::Stage;

pub(super) const STAGE: Stage = Stage {
    name: "delay",
    does: "Delays each packet, in order or not; some skip it.",
    keys: &["rtt", "jitter", "keep_order", "reorder"],
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Transit<P> {
    /// The shortest delay, and by how much the longest is longer; ns.
    shortest: u64,
    spread: u64,
    keep_order: bool,
    random: Rng,
    skips: Hits,
    /// When the last that did not skip is due.
    last: Timestamp,
    travelling: Travelling<P>,
    packets: u64,
}

/// In order of when they are due.
#[derive(Clone, Debug)]
enum Travelling<P> {
    /// Nothing overtakes.
    Line(VecDeque<(Timestamp, P)>),
    Any {
        heap: BinaryHeap<Due<P>>,
        came: u64,
    },
}

#[derive(Clone, Debug)]
struct Due<P> {
    at: Timestamp,
    /// Which came first leaves first where both are due.
    came: u64,
    packet: P,
}

impl<P: Packet> Transit<P> {
    pub fn new(way: &OneDirection) -> Self {
        let (delay, jitter) = (way.delay.as_nanos() as u64, way.jitter.as_nanos() as u64);
        let jitter = jitter.min(delay);
        let skips = Hits::new(way.reorder, generator(way.seed, "reorder"));
        let keep_order = way.keep_order || jitter == 0;
        let travelling = if keep_order && skips.never() {
            Travelling::Line(VecDeque::new())
        } else {
            Travelling::Any { heap: BinaryHeap::new(), came: 0 }
        };
        Self {
            shortest: delay - jitter,
            spread: 2 * jitter,
            keep_order,
            random: generator(way.seed, "delay"),
            skips,
            last: Timestamp(0),
            travelling,
            packets: 0,
        }
    }

    /// Takes a packet that came at `at`, no earlier than the one before it.
    pub fn push(&mut self, at: Timestamp, packet: P, counters: &mut Counters) {
        self.packets += u64::from(packet.segments());
        if let Travelling::Line(_) = self.travelling {
            return self.delay(at, packet);
        }
        let mut rest = Some(packet);
        while let Some(piece) = self.skips.next(&mut rest) {
            match piece {
                Piece::Hit(packet) => {
                    counters.reordered += 1;
                    self.travelling.hold(at, packet);
                }
                Piece::Missed(packet) if self.keep_order => self.delay(at, packet),
                Piece::Missed(packet) => {
                    let mut rest = Some(packet);
                    while let Some(segment) = first(&mut rest, 1) {
                        self.delay(at, segment);
                    }
                }
            }
        }
    }

    /// The next packet that is due at `now`.
    pub fn pop(&mut self, now: Timestamp) -> Option<P> {
        let packet = self.travelling.pop(now)?;
        self.packets -= u64::from(packet.segments());
        Some(packet)
    }

    /// When the next packet is due; none when none is on its way.
    pub fn next_due(&self) -> Option<Timestamp> {
        match &self.travelling {
            Travelling::Line(line) => line.front().map(|(due, _)| *due),
            Travelling::Any { heap, .. } => heap.peek().map(|due| due.at),
        }
    }

    /// When one that came at `at` is due at the earliest.
    pub fn earliest(&self, at: Timestamp) -> Timestamp {
        if self.skips.never() { Timestamp(at.0.saturating_add(self.shortest)) } else { at }
    }

    /// Packets on their way.
    pub fn held(&self) -> u64 {
        self.packets
    }

    fn delay(&mut self, at: Timestamp, packet: P) {
        let jitter = if self.spread == 0 { 0 } else { self.random.u64(0..=self.spread) };
        let mut due = Timestamp(at.0.saturating_add(self.shortest).saturating_add(jitter));
        if self.keep_order {
            due = due.max(self.last);
            self.last = due;
        }
        self.travelling.hold(due, packet);
    }
}

impl<P> Travelling<P> {
    fn hold(&mut self, due: Timestamp, packet: P) {
        match self {
            Travelling::Line(line) => line.push_back((due, packet)),
            Travelling::Any { heap, came } => {
                heap.push(Due { at: due, came: *came, packet });
                *came += 1;
            }
        }
    }

    fn pop(&mut self, now: Timestamp) -> Option<P> {
        match self {
            Travelling::Line(line) => match line.front() {
                Some((due, _)) if *due <= now => line.pop_front().map(|(_, packet)| packet),
                _ => None,
            },
            Travelling::Any { heap, .. } => heap
                .peek()
                .is_some_and(|due| due.at <= now)
                .then(|| heap.pop())?
                .map(|due| due.packet),
        }
    }
}

impl<P> Ord for Due<P> {
    /// The heap's greatest is the one that is due first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.came).cmp(&(self.at, self.came))
    }
}

impl<P> PartialOrd for Due<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Due<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for Due<P> {}
