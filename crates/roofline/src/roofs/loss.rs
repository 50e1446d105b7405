//! Loss: packets are lost at random, and TCP takes each for a sign of a full line.
//!
//! Of exchanges larger than the window that such a loss leaves:
//! `ceiling = connections x W x MSS / RTT / bytes an exchange`,
//! `W = max(1.22 / sqrt(p), 1.054 (RTT / p)^0.75)`, Reno's and CUBIC's
//!
//! Of smaller ones, which have nothing behind them that could tell of a loss:
//! `ceiling = connections / (time alone + p x segments x 200 ms)`
//!
//! Told from a full queue (path.queue-limit, path.rate) by what dropped them, which the path says.
//! Blind spot: congestion control that does not take a loss for congestion (bbr) goes beyond the first
//! ceiling, and is then not named.
//! Source: Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance
//! algorithm", 1997; RFC 9438, 5.1 (CUBIC's response function, with C = 0.4 and a cut to 0.7); for
//! timeouts Padhye, Firoiu, Towsley, Kurose, "Modeling TCP throughput", 1998.

use linerate_evidence::Missing;
use linerate_evidence::sources::{link, tcp_info};
use linerate_model::{Bytes, OpRate};

use super::line_rate::FULL;
use super::stalls::{FullWindow, Stalls, TIMER, percent};
use super::ways::{LaidWay, laid};
use super::window::{directions, mean_over, min_rtt};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::unhindered;

// Chosen: fewer are an accident. Of packets.
const SEVERAL: f64 = 1e-5;

pub(super) struct Loss;

impl Roof for Loss {
    fn id(&self) -> &'static str {
        "path.loss"
    }

    fn title(&self) -> &'static str {
        "packets lost on the path"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/path.loss.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let ways = laid(run);
        if ways.is_empty() {
            return Ok(Finding::DoesNotApply("the plan lays no path".into()));
        }
        let [heavier, _] = directions(run);
        // The way that the bulk goes counts; the other, where only that loses anything.
        let weight = |way: &LaidWay, lost: f64| lost * (0.01 + way.carries(heavier.sender));
        let mut lossy: Option<(LaidWay, f64)> = None;
        for way in ways {
            let lost = way.lost()?;
            if lossy.as_ref().is_none_or(|(so_far, p)| weight(&way, lost) > weight(so_far, *p)) {
                lossy = Some((way, lost));
            }
        }
        let Some((way, p)) = lossy.filter(|(_, p)| *p >= SEVERAL) else {
            return Ok(Finding::DoesNotApply("the path lost no packet at random".into()));
        };
        let senders = run.flows(heavier.sender);
        let mss = mean_over(&senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))?.max(1.0);
        let rtt = min_rtt(run)?;
        let window = segments(p, rtt);
        let is_bulk = heavier.bytes > window * mss;
        let fate = if is_bulk {
            bulk(run, &way, p, window * mss, rtt, heavier.bytes)?
        } else {
            small(run, &way, p, mss)?
        };
        let overflows = way.overflows()?.sum();
        let lost = p * way.per_second(link::PACKETS_IN)?;
        let full = way.utilisation()?;
        let seen = format!("{} lost {} of its packets; {}", way.name, percent(p), fate.seen);
        let binds = if overflows > lost {
            Binds::No(format!("{seen}; more were dropped because its queue was full"))
        } else if full.is_some_and(|full| full >= FULL) {
            Binds::No(format!("{seen}; and yet its rate is used"))
        } else if fate.holds && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let attained = run.attained().0;
        let alone = unhindered(run).unwrap_or(rtt);
        let free = (f64::from(run.connections())
            / alone.min(if is_bulk { 2.0 * rtt } else { alone }))
        .max(attained * 1.1);
        let advice = vec![Advice {
            knob: way.knob("loss"),
            value: "0%".into(),
            does: "lets TCP take a loss for what it is elsewhere, a full line".into(),
            by_hand: "find who drops: ip -s link, ethtool -S (a policer, a bad cable, wireless, a full \
                      conntrack table), tc -s qdisc; a policer wants pacing or a shaper in front of it. Where \
                      it can't be mended: net.ipv4.tcp_congestion_control=bbr on who sends bulk, which goes by \
                      the rate that arrives and not by losses, or more connections side by side"
                .into(),
            predicted: Predicted {
                low: OpRate(attained * 1.02),
                mid: OpRate((attained * free).sqrt()),
                high: OpRate(free),
            },
        }];
        Ok(Finding::Ceiling(Ceiling { rate: fate.rate, sum: fate.sum, binds, advice }))
    }
}

/// What becomes of exchanges of one size.
struct Fate {
    rate: OpRate,
    sum: String,
    seen: String,
    holds: bool,
}

/// The window that one loss in `1/p` segments leaves. Unit: segments.
fn segments(p: f64, rtt: f64) -> f64 {
    let reno = 1.22 / p.sqrt();
    let cubic = 1.054 * (rtt / p).powf(0.75);
    reno.max(cubic)
}

fn bulk(
    run: &Run,
    way: &LaidWay,
    p: f64,
    window: f64,
    rtt: f64,
    bytes: f64,
) -> Result<Fate, Missing> {
    let rate = OpRate(f64::from(run.connections()) * window / rtt / bytes);
    let windows = FullWindow::of(run)?;
    let share = run.attained().0 / rate.0;
    Ok(Fate {
        rate,
        sum: format!(
            "{} x {} window at {} loss on {} / {} RTT / {} an exchange = {rate}",
            run.connections_words(),
            Bytes(window as u64),
            percent(p),
            way.name,
            duration(rtt),
            Bytes(bytes as u64)
        ),
        // Chosen: the formulas are right within a factor of two.
        holds: windows.holds() && share >= 0.3,
        seen: windows.words(),
    })
}

fn small(run: &Run, way: &LaidWay, p: f64, mss: f64) -> Result<Fate, Missing> {
    let missing = || Missing { metric: "service".into(), of: "engine".into() };
    let alone = unhindered(run).ok_or_else(missing)?;
    // Either way: a request that is lost stands as long as its answer.
    let mut hit = 0.0;
    let mut segments = 0.0;
    for direction in directions(run) {
        let of_it = (direction.bytes / mss).ceil().max(1.0);
        let lost = laid(run)
            .iter()
            .map(|way| Ok(way.lost()? * way.carries(direction.sender)))
            .sum::<Result<f64, Missing>>()?;
        segments += of_it;
        hit += of_it * lost;
    }
    let stalls = Stalls::of(run)?;
    let rate = OpRate(f64::from(run.connections()) / (alone + hit * TIMER));
    Ok(Fate {
        rate,
        sum: format!(
            "{} / ({} alone + {} of exchanges x {} until the timer) = {rate}, for {segments:.0} segments an \
             exchange and {} loss on {}",
            run.connections_words(),
            duration(alone),
            percent(hit),
            duration(TIMER),
            percent(p),
            way.name
        ),
        holds: stalls.are_by(hit),
        seen: stalls.words(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_renos_on_short_paths_and_cubics_on_long_ones() {
        // 1.22 / sqrt(0.001) = 38.6 segments; CUBIC: 1.054 x (0.02 / 0.001)^0.75 = 10.
        assert!((segments(1e-3, 0.02) - 38.58).abs() < 0.01);
        // 1.22 / sqrt(0.0001) = 122; CUBIC: 1.054 x (0.2 / 0.0001)^0.75 = 315.
        assert!((segments(1e-4, 0.2) - 315.2).abs() < 1.0, "{}", segments(1e-4, 0.2));
    }
}
