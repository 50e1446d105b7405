//! Exchanges of made packets.

use super::super::record::Record;
use super::super::refusal::Refusal;
use super::super::testing::{self, *};
use super::*;
use Direction::{Outbound as Out, Return as Back};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn of(packets: &[(u64, Segment)]) -> Exchanges {
    let mut exchanges = Exchanges::new(&[80], Sampling::all());
    for (ms, segment) in packets {
        exchanges.on_segment(Timestamp(ms * MS), 1, segment);
    }
    exchanges
}

fn totals(exchanges: &Exchanges, ms: u64) -> Totals {
    exchanges.totals(Timestamp(ms * MS))[0].1
}

#[test]
fn a_request_in_two_parts_and_a_streamed_answer_are_one_exchange() {
    let exchanges = of(&[
        (0, packet(4000, Out, (0, 0), 0, SYN)),
        (0, packet(4000, Back, (0, 0), 1, SYN | ACK)),
        (1, packet(4000, Out, (1, 10), 1, ACK)),
        (3, packet(4000, Out, (11, 10), 1, ACK)),
        (13, packet(4000, Back, (1, 100), 21, ACK)),
        (14, packet(4000, Out, (21, 0), 101, ACK)),
        (63, packet(4000, Back, (101, 100), 21, ACK)),
        (93, packet(4000, Out, (21, 10), 201, ACK)),
    ]);
    let expected = Totals {
        packets: 8,
        exchanges: 1,
        // From its last byte at 3 to the first one back at 13.
        service_time: 10 * MS,
        request_time: 2 * MS,
        answer_time: 50 * MS,
        idle_time: 30 * MS,
        // 1 to 13, and from 93 on.
        asked_area: 12 * MS + 7 * MS,
        waiters_exchanges: 1,
        connections: 1,
        opened: 1,
        ..Totals::default()
    };
    assert_eq!(totals(&exchanges, 100), expected);
    assert_eq!(exchanges.service_times(80).unwrap().len(), 1);
}

#[test]
fn a_part_that_comes_with_the_late_ack_of_the_one_before_was_held() {
    let held = |acked: u64, next: u64, sizes: [u32; 2]| {
        let end = 1 + sizes[0];
        let exchanges = of(&[
            (0, packet(4000, Out, (1, sizes[0]), 1, ACK)),
            (acked, packet(4000, Back, (1, 0), end, ACK)),
            (next, packet(4000, Out, (end, sizes[1]), 1, ACK)),
            (next + 5, packet(4000, Back, (1, 100), end + sizes[1], ACK)),
        ]);
        let totals = totals(&exchanges, 200);
        assert_eq!(totals.request_time, next * MS);
        [totals.request_acks, totals.request_held / MS, totals.request_reaction / MS]
    };
    assert_eq!(held(40, 41, [60, 10]), [1, 41, 1]);
    // Written later, which its own time tells; acknowledged at once; and a stream of whole segments.
    assert_eq!(held(40, 90, [60, 10]), [1, 90, 50]);
    assert_eq!(held(10, 41, [60, 10]), [0, 0, 0]);
    assert_eq!(held(40, 41, [2_920, 10]), [0, 0, 0]);
    assert_eq!(held(40, 41, [60, 2_920]), [0, 0, 0]);
}

#[test]
fn how_long_half_of_those_that_wait_have_waited() {
    let asked = |client, ms| (ms, packet(client, Out, (1, 10), 1, ACK));
    let exchanges = of(&[
        asked(4000, 0),
        asked(4001, 100),
        asked(4002, 900),
        asked(4003, 950),
        (960, packet(4003, Back, (1, 10), 11, ACK)),
    ]);
    assert_eq!(exchanges.waits(Timestamp(1_000 * MS)), 900 * MS);
    assert_eq!(of(&[]).waits(Timestamp(MS)), 0);
}

#[test]
fn who_waits_is_known_by_the_time_that_was_captured() {
    let mut exchanges = Exchanges::new(&[80], Sampling::all());
    // It asks again at once, and waits 10 ms; after a pause of the capture as before.
    for nth in 0..8_u64 {
        let begin = nth * 10 * MS + if nth < 4 { 0 } else { 5_000 * MS };
        exchange(&mut exchanges, nth as u32, [begin, begin + 10 * MS - 1]);
        if nth == 3 {
            exchanges.pause(Timestamp(41 * MS));
        }
    }
    assert_eq!(totals(&exchanges, 6_000).waiters_exchanges, 8);
}

