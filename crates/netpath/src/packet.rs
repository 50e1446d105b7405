//! What travels: a packet, or a super-frame of many segments that an offloading device hands over as one.

/// A packet on its way. What the path does to it, it does segment by segment; a frame none of whose
/// segments is hit stays whole.
///
/// All segments of a frame but the last are of one size, as segmentation offload makes them.
pub trait Packet: Sized {
    /// Segments in it; 1 for a plain packet.
    fn segments(&self) -> u32;

    /// Bytes on the wire, the IP headers of every segment included.
    fn bytes(&self) -> u64;

    /// Bytes of its largest segment on the wire; [`bytes`](Self::bytes) for a plain packet.
    fn largest(&self) -> u64;

    /// Takes the first `segments` off. More than none, less than all.
    fn split_first(&mut self, segments: u32) -> Self;

    /// The same once more, for a path that duplicates.
    fn copy(&self) -> Self;
}

/// Takes at most so many segments, one or more, off what is left of a frame.
pub(crate) fn first<P: Packet>(rest: &mut Option<P>, most: u64) -> Option<P> {
    let mut packet = rest.take()?;
    if u64::from(packet.segments()) <= most {
        return Some(packet);
    }
    let first = packet.split_first(most as u32);
    *rest = Some(packet);
    Some(first)
}
