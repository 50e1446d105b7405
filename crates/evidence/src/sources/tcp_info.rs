//! The kernel's view of one end of one connection.
//!
//! Source: `sock_diag` (`linux/inet_diag.h`) with the attributes `INET_DIAG_INFO` (`struct
//! tcp_info`, `linux/tcp.h`, filled by `tcp_get_info`, `net/ipv4/tcp.c`), `INET_DIAG_SKMEMINFO`
//! (`linux/sock_diag.h`) and `INET_DIAG_CONG`. The structure grew over the years and is decoded by
//! its length: fields that an older kernel's ends before are not pushed.
//!
//! Traps: `busy_time`, `rwnd_limited` and `sndbuf_limited` move in timer ticks (4 ms at HZ=250),
//! so only differences over a second or more mean anything. Segment counters are 32 bits wide in
//! the kernel and wrap. A socket's numbers are its own: the server's `snd_wnd` is what the client
//! offers it.

use std::time::Duration;

use linerate_model::{Bytes, Timestamp};

use super::sock_diag::{self, Message, u32_at, u64_at};
use super::{Answer, Fetch, Parse, Source, UnreadableSource};
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "tcp_info",
    says: "one end of one connection, as the kernel's TCP sees it",
    of: "flow/N/SIDE",
    fetch: Fetch::Connection,
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// State of the connection: 1 established, 4 to 11 closing in one way or another (`tcpi_state`).
    STATE: u64 = "tcp.state", "1";
    /// State of congestion control: 0 open, 1 disorder, 2 window reduced, 3 recovery, 4 loss (`tcpi_ca_state`).
    CA_STATE: u64 = "tcp.ca_state", "1";
    /// Times the retransmission timer doubled since the last ACK (`tcpi_backoff`).
    BACKOFF: u64 = "tcp.backoff", "1";
    /// Options agreed on: bit 0 timestamps, 1 SACK, 2 window scaling, 3 ECN, 4 ECN seen (`tcpi_options`).
    OPTIONS: u64 = "tcp.options", "1";
    /// Shift of the window the peer offers; 0 where scaling was not agreed on (`tcpi_snd_wscale`).
    SND_WSCALE: u64 = "tcp.snd_wscale", "1";
    /// Shift of the window offered to the peer, fixed at connect from the receive buffer's limit (`tcpi_rcv_wscale`).
    RCV_WSCALE: u64 = "tcp.rcv_wscale", "1";
    /// 1 when the delivery rate was last measured while the application offered too little (`tcpi_delivery_rate_app_limited`).
    APP_LIMITED: u64 = "tcp.app_limited", "1";
    /// Retransmission timeout (`tcpi_rto`).
    RTO: Duration = "tcp.rto", "ns";
    /// Largest segment sent (`tcpi_snd_mss`).
    SND_MSS: Bytes = "tcp.snd_mss", "B";
    /// Size of the segments received, as the ACK heuristics estimate it (`tcpi_rcv_mss`).
    RCV_MSS: Bytes = "tcp.rcv_mss", "B";
    /// Segments sent and not acknowledged (`tcpi_unacked`).
    UNACKED: u64 = "tcp.unacked", "segments";
    /// Of those, thought lost (`tcpi_lost`).
    LOST: u64 = "tcp.lost", "segments";
    /// How long ago data was last sent; in milliseconds in the kernel (`tcpi_last_data_sent`).
    LAST_DATA_SENT: Duration = "tcp.last_data_sent", "ns";
    /// How long ago data last came; in milliseconds in the kernel (`tcpi_last_data_recv`).
    LAST_DATA_RECV: Duration = "tcp.last_data_recv", "ns";
    /// How long ago an ACK last came; in milliseconds in the kernel (`tcpi_last_ack_recv`).
    LAST_ACK_RECV: Duration = "tcp.last_ack_recv", "ns";
    /// Largest packet the path is known to take (`tcpi_pmtu`).
    PMTU: Bytes = "tcp.pmtu", "B";
    /// Most that the receive window may grow to now (`tcpi_rcv_ssthresh`).
    RCV_SSTHRESH: Bytes = "tcp.rcv_ssthresh", "B";
    /// Smoothed round trip, the peer's delayed ACKs included; absent before the first measurement (`tcpi_rtt`).
    RTT: Duration = "tcp.rtt", "ns";
    /// Window at which slow start ends; 2147483647 means no loss was seen yet (`tcpi_snd_ssthresh`).
    SND_SSTHRESH: u64 = "tcp.snd_ssthresh", "segments";
    /// Congestion window; while idle it shows the old value, and shrinks at the next send (`tcpi_snd_cwnd`).
    SND_CWND: u64 = "tcp.snd_cwnd", "segments";
    /// Round trip as the receiving end estimates it; absent before the first (`tcpi_rcv_rtt`).
    RCV_RTT: Duration = "tcp.rcv_rtt", "ns";
    /// Bytes the application read in the last round trip: what drives the receive window's growth (`tcpi_rcv_space`).
    RCV_SPACE: Bytes = "tcp.rcv_space", "B";
    /// Segments sent again, since connect (`tcpi_total_retrans`).
    TOTAL_RETRANS: u64 = "tcp.total_retrans", "segments";
    /// Rate at which the stack spaces packets; absent where it does not (`tcpi_pacing_rate`).
    PACING_RATE: u64 = "tcp.pacing_rate", "B/s";
    /// Bytes the peer acknowledged, since connect (`tcpi_bytes_acked`).
    BYTES_ACKED: Bytes = "tcp.bytes_acked", "B";
    /// Bytes received in order, since connect (`tcpi_bytes_received`).
    BYTES_RECEIVED: Bytes = "tcp.bytes_received", "B";
    /// Segments sent, since connect (`tcpi_segs_out`).
    SEGS_OUT: u64 = "tcp.segs_out", "segments";
    /// Segments received, since connect (`tcpi_segs_in`).
    SEGS_IN: u64 = "tcp.segs_in", "segments";
    /// Bytes written by the application and not sent yet, not even once (`tcpi_notsent_bytes`).
    NOTSENT_BYTES: Bytes = "tcp.notsent_bytes", "B";
    /// Shortest round trip of the last five minutes; absent before the first (`tcpi_min_rtt`).
    MIN_RTT: Duration = "tcp.min_rtt", "ns";
    /// Segments with data received, since connect (`tcpi_data_segs_in`).
    DATA_SEGS_IN: u64 = "tcp.data_segs_in", "segments";
    /// Segments with data sent, since connect (`tcpi_data_segs_out`).
    DATA_SEGS_OUT: u64 = "tcp.data_segs_out", "segments";
    /// Rate at which the last window was delivered (`tcpi_delivery_rate`).
    DELIVERY_RATE: u64 = "tcp.delivery_rate", "B/s";
    /// How long this end had data out or to send, since connect (`tcpi_busy_time`).
    BUSY_TIME: Duration = "tcp.busy_time", "ns";
    /// Of that, how long the peer's receive window held it back (`tcpi_rwnd_limited`).
    RWND_LIMITED: Duration = "tcp.rwnd_limited", "ns";
    /// Of that, how long its own send buffer did; far too low for writers that do not block (`tcpi_sndbuf_limited`).
    SNDBUF_LIMITED: Duration = "tcp.sndbuf_limited", "ns";
    /// Segments delivered, out of order or not, since connect (`tcpi_delivered`).
    DELIVERED: u64 = "tcp.delivered", "segments";
    /// Of those, the ones a router marked congested (`tcpi_delivered_ce`).
    DELIVERED_CE: u64 = "tcp.delivered_ce", "segments";
    /// Bytes sent, those sent again included, since connect (`tcpi_bytes_sent`).
    BYTES_SENT: Bytes = "tcp.bytes_sent", "B";
    /// Bytes sent again, since connect (`tcpi_bytes_retrans`).
    BYTES_RETRANS: Bytes = "tcp.bytes_retrans", "B";
    /// Times packets were seen to come out of order, since connect (`tcpi_reord_seen`).
    REORD_SEEN: u64 = "tcp.reord_seen", "1";
    /// Window the peer offers, scaled; Linux 5.4 (`tcpi_snd_wnd`).
    SND_WND: Bytes = "tcp.snd_wnd", "B";
    /// Window offered to the peer, scaled; Linux 6.2 (`tcpi_rcv_wnd`).
    RCV_WND: Bytes = "tcp.rcv_wnd", "B";
    /// Recv-Q: bytes received in order that the application has not read (`idiag_rqueue`).
    RQUEUE: Bytes = "tcp.rqueue", "B";
    /// Send-Q: bytes written that the peer has not acknowledged (`idiag_wqueue`).
    WQUEUE: Bytes = "tcp.wqueue", "B";
    /// Memory held by received packets, the packets' own overhead included (`SK_MEMINFO_RMEM_ALLOC`).
    RMEM_ALLOC: Bytes = "tcp.rmem_alloc", "B";
    /// Receive buffer: most that may be held so (`SK_MEMINFO_RCVBUF`).
    RCVBUF: Bytes = "tcp.rcvbuf", "B";
    /// Memory of packets handed to the device and not yet freed (`SK_MEMINFO_WMEM_ALLOC`).
    WMEM_ALLOC: Bytes = "tcp.wmem_alloc", "B";
    /// Send buffer: most that may be queued (`SK_MEMINFO_SNDBUF`).
    SNDBUF: Bytes = "tcp.sndbuf", "B";
    /// Memory set aside for the socket and not in use (`SK_MEMINFO_FWD_ALLOC`).
    FWD_ALLOC: Bytes = "tcp.fwd_alloc", "B";
    /// Memory held by packets to send or unacknowledged (`SK_MEMINFO_WMEM_QUEUED`).
    WMEM_QUEUED: Bytes = "tcp.wmem_queued", "B";
    /// Memory of packets that came while the application held the socket (`SK_MEMINFO_BACKLOG`).
    BACKLOG: Bytes = "tcp.backlog", "B";
    /// Packets this socket dropped, since connect (`SK_MEMINFO_DROPS`).
    DROPS: u64 = "tcp.drops", "1";
}

