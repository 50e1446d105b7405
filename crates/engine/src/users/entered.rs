//! This thread is in another network namespace, for a while.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// See the module.
pub struct Entered {
    own: File,
}

impl Entered {
    /// Until it is dropped, by the thread that made it.
    pub fn new(netns: &Path) -> io::Result<Self> {
        let own = File::open("/proc/thread-self/ns/net")?;
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(File::open(netns)?.as_fd(), network)?;
        Ok(Self { own })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Into where it was it may go.
        let _ = move_into_link_name_space(self.own.as_fd(), Some(LinkNameSpaceType::Network));
    }
}
