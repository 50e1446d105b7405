//! Queues of a message broker that grow, or whose consumers are always full: how much of what is published into them is consumed.
//!
//! A queue grows if it does in each third of the window. Where consumers may hold any number, what they hold counts.

use linerate_evidence::Counter;

use crate::prelude::*;

/// Messages published and not consumed in the window, of one queue or of all.
#[derive(Default)]
pub(crate) struct Growing {
    /// Absent where only all queues together are counted.
    pub name: Option<String>,
    pub published: f64,
    /// Acknowledged, or delivered without need of it, in the window.
    pub taken: f64,
    /// Growth over the window, and in each third.
    pub grown: f64,
    thirds: [f64; 3],
    /// The window, from its first sample to its last. Unit: seconds.
    pub seconds: f64,
    /// Absent where it was not counted.
    pub consumers: Option<Consumers>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Consumers {
    pub count: f64,
    /// Messages that they may hold unacknowledged together, where each has a limit.
    pub prefetch: Option<f64>,
    /// The same if those of each queue had the lowest limit of a queue's.
    pub least: Option<f64>,
    pub held: Option<f64>,
}

impl Consumers {
    /// Whether they hold most of what they may: then the consumers limit, and not the broker.
    pub fn are_full(&self) -> bool {
        self.least.zip(self.held).is_some_and(|(limit, held)| held >= HALFWAY * limit)
    }
}

impl Growing {
    /// At least half of its share in each third, and more than chance in all.
    fn is_growing(&self) -> bool {
        let least = HALFWAY * self.grown / self.thirds.len() as f64;
        self.grown >= FEW.max(TURNED_AWAY * self.published)
            && self.thirds.iter().all(|third| *third >= least)
    }

