//! TCP: one end of a connection, without sockets. Data to send, segments and time go in; segments come out.
//!
//! Cumulative acknowledgements, delayed ones, slow start and congestion avoidance, NewReno's fast
//! retransmission, retransmission timeouts with backoff, and the tail loss probe, which is what repairs
//! the loss of a single small message. Linux's timing: a timeout waits the round trip and 200 ms or more.
//!
//! Blind spots: no handshake and no close, no SACK and no pacing (they matter to long transfers, not to
//! exchanges of a few segments), a receiver's window that never shrinks.
//! Source: RFC 5681, 6298, 6582, 6928, 8985 (section 7); `net/ipv4/tcp_output.c`, `tcp_input.c`.

use std::collections::VecDeque;
use std::time::Duration;

use linerate_model::Timestamp;

use crate::outcome::Causes;
use crate::scenario::{Acks, Tcp};

/// What one end sends to the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Segment {
    /// Place of its first byte.
    pub seq: u64,
    /// Bytes of data; none: a pure acknowledgement.
    pub len: u32,
    /// All before this place has come.
    pub ack: u64,
    /// Its data was sent before.
    pub again: bool,
}

/// What an end gave back.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub segments: VecDeque<Segment>,
    pub causes: Causes,
}

/// Source: RFC 6298, section 2.1.
const INITIAL_RTO: u64 = 1_000_000_000;

/// Source: TCP_TIMEOUT_MIN, two jiffies of 1 ms or more.
const PROBE_SLACK: u64 = 2_000_000;

/// Source: TCP_RTO_MAX.
const MAX_RTO: u64 = 120_000_000_000;

/// One end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// All before this place has been acknowledged.
    una: u64,
    /// Next to send; before `sent` while segments are sent again.
    next: u64,
    /// All before this place has been sent at least once.
    sent: u64,
    /// The application has written up to here.
    written: u64,
    /// In segments.
    cwnd: f64,
    ssthresh: f64,
    duplicates: u32,
    /// Acknowledgements up to here belong to a loss that was seen.
    recover: u64,
    recovering: bool,
    /// A place whose acknowledgement is timed, and when the byte before it was sent.
    timed: Option<(u64, Timestamp)>,
    srtt: u64,
    rttvar: u64,
    backoff: u32,
    last_sent: Timestamp,
    timer: Option<(Timestamp, Timer)>,
    /// A probe was sent for data up to here.
    probed: u64,
    /// All before this place has come.
    received: u64,
    /// What came beyond it, in order.
    islands: Vec<(u64, u64)>,
    /// Segments that came since the last acknowledgement.
    unacked: u32,
    ack_due: Option<Timestamp>,
    last_received: Timestamp,
    pingpong: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Timer {
    Probe,
    Timeout,
}

impl End {
    /// One that has just been connected over a path of this round trip.
    pub fn new(tcp: &Tcp, rtt: Duration) -> Self {
        let rtt = rtt.as_nanos() as u64;
        Self {
            una: 0,
            next: 0,
            sent: 0,
            written: 0,
            cwnd: f64::from(tcp.initial_window),
            ssthresh: f64::INFINITY,
            duplicates: 0,
            recover: 0,
            recovering: false,
            timed: None,
            srtt: rtt,
            rttvar: rtt / 2,
            backoff: 0,
            last_sent: Timestamp(0),
            timer: None,
            probed: 0,
            received: 0,
            islands: Vec::new(),
            unacked: 0,
            ack_due: None,
            last_received: Timestamp(0),
            pingpong: true,
        }
    }

    /// The application writes.
    pub fn write(&mut self, now: Timestamp, bytes: u64, tcp: &Tcp, out: &mut Out) {
        self.written += bytes;
        self.restart_after_idle(now, tcp);
        self.send(now, tcp, out);
    }

    /// A segment comes from the other end. Gives how many bytes the application can read more.
    pub fn on_segment(
        &mut self,
        now: Timestamp,
        segment: Segment,
        tcp: &Tcp,
        out: &mut Out,
    ) -> u64 {
        self.on_ack(now, segment, tcp, out);
        if segment.len == 0 { 0 } else { self.on_data(now, segment, tcp, out) }
    }

    /// When [`on_timer`](Self::on_timer) is due.
    pub fn timer_due(&self) -> Option<Timestamp> {
        self.timer.map(|(due, _)| due)
    }

