//! A node's channels to other nodes, linerate's own left out: what they carry, and what waits for them.

use crate::prelude::*;

// Source: `ERTS_DIST_FRAGMENT_SIZE`, erts/emulator/beam/dist.h. Unit: bytes.
pub(crate) const FRAGMENT: f64 = 64.0 * 1024.0;

pub(crate) struct Channel<'a> {
    pub peer: &'a str,
    pub of: Of<'a>,
    /// Unit: bytes a second, as received.
    pub sent: f64,
    pub received: f64,
    /// Whether the other node is on the same host.
    pub is_here: bool,
}

impl<'a> Facts<'a> {
    /// The node, and its channels (never none), the one that carried most first.
    pub(crate) fn channels(&self) -> Result<(Of<'a>, Vec<Channel<'a>>), Silent> {
        let run = &self.run;
        let node = run.node()?;
        let channel = |end| {
            let of = run.window_or_whole(end, |of| of.delta(dist::OUT).is_ok());
            let rate = |bytes| of.rate(bytes).unwrap_or(0.0);
            let (sent, received) = (rate(dist::SEND_OCT), rate(dist::RECV_OCT));
            let host = |fact| Some(run.fact(end, fact)?.rsplit_once(':')?.0);
            let is_here = host("peer").is_some_and(|peer| Some(peer) == host("local"));
            Some(Channel { peer: run.fact(end, "peer_node")?, sent, received, is_here, of })
        };
        let ends = run.ends(Side::Server).filter(|end| is_channel(run, *end));
        let mut channels = Vec::from_iter(ends.filter_map(channel));
        channels.sort_by(|a, b| (b.sent + b.received).total_cmp(&(a.sent + a.received)));
        silent_if(channels.is_empty(), "the node is connected to no other node")?;
        Ok((node, channels))
    }

    /// Of the node's sampled processes at work the share at one of these. Who waits for connection or data is idle.
    pub(crate) fn at_work_in(&self, at: &[Metric<u64>]) -> Result<f64, Missing> {
        let node = self.run.of(Subject::Node);
        let sum = |metric: &_| Ok(node.values(*metric)?.iter().sum::<u64>() as f64);
        let sums = |of: &[_]| of.iter().map(sum).sum::<Result<f64, Missing>>();
        let idle = [waits::RECEIVE, waits::RECV, waits::ACCEPT];
        let (found, work) = (sums(at)?, sums(&[waits::ASKED])? - sums(&idle)?);
        // Less than one process at work in every second sampling round is too little for a share.
        let samples = node.values(waits::ASKED)?.len() as f64;
        Ok(if work < HALFWAY * samples { 0.0 } else { found / work })
    }

    /// Requests a second: exchanges; of a watched service, reads of connections that are no channels.
    pub(crate) fn requests(&self) -> f64 {
        if self.load == Load::Made {
            return self.attained;
        }
        let ends = self.run.ends(Side::Server).filter(|end| !is_channel(&self.run, *end));
        ends.filter_map(|end| self.run.of(end).rate(port::RECV_CNT).ok()).sum()
    }
}

fn is_channel(run: &Run, subject: Subject) -> bool {
    run.fact(subject, "peer_node").is_some() && run.fact(subject, "role") != Some("linerate")
}

impl Channel<'_> {
    /// Frames a second, sent and received.
    pub fn frames(&self) -> Result<(f64, f64), Missing> {
        Ok((self.of.rate(dist::OUT)?, self.of.rate(dist::IN)?))
    }

    /// Mean size of a frame that left. Unit: bytes.
    pub fn frame_sent(&self) -> Result<f64, Missing> {
        Ok(self.sent / self.frames()?.0.max(1e-9))
    }

    /// Mean size of a frame that came. Unit: bytes.
    pub fn frame_received(&self) -> Result<f64, Missing> {
        Ok(self.received / self.frames()?.1.max(1e-9))
    }

    /// Whether most bytes sent are fragments of large messages.
    pub fn is_fragments(&self) -> Result<bool, Missing> {
        Ok(self.frame_sent()? >= HALFWAY * FRAGMENT)
    }
}
