//! The connection of a node that carries most.

use crate::prelude::*;

pub(crate) struct Hottest<'a> {
    /// Its part of all bytes, 0 to 1.
    pub share: f64,
    pub connections: usize,
    pub owner: &'a str,
    pub peer: &'a str,
}

impl<'a> Hottest<'a> {
    /// Missing where no connection's bytes were counted by the node.
    pub fn of(run: &Run<'a>) -> Result<Self, Missing> {
        // Linerate's own channel to the node is none of its service.
        let subjects =
            run.ends(Side::Server).filter(|of| run.fact(*of, "role") != Some("linerate"));
        let all: Vec<_> = subjects.filter_map(|of| Some((of, bytes(run, of).ok()?))).collect();
        let sum: f64 = all.iter().map(|(_, bytes)| bytes).sum();
        let most = all.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| sum > 0.0);
        let missing = || missing(port::RECV_OCT.name, "flow/*/server");
        let (of, bytes) = most.ok_or_else(missing)?;
        let [owner, peer] = ["owner", "peer"].map(|name| run.fact(*of, name).unwrap_or("?"));
        Ok(Self { share: bytes / sum, connections: all.len(), owner, peer })
    }
}

fn bytes(run: &Run, subject: Subject) -> Result<f64, Missing> {
    let of = run.of(subject);
    Ok(of.grown(port::RECV_OCT)? + of.grown(port::SEND_OCT)?)
}
