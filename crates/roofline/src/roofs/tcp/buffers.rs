//! Windows and buffers: of the heavier direction a flow has no more in flight per round trip than its peer's window,
//! or its own send buffer, holds, and that is too small. Four of a kind, told apart by who set the size.
//!
//! `each = (bytes an exchange / under way at most - 1) x min RTT`, of a send buffer no more than the time with a full
//! one; or what the census finds held by it, if that is more: a window of a few segments costs delayed ACKs as well
//!
//! - `tcp.receive-window`, `tcp.send-buffer`: an option fixed it; or it is the send buffer that the kernel began with.
//! - `tcp.rmem-max`, `tcp.wmem-max`: tuning has brought it to the third number of `net.ipv4.tcp_rmem` or `tcp_wmem`.
//!
//! Blind spot: a window that opened and shut again between two samples; an option that asks for just as much as the
//! setting gives. The kernel's own `sndbuf_limited` clock misses writers that do not block, so it is not asked.
//! Source: RFC 9293, 3.8.6; `tcpi_snd_wnd`, `tcpi_unacked`, `tcpi_min_rtt`, linux/tcp.h; `SK_MEMINFO_SNDBUF`,
//! `SK_MEMINFO_WMEM_QUEUED`, linux/sock_diag.h; SO_RCVBUF turns autotuning off (`SOCK_RCVBUF_LOCK`, net/core/sock.c);
//! `tcp_rcv_space_adjust`, `tcp_sndbuf_expand`, net/ipv4/tcp_input.c; `tcp_rmem`, `tcp_wmem`, ip-sysctl.rst.

use linerate_account::Held;

use crate::facts::flows::{Bulk, Moment, Size, mean_over, min_rtt, moments, setting, size};
use crate::remedy::SocketOption;
use crate::roofs::prelude::*;

/// Whose buffers: those that a window is made of, or those that are sent from.
#[derive(Clone, Copy)]
pub(in crate::roofs) enum Buffers {
    Receive,
    Send,
}

/// Buffers of the heavier direction.
struct Found<'a> {
    bulk: Bulk<'a>,
    /// The end that has them.
    side: Side,
    /// The largest window that was offered, or what the buffer holds. Unit: bytes.
    bytes: f64,
    size: Size,
}

impl Buffers {
    /// They were fixed by an option.
    pub fn pinned(self, facts: &Facts) -> Result<Claim, Silent> {
        let found = self.find(facts)?;
        if found.size == Size::Initial {
            return initial(&found, facts);
        }
        if found.size != Size::Fixed {
            let name = self.name();
            return not_here(format!("the kernel tunes the {}'s {name} buffers", found.side));
        }
        let (option, what) = match self {
            Buffers::Receive => (SocketOption::DefaultReceiveBuffer, "window"),
            Buffers::Send => (SocketOption::DefaultSendBuffer, "buffer"),
        };
        let does = format!("lets the kernel grow the {what} to what the path needs");
        let remedies = vec![Remedy::socket(facts, option, found.side, does)];
        Ok(Claim { remedies, ..self.holds(&found, facts)? })
    }

    /// They are as large as the kernel lets them grow.
    pub fn at_most(self, facts: &Facts) -> Result<Claim, Silent> {
        setting(&facts.run, self.setting())?;
        let (found, name) = (self.find(facts)?, self.name());
        let Size::AtMost(most) = found.size else {
            return not_here(format!(
                "{name} buffers are not as large as the kernel lets them grow"
            ));
        };
        let claim = self.holds(&found, facts)?;
        let (least, window, what) = match self {
            Buffers::Receive => {
                ("4096 131072", found.bytes, "receive buffers, and with them the window,")
            }
            Buffers::Send => ("4096 16384", most, "send buffers"),
        };
        let value = format!("{least} {}", found.bulk.room_for(most, window));
        let does = format!("lets {what} grow to what the path needs");
        let remedy = Remedy::sysctl(facts, self.setting(), value, found.side, does);
        let most = Bytes(most as u64);
        let seen = format!("{name} buffers grew to the kernel's {most}; {}", claim.seen);
        Ok(Claim { seen, remedies: vec![remedy], ..claim })
    }

    fn name(self) -> &'static str {
        match self {
            Buffers::Receive => "receive",
            Buffers::Send => "send",
        }
    }

    fn setting(self) -> &'static str {
        match self {
            Buffers::Receive => "net.ipv4.tcp_rmem",
            Buffers::Send => "net.ipv4.tcp_wmem",
        }
    }

    fn find<'a>(self, facts: &Facts<'a>) -> Result<Found<'a>, Silent> {
        silent_if(facts.attained <= 0.0, "nothing was answered")?;
        let bulk = Bulk::of(facts);
        let (side, ends, buffer, largest) = match self {
            Buffers::Receive => {
                (bulk.receiver, &bulk.receivers, tcp_info::RCVBUF, tcp_info::SND_WND)
            }
            Buffers::Send => (bulk.sender, &bulk.senders, tcp_info::SNDBUF, tcp_info::SNDBUF),
        };
        let bytes = mean_over(&bulk.senders, |flow| Ok(flow.max(largest)?.0 as f64))?;
        if matches!(self, Buffers::Receive) {
            min_rtt(&facts.run)?;
        }
        let size = size(ends, buffer, setting(&facts.run, self.setting()))?;
        Ok(Found { side, bytes, size, bulk })
    }

    /// What they add to each exchange; what lifts it is left to say.
    fn holds(self, found: &Found, facts: &Facts) -> Result<Claim, Silent> {
        match self {
            Buffers::Receive => window(found, facts),
            Buffers::Send => buffer(found, facts),
        }
    }
}

