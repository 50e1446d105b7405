//! Writers that wait, by default for ever, until a slow peer has read: the driver queue is over its high watermark.
//! `each = share of samples in which a writer waits x mean exchange`; of a node that is seen from outside only, `share of
//! the time in which few peers' windows are shut x mean exchange`, where the others are given no more than these take
//! Source: inet(3), `high_watermark`, `send_timeout`; erlang(3), `system_monitor`, `busy_port`.

use crate::prelude::*;

#[derive(Clone, Copy)]
pub(in crate::roofs) enum BlockedWriters {
    /// `beam.slow-subscriber`: a process that writes to many peers waits for one of them, and the others for it.
    One,
    /// `beam.busy-port`: several write to the same port, a socket's or a program's, and are suspended at it.
    Several,
}

impl BlockedWriters {
    pub fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        let is_one = matches!(self, BlockedWriters::One);
        if is_one && let Some(claim) = outside(facts) {
            return Ok(claim);
        }
        let all: Vec<&Connection> = facts.connections()?.iter().collect();
        let ((full, count, longest), node) = (queues(&all), facts.run.of(Subject::Node));
        let none = "no connection kept bytes in its driver queue, where senders wait";
        silent_if(is_one && full == 0, none)?;
        let (who, alone) = match full {
            _ if is_one => writer(facts, &all)?,
            // A program's port has no visible queue.
            0 => ("no connection has a queue, so it is the port of an external program".into(), ""),
            _ => {
                let kept = format!("connections kept up to {longest} in the driver queue");
                (format!("{full} of {count} {kept}"), "")
            }
        };
        // With others suspended at its port it is not alone.
        let waits = |sends, stopped| if is_one { sends > 0 && stopped == 0 } else { stopped > 0 };
        let share = node.share_of_both(waits::SEND, waits::PORT, waits)?;
        silent_if(share <= 0.0, "no sample shows a waiting writer")?;
        let (shown, exchange) = (in_percent(share), facts.under_way() / facts.attained);
        let events = node.rate(vm::BUSY_PORT).unwrap_or(0.0);
        let met = match self {
            BlockedWriters::One => format!("a process waited in gen_tcp:send{alone}"),
            BlockedWriters::Several => {
                format!("processes were suspended at a port; {events:.0} busy_port events a second")
            }
        };
        Ok(Claim { stalls_all: is_one, ..blocks(share * exchange) }
            .sum(format!("{shown} of {}", facts.took(exchange)))
            .seen(format!("{who}; in {shown} of the samples {met}"))
            .lifted_by(self.remedies(full > 0)))
    }

    fn remedies(self, is_socket: bool) -> Vec<Remedy> {
        let does = "drops a peer that reads nothing for that long, and continues with the others";
        let how = "{send_timeout, 50}, {send_timeout_close, true} in the socket's options";
        let drop = Remedy::erlang(("send_timeout_ms", "50"), does, how);
        match self {
            _ if !is_socket => vec![Remedy::human(
                "lets the program read its input faster, or no process wait for it",
                "find out what the program behind open_port/2 does with its input: recon:port_info/1 of erlang:ports() \
                 shows which; start several, or let the process that owns the port drop excess input",
            )],
            BlockedWriters::One => {
                let how = "one writing process per connection, with a limit on what it may queue: drop or close beyond \
                           it";
                vec![drop, Remedy::human("lets a slow peer delay only itself", how)]
            }
            BlockedWriters::Several => {
                let does = "lets the peer read as fast as it receives; a higher watermark would only fill later";
                let how = "check the peer of the queued connection: its CPU, its receive window, its path";
                vec![Remedy::by_knob(("slow", "0"), does, how), drop]
            }
        }
    }
}

/// Of a watched node that is not seen inside: its send buffers for a few slow peers are full, and it hardly has anything to
/// send to the others, which would get more if they were written to by themselves.
fn outside(facts: &Facts) -> Option<Claim> {
    if facts.load != Load::Watched || !facts.is_node_outside() {
        return None;
    }
    let rates = |flow: &Of| {
        let shut = flow.rate(tcp_info::RWND_LIMITED).ok()?;
        let busy = flow.rate(tcp_info::BUSY_TIME).ok()?;
        let per_s = flow.rate(tcp_info::BYTES_ACKED).ok().filter(|per_s| *per_s > 0.0)?;
        let all = moments(flow).ok()?;
        let is_full = all.iter().filter(|at| at.is_full).count() * 2 >= all.len();
        Some((shut >= HALFWAY && is_full, [shut, busy, per_s]))
    };
    let flows = facts.run.flows(Side::Server);
    let (slow, others): (Vec<_>, Vec<_>) = flows.iter().filter_map(rates).partition(|of| of.0);
    let median = |of: &[(bool, [f64; 3])], which: usize| middle(of.iter().map(|it| it.1[which]));
    let [shut, busy] = [median(&slow, 0)?, median(&others, 1)?];
    let [per_s, to_others] = [median(&slow, 2)?, median(&others, 2)?];
    let (few, all) = (slow.len(), slow.len() + others.len());
    let is_so = (few as f64) < HALFWAY * all as f64
        && busy < HALFWAY
        && (EXPLAINED..=1.0 / EXPLAINED).contains(&(to_others / per_s));
    let claim = blocks(shut.min(1.0) * facts.exchange_s())
        .sum(format!("a slow peer reads {}/s, and the others are given no more", bytes(per_s)))
        .seen(format!(
            "of {all} connections {few} wait for their peers to read, for most of the time; the others, whose peers read, are \
             given as much: one writes to all, and waits for the slowest"
        ))
        .lifted_by(BlockedWriters::One.remedies(true));
    is_so.then_some(claim)
}

