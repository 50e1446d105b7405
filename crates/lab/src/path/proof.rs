//! What the path delivers, measured before it is used: datagrams there and back, one at a time.
//!
//! Datagrams and not connections: those would leave round-trip times in the kernel's TCP metrics, for
//! the engine's connections to start from.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::backend::LinkEnd;
use crate::cancel::{Cancel, SLICE};
use crate::lay_error::LayError;
use crate::process::inside;

/// Asked and delivered, by a path without load.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathProof {
    /// Round-trip time of the plan.
    pub asked: Duration,
    /// Median of the round trips.
    pub delivered_median: Duration,
    /// The shortest of them.
    pub delivered_min: Duration,
    /// The longest of them.
    pub delivered_max: Duration,
    /// Median of the way from engine to target.
    pub out_median: Duration,
    /// Median of the way back.
    pub back_median: Duration,
    /// Round trips made.
    pub probes: usize,
}

/// Chosen: a neighbour's burst on a shared machine spoils one round, seldom three.
const ROUNDS: usize = 3;

/// Chosen: beyond the delay, a packet that takes so long is not coming.
const PATIENCE: Duration = Duration::from_secs(1);

/// Of the median. Chosen: half a millisecond is what two threads wake late on a busy machine, and
/// a study that needs better than 5 % says so itself.
fn tolerance(asked: Duration) -> Duration {
    (asked / 20).max(Duration::from_micros(500))
}

/// Odd, for a median; fewer on long paths, so that the proof takes a second and not ten.
fn probes(asked: Duration) -> usize {
    match asked.as_millis() {
        0..50 => 11,
        50..200 => 5,
        _ => 3,
    }
}

/// Measures up to [`ROUNDS`] times, until the median is within the tolerance.
pub(crate) fn prove(
    [near, far]: [&LinkEnd<'_>; 2],
    asked: &linerate_model::Path,
    cancel: &Cancel,
) -> Result<PathProof, LayError> {
    let asked = asked.round_trip();
    // A socket stays in the namespace in which it was made, whoever uses it.
    let client = socket(near)?;
    let server = socket(far)?;
    let to = server.local_addr().map_err(LayError::system("proving the path"))?;
    client.connect(to).map_err(LayError::system("proving the path"))?;
    let mut proof = None;
    for _ in 0..ROUNDS {
        // The first finds caches cold and is not counted.
        round_trip(&client, &server, asked, cancel)?;
        let mut trips = Vec::new();
        for _ in 0..probes(asked) {
            trips.push(round_trip(&client, &server, asked, cancel)?);
        }
        let measured = summed(asked, &trips);
        let off = measured.delivered_median.abs_diff(asked);
        if off <= tolerance(asked) {
            return Ok(measured);
        }
        proof = Some(measured);
    }
    let delivered = proof.map(|proof| proof.delivered_median).unwrap_or_default();
    Err(LayError::PathOff { asked, delivered, tolerance: tolerance(asked) })
}

fn socket(end: &LinkEnd<'_>) -> Result<UdpSocket, LayError> {
    let made = inside(Some(&end.netns.file), || -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((end.address, 0))?;
        socket.set_read_timeout(Some(SLICE))?;
        Ok(socket)
    });
    made.and_then(|made| made).map_err(LayError::system("proving the path"))
}

/// The ways there and back.
fn round_trip(
    client: &UdpSocket,
    server: &UdpSocket,
    asked: Duration,
    cancel: &Cancel,
) -> Result<(Duration, Duration), LayError> {
    let deadline = Instant::now() + asked + PATIENCE;
    let dead = || LayError::PathDead(asked + PATIENCE);
    let sent = Instant::now();
    client.send(b"out").map_err(LayError::system("sending over the path"))?;
    let (from, arrived) = received(server, deadline, cancel)?.ok_or_else(dead)?;
    let answered = Instant::now();
    server.send_to(b"back", from).map_err(LayError::system("sending over the path"))?;
    let (_, returned) = received(client, deadline, cancel)?.ok_or_else(dead)?;
    Ok((arrived - sent, returned - answered))
}

fn received(
    socket: &UdpSocket,
    deadline: Instant,
    cancel: &Cancel,
) -> Result<Option<(std::net::SocketAddr, Instant)>, LayError> {
    let mut buffer = [0; 16];
    while Instant::now() < deadline {
        cancel.check()?;
        match socket.recv_from(&mut buffer) {
            Ok((_, from)) => return Ok(Some((from, Instant::now()))),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(LayError::system("receiving from the path")(error)),
        }
    }
    Ok(None)
}

fn summed(asked: Duration, trips: &[(Duration, Duration)]) -> PathProof {
    let sorted = |of: fn(&(Duration, Duration)) -> Duration| {
        let mut values: Vec<_> = trips.iter().map(of).collect();
        values.sort_unstable();
        values
    };
    let median = |values: &[Duration]| values.get(values.len() / 2).copied().unwrap_or_default();
    let round = sorted(|(out, back)| *out + *back);
    PathProof {
        asked,
        delivered_median: median(&round),
        delivered_min: round.first().copied().unwrap_or_default(),
        delivered_max: round.last().copied().unwrap_or_default(),
        out_median: median(&sorted(|(out, _)| *out)),
        back_median: median(&sorted(|(_, back)| *back)),
        probes: trips.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_median_of_three_is_the_middle_one_in_each_direction() {
        let proof = summed(20 * MS, &[(10 * MS, 12 * MS), (11 * MS, 10 * MS), (15 * MS, 11 * MS)]);
        // Round trips: 22, 21, 26.
        assert_eq!(proof.delivered_median, 22 * MS);
        assert_eq!((proof.delivered_min, proof.delivered_max), (21 * MS, 26 * MS));
        assert_eq!((proof.out_median, proof.back_median), (11 * MS, 11 * MS));
    }

    #[test]
    fn the_tolerance_is_five_percent_and_at_least_half_a_millisecond() {
        assert_eq!(tolerance(100 * MS), 5 * MS);
        assert_eq!(tolerance(2 * MS), Duration::from_micros(500));
    }
}
