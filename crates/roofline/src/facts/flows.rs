//! Sampled connections by the kernel: which end sends the bulk, the round trip, and what limits the bytes in flight.

use crate::prelude::*;

/// The initial congestion window. Unit: segments.
// Source: RFC 6928; `TCP_INIT_CWND`, linux/include/net/tcp.h.
pub(crate) const INITIAL_WINDOW: f64 = 10.0;

/// The end that sends more, and the payload of one exchange from there. Unit: bytes.
pub(crate) fn heavier(run: &Run) -> (Side, f64) {
    let each = |bytes: u64| bytes as f64 / run.load.exchanges.max(1) as f64;
    let (up, down) = (each(run.load.bytes_written), each(run.load.bytes_read));
    if up > down { (Side::Client, up) } else { (Side::Server, down) }
}

/// The station of exchanges with bytes unsent at that end.
pub(crate) fn sending(side: Side) -> Station {
    if side == Side::Client { Station::ClientSending } else { Station::ServerSending }
}

pub(crate) struct Bulk<'a> {
    pub sender: Side,
    pub receiver: Side,
    /// Payload of one exchange; of a watched service, of one read. Unit: bytes.
    pub bytes: f64,
    pub senders: Vec<Of<'a>>,
    pub receivers: Vec<Of<'a>>,
    /// A connection's time an exchange. Unit: seconds.
    cycle: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    /// By an option.
    Fixed,
    /// A send buffer for the first ten segments. It grows with a full congestion window, which it may prevent.
    Initial,
    /// Tuned up to the kernel's limit. Unit: bytes.
    AtMost(f64),
    /// Tuned, below the limit.
    Tuned,
}

/// A sender at an instant at which it had bytes in flight or to send. Unit: bytes.
pub(crate) struct Moment {
    /// Sent and not acknowledged.
    pub in_flight: f64,
    /// Written and not sent.
    pub unsent: f64,
    pub segment: f64,
    /// Whether the send buffer is so full that a writer waits.
    pub is_full: bool,
    /// Whether both windows let another segment out.
    pub has_room: bool,
}

impl Moment {
    /// Less than a segment waits, with window for it, until what is in flight is acknowledged.
    pub fn is_nagle(&self) -> bool {
        self.unsent > 0.0 && self.unsent < self.segment && self.in_flight > 0.0 && self.has_room
    }
}

impl<'a> Bulk<'a> {
    pub fn of(facts: &Facts<'a>) -> Self {
        let run = &facts.run;
        let (sender, bytes) = heavier(run);
        let receiver = if sender == Side::Client { Side::Server } else { Side::Client };
        Self {
            sender,
            receiver,
            bytes: run.block().unwrap_or(bytes).max(1.0),
            senders: run.flows(sender),
            receivers: run.flows(receiver),
            cycle: f64::from(run.connections()) / facts.attained.max(1e-9),
        }
    }

    /// Time that so many bytes a round trip add to an exchange after its first. Unit: seconds.
    pub fn round_trips(&self, facts: &Facts, most: f64, rtt: f64) -> Result<f64, Missing> {
        match facts.load {
            // A block of a stream takes no more than its share of a round trip.
            Load::Made if facts.streams() => Ok((self.bytes / most.max(1.0) * rtt).min(self.cycle)),
            Load::Made => Ok((self.bytes / most.max(1.0) - 1.0).max(0.0) * rtt),
            // A read is what one call took, not what the peer had to send.
            Load::Watched => {
                let per_s = mean_over(&self.senders, |flow| flow.rate(tcp_info::BYTES_ACKED))?;
                Ok((per_s / most.max(1.0) * rtt).min(1.0) * self.cycle)
            }
        }
    }

    /// A share of the time with bytes in flight or to send, an exchange. Unit: seconds.
    pub fn busy(&self, share: f64) -> Result<f64, Missing> {
        let busy = mean_over(&self.senders, |flow| flow.rate(tcp_info::BUSY_TIME))?;
        Ok(share * busy.min(1.0) * self.cycle)
    }

    /// Median bytes in flight at the senders' moments of which this is so.
    pub fn in_flight(&self, when: &str, is: fn(&Moment) -> bool) -> Result<f64, Missing> {
        mean_over(&self.senders, |flow| {
            let held = moments(flow)?.into_iter().filter(is).map(|at| at.in_flight);
            middle(held).ok_or_else(|| missing(tcp_info::UNACKED.name, &format!("flow/* {when}")))
        })
    }

    /// Bytes in flight while others wait for a window of this size, if clearly less: a slow reader has shut it.
    pub fn shut(&self, window: f64) -> Option<f64> {
        let is_held = |at: &Moment| at.unsent > 0.0 && !at.has_room;
        let out = self.in_flight("with bytes waiting", is_held).ok()?;
        (out < HALFWAY * window).then_some(out)
    }

