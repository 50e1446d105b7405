//! A packet for tests: it knows which segments it holds.

use crate::packet::Packet;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Frame {
    /// Of its first segment; the others follow.
    pub id: u64,
    segments: u32,
    each: u64,
    last: u64,
}

impl Frame {
    pub fn plain(id: u64, bytes: u64) -> Self {
        Self::of(id, 1, bytes, bytes)
    }

    pub fn of(id: u64, segments: u32, each: u64, last: u64) -> Self {
        assert!(segments > 0 && last <= each);
        Self { id, segments, each, last }
    }

    pub fn ids(&self) -> Vec<u64> {
        (self.id..self.id + u64::from(self.segments)).collect()
    }
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
        let first = Self { segments, last: self.each, ..self.clone() };
        self.segments -= segments;
        self.id += u64::from(segments);
        first
    }

    fn copy(&self) -> Self {
        self.clone()
    }
}
