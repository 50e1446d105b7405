//! The path between workers and service, and what each exchange sends over it.

use linerate_model::{Body, Bytes, Framing, OneDirection, Path, Plan, Queue, Share, Workload};

use crate::acks;
use crate::drops::{Offered, dropped, room, stall};
use crate::forecast::{Ceiling, Lean};
use crate::words::{count, duration};

/// A path, and its use.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossing {
    /// What it adds to the path on which the service was measured.
    pub path: Path,
    /// The share of exchanges that cross it: half, where half of the servers are on the other side.
    pub share: Share,
    /// Servers that each worker has a connection to, one of which it picks at random.
    pub servers: u32,
    /// On which sides workers are.
    pub ends: Ends,
    /// Payload of a request, framing included.
    pub request: Bytes,
    /// Payload of an answer.
    pub response: Bytes,
    /// The most that a connection may have in flight, where that is less than a message.
    pub window: Option<Bytes>,
}

/// On which sides of a path the workers are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    /// All on one; requests travel outbound, answers return.
    One,
    /// Half of them on each: both directions carry both.
    Both,
}

impl Default for Crossing {
    fn default() -> Self {
        Self {
            path: Path::default(),
            share: Share(1.0),
            servers: 1,
            ends: Ends::One,
            request: Bytes(64),
            response: Bytes(64),
            window: None,
        }
    }
}

// Source: MTU 1500 less 20 bytes of IP and 32 of TCP with timestamps.
const SEGMENT: f64 = 1448.0;
const HEADERS: f64 = 52.0;

/// What an exchange that crosses sends in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Packets with data.
    data: f64,
    /// Packets that are only ACKs.
    acks: f64,
    /// All their bytes on the wire.
    bytes: f64,
}

/// What a crossing adds to an exchange at a throughput.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Added {
    /// To the mean exchange, whether it crosses or not. Unit: seconds.
    pub away: f64,
    /// Share of packets dropped, in the direction where that is most.
    pub dropped: f64,
    /// Answers whose ACK is a packet of its own.
    pub acks: f64,
}

impl Crossing {
    /// That of a plan: its path, or the one between its sites. Where links differ, the first stands for all.
    pub fn of_plan(plan: &Plan) -> Self {
        let path = plan.paths().first().map(|path| (*path).clone()).unwrap_or_default();
        let (mut crossing, mut all) = (0.0, 0.0);
        for from in &plan.sites {
            for to in &plan.sites {
                let pairs = f64::from(from.engines) * f64::from(to.servers);
                all += pairs;
                crossing += if from.name == to.name { 0.0 } else { pairs };
            }
        }
        let sides = plan.sites.iter().filter(|site| site.engines > 0).count();
        let [request, response] = messages(&plan.workload);
        Self {
            path,
            share: Share(if all > 0.0 { crossing / all } else { 1.0 }),
            servers: plan.servers(),
            ends: if sides > 1 { Ends::Both } else { Ends::One },
            request,
            response,
            window: None,
        }
    }

    /// The round trip only. Unit: seconds of the mean exchange.
    pub(crate) fn delay(&self) -> f64 {
        self.share.0 * self.rtt() * self.rounds()
    }

    fn rtt(&self) -> f64 {
        self.path.round_trip().as_secs_f64()
    }

    /// Round trips of an exchange: a message larger than the window takes several.
    fn rounds(&self) -> f64 {
        let largest = self.request.0.max(self.response.0) as f64;
        self.window.map_or(1.0, |window| (largest / (window.0 as f64).max(1.0)).ceil().max(1.0))
    }

    fn segments(&self) -> [f64; 2] {
        [self.request, self.response].map(|of| (of.0 as f64 / SEGMENT).ceil().max(1.0))
    }

    /// By direction: what one exchange that crosses sends there, with `alone` of the answers having an ACK of their
    /// own.
    fn loads(&self, alone: f64) -> [Load; 2] {
        let [request, response] = self.segments();
        let of = |segments: f64, payload: Bytes, acks: f64| Load {
            data: segments,
            acks,
            bytes: payload.0 as f64 + (segments + acks) * HEADERS,
        };
        // An odd last segment's ACK waits for the timer.
        let held = if response > 1.0 { response % 2.0 } else { 1.0 };
        let out = of(request, self.request, acks::at_once(response) + alone * held);
        let back = of(response, self.response, acks::at_once(request));
        match self.ends {
            Ends::One => [out, back],
            Ends::Both => {
                let half = |a: f64, b: f64| (a + b) / 2.0;
                let both = Load {
                    data: half(out.data, back.data),
                    acks: half(out.acks, back.acks),
                    bytes: half(out.bytes, back.bytes),
                };
                [both, both]
            }
        }
    }

