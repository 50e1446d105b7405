//! One direction of a path: the stages in series.

use linerate_model::{OneDirection, Timestamp};

use crate::chance::generator;
use crate::counters::Counters;
use crate::packet::Packet;
use crate::stages::{Duplicate, Limit, Link, Loss, Size, Transit};
use crate::trace::Trace;

/// One direction of a path. Packets and the present go in, packets that are due come out.
///
/// Time is what the caller says it is; one that is before another already told counts as that one.
#[derive(Clone, Debug)]
pub struct Pipe<P> {
    now: Timestamp,
    size: Size,
    loss: Loss,
    duplicate: Duplicate,
    limit: Limit,
    /// Where the way has a rate or a trace.
    link: Option<Link<P>>,
    transit: Transit<P>,
    counters: Counters,
}

impl<P: Packet> Pipe<P> {
    /// What `way` asks for. A way with a trace needs it read: `trace` is the file that it names. A trace
    /// takes the place of a rate.
    pub fn new(way: &OneDirection, trace: Option<Trace>) -> Self {
        Self {
            now: Timestamp(0),
            size: Size::new(way.largest.map(|largest| largest.0)),
            loss: Loss::new(way.loss, way.loss_burst, generator(way.seed, "loss")),
            duplicate: Duplicate::new(way.duplicate, generator(way.seed, "duplicate")),
            limit: Limit::new(way.limit),
            link: Link::new(way, trace),
            transit: Transit::new(way),
            counters: Counters::default(),
        }
    }

    /// Takes a packet that came at `now`.
    ///
    /// What is due and was not yet popped is still held: pop first, so that the limit does not count it.
    pub fn push(&mut self, now: Timestamp, packet: P) {
        self.settle(now);
        self.counters.packets_in += u64::from(packet.segments());
        self.counters.bytes_in += packet.bytes();
        let mut rest = self.size.pass(packet, &mut self.counters);
        while let Some(piece) = self.loss.next(&mut rest, &mut self.counters) {
            let mut rest = Some(piece);
            while let Some((piece, copy)) = self.duplicate.next(&mut rest, &mut self.counters) {
                self.admit(piece);
                if let Some(copy) = copy {
                    self.admit(copy);
                }
            }
        }
    }

    /// The next packet that is due at `now`, if there is one. Ask again: there may be more.
    pub fn pop(&mut self, now: Timestamp) -> Option<P> {
        self.settle(now);
        let packet = self.transit.pop(self.now)?;
        self.counters.packets_out += u64::from(packet.segments());
        self.counters.bytes_out += packet.bytes();
        Some(packet)
    }

    /// Nothing is due before; none while nothing is held. Only with jitter, a trace or CoDel may it be that
    /// nothing is due then either, and a later instant is told when asked again.
    pub fn next_due(&self) -> Option<Timestamp> {
        let link = self.link.as_ref().and_then(Link::next_due);
        let from_link = link.map(|left| self.transit.earliest(left));
        match (from_link, self.transit.next_due()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// What was counted up to the last instant told.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Packets in the path: those that wait and those in delay.
    pub fn held(&self) -> u64 {
        self.link.as_ref().map_or(0, Link::held) + self.transit.held()
    }

    /// Packets that wait for the rate.
    pub fn queued(&self) -> u64 {
        self.link.as_ref().map_or(0, Link::queued)
    }

    /// Their bytes.
    pub fn queued_bytes(&self) -> u64 {
        self.link.as_ref().map_or(0, Link::queued_bytes)
    }

    /// Lets `queue_most` and `held_most` of the counters start again from what is there now.
    pub fn restart_mosts(&mut self) {
        self.counters.queue_most = self.queued();
        self.counters.held_most = self.held();
    }

    fn admit(&mut self, packet: P) {
        let held = self.held();
        let Some(packet) = self.limit.pass(packet, held, &mut self.counters) else {
            return;
        };
        match &mut self.link {
            Some(link) => link.push(self.now, packet, &mut self.transit, &mut self.counters),
            None => self.transit.push(self.now, packet, &mut self.counters),
        }
        self.counters.held_most = self.counters.held_most.max(self.held());
    }

    fn settle(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if let Some(link) = &mut self.link {
            link.settle(self.now, &mut self.transit, &mut self.counters);
        }
    }
}
