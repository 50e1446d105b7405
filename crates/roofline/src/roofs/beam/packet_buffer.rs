//! A packet mode with a read buffer of no more than one packet: each packet is a read or two.
//! `each = share of the time in which a packet has come that its owner would take x mean exchange`
//! Source: inet(3), `packet`, `buffer`; `tcp_recv`, `tcp_expand_buffer`, erts/emulator/drivers/common/inet_drv.c.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let cut = facts.those(is_cut)?;
    let none = "no connection in a packet mode has a buffer of less than two packets";
    let worst = cut.these.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)).or_not_here(none)?;
    let size = worst.read_size();
    let work = Work::of(facts)?;
    let share = facts.undelivered(&cut, |each| each.read_size()).unwrap_or(0.0);
    let held = cut.part * share;
    let spared = work.of_reads(&cut) * (1.0 - size / LARGE);
    let (of_bytes, packet, buffer) = (in_percent(cut.part), bytes(size), bytes(worst.buffer));
    let (more, wanted) = (worst.unread()? / size.max(1.0), in_percent(share));
    let (part, exchange) = (in_percent(held), facts.took(facts.under_way() / facts.attained));
    Ok(Claim::delay(At::Reading, held * facts.under_way() / facts.attained)
        .and([Part::Work { resource: Resource::TargetCpu, each: spared / facts.attained }])
        .sized_if(held >= HOLDS || work.holds(spared))
        .sum(format!("{part} of {exchange} with an undelivered packet"))
        .seen(format!(
            "{of_bytes} of the bytes came in packets of {packet} through buffers of {buffer}; {more:.0} more of them \
             waited in the kernel, for {wanted} of the time while their owner was ready to read; drivers took {:.2} \
             CPUs, processes {:.2}",
            work.driver, work.emulator
        ))
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::erlang(
            ("buffer", "65536"),
            "reads all packets that have arrived at once",
            "{buffer, 65536} in the listen (or connect) options; without touching code: \
             erl -kernel inet_default_listen_options '[{buffer,65536}]'",
        )]))
}

/// A packet mode with lengths, and less than two packets to a buffer that could be larger.
fn is_cut(connection: &Connection) -> bool {
    let two = 2.0 * connection.read_size();
    matches!(connection.packet, 1 | 2 | 4)
        && !connection.is_of_socket_module
        && connection.buffer < two
        && two <= LARGE
}
