//! Packet modes of the driver: each packet, or line, is a read of its own.

use crate::prelude::*;

/// A packet mode with a read buffer of no more than one packet: each packet is a read or two.
/// `each = share of the time in which a packet has come that its owner would take x mean exchange`
/// Source: inet(3), `packet`, `buffer`; `tcp_recv`, `tcp_expand_buffer`, erts/emulator/drivers/common/inet_drv.c.
pub(in crate::roofs) fn buffer(facts: &Facts) -> Result<Claim, Silent> {
    // A packet mode with lengths, and less than two packets to a buffer that could be larger.
    let is_cut = |each: &Connection| {
        let two = 2.0 * each.read_size();
        let is_small = each.buffer < two && two <= LARGE;
        matches!(each.packet, 1 | 2 | 4) && !each.is_of_socket_module && is_small
    };
    let cut = facts.those(is_cut)?;
    let none = "no connection in a packet mode has a buffer of less than two packets";
    let worst = cut.these.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)).or_not_here(none)?;
    let (size, work) = (worst.read_size(), Work::of(facts)?);
    let share = facts.undelivered(&cut, |each| each.read_size()).unwrap_or(0.0);
    let held = cut.part * share;
    let spared = work.of_reads(&cut) * (1.0 - size / LARGE);
    let exchange = facts.under_way() / facts.attained;
    let [of_bytes, wanted, part] = [cut.part, share, held].map(in_percent);
    let ([packet, buffer], more) =
        ([size, worst.buffer].map(bytes), worst.unread()? / size.max(1.0));
    let how = "{buffer, 65536} in the listen (or connect) options; without touching code: \
               erl -kernel inet_default_listen_options '[{buffer,65536}]'";
    let does = "reads all packets that have arrived at once";
    Ok(Claim::delay(At::Reading, held * exchange)
        .and([Part::Work { resource: Resource::TargetCpu, each: spared / facts.attained }])
        .sized_if(held >= HOLDS || work.holds(spared))
        .sum(format!("{part} of {} with an undelivered packet", facts.took(exchange)))
        .seen(format!(
            "{of_bytes} of the bytes came in packets of {packet} through buffers of {buffer}; {more:.0} more of them \
             waited in the kernel, for {wanted} of the time while their owner was ready to read; drivers took {:.2} \
             CPUs, processes {:.2}",
            work.driver, work.emulator
        ))
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::erlang(("buffer", "65536"), does, how)]))
}

// Less than was measured: with asking and delivery 3 to 4 times the drivers' time (OTP 25 and 27). Unit: 1.
const WITH_DELIVERY: f64 = 2.0;

/// Lines by the driver (`{packet, line}`, `{packet, http}`): each line of a head is a read.
/// `each = time of the drivers for lines, with their delivery / throughput`, but for a line an answer
/// Source: inet(3), `packet`; erlang:decode_packet/3 does the same without a port.
pub(in crate::roofs) fn lines(facts: &Facts) -> Result<Claim, Silent> {
    // A piece as long as the buffer is part of a longer line.
    let is_cut = |each: &Connection| matches!(each.packet, LINE | 11) && !each.fills_buffer();
    let cut = facts.those(is_cut)?;
    let (lines, answers): (_, f64) = (cut.reads, cut.these.iter().map(|each| each.writes).sum());
    // A whole request is one read.
    silent_if(lines - answers <= 0.0, "the driver reads no connection line by line")?;
    let work = Work::of(facts)?;
    let spared = WITH_DELIVERY * work.of_reads(&cut) * (lines - answers) / lines;
    let each = spared / facts.attained;
    let (long, part) = (cut.bytes / lines, in_percent((spared / work.all()).min(1.0)));
    let (often, took, what) = (format!("{lines:.0} lines a second"), duration(each), facts.each());
    let to_each = lines / answers.max(1e-9);
    let how = "{packet, raw} and erlang:decode_packet/3 over what has arrived, or a server that does so (cowboy, bandit)";
    Ok(Claim::work(Resource::TargetCpu, each)
        .sized_if(work.holds(spared))
        .sum(format!("{often}, {took} of the schedulers {what} more than one read would take"))
        .seen(format!(
            "{often} of {long:.0} bytes, {to_each:.1} to each answer, took about {part} of the node's work"
        ))
        .lifted_by([Remedy::erlang(("packet", "raw"), "reads the whole head at once", how)]))
}