#[test]
fn what_is_sent_again_is_neither_a_request_nor_an_answer() {
    let exchanges = of(&[
        (1, packet(4000, Out, (1, 10), 1, ACK)),
        (201, packet(4000, Out, (1, 10), 1, ACK)),
        (210, packet(4000, Back, (1, 100), 11, ACK)),
        (410, packet(4000, Back, (1, 100), 11, ACK)),
        // A keep-alive probe: a byte that was sent.
        (500, packet(4000, Out, (10, 1), 101, ACK)),
    ]);
    let found = totals(&exchanges, 500);
    assert_eq!((found.exchanges, found.service_time), (1, 209 * MS));
    assert_eq!((found.answer_time, found.asked_area), (0, 209 * MS));
}

#[test]
fn a_sequence_number_that_wraps_is_the_next() {
    let exchanges = of(&[
        (1, packet(4000, Out, (u32::MAX - 4, 10), 1, ACK)),
        (2, packet(4000, Back, (1, 10), 5, ACK)),
        (3, packet(4000, Out, (5, 10), 11, ACK)),
        (5, packet(4000, Back, (11, 10), 15, ACK)),
    ]);
    let found = totals(&exchanges, 9);
    assert_eq!((found.exchanges, found.service_time, found.missed), (2, 3 * MS, 0));
}

#[test]
fn asking_before_the_answer_is_all_there_is_duplex_and_asking_after_is_not() {
    let pipelined = of(&[
        (1, packet(4000, Out, (1, 10), 1, ACK)),
        (2, packet(4000, Back, (1, 100), 11, ACK)),
        // Has nothing of the 100 bytes yet.
        (2, packet(4000, Out, (11, 10), 1, ACK)),
    ]);
    assert_eq!(totals(&pipelined, 3).duplex, 1);
    let alternating = of(&[
        (1, packet(4000, Out, (1, 10), 1, ACK)),
        (2, packet(4000, Back, (1, 100), 11, ACK)),
        (2, packet(4000, Out, (11, 10), 101, ACK)),
    ]);
    assert_eq!(totals(&alternating, 3).duplex, 0);
    // Sends something every two seconds, and gets no answer.
    let speaker = [
        (0, packet(4000, Out, (1, 10), 1, ACK)),
        (2_000, packet(4000, Out, (11, 10), 1, ACK)),
        (4_000, packet(4000, Out, (21, 10), 1, ACK)),
    ];
    assert_eq!(totals(&of(&speaker), 4_000).duplex, 2);
}

#[test]
fn data_that_nobody_asked_for_counts_a_burst_and_a_greeting_does_not() {
    let exchanges = of(&[
        (0, packet(4000, Out, (0, 0), 0, SYN)),
        (0, packet(4000, Back, (0, 0), 1, SYN | ACK)),
        (1, packet(4000, Back, (1, 50), 1, ACK)),
        (2, packet(4000, Out, (1, 10), 51, ACK)),
        (3, packet(4000, Back, (51, 50), 11, ACK)),
        // A push of two segments.
        (2_003, packet(4000, Back, (101, 50), 11, ACK)),
        (2_004, packet(4000, Back, (151, 50), 11, ACK)),
        (4_000, packet(4000, Back, (201, 50), 11, ACK)),
    ]);
    let found = totals(&exchanges, 4_000);
    assert_eq!((found.exchanges, found.unasked, found.answer_time), (2, 2, 0));
}

#[test]
fn a_silence_within_an_answer_is_no_end_of_it_if_the_client_goes_on_at_once() {
    let asks = |ms: u64, part: u32| {
        let begins = 1 + part;
        totals(
            &of(&[
                (0, packet(4000, Out, (1, 10), 1, ACK)),
                (5, packet(4000, Back, (1, part), 11, ACK)),
                (1_105, packet(4000, Back, (begins, part), 11, ACK)),
                (2_205, packet(4000, Back, (begins + part, part), 11, ACK)),
                (ms, packet(4000, Out, (11, 10), begins + 2 * part, ACK)),
            ]),
            ms,
        )
    };
    let soon = asks(2_206, 1_500);
    assert_eq!((soon.unasked, soon.resumed), (2, 2));
    assert_eq!((soon.answer_time, soon.idle_time), (2_200 * MS, MS));
    // A person's next request, and a ping that is answered.
    for other in [asks(3_000, 1_500), asks(2_206, 20)] {
        assert_eq!((other.unasked, other.resumed, other.answer_time), (2, 0, 0));
    }
}

