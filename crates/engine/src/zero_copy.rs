//! Sending without a copy: a block lies in the page cache, and the socket sends those pages.
//!
//! `sendfile`, as iperf3's `-Z` does it, and not `MSG_ZEROCOPY`, which over loopback copies all the same and has each
//! send acknowledged on an error queue. What the receiver reads is copied once as always.
//! Source: sendfile(2); `Documentation/networking/msg_zerocopy.rst`, "Loopback".

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;

/// A file in memory that holds the block.
pub(crate) fn page_cache(block: &[u8]) -> std::io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("linerate-block", MemfdFlags::CLOEXEC)?);
    file.write_all(block)?;
    Ok(file.into())
}

/// Sends so many bytes of it from there on; how many went out.
pub(crate) fn send(
    socket: impl AsFd,
    file: &OwnedFd,
    offset: u64,
    bytes: usize,
) -> Result<usize, Errno> {
    let mut offset = offset;
    sendfile(socket.as_fd(), file.as_fd(), Some(&mut offset), bytes)
}
