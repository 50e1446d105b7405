//! Windows and buffers: in the heavier direction a flow has no more in flight a round trip than its peer's window, or
//! its own send buffer, holds, and that is too small. An option fixed it, or the kernel's initial or largest size.
//! `each = (bytes an exchange / in flight at most - 1) x min RTT`, of a send buffer at most the time with a full one;
//! or the time that the census finds held by it, if longer: a window of a few segments also costs delayed ACKs
//! Source: RFC 9293, 3.8.6; `tcpi_snd_wnd`, `tcpi_unacked`, `tcpi_min_rtt`, linux/tcp.h; `SK_MEMINFO_SNDBUF`,
//! `SK_MEMINFO_WMEM_QUEUED`, linux/sock_diag.h; SO_RCVBUF turns autotuning off (`SOCK_RCVBUF_LOCK`, net/core/sock.c);
//! `tcp_rcv_space_adjust`, `tcp_sndbuf_expand`, net/ipv4/tcp_input.c; `tcp_rmem`, `tcp_wmem`, ip-sysctl.rst.

use crate::prelude::*;

/// Receive buffers make up a window; send buffers are sent from.
#[derive(Clone, Copy)]
pub(in crate::roofs) enum Buffers {
    Receive,
    Send,
}

struct Found<'a> {
    bulk: Bulk<'a>,
    /// The end that has them.
    side: Side,
    /// The largest window offered, or the buffer's size. Unit: bytes.
    bytes: f64,
    size: Size,
}

impl Buffers {
    /// They were fixed by an option, or send buffers kept their initial size.
    pub fn pinned(self, facts: &Facts) -> Result<Claim, Silent> {
        let found = self.find(facts)?;
        if found.size == Size::Initial {
            return initial(&found, facts);
        }
        let tuned = format!("the kernel tunes the {}'s {} buffers", found.side, self.names().0);
        silent_if(found.size != Size::Fixed, tuned)?;
        let (option, what) = match self {
            Buffers::Receive => (SocketOption::DEFAULT_RECEIVE_BUFFER, "window"),
            Buffers::Send => (SocketOption::DEFAULT_SEND_BUFFER, "buffer"),
        };
        let does = format!("lets the kernel grow the {what} to what the path needs");
        Ok(self.holds(&found, facts)?.lifted_by([Remedy::socket(facts, option, found.side, does)]))
    }

    /// They are as large as the kernel lets them grow: the third number of its setting.
    pub fn at_most(self, facts: &Facts) -> Result<Claim, Silent> {
        let (name, key) = self.names();
        setting(&facts.run, key)?;
        let found = self.find(facts)?;
        let why = format!("{name} buffers are not as large as the kernel lets them grow");
        let Size::AtMost(most) = found.size else { return not_here(why) };
        let claim = self.holds(&found, facts)?;
        let (least, window, also) = match self {
            Buffers::Receive => ("4096 131072", found.bytes, ", and with them the window,"),
            Buffers::Send => ("4096 16384", most, ""),
        };
        let value = format!("{least} {}", found.bulk.room_for(most, window));
        let does = format!("lets {name} buffers{also} grow to what the path needs");
        let remedy = Remedy::kernel(key, value, found.side, does).or_of_path(facts);
        let seen = format!("{name} buffers grew to the kernel's {}; {}", bytes(most), claim.seen);
        Ok(claim.seen(seen).lifted_by([remedy]))
    }

    /// Their name, and the kernel's setting of their sizes.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Buffers::Receive => ("receive", "net.ipv4.tcp_rmem"),
            Buffers::Send => ("send", "net.ipv4.tcp_wmem"),
        }
    }

    fn find<'a>(self, facts: &Facts<'a>) -> Result<Found<'a>, Silent> {
        silent_if(facts.attained <= 0.0, "nothing was answered")?;
        let bulk = Bulk::of(facts);
        use tcp_info::{RCVBUF, SND_WND, SNDBUF};
        let (side, ends, buffer, largest) = match self {
            Buffers::Receive => (bulk.receiver, &bulk.receivers, RCVBUF, SND_WND),
            Buffers::Send => (bulk.sender, &bulk.senders, SNDBUF, SNDBUF),
        };
        let bytes = mean_over(&bulk.senders, |flow| Ok(flow.max(largest)?.0 as f64))?;
        matches!(self, Buffers::Receive).then(|| min_rtt(&facts.run)).transpose()?;
        let size = size(ends, buffer, setting(&facts.run, self.names().1))?;
        Ok(Found { side, bytes, size, bulk })
    }

    /// Their cost for each exchange, without a remedy.
    fn holds(self, found: &Found, facts: &Facts) -> Result<Claim, Silent> {
        match self {
            Buffers::Receive => window(found, facts),
            Buffers::Send => buffer(found, facts),
        }
    }
}