/// Requests wait so long in the service; the slow peer's own bytes wait for its window. Unit: seconds.
fn blocks(each: f64) -> Claim {
    let waits = [At::Service, At::Held(Station::ServerSending, Held::Window)];
    Claim::cause(waits.map(|at| Part::Delay { at, each }).into())
}

/// The process that writes to many, few with a queue: their owner, or one with mail that waits in a send.
fn writer(facts: &Facts, all: &[&Connection]) -> Result<(String, &'static str), Silent> {
    // Whether it was sending at its last sample, or was not sampled. It may be free by then: the load is over.
    let sends = |wait| matches!(wait, "send" | "receive" | "running");
    let sampled = |owner| facts.processes.iter().find(|of| of.pid == owner);
    let why = match hub(all) {
        Some((owner, own)) if sampled(owner).and_then(|of| of.wait).is_none_or(sends) => {
            let name = sampled(owner).map_or(owner.to_owned(), Process::words);
            let (full, all, longest) = queues(&own);
            let says = format!(
                "{name} owns {all} connections; {full} of them kept {longest} in the driver queue, the others nothing"
            );
            return Ok((says, ", and none was suspended at a port"));
        }
        Some(_) => "their owner waits for something other than their peers",
        None => "no process owns several connections of which only a few have a queue",
    };
    let is_asked = |of: &Process| of.with_mail >= HALFWAY || of.has_callers;
    let waits = |of: &&Process| !of.is_owner && is_asked(of) && of.wait == Some("send");
    let writer = facts.processes.iter().filter(waits).max_by_key(|of| of.mailbox);
    let writer = writer.filter(|_| are_few(all)).or_not_here(why)?;
    let ((full, all, _), who, mail) = (queues(all), writer.words(), writer.mailbox);
    let mail =
        if mail > 0 { format!("{mail} messages waiting") } else { "a caller that waits".into() };
    let says = format!(
        "{who} writes to connections of other processes and has {mail}; {full} of {all} connections have a driver queue, \
         the others none"
    );
    Ok((says, ""))
}

/// The owner of most connections, and these, if fewer than half of its own have a queue.
fn hub<'f, 'a>(all: &[&'f Connection<'a>]) -> Option<(&'a str, Vec<&'f Connection<'a>>)> {
    let mut by_owner: BTreeMap<_, Vec<&Connection>> = BTreeMap::new();
    let owned = all.iter().filter_map(|each| Some((each.owner?, *each)));
    owned.for_each(|(owner, each)| by_owner.entry(owner).or_default().push(each));
    by_owner.into_iter().filter(|(_, own)| are_few(own)).max_by_key(|(_, own)| own.len())
}

/// How many of them have a queue, how many there are, and the longest queue's mean.
fn queues(of: &[&Connection]) -> (usize, usize, Bytes) {
    let queued = of.iter().filter(|each| is_queued(each));
    let lengths = queued.clone().map(|each| each.of.mean(port::QUEUE).unwrap_or(0.0));
    (queued.count(), of.len(), bytes(lengths.fold(0.0, f64::max)))
}

/// Whether some of them have a queue, and fewer than half.
fn are_few(of: &[&Connection]) -> bool {
    let (full, all, _) = queues(of);
    full > 0 && (full as f64) < HALFWAY * all as f64
}

/// Whether its queue was above the low watermark (half of the high one) in most samples: senders may wait until then.
fn is_queued(connection: &Connection) -> bool {
    // Source: INET_HIGH_WATERMARK, inet_drv.c.
    let high = connection.of.last(port::HIGH_WATERMARK).map_or(8192, |bytes| bytes.0);
    connection.of.median(port::QUEUE).is_ok_and(|bytes| bytes.0 >= (high / 2).max(1))
}
