//! The stack's plain counters of TCP, and of datagrams.
//!
//! Source: `/proc/net/snmp`, the two `Tcp:` lines and the two `Udp:` lines (`snmp_seq_show`, `net/ipv4/proc.c`; RFC 4022 and 4113).
//! Counters since the namespace was made, of every connection and socket in it.

use linerate_model::Timestamp;

use super::{Answer, Fetch, Parse, Source, UnreadableSource, pairs};
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::subject::{Side, Subject};

pub(super) const SOURCE: Source = Source {
    id: "snmp",
    says: "connections, segments and datagrams, by namespace",
    of: "stack/SIDE",
    fetch: Fetch::StackFile("snmp"),
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// Connections begun from here (`ActiveOpens`).
    ACTIVE_OPENS: u64 = "snmp.active_opens", "1";
    /// Connections accepted here (`PassiveOpens`).
    PASSIVE_OPENS: u64 = "snmp.passive_opens", "1";
    /// Connections that failed before they were made (`AttemptFails`).
    ATTEMPT_FAILS: u64 = "snmp.attempt_fails", "1";
    /// Connections that were reset after they were made (`EstabResets`).
    ESTAB_RESETS: u64 = "snmp.estab_resets", "1";
    /// Connections that are up now; a state, not a counter (`CurrEstab`).
    CURR_ESTAB: u64 = "snmp.curr_estab", "1";
    /// Segments received (`InSegs`).
    IN_SEGS: u64 = "snmp.in_segs", "segments";
    /// Segments sent, retransmissions left out (`OutSegs`).
    OUT_SEGS: u64 = "snmp.out_segs", "segments";
    /// Segments sent again (`RetransSegs`).
    RETRANS_SEGS: u64 = "snmp.retrans_segs", "segments";
    /// Segments received damaged (`InErrs`).
    IN_ERRS: u64 = "snmp.in_errs", "segments";
    /// Resets sent (`OutRsts`).
    OUT_RSTS: u64 = "snmp.out_rsts", "segments";
    /// Datagrams of UDP over IPv4 that programs have read (`InDatagrams`).
    UDP_IN: u64 = "snmp.udp_in", "1";
}

const FIELDS: &[(&str, Metric<u64>)] = &[
    ("ActiveOpens", ACTIVE_OPENS),
    ("PassiveOpens", PASSIVE_OPENS),
    ("AttemptFails", ATTEMPT_FAILS),
    ("EstabResets", ESTAB_RESETS),
    ("CurrEstab", CURR_ESTAB),
    ("InSegs", IN_SEGS),
    ("OutSegs", OUT_SEGS),
    ("RetransSegs", RETRANS_SEGS),
    ("InErrs", IN_ERRS),
    ("OutRsts", OUT_RSTS),
];

const PREFIX: pairs::Prefix =
    pairs::Prefix { word: "Tcp:", expected: "two lines beginning with `Tcp:`" };

const UDP: pairs::Prefix =
    pairs::Prefix { word: "Udp:", expected: "two lines beginning with `Udp:`" };

/// How many connections were begun from there, by such a file.
pub fn connects(file: &[u8]) -> Option<u64> {
    let mut evidence = Evidence::default();
    let of = Subject::Stack(Side::Server);
    parse(&Answer { at: Timestamp(0), of, bytes: file }, &mut evidence).ok()?;
    evidence.of(of).last(ACTIVE_OPENS).ok()
}

fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    let Answer { at, of, bytes, .. } = answer;
    pairs::push(*at, *of, bytes, PREFIX, FIELDS, evidence)?;
    let has_udp = bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"Udp:"));
    let fields = [("InDatagrams", UDP_IN)];
    if has_udp { pairs::push(*at, *of, bytes, UDP, &fields, evidence) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Subject = Subject::Stack(Side::Server);
    const NAMES: &str = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens \
         PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts \
         InCsumErrors\n";

    fn read(text: &str) -> Result<Evidence, UnreadableSource> {
        let mut evidence = Evidence::default();
        let answer = Answer { at: Timestamp(7), of: SERVER, bytes: text.as_bytes() };
        parse(&answer, &mut evidence).map(|()| evidence)
    }

    #[test]
    fn a_negative_number_in_a_field_that_nobody_asks_for_is_no_harm() {
        let text = format!("{NAMES}Tcp: 1 200 120000 -1 152 49 31 56 0 10044 6236 5 0 93 0\n");
        let evidence = read(&text).unwrap();
        assert_eq!(evidence.of(SERVER).last(ACTIVE_OPENS), Ok(152));
        assert_eq!(evidence.of(SERVER).last(RETRANS_SEGS), Ok(5));
        assert_eq!(evidence.of(SERVER).last(OUT_RSTS), Ok(93));
        assert!(evidence.of(SERVER).last(UDP_IN).is_err());
        let udp = "Udp: InDatagrams NoPorts InErrors OutDatagrams\nUdp: 72 0 0 71\nUdpLite: InDatagrams\nUdpLite: 0\n";
        assert_eq!(read(&(text.clone() + udp)).unwrap().of(SERVER).last(UDP_IN), Ok(72));
        assert_eq!(connects(text.as_bytes()), Some(152));
        assert_eq!(connects(b"Tcp: none\n"), None);
    }

    #[test]
    fn a_word_for_a_number_is_an_error_that_quotes_it_and_leaves_nothing() {
        let text = format!("{NAMES}Tcp: 1 200 120000 -1 152 many 31 56 0 10044 6236 5 0 93 0\n");
        assert_eq!(
            read(&text).unwrap_err().to_string(),
            "line 4: expected a whole number, found `many`"
        );
    }
}
