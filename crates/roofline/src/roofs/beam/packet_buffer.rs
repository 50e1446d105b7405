//! A packet mode with a read buffer of no more than one packet: each packet is a read or two.
//! `each = share of the time in which a packet has come that its owner would take x mean exchange`
//! Source: inet(3), `packet`, `buffer`; `tcp_recv`, `tcp_expand_buffer`, erts/emulator/drivers/common/inet_drv.c.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
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