    /// What crossing adds when `population` workers do `throughput` exchanges a second.
    pub(crate) fn added(&self, population: u32, throughput: f64, lean: Lean) -> Added {
        let share = self.share.0;
        let population = f64::from(population);
        let alone = acks::alone(self.servers, population / throughput.max(1e-9), lean);
        let directions = self.path.directions();
        let loads = self.loads(alone);
        let [request, response] = self.segments();
        let mut away = self.delay();
        let mut lost = [0.0; 2];
        for (index, (direction, load)) in directions.iter().zip(&loads).enumerate() {
            let packets = (load.data + load.acks).max(1e-9);
            let offered = Offered {
                data: throughput * share * load.data,
                acks: throughput * share * load.acks,
                bytes: load.bytes / packets,
                most: population * packets,
            };
            if direction.limit.is_some() || direction.rate.is_some() || direction.loss.0 > 0.0 {
                lost[index] = dropped(direction, offered, lean);
            }
            away += share * wait(direction, load.bytes, throughput * share, population);
        }
        let rtt = self.rtt();
        let (out, back) = match self.ends {
            Ends::One => (lost[0], lost[1]),
            Ends::Both => ((lost[0] + lost[1]) / 2.0, (lost[0] + lost[1]) / 2.0),
        };
        away += share * (stall(out, request, rtt, lean) + stall(back, response, rtt, lean));
        Added { away, dropped: lost[0].max(lost[1]), acks: alone }
    }

    /// Ceilings of the path. `service`: time an exchange takes that doesn't cross, in seconds.
    pub(crate) fn ceilings(&self, population: u32, service: f64) -> Vec<Ceiling> {
        let mut ceilings = Vec::new();
        let share = self.share.0;
        if share <= 0.0 {
            return ceilings;
        }
        let of = f64::from(population);
        let mut of_limit: Option<Ceiling> = None;
        let mut of_rate: Option<Ceiling> = None;
        for (index, direction) in self.path.directions().iter().enumerate() {
            // Packets an exchange and throughput depend on each other: longer cycles, more ACKs.
            let settle = |ceiling: &dyn Fn(Load) -> f64| {
                let (mut low, mut high) = (0.0, 1e12);
                for _ in 0..80 {
                    let mid = (low + high) / 2.0;
                    let alone = acks::alone(self.servers, of / mid, Lean::Middle);
                    if ceiling(self.loads(alone)[index]) > mid { low = mid } else { high = mid }
                }
                let alone = acks::alone(self.servers, of / low, Lean::Middle);
                (low, self.loads(alone)[index])
            };
            let delay = direction.delay.as_secs_f64();
            if let Some(limit) = direction.limit.filter(|_| delay > 0.0) {
                let packets = f64::from(limit) / delay;
                let (rate, load) = settle(&|load| packets / (share * (load.data + load.acks)));
                let ceiling = Ceiling::new(
                    "path.queue-limit",
                    rate,
                    format!(
                        "{} packets / {} = {} packets/s each way; the mean exchange puts {:.2} there",
                        count(limit),
                        duration(delay),
                        count(packets as u32),
                        share * (load.data + load.acks)
                    ),
                );
                of_limit = Some(lower(of_limit, ceiling));
            }
            if let Some(bits) = direction.rate {
                let (rate, load) = settle(&|load| bits.0 / 8.0 / (share * load.bytes));
                let ceiling = Ceiling::new(
                    "path.rate",
                    rate,
                    format!("{bits} / {:.0} bytes of the mean exchange", share * load.bytes),
                );
                of_rate = Some(lower(of_rate, ceiling));
            }
        }
        ceilings.extend(of_limit);
        ceilings.extend(of_rate);
        let losses = self.path.directions().map(|direction| direction.loss.0);
        if losses.iter().any(|loss| *loss > 0.0) {
            let [request, response] = self.segments();
            let rtt = self.rtt();
            let of = |at: usize, segments| stall(losses[at], segments, rtt, Lean::Middle);
            let stalls = share * (of(0, request) + of(1, response));
            let mean = service + self.delay() + stalls;
            ceilings.push(Ceiling::new(
                "path.loss",
                f64::from(population) / mean,
                format!(
                    "{} workers / {}, {} of it waiting for what was lost",
                    count(population),
                    duration(mean),
                    duration(stalls)
                ),
            ));
        }
        if let Some(window) = self.window.filter(|_| self.rounds() > 1.0) {
            let mean = service + self.delay();
            ceilings.push(Ceiling::new(
                "tcp.receive-window",
                of / mean,
                format!(
                    "{} workers / {}: a message takes {:.0} windows of {window}, each a round trip",
                    count(population),
                    duration(mean),
                    self.rounds()
                ),
            ));
        }
        ceilings
    }
}

