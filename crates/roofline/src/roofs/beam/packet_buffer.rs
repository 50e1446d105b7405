//! A packet mode with a read buffer that holds no more than one packet: each packet is a read of its own,
//! or two, and the driver asks the kernel again before it has the next, though many wait.
//!
//! `each = share of the time in which a packet has come that its owner would take x mean exchange`
//!
//! `recv_avg` shows the packet's size in these modes and not the read's, so the buffer is compared with
//! the packet. Told from a slow reader by who waits: there a process that does not ask, here one that asked.
//! Blind spot: packets much larger than any buffer; the driver reads each into a binary of its own. In
//! `{active, once}` who asks is not told from who rests: then only the drivers' time is claimed.
//! Source: inet(3), `packet` and `buffer`; `tcp_recv` and `tcp_expand_buffer`,
//! erts/emulator/drivers/common/inet_drv.c.

use crate::facts::connections::{Connection, LARGE, Work, bytes};
use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let all = facts.connections()?;
    let these: Vec<&Connection> = all.iter().filter(|each| is_cut(each)).collect();
    let Some(worst) = these.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes)) else {
        return not_here("no connection in a packet mode has a buffer of less than two packets");
    };
    let size = worst.read_size();
    let part = bytes(these.iter().copied()) / bytes(all).max(1e-9);
    let work = Work::of(facts)?;
    let unread = worst.unread()?;
    let share = facts.undelivered(&these, |each| each.read_size()).unwrap_or(0.0);
    let held = part * share;
    let each = held * facts.under_way() / facts.attained;
    let spared = work.of_reads(&these, all) * (1.0 - size / LARGE);
    let (of_bytes, packet, buffer) =
        (in_percent(part), Bytes(size as u64), Bytes(worst.buffer() as u64));
    let (more, wanted) = (unread / size.max(1.0), in_percent(share));
    let is_sized = held >= HOLDS || spared >= HOLDS * work.all();
    Ok(Claim {
        known: if is_sized { Known::Sized } else { Known::PresentOnly },
        sum: format!(
            "{} of {}, in which a packet had come and was not delivered",
            in_percent(held),
            facts.took(facts.under_way() / facts.attained)
        ),
        seen: format!(
            "{of_bytes} of the bytes came in packets of {packet} through buffers of {buffer}; {more:.0} more of them \
             waited in the kernel, in {wanted} of the time one that its owner would have taken; drivers took {:.2} \
             CPUs, processes {:.2}",
            work.driver, work.emulator
        ),
        remedies: vec![Remedy::erlang(
            "buffer",
            "65536",
            "takes as many packets in a read as have arrived",
            "{buffer, 65536} among the listen (or connect) options; without touching code: \
             erl -kernel inet_default_listen_options '[{buffer,65536}]'",
        )],
        ..Claim::cause(vec![
            Part::Delay { at: At::Reading, each },
            Part::Work { resource: Resource::TargetCpu, each: spared / facts.attained },
        ])
    })
}

/// A packet mode with lengths, and less than two packets to a buffer, of which the one that is advised has room
/// for two.
fn is_cut(connection: &Connection) -> bool {
    let two = 2.0 * connection.read_size();
    matches!(connection.packet(), 1 | 2 | 4)
        && !connection.is_of_socket_module()
        && connection.buffer() < two
        && two <= LARGE
}
