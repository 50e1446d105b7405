//! MTU black hole: packets over some size vanish on the path and nobody says so; handshakes and small
//! messages pass, so everything looks well until something larger is sent.
//!
//! `ceiling = 0`, or where the kernel probes for the MTU after timeouts
//! `ceiling = connections / (15 x 200 ms)`
//!
//! The sender repeats the same segment for ever, each time after twice the wait. With
//! net.ipv4.tcp_mtu_probing = 1 it tries smaller ones once it has waited as long as three retransmissions
//! (`tcp_retries1`) take: (2^4 - 1) x 200 ms. Each connection finds that out for itself.
//! Blind spot: a size that every segment of the run is under.
//! Source: RFC 4821; ip-sysctl.rst, `tcp_mtu_probing`; `tcp_write_timeout`, `retransmits_timed_out`,
//! net/ipv4/tcp_timer.c.

use linerate_evidence::sources::{link, tcp_info};
use linerate_evidence::{Missing, Of, Side};
use linerate_model::{Bytes, OpRate};

use super::stalls::{Stalls, TIMER};
use super::ways::{LaidWay, laid, setting_knob, setting_of};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

const PROBING: &str = "net.ipv4.tcp_mtu_probing";

// Source: IPv4 and TCP, without options, which TCP_MAXSEG does not count. Unit: bytes.
const HEADERS: u64 = 40;

// Source: see the module: (2 << tcp_retries1) - 1 timers, and 3 is that setting's default.
const TIMERS: f64 = 15.0;

pub(super) struct BlackHole;

impl Roof for BlackHole {
    fn id(&self) -> &'static str {
        "path.black-hole"
    }

    fn title(&self) -> &'static str {
        "a black hole for large packets"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/path.black-hole.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let ways = laid(run);
        if ways.is_empty() {
            return Ok(Finding::DoesNotApply("the plan lays no path".into()));
        }
        let mut worst: Option<(LaidWay, f64)> = None;
        for way in ways {
            // Where it isn't said why, a size that nobody asked for drops nothing.
            let dropped = match way.per_second(link::DROPPED_SIZE) {
                Err(_) if way.asked.largest.is_none() => 0.0,
                told => told?,
            };
            if dropped > worst.as_ref().map_or(0.0, |(_, most)| *most) {
                worst = Some((way, dropped));
            }
        }
        let Some((way, dropped)) = worst else {
            return Ok(Finding::DoesNotApply("no packet was too large for the path".into()));
        };
        let attained = run.attained().0;
        let connections = f64::from(run.connections());
        let probes = setting_of(run, PROBING).is_some_and(|set| set != "0");
        let rate = OpRate(if probes { connections / (TIMERS * TIMER) } else { 0.0 });
        let largest = way.asked.largest.map_or("some size".into(), |largest| largest.to_string());
        let stalls = Stalls::of(run);
        let flows: Vec<Of> = [Side::Client, Side::Server].map(|side| run.flows(side)).concat();
        let senders: Vec<bool> = flows.iter().filter_map(is_stuck).collect();
        let stuck = senders.iter().filter(|is_stuck| **is_stuck).count();
        let mut seen = format!(
            "{} dropped {dropped:.1} packets a second as too large; {stuck} of {} sampled ends that sent \
             stood with their timer doubled",
            way.name,
            senders.len()
        );
        if let Ok(stalls) = &stalls {
            seen = format!("{seen}; {}", stalls.words());
        }
        // Where nothing is answered at all there is nothing to be told from.
        let costs = stalls.map_or(true, |stalls| stalls.are_by(dropped / attained.max(1e-9)));
        let binds = if (costs || stuck * 2 > senders.len()) && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let sum = match probes {
            true => format!(
                "{} / {TIMERS:.0} x {} of timers until smaller segments are tried = {rate}",
                run.connections_words(),
                duration(TIMER)
            ),
            false => {
                format!("packets over {largest} never pass {}: {rate} that need them", way.name)
            }
        };
        // An exchange then takes what its round trips take; this run could not show how many.
        let free = connections / way.rtt.max(1e-3);
        let low = attained * 1.5;
        let lifted = Predicted {
            low: OpRate(low),
            mid: OpRate((low.max(1e-9) * free.max(low)).sqrt()),
            high: OpRate(free.max(low)),
        };
        let largest = way.asked.largest.unwrap_or(Bytes(1280)).0;
        let mut advice = vec![Advice {
            knob: way.knob("largest"),
            value: "1500B".into(),
            does: "lets whole packets pass".into(),
            by_hand: format!(
                "let ICMP `fragmentation needed` through, or mend the hop that drops. Until then smaller \
                 segments: clamp the MSS on the router (--clamp-mss-to-pmtu), ip route change default via \
                 GATEWAY mtu lock {largest} on both hosts, or {{raw, 6, 2, <<{}:32/native>>}} (TCP_MAXSEG) for \
                 one listener",
                largest.saturating_sub(HEADERS)
            ),
            predicted: lifted,
        }];
        if !probes {
            let rate = connections / (TIMERS * TIMER);
            advice.push(Advice {
                knob: setting_knob(&run.header.plan, PROBING),
                value: "1".into(),
                does: "tries smaller segments after 3 s; each connection finds out for itself"
                    .into(),
                by_hand: format!(
                    "sysctl -w {PROBING}=1 on both hosts: of use where connections are kept"
                ),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(rate.max(attained)),
                    high: lifted.high,
                },
            });
        }
        Ok(Finding::Ceiling(Ceiling { rate, sum, binds, advice }))
    }
}

/// Whether in most samples in which it had segments out the timer had doubled twice or more; none where it
/// never had any.
fn is_stuck(flow: &Of) -> Option<bool> {
    let unacked = flow.all(tcp_info::UNACKED).ok()?;
    let backoff = flow.all(tcp_info::BACKOFF).ok()?;
    let busy = unacked.iter().zip(&backoff).filter(|((_, unacked), _)| *unacked > 0);
    let (mut all, mut doubled) = (0u32, 0u32);
    for (_, (_, backoff)) in busy {
        all += 1;
        doubled += u32::from(*backoff >= 2);
    }
    (all > 0).then_some(doubled * 2 > all)
}
