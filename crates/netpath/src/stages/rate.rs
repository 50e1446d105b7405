//! Queue and rate: a packet's last bit leaves when those before it have left and its own bits are through.
//!
//! `leaves = max(end of the one before, arrival) + bytes x 8 / rate`, or, with a trace, when enough delivery
//! opportunities have come. What arrives meanwhile waits; a packet counts as waiting until it has left. Who
//! finds the queue full is dropped.
//!
//! A super-frame is paced as its segments. It leaves whole, with its last segment, or in parts where that
//! would make its first one more than [`LATEST`] late.

use std::collections::VecDeque;

use linerate_model::{Aqm, BitRate, Bytes, OneDirection, Queue, Timestamp};

use crate::codel::{CoDel, Judged};
use crate::counters::Counters;
use crate::fine::Fine;
use crate::packet::{Packet, first};
use crate::stages::{Stage, Transit};
use crate::trace::{Cursor, Trace};

pub(super) const STAGE: Stage = Stage {
    name: "rate",
    does: "Sends bits at a rate or by a trace; what waits for it is bounded.",
    keys: &["rate", "trace", "queue", "aqm"],
};

/// Chosen: a fifth of the shortest round trip that people call far, and 125 kB at 1 Gbit/s, so that from
/// there on frames of 64 KiB stay whole.
const LATEST: Fine = Fine::of_nanos(1_000_000);

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Link<P> {
    clock: Clock,
    room: Queue,
    codel: Option<CoDel>,
    /// The first of them is being sent.
    waiting: VecDeque<Waiting<P>>,
    /// Segments that have not left yet.
    packets: u64,
    bytes: u64,
    /// Segments of the first frame that are through and wait for the others.
    through: u32,
    /// When the segment that is being sent is through. Means nothing while none waits.
    end: Fine,
    /// When the first of those in `through` was, or that which is being sent.
    first_end: Fine,
    /// Nothing leaves before.
    leaves: Fine,
}

#[derive(Clone, Debug)]
struct Waiting<P> {
    since: Timestamp,
    packet: P,
    segments: u32,
    /// Bytes of each segment but the last.
    each: u64,
    last: u64,
}

#[derive(Clone, Debug)]
enum Clock {
    Rate { per_byte: Fine },
    Trace(Cursor),
}

impl<P: Packet> Link<P> {
    /// None where neither rate nor trace is.
    pub fn new(way: &OneDirection, trace: Option<Trace>) -> Option<Self> {
        let clock = match (trace, way.rate) {
            (Some(trace), _) => Clock::Trace(Cursor::new(trace)),
            (None, Some(rate)) => Clock::of(rate),
            (None, None) => return None,
        };
        Some(Self {
            clock,
            room: way.queue,
            codel: (way.aqm == Aqm::Codel).then(CoDel::default),
            waiting: VecDeque::new(),
            packets: 0,
            bytes: 0,
            through: 0,
            end: Fine::default(),
            first_end: Fine::default(),
            leaves: Fine::default(),
        })
    }

    /// Takes a packet at `now`, up to which all is settled.
    pub fn push(
        &mut self,
        now: Timestamp,
        packet: P,
        transit: &mut Transit<P>,
        counters: &mut Counters,
    ) {
        let idle = self.waiting.is_empty();
        let mut rest = Some(packet);
        while let Some(packet) = &rest {
            let segments = packet.segments();
            let fits = self.fits(packet);
            if fits > 0 {
                if let Some(packet) = first(&mut rest, fits) {
                    self.packets += u64::from(packet.segments());
                    self.bytes += packet.bytes();
                    self.waiting.push_back(Waiting::new(now, packet));
                }
            } else if segments > 1 {
                // The last may be smaller, and find room where the others do not.
                first(&mut rest, u64::from(segments - 1));
                counters.dropped_queue += u64::from(segments - 1);
            } else {
                counters.dropped_queue += 1;
                break;
            }
        }
        counters.queue_most = counters.queue_most.max(self.packets);
        if idle && !self.waiting.is_empty() {
            if let Clock::Trace(cursor) = &mut self.clock {
                cursor.skip_to(now);
            }
            self.send_next(Fine::of(now), transit, counters);
        }
    }

