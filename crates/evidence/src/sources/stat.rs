//! Where the CPUs' time went.
//!
//! Source: `/proc/stat` (`show_stat`, `fs/proc/stat.c`; proc_stat(5)). Ticks since boot; the total
//! is `host`'s, each CPU's own `cpu/N`'s.

use std::time::Duration;

use super::{Answer, Fetch, Parse, Source, UnreadableSource};
use crate::evidence::{Evidence, Missing, Of};
use crate::metric::Metric;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "stat",
    says: "where the CPUs' time went",
    of: "host, cpu/N",
    fetch: Fetch::HostFile("/proc/stat"),
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// CPU time in programs, niced ones left out, since boot.
    USER: Duration = "stat.user", "ns";
    /// CPU time in niced programs, since boot.
    NICE: Duration = "stat.nice", "ns";
    /// CPU time in the kernel on behalf of programs, since boot.
    SYSTEM: Duration = "stat.system", "ns";
    /// CPU time with nothing to do, since boot.
    IDLE: Duration = "stat.idle", "ns";
    /// Idle time in which a disk was waited for, since boot; not to be relied on, says the kernel.
    IOWAIT: Duration = "stat.iowait", "ns";
    /// CPU time in hardware interrupts, since boot.
    IRQ: Duration = "stat.irq", "ns";
    /// CPU time in soft interrupts, most of the network stack among them, since boot.
    SOFTIRQ: Duration = "stat.softirq", "ns";
    /// Time in which the hypervisor ran something else, since boot.
    STEAL: Duration = "stat.steal", "ns";
    /// Context switches of all CPUs, since boot; at `host` only (`ctxt`).
    CTXT: u64 = "stat.ctxt", "1";
    /// Threads that run or want to; a state, at `host` only (`procs_running`).
    PROCS_RUNNING: u64 = "stat.procs_running", "1";
}

/// One tick.
///
/// Source: `USER_HZ` is 100 in every ABI that Linux still has but alpha's; `sysconf(_SC_CLK_TCK)`.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// The columns of a `cpu` line. `guest` follows, and is already in `user`.
const COLUMNS: [Metric<Duration>; 8] = [USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL];

/// CPUs' worth of time with nothing to do, or waiting for a disk.
pub fn unused(of: &Of) -> Result<f64, Missing> {
    let (idle, over) = of.delta(IDLE)?;
    let waiting = of.grown(IOWAIT).unwrap_or(0.0);
    Ok((idle.as_secs_f64() + waiting) / over.as_secs_f64())
}

/// CPUs' worth of time for which a program or an interrupt accounts, or the hypervisor. Less than what is not unused
/// where threads wake for less than a tick: idle time is exact, and the rest is what ran as a tick came.
pub fn accounted(of: &Of) -> Result<f64, Missing> {
    let (user, over) = of.delta(USER)?;
    let others =
        [NICE, SYSTEM, IRQ, SOFTIRQ, STEAL].map(|of_kind| of.grown(of_kind).unwrap_or(0.0));
    Ok((user.as_secs_f64() + others.iter().sum::<f64>()) / over.as_secs_f64())
}

/// Ticks as time.
pub(super) fn ticks(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(TICK.as_nanos() as u64))
}

fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let text = String::from_utf8_lossy(answer.bytes);
    let mut seen = false;
    for (index, line) in text.lines().enumerate() {
        let expected = |expected| UnreadableSource::line(index, expected, line);
        let mut words = line.split_ascii_whitespace();
        let Some(word) = words.next() else { continue };
        match word {
            "ctxt" | "procs_running" => {
                let number = words.next().and_then(|number| number.parse().ok());
                let number: u64 = number.ok_or_else(|| expected("a whole number"))?;
                let metric = if word == "ctxt" { CTXT } else { PROCS_RUNNING };
                evidence.push(answer.at, Subject::Host, metric, number);
            }
            _ => {
                let Some(cpu) = word.strip_prefix("cpu") else { continue };
                let of = match cpu {
                    "" => Subject::Host,
                    _ => Subject::Cpu(cpu.parse().map_err(|_| expected("`cpu` and its number"))?),
                };
                let columns: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
                if columns.len() < COLUMNS.len() {
                    return Err(expected("8 or more columns of ticks"));
                }
                for (metric, column) in COLUMNS.into_iter().zip(columns) {
                    evidence.push(answer.at, of, metric, ticks(column));
                }
                seen |= of == Subject::Host;
            }
        }
    }
    if seen {
        Ok(())
    } else {
        Err(UnreadableSource::missing("a line beginning with `cpu `", &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Timestamp;

    fn read(text: &str) -> Result<Evidence, UnreadableSource> {
        let mut evidence = Evidence::default();
        let answer = Answer { at: Timestamp(7), of: Subject::Host, bytes: text.as_bytes() };
        parse(&answer, &mut evidence).map(|()| evidence)
    }

    #[test]
    fn a_tick_is_10_ms_and_each_cpu_has_its_own() {
        let evidence = read(
            "cpu  25892 0 4320 193555 1427 0 215 6453 0 0\n\
             cpu0 12151 0 1750 98469 155 0 106 3292 0 0\n\
             cpu11 13741 0 2569 95085 1271 0 109 3161 0 0\n\
             intr 357720 0 0\nctxt 748273\nprocs_running 3\n",
        )
        .unwrap();
        let host = evidence.of(Subject::Host);
        assert_eq!(host.last(USER), Ok(Duration::from_millis(258_920)));
        assert_eq!(host.last(CTXT), Ok(748_273));
        assert_eq!(host.last(PROCS_RUNNING), Ok(3));
        assert_eq!(
            evidence.of(Subject::Cpu(11)).last(STEAL),
            Ok(Duration::from_millis(31_610)) // 3161 × 10 ms
        );
    }

    #[test]
    fn a_short_line_is_quoted() {
        assert_eq!(
            read("cpu  1 2 3\n").unwrap_err().to_string(),
            "line 1: expected 8 or more columns of ticks, found `cpu  1 2 3`"
        );
    }
}