#[test]
fn who_is_closed_after_saying_nothing_for_long_is_not_refused() {
    let closed = |ms: u64| {
        totals(
            &of(&[
                (0, packet(4000, Out, (0, 0), 0, SYN)),
                (0, packet(4000, Back, (0, 0), 1, SYN | ACK)),
                (ms, packet(4000, Back, (1, 0), 1, FIN_ACK)),
            ]),
            ms,
        )
    };
    assert_eq!((closed(20).refused, closed(3_000).refused), (1, 0));
}

#[test]
fn a_greeting_is_waited_for_until_its_last_part() {
    let greeted = |client: u16, from: u64| {
        [
            (from, packet(client, Out, (0, 0), 0, SYN)),
            (from, packet(client, Back, (0, 0), 1, SYN | ACK)),
            (from + 1, packet(client, Back, (1, 20), 1, ACK)),
            (from + 2_001, packet(client, Back, (21, 30), 1, ACK)),
            (from + 2_002, packet(client, Out, (1, 10), 51, ACK)),
            (from + 2_003, packet(client, Back, (51, 50), 11, ACK)),
        ]
    };
    // The next one still waits for its greeting.
    let opening = greeted(4001, 3_000);
    let found = totals(&of(&[&greeted(4000, 0)[..], &opening[..2]].concat()), 3_500);
    assert_eq!((found.exchanges, found.unasked), (2, 0));
    assert_eq!(found.service_time, 2_001 * MS + MS);
    assert_eq!(found.asked_area, 2_001 * MS + MS + 500 * MS);
    // A server that keeps sending sends unasked.
    let feed = (1..9).map(|nth| (nth * 10, packet(4000, Back, (1 + 20 * nth as u32, 20), 1, ACK)));
    let feed: Vec<_> = greeted(4000, 0)[..2].iter().copied().chain(feed).collect();
    let asked = (200, packet(4000, Out, (1, 10), 181, ACK));
    let found = totals(&of(&[&feed[..], &[asked]].concat()), 200);
    assert_eq!((found.exchanges, found.service_time), (0, 0));
}

#[test]
fn a_refusal_a_reset_and_an_end_without_an_answer_are_told_apart() {
    let refused = of(&[
        (0, packet(4000, Out, (0, 0), 0, SYN)),
        (900, packet(4000, Out, (0, 0), 0, SYN)),
        (901, packet(4000, Back, (0, 0), 1, RST | ACK)),
    ]);
    let found = totals(&refused, 902);
    assert_eq!((found.opened, found.refused, found.reset, refused.open()), (1, 1, 0, 0));

    let reset = of(&[
        (0, packet(4000, Out, (1, 10), 1, ACK)),
        (5, packet(4000, Back, (1, 0), 11, RST | ACK)),
    ]);
    let found = totals(&reset, 50);
    assert_eq!((found.reset, found.unanswered, found.asked_area), (1, 1, 5 * MS));

    let closed = of(&[
        (0, packet(4000, Out, (1, 10), 1, ACK)),
        (5, packet(4000, Back, (1, 0), 11, FIN_ACK)),
        (6, packet(4000, Out, (11, 0), 2, FIN_ACK)),
        // As some clients do when they have closed.
        (7, packet(4000, Out, (12, 0), 2, RST)),
    ]);
    let found = totals(&closed, 50);
    assert_eq!((found.reset, found.unanswered, closed.open()), (0, 1, 0));
}

#[test]
fn a_request_without_an_answer_is_told_from_a_part_of_one() {
    let then = |parts: [u32; 2], pause: u64| {
        let head = [
            (0, packet(4000, Out, (1, 20), 1, ACK)),
            (1, packet(4000, Back, (1, 10), 21, ACK)),
            (5, packet(4000, Out, (21, parts[0]), 11, ACK)),
            (5 + pause, packet(4000, Out, (21 + parts[0], parts[1]), 11, ACK)),
        ];
        let found = totals(&of(&head), 900);
        (found.asked_again, found.again_time)
    };
    assert_eq!(then([20, 21], 300), (1, 300 * MS));
    assert_eq!(then([20, 20], 10), (0, 0), "at once");
    assert_eq!(then([14, 6], 300), (0, 0), "head and body");
    assert_eq!(then([1_460, 1_460], 300), (0, 0), "a long one, over a slow path");
}

