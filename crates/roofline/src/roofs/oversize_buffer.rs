//! An oversize read buffer: each read is given a buffer of many megabytes, gets a part of it filled, and
//! gives the rest back to the operating system; the next is all new pages.
//!
//! `ceiling = attained / utilisation of the schedulers`
//!
//! Mostly not meant: `{recbuf, N}` raises `buffer` to N as well, while the kernel cuts the receive buffer
//! down to net.core.rmem_max.
//! Told from any other use of memory by the pages: a buffer of usual size is used again and again.
//! Blind spot: many idle sockets with such buffers cost memory and no rate; they are not named.
//! Source: inet(3), `recbuf` and `buffer`; `minflt`, proc_pid_stat(5).

use linerate_evidence::sources::process;
use linerate_evidence::{Missing, Subject};
use linerate_model::Bytes;

use super::sockets::{Connection, at_work, ceiling, share, times};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;
use crate::utilisation::Utilisation;

// Chosen: what the allocators of a node keep for themselves is smaller.
const LARGE: f64 = 1_048_576.0;

// Measured: 150,000 pages a second took 1.0 more schedulers in drivers for less than the bytes (8
// connections, OTP 25, a virtual machine): 4 us with all that comes with a page. Unit: seconds.
const PAGE: f64 = 1.5e-6;

pub(super) struct OversizeBuffer;

impl Roof for OversizeBuffer {
    fn id(&self) -> &'static str {
        "beam.oversize-buffer"
    }

    fn title(&self) -> &'static str {
        "an oversize read buffer"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/beam.oversize-buffer.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (all, work) = match at_work(run)? {
            Ok(found) => found,
            Err(finding) => return Ok(finding),
        };
        let Some(worst) = all.iter().filter(|each| is_oversize(each)).max_by(by_bytes) else {
            return Ok(Finding::DoesNotApply(
                "no connection that carried data has a buffer of 1 MiB and of four times what it reads"
                    .into(),
            ));
        };
        let part = share(&all, is_oversize);
        let (faults, over) = run.of(Subject::Target).delta(process::MINOR_FAULTS)?;
        let faults = faults as f64 / over.as_secs_f64().max(1e-9);
        let target = Utilisation::of(run).target?;
        let cost = faults * PAGE / target.cores.max(1e-6);
        let seen = format!(
            "{:.0} % of the bytes came in reads of {} on average into buffers of {}; {faults:.0} new pages \
             a second took at least {:.0} % of the target's CPU time",
            part * 100.0,
            Bytes(worst.read_size() as u64),
            Bytes(worst.buffer() as u64),
            cost.min(1.0) * 100.0
        );
        // Chosen: a twentieth of what is the least that the pages can take (measured: 7 to 10 % where they hold a
        // run); a node whose buffers are of usual size has a fiftieth of that.
        let binds = if part >= 0.5 && cost >= 0.05 && work.all() >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let rate = ceiling(run, &all, &work);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{:.2} schedulers / {faults:.0} new pages a second = {rate}", work.all()),
            binds,
            advice: vec![Advice {
                knob: "buffer".into(),
                value: "65536".into(),
                does: "reads into memory that was there before".into(),
                by_hand: "{buffer, 65536} after {recbuf, N} among the listen (or connect) options, or no \
                          {recbuf, N} at all: the kernel then sizes the window by itself"
                    .into(),
                // Measured: 1.4 and 1.7 times here, 1.6 on a quiet machine.
                predicted: times(run, 1.0, 1.4, 2.5),
            }],
        }))
    }
}

fn is_oversize(connection: &Connection) -> bool {
    connection.buffer() >= LARGE && connection.buffer() >= 4.0 * connection.read_size()
}

fn by_bytes(a: &&Connection, b: &&Connection) -> std::cmp::Ordering {
    a.bytes.total_cmp(&b.bytes)
}
