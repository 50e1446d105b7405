//! A packet mode with a read buffer that holds no more than one packet: each packet is a read of its own,
//! or two, and the driver asks the kernel again before it has the next, though many wait.
//!
//! `ceiling = attained / utilisation of the schedulers`, or a packet a wait on each connection where they
//! have room
//!
//! `recv_avg` shows the packet's size in these modes and not the read's, so the buffer is compared with
//! the packet. Told from a slow reader: packets come by the thousand, and processes do little with them.
//! Blind spot: packets much larger than any buffer; the driver reads each into a binary of its own.
//! Source: inet(3), `packet` and `buffer`; `tcp_recv` and `tcp_expand_buffer`,
//! erts/emulator/drivers/common/inet_drv.c.

use linerate_evidence::Missing;
use linerate_model::{Bytes, OpRate};

use super::sockets::{Connection, at_work, ceiling, share, times};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Chosen: past this a read costs more for its bytes than for itself.
const SMALL: f64 = 16_384.0;

// Chosen: a packet in less than a millisecond on each connection; an application that takes longer is
// what its peers wait for.
const PACKETS: f64 = 1_000.0;

pub(super) struct PacketBuffer;

impl Roof for PacketBuffer {
    fn id(&self) -> &'static str {
        "beam.packet-buffer"
    }

    fn title(&self) -> &'static str {
        "a packet mode with a small read buffer"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/beam.packet-buffer.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (all, work) = match at_work(run)? {
            Ok(found) => found,
            Err(finding) => return Ok(finding),
        };
        let part = share(&all, is_cut);
        let Some(worst) = all.iter().filter(|each| is_cut(each)).max_by(by_bytes) else {
            return Ok(Finding::DoesNotApply(
                "no connection in a packet mode has a buffer of less than two packets".into(),
            ));
        };
        let unread = worst.unread()?;
        let packets = unread / worst.read_size().max(1.0);
        let seen = format!(
            "{:.0} % of the bytes came in packets of {} through buffers of {}; {packets:.0} more of them \
             waited in the kernel; {:.0} a second on the busiest connection; drivers took {:.2} \
             schedulers, processes {:.2}",
            part * 100.0,
            Bytes(worst.read_size() as u64),
            Bytes(worst.buffer() as u64),
            worst.reads,
            work.driver,
            work.emulator
        );
        let driven = work.driver >= work.emulator && worst.reads >= PACKETS;
        let binds = if part >= 0.5 && packets >= 4.0 && driven && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        // Where schedulers have room the connections wait in turn: more of the same is not to be had.
        let rate = OpRate(ceiling(run, &all, &work).0.min(run.attained().0 * 1.5));
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.2} schedulers / {:.0} packets a second = {rate}",
                work.all(),
                all.iter().map(|each| each.reads).sum::<f64>()
            ),
            binds,
            advice: vec![Advice {
                knob: "buffer".into(),
                value: "65536".into(),
                does: "takes as many packets in a read as have arrived".into(),
                by_hand:
                    "{buffer, 65536} among the listen (or connect) options; without touching code: \
                          erl -kernel inet_default_listen_options '[{buffer,65536}]'"
                        .into(),
                // Measured: 10 times in passive mode, 2.5 times in active mode (packets of 11,822 bytes);
                // 2.9 times with packets of 1,000 bytes on a quiet machine.
                predicted: times(run, 1.2, 3.0, 12.0),
            }],
        }))
    }
}

/// A packet mode with lengths, and less than two packets to a buffer.
fn is_cut(connection: &Connection) -> bool {
    let size = connection.read_size();
    matches!(connection.packet(), 1 | 2 | 4)
        && !connection.is_of_socket_module()
        && connection.buffer() <= SMALL
        // Chosen: smaller packets cost more in themselves; larger ones are read alone anyway.
        && (256.0..=65_536.0).contains(&size)
        && connection.buffer() < 2.0 * size
}

fn by_bytes(a: &&Connection, b: &&Connection) -> std::cmp::Ordering {
    a.bytes.total_cmp(&b.bytes)
}
