//! A connection as the node's driver sees it: counters, options, queue.
//!
//! Source: `inet:getstat/2`, `inet:getopts/2` and `erlang:port_info/2` for ports; `socket:info/1` and
//! `socket:getopt/2` for sockets of the `socket` module, as far as it has the same.

use super::{Fetch, Parse, Source};
use linerate_model::Bytes;

pub(super) const SOURCE: Source = Source {
    id: "port",
    says: "a connection as the node's driver sees it",
    of: "flow/N/server",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Reads that brought data (packets, in packet modes), since the connection was made.
    RECV_CNT: u64 = "port.recv_cnt", "1";
    /// Bytes read since the connection was made.
    RECV_OCT: Bytes = "port.recv_oct", "B";
    /// The largest read so far.
    RECV_MAX: Bytes = "port.recv_max", "B";
    /// Writes since the connection was made.
    SEND_CNT: u64 = "port.send_cnt", "1";
    /// Bytes written since the connection was made.
    SEND_OCT: Bytes = "port.send_oct", "B";
    /// The largest write so far.
    SEND_MAX: Bytes = "port.send_max", "B";
    /// Bytes in the driver's queue, which the kernel would not take yet.
    QUEUE: Bytes = "port.queue", "B";
    /// The driver's read buffer (`buffer`).
    BUFFER: Bytes = "port.buffer", "B";
    /// The kernel's receive buffer (`recbuf`).
    RECBUF: Bytes = "port.recbuf", "B";
    /// The kernel's send buffer (`sndbuf`).
    SNDBUF: Bytes = "port.sndbuf", "B";
    /// Queued bytes above which senders are suspended (`high_watermark`).
    HIGH_WATERMARK: Bytes = "port.high_watermark", "B";
    /// 1 with `{nodelay, true}`.
    NODELAY: u64 = "port.nodelay", "1";
    /// 1 with `{delay_send, true}`.
    DELAY_SEND: u64 = "port.delay_send", "1";
    /// 1 where data is delivered as lists and not as binaries.
    LIST_MODE: u64 = "port.list_mode", "1";
    /// Packet mode: 0 raw, 1, 2 or 4 bytes of length, 10 line, 11 HTTP, 12 any other.
    PACKET: u64 = "port.packet", "1";
    /// Active mode: 0 passive, 1 once, 2 a count, 3 true.
    ACTIVE: u64 = "port.active", "1";
    /// 1 for sockets of the `socket` module, which are no ports.
    SOCKET_BACKEND: u64 = "port.socket_backend", "1";
}
