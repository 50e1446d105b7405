//! What the network stack did beyond the ordinary: delayed ACKs, overflows, timeouts, windows
//! that shut.
//!
//! Source: `/proc/net/netstat`, the two `TcpExt:` lines (`netstat_seq_show`,
//! `net/ipv4/proc.c`; `Documentation/networking/snmp_counter.rst`). All are counters since the
//! namespace was made, of every connection in it, not only of ours.

use super::{Answer, Fetch, Parse, Source, UnreadableSource, pairs};
use crate::evidence::Evidence;
use crate::metric::Metric;

pub(super) const SOURCE: Source = Source {
    id: "netstat",
    says: "what the network stack did beyond the ordinary, by namespace",
    of: "stack/SIDE",
    fetch: Fetch::StackFile("netstat"),
    metrics: METRICS,
    parse: Parse::Each(parse),
};

metrics! {
    /// ACKs sent because the delayed-ACK timer fired: a peer waited about 40 ms for each (`DelayedACKs`).
    DELAYED_ACKS: u64 = "netstat.delayed_acks", "1";
    /// Delayed ACKs put off again because the application held the socket (`DelayedACKLocked`).
    DELAYED_ACK_LOCKED: u64 = "netstat.delayed_ack_locked", "1";
    /// Delayed ACKs so late that the peer had sent again (`DelayedACKLost`).
    DELAYED_ACK_LOST: u64 = "netstat.delayed_ack_lost", "1";
    /// Connections not made because the accept queue was full (`ListenOverflows`).
    LISTEN_OVERFLOWS: u64 = "netstat.listen_overflows", "1";
    /// Connection requests dropped by a listener for any reason, overflows among them (`ListenDrops`).
    LISTEN_DROPS: u64 = "netstat.listen_drops", "1";
    /// Bare ACKs that a listener with `TCP_DEFER_ACCEPT` left unanswered until data comes, one a connection: no fault (`TCPDeferAcceptDrop`).
    DEFER_ACCEPT_DROP: u64 = "netstat.defer_accept_drop", "1";
    /// SYN cookies sent: the request queue was full (`SyncookiesSent`).
    SYNCOOKIES_SENT: u64 = "netstat.syncookies_sent", "1";
    /// SYN cookies that came back right (`SyncookiesRecv`).
    SYNCOOKIES_RECV: u64 = "netstat.syncookies_recv", "1";
    /// SYN cookies that came back wrong (`SyncookiesFailed`).
    SYNCOOKIES_FAILED: u64 = "netstat.syncookies_failed", "1";
    /// Request queues found full and answered with cookies (`TCPReqQFullDoCookies`).
    REQ_Q_FULL_DO_COOKIES: u64 = "netstat.req_q_full_do_cookies", "1";
    /// Request queues found full and the SYN dropped (`TCPReqQFullDrop`).
    REQ_Q_FULL_DROP: u64 = "netstat.req_q_full_drop", "1";
    /// SYNs and SYN-ACKs sent again: a connect took a second or more (`TCPSynRetrans`).
    SYN_RETRANS: u64 = "netstat.syn_retrans", "1";
    /// TIME-WAIT sockets that ended by their timer (`TW`).
    TW: u64 = "netstat.tw", "1";
    /// TIME-WAIT sockets whose port was used again before (`TWRecycled`).
    TW_RECYCLED: u64 = "netstat.tw_recycled", "1";
    /// TIME-WAIT sockets not kept because there were too many (`TCPTimeWaitOverflow`).
    TIME_WAIT_OVERFLOW: u64 = "netstat.time_wait_overflow", "1";
    /// Retransmission timers that fired (`TCPTimeouts`).
    TIMEOUTS: u64 = "netstat.timeouts", "1";
    /// Retransmissions that were lost in turn (`TCPLostRetransmit`).
    LOST_RETRANSMIT: u64 = "netstat.lost_retransmit", "1";
    /// Segments sent again without waiting for a timer (`TCPFastRetrans`).
    FAST_RETRANS: u64 = "netstat.fast_retrans", "1";
    /// Tail loss probes sent (`TCPLossProbes`).
    LOSS_PROBES: u64 = "netstat.loss_probes", "1";
    /// Recoveries from loss begun by selective acknowledgement (`TCPSackRecovery`).
    SACK_RECOVERY: u64 = "netstat.sack_recovery", "1";
    /// Retransmission timers found to have fired for nothing (`TCPSpuriousRTOs`).
    SPURIOUS_RTOS: u64 = "netstat.spurious_rtos", "1";
    /// Windows that opened from zero (`TCPFromZeroWindowAdv`).
    FROM_ZERO_WINDOW_ADV: u64 = "netstat.from_zero_window_adv", "1";
    /// Windows that shut to zero: an application reads too slowly (`TCPToZeroWindowAdv`).
    TO_ZERO_WINDOW_ADV: u64 = "netstat.to_zero_window_adv", "1";
    /// Windows that should have shut but could not be shrunk (`TCPWantZeroWindowAdv`).
    WANT_ZERO_WINDOW_ADV: u64 = "netstat.want_zero_window_adv", "1";
    /// Segments dropped because they came to a shut window (`TCPZeroWindowDrop`).
    ZERO_WINDOW_DROP: u64 = "netstat.zero_window_drop", "1";
    /// Probes of a shut window (`TCPWinProbe`).
    WIN_PROBE: u64 = "netstat.win_probe", "1";
    /// Receive queues pruned for want of buffer (`PruneCalled`).
    PRUNE_CALLED: u64 = "netstat.prune_called", "1";
    /// Packets merged in receive queues for want of buffer (`TCPRcvCollapsed`).
    RCV_COLLAPSED: u64 = "netstat.rcv_collapsed", "1";
    /// Segments dropped because the receive buffer was full (`TCPRcvQDrop`).
    RCV_Q_DROP: u64 = "netstat.rcv_q_drop", "1";
    /// Segments dropped from the backlog of a socket in use (`TCPBacklogDrop`).
    BACKLOG_DROP: u64 = "netstat.backlog_drop", "1";
    /// Times TCP entered memory pressure (`TCPMemoryPressures`).
    MEMORY_PRESSURES: u64 = "netstat.memory_pressures", "1";
    /// Connections reset because data came after the application had closed (`TCPAbortOnData`).
    ABORT_ON_DATA: u64 = "netstat.abort_on_data", "1";
    /// Connections reset because the application closed with data unread (`TCPAbortOnClose`).
    ABORT_ON_CLOSE: u64 = "netstat.abort_on_close", "1";
    /// Connections reset for want of memory (`TCPAbortOnMemory`).
    ABORT_ON_MEMORY: u64 = "netstat.abort_on_memory", "1";
    /// Connections given up after too many retransmissions (`TCPAbortOnTimeout`).
    ABORT_ON_TIMEOUT: u64 = "netstat.abort_on_timeout", "1";
    /// Connections reset because they lingered too long (`TCPAbortOnLinger`).
    ABORT_ON_LINGER: u64 = "netstat.abort_on_linger", "1";
    /// Resets that could not be sent (`TCPAbortFailed`).
    ABORT_FAILED: u64 = "netstat.abort_failed", "1";
    /// Small writes delayed to be merged (`TCPAutoCorking`).
    AUTO_CORKING: u64 = "netstat.auto_corking", "1";
    /// Slow starts ended early by the spacing of ACKs (`TCPHystartTrainDetect`).
    HYSTART_TRAIN_DETECT: u64 = "netstat.hystart_train_detect", "1";
    /// Sum of the windows at which that was (`TCPHystartTrainCwnd`).
    HYSTART_TRAIN_CWND: u64 = "netstat.hystart_train_cwnd", "segments";
    /// Slow starts ended early by a growing round trip (`TCPHystartDelayDetect`).
    HYSTART_DELAY_DETECT: u64 = "netstat.hystart_delay_detect", "1";
    /// Sum of the windows at which that was (`TCPHystartDelayCwnd`).
    HYSTART_DELAY_CWND: u64 = "netstat.hystart_delay_cwnd", "segments";
}