/// `INET_DIAG_INFO`, `INET_DIAG_CONG` and `INET_DIAG_SKMEMINFO` of `linux/inet_diag.h`.
pub(super) const INFO: u16 = 2;
const CONG: u16 = 4;
pub(super) const SKMEMINFO: u16 = 7;

fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let message = Message::read(answer.bytes)?;
    let (at, of) = (answer.at, answer.of);
    evidence.push(at, of, RQUEUE, Bytes(message.rqueue.into()));
    evidence.push(at, of, WQUEUE, Bytes(message.wqueue.into()));
    for (kind, value) in sock_diag::attributes(answer.bytes) {
        match kind {
            INFO => push(at, of, value, evidence),
            SKMEMINFO => push_memory(at, of, value, evidence),
            _ => {}
        }
    }
    Ok(())
}

/// The connection's congestion control, by name: `cubic`. From the same answer.
pub fn congestion(bytes: &[u8]) -> Option<String> {
    let (_, name) = sock_diag::attributes(bytes).find(|(kind, _)| *kind == CONG)?;
    let name = name.split(|byte| *byte == 0).next()?;
    let name = str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    Some(name.to_owned())
}

/// Decodes a bare `struct tcp_info`, as `getsockopt(TCP_INFO)` gives it too.
///
/// Offsets are those of `linux/tcp.h`, the same on every architecture.
pub fn push(at: Timestamp, of: Subject, info: &[u8], evidence: &mut Evidence) {
    let mut put = Put { at, of, info, evidence };
    put.byte(0, STATE);
    put.byte(1, CA_STATE);
    put.byte(4, BACKOFF);
    put.byte(5, OPTIONS);
    if let Some(shifts) = info.get(6) {
        // Bit fields begin at the low end, but on big-endian machines.
        let (low, high) = (u64::from(shifts & 15), u64::from(shifts >> 4));
        let (snd, rcv) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
        put.value(SND_WSCALE, snd);
        put.value(RCV_WSCALE, rcv);
    }
    if let Some(bits) = info.get(7) {
        let bit = if cfg!(target_endian = "little") { 0 } else { 7 };
        put.value(APP_LIMITED, u64::from(bits >> bit & 1));
    }
    put.micros(8, RTO);
    put.bytes(16, SND_MSS);
    put.bytes(20, RCV_MSS);
    put.word(24, UNACKED);
    put.word(32, LOST);
    put.millis(44, LAST_DATA_SENT);
    put.millis(52, LAST_DATA_RECV);
    put.millis(56, LAST_ACK_RECV);
    put.bytes(60, PMTU);
    put.bytes(64, RCV_SSTHRESH);
    put.measured(68, RTT);
    put.word(76, SND_SSTHRESH);
    put.word(80, SND_CWND);
    put.measured(92, RCV_RTT);
    put.bytes(96, RCV_SPACE);
    put.word(100, TOTAL_RETRANS);
    if let Some(rate) = u64_at(info, 104)
        && rate != u64::MAX
    {
        put.value(PACING_RATE, rate);
    }
    put.wide_bytes(120, BYTES_ACKED);
    put.wide_bytes(128, BYTES_RECEIVED);
    put.word(136, SEGS_OUT);
    put.word(140, SEGS_IN);
    put.bytes(144, NOTSENT_BYTES);
    put.measured(148, MIN_RTT);
    put.word(152, DATA_SEGS_IN);
    put.word(156, DATA_SEGS_OUT);
    if let Some(rate) = u64_at(info, 160) {
        put.value(DELIVERY_RATE, rate);
    }
    put.wide_micros(168, BUSY_TIME);
    put.wide_micros(176, RWND_LIMITED);
    put.wide_micros(184, SNDBUF_LIMITED);
    put.word(192, DELIVERED);
    put.word(196, DELIVERED_CE);
    put.wide_bytes(200, BYTES_SENT);
    put.wide_bytes(208, BYTES_RETRANS);
    put.word(220, REORD_SEEN);
    put.bytes(228, SND_WND);
    put.bytes(232, RCV_WND);
}

