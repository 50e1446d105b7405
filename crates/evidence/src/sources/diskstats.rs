//! What the machine's disks wrote, and how long processes waited for it.
//!
//! Source: `/proc/diskstats` (`diskstats_show`, block/genhd.c; Documentation/admin-guide/iostats.rst). Of the whole
//! machine: partitions, and what is made of other disks (dm, md, loop), are left out, so that nothing counts twice.

use std::time::Duration;

use linerate_model::Bytes;

use super::{Answer, Fetch, Parse, Source, UnreadableSource};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "diskstats",
    says: "what the disks wrote, and flushes",
    of: "host",
    fetch: Fetch::HostFile("/proc/diskstats"),
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// Bytes that the disks wrote, since boot.
    WRITTEN: Bytes = "disk.written", "B";
    /// Time in which a disk had something to do, all disks added, since boot.
    BUSY: Duration = "disk.busy", "ns";
    /// Flushes that the disks made, since boot: a process waited until all was on them. From Linux 5.5 on.
    FLUSHES: u64 = "disk.flushes", "1";
    /// What these took, all added, since boot. From Linux 5.5 on.
    FLUSHING: Duration = "disk.flushing", "ns";
}

/// What sectors are counted in, whatever the disk's own. Source: iostats.rst, field 7; `SECTOR_SHIFT`. Unit: bytes.
const SECTOR: u64 = 512;

/// Devices that are made of others. Source: Documentation/admin-guide/devices.txt.
const MADE_OF_OTHERS: [&str; 5] = ["dm-", "md", "loop", "ram", "zram"];

fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let text = String::from_utf8_lossy(answer.bytes);
    let mut disks: Vec<&str> = Vec::new();
    let (mut written, mut busy, mut flushes) = (0, 0, None::<(u64, u64)>);
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next().unwrap_or_default();
        if MADE_OF_OTHERS.iter().any(|of| name.starts_with(of)) || is_part(name, &disks) {
            continue;
        }
        let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [_, _, _, _, _, _, sectors, _, _, ticks, _, ..] = fields[..] else {
            return Err(UnreadableSource::line(
                index,
                "a disk's name and 11 or more numbers",
                line,
            ));
        };
        disks.push(name);
        written += sectors * SECTOR;
        busy += ticks;
        if let [.., count, took] = fields[..]
            && fields.len() >= 17
        {
            let (so_far, long) = flushes.unwrap_or_default();
            flushes = Some((so_far + count, long + took));
        }
    }
    evidence.push(answer.at, Subject::Host, WRITTEN, Bytes(written));
    evidence.push(answer.at, Subject::Host, BUSY, Duration::from_millis(busy));
    if let Some((count, took)) = flushes {
        evidence.push(answer.at, Subject::Host, FLUSHES, count);
        evidence.push(answer.at, Subject::Host, FLUSHING, Duration::from_millis(took));
    }
    Ok(())
}

/// Whether it is a partition of a disk before it: `sda1` of `sda`, `nvme0n1p1` of `nvme0n1`.
fn is_part(name: &str, disks: &[&str]) -> bool {
    disks.iter().filter_map(|disk| name.strip_prefix(disk)).any(|rest| {
        let number = rest.strip_prefix('p').unwrap_or(rest);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
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
    fn disks_are_added_and_nothing_counts_twice() {
        let text = "\
 254       0 vda 10 0 80 5 20 0 200 9 0 14 15 0 0 0 0 7 3
 254       1 vda1 10 0 80 5 20 0 200 9 0 14 15 0 0 0 0 7 3
 259       0 nvme0n1 1 0 8 1 2 0 100 1 0 6 2 0 0 0 0 5 2
 259       1 nvme0n1p1 1 0 8 1 2 0 100 1 0 6 2 0 0 0 0 0 0
 253       0 dm-0 1 0 8 1 2 0 999 1 0 6 2 0 0 0 0 5 2
   7       0 loop0 1 0 8 1 2 0 999 1 0 6 2 0 0 0 0 5 2
";
        let evidence = read(text).expect("it is as kernels write it");
        let host = evidence.of(Subject::Host);
        assert_eq!(host.last(WRITTEN), Ok(Bytes(300 * 512)));
        assert_eq!(host.last(BUSY), Ok(Duration::from_millis(20)));
        assert_eq!(host.last(FLUSHES), Ok(12));
        assert_eq!(host.last(FLUSHING), Ok(Duration::from_millis(5)));
    }

    #[test]
    fn an_old_kernel_counts_no_flushes_and_a_cut_line_is_quoted() {
        let old =
            read("   8       0 sda 10 0 80 5 20 0 200 9 0 14 15\n").expect("it has 11 fields");
        assert_eq!(old.of(Subject::Host).last(WRITTEN), Ok(Bytes(200 * 512)));
        assert!(old.of(Subject::Host).last(FLUSHES).is_err());
        let cut = read("   8       0 sda 10 0 80\n");
        assert!(cut.is_err_and(|why| why.to_string().contains("sda 10 0 80")));
    }
}
