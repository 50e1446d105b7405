//! Queue limit: the path holds so many packets and drops the rest, long before its rate is used.
//!
//! `ceiling = limit / one-way delay / packets an exchange`, of the way that has the least
//! of a queue before a rate: `rate / bytes an exchange`, which the queue does not let be reached
//!
//! A limit in packets that counts those in delay as well (netem's, 1,000 if nobody sets it) is a rate in
//! disguise: no more than `limit` packets can be under way for the time that each is under way. Drops alone
//! prove nothing, every full line drops; here they cost and the line is not full.
//! Blind spot: bursts. A limit may be hit though the mean is far below this ceiling; the drops tell.
//! Source: tc-netem(8), `limit`; Little's law.

use linerate_evidence::sources::{link, snmp};
use linerate_evidence::{Missing, Side};
use linerate_model::{Aqm, OpRate, Queue};

use super::line_rate::FULL;
use super::receive_window::unpinned;
use super::stalls::{FullWindow, Stalls, percent};
use super::ways::{LaidWay, Overflows, in_packets, laid, rounded_up};
use super::window::setting;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::unhindered;

// Chosen: of the packets; fewer drops than this are an accident of one moment.
const SEVERAL: f64 = 1e-4;

// Source: RFC 6928: what a connection may send before it has heard anything. Unit: segments.
const FIRST: f64 = 10.0;

pub(super) struct QueueLimit;

/// A way, and what is the least that it holds.
struct Held<'a> {
    way: LaidWay<'a>,
    drops: Overflows,
    by: Limit,
    ceiling: f64,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Limit {
    /// All that the path holds.
    Path,
    /// What waits for its rate.
    Queue,
}

impl Roof for QueueLimit {
    fn id(&self) -> &'static str {
        "path.queue-limit"
    }

    fn title(&self) -> &'static str {
        "a path that holds too few packets"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/path.queue-limit.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let ways = laid(run);
        if ways.is_empty() {
            return Ok(Finding::DoesNotApply("the plan lays no path".into()));
        }
        let limited = |way: &LaidWay| {
            way.asked.limit.is_some() || way.asked.rate.is_some() || way.asked.trace.is_some()
        };
        let held = ways.into_iter().filter(limited).map(Held::of).collect::<Result<Vec<_>, _>>()?;
        let drops_each =
            held.iter().map(|held| held.drops.sum()).sum::<f64>() / run.attained().0.max(1e-9);
        // What drops most; of those that drop nothing, what would first.
        let worst = held.into_iter().filter(|held| held.ceiling.is_finite()).max_by(|a, b| {
            let by_drops = a.drops.sum().total_cmp(&b.drops.sum());
            by_drops.then(b.ceiling.total_cmp(&a.ceiling))
        });
        let Some(held) = worst else {
            return Ok(Finding::DoesNotApply("the path holds whatever comes".into()));
        };
        let way = &held.way;
        let came = way.per_second(link::PACKETS_IN)?;
        let share = held.drops.sum() / came.max(1e-9);
        let full = way.utilisation()?;
        let stalls = Stalls::of(run)?;
        let windows = FullWindow::of(run);
        let line =
            full.map_or(String::new(), |full| format!(" with its rate {:.0} % used", full * 100.0));
        let mut seen = format!(
            "{} dropped {} of its packets{line}{}; {}",
            way.name,
            percent(share),
            again(run),
            stalls.words()
        );
        if let Ok(windows) = &windows {
            seen = format!("{seen}; {}", windows.words());
        }
        let costs = stalls.are_by(drops_each) || windows.is_ok_and(|windows| windows.holds());
        let binds = if share < SEVERAL {
            Binds::No(format!("{} dropped {} of its packets", way.name, percent(share)))
        } else if full.is_some_and(|full| full >= FULL) {
            Binds::No(format!("{seen}: a line that is full drops, whatever its queue"))
        } else if held.by == Limit::Queue && way.asked.aqm == Aqm::Codel {
            Binds::No(format!("{seen}: CoDel drops before its queue is full"))
        } else if costs && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let (sum, advice) = match held.by {
            Limit::Path => (held.sum_of_limit()?, held.larger_limit(run)?),
            Limit::Queue => (held.sum_of_queue()?, held.larger_queue(run)?),
        };
        Ok(Finding::Ceiling(Ceiling {
            rate: OpRate(held.ceiling),
            sum,
            binds,
            advice: vec![advice],
        }))
    }
}