fn window(of: &Found, facts: &Facts) -> Result<Claim, Silent> {
    let (bulk, receiver) = (&of.bulk, of.side);
    // Unread bytes are no part of the window: a larger one would fill as well.
    let left = mean_over(&bulk.receivers, |flow| Ok(flow.median(tcp_info::RQUEUE)?.0 as f64))?;
    let [window, unread, all] = [of.bytes, left, bulk.bytes].map(bytes);
    // One that holds no more than two segments is half full of the first: the kernel sends no more than half of it at once.
    let is_tiny = of.bytes <= 2.0 * segment(&bulk.senders)?;
    let is_left = left >= HALFWAY * of.bytes && !is_tiny;
    silent_if(is_left, format!("the {receiver} leaves {unread} unread"))?;
    let shut = format!("the {receiver}'s window of {window} was shut");
    silent_if(bulk.shut(of.bytes).is_some(), shut)?;
    let rtt = min_rtt(&facts.run)?;
    let trips = bulk.round_trips(facts, of.bytes, rtt)?;
    let fits = format!("the {all} of an exchange fit in the {receiver}'s window of {window}");
    silent_if(trips <= 0.0, fits)?;
    let clock = mean_over(&bulk.senders, |flow| {
        Ok(flow.grown(tcp_info::RWND_LIMITED)? / flow.grown(tcp_info::BUSY_TIME)?.max(1e-9))
    });
    let words =
        |share| format!("senders were rwnd-limited for {} of their busy time", in_percent(share));
    let each = trips.max(facts.held_by(bulk.sender, Held::Window));
    // Piece by piece the reader is woken for each: that time is the window's too, by the kernel's own clock.
    let (at, each) = match is_tiny && bulk.sender == Side::Client {
        true => (At::Reading, each.max(bulk.busy(clock.clone()?)?)),
        false => (At::Path, each),
    };
    Ok(Claim::delay(at, each)
        .sum(bulk.sum(facts, of.bytes, "window", rtt))
        .seen(format!("the {receiver}'s window never exceeded {window}; {unread} were unread"))
        .also(clock.ok().map(words)))
}

/// A send buffer that kept the kernel's initial size.
fn initial(of: &Found, facts: &Facts) -> Result<Claim, Silent> {
    let (first, (_, name)) = (of.bulk.room_for(of.bytes, of.bytes), Buffers::Send.names());
    // Without the setting: Linux's default, ip-sysctl.rst.
    let most = setting(&facts.run, name).map_or(4 << 20, |most| most as u64);
    let value = format!("4096 {first} {}", most.max(first));
    let does = "starts send buffers at the size of a whole exchange";
    let remedy = Remedy::kernel(name, value, of.side, does).or_of_path(facts);
    let why = "it is the kernel's initial size for ten segments, which grows only while the congestion window is full";
    Ok(buffer(of, facts)?.also(Some(why.into())).lifted_by([remedy]))
}

fn buffer(of: &Found, facts: &Facts) -> Result<Claim, Silent> {
    let (bulk, sender, buffer) = (&of.bulk, of.side, bytes(of.bytes));
    // The buffer's bytes are all in flight, and neither window limits it.
    let is_held = |at: &Moment| at.is_full && at.has_room && at.in_flight > 0.0;
    let full = bulk.share(is_held)?;
    silent_if(full <= 0.0, format!("the {sender}'s send buffer of {buffer} is never the limit"))?;
    let in_flight = bulk.in_flight("with a full buffer", is_held)?;
    let rtt = min_rtt(&facts.run)?;
    let trips = bulk.round_trips(facts, in_flight, rtt)?.min(bulk.busy(full)?);
    let (at_once, full) = (bytes(in_flight), in_percent(full));
    // A full buffer with all of an exchange in flight delays nothing.
    silent_if(trips <= 0.0, format!("a whole exchange is in flight at once: {at_once}"))?;
    // The rest is paced by what such a sender has seen of the path, which was no more than the buffer.
    let paces = congestion_of(&facts.run, sender).contains(&"bbr");
    let claim = Claim::delay(At::Path, trips.max(facts.held_by(sender, Held::Buffer)));
    Ok(Claim { least: paces.then_some(Least::OfTarget), ..claim }
        .sum(bulk.sum(facts, in_flight, "in flight", rtt))
        .seen(format!(
            "in {full} of the samples with something to send the {sender}'s buffer of {buffer} was full, with {at_once} \
             in flight and room in both windows"
        )))
}
