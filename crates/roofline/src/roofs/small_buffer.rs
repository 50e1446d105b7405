//! Small read buffers: each read brings one buffer of data, however much waits, and costs as much as a
//! large one. Three of a kind, told apart by how the socket reads.
//!
//! `ceiling = attained / utilisation of the schedulers`, which read and do little else
//!
//! - `beam.small-buffer`: the inet driver, passive or `{active, once}`.
//! - `beam.active-poll`: the inet driver with `{active, true}` or a count. After each buffer it asks the
//!   kernel again whether there is more, so that the same buffer costs several times as much.
//! - `beam.socket-buffer`: sockets of the `socket` module, whose default is another and whose reads cost
//!   more.
//!
//! Told from a slow reader, whose reads fill the buffer as well, by what the node does: here it is at
//! work, and reading is most of that work; there it rests, or computes.
//! Blind spot: a node that does other things besides; then reading is a small part of its work.
//! Source: inet(3), `buffer`; `INET_DEF_BUFFER` and `tcp_recv`, erts/emulator/drivers/common/inet_drv.c;
//! `otp` option `rcvbuf`, socket(3).

use linerate_evidence::Missing;
use linerate_model::Bytes;

use super::sockets::{Connection, Work, at_work, ceiling, share, times};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Chosen: past this a read costs more for its bytes than for itself.
const SMALL: f64 = 16_384.0;

// Measured: 1.8 us of a scheduler a read of 1,460 bytes by the driver, all that belongs to it counted; 6.3
// us a read of 8 KiB by the socket module, which calls a process of its own (2 connections, OTP 25, 2
// CPUs). The smaller figures stand for quieter machines. Unit: seconds.
const READ: f64 = 1.0e-6;
const CALLED_READ: f64 = 3.5e-6;

// Chosen: reading is then what the node does.
const MOST: f64 = 0.3;

/// Which of the three.
pub(super) enum SmallBuffer {
    Driver,
    ActivePoll,
    SocketModule,
}

impl SmallBuffer {
    fn is(&self, connection: &Connection) -> bool {
        let raw = connection.packet() == 0 && connection.buffer() <= SMALL;
        let of_module = connection.is_of_socket_module();
        raw && match self {
            SmallBuffer::Driver => !of_module && !connection.is_pushed(),
            SmallBuffer::ActivePoll => !of_module && connection.is_pushed(),
            SmallBuffer::SocketModule => of_module,
        }
    }

    fn cost(&self) -> f64 {
        match self {
            SmallBuffer::Driver | SmallBuffer::ActivePoll => READ,
            SmallBuffer::SocketModule => CALLED_READ,
        }
    }

    fn advice(&self, run: &Run) -> Vec<Advice> {
        let buffer = |value: &str, by_hand: &str, low, mid, high| Advice {
            knob: "buffer".into(),
            value: value.into(),
            does: "moves a whole buffer of that size in a read".into(),
            by_hand: by_hand.into(),
            predicted: times(run, low, mid, high),
        };
        let by_driver = "{buffer, 65536} among the listen (or connect) options, and no {recbuf, N}; \
                         without touching code: \
                         erl -kernel inet_default_listen_options '[{buffer,65536}]'";
        match self {
            // Measured: 2.5 times here, with the engine on the same CPUs; 7 times on a quiet machine.
            SmallBuffer::Driver => vec![buffer("65536", by_driver, 1.3, 2.5, 8.0)],
            // Measured: 8 times here; 26 times on a quiet machine (153 to 4,049 MB/s).
            SmallBuffer::ActivePoll => vec![
                buffer("65536", by_driver, 1.5, 6.0, 30.0),
                Advice {
                    knob: "active".into(),
                    value: "once".into(),
                    does:
                        "reads within the call that asks for data, without asking the kernel first"
                            .into(),
                    by_hand: "{active, once}, set again after each message; or gen_tcp:recv/2"
                        .into(),
                    predicted: times(run, 1.2, 2.8, 6.0),
                },
            ],
            // Measured: 1.5 times here, 3 times on a quiet machine.
            SmallBuffer::SocketModule => vec![buffer(
                "262144",
                "{buffer, 262144} among the listen (or connect) options of gen_tcp; with the module \
                 socket: socket:setopt(Socket, {otp, rcvbuf}, 262144)",
                1.1,
                1.6,
                4.0,
            )],
        }
    }
}

impl Roof for SmallBuffer {
    fn id(&self) -> &'static str {
        match self {
            SmallBuffer::Driver => "beam.small-buffer",
            SmallBuffer::ActivePoll => "beam.active-poll",
            SmallBuffer::SocketModule => "beam.socket-buffer",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            SmallBuffer::Driver => "a small read buffer",
            SmallBuffer::ActivePoll => "active mode with a small read buffer",
            SmallBuffer::SocketModule => "a small read buffer of the socket module",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        match self {
            SmallBuffer::Driver => include_str!("../../../../docs/roofs/beam.small-buffer.md"),
            SmallBuffer::ActivePoll => include_str!("../../../../docs/roofs/beam.active-poll.md"),
            SmallBuffer::SocketModule => {
                include_str!("../../../../docs/roofs/beam.socket-buffer.md")
            }
        }
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (all, work) = match at_work(run)? {
            Ok(found) => found,
            Err(finding) => return Ok(finding),
        };
        let these: Vec<&Connection> = all.iter().filter(|each| self.is(each)).collect();
        let Some(buffer) = these.iter().map(|each| each.buffer()).reduce(f64::min) else {
            return Ok(Finding::DoesNotApply(match self {
                SmallBuffer::Driver => {
                    "no connection reads as it comes into a buffer of 16 KiB or less".into()
                }
                SmallBuffer::ActivePoll => {
                    "no connection in active mode has a buffer of 16 KiB or less".into()
                }
                SmallBuffer::SocketModule => {
                    "no connection is of the socket module, with a buffer of 16 KiB or less".into()
                }
            }));
        };
        let full = share(&all, |each| self.is(each) && each.fills_buffer());
        let reads: f64 = these.iter().map(|each| each.reads).sum();
        let bytes: f64 = these.iter().map(|each| each.bytes).sum();
        // Each is too little: a read costs more than its constant on a slow machine, and more than the
        // driver's part of it everywhere.
        let cost = (reads * self.cost()).max(work.of_reads(&these, &all));
        let part = cost / work.all();
        let seen = format!(
            "{:.0} % of the bytes came in reads that filled a buffer of {} while more waited; {reads:.0} \
             reads a second took at least {:.0} % of the node's work",
            full * 100.0,
            Bytes(buffer as u64),
            part.min(1.0) * 100.0
        );
        let binds = if full >= 0.5 && part >= MOST && at_it(&work) && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let rate = ceiling(run, &all, &work);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.2} schedulers / {reads:.0} reads a second of {} bytes = {rate}",
                work.all(),
                (bytes / reads.max(1e-9)).round()
            ),
            binds,
            advice: self.advice(run),
        }))
    }
}

// Chosen: a third of a scheduler is more than a node that waits for its application ever shows.
fn at_it(work: &Work) -> bool {
    work.all() >= 0.3
}