/// A connection read by its own process: `getsockopt(TCP_INFO)`, `getsockopt(SO_MEMINFO)`, and how many bytes the
/// process has read so far. The lengths of its queues follow from these.
///
/// `rqueue = bytes received - bytes read`, none where no packet is held;
/// `wqueue = unsent + bytes sent - sent again - acknowledged`
///
/// Blind spots: bytes in a buffer of the process that it has not counted as read are unread here, as long as the
/// kernel holds others; of a connection that the process made, a byte of the queue to send, since the SYN counts as
/// acknowledged.
pub(super) fn push_own(
    at: Timestamp,
    of: Subject,
    info: &[u8],
    memory: Option<&[u8]>,
    read: Option<u64>,
    evidence: &mut Evidence,
) {
    push(at, of, info, evidence);
    if let Some(memory) = memory {
        push_memory(at, of, memory, evidence);
    }
    let held = memory.and_then(|words| u32_at(words, 0));
    // Source: `tcp_fin`, net/ipv4/tcp_input.c, counts the peer's FIN as a byte received: in TIME-WAIT, CLOSE-WAIT,
    // LAST-ACK and CLOSING it has come.
    let fin = u64::from(info.first().is_some_and(|state| matches!(state, 6 | 8 | 9 | 11)));
    match (held, u64_at(info, 128), read) {
        (Some(0), ..) => evidence.push(at, of, RQUEUE, Bytes(0)),
        (_, Some(received), Some(read)) => {
            let unread = received.saturating_sub(fin).saturating_sub(read);
            evidence.push(at, of, RQUEUE, Bytes(unread));
        }
        _ => {}
    }
    let words = (u32_at(info, 24), u32_at(info, 144));
    let counts = (u64_at(info, 120), u64_at(info, 200), u64_at(info, 208));
    if let ((Some(unacked), Some(unsent)), (Some(acked), Some(sent), Some(again))) = (words, counts)
    {
        let out = sent.saturating_sub(again).saturating_sub(acked);
        let out = if unacked == 0 { 0 } else { out };
        evidence.push(at, of, WQUEUE, Bytes(out.saturating_add(unsent.into())));
    }
}