#[test]
fn a_request_that_is_hung_up_on_is_told_from_a_goodbye() {
    let ends = |asked: u32, rest: &[(u64, Segment)]| {
        let head = [
            (0, packet(4000, Out, (1, 20), 1, ACK)),
            (1, packet(4000, Back, (1, 10), 21, ACK)),
            (5, packet(4000, Out, (21, asked), 11, ACK)),
        ];
        totals(&of(&[&head[..], rest].concat()), 50).hung_up
    };
    let closed = packet(4000, Back, (11, 0), 41, FIN_ACK);
    assert_eq!(ends(20, &[(6, closed)]), 1);
    assert_eq!(ends(20, &[(6, packet(4000, Back, (11, 0), 41, RST | ACK))]), 1);
    assert_eq!(ends(2, &[(6, closed)]), 0, "QUIT");
    assert_eq!(
        ends(20, &[(6, packet(4000, Out, (41, 0), 11, FIN_ACK)), (7, closed)]),
        0,
        "its client left"
    );
    assert_eq!(
        ends(20, &[(6, packet(4000, Back, (11, 5), 41, FIN_ACK))]),
        0,
        "that was its answer"
    );
    assert_eq!(ends(20, &[(6, packet(4000, Back, (11, 5), 41, ACK)), (7, closed)]), 0);
}

#[test]
fn who_is_accepted_and_closed_before_any_answer_is_refused_and_a_client_may_hang_up() {
    let opened =
        [(0, packet(4000, Out, (0, 0), 0, SYN)), (1, packet(4000, Back, (0, 0), 1, SYN | ACK))];
    let ends = |rest: &[(u64, Segment)]| {
        let found = totals(&of(&[&opened, rest].concat()), 50);
        (found.refused, found.reset)
    };
    let told_no =
        [(2, packet(4000, Back, (1, 40), 1, ACK)), (3, packet(4000, Back, (41, 0), 1, FIN_ACK))];
    assert_eq!(ends(&told_no), (1, 0));
    assert_eq!(ends(&[(3, packet(4000, Back, (1, 0), 1, RST | ACK))]), (1, 0));
    assert_eq!(ends(&[(3, packet(4000, Out, (1, 0), 1, RST | ACK))]), (0, 0));
    assert_eq!(ends(&[(3, packet(4000, Out, (1, 0), 1, FIN_ACK))]), (0, 0));
    let served = [
        (2, packet(4000, Out, (1, 10), 1, ACK)),
        (3, packet(4000, Back, (1, 10), 11, ACK)),
        (4, packet(4000, Back, (11, 0), 11, FIN_ACK)),
    ];
    assert_eq!(ends(&served), (0, 0));
    let stream = [
        (2, packet(4000, Back, (1, 1000), 1, ACK)),
        (3, packet(4000, Back, (1001, 0), 1, FIN_ACK)),
    ];
    assert_eq!(ends(&stream), (0, 0));
}

#[test]
fn an_answer_that_ends_with_the_connection_has_its_end() {
    let exchanges = of(&[
        (0, packet(4000, Out, (1, 10), 1, FIN_ACK)),
        (5, packet(4000, Back, (1, 100), 12, ACK)),
        (9, packet(4000, Back, (101, 10), 12, FIN_ACK)),
    ]);
    let found = totals(&exchanges, 50);
    assert_eq!((found.exchanges, found.answer_time, found.missed), (1, 4 * MS, 0));
    assert_eq!(exchanges.open(), 0);
}

#[test]
fn an_answer_that_is_a_refusal_is_counted_by_its_sort_and_not_in_the_midst_of_another() {
    let told_no = |first: Option<Refusal>, second: Refusal| {
        let back = |sequence: (u32, u32), refusal| Segment {
            refusal,
            ..packet(4000, Back, sequence, 11, ACK)
        };
        let asks = packet(4000, Out, (1, 10), 1, ACK);
        let parts = [(1, asks), (2, back((1, 100), first)), (3, back((101, 100), Some(second)))];
        totals(&of(&parts), 9).told_no
    };
    assert_eq!(told_no(Some(Refusal::Http), Refusal::Http), [1, 0, 0, 0, 0, 0, 0]);
    // Behind the head of a stream.
    assert_eq!(told_no(None, Refusal::Xmpp), [0, 0, 0, 0, 0, 1, 0]);
}

