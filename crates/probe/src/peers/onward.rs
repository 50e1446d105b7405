//! What a peer on this host asks itself: the connections that its process tree opened.

use std::collections::{BTreeSet, HashMap};

use linerate_evidence::sources::peers::{Contact, Peers, Socket, Whom};

use crate::sockets::socket_inodes;
use crate::tree::{Family, walk_in};

/// Chosen: a chain of a proxy, an application, its pool and a database has four; each costs a walk over its descriptors.
const MOST: usize = 8;
/// Numbers that each may give; more than [`Peers`] ever does.
const NUMBERS: u16 = 64;

/// All peers whose own questions are sampled.
#[derive(Debug, Default)]
pub(super) struct Onward {
    askers: Vec<Asker>,
}

#[derive(Debug)]
struct Asker {
    root: u32,
    /// Its number as a peer.
    number: u16,
    /// By inode: whether its tree opened the connection.
    known: HashMap<u32, bool>,
    sums: Peers,
}

/// An address that a peer asks.
pub(super) struct Found {
    /// That peer's number, and the one of the address.
    pub asker: u16,
    pub number: u16,
    pub whom: Whom,
}

impl Onward {
    /// Samples this one too, unless its process is known already.
    pub(super) fn add(&mut self, root: u32, number: u16) {
        let is_known = self.askers.iter().any(|asker| asker.root == root);
        if !is_known && self.askers.len() < MOST {
            let first = (self.askers.len() as u16 + 1) * NUMBERS;
            let sums = Peers::numbered_from(first);
            self.askers.push(Asker { root, number, known: HashMap::new(), sums });
        }
    }

    /// Whether there is a connection of which it is unknown whose it is.
    pub(super) fn is_due(&self, found: &[Socket]) -> bool {
        self.askers.iter().any(|asker| {
            let mut inodes = found.iter().map(|socket| socket.connection.inode);
            inodes.any(|inode| inode != 0 && !asker.known.contains_key(&inode))
        })
    }

    /// Decides whose the connections of a dump are, by descriptors and by who listens where (port and inode).
    pub(super) fn scan(&mut self, listening: &[(u16, u32)], found: &[Socket]) {
        let family = Family::read();
        for asker in &mut self.askers {
            let members = walk_in(asker.root, &family);
            let held = members.into_iter().filter_map(|pid| socket_inodes(pid).ok());
            let held: BTreeSet<u32> = held.flatten().collect();
            let own = listening.iter().filter(|(_, inode)| held.contains(inode));
            let ports: BTreeSet<u16> = own.map(|(port, _)| *port).collect();
            let ends = found.iter().map(|socket| &socket.connection);
            let is_its = |port: u16, inode| held.contains(&inode) && !ports.contains(&port);
            asker.known =
                ends.map(|end| (end.inode, is_its(end.local.port(), end.inode))).collect();
        }
    }

    /// Takes one instant. `ports` are the target's: who came to those is its client. Those whom they ask and that are new.
    pub(super) fn take(&mut self, found: &[Socket], ports: &BTreeSet<u16>) -> Vec<Found> {
        let mut new = Vec::new();
        if self.askers.is_empty() {
            return new;
        }
        let ends = found.iter().map(|socket| &socket.connection);
        let came = ends.filter(|end| ports.contains(&end.local.port()));
        let came: BTreeSet<_> = came.map(|end| (end.peer, end.local)).collect();
        for asker in &mut self.askers {
            let is_its = |of: &&Socket| {
                let end = &of.connection;
                asker.known.get(&end.inode) == Some(&true) && !came.contains(&(end.local, end.peer))
            };
            let contacts = found.iter().filter(is_its).map(Contact::from);
            let (named, asker) = (asker.sums.take(contacts), asker.number);
            new.extend(named.into_iter().map(|(whom, number)| Found { asker, number, whom }));
        }
        new
    }

    /// The sums of each.
    pub(super) fn sums(&self) -> impl Iterator<Item = &Peers> {
        self.askers.iter().map(|asker| &asker.sums)
    }
}
