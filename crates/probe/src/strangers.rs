//! Sockets that listen on the target's ports and are not the target's: another service at another address.

use std::collections::BTreeSet;

use linerate_evidence::sources::listener;

use crate::sockets::socket_inodes;
use crate::tree::walk;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    /// Sockets that were searched for among the target's descriptors.
    known: BTreeSet<u32>,
    /// Those that it does not hold.
    strangers: BTreeSet<u32>,
}

impl Strangers {
    /// An answer without them. Descriptors are read once a socket, and only where several listen on a port; where
    /// none of these is seen to be the target's, as of another user's process, all are taken to be.
    pub(crate) fn left_out(&mut self, bytes: Vec<u8>, ports: &[u16], roots: &[u32]) -> Vec<u8> {
        for port in ports {
            let listening = listener::inodes(&bytes, *port);
            if listening.len() < 2 || listening.iter().all(|inode| self.known.contains(inode)) {
                continue;
            }
            let members = roots.iter().flat_map(|root| walk(*root));
            let held = members.filter_map(|pid| socket_inodes(pid).ok());
            let held: BTreeSet<u32> = held.flatten().collect();
            self.known.extend(&listening);
            if listening.iter().any(|inode| held.contains(inode)) {
                self.strangers.extend(listening.iter().filter(|inode| !held.contains(inode)));
            }
        }
        if self.strangers.is_empty() {
            return bytes;
        }
        listener::without(&bytes, &self.strangers)
    }
}