fn window(of: &Found, facts: &Facts) -> Result<Claim, Silent> {
    let (bulk, receiver, window) = (&of.bulk, of.side, Bytes(of.bytes as u64));
    // What is not read is no part of the window: more of it would fill as well.
    let unread = mean_over(&bulk.receivers, |flow| Ok(flow.median(tcp_info::RQUEUE)?.0 as f64))?;
    if unread >= HALFWAY * of.bytes {
        return not_here(format!("the {receiver} leaves {} unread", Bytes(unread as u64)));
    }
    // A window that is used up has about as much in flight; one that is shut, because its reader is slow, has not.
    let in_flight = mean_over(&bulk.senders, |flow| {
        let mut held: Vec<f64> = moments(flow)?
            .iter()
            .filter(|at| at.unsent > 0.0 && !at.has_room)
            .map(|at| at.in_flight)
            .collect();
        held.sort_by(f64::total_cmp);
        let missing = || missing(tcp_info::UNACKED.name, "flow/* with bytes that wait");
        held.get(held.len() / 2).copied().ok_or_else(missing)
    });
    if let Ok(out) = in_flight
        && out < HALFWAY * of.bytes
    {
        let out = Bytes(out as u64);
        return not_here(format!(
            "the {receiver}'s window of {window} was shut, with {out} in flight"
        ));
    }
    let rtt = min_rtt(&facts.run)?;
    let trips = bulk.round_trips(of.bytes, rtt)?;
    if trips <= 0.0 {
        let all = Bytes(bulk.bytes as u64);
        return not_here(format!(
            "the {all} of an exchange fit in the {receiver}'s window of {window}"
        ));
    }
    let clock = bulk.clock(tcp_info::RWND_LIMITED).map_or(String::new(), |share| {
        format!(
            "for {:.0} % of the time in which senders had something to send it held them; ",
            share * 100.0
        )
    });
    let each = trips.max(facts.held_by(bulk.sender, Held::Window));
    Ok(Claim {
        sum: bulk.sum(facts, of.bytes, "window", rtt),
        seen: format!(
            "the {receiver}'s window never exceeded {window}; {clock}{} were unread at a time",
            Bytes(unread as u64)
        ),
        ..Claim::cause(vec![Part::Delay { at: At::Path, each }])
    })
}

/// The kernel's first size of a send buffer, from which it never grew.
fn initial(of: &Found, facts: &Facts) -> Result<Claim, Silent> {
    let claim = buffer(of, facts)?;
    let first = of.bulk.room_for(of.bytes, of.bytes);
    let name = Buffers::Send.setting();
    // Without it: what Linux has by itself, ip-sysctl.rst.
    let most = setting(&facts.run, name).map_or(4 << 20, |most| most as u64);
    let remedy = Remedy::sysctl(
        facts,
        name,
        format!("4096 {first} {}", most.max(first)),
        of.side,
        "has send buffers begin with room for a whole exchange",
    );
    let seen = format!(
        "{}; it is the kernel's first size for ten segments, which it makes larger only while the congestion window is \
         full",
        claim.seen
    );
    Ok(Claim { seen, remedies: vec![remedy], ..claim })
}

/// All that the buffer lets out is out, and neither window asks it to wait.
fn is_held(moment: &Moment) -> bool {
    moment.is_full && moment.has_room && moment.in_flight > 0.0
}

fn buffer(of: &Found, facts: &Facts) -> Result<Claim, Silent> {
    let (bulk, sender, buffer) = (&of.bulk, of.side, Bytes(of.bytes as u64));
    let full = bulk.share(is_held)?;
    silent_if(full <= 0.0, format!("the {sender}'s send buffer of {buffer} is never what holds"))?;
    let in_flight = mean_over(&bulk.senders, |flow| {
        let mut held: Vec<f64> =
            moments(flow)?.iter().filter(|at| is_held(at)).map(|at| at.in_flight).collect();
        held.sort_by(f64::total_cmp);
        let missing = || missing(tcp_info::UNACKED.name, "flow/* with a full buffer");
        held.get(held.len() / 2).copied().ok_or_else(missing)
    })?;
    let rtt = min_rtt(&facts.run)?;
    let trips = bulk.round_trips(in_flight, rtt)?.min(bulk.busy(full)?);
    let at_once = Bytes(in_flight as u64);
    // A full buffer with all of an exchange out keeps nothing back.
    silent_if(trips <= 0.0, format!("all of an exchange is in flight at once: {at_once}"))?;
    let each = trips.max(facts.held_by(sender, Held::Buffer));
    Ok(Claim {
        sum: bulk.sum(facts, in_flight, "in flight", rtt),
        seen: format!(
            "in {:.0} % of the samples with something to send the {sender}'s buffer of {buffer} was full, with \
             {at_once} in flight and room in both windows",
            full * 100.0
        ),
        ..Claim::cause(vec![Part::Delay { at: At::Path, each }])
    })
}