    pub fn share(&self, is: impl Fn(&Moment) -> bool) -> Result<f64, Missing> {
        mean_over(&self.senders, |flow| part_sending(&moments(flow)?, &is))
    }

    /// The sum's end: `4 connections x 64.0 KiB / 20.1 ms round trip / 512 KiB an exchange = 25/s`.
    pub fn sum(&self, facts: &Facts, most: f64, what: &str, rtt: f64) -> String {
        let (run, each) = (&facts.run, facts.each());
        let rate = OpRate(f64::from(run.connections()) * most / rtt / self.bytes);
        let (connections, all) = (run.connections_words(), Bytes(self.bytes as u64));
        let (most, rtt) = (Bytes(most as u64), duration(rtt));
        format!("{connections} x {most} {what} / {rtt} round trip / {all} {each} = {rate}")
    }

    /// A buffer that holds a whole exchange in flight; at least twice the size. Unit: bytes.
    pub fn room_for(&self, buffer: f64, window: f64) -> u64 {
        let times = (self.bytes / window.max(1.0)).ceil().max(2.0) as u64;
        // Source: buffers are ints in the kernel, `sk_rcvbuf` and `sk_sndbuf`, include/net/sock.h.
        (buffer as u64).saturating_mul(times.next_power_of_two()).min(1 << 30)
    }
}

pub(crate) fn moments(flow: &Of) -> Result<Vec<Moment>, Missing> {
    let segment = flow.max(tcp_info::SND_MSS)?.0.max(1);
    // The kernel gives them in one answer.
    let segments = flow.both(tcp_info::UNACKED, tcp_info::SND_CWND)?;
    let windows = flow.both(tcp_info::NOTSENT_BYTES, tcp_info::SND_WND)?;
    let buffers = flow.both(tcp_info::WMEM_QUEUED, tcp_info::SNDBUF)?;
    let all = segments.into_iter().zip(windows).zip(buffers);
    let busy = all.filter_map(|(((unacked, cwnd), (unsent, window)), (queued, buffer))| {
        let in_flight = unacked * segment;
        (in_flight + unsent.0 > 0).then_some(Moment {
            in_flight: in_flight as f64,
            unsent: unsent.0 as f64,
            segment: segment as f64,
            // Source: `sk_stream_is_writeable`, include/net/sock.h: a writer waits until a third is free.
            is_full: queued.0 * 3 > buffer.0 * 2,
            has_room: unacked < cwnd && in_flight + segment <= window.0,
        })
    });
    Ok(busy.collect())
}

/// Of a sender's samples with something to send, the share of which this is so.
pub(crate) fn part_sending<T>(busy: &[T], is: impl Fn(&T) -> bool) -> Result<f64, Missing> {
    missing_if(busy.is_empty(), tcp_info::UNACKED.name, "flow/* while sending")?;
    Ok(busy.iter().filter(|at| is(at)).count() as f64 / busy.len() as f64)
}

/// Whether the pacing rate was configured: it stays constant while bytes move at it; congestion control's varies.
pub(crate) fn pacing_was_set(flows: &[Of]) -> Result<bool, Missing> {
    let still = part_of(flows, |flow| {
        let samples = flow.values(tcp_info::PACING_RATE)?;
        let rate = samples[0];
        let (bytes, busy) = (flow.grown(tcp_info::BYTES_ACKED)?, flow.grown(tcp_info::BUSY_TIME)?);
        // A configured rate is one that bytes move at; two samples may be alike by chance.
        let is_met = bytes >= HALFWAY * rate as f64 * busy && bytes > 0.0;
        Ok(is_met && samples.len() > 2 && samples.iter().all(|other| *other == rate))
    })?;
    Ok(still >= HALFWAY)
}

/// What set the size of the buffers at one end.
pub(crate) fn size(
    flows: &[Of],
    buffer: Metric<Bytes>,
    most: Result<f64, Missing>,
) -> Result<Size, Missing> {
    let share = |is: &dyn Fn(u64, u64) -> bool| {
        part_of(flows, |flow| Ok(is(flow.min(buffer)?.0, flow.max(buffer)?.0)))
    };
    let sizes: Vec<u64> = flows.iter().filter_map(|flow| Some(flow.max(buffer).ok()?.0)).collect();
    let alike = |size: &u64| sizes.iter().filter(|other| *other == size).count();
    let are_alike = sizes.iter().any(|of| alike(of) as f64 > HALFWAY * sizes.len() as f64);
    Ok(match most {
        Ok(most) if share(&|_, largest| largest as f64 == most)? >= HALFWAY => Size::AtMost(most),
        _ if share(&|least, largest| least == largest)? <= HALFWAY => Size::Tuned,
        _ if part_of(flows, |flow| Ok(grew(flow, buffer)))? > HALFWAY => Size::Tuned,
        _ if buffer.name == tcp_info::SNDBUF.name
            && share(&|_, of| tcp_info::is_initial_send_buffer(of))? > HALFWAY =>
        {
            Size::Initial
        }
        _ if buffer.name == tcp_info::SNDBUF.name
            && share(&|_, of| tcp_info::is_send_buffer_of_the_kernel(of))? > HALFWAY =>
        {
            Size::Tuned
        }
        // An option sets one size for all.
        _ if are_alike => Size::Fixed,
        _ => Size::Tuned,
    })
}

