//! How much a way holds: the datagrams of a burst that overflows it, up to the first that is dropped.
//!
//! While a burst comes, some of it leaves at the way's rate: that much is taken off, and known to no better
//! than the time that the burst took.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use linerate_evidence::Direction;
use linerate_model::{Aqm, OneDirection, Queue};

use super::wire::Wire;
use super::{Delivered, HEADERS, ROUNDS, at_rate, largest, off};
use crate::cancel::Cancel;
use crate::lay_error::LayError;

/// Chosen: a full queue is waited for no longer.
const LONGEST: Duration = Duration::from_millis(250);

/// Chosen: more would fill the receiving socket, and take tens of milliseconds to send.
const MOST: u64 = 20_000;

/// Chosen: whether the one that is being served counts, and one that left between two looks.
const EXACT: u64 = 3;

/// Chosen: what a thread is kept waiting on a busy machine, in which a queue drains unseen.
const NOISE: Duration = Duration::from_millis(2);

/// Measured: a datagram is sent and taken in 1 to 3 us.
const A_DATAGRAM: Duration = Duration::from_micros(4);

/// The queue before the rate.
pub(super) fn queue(
    wire: &Wire,
    way: &OneDirection,
    direction: Direction,
    cancel: &Cancel,
) -> Result<Delivered, LayError> {
    if way.aqm == Aqm::Codel {
        return Ok(Delivered::Unproven("CoDel drops before it is full".into()));
    }
    // As large as drains within the longest wait, and at least a number in it.
    let room = |bytes: u64| match way.queue {
        Queue::Packets(packets) => u64::from(packets),
        Queue::Bytes(queue) => queue.0 / bytes,
    };
    let drains = |bytes: u64| at_rate(way, room(bytes) * bytes);
    let sizes = [1500, 1000, 500, 250, 120, 60, HEADERS + 4];
    let mut sizes = sizes.into_iter().filter(|bytes| *bytes <= largest(way));
    let Some(bytes) = sizes.find(|bytes| drains(*bytes) <= LONGEST) else {
        let takes = drains(HEADERS + 4);
        return Ok(Delivered::Unproven(format!("to drain it would take {takes:.1?}")));
    };
    if way.limit.is_some_and(|limit| u64::from(limit) <= room(bytes)) {
        return Ok(Delivered::Unproven("the limit is reached before".into()));
    }
    let holds = prove(wire, way, direction, "queue", (room(bytes), bytes), cancel)?;
    Ok(match (holds, way.queue) {
        (Ok(packets), Queue::Packets(_)) => Delivered::Proven(format!("{packets} packets")),
        (Ok(packets), Queue::Bytes(_)) => {
            Delivered::Proven(format!("{} bytes in packets of {bytes}", packets * bytes))
        }
        (Err(reason), _) => Delivered::Unproven(reason),
    })
}

/// All that the way holds.
pub(super) fn limit(
    wire: &Wire,
    way: &OneDirection,
    direction: Direction,
    cancel: &Cancel,
) -> Result<Delivered, LayError> {
    let limit = u64::from(way.limit.unwrap_or(u32::MAX));
    if way.rate.is_some() && !matches!(way.queue, Queue::Packets(queue) if limit <= queue.into()) {
        return Ok(Delivered::Unproven("the queue is full before".into()));
    }
    if way.rate.is_none() && 2 * A_DATAGRAM * limit.min(MOST) as u32 > way.delay {
        let reason = "they can't all be sent before the first have arrived";
        return Ok(Delivered::Unproven(reason.into()));
    }
    let bytes = 120.min(largest(way));
    if at_rate(way, limit * bytes) > LONGEST {
        return Ok(Delivered::Unproven("to drain it would take too long".into()));
    }
    let holds = prove(wire, way, direction, "limit", (limit, bytes), cancel)?;
    Ok(holds.map_or_else(Delivered::Unproven, |packets| {
        Delivered::Proven(format!("{packets} packets"))
    }))
}

/// Packets that it holds; within, why that can't be told.
fn prove(
    wire: &Wire,
    way: &OneDirection,
    direction: Direction,
    what: &str,
    (room, bytes): (u64, u64),
    cancel: &Cancel,
) -> Result<Result<u64, String>, LayError> {
    if way.loss.0 > 0.0 || way.duplicate.0 > 0.0 {
        return Ok(Err("packets are lost or doubled at random".into()));
    }
    if room > MOST {
        return Ok(Err(format!("{room} packets are more than a burst of this check")));
    }
    // An emulator that holds waiting and delayed packets in one place has room for both.
    let delayed = (way.delay.as_secs_f64() / at_rate(way, bytes).as_secs_f64().max(1e-9)) as u64;
    let delayed = if way.rate.is_some() { delayed } else { 0 };
    let mut closest: Option<Held> = None;
    for _ in 0..ROUNDS {
        let count = (room + delayed.min(MOST)) * 5 / 4 + 20;
        let Some(held) = burst(wire, way, count as u32, bytes, cancel)? else {
            return Ok(Err(format!("none of {count} packets was dropped")));
        };
        if closest
            .is_none_or(|before| held.waiting().abs_diff(room) < before.waiting().abs_diff(room))
        {
            closest = Some(held);
        }
        if held.first_dropped + EXACT >= room && held.waiting() <= room + EXACT {
            break;
        }
    }
    let Some(held) = closest else { return Ok(Err("nothing came".into())) };
    let most = room + delayed + held.left + EXACT + room / 10;
    if held.first_dropped + EXACT < room || held.first_dropped > most {
        let by = format!("{EXACT} packets");
        let packets = |packets: u64| format!("{packets} packets");
        return Err(off(what, direction, packets(room), packets(held.waiting()), &by));
    }
    Ok(Ok(held.waiting()))
}

/// What a burst told.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Packets that were let in before one was not.
    first_dropped: u64,
    /// Of those, how many may have left by then.
    left: u64,
    /// Of those, how many had to have left by then.
    left_surely: u64,
}

impl Held {
    fn waiting(&self) -> u64 {
        self.first_dropped.saturating_sub(self.left_surely)
    }
}

/// None if all of it came: then it was no burst.
fn burst(
    wire: &Wire,
    way: &OneDirection,
    count: u32,
    bytes: u64,
    cancel: &Cancel,
) -> Result<Option<Held>, LayError> {
    let patience = way.delay + at_rate(way, u64::from(count) * bytes) + Duration::from_millis(500);
    let (sent, came) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let quiet = Duration::from_millis(50) + 2 * way.jitter + 3 * at_rate(way, bytes);
            wire.receive_all(quiet, Instant::now() + patience, cancel)
        });
        let mut sent = Vec::with_capacity(count as usize);
        let sending = (0..count).try_for_each(|number| {
            sent.push(Instant::now());
            wire.send(number, bytes)
        });
        let came = receiver.join().unwrap_or_else(|_| Ok(Vec::new()));
        sending.and(came).map(|came| (sent, came))
    })?;
    let came: HashSet<u32> = came.into_iter().map(|(number, _)| number).collect();
    let Some(first) = (0..count).find(|number| !came.contains(number)) else { return Ok(None) };
    let took = sent[first as usize].saturating_duration_since(sent[0]);
    let packet = at_rate(way, bytes).as_secs_f64();
    let leaves = |time: Duration| match way.rate {
        Some(_) => (time.as_secs_f64() / packet) as u64,
        None => 0,
    };
    let (left, left_surely) = (leaves(took + NOISE), leaves(took));
    Ok(Some(Held { first_dropped: u64::from(first), left, left_surely }))
}
