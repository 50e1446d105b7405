//! Receive work per CPU, and how often the kernel ran out of budget for it.
//!
//! Source: `/proc/net/softnet_stat`, one line a CPU, hexadecimal columns
//! (`softnet_seq_show`, `net/core/net-procfs.c`). Of the whole machine, whatever the namespace.

use super::{Answer, Fetch, Parse, Source, UnreadableSource};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "softnet",
    says: "receive work, by CPU",
    of: "cpu/N",
    fetch: Fetch::HostFile("/proc/net/softnet_stat"),
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// Packets taken off the receive queues, since boot; the kernel's number wraps at 2^32 (column 1).
    PROCESSED: u64 = "softnet.processed", "1";
    /// Packets dropped because the CPU's backlog was full, since boot (column 2, limit `net.core.netdev_max_backlog`).
    DROPPED: u64 = "softnet.dropped", "1";
    /// Times a softirq stopped with packets still queued, since boot (column 3).
    TIME_SQUEEZE: u64 = "softnet.time_squeeze", "1";
}

fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let text = String::from_utf8_lossy(answer.bytes);
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let expected = |expected| UnreadableSource::line(index, expected, line);
        let columns: Result<Vec<_>, _> =
            line.split_ascii_whitespace().map(|word| u64::from_str_radix(word, 16)).collect();
        // Offline CPUs have no line, so a line's place is not the CPU's number. Column 13 is.
        let Ok(&[processed, dropped, time_squeeze, _, _, _, _, _, _, _, _, _, cpu, ..]) =
            columns.as_deref()
        else {
            return Err(expected("13 or more hexadecimal columns"));
        };
        let cpu = u16::try_from(cpu).map_err(|_| expected("a CPU below 65536 in column 13"))?;
        rows.push((Subject::Cpu(cpu), processed, dropped, time_squeeze));
    }
    for (cpu, processed, dropped, time_squeeze) in rows {
        evidence.push(answer.at, cpu, PROCESSED, processed);
        evidence.push(answer.at, cpu, DROPPED, dropped);
        evidence.push(answer.at, cpu, TIME_SQUEEZE, time_squeeze);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Timestamp;

    fn read(bytes: &[u8]) -> Result<Evidence, UnreadableSource> {
        let mut evidence = Evidence::default();
        let answer = Answer { at: Timestamp(7), of: Subject::Host, bytes };
        parse(&answer, &mut evidence).map(|()| evidence)
    }

    #[test]
    fn takes_the_cpu_from_column_13_not_from_the_line() {
        let evidence = read(
            b"0000000a 0 00000001 0 0 0 0 0 0 0 0 0 00000000\n\
              000000ff 2 00000000 0 0 0 0 0 0 0 0 0 00000002 0 0\n",
        )
        .unwrap();

        assert_eq!(evidence.of(Subject::Cpu(0)).last(TIME_SQUEEZE), Ok(1));
        assert_eq!(evidence.of(Subject::Cpu(2)).last(PROCESSED), Ok(255));
        assert_eq!(evidence.of(Subject::Cpu(2)).last(DROPPED), Ok(2));
        assert!(evidence.of(Subject::Cpu(1)).last(PROCESSED).is_err());
    }

    #[test]
    fn a_kernel_without_column_13_is_an_error_that_quotes_the_line() {
        let error = read(b"0a 0 01").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: expected 13 or more hexadecimal columns, found `0a 0 01`"
        );
    }
}
