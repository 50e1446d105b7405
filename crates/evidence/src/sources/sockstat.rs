//! How many TCP sockets there are, and what they hold.
//!
//! Source: `/proc/net/sockstat` (`sockstat_seq_show`, `net/ipv4/proc.c`). States, not counters.
//! `orphan` and `mem` are of the whole machine, whatever the namespace.

use linerate_model::Bytes;

use super::{Answer, Fetch, Parse, Source, UnreadableSource};
use crate::evidence::Evidence;

pub(super) const SOURCE: Source = Source {
    id: "sockstat",
    says: "sockets and their memory, by namespace",
    of: "stack/SIDE",
    fetch: Fetch::StackFile("sockstat"),
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// Sockets of every kind in the namespace (`sockets: used`).
    SOCKETS_USED: u64 = "sockstat.sockets_used", "1";
    /// IPv4 TCP sockets that are in use, listeners among them (`TCP: inuse`).
    TCP_INUSE: u64 = "sockstat.tcp_inuse", "1";
    /// TCP sockets that no process holds any more, of the whole machine (`TCP: orphan`).
    TCP_ORPHAN: u64 = "sockstat.tcp_orphan", "1";
    /// Sockets in TIME-WAIT (`TCP: tw`).
    TCP_TW: u64 = "sockstat.tcp_tw", "1";
    /// TCP sockets allocated, in any state, of the whole machine (`TCP: alloc`).
    TCP_ALLOC: u64 = "sockstat.tcp_alloc", "1";
    /// Memory TCP accounts for, of the whole machine; the kernel counts pages of 4 KiB (`TCP: mem`, limit `net.ipv4.tcp_mem`).
    TCP_MEM: Bytes = "sockstat.tcp_mem", "B";
}

/// `TCP: mem` is in pages.
///
/// Chosen: 4 KiB, as on x86-64 and most arm64 kernels; the file does not say.
const PAGE: u64 = 4096;

fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let text = String::from_utf8_lossy(answer.bytes);
    let (at, of) = (answer.at, answer.of);
    let field = |line: &str, index: usize, name: &str| -> Result<u64, UnreadableSource> {
        let mut words = line.split_ascii_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|number| number.parse().ok()).ok_or_else(|| {
            UnreadableSource::line(
                index,
                "`used N`, or `inuse N orphan N tw N alloc N mem N`",
                line,
            )
        })
    };
    let mut seen = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("sockets:") {
            evidence.push(at, of, SOCKETS_USED, field(line, index, "used")?);
        } else if line.starts_with("TCP:") {
            seen = true;
            let [inuse, orphan, tw, alloc, mem] =
                ["inuse", "orphan", "tw", "alloc", "mem"].map(|name| field(line, index, name));
            let (inuse, orphan, tw, alloc, mem) = (inuse?, orphan?, tw?, alloc?, mem?);
            evidence.push(at, of, TCP_INUSE, inuse);
            evidence.push(at, of, TCP_ORPHAN, orphan);
            evidence.push(at, of, TCP_TW, tw);
            evidence.push(at, of, TCP_ALLOC, alloc);
            evidence.push(at, of, TCP_MEM, Bytes(mem.saturating_mul(PAGE)));
        }
    }
    if seen {
        Ok(())
    } else {
        Err(UnreadableSource::missing("a line beginning with `TCP:`", &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{Side, Subject};
    use linerate_model::Timestamp;

    const SERVER: Subject = Subject::Stack(Side::Server);

    fn read(text: &str) -> Result<Evidence, UnreadableSource> {
        let mut evidence = Evidence::default();
        let answer = Answer { at: Timestamp(7), of: SERVER, bytes: text.as_bytes() };
        parse(&answer, &mut evidence).map(|()| evidence)
    }

    #[test]
    fn memory_is_in_pages_and_becomes_bytes() {
        let evidence = read(
            "sockets: used 12\nTCP: inuse 1 orphan 0 tw 40 alloc 1 mem 219\nUDP: inuse 0 mem 0\n",
        )
        .unwrap();
        assert_eq!(evidence.of(SERVER).last(TCP_TW), Ok(40));
        assert_eq!(evidence.of(SERVER).last(TCP_MEM), Ok(Bytes(897_024))); // 219 × 4096
        assert_eq!(evidence.of(SERVER).last(SOCKETS_USED), Ok(12));
    }

    #[test]
    fn a_line_without_its_fields_is_quoted() {
        let error = read("sockets: used 12\nTCP: inuse 1 orphan\n").unwrap_err();
        assert!(error.to_string().starts_with("line 2: expected"), "{error}");
        assert!(error.to_string().ends_with("found `TCP: inuse 1 orphan`"), "{error}");
    }

    #[test]
    fn no_tcp_is_not_no_sockets() {
        assert!(read("sockets: used 12\n").is_err());
    }
}
