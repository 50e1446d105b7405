//! What a direction of a path has counted.

/// Cumulative since the pipe was made; a packet is a segment. What went in or was duplicated has left, was
/// dropped or is held.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Packets that came.
    pub packets_in: u64,
    /// Their bytes, IP headers included.
    pub bytes_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Dropped as larger than the path takes.
    pub dropped_size: u64,
    /// Lost at random.
    pub dropped_loss: u64,
    /// Dropped by the queue that waits for the rate: full, or waited too long (CoDel).
    pub dropped_queue: u64,
    /// Dropped because the path held as much as it may in all.
    pub dropped_limit: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Skipped the delay.
    pub reordered: u64,
    /// The most that waited for the rate at once, since
    /// [`restart_mosts`](crate::Pipe::restart_mosts).
    pub queue_most: u64,
    /// The most that the path held at once, since the same.
    pub held_most: u64,
}

impl Counters {
    /// Packets dropped, for whatever cause.
    pub fn dropped(&self) -> u64 {
        self.dropped_size + self.dropped_loss + self.dropped_queue + self.dropped_limit
    }
}
