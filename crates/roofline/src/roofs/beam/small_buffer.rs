//! Small read buffers: each read brings one buffer of data, however much waits, and costs as much as a
//! large one. Three of a kind, told apart by how the socket reads.
//!
//! `each = (time of reading - what the other end takes for the bytes) x (1 - buffer / 64 KiB) / throughput`
//!
//! Where a bufferful has come that its owner would take, and the driver asks the kernel again first, the exchange
//! waits for that: `each = share of the time in which it is so x mean exchange`.
//!
//! - `beam.small-buffer`: the inet driver, passive or `{active, once}`.
//! - `beam.active-poll`: the inet driver with `{active, true}` or a count. It asks again after each buffer.
//! - `beam.socket-buffer`: sockets of the `socket` module, whose default is another and whose reads cost more.
//!
//! Blind spot: sockets of the `socket` module that their owner reads itself; what it does besides is not told
//! from that.
//! Source: inet(3), `buffer`; `INET_DEF_BUFFER` and `tcp_recv`, erts/emulator/drivers/common/inet_drv.c;
//! `otp` option `rcvbuf`, socket(3).

use crate::facts::connections::{Connection, LARGE, Work, bytes, reads};
use crate::roofs::prelude::*;

// Measured: 6.3 us of a scheduler a read of 8 KiB by the socket module, which calls a process of its own (2
// connections, OTP 25, 2 CPUs); half as much on quieter machines. Unit: seconds.
const CALLED_READ: f64 = 3.5e-6;

/// Which of the three.
#[derive(Clone, Copy)]
pub(in crate::roofs) enum SmallBuffer {
    Driver,
    ActivePoll,
    SocketModule,
}

impl SmallBuffer {
    pub fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        let all = facts.connections()?;
        let mine = all.iter().filter(|each| self.reads(each) && each.fills_buffer());
        let these: Vec<&Connection> = mine.filter(|each| each.buffer() < LARGE).collect();
        let Some(buffer) = these.iter().map(|each| each.buffer()).reduce(f64::min) else {
            let how = match self {
                SmallBuffer::Driver => "that reads as it comes",
                SmallBuffer::ActivePoll => "in active mode",
                SmallBuffer::SocketModule => "of the socket module",
            };
            return not_here(format!(
                "no connection {how} fills a buffer of less than 64 KiB while more waits"
            ));
        };
        let work = Work::of(facts)?;
        let part = bytes(these.iter().copied()) / bytes(all).max(1e-9);
        let count = reads(these.iter().copied());
        let (reading, is_measured) = self.reading(facts, &work, &these, all, count);
        let spared = (reading - facts.price_of(part)).max(0.0) * (1.0 - buffer / LARGE);
        let each = spared / facts.attained;
        let mut parts = vec![Part::Work { resource: Resource::TargetCpu, each }];
        let mut held = spared / work.all();
        let mut waits = String::new();
        if let Some(share) =
            facts.undelivered(&these, |each| each.buffer()).filter(|share| *share > 0.0)
        {
            let exchange = facts.under_way() / facts.attained;
            parts.push(Part::Delay { at: At::Reading, each: share * part * exchange });
            held = held.max(share * part);
            let share = in_percent(share);
            waits = format!(
                "; in {share} of the time a bufferful had come that its owner would have taken"
            );
        }
        let is_sized = is_measured && held >= HOLDS;
        Ok(Claim {
            known: if is_sized { Known::Sized } else { Known::PresentOnly },
            sum: format!(
                "{count:.0} reads a second of {:.0} bytes: {} of the schedulers {} that reads of 64 KiB \
                 would spare",
                bytes(these.iter().copied()) / count.max(1e-9),
                duration(each),
                facts.each()
            ),
            seen: format!(
                "{} of the bytes came in reads that filled a buffer of {} while more waited; reading took {} of the \
                 node's work{waits}",
                in_percent(part),
                Bytes(buffer as u64),
                in_percent((reading / work.all()).min(1.0))
            ),
            remedies: self.remedies(),
            ..Claim::cause(parts)
        })
    }
}

impl SmallBuffer {
    fn reads(self, connection: &Connection) -> bool {
        let of_module = connection.is_of_socket_module();
        connection.packet() == 0
            && match self {
                SmallBuffer::Driver => !of_module && !connection.is_pushed(),
                SmallBuffer::ActivePoll => !of_module && connection.is_pushed(),
                SmallBuffer::SocketModule => of_module,
            }
    }

    /// What reading took, in CPUs' worth of time, and whether that was measured in this run.
    fn reading(
        self,
        facts: &Facts,
        work: &Work,
        these: &[&Connection],
        all: &[Connection],
        count: f64,
    ) -> (f64, bool) {
        match self {
            SmallBuffer::Driver | SmallBuffer::ActivePoll => (work.of_reads(these, all), true),
            SmallBuffer::SocketModule => match of_backend(facts, these) {
                Some(share) => (share * (work.emulator + work.collection), true),
                None => (count * CALLED_READ, false),
            },
        }
    }

    fn remedies(self) -> Vec<Remedy> {
        let larger = "moves a whole buffer of that size in a read";
        let by_driver = "{buffer, 65536} among the listen (or connect) options, and no {recbuf, N}; without \
                         touching code: erl -kernel inet_default_listen_options '[{buffer,65536}]'";
        match self {
            SmallBuffer::Driver => vec![Remedy::erlang("buffer", "65536", larger, by_driver)],
            SmallBuffer::ActivePoll => vec![
                Remedy::erlang("buffer", "65536", larger, by_driver),
                Remedy::erlang(
                    "active",
                    "once",
                    "reads within the call that asks for data, without asking the kernel first",
                    "{active, once}, set again after each message; or gen_tcp:recv/2",
                ),
            ],
            SmallBuffer::SocketModule => vec![Remedy::erlang(
                "buffer",
                "262144",
                larger,
                "{buffer, 262144} among the listen (or connect) options of gen_tcp; with the module socket: \
                 socket:setopt(Socket, {otp, rcvbuf}, 262144)",
            )],
        }
    }
}

/// Of what the processes that were asked did, in reductions, the part of `gen_tcp`'s own that read for these
/// connections; none where their owners do other things as well.
fn of_backend(facts: &Facts, these: &[&Connection]) -> Option<f64> {
    let run = &facts.run;
    let (mut own, mut all) = (0.0, 0.0);
    for process in run.evidence.processes() {
        let Ok((count, _)) = run.whole(process).delta(suspect::REDUCTIONS) else { continue };
        all += count as f64;
        let is_owner =
            these.iter().any(|of| of.owner.is_some() && of.owner == run.fact(process, "pid"));
        let is_backend =
            run.fact(process, "name").is_some_and(|name| name.starts_with("gen_tcp_socket:"));
        own += if is_owner && is_backend { count as f64 } else { 0.0 };
    }
    (own > 0.0).then(|| own / all)
}
