//! Clients on this host with connections to the target, and the CPU time that they take.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use linerate_evidence::sources::clients::{PROCESSES, RUN};
use linerate_evidence::sources::peers::Socket;
use linerate_evidence::sources::run_times::RunTimes;
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;

use crate::sockets::socket_inodes;
use crate::tree::{numbers, read};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// By process.
    found: BTreeMap<u32, Client>,
    /// Sockets whose holders were searched for.
    looked_for: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct Client {
    times: RunTimes,
    /// Its run time when it was found.
    before: Option<Duration>,
}

impl Clients {
    /// Sockets at the other end of connections that the target accepted, whose holders are unknown.
    pub(crate) fn unknown(&self, found: &[Socket], ports: &BTreeSet<u16>) -> BTreeSet<u32> {
        let accepted: BTreeSet<(SocketAddr, SocketAddr)> = found
            .iter()
            .map(|socket| (socket.connection.local, socket.connection.peer))
            .filter(|(local, _)| ports.contains(&local.port()))
            .collect();
        let is_theirs = |socket: &&Socket| {
            let end = &socket.connection;
            end.inode != 0 && accepted.contains(&(end.peer, end.local))
        };
        let inodes = found.iter().filter(is_theirs).map(|socket| socket.connection.inode);
        inodes.filter(|inode| !self.looked_for.contains(inode)).collect()
    }

    /// Searches all processes but our own and the target's for their holders.
    pub(crate) fn look_for(&mut self, mut inodes: BTreeSet<u32>, members: &[u32]) {
        self.looked_for.extend(&inodes);
        for pid in numbers("/proc") {
            if inodes.is_empty() {
                return;
            }
            if pid == std::process::id() || members.contains(&pid) {
                continue;
            }
            // Other users' processes may not be readable.
            let Ok(held) = socket_inodes(pid) else { continue };
            let before = inodes.len();
            inodes.retain(|inode| !held.contains(inode));
            if inodes.len() < before {
                self.found.entry(pid).or_default();
            }
        }
    }

    /// Reads each one's run time, and adds the sum as a sample.
    pub(crate) fn read(&mut self, at: Timestamp, evidence: &mut Evidence) {
        if self.found.is_empty() {
            return;
        }
        let mut sum = Duration::ZERO;
        for (pid, client) in &mut self.found {
            for tid in numbers(format!("/proc/{pid}/task")) {
                if let Ok(text) = read(format!("/proc/{pid}/task/{tid}/schedstat")) {
                    // A kernel that does not account shows it for the target too.
                    let _ = client.times.take((*pid, tid), &text);
                }
            }
            client.times.end_round();
            let run = client.times.run();
            sum += run.saturating_sub(*client.before.get_or_insert(run));
        }
        evidence.push(at, Subject::Target, RUN, sum);
        evidence.push(at, Subject::Target, PROCESSES, self.found.len() as u64);
    }
}
