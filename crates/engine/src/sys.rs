//! The call that Rust can't check, and nothing else: all of this crate's `unsafe`.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

/// `bind` takes the address and leaves the port to `connect`, which may take one again that is in use to another server,
/// or waits out its TIME_WAIT.
///
/// Source: IP_BIND_ADDRESS_NO_PORT, ip(7); Linux 4.2. It holds for IPv6 as well.
pub(crate) fn bind_without_port(socket: &OwnedFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads `size_of::<c_int>()` bytes of `on`, which lives
    // until the call returns.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}