    /// A probe or a retransmission is due.
    pub fn on_timer(&mut self, now: Timestamp, tcp: &Tcp, out: &mut Out) {
        let Some((_, timer)) = self.timer.take_if(|(due, _)| *due <= now) else {
            return;
        };
        match timer {
            Timer::Probe => {
                // New data would do as well; whatever may be sent has been sent. So the last segment again.
                let len = (self.sent - self.una).min(tcp.mss.0);
                self.emit(now, self.sent - len, len, out);
                out.causes.probes += 1;
                self.probed = self.sent;
            }
            Timer::Timeout => {
                let flight = self.in_flight(tcp);
                if self.backoff == 0 {
                    self.ssthresh = (flight / 2.0).max(2.0);
                }
                self.cwnd = 1.0;
                self.recover = self.sent;
                self.recovering = false;
                self.duplicates = 0;
                self.backoff += 1;
                self.next = self.una;
                let len = (self.sent - self.una).min(tcp.mss.0);
                self.emit(now, self.una, len, out);
                self.next = self.una + len;
                out.causes.timeouts += 1;
            }
        }
        self.timer = Some((self.timeout_at(now, tcp), Timer::Timeout));
    }

    /// When an acknowledgement that waits for data is due.
    pub fn ack_due(&self) -> Option<Timestamp> {
        self.ack_due
    }

    /// The acknowledgement waited in vain.
    pub fn on_ack_due(&mut self, now: Timestamp, out: &mut Out) {
        if self.ack_due.is_some_and(|due| due <= now) {
            self.pingpong = false;
            self.acknowledge(out);
        }
    }

    fn on_ack(&mut self, now: Timestamp, segment: Segment, tcp: &Tcp, out: &mut Out) {
        let ack = segment.ack;
        if ack > self.una && ack <= self.sent {
            let flight = self.in_flight(tcp);
            let acked = ((ack - self.una) as f64 / tcp.mss.0 as f64).ceil();
            let was_probed = self.probed > self.una;
            self.una = ack;
            self.next = self.next.max(ack);
            self.duplicates = 0;
            self.backoff = 0;
            if let Some((_, sent)) = self.timed.take_if(|(place, _)| *place <= ack) {
                self.sample(now.nanos_since(sent));
            }
            if self.recovering && ack < self.recover {
                // A partial acknowledgement tells of the next hole.
                self.retransmit_first(now, tcp, out);
                self.cwnd = (self.cwnd - acked + 1.0).max(1.0);
            } else if self.recovering {
                self.recovering = false;
                self.cwnd = self.ssthresh;
            } else {
                self.grow(flight, acked);
                if was_probed && ack >= self.probed {
                    // The probe repaired a loss: once more and slower.
                    self.ssthresh = (self.cwnd / 2.0).max(2.0);
                    self.cwnd = self.cwnd.min(self.ssthresh);
                }
            }
            self.timer = None;
            self.send(now, tcp, out);
            self.arm(now, tcp);
        } else if ack == self.una && segment.len == 0 && self.una < self.sent {
            self.duplicates += 1;
            // Fewer than four in flight can't give three duplicates.
            let outstanding = (self.sent - self.una).div_ceil(tcp.mss.0) as u32;
            let threshold = outstanding.saturating_sub(1).clamp(1, 3);
            if self.recovering {
                self.cwnd += 1.0;
                self.send(now, tcp, out);
            } else if self.duplicates >= threshold && outstanding > 1 && self.una >= self.recover {
                self.ssthresh = (self.in_flight(tcp) / 2.0).max(2.0);
                self.cwnd = self.ssthresh + f64::from(self.duplicates);
                self.recover = self.sent;
                self.recovering = true;
                self.retransmit_first(now, tcp, out);
                out.causes.fast += 1;
                self.timer = Some((self.timeout_at(now, tcp), Timer::Timeout));
            }
        }
    }