const FIELDS: &[(&str, Metric<u64>)] = &[
    ("DelayedACKs", DELAYED_ACKS),
    ("DelayedACKLocked", DELAYED_ACK_LOCKED),
    ("DelayedACKLost", DELAYED_ACK_LOST),
    ("ListenOverflows", LISTEN_OVERFLOWS),
    ("ListenDrops", LISTEN_DROPS),
    ("TCPDeferAcceptDrop", DEFER_ACCEPT_DROP),
    ("SyncookiesSent", SYNCOOKIES_SENT),
    ("SyncookiesRecv", SYNCOOKIES_RECV),
    ("SyncookiesFailed", SYNCOOKIES_FAILED),
    ("TCPReqQFullDoCookies", REQ_Q_FULL_DO_COOKIES),
    ("TCPReqQFullDrop", REQ_Q_FULL_DROP),
    ("TCPSynRetrans", SYN_RETRANS),
    ("TW", TW),
    ("TWRecycled", TW_RECYCLED),
    ("TCPTimeWaitOverflow", TIME_WAIT_OVERFLOW),
    ("TCPTimeouts", TIMEOUTS),
    ("TCPLostRetransmit", LOST_RETRANSMIT),
    ("TCPFastRetrans", FAST_RETRANS),
    ("TCPLossProbes", LOSS_PROBES),
    ("TCPSackRecovery", SACK_RECOVERY),
    ("TCPSpuriousRTOs", SPURIOUS_RTOS),
    ("TCPFromZeroWindowAdv", FROM_ZERO_WINDOW_ADV),
    ("TCPToZeroWindowAdv", TO_ZERO_WINDOW_ADV),
    ("TCPWantZeroWindowAdv", WANT_ZERO_WINDOW_ADV),
    ("TCPZeroWindowDrop", ZERO_WINDOW_DROP),
    ("TCPWinProbe", WIN_PROBE),
    ("PruneCalled", PRUNE_CALLED),
    ("TCPRcvCollapsed", RCV_COLLAPSED),
    ("TCPRcvQDrop", RCV_Q_DROP),
    ("TCPBacklogDrop", BACKLOG_DROP),
    ("TCPMemoryPressures", MEMORY_PRESSURES),
    ("TCPAbortOnData", ABORT_ON_DATA),
    ("TCPAbortOnClose", ABORT_ON_CLOSE),
    ("TCPAbortOnMemory", ABORT_ON_MEMORY),
    ("TCPAbortOnTimeout", ABORT_ON_TIMEOUT),
    ("TCPAbortOnLinger", ABORT_ON_LINGER),
    ("TCPAbortFailed", ABORT_FAILED),
    ("TCPAutoCorking", AUTO_CORKING),
    ("TCPHystartTrainDetect", HYSTART_TRAIN_DETECT),
    ("TCPHystartTrainCwnd", HYSTART_TRAIN_CWND),
    ("TCPHystartDelayDetect", HYSTART_DELAY_DETECT),
    ("TCPHystartDelayCwnd", HYSTART_DELAY_CWND),
];