#[test]
fn what_is_answered_until_a_client_is_let_in_is_its_login() {
    // So many answers, each after 2 ms, of which that one lets the client in; and one of 20 ms.
    let logins = |answers: u32, lets_in: u32, begins: bool| {
        let mut packets = Vec::new();
        if begins {
            let both =
                [packet(4000, Out, (0, 0), 0, SYN), packet(4000, Back, (0, 0), 1, SYN | ACK)];
            packets.extend(both.map(|packet| (0, packet)));
        }
        for number in 0..=answers {
            let (at, waits) = (u64::from(10 * number), if number < answers { 2 } else { 20 });
            let (asked, sent) = (1 + 10 * number, 1 + 100 * number);
            let welcome = number + 1 == lets_in;
            let back = packet(4000, Back, (sent, 100), asked + 10, ACK);
            packets.push((at, packet(4000, Out, (asked, 10), sent, ACK)));
            packets.push((at + waits, Segment { welcome, ..back }));
        }
        let found = totals(&of(&packets), 999);
        (found.exchanges, found.logins, found.login_time)
    };
    assert_eq!(logins(3, 3, true), (4, 3, 6 * MS));
    assert_eq!(logins(3, 1, true), (4, 1, 2 * MS), "those behind it are questions");
    assert_eq!(logins(3, 3, false).1, 0, "its begin was not seen");
    assert_eq!(logins(9, 9, true).1, 0, "a login has fewer");
}

#[test]
fn a_handshake_is_counted_with_its_time_and_what_follows_it_in_tls_is_not_one() {
    let asks = |record, sequence, acknowledged| Segment {
        record: Some(record),
        ..packet(4000, Out, (sequence, 10), acknowledged, ACK)
    };
    let exchanges = of(&[
        (0, asks(Record::Handshake, 1, 1)),
        (4, packet(4000, Back, (1, 50), 11, ACK)),
        // The certificate did not fit into the first write.
        (40, packet(4000, Back, (51, 50), 11, ACK)),
        // The end of the handshake, and the request.
        (41, asks(Record::Handshake, 11, 101)),
        (41, asks(Record::Other, 21, 101)),
        (44, packet(4000, Back, (101, 100), 31, ACK)),
        (45, packet(4000, Out, (31, 10), 201, ACK)),
        (46, packet(4000, Back, (201, 100), 41, ACK)),
    ]);
    let found = totals(&exchanges, 50);
    assert_eq!((found.exchanges, found.tls, found.handshakes), (3, 2, 1));
    assert_eq!((found.handshake_time, found.service_time), (40 * MS, 8 * MS));
}

#[test]
fn an_answer_in_pieces_has_a_pace_and_a_quick_one_has_none() {
    let mut exchanges = of(&[
        (1, packet(4000, Out, (1, 10), 1, ACK)),
        (2, packet(4000, Back, (1, 1000), 11, ACK)),
        (52, packet(4000, Back, (1001, 1000), 11, FIN_ACK)),
    ]);
    assert!(exchanges.paces(80).is_none());
    testing::lasting(&mut exchanges);
    // 2,000 bytes in 0.2 s, within HDR's 0.1 %.
    let pace = exchanges.paces(80).unwrap().max();
    assert!(pace.abs_diff(10_000) < 20, "{pace}");
}

#[test]
fn an_answer_that_was_not_seen_is_no_service_time() {
    let exchanges = of(&[
        (0, packet(4000, Out, (1, 10), 1, ACK)),
        (1, packet(4000, Back, (1, 100), 11, ACK)),
        (2, packet(4000, Out, (11, 10), 101, ACK)),
        // Acknowledges 200 bytes: its second answer was not captured.
        (900, packet(4000, Out, (21, 10), 201, ACK)),
        (901, packet(4000, Back, (201, 100), 31, ACK)),
    ]);
    let found = totals(&exchanges, 901);
    assert_eq!((found.exchanges, found.missed, found.service_time), (2, 1, 2 * MS));
}

#[test]
fn met_in_the_midst_of_an_answer_it_waits_for_the_next_request() {
    let exchanges = of(&[
        (1, packet(4000, Back, (501, 100), 11, ACK)),
        (2, packet(4000, Out, (11, 10), 601, ACK)),
        (5, packet(4000, Back, (601, 100), 21, ACK)),
    ]);
    let found = totals(&exchanges, 9);
    assert_eq!((found.exchanges, found.unasked, found.service_time), (1, 0, 3 * MS));
}

