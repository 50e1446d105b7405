//! Reads the memory of another process, many pieces at once, without stopping it.
//!
//! Source: process_vm_readv(2).

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::sys;

/// Where a piece begins, and its bytes.
pub(super) type Piece = (u64, usize);

/// Of pieces that are more than this in all, the last are not read. Unit: bytes.
///
/// Chosen: a table of a million processes is 8 MiB.
const MOST: usize = 16 << 20;

/// Pieces of one call. Source: `UIO_MAXIOV`, linux/uio.h.
const AT_ONCE: usize = 1024;

/// What can be read; tests have memory that is none.
pub(super) trait Memory: fmt::Debug + Send {
    /// Fills `into` with the pieces, one after the other, up to the first that can't be read: how many bytes.
    fn fill(&mut self, pieces: &[Piece], into: &mut [u8]) -> io::Result<usize>;
}

/// The memory of a process of this host.
#[derive(Debug)]
pub(super) struct Living {
    pid: u32,
    process: OwnedFd,
}

impl Living {
    pub(super) fn open(pid: u32) -> Option<Self> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let process = pidfd_open(number, PidfdFlags::empty()).ok()?;
        Some(Self { pid, process })
    }
}

impl Memory for Living {
    fn fill(&mut self, pieces: &[Piece], into: &mut [u8]) -> io::Result<usize> {
        // After its end the number may be another process's.
        let mut ended = [PollFd::new(&self.process, PollFlags::IN)];
        if poll(&mut ended, Some(&Timespec::default()))? > 0 {
            return Err(rustix::io::Errno::SRCH.into());
        }
        match sys::read_memory(self.pid, pieces, into) {
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
            other => other,
        }
    }
}

/// The pieces that were read.
#[derive(Debug, Default)]
pub(super) struct Taken {
    bytes: Vec<u8>,
    /// Where each begins and ends in `bytes`; none: it could not be read.
    places: Vec<Option<(usize, usize)>>,
}

impl Taken {
    /// The bytes of the piece of this number.
    pub(super) fn piece(&self, index: usize) -> Option<&[u8]> {
        let (from, to) = (*self.places.get(index)?)?;
        self.bytes.get(from..to)
    }

    /// Each piece in turn.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.places.len()).map(|index| self.piece(index))
    }
}

/// Reads all that can be read of the pieces, in one call for each thousand of them and for each piece that can't be read.
pub(super) fn read(memory: &mut dyn Memory, pieces: &[Piece]) -> io::Result<Taken> {
    let mut taken = Taken::default();
    read_into(memory, pieces, &mut taken)?;
    Ok(taken)
}

/// The same, into what has room from an earlier time: half of the cost of large pieces is the kernel's for new memory.
pub(super) fn read_into(
    memory: &mut dyn Memory,
    pieces: &[Piece],
    taken: &mut Taken,
) -> io::Result<()> {
    taken.places.clear();
    let (mut all, mut wanted) = (0usize, 0);
    for (_, length) in pieces {
        match all.checked_add(*length) {
            Some(sum) if sum <= MOST => (all, wanted) = (sum, wanted + 1),
            _ => break,
        }
    }
    if taken.bytes.len() < all {
        taken.bytes.resize(all, 0);
    }
    let (mut next, mut at) = (0, 0);
    while next < wanted {
        let now = &pieces[next..wanted.min(next + AT_ONCE)];
        let size: usize = now.iter().map(|(_, length)| length).sum();
        let filled = memory.fill(now, &mut taken.bytes[at..at + size])?;
        let end = at.saturating_add(filled);
        for (_, length) in now {
            let is_read = at + length <= end;
            taken.places.push(is_read.then_some((at, at + length)));
            (next, at) = (next + 1, at + length);
            if !is_read {
                break;
            }
        }
    }
    taken.places.resize(pieces.len(), None);
    Ok(())
}

/// The word of 64 bits at a place in a piece.
pub(super) fn word(piece: &[u8], at: usize) -> Option<u64> {
    let bytes = piece.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// The word of 32 bits at a place in a piece.
pub(super) fn half(piece: &[u8], at: usize) -> Option<u32> {
    let bytes = piece.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// The words of 64 bits of a piece.
pub(super) fn words(piece: &[u8]) -> impl Iterator<Item = u64> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    piece.chunks_exact(8).map(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_read_is_none_and_the_rest_is_there() {
        let (own, here) = (std::process::id(), [1u64, 2, 3]);
        let at = here.as_ptr() as u64;
        let mut memory = Living::open(own).unwrap();
        let mut pieces = vec![(8, 8), (at, 8), (u64::MAX, 8), (0, 0), (at + 8, 16)];
        pieces.extend([(at, 24); 2 * AT_ONCE]);
        pieces.push((at, MOST));
        let taken = read(&mut memory, &pieces).unwrap();
        assert_eq!(taken.pieces().count(), pieces.len());
        assert_eq!((taken.piece(0), taken.piece(2)), (None, None));
        assert_eq!(word(taken.piece(1).unwrap(), 0), Some(1));
        assert_eq!(words(taken.piece(4).unwrap()).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(taken.pieces().skip(5).flatten().count(), 2 * AT_ONCE);
        assert_eq!(word(taken.piece(4).unwrap(), 9), None);
        assert_eq!(half(taken.piece(4).unwrap(), 8), Some(3));
    }
}