    /// A message's time with a consumer, where consumers hold as many as they may (Little's law). Unit: seconds.
    pub fn each(&self) -> Option<f64> {
        let of = self.consumers?;
        let limit = of.prefetch.filter(|limit| *limit > 0.0 && of.least == of.prefetch)?;
        (self.taken > 0.0).then(|| limit * self.seconds / self.taken)
    }
}

/// Ways in which messages leave consumers.
const RETURNED: [Metric<u64>; 3] = [broker::ACKNOWLEDGED, broker::REDELIVERED, broker::REJECTED];

/// What has the counters of a broker's queues in total: RabbitMQ's node, or the process that was asked for its statistics.
pub(crate) fn of_broker(run: &Run) -> Option<Subject> {
    let known = [(Subject::Node, broker::CONSUMERS), (Subject::Target, broker::PUBLISHED)];
    let is_known = |(of, metric): &(Subject, _)| run.of(*of).last(*metric).is_ok();
    known.into_iter().find(is_known).map(|(of, _)| of)
}

/// The queue that grows most, or all of them together where single ones are not counted.
pub(crate) fn growing(run: &Run) -> Result<Growing, Silent> {
    let none =
        "no message broker with known counters (RabbitMQ, beanstalkd, lists of Redis) was sampled";
    let broker = of_broker(run).or_not_here(none)?;
    let mut counted = run.evidence.queues();
    counted.retain(|of| run.of(*of).last(queue::READY).is_ok());
    if !counted.is_empty() {
        let each = counted.iter().filter_map(|of| one(run, *of, broker));
        let most = each.max_by(|a, b| a.grown.total_cmp(&b.grown));
        return most.or_not_here(format!("none of {} queues grew throughout", counted.len()));
    }
    let of = all(run, broker)?;
    let why = format!("{:.0} of {:.0} published messages were consumed", of.taken, of.published);
    silent_if(!of.is_growing(), format!("{why}, and the queues did not grow throughout"))?;
    Ok(of)
}

/// All queues together, where their consumers hold as many messages as they may at nine of ten samples, and have had
/// many: those who publish and wait for it ask no more than they consume, and no queue grows.
pub(crate) fn always_full(run: &Run) -> Option<Growing> {
    // Who gives beanstalkd a job waits for nobody who takes it.
    let (of, all) = (run.of(Subject::Node), all(run, Subject::Node).ok()?);
    let limit = all.consumers.filter(Consumers::are_full)?.prefetch?;
    let done = RETURNED.iter().map(|metric| of.values(*metric).ok()).collect::<Option<Vec<_>>>()?;
    let handed = of.values(broker::DELIVERED).ok()?;
    // The counters are read one after the other.
    let held = |at: usize| handed[at] - done.iter().map(|of| of[at]).sum::<u64>().min(handed[at]);
    let is_whole = done.iter().all(|of| of.len() == handed.len());
    let full = (0..handed.len()).filter(|at| is_whole && held(*at) as f64 >= FULL * limit).count();
    let is_full = full as f64 >= FULL * handed.len() as f64 && full > 2 * SAMPLES;
    (is_full && all.taken >= FEW * limit).then_some(all)
}

/// All queues together, where consumers without a limit hold more than they acknowledge in the window, and little is
/// published meanwhile: messages that wait for them are with them.
pub(crate) fn worked_off(run: &Run) -> Option<Growing> {
    // A worker of beanstalkd holds what it works on.
    let all = all(run, Subject::Node).ok()?;
    let of = all.consumers.filter(|of| of.prefetch.is_none())?;
    let is_backlog = of.held? >= all.taken && all.published <= HALFWAY * all.taken;
    (is_backlog && all.taken >= FEW).then_some(all)
}

/// One counted queue; none where it does not grow.
fn one(run: &Run, subject: Subject, broker: Subject) -> Option<Growing> {
    let of = run.of(subject);
    let last = |metric: Metric<u64>| of.last(metric).ok();
    let consumers = || {
        let (limit, unlimited) = (last(queue::PREFETCH)?, last(queue::CONSUMERS_UNLIMITED)?);
        let prefetch = (unlimited == 0 && limit > 0).then_some(limit as f64);
        let held = of.median(queue::UNACKNOWLEDGED).ok().map(|held| held as f64);
        Some(Consumers { count: last(queue::CONSUMERS)? as f64, prefetch, least: prefetch, held })
    };
    let unlimited = of.max(queue::CONSUMERS_UNLIMITED).is_ok_and(|count| count > 0);
    let mut held = of.all(queue::READY).ok()?;
    if unlimited {
        let with = of.values(queue::UNACKNOWLEDGED).ok()?;
        held.iter_mut().zip(with).for_each(|(ready, with)| ready.1 += with);
    }
    let (first, last) = (held.first()?, held.last()?);
    let grown = last.1 as f64 - first.1 as f64;
    // RabbitMQ renews it every 5 s: nothing in between is seen.
    let rises = held.windows(2).filter(|pair| pair[1].1 > pair[0].1).count();
    if grown < FEW || held.windows(2).any(|pair| pair[1].1 < pair[0].1) {
        return None;
    }
    let (seconds, consumers) = (last.0.since(first.0).as_secs_f64(), consumers());
    let name = run.fact(subject, "name").map(str::to_owned);
    let put = [queue::PUBLISHED, queue::REDELIVERED];
    let handed = [queue::DELIVERED, queue::DELIVERED_NO_ACK];
    let taken = [queue::ACKNOWLEDGED, queue::DELIVERED_NO_ACK];
    let balance = balance(&of, [&put, &handed, &[], &taken], unlimited);
    // Channels at other nodes are counted there.
    let Some(of) = balance.filter(|_| other_nodes(run) == 0) else {
        // One step may be a burst; of those whose length is read each time, some may.
        let part = |nth: usize| held[nth * (held.len() - 1) / 3].1 as f64;
        let is_steady = |nth| part(nth + 1) - part(nth) >= HALFWAY * grown / 3.0;
        let is_steady = broker == Subject::Node || [0, 1, 2].into_iter().all(is_steady);
        let grows = Growing { name, grown, seconds, consumers, ..Growing::default() };
        return (rises > 1 && is_steady).then_some(grows);
    };
    // A queue with a length limit drops the excess, which is not counted by queue.
    let is_kept = of.is_growing() && grown >= HOLDS * of.grown;
    is_kept.then_some(Growing { name, grown, consumers, ..of })
}

/// Nodes that this one is connected to: they may be of its cluster.
fn other_nodes(run: &Run) -> u64 {
    run.whole(Subject::Node).max(broker::NODES).map_or(0, |nodes| nodes - 1)
}

/// All queues of the broker whose counters this has.
fn all(run: &Run, broker: Subject) -> Result<Growing, Silent> {
    let (of, whole, queues) = (run.of(broker), run.whole(broker), run.evidence.queues());
    let (others, why) = (other_nodes(run), "queues are not counted one by one here, and");
    let elsewhere = format!("{why} {others} other nodes may consume what is published here");
    silent_if(others > 0, elsewhere)?;
    let streams = format!("{why} streams keep consumed messages");
    silent_if(whole.max(broker::STREAMS)? > 0, streams)?;
    of.last(broker::PUBLISHED)?;
    let counts = |metric| queues.iter().filter_map(move |of| run.of(*of).last(metric).ok());
    let sum = |metric| counts(metric).sum::<u64>();
    // Deliveries to consumers that need not acknowledge are not counted apart.
    let acknowledges = sum(queue::CONSUMERS_NO_ACK) == 0;
    let unlimited = sum(queue::CONSUMERS_UNLIMITED);
    let handed: &[_] = &[broker::DELIVERED];
    let taken = if acknowledges { &[broker::ACKNOWLEDGED, broker::REJECTED] } else { handed };
    let put = [broker::PUBLISHED, broker::REDELIVERED];
    let counters = [&put, handed, &[broker::DROPPED], taken];
    let balance = balance(&of, counters, unlimited > 0 && acknowledges);
    let balance = balance.or_not_here("its counters were sampled too few times")?;
    let back = RETURNED.iter().map(|metric| of.last(*metric).ok()).sum::<Option<u64>>();
    let handed = of.last(broker::DELIVERED).ok().filter(|_| acknowledges);
    let held = handed.zip(back).map(|(handed, back)| handed.saturating_sub(back) as f64);
    let (count, limit) = (of.last(broker::CONSUMERS)?, sum(queue::PREFETCH));
    let known = sum(queue::CONSUMERS) == count;
    let there = of.max(broker::QUEUES).or_else(|_| whole.max(broker::QUEUES));
    let only = queues.first().filter(|_| queues.len() == 1 && there == Ok(1));
    let name = only.and_then(|only| run.fact(*only, "name")).map(str::to_owned);
    let prefetch = (known && unlimited == 0 && limit > 0).then_some(limit as f64);
    // One queue's consumers may be full, and another's not.
    let limits = || counts(queue::PREFETCH).filter(|limit| *limit > 0);
    let least = prefetch.and(limits().min().map(|of| (of * limits().count() as u64) as f64));
    let consumers = Some(Consumers { count: count as f64, prefetch, least, held });
    Ok(Growing { name, consumers, ..balance })
}

/// What was put into a queue (published first), handed to consumers, dropped unconsumed, and taken: acknowledged, or delivered
/// without need of it. With what consumers hold unacknowledged, or without. None: not counted.
fn balance(
    of: &Of,
    [put, handed, dropped, taken]: [&[Metric<u64>]; 4],
    with_held: bool,
) -> Option<Growing> {
    let sum = |metrics: &[_]| of.sum(metrics).filter(|sum| sum.samples() > 3);
    let (published, put, taken) = (sum(&put[..1])?, sum(put)?, sum(taken)?);
    let dropped = sum(dropped).unwrap_or_default();
    let (counted, out) = if with_held { (&published, &taken) } else { (&put, &sum(handed)?) };
    let (first, last) = put.ends()?;
    let seconds = last - first;
    let at = |part: f64| first + seconds * part / 3.0;
    let thirds = [0.0, 1.0, 2.0].map(|third| {
        let more = |of: &Counter| of.grown(at(third), at(third + 1.0));
        more(counted) - more(out) - more(&dropped)
    });
    let [published, taken] = [published, taken].map(|of| of.grown(first, last));
    let grown = thirds.iter().sum();
    let found = Growing { published, taken, seconds, grown, thirds, ..Growing::default() };
    (seconds > 0.0).then_some(found)
}
