//! The rate of a direction: how fast a packet train arrives that was sent at once and waits in the queue.
//!
//! The bytes between two that come, by their numbers, over the time between: what is lost afterwards takes
//! nothing from the rate. The two are the least late of the first and of the last quarter: a machine makes
//! packets later, and none earlier.

use std::time::{Duration, Instant};

use linerate_evidence::Direction;
use linerate_model::{BitRate, OneDirection, Queue};

use super::wire::Wire;
use super::{Delivered, LATE_ROUNDS, PAUSE, ROUNDS, at_rate, largest, off};
use crate::cancel::Cancel;
use crate::lay_error::LayError;

/// Chosen: how long a train is; noise of half a millisecond is 1 % of it.
const LENGTH: Duration = Duration::from_millis(50);

/// What a train's ends may be off by. Chosen: as for a round trip.
const NOISE: Duration = Duration::from_micros(500);

/// Chosen: a rate that is further off is another one.
const TOLERANCE: f64 = 0.05;

/// Chosen: a train of fewer is no train, and one that takes longer is not waited for.
const FEWEST: u64 = 10;
/// See [`FEWEST`].
const LONGEST: Duration = Duration::from_millis(500);

/// Of a train that is shorter, noise is most. Chosen.
const SHORTEST: Duration = Duration::from_millis(2);

/// Measured: a thread sends 0.5 to 1 million datagrams a second here, which is what a faster path would show.
const FASTEST: BitRate = BitRate(1e9);

/// Measures up to [`ROUNDS`] times, until the rate is within the tolerance; and longer while the path is slow.
pub(super) fn prove(
    wire: &Wire,
    way: &OneDirection,
    direction: Direction,
    cancel: &Cancel,
) -> Result<Delivered, LayError> {
    let unproven = |reason: String| Ok(Delivered::Unproven(reason));
    let Some(asked) = way.rate else { return unproven("there is none".into()) };
    if asked.0 > FASTEST.0 {
        return unproven(format!("datagrams can't be sent one by one faster than {FASTEST}"));
    }
    let bytes = largest(way);
    let wanted = (asked.0 * LENGTH.as_secs_f64() / 8.0 / bytes as f64) as u64;
    let count = wanted.max(FEWEST).min(room(way, bytes));
    let length = at_rate(way, (count - 1) * bytes);
    if length > LONGEST {
        return unproven(format!("{count} datagrams would take {length:.1?}"));
    }
    if count < FEWEST || length < SHORTEST {
        return unproven(format!("what may wait for it is through in {length:.1?}"));
    }
    let noise = (NOISE + 2 * way.jitter).as_secs_f64() / length.as_secs_f64();
    let tolerance = TOLERANCE + noise + way.loss.0;
    let mut closest: Option<f64> = None;
    for round in 0..LATE_ROUNDS {
        if round >= ROUNDS {
            if closest.is_none_or(|rate| rate > asked.0) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let Some(rate) = train(wire, way, count as u32, bytes, cancel)? else { continue };
        let share = |rate: f64| (rate / asked.0 - 1.0).abs();
        if closest.is_none_or(|before| share(rate) < share(before)) {
            closest = Some(rate);
        }
        if share(rate) <= tolerance {
            break;
        }
    }
    match closest {
        Some(rate) if (rate / asked.0 - 1.0).abs() <= tolerance => {
            Ok(Delivered::Proven(BitRate(rate).to_string()))
        }
        Some(rate) => {
            let delivered = BitRate(rate).to_string();
            let by = format!("{:.0} %", tolerance * 100.0);
            Err(off("rate", direction, asked.to_string(), delivered, &by))
        }
        None => unproven("the packet train did not arrive whole".into()),
    }
}

/// Packets of so many bytes that the way takes at once.
fn room(way: &OneDirection, bytes: u64) -> u64 {
    let queue = match way.queue {
        Queue::Packets(packets) => u64::from(packets),
        Queue::Bytes(queue) => queue.0 / bytes,
    };
    queue.min(way.limit.map_or(u64::MAX, u64::from))
}

/// The rate, in bit/s; none if hardly any came.
fn train(
    wire: &Wire,
    way: &OneDirection,
    count: u32,
    bytes: u64,
    cancel: &Cancel,
) -> Result<Option<f64>, LayError> {
    let patience = way.delay + at_rate(way, u64::from(count) * bytes) + Duration::from_millis(500);
    let came = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let quiet = Duration::from_millis(50) + way.jitter + 3 * at_rate(way, bytes);
            wire.receive_all(quiet, Instant::now() + patience, cancel)
        });
        let sent = (0..count).try_for_each(|number| wire.send(number, bytes));
        let came = receiver.join();
        sent.and(came.unwrap_or_else(|_| Ok(Vec::new())))
    })?;
    let packet = at_rate(way, bytes);
    let Some(began) = came.first().map(|(_, at)| *at) else { return Ok(None) };
    let lateness = |(number, at): &&(u32, Instant)| {
        // Against the asked rate, from one second before the first, so that none is negative.
        Duration::from_secs(1) + at.saturating_duration_since(began) - packet * *number
    };
    let quarter = count / 4;
    let first = came.iter().filter(|(number, _)| *number < quarter).min_by_key(lateness);
    let last = came.iter().filter(|(number, _)| *number >= 3 * quarter).min_by_key(lateness);
    let (Some((first, began)), Some((last, ended))) = (first, last) else { return Ok(None) };
    let span = ended.saturating_duration_since(*began).as_secs_f64();
    Ok((span > 0.0).then(|| f64::from(last - first) * bytes as f64 * 8.0 / span))
}