/// Whether a send buffer grew, before the measured stretch too. An option may be set after a first sample of the initial size.
fn grew(flow: &Of, buffer: Metric<Bytes>) -> bool {
    let all = flow.clone().whole().values(buffer).unwrap_or_default();
    let later = all.iter().skip_while(|of| tcp_info::is_initial_send_buffer(of.0));
    let is_send = buffer.name == tcp_info::SNDBUF.name;
    is_send && Vec::from_iter(later).windows(2).any(|of| of[0] != of[1])
}

pub(crate) fn congestion_of<'a>(run: &Run<'a>, side: Side) -> Vec<&'a str> {
    run.ends(side).filter_map(|end| run.fact(end, "congestion")).collect()
}

pub(crate) fn is_nodelay(flow: &Of) -> bool {
    flow.last(port::NODELAY) == Ok(1)
}

/// The smallest round trip that either end saw. Unit: seconds.
pub(crate) fn min_rtt(run: &Run) -> Result<f64, Missing> {
    let flows = [Side::Client, Side::Server].map(|side| run.flows(side)).concat();
    let rtts = over(&flows, missing(tcp_info::MIN_RTT.name, "flow/*"), |flow| {
        Ok(flow.min(tcp_info::MIN_RTT)?.as_secs_f64())
    })?;
    Ok(rtts.into_iter().fold(f64::INFINITY, f64::min).max(1e-6))
}

/// The third number of such a setting. Unit: bytes.
pub(crate) fn setting(run: &Run, name: &str) -> Result<f64, Missing> {
    let third = run.header.host.sysctls.get(name).and_then(|all| all.split_whitespace().nth(2));
    third.and_then(|most| most.parse().ok()).ok_or_else(|| missing(name, "host"))
}

/// Segment size. Unit: bytes.
pub(crate) fn segment(senders: &[Of]) -> Result<f64, Missing> {
    mean_over(senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))
}

pub(crate) fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

pub(crate) fn mean_over(
    flows: &[Of],
    figure: impl Fn(&Of) -> Result<f64, Missing>,
) -> Result<f64, Missing> {
    let found = over(flows, missing("tcp.info", "flow/*"), figure)?;
    Ok(found.iter().sum::<f64>() / found.len() as f64)
}

/// The share of flows of which this is so, of those that have it.
fn part_of(flows: &[Of], is: impl Fn(&Of) -> Result<bool, Missing>) -> Result<f64, Missing> {
    mean_over(flows, |flow| Ok(if is(flow)? { 1.0 } else { 0.0 }))
}

/// A figure of the flows that have it; never none.
fn over(
    flows: &[Of],
    none: Missing,
    figure: impl Fn(&Of) -> Result<f64, Missing>,
) -> Result<Vec<f64>, Missing> {
    let (found, lacks): (Vec<_>, Vec<_>) = flows.iter().map(figure).partition(Result::is_ok);
    let lacks = lacks.into_iter().rev().find_map(Result::err).unwrap_or(none);
    if found.is_empty() { Err(lacks) } else { Ok(found.into_iter().flatten().collect()) }
}

/// The target's receive queues, on average. While one is full its window is shut, whatever the exchange.
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
        let most = if self.is_split() { self.at(Station::Unread) } else { f64::INFINITY };
        let full = (share * f64::from(self.run.connections())).min(most);
        Ok(Unread { full, share, bytes, readers: readers.len() as f64 })
    }
}

/// Whether anything came on it, where the kernel counts that.
pub(crate) fn carries(flow: &Of) -> bool {
    flow.all(tcp_info::RQUEUE).is_ok() && flow.grown(tcp_info::BYTES_RECEIVED) != Ok(0.0)
}

/// The share of its samples in which the receive queue was full.
fn full(flow: &Of) -> Result<f64, Missing> {
    let all = flow.both(tcp_info::RCVBUF, tcp_info::RQUEUE)?;
    let memory = flow.values(tcp_info::RMEM_ALLOC).or_else(|_| flow.values(tcp_info::RQUEUE))?;
    // Source: `tcp_win_from_space`, include/net/tcp.h: half of the buffer is offered as a window.
    let is_full = |((buffer, bytes), memory): &(&(Bytes, Bytes), Bytes)| {
        bytes.0 > 0 && bytes.0.max(memory.0) * 2 >= buffer.0
    };
    let full = all.iter().zip(memory).filter(is_full).count();
    Ok(full as f64 / flow.values(tcp_info::RQUEUE)?.len() as f64)
}