fn push_memory(at: Timestamp, of: Subject, words: &[u8], evidence: &mut Evidence) {
    let mut put = Put { at, of, info: words, evidence };
    put.bytes(0, RMEM_ALLOC);
    put.bytes(4, RCVBUF);
    put.bytes(8, WMEM_ALLOC);
    put.bytes(12, SNDBUF);
    put.bytes(16, FWD_ALLOC);
    put.bytes(20, WMEM_QUEUED);
    put.bytes(28, BACKLOG);
    put.word(32, DROPS);
}

/// Pushes fields by their offset, as far as the structure reaches.
struct Put<'a> {
    at: Timestamp,
    of: Subject,
    info: &'a [u8],
    evidence: &'a mut Evidence,
}

impl Put<'_> {
    fn value(&mut self, metric: Metric<u64>, value: u64) {
        self.evidence.push(self.at, self.of, metric, value);
    }

    fn time(&mut self, metric: Metric<Duration>, time: Duration) {
        self.evidence.push(self.at, self.of, metric, time);
    }

    fn byte(&mut self, offset: usize, metric: Metric<u64>) {
        if let Some(byte) = self.info.get(offset) {
            self.value(metric, u64::from(*byte));
        }
    }

    fn word(&mut self, offset: usize, metric: Metric<u64>) {
        if let Some(word) = u32_at(self.info, offset) {
            self.value(metric, u64::from(word));
        }
    }

    fn bytes(&mut self, offset: usize, metric: Metric<Bytes>) {
        if let Some(word) = u32_at(self.info, offset) {
            self.evidence.push(self.at, self.of, metric, Bytes(u64::from(word)));
        }
    }

    fn wide_bytes(&mut self, offset: usize, metric: Metric<Bytes>) {
        if let Some(word) = u64_at(self.info, offset) {
            self.evidence.push(self.at, self.of, metric, Bytes(word));
        }
    }

    fn millis(&mut self, offset: usize, metric: Metric<Duration>) {
        if let Some(word) = u32_at(self.info, offset) {
            self.time(metric, Duration::from_millis(u64::from(word)));
        }
    }

    fn micros(&mut self, offset: usize, metric: Metric<Duration>) {
        if let Some(word) = u32_at(self.info, offset) {
            self.time(metric, Duration::from_micros(u64::from(word)));
        }
    }

    /// Microseconds of which 0 and the largest number mean that nothing was measured yet.
    fn measured(&mut self, offset: usize, metric: Metric<Duration>) {
        if u32_at(self.info, offset).is_some_and(|word| word != 0 && word != u32::MAX) {
            self.micros(offset, metric);
        }
    }

    fn wide_micros(&mut self, offset: usize, metric: Metric<Duration>) {
        if let Some(word) = u64_at(self.info, offset) {
            // Damaged bytes can hold more microseconds than the nanoseconds of a `u64`.
            self.time(metric, Duration::from_nanos(word.saturating_mul(1000)));
        }
    }
}