const PREFIX: pairs::Prefix =
    pairs::Prefix { word: "TcpExt:", expected: "two lines beginning with `TcpExt:`" };

fn parse(answer: &Answer<'_>, evidence: &mut Evidence) -> Result<(), UnreadableSource> {
    pairs::push(answer.at, answer.of, answer.bytes, PREFIX, FIELDS, evidence)
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
    fn a_number_belongs_to_the_name_above_it_whatever_the_order() {
        let evidence = read(
            "TcpExt: SyncookiesSent TW DelayedACKs ListenOverflows\nTcpExt: 0 59 752 3\n\
             IpExt: InNoRoutes\nIpExt: 1\n",
        )
        .unwrap();
        assert_eq!(evidence.of(SERVER).last(DELAYED_ACKS), Ok(752));
        assert_eq!(evidence.of(SERVER).last(LISTEN_OVERFLOWS), Ok(3));
        assert!(evidence.of(SERVER).last(RCV_Q_DROP).is_err(), "this kernel does not count it");
    }

    #[test]
    fn lines_of_different_length_are_an_error_that_quotes() {
        let error = read("TcpExt: TW DelayedACKs\nTcpExt: 59\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2: expected as many numbers as names above, found `TcpExt: 59`"
        );
    }

    #[test]
    fn without_its_lines_it_says_which() {
        let error = read("IpExt: InNoRoutes\nIpExt: 1\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 3: expected two lines beginning with `TcpExt:`, found the end"
        );
    }

    #[test]
    fn every_metric_has_its_field() {
        assert_eq!(FIELDS.len(), METRICS.len());
        for (field, metric) in FIELDS {
            let row = METRICS.iter().find(|row| row.name == metric.name).unwrap();
            assert!(row.says.contains(&format!("(`{field}`)")), "{field}");
        }
    }
}