    /// Hands on all that has left by `now`.
    pub fn settle(&mut self, now: Timestamp, transit: &mut Transit<P>, counters: &mut Counters) {
        let now = Fine::of(now);
        while self.end <= now
            && let Some(head) = self.waiting.front()
        {
            let at = self.end;
            self.packets -= 1;
            self.bytes -= head.size(self.through);
            self.through += 1;
            if self.through == head.segments {
                self.through = 0;
                if let Some(Waiting { packet, .. }) = self.waiting.pop_front() {
                    transit.push(at.ceil(), packet, counters);
                }
            }
            self.send_next(at, transit, counters);
        }
    }

    /// Nothing leaves before; none when nothing waits.
    pub fn next_due(&self) -> Option<Timestamp> {
        (!self.waiting.is_empty()).then(|| self.leaves.max(self.end).ceil())
    }

    /// Packets that wait, the one that is being sent included.
    pub fn queued(&self) -> u64 {
        self.packets
    }

    /// Bytes of the same.
    pub fn queued_bytes(&self) -> u64 {
        self.bytes
    }

    /// Packets that wait, and those that are through and wait for others of their frame.
    pub fn held(&self) -> u64 {
        self.packets + u64::from(self.through)
    }

    /// Begins to send the next segment at `at`, when the one before it was through.
    fn send_next(&mut self, at: Fine, transit: &mut Transit<P>, counters: &mut Counters) {
        loop {
            let Some(head) = self.waiting.front_mut() else {
                if let Some(codel) = &mut self.codel {
                    codel.on_empty();
                }
                return;
            };
            let size = head.size(self.through);
            if let Some(codel) = &mut self.codel
                && codel.judge(at.ceil(), head.since, size, self.bytes - size) == Judged::Drop
            {
                if self.through > 0 {
                    transit.push(at.ceil(), head.split_first(self.through), counters);
                    self.through = 0;
                }
                if head.segments == 1 {
                    self.waiting.pop_front();
                } else {
                    head.split_first(1);
                }
                self.packets -= 1;
                self.bytes -= size;
                counters.dropped_queue += 1;
                continue;
            }
            self.end = self.clock.through(at, size);
            if self.through > 0 && self.end > self.first_end.plus(LATEST) {
                transit.push(at.ceil(), head.split_first(self.through), counters);
                self.through = 0;
            }
            if self.through == 0 {
                self.first_end = self.end;
                self.leaves = match &self.clock {
                    Clock::Rate { per_byte } if self.codel.is_none() => head.leaves(at, *per_byte),
                    _ => self.end,
                };
            }
            return;
        }
    }

    /// Segments of it that find room now.
    fn fits(&self, packet: &P) -> u64 {
        match self.room {
            Queue::Packets(most) => u64::from(most).saturating_sub(self.packets),
            Queue::Bytes(Bytes(most)) => match most.saturating_sub(self.bytes) {
                room if packet.bytes() <= room => u64::from(packet.segments()),
                room => room / packet.largest().max(1),
            },
        }
    }
}

impl<P: Packet> Waiting<P> {
    fn new(since: Timestamp, packet: P) -> Self {
        let (segments, each) = (packet.segments(), packet.largest());
        let last = packet.bytes().saturating_sub(u64::from(segments - 1) * each);
        Self { since, packet, segments, each, last }
    }

    /// Bytes of a segment, by its place.
    fn size(&self, place: u32) -> u64 {
        if place + 1 == self.segments { self.last } else { self.each }
    }

    fn split_first(&mut self, segments: u32) -> P {
        self.segments -= segments;
        self.packet.split_first(segments)
    }

    /// When the first part of it leaves that is sent from `at` on; never later than it does.
    fn leaves(&self, at: Fine, per_byte: Fine) -> Fine {
        if self.segments == 1 {
            return at.plus(per_byte.times(self.last));
        }
        let each = per_byte.times(self.each);
        let together = LATEST.over(each).saturating_add(1);
        if together >= u64::from(self.segments) {
            let all = u64::from(self.segments - 1) * self.each + self.last;
            at.plus(per_byte.times(all))
        } else {
            at.plus(each.times(together))
        }
    }
}

impl Clock {
    fn of(rate: BitRate) -> Self {
        Clock::Rate { per_byte: Fine::per_byte(rate) }
    }

    /// When so many bytes are through that are sent from `at` on.
    fn through(&mut self, at: Fine, bytes: u64) -> Fine {
        match self {
            Clock::Rate { per_byte } => at.plus(per_byte.times(bytes)),
            Clock::Trace(cursor) => Fine::of(cursor.through(bytes)),
        }
    }
}