impl<'a> Held<'a> {
    fn of(way: LaidWay<'a>) -> Result<Self, Missing> {
        let drops = way.overflows()?;
        let delay = way.asked.delay.as_secs_f64();
        let by_limit = match way.asked.limit {
            Some(limit) => {
                f64::from(limit) / delay.max(1e-9) / way.each(link::PACKETS_IN)?.max(1e-9)
            }
            None => f64::INFINITY,
        };
        let by_rate = way.most()?.unwrap_or(f64::INFINITY);
        let by = if drops.limit > drops.queue || (drops.sum() == 0.0 && by_limit < by_rate) {
            Limit::Path
        } else {
            Limit::Queue
        };
        let ceiling = if by == Limit::Path { by_limit } else { by_rate };
        Ok(Self { way, drops, by, ceiling })
    }

    fn sum_of_limit(&self) -> Result<String, Missing> {
        let way = &self.way;
        Ok(format!(
            "{} packets / {} one way / {:.1} packets an exchange on {} = {}",
            way.asked.limit.unwrap_or_default(),
            duration(way.asked.delay.as_secs_f64()),
            way.each(link::PACKETS_IN)?,
            way.name,
            OpRate(self.ceiling)
        ))
    }

    fn sum_of_queue(&self) -> Result<String, Missing> {
        let way = &self.way;
        let queue = match way.asked.queue {
            Queue::Packets(packets) => format!("{packets} packets"),
            Queue::Bytes(bytes) => bytes.to_string(),
        };
        Ok(format!(
            "{} / {:.0} B an exchange on {} = {}, and a queue of {queue} before it overflows first",
            way.rate_words(),
            way.bytes_each()?,
            way.name,
            OpRate(self.ceiling)
        ))
    }

    /// Whatever all connections may have under way at once.
    fn larger_limit(&self, run: &Run) -> Result<Advice, Missing> {
        let way = &self.way;
        // An exchange is all that a connection has out, or the largest window that its peer may offer.
        // Source: half of the buffer is window (`tcp_adv_win_scale`), ip-sysctl.rst.
        let window = setting(run, "net.ipv4.tcp_rmem").map_or(f64::INFINITY, |most| most / 1500.0);
        let each = way.packets_of_a_crossing()?.min(window);
        let now = f64::from(way.asked.limit.unwrap_or_default());
        // Chosen: a quarter more, for what is sent again and for connections that are opened.
        let need = rounded_up((f64::from(run.connections()) * each * 1.25).max(2.0 * now));
        Ok(Advice {
            knob: way.knob("limit"),
            value: need.to_string(),
            does: format!(
                "holds all that {} may have under way at once, {each:.1} packets each",
                run.connections_words()
            ),
            by_hand: format!(
                "where netem delays: tc qdisc change dev DEVICE root netem delay {} limit {need} (its default \
                 is 1000 packets, those in delay included); elsewhere: the queue of the box that drops",
                duration(way.asked.delay.as_secs_f64())
            ),
            predicted: self.lifted(run),
        })
    }

    /// What every connection sends before it has heard anything, or two products of rate and delay.
    fn larger_queue(&self, run: &Run) -> Result<Advice, Missing> {
        let way = &self.way;
        let connections = f64::from(run.connections());
        let product = way.bandwidth_delay().unwrap_or(100.0);
        let each = way.packets_of_a_crossing()?.min(FIRST.max(2.0 * product / connections));
        let need = rounded_up((connections * each).max(2.0 * in_packets(way.asked.queue)));
        Ok(Advice {
            knob: way.knob("queue"),
            value: need.to_string(),
            does: "holds what comes at once until the rate has carried it".into(),
            by_hand: format!(
                "tc qdisc change dev DEVICE root pfifo limit {need}, or a longer txqueuelen; on the box whose \
                 queue it is. For tbf: limit {}",
                need * 1514
            ),
            predicted: self.lifted(run),
        })
    }

    /// Up to what exchanges take that meet nobody, and in a queue up to the line's rate.
    fn lifted(&self, run: &Run) -> Predicted {
        let attained = run.attained().0;
        let alone = unhindered(run).unwrap_or(f64::INFINITY);
        let free = f64::from(run.connections()) / alone;
        let high = match self.by {
            Limit::Path => free.max(unpinned(run, self.way.rtt.max(1e-3)).high.0),
            Limit::Queue => self.ceiling,
        };
        let high = high.max(attained * 1.1);
        let low = attained * 1.02;
        Predicted { low: OpRate(low), mid: OpRate((low * high).sqrt()), high: OpRate(high) }
    }
}

/// How many segments were sent again, in words; empty where the stacks do not say.
fn again(run: &Run) -> String {
    let grew = |side| run.stack(side).delta(snmp::RETRANS_SEGS).map(|(count, _)| count);
    match (grew(Side::Client), grew(Side::Server)) {
        (Ok(client), Ok(server)) => format!(", and {} segments were sent again", client + server),
        _ => String::new(),
    }
}
