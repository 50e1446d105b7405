//! Other network namespaces.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// Does something in a network namespace, on a thread that ends with it: a thread's namespace is
/// its own, and sockets and files keep the one they were opened in.
///
/// Needs `CAP_SYS_ADMIN`, unless the namespace is this thread's own.
pub(crate) fn inside<T: Send>(
    netns: Option<&Path>,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let Some(path) = netns.filter(|path| !same(Some(path), None)) else { return Ok(work()) };
    let file = File::open(path)?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether two names are of one namespace. Names that can't be looked up are taken for different
/// ones, unless they are equal.
pub(crate) fn same(a: Option<&Path>, b: Option<&Path>) -> bool {
    let identity = |netns: Option<&Path>| {
        let found = fs::metadata(netns.unwrap_or(Path::new(OWN))).ok()?;
        Some((found.dev(), found.ino()))
    };
    a == b || identity(a).zip(identity(b)).is_some_and(|(a, b)| a == b)
}