/// Whether a send buffer has an initial size of the kernel's, for ten segments (`TCP_INIT_CWND`).
pub fn is_initial_send_buffer(bytes: u64) -> bool {
    let is_initial = |segment: u64| bytes == 20 * segment || bytes == 30 * segment;
    SEGMENTS.map(|bits| (1_u64 << bits) + 256).any(is_initial)
}

/// Whether a send buffer has a size that the kernel gives: so many segments, each in a block of a power of two with a `sk_buff`
/// of 256 bytes, times 2, or 3 with bbr. An option's is hardly ever such a multiple: 9 or 17 of a power of two, or more.
/// Source: `tcp_sndbuf_expand`, net/ipv4/tcp_input.c; `bbr_sndbuf_expand`, net/ipv4/tcp_bbr.c.
pub fn is_send_buffer_of_the_kernel(bytes: u64) -> bool {
    let is_multiple = |segment: u64| {
        [2, 3]
            .into_iter()
            .any(|times| bytes.is_multiple_of(times * segment) && bytes >= 10 * times * segment)
    };
    SEGMENTS.filter(|bits| *bits >= 11).map(|bits| (1_u64 << bits) + 256).any(is_multiple)
}

/// Powers of two that hold a segment and its headers: of 536 bytes to 64 KiB.
const SEGMENTS: std::ops::RangeInclusive<u32> = 10..=17;