/// Payload of a request and of its answer, as far as a plan says.
fn messages(workload: &Workload) -> [Bytes; 2] {
    match workload {
        Workload::Rr { framing, request, response, .. }
        | Workload::Crr { framing, request, response, .. } => {
            let prefix = match framing {
                Framing::Fixed => 0,
                Framing::Length2 => 2,
                Framing::Length4 => 4,
            };
            [Bytes(request.0 + prefix), Bytes(response.0 + prefix)]
        }
        Workload::Http { body: Body::Size(size), .. } => [*size, Crossing::default().response],
        Workload::Http { .. } | Workload::Raw { .. } | Workload::Stream { .. } => {
            [Crossing::default().request, Crossing::default().response]
        }
    }
}

fn lower(so_far: Option<Ceiling>, next: Ceiling) -> Ceiling {
    match so_far {
        Some(so_far) if so_far.per_s.0 <= next.per_s.0 => so_far,
        _ => next,
    }
}

/// Waiting and transmission time at a rate, `bytes` an exchange. Unit: seconds.
///
/// `R = s / (1 - X s (N-1)/N)`: a single server in a closed network.
/// Source: Schweitzer's approximation of mean value analysis, 1979.
fn wait(direction: &OneDirection, bytes: f64, crossing: f64, population: f64) -> f64 {
    let Some(rate) = direction.rate else { return 0.0 };
    let own = bytes * 8.0 / rate.0;
    let left = 1.0 - crossing * own * (population - 1.0).max(0.0) / population.max(1.0);
    let waiting = if left > 0.0 { own / left } else { f64::INFINITY };
    // A full queue holds no more.
    let full = match direction.queue {
        Queue::Bytes(size) => size.0 as f64 * 8.0 / rate.0,
        Queue::Packets(_) => room(direction, 1.0) * (SEGMENT + HEADERS).min(bytes) * 8.0 / rate.0,
    };
    waiting.min(own + full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sites() -> Crossing {
        let path = Path { limit: Some(1_000), ..Path::of_rtt(Duration::from_millis(10)) };
        Crossing {
            path,
            share: Share(0.5),
            servers: 4,
            ends: Ends::Both,
            request: Bytes(1_026),
            response: Bytes(1_026),
            window: None,
        }
    }

    #[test]
    fn the_queue_limits_ceiling_is_packets_over_delay_by_packets_an_exchange() {
        // 1,000 / 5 ms = 200k packets/s; X = 400k / (1 + a/2), a = 0.75 exp(-40 ms / 4 / (N/X)).
        let ceilings = sites().ceilings(4_000, 0.25e-3);
        let limit = ceilings.iter().find(|it| it.id == "path.queue-limit").unwrap();
        let a = 0.75 * (-0.010 * limit.per_s.0 / 4_000.0).exp();
        assert!((limit.per_s.0 / (400e3 / (1.0 + a / 2.0)) - 1.0).abs() < 1e-6, "{limit:?}");
        assert!(limit.sum.starts_with("1,000 packets / 5.00 ms = 200,000 packets/s"), "{limit:?}");
    }

    #[test]
    fn a_line_rates_ceiling_counts_headers_and_the_heavier_direction() {
        // 100 Mbit / 8 / (10,000 + 7 x 52 bytes) = 1,206/s; the ACKs of seven segments go the other way.
        let path = Path { rate: Some("100Mbit".parse().unwrap()), ..Path::default() };
        let crossing = Crossing { path, response: Bytes(10_000), ..Crossing::default() };
        let ceilings = crossing.ceilings(10, 1e-3);
        assert!((ceilings[0].per_s.0 - 12.5e6 / 10_364.0).abs() < 0.5, "{ceilings:?}");
        assert_eq!(ceilings[0].id, "path.rate");
    }

    #[test]
    fn two_sites_alike_have_half_of_the_exchanges_cross() {
        let text = "[target]\nbeam = 'echo'\n[workload]\nkind = 'rr'\nframing = 'length2'\nrequest = 1024\n\
                    response = 1024\n[[sites]]\nname = 'a'\nservers = 2\nengines = 1\n[[sites]]\n\
                    name = 'b'\nservers = 2\nengines = 1\n[[links]]\nbetween = ['a', 'b']\n\
                    path = { rtt = '10ms', limit = 1000 }\n";
        let plan = Plan::from_toml(text).unwrap();
        assert_eq!(Crossing::of_plan(&plan), sites());
    }

    #[test]
    fn nothing_is_added_by_a_path_that_does_nothing() {
        let added = Crossing::default().added(100, 1e6, Lean::Middle);
        assert_eq!((added.away, added.dropped), (0.0, 0.0));
    }

    #[test]
    fn a_message_of_many_windows_takes_as_many_round_trips() {
        let path = Path::of_rtt(Duration::from_millis(10));
        let crossing = Crossing {
            path,
            response: Bytes(1 << 20),
            window: Some(Bytes(1 << 16)),
            ..Crossing::default()
        };
        assert!((crossing.delay() - 0.16).abs() < 1e-9);
        assert_eq!(crossing.ceilings(1, 0.0)[0].id, "tcp.receive-window");
    }
}
