//! Small read buffers: a read brings no more, and costs what a large one does.
//! `work = (time of reading - what the other end takes for the bytes) x (1 - buffer / 64 KiB) / throughput`
//! `delay = share of the time in which a bufferful has come that its owner would take x mean exchange`
//! Source: inet(3), `buffer`; `tcp_recv`, erts/emulator/drivers/common/inet_drv.c; `otp` option `rcvbuf`, socket(3).

use crate::prelude::*;

mod outside;

// Half of a read measured where system calls are slow: 1.3 us, 512 bytes, socket:recv, OTP 25, 2 CPUs. Unit: seconds.
const LEAST_READ: f64 = 0.6e-6;

#[derive(Clone, Copy, PartialEq)]
pub(in crate::roofs) enum SmallBuffer {
    /// The inet driver, passive or `{active, once}`.
    Driver,
    /// The same with `{active, true}` or a count. It asks again after each buffer.
    ActivePoll,
    /// The `socket` module, with another default and more costly reads.
    SocketModule,
}

impl SmallBuffer {
    pub fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        if facts.is_node_outside() {
            return outside::explain(self, facts);
        }
        let is_small = |each: &Connection| each.fills_buffer() && each.buffer < LARGE;
        let of = facts.those(|each| self.reads(each) && is_small(each))?;
        let how = match self {
            SmallBuffer::Driver => "in passive or once mode",
            SmallBuffer::ActivePoll => "in active mode",
            SmallBuffer::SocketModule => "of the socket module",
        };
        let what = "fills a buffer of less than 64 KiB while more waits";
        let (buffer, _) = of.buffers().or_not_here(format!("no connection {how} {what}"))?;
        let work = Work::of(facts)?;
        let reading = match self {
            SmallBuffer::Driver | SmallBuffer::ActivePoll => work.of_reads(&of),
            SmallBuffer::SocketModule => of_backend(facts, &of, &work),
        };
        // linerate's own end reads the same bytes in large calls, at the least cost.
        let there = facts.run.engine_cores() * of.part;
        let spared = (reading - there).max(0.0) * (1.0 - buffer / LARGE);
        let each = facts.per_exchange(spared);
        let waits = facts.undelivered(&of, |each| each.buffer).filter(|share| *share > 0.0);
        let held = waits.map_or(0.0, |share| share * of.part);
        let exchange = facts.under_way() / facts.attained;
        let wanted = |of| format!("in {of} of the time a full buffer waited for the driver");
        let (reads, size, took, what) = (of.reads, of.read_size(), duration(each), facts.each());
        let [reading, part] = [(reading / work.all()).min(1.0), of.part].map(in_percent);
        let buffer = bytes(buffer);
        // What a poll after each buffer costs is no part of the driver's time of reading.
        let least = matches!(self, SmallBuffer::ActivePoll).then_some(Least::OfTarget);
        Ok(Claim { least, ..Claim::work(Resource::TargetCpu, each) }
            .and(waits.map(|_| Part::Delay { at: At::Reading, each: held * exchange }))
            .sized_if(held >= HOLDS || work.holds(spared))
            .sum(format!(
                "{reads:.0} reads a second of {size:.0} bytes: {took} of the schedulers {what} that reads of 64 KiB would \
                 spare"
            ))
            .seen(format!(
                "{part} of the bytes came in reads that filled a buffer of {buffer} while more waited; reading took \
                 {reading} of the node's work"
            ))
            .also(waits.map(in_percent).map(wanted))
            .lifted_by(self.remedies()))
    }

    fn reads(self, connection: &Connection) -> bool {
        let of_module = connection.is_of_socket_module;
        // A line longer than the buffer comes in pieces, as bytes do.
        [0, LINE].contains(&connection.packet)
            && match self {
                SmallBuffer::Driver => !of_module && !connection.is_pushed,
                SmallBuffer::ActivePoll => !of_module && connection.is_pushed,
                SmallBuffer::SocketModule => of_module,
            }
    }

    fn remedies(self) -> Vec<Remedy> {
        let (size, how) = match self {
            SmallBuffer::Driver | SmallBuffer::ActivePoll => (
                "65536",
                "{buffer, 65536} in the listen (or connect) options, and no {recbuf, N}; without touching code: \
                 erl -kernel inet_default_listen_options '[{buffer,65536}]'",
            ),
            SmallBuffer::SocketModule => (
                "262144",
                "{buffer, 262144} in the listen (or connect) options of gen_tcp; with the module socket: \
                 socket:setopt(Socket, {otp, rcvbuf}, 262144)",
            ),
        };
        let does = "reads a whole buffer of that size at once";
        let mut all = vec![Remedy::erlang(("buffer", size), does, how)];
        if self == SmallBuffer::ActivePoll {
            let does = "reads within the call that asks for data, without a poll of the kernel";
            let how = "{active, once}, set again after each message; or gen_tcp:recv/2";
            all.push(Remedy::erlang(("active", "once"), does, how));
        }
        all
    }
}

/// The work of `gen_tcp`'s own processes that read for these connections, by reductions; without such, at the least price.
fn of_backend(facts: &Facts, reads: &These, work: &Work) -> f64 {
    let owns = |of: &Process| reads.these.iter().any(|one| one.owner == Some(&of.pid));
    let is_backend = |of: &&Process| of.name.starts_with("gen_tcp_socket:") && owns(of);
    let own: f64 = facts.processes.iter().filter(is_backend).map(|of| of.reductions).sum();
    let all: f64 = facts.processes.iter().map(|of| of.reductions).sum();
    let least = (reads.reads * LEAST_READ).min(work.emulator);
    if own > 0.0 { own / all * (work.emulator + work.collection) } else { least }
}