#[cfg(test)]
mod tests {
    use super::sock_diag::sample;
    use super::*;
    use crate::subject::Side;

    const FLOW: Subject = Subject::Flow(3, Side::Server);

    /// A connection on a loopback of Linux 6.2, by hand.
    fn info(length: usize) -> Vec<u8> {
        let mut bytes = vec![0_u8; 248];
        let mut word =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        word(8, 204_000);
        word(16, 32_768);
        word(44, 12);
        word(68, 20_400);
        word(76, 2_147_483_647);
        word(80, 10);
        word(144, 100);
        word(148, 4);
        word(228, 65_536);
        word(232, 80_480);
        let mut wide =
            |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        wide(104, u64::MAX);
        wide(120, 5_000_000_000);
        wide(168, 2_000_000);
        wide(176, 1_500_000);
        bytes[0] = 1;
        bytes[6] = 0x7a;
        bytes[7] = 1;
        bytes.truncate(length);
        bytes
    }

    fn decoded(length: usize) -> Evidence {
        let mut evidence = Evidence::default();
        push(Timestamp(7), FLOW, &info(length), &mut evidence);
        evidence
    }

    #[test]
    fn times_are_nanoseconds_whatever_the_kernel_counts_in() {
        let evidence = decoded(248);
        let flow = evidence.of(FLOW);
        assert_eq!(flow.last(MIN_RTT), Ok(Duration::from_micros(4)));
        assert_eq!(flow.last(RTT), Ok(Duration::from_micros(20_400)));
        assert_eq!(flow.last(LAST_DATA_SENT), Ok(Duration::from_millis(12)));
        assert_eq!(flow.last(RWND_LIMITED), Ok(Duration::from_millis(1_500)));
        assert_eq!(flow.last(SND_WND), Ok(Bytes(65_536)));
        assert_eq!(flow.last(RCV_WND), Ok(Bytes(80_480)));
        assert_eq!(flow.last(BYTES_ACKED), Ok(Bytes(5_000_000_000)));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn bit_fields_are_taken_apart() {
        let evidence = decoded(248);
        let flow = evidence.of(FLOW);
        assert_eq!((flow.last(SND_WSCALE), flow.last(RCV_WSCALE)), (Ok(10), Ok(7)));
        assert_eq!(flow.last(APP_LIMITED), Ok(1));
    }

    #[test]
    fn an_older_kernel_says_less_and_nothing_is_made_up() {
        // Linux 5.4 ends behind snd_wnd, Linux 4.9 before busy_time.
        let (of_5_4, of_4_9) = (decoded(232), decoded(168));
        assert_eq!(of_5_4.of(FLOW).last(SND_WND), Ok(Bytes(65_536)));
        assert!(of_5_4.of(FLOW).last(RCV_WND).is_err());
        assert!(of_4_9.of(FLOW).last(RWND_LIMITED).is_err());
        assert!(of_4_9.of(FLOW).last(MIN_RTT).is_ok());
    }

    #[test]
    fn what_was_never_measured_is_missing_and_not_zero_or_an_hour() {
        let mut bytes = info(248);
        bytes[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        let mut evidence = Evidence::default();
        push(Timestamp(7), FLOW, &bytes, &mut evidence);
        assert!(evidence.of(FLOW).last(MIN_RTT).is_err());
        assert!(evidence.of(FLOW).last(RCV_RTT).is_err());
        assert!(evidence.of(FLOW).last(PACING_RATE).is_err(), "not paced");
    }

    #[test]
    fn one_answer_holds_queues_tcp_info_memory_and_the_name_of_congestion_control() {
        let mut bytes = sample::message(1, 8080, 4096, 17);
        sample::attribute(&mut bytes, INFO, &info(240));
        sample::attribute(&mut bytes, CONG, b"bbr\0");
        let memory: Vec<u8> = (1..=9_u32).flat_map(|n| (n * 100).to_ne_bytes()).collect();
        sample::attribute(&mut bytes, SKMEMINFO, &memory);

        let mut evidence = Evidence::default();
        parse(&Answer { at: Timestamp(7), of: FLOW, bytes: &bytes }, &mut evidence).unwrap();

        let flow = evidence.of(FLOW);
        assert_eq!((flow.last(RQUEUE), flow.last(WQUEUE)), (Ok(Bytes(4096)), Ok(Bytes(17))));
        assert_eq!(flow.last(MIN_RTT), Ok(Duration::from_micros(4)));
        assert_eq!((flow.last(SNDBUF), flow.last(BACKLOG)), (Ok(Bytes(400)), Ok(Bytes(800))));
        assert_eq!((flow.last(WMEM_QUEUED), flow.last(DROPS)), (Ok(Bytes(600)), Ok(900)));
        assert_eq!(congestion(&bytes).as_deref(), Some("bbr"));
        assert_eq!(congestion(&bytes[..80]), None);
    }

    fn own(info: &[u8], held: u32, read: u64) -> Evidence {
        let mut evidence = Evidence::default();
        let memory: Vec<u8> = [held, 1000, 0, 2000, 0, 0, 0, 0, 3].map(u32::to_ne_bytes).concat();
        push_own(Timestamp(7), FLOW, info, Some(&memory), Some(read), &mut evidence);
        evidence
    }

    #[test]
    fn what_its_own_process_can_be_asked_gives_both_queues() {
        let mut bytes = info(248);
        let mut wide =
            |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        wide(120, 4_000);
        wide(128, 10_000);
        wide(200, 6_500);
        wide(208, 500);
        bytes[24] = 2;
        let evidence = own(&bytes, 4_096, 9_000);
        let flow = evidence.of(FLOW);
        assert_eq!((flow.last(RQUEUE), flow.last(WQUEUE)), (Ok(Bytes(1_000)), Ok(Bytes(2_100))));
        assert_eq!((flow.last(RCVBUF), flow.last(SNDBUF)), (Ok(Bytes(1_000)), Ok(Bytes(2_000))));
        assert_eq!((flow.last(DROPS), flow.last(NOTSENT_BYTES)), (Ok(3), Ok(Bytes(100))));
        // Nothing is held, whatever the counters say; a FIN is none of the bytes to be read.
        assert_eq!(own(&bytes, 0, 9_000).of(FLOW).last(RQUEUE), Ok(Bytes(0)));
        bytes[0] = 8;
        assert_eq!(own(&bytes, 768, 9_999).of(FLOW).last(RQUEUE), Ok(Bytes(0)));
        // Everything that was sent is acknowledged, its SYN too.
        bytes[24] = 0;
        assert_eq!(own(&bytes, 0, 0).of(FLOW).last(WQUEUE), Ok(Bytes(100)));
        // An older kernel does not count what it sent.
        let short = own(&bytes[..192], 0, 0);
        assert!(short.of(FLOW).last(WQUEUE).is_err() && short.of(FLOW).last(MIN_RTT).is_ok());
    }

    #[test]
    fn the_kernels_first_send_buffers_are_told_from_those_of_an_option() {
        // MTU 1500 with cubic and with bbr, older kernels, loopback; then {sndbuf, 32768} and SO_SNDBUF of 64 KiB.
        let kernels = [46_080, 69_120, 87_040, 130_560, 2_626_560];
        assert!(kernels.into_iter().all(is_initial_send_buffer));
        assert!(![65_536, 131_072, 16_384, 4_608].into_iter().any(is_initial_send_buffer));
        // 26 segments over 30 ms with bbr; and what options set, twice.
        assert!(!is_initial_send_buffer(179_712) && is_send_buffer_of_the_kernel(179_712));
        let options = [8_192, 65_536, 100_000, 131_072, 200_000, 1_000_000, 1_048_576, 5_242_880];
        assert!(!options.into_iter().any(|of| is_send_buffer_of_the_kernel(2 * of)));
    }

    #[test]
    fn an_answer_cut_short_is_an_error() {
        let answer = Answer { at: Timestamp(7), of: FLOW, bytes: &[1; 20] };
        let error = parse(&answer, &mut Evidence::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 0: expected the 72 bytes of inet_diag_msg, found 20 bytes"
        );
    }
}