    fn on_data(&mut self, now: Timestamp, segment: Segment, tcp: &Tcp, out: &mut Out) -> u64 {
        self.last_received = now;
        let end = segment.seq + u64::from(segment.len);
        if end <= self.received {
            // Once more: the other end has missed an acknowledgement.
            self.acknowledge(out);
            return 0;
        }
        if segment.seq > self.received {
            self.keep(segment.seq, end);
            self.acknowledge(out);
            return 0;
        }
        let before = self.received;
        let filled_a_hole = !self.islands.is_empty();
        self.received = end;
        while let Some((_, end)) = self.islands.first().filter(|(from, _)| *from <= self.received) {
            self.received = self.received.max(*end);
            self.islands.remove(0);
        }
        self.unacked += 1;
        let at_once = tcp.acks == Acks::Pushed && !self.pingpong;
        if filled_a_hole || at_once || self.unacked >= 2 {
            self.acknowledge(out);
        } else {
            self.ack_due = Some(now.after(tcp.delayed_ack));
        }
        self.received - before
    }

    /// Sends what is written and what the windows let.
    fn send(&mut self, now: Timestamp, tcp: &Tcp, out: &mut Out) {
        let before = self.next;
        loop {
            let len = (self.written - self.next).min(tcp.mss.0);
            let flight = self.next - self.una;
            let in_window = flight + len <= tcp.window.0 || flight == 0;
            let segments = flight.div_ceil(tcp.mss.0);
            if len == 0 || !in_window || segments as f64 + 1.0 > self.cwnd.max(1.0) {
                break;
            }
            if self.next == self.sent && now.since(self.last_received) < tcp.delayed_ack {
                self.pingpong = true;
            }
            self.emit(now, self.next, len, out);
            self.next += len;
            if self.next > self.sent {
                self.sent = self.next;
                self.timed.get_or_insert((self.sent, now));
            }
        }
        if self.next > before {
            self.arm(now, tcp);
        }
    }

    fn retransmit_first(&mut self, now: Timestamp, tcp: &Tcp, out: &mut Out) {
        let len = (self.sent - self.una).min(tcp.mss.0);
        self.emit(now, self.una, len, out);
    }

    fn emit(&mut self, now: Timestamp, seq: u64, len: u64, out: &mut Out) {
        let again = seq < self.sent;
        if again {
            // Karn: which of the two is acknowledged, nobody knows.
            self.timed = None;
        }
        self.last_sent = now;
        self.unacked = 0;
        self.ack_due = None;
        out.segments.push_back(Segment { seq, len: len as u32, ack: self.received, again });
    }

    fn acknowledge(&mut self, out: &mut Out) {
        self.unacked = 0;
        self.ack_due = None;
        let ack = self.received;
        out.segments.push_back(Segment { seq: self.next, len: 0, ack, again: false });
    }

    /// Sets the timer for what is out: a probe first, unless one was sent for it.
    fn arm(&mut self, now: Timestamp, tcp: &Tcp) {
        if self.una == self.sent {
            self.timer = None;
            return;
        }
        let timeout = self.timeout_at(now, tcp);
        let may_probe = !self.recovering && self.una >= self.recover && self.una >= self.probed;
        self.timer = Some(if may_probe && self.backoff == 0 {
            let alone = self.sent - self.una <= tcp.mss.0;
            // A single segment's acknowledgement may have been delayed.
            let slack = if alone { tcp.min_rto.as_nanos() as u64 } else { PROBE_SLACK };
            let probe = Timestamp(now.0 + 2 * self.srtt + slack);
            (probe.min(timeout), Timer::Probe)
        } else {
            (timeout, Timer::Timeout)
        });
    }

    fn timeout_at(&self, now: Timestamp, tcp: &Tcp) -> Timestamp {
        let rto = if self.srtt == 0 && self.rttvar == 0 {
            INITIAL_RTO
        } else {
            self.srtt + (4 * self.rttvar).max(tcp.min_rto.as_nanos() as u64)
        };
        Timestamp(now.0 + (rto << self.backoff.min(10)).min(MAX_RTO))
    }