#[test]
fn a_pause_cuts_off_what_was_under_way() {
    let mut exchanges = of(&[(1, packet(4000, Out, (1, 10), 1, ACK))]);
    exchanges.pause(Timestamp(5 * MS));
    assert_eq!(totals(&exchanges, 500).asked_area, 4 * MS);
    // Its answer, and much else, was sent meanwhile.
    let answer = packet(4000, Back, (901, 10), 91, ACK);
    exchanges.on_segment(Timestamp(600 * MS), 1, &answer);
    let asked = packet(4000, Out, (91, 10), 911, ACK);
    exchanges.on_segment(Timestamp(601 * MS), 1, &asked);
    let found = totals(&exchanges, 603);
    assert_eq!((found.exchanges, found.missed, found.asked_area), (0, 0, 6 * MS));
    assert_eq!(found.connections, 1);
}

#[test]
fn a_copy_on_another_device_is_not_a_second_packet() {
    let mut exchanges = of(&[(1, packet(4000, Out, (1, 10), 1, ACK))]);
    let answer = packet(4000, Back, (1, 100), 11, ACK);
    exchanges.on_segment(Timestamp(2 * MS), 2, &answer);
    exchanges.on_segment(Timestamp(3 * MS), 1, &answer);
    let found = totals(&exchanges, 9);
    assert_eq!((found.packets, found.service_time), (2, 2 * MS));
}

#[test]
fn one_of_two_connections_stands_for_both() {
    let halved = Sampling::salted(4000).halved();
    assert_eq!(halved.one_in(), 2);
    let mut exchanges = Exchanges::new(&[80], Sampling::salted(4000));
    for client in 4000..4008 {
        let asked = packet(client, Out, (1, 10), 1, ACK);
        exchanges.on_segment(Timestamp(0), 1, &asked);
    }
    exchanges.keep(Timestamp(10 * MS), halved);
    assert_eq!(exchanges.open(), 4);
    assert_eq!(totals(&exchanges, 10).asked_area, 80 * MS);
    for client in 4000..4008 {
        let answer = packet(client, Back, (1, 100), 11, ACK);
        exchanges.on_segment(Timestamp(20 * MS), 1, &answer);
    }
    let found = totals(&exchanges, 30);
    // All eight were asked for 20 ms.
    assert_eq!((found.exchanges, found.asked_area), (8, 160 * MS));
    assert_eq!(exchanges.service_times(80).unwrap().len(), 8);
}

#[test]
fn halving_keeps_some_of_those_that_were_kept_and_ends_somewhere() {
    let mut sampling = Sampling::salted(12_345);
    for _ in 0..20 {
        let half = sampling.halved();
        assert!((0..=u16::MAX).all(|port| !half.keeps(port) || sampling.keeps(port)));
        let kept = (0..=u16::MAX).filter(|port| half.keeps(*port)).count();
        assert_eq!(kept, 65_536 / half.one_in() as usize);
        sampling = half;
    }
    assert_eq!(sampling.one_in(), 4096);
}

#[test]
fn no_more_connections_are_kept_than_there_is_room_for() {
    let mut exchanges = Exchanges::new(&[80], Sampling::all());
    let asked = |client: u16, host: u8| {
        let mut asked = packet(client, Back, (1, 10), 1, ACK);
        asked.client = SocketAddr::from(([10, 0, 1, host], client));
        asked
    };
    for (host, client) in (0..2).flat_map(|host| (0..40_000).map(move |port| (host, port))) {
        exchanges.on_segment(Timestamp(0), 1, &asked(client, host));
    }
    assert_eq!(exchanges.open(), MOST_CONNECTIONS);
    exchanges.on_segment(Timestamp(61_000 * MS), 1, &asked(1, 9));
    assert_eq!(exchanges.open(), 1);
}

proptest! {
    /// Little's law on its own times: what is asked and unanswered is what was served, what was being
    /// asked, and what never was answered.
    #[test]
    fn no_packets_make_it_panic_and_no_time_is_counted_twice(
        packets in proptest::collection::vec(
            (0..4_u16, any::<bool>(), 0..40_u32, 0..30_u32, 0..40_u32, 0..32_u8, 0..400_u64), 0..80),
    ) {
        let mut exchanges = Exchanges::new(&[80], Sampling::all());
        let mut now = 0;
        for (client, back, sequence, data, acknowledged, flags, pause) in packets {
            now += pause;
            let direction = if back { Back } else { Out };
            let segment = packet(client, direction, (sequence, data), acknowledged, flags);
            exchanges.on_segment(Timestamp(now * MS), 1, &segment);
        }
        let found = totals(&exchanges, now);
        prop_assert!(found.asked_area >= found.service_time + found.request_time);
        prop_assert!(found.asked_area + found.answer_time + found.idle_time <= 4 * now * MS);
    }
}
