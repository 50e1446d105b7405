//! Receive queues of the target's that are full: the window is shut, whatever the exchange.

use crate::prelude::*;

/// The target's receive queues, on average.
pub(crate) struct Unread {
    /// Connections whose queue is full.
    pub full: f64,
    /// The share of the time in which a connection's queue is full, 0 to 1.
    pub share: f64,
    /// In a connection's queue. Unit: bytes.
    pub bytes: f64,
    /// Sampled connections on which anything came.
    pub readers: f64,
}

impl Facts<'_> {
    pub(crate) fn unread(&self) -> Result<Unread, Missing> {
        let readers: Vec<Of> = self.run.flows(Side::Server).into_iter().filter(carries).collect();
        let share = mean_over(&readers, full)?;
        let bytes = mean_over(&readers, |flow| flow.mean(tcp_info::RQUEUE))?;
        let full = share * f64::from(self.run.connections());
        let full = if self.is_split() { full.min(self.at(Station::Unread)) } else { full };
        Ok(Unread { full, share, bytes, readers: readers.len() as f64 })
    }
}

/// Whether anything came on it, where the kernel counts that.
pub(crate) fn carries(flow: &Of) -> bool {
    flow.all(tcp_info::RQUEUE).is_ok()
        && flow.delta(tcp_info::BYTES_RECEIVED).map_or(true, |(bytes, _)| bytes.0 > 0)
}

/// The share of its samples in which the receive queue was full.
fn full(flow: &Of) -> Result<f64, Missing> {
    let all = flow.both(tcp_info::RCVBUF, tcp_info::RQUEUE)?;
    let memory = flow.values(tcp_info::RMEM_ALLOC);
    let memory = memory.unwrap_or_else(|_| all.iter().map(|(_, bytes)| *bytes).collect());
    // Source: `tcp_win_from_space`, include/net/tcp.h: half of the buffer is offered as a window.
    let is_full = |((buffer, bytes), memory): &(&(Bytes, Bytes), Bytes)| {
        bytes.0 > 0 && bytes.0.max(memory.0) * 2 >= buffer.0
    };
    let full = all.iter().zip(memory).filter(is_full).count();
    Ok(full as f64 / flow.values(tcp_info::RQUEUE)?.len() as f64)
}