    fn sample(&mut self, rtt: u64) {
        // Source: RFC 6298, section 2.3.
        self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(rtt)) / 4;
        self.srtt = (7 * self.srtt + rtt) / 8;
    }

    /// Only a window that was used grows.
    fn grow(&mut self, flight: f64, acked: f64) {
        if self.cwnd < self.ssthresh {
            if 2.0 * flight >= self.cwnd {
                self.cwnd += acked;
            }
        } else if flight >= self.cwnd.floor() {
            self.cwnd += acked / self.cwnd;
        }
    }

    /// Source: RFC 5681, section 4.1, and Linux, which halves the window a timeout.
    fn restart_after_idle(&mut self, now: Timestamp, tcp: &Tcp) {
        if self.una < self.sent {
            return;
        }
        let initial = f64::from(tcp.initial_window);
        let rto = self.timeout_at(Timestamp(0), tcp).0.max(1);
        let mut idle = now.nanos_since(self.last_sent);
        while idle > rto && self.cwnd > initial {
            self.cwnd = (self.cwnd / 2.0).max(initial);
            idle -= rto;
        }
    }

    /// In segments.
    fn in_flight(&self, tcp: &Tcp) -> f64 {
        (self.sent - self.una).div_ceil(tcp.mss.0) as f64
    }

    fn keep(&mut self, from: u64, to: u64) {
        let place = self.islands.partition_point(|island| *island < (from, to));
        self.islands.insert(place, (from, to));
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{Path, Share};
    use linerate_netpath::{Packet, Pipe};

    use super::*;

    const MS: u64 = 1_000_000;

    #[derive(Clone, Debug)]
    struct Wire(Segment);

    impl Packet for Wire {
        fn segments(&self) -> u32 {
            1
        }

        fn bytes(&self) -> u64 {
            u64::from(self.0.len) + 52
        }

        fn largest(&self) -> u64 {
            self.bytes()
        }

        fn split_first(&mut self, _segments: u32) -> Self {
            self.clone()
        }

        fn copy(&self) -> Self {
            self.clone()
        }
    }

    /// Two ends and a path between them, in virtual time.
    struct Pair {
        now: Timestamp,
        tcp: Tcp,
        ends: [End; 2],
        pipes: [Pipe<Wire>; 2],
        read: [u64; 2],
        /// Data and pure acknowledgements that each end sent.
        data: [u64; 2],
        acks: [u64; 2],
        causes: Causes,
        /// Segments of the first end that get lost, by their place among all that it sends.
        lose: Vec<u64>,
    }

    impl Pair {
        fn over(path: Path, tcp: Tcp) -> Self {
            let end = End::new(&tcp, path.round_trip());
            let pipes = path.directions().map(|way| Pipe::new(&way, None));
            Self {
                now: Timestamp(0),
                tcp,
                ends: [end.clone(), end],
                pipes,
                read: [0; 2],
                data: [0; 2],
                acks: [0; 2],
                causes: Causes::default(),
                lose: Vec::new(),
            }
        }

        fn write(&mut self, end: usize, bytes: u64) {
            let mut out = Out::default();
            self.ends[end].write(self.now, bytes, &self.tcp, &mut out);
            self.pass(end, out);
        }

        fn pass(&mut self, end: usize, out: Out) {
            for segment in out.segments {
                let nth = self.data[end] + self.acks[end];
                if segment.len > 0 {
                    self.data[end] += 1;
                } else {
                    self.acks[end] += 1;
                }
                if end == 1 || !self.lose.contains(&nth) {
                    self.pipes[end].push(self.now, Wire(segment));
                }
            }
            self.causes.fast += out.causes.fast;
            self.causes.probes += out.causes.probes;
            self.causes.timeouts += out.causes.timeouts;
        }

        /// To the next instant at which something happens; false when nothing will.
        fn step(&mut self) -> bool {
            let due = |end: &End| [end.timer_due(), end.ack_due()];
            let next = self.ends.iter().flat_map(due);
            let pipes = self.pipes.iter().map(Pipe::next_due);
            let Some(next) = next.chain(pipes).flatten().min() else { return false };
            assert!(next >= self.now);
            self.now = next;
            for from in 0..2 {
                while let Some(Wire(segment)) = self.pipes[from].pop(next) {
                    let to = 1 - from;
                    let mut out = Out::default();
                    self.read[to] += self.ends[to].on_segment(next, segment, &self.tcp, &mut out);
                    self.pass(to, out);
                }
            }
            for end in 0..2 {
                let mut out = Out::default();
                self.ends[end].on_timer(next, &self.tcp, &mut out);
                self.ends[end].on_ack_due(next, &mut out);
                self.pass(end, out);
            }
            true
        }

        /// Until the second end has read so many bytes; when that was, in ms.
        fn until_read(&mut self, bytes: u64) -> u64 {
            while self.read[1] < bytes {
                assert!(self.step(), "nothing happens any more at {:?}", self.now);
                assert!(self.now.0 < 36_000_000 * MS, "it takes for ever");
            }
            self.now.0 / MS
        }
    }

    fn ten_ms() -> Pair {
        Pair::over(Path::of_rtt(Duration::from_millis(10)), Tcp::default())
    }

    #[test]
    fn slow_start_doubles_the_window_each_round_trip() {
        let mut pair = ten_ms();
        pair.write(0, 100 * 1448);
        // 10, 20, 40 and 30 segments: the last arrive half a round trip after the third
        assert_eq!(pair.until_read(100 * 1448), 35);
    }

    #[test]
    fn every_second_segment_is_acknowledged_at_once_and_a_single_one_after_40_ms() {
        let mut pair = ten_ms();
        pair.write(0, 4 * 1448);
        while pair.step() {}
        assert_eq!((pair.data[0], pair.acks[1]), (4, 2));
        let mut pair = ten_ms();
        pair.write(0, 1000);
        while pair.step() {}
        // there 5 ms, waits 40, back 5
        assert_eq!((pair.acks[1], pair.now.0 / MS), (1, 50));
    }

    #[test]
    fn an_answer_carries_the_acknowledgement() {
        let mut pair = ten_ms();
        for exchange in 1..=10 {
            pair.write(0, 1026);
            pair.until_read(exchange * 1026);
            pair.write(1, 1026);
            while pair.read[0] < exchange * 1026 {
                assert!(pair.step());
            }
        }
        assert_eq!((pair.data, pair.acks), ([10, 10], [0, 0]));
    }

    #[test]
    fn a_lost_message_is_repaired_after_the_round_trip_and_200_ms() {
        let mut pair = ten_ms();
        pair.lose = vec![0];
        pair.write(0, 1026);
        // 10 + 200 ms, there 5
        assert_eq!(pair.until_read(1026), 215);
        assert_eq!((pair.causes.probes, pair.causes.timeouts), (1, 0));
    }

    #[test]
    fn a_message_lost_again_and_again_waits_twice_as_long_each_time() {
        let mut pair = ten_ms();
        pair.lose = vec![0, 1, 2];
        pair.write(0, 1026);
        // probe at 210, timeouts 210 and 420 after it, there 5
        assert_eq!(pair.until_read(1026), 845);
        assert_eq!((pair.causes.probes, pair.causes.timeouts), (1, 2));
    }

    #[test]
    fn a_hole_among_many_is_repaired_in_a_round_trip() {
        let mut pair = ten_ms();
        pair.lose = vec![2];
        pair.write(0, 10 * 1448);
        assert_eq!(pair.until_read(10 * 1448), 15);
        assert_eq!((pair.causes.fast, pair.causes.probes, pair.causes.timeouts), (1, 0, 0));
    }

    #[test]
    fn the_last_of_several_is_probed_for_after_two_round_trips() {
        let mut pair = ten_ms();
        pair.lose = vec![9];
        pair.write(0, 10 * 1448);
        // acknowledged at 10, a delayed one later; the probe within another 250 ms and not a timeout
        assert!(pair.until_read(10 * 1448) < 300);
        assert_eq!((pair.causes.probes, pair.causes.timeouts), (1, 0));
    }

    #[test]
    fn a_window_bounds_what_is_in_flight() {
        let tcp = Tcp { window: linerate_model::Bytes(14_480), ..Tcp::default() };
        let mut pair = Pair::over(Path::of_rtt(Duration::from_millis(10)), tcp);
        pair.write(0, 100 * 1448);
        // ten segments a round trip
        assert_eq!(pair.until_read(100 * 1448), 95);
    }

    #[test]
    fn whatever_a_path_does_all_bytes_arrive_once() {
        for seed in 0..200 {
            let path = Path {
                loss: Share(0.02 * (seed % 8) as f64),
                loss_burst: 1.0 + (seed % 3) as f64,
                duplicate: Share(if seed % 2 == 0 { 0.1 } else { 0.0 }),
                jitter: Duration::from_millis(seed % 5),
                keep_order: seed % 4 != 1,
                limit: (seed % 5 == 0).then_some(20),
                seed,
                ..Path::of_rtt(Duration::from_millis(10))
            };
            let mut pair = Pair::over(path, Tcp::default());
            let mut written = 0;
            for message in [1, 1026, 1448, 50_000, 300_000, 10] {
                written += message;
                pair.write(0, message);
                pair.write(1, 100);
                pair.until_read(written);
            }
            while pair.step() {}
            assert_eq!(pair.read, [600, written], "seed {seed}");
        }
    }
}
