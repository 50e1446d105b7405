//! Fits held against a simulation: a closed loop of a delay, known CPUs and a station with k servers.
#![allow(clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use linerate_predict::{
    Alone, Fit, Known, Observed, QueueStation, Removed, UNKNOWN, elasticity, fit, fit_thinking,
    predict_at, without,
};

/// Vigna's splitmix64: seeded, so that each run is the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.next())
    }

    fn time(&mut self, mean: f64, of: Of) -> f64 {
        match of {
            Of::Steady => mean,
            Of::Exponential => -mean * (1.0 - self.next()).ln(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    Steady,
    Exponential,
}

/// A delay of `z`, then each station in turn: seconds, servers, kind.
#[derive(Clone, Debug)]
struct Loop {
    z: f64,
    stations: Vec<(f64, usize, Of)>,
}

impl Loop {
    fn alone(&self) -> f64 {
        self.z + self.stations.iter().map(|it| it.0).sum::<f64>()
    }

    /// Exchanges a second of so many, with a 95 % interval from 20 batches.
    fn simulate(&self, customers: u32, exchanges: usize, random: &mut Random) -> Observed {
        let mut events = BinaryHeap::new();
        let mut queues = vec![VecDeque::new(); self.stations.len()];
        let mut busy = vec![0usize; self.stations.len()];
        let at = |time: f64| Reverse((time * 1e12) as u64);
        for customer in 0..customers {
            events.push((at(self.z * random.next()), customer, 0usize));
        }
        let (mut done, warm) = (0usize, exchanges / 5);
        let mut marks = Vec::new();
        // An event: a customer comes to a place; place - 1 lets it go.
        while let Some((Reverse(time), customer, place)) = events.pop() {
            let now = time as f64 / 1e12;
            if place > 0 {
                let (mean, _, of) = self.stations[place - 1];
                match queues[place - 1].pop_front() {
                    Some(next) => events.push((at(now + random.time(mean, of)), next, place)),
                    None => busy[place - 1] -= 1,
                }
            }
            let Some((mean, servers, of)) = self.stations.get(place).copied() else {
                done += 1;
                if done >= warm && (done - warm) % (exchanges / 20) == 0 {
                    marks.push(now);
                }
                if marks.len() > 20 {
                    break;
                }
                events.push((at(now + random.time(self.z, Of::Exponential)), customer, 0));
                continue;
            };
            if busy[place] < servers {
                busy[place] += 1;
                events.push((at(now + random.time(mean, of)), customer, place + 1));
            } else {
                queues[place].push_back(customer);
            }
        }
        let each = (exchanges / 20) as f64;
        let rates: Vec<f64> = marks.windows(2).map(|two| each / (two[1] - two[0])).collect();
        let per_s = each * rates.len() as f64 / (marks[marks.len() - 1] - marks[0]);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let var = rates.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (rates.len() - 1) as f64;
        let half = 2.09 * (var / rates.len() as f64).sqrt();
        Observed { connections: customers, per_s, low: per_s - half, high: per_s + half }
    }
}

fn alone(service_s: f64) -> Alone {
    Alone { service_s, low: service_s * 0.98, high: service_s * 1.02 }
}

fn at(connections: u32, per_s: f64) -> Observed {
    Observed { connections, per_s, low: per_s * 0.99, high: per_s * 1.01 }
}

fn cpus(demand: f64) -> QueueStation {
    QueueStation { id: "host.cpu".into(), demand, servers: 2.0 }
}

fn k(of: &Fit) -> (f64, f64, f64) {
    of.k.unwrap_or_else(|| panic!("{of:?}"))
}

#[test]
fn four_workers_of_20_ms_are_four_at_a_time_and_more_of_them_give_more() {
    let rows = [at(1, 49.6), at(16, 199.0), at(32, 199.0)];
    let found = fit(&[cpus(0.1e-3)], alone(1.0 / 49.6), &rows);
    let (low, mid, high) = k(&found);
    assert!((3.6..4.4).contains(&low) && (3.6..4.4).contains(&high), "{low} {mid} {high}");
    assert!(found.misses.is_empty(), "{:?}", found.misses);
    let more = without(&found, &[Removed::Servers { station: UNKNOWN.into(), servers: 32.0 }]);
    // 32 / 20.16 ms = 1,587/s
    assert!(more.mid.0 > 1_400.0 && more.high.0 < 1_700.0, "{more:?}");
    assert!(more.high.0 / more.low.0 < 3.0, "{more:?}");
    let e = elasticity(&rows[1], &rows[2]);
    assert!(e.low < 0.0 && e.high > 0.0 && e.high < 0.1, "{e:?}");
}

#[test]
fn a_mutex_held_for_2_ms_is_one_at_a_time() {
    let rows = [at(1, 470.0), at(10, 421.0 * 1.1), at(20, 421.0 * 1.1)];
    let (low, _, high) = k(&fit(&[], alone(2.1e-3), &rows));
    assert!((0.85..1.1).contains(&low) && (0.9..1.15).contains(&high), "{low} {high}");
}

#[test]
fn an_event_loop_that_is_known_needs_nothing_unknown() {
    // One thread, 0.5 ms of it an exchange.
    let thread = QueueStation { id: "target.cpu".into(), demand: 0.5e-3, servers: 1.0 };
    let rows = [at(1, 1_700.0), at(10, 1_990.0), at(20, 1_995.0)];
    let found = fit(&[thread], alone(0.59e-3), &rows);
    assert_eq!(found.k, None, "{found:?}");
    assert_eq!(found.network.busiest(20.0).unwrap().0, "target.cpu");
    let less = [Removed::Work { station: "target.cpu".into(), seconds: 0.25e-3 }];
    let twice = without(&found, &less);
    assert!((3_600.0..4_200.0).contains(&twice.mid.0), "{twice:?}");
    assert!(twice.high.0 / twice.low.0 < 3.0, "{twice:?}");
}

#[test]
fn work_that_many_share_costs_less_each_and_half_of_them_lie_between() {
    // On two CPUs 100 us an exchange alone and 30 us with ten: 2 / 30 us = 66,667/s.
    let rows = [at(1, 10_000.0), at(10, 64_000.0)];
    let measured = Known { station: cpus(30e-6), alone: 100e-6 };
    let half = |known: &[Known]| predict_at(&fit_thinking(known, alone(100e-6), 0.0, &rows), 5);
    let (found, steady) = (half(&[measured]), half(&[cpus(30e-6).into()]));
    // What costs 38 us (most of it spared by the second), 51 us (as much by each doubling), 69 us (by each).
    for cost in [38e-6, 51e-6] {
        let per_s = 2.0 / cost * 0.95;
        assert!(found.low.0 < per_s && per_s < found.high.0, "{found:?}");
    }
    // 70 us of delay and 30 of work: five of them give 50,000 a second, and neither more nor much less.
    assert!(steady.low.0 > 40_000.0 && found.low.0 < 40_000.0, "{steady:?} {found:?}");
    // With all of them it is what was measured.
    let all = predict_at(&fit_thinking(&[cpus(30e-6).into()], alone(100e-6), 0.0, &rows), 10);
    assert!((55_000.0..70_000.0).contains(&all.mid.0), "{all:?}");
}

#[test]
fn throughput_in_proportion_to_connections_leaves_open_how_many_at_a_time() {
    // Held by Nagle for 40 ms of 40.2.
    let rows = [at(1, 24.9), at(4, 99.6), at(8, 199.0)];
    let found = fit(&[cpus(30e-6)], alone(40.2e-3), &rows);
    assert!(found.k.is_none() && found.k_least > 7.0, "{:?} {}", found.k, found.k_least);
    let freed = without(&found, &[Removed::Delay(40e-3)]);
    // 8 / 0.2 ms = 40,000/s, of the 66,000 that two CPUs can do.
    assert!(freed.low.0 < 40_000.0 && freed.high.0 > 36_000.0, "{freed:?}");
    assert!(freed.high.0 / freed.low.0 < 3.0, "{freed:?}");
    let e = elasticity(&rows[1], &rows[2]);
    assert!(e.low < 1.0 && e.high > 0.99, "{e:?}");
}

#[test]
fn two_full_cpus_are_the_limit_and_twice_as_many_give_twice_as_much() {
    let service = Loop { z: 0.3e-3, stations: vec![(0.5e-3, 2, Of::Exponential)] };
    let mut random = Random(3);
    let rows = [1, 16, 32].map(|n| service.simulate(n, 20_000, &mut random));
    let found = fit(&[cpus(0.5e-3)], alone(service.alone()), &rows);
    assert_eq!(found.k, None, "{found:?}");
    assert!(found.misses.is_empty(), "{:?}", found.misses);
    let more = without(&found, &[Removed::Servers { station: "host.cpu".into(), servers: 4.0 }]);
    assert!((7_000.0..8_300.0).contains(&more.mid.0), "{more:?}");
}

#[test]
fn a_pool_of_four_asked_by_six_has_an_elasticity_between() {
    let service = Loop { z: 0.4e-3, stations: vec![(20e-3, 4, Of::Exponential)] };
    let mut random = Random(5);
    let rows = [1, 3, 6].map(|n| service.simulate(n, 20_000, &mut random));
    let e = elasticity(&rows[1], &rows[2]);
    assert!((0.3..0.6).contains(&e.value), "{e:?}");
    let (low, mid, high) = k(&fit(&[], alone(service.alone()), &rows));
    assert!(low > 3.5 && (3.7..4.4).contains(&mid) && high < 5.2, "{low} {mid} {high}");
}

#[test]
fn a_serial_part_beside_a_delay_is_as_many_at_a_time_as_the_sum_says() {
    // 1 ms one at a time and 9 ms that nobody waits for: 1,000/s, ten at a time.
    let service = Loop { z: 9e-3, stations: vec![(1e-3, 1, Of::Exponential)] };
    let mut random = Random(7);
    let rows = [1, 20, 40].map(|n| service.simulate(n, 20_000, &mut random));
    let found = fit(&[], alone(service.alone()), &rows);
    let (low, mid, high) = k(&found);
    assert!(low < 10.0 && high > 9.8 && (9.0..11.0).contains(&mid), "{low} {mid} {high}");
}

#[test]
fn what_falls_with_more_connections_is_a_miss() {
    let rows = [at(1, 100.0), at(10, 900.0), at(20, 600.0)];
    let found = fit(&[], alone(10e-3), &rows);
    assert_eq!(found.misses.len(), 1, "{found:?}");
    assert_eq!(found.misses[0].observed.connections, 10);
    assert!(elasticity(&rows[1], &rows[2]).high < 0.0);
}

#[test]
fn ten_thousand_connections_are_fitted_too() {
    let rows = [at(1, 990.0), at(5_000, 78_000.0), at(10_000, 79_000.0)];
    let found = fit(&[cpus(20e-6)], alone(1.01e-3), &rows);
    let (low, _, high) = k(&found);
    assert!(low > 60.0 && high < 100.0, "{low} {high}");
}

#[test]
fn half_the_connections_are_foretold_from_all_of_them_and_one() {
    let mut random = Random(11);
    let (mut held, mut all, mut widths, mut wider) = (0, 0, Vec::new(), Vec::new());
    for _ in 0..120 {
        let of = [Of::Steady, Of::Exponential][(random.next() * 2.0) as usize];
        let service = random.between(0.1e-3, 20e-3);
        let servers = random.between(1.0, 24.0) as usize;
        let cpu = random.between(0.01, 1.0) * service;
        let delay = random.between(0.02, 20.0) * service;
        let with = random.next() < 0.5;
        let mut stations = vec![(service, servers, of)];
        if with {
            stations.push((cpu, 2, Of::Exponential));
        }
        let known: Vec<_> = with.then(|| cpus(cpu)).into_iter().collect();
        let shop = Loop { z: delay, stations };
        let knee = shop.alone() * servers as f64 / service;
        let full = ((random.between(0.2, 6.0) * knee) as u32 / 2 * 2).clamp(4, 400);
        let [one, half, whole] = [1, full / 2, full].map(|n| shop.simulate(n, 12_000, &mut random));
        let time = Alone { service_s: 1.0 / one.per_s, low: 1.0 / one.high, high: 1.0 / one.low };
        let found = predict_at(&fit(&known, time, &[one, whole]), half.connections);
        all += 1;
        held += usize::from(found.holds(linerate_model::OpRate(half.per_s)));
        widths.push((found.high.0 - found.low.0) / 2.0 / found.mid.0);
        let twice = shop.simulate(full * 2, 12_000, &mut random).per_s;
        let far = predict_at(&fit(&known, time, &[one, half, whole]), full * 2);
        wider.push((far.high.0 / far.low.0, far.holds(linerate_model::OpRate(twice))));
    }
    widths.sort_by(f64::total_cmp);
    wider.sort_by(|a, b| a.0.total_cmp(&b.0));
    let inside = wider.iter().filter(|it| it.1).count();
    println!(
        "half: {held} of {all} held, median half-width {:.3}, widest {:.3}; twice: {inside} held, median factor {:.2}, \
         upper decile {:.2}",
        widths[all / 2],
        widths[all - 1],
        wider[all / 2].0,
        wider[all * 9 / 10].0
    );
    assert!(held * 10 >= all * 9, "{held} of {all}");
    assert!(widths[all / 2] <= 0.15, "{}", widths[all / 2]);
    assert!(inside * 10 >= all * 8, "{inside} of {all}");
    assert!(wider[all / 2].0 < 3.0, "{:?}", wider[all / 2]);
}

#[test]
fn what_lifting_gives_is_foretold() {
    let mut random = Random(13);
    let mut lifted: Vec<(&str, f64, bool, f64)> = Vec::new();
    for _ in 0..80 {
        let of = [Of::Steady, Of::Exponential][(random.next() * 2.0) as usize];
        let service = random.between(0.5e-3, 20e-3);
        let servers = random.between(1.0, 12.0) as usize;
        let cpu = random.between(0.02, 2.0) * service;
        // The wait that is removed, and another that stays.
        let (held, delay) =
            (random.between(0.1, 20.0) * service, random.between(0.02, 1.0) * service);
        let shop = |held: f64, servers: usize, cpu: f64| Loop {
            z: delay + held,
            stations: vec![(service, servers, of), (cpu, 2, Of::Exponential)],
        };
        let was = shop(held, servers, cpu);
        let knee = was.alone() * (servers as f64 / service).min(2.0 / cpu);
        let full = ((random.between(0.3, 5.0) * knee) as u32 / 2 * 2).clamp(4, 300);
        let [one, half, whole] = [1, full / 2, full].map(|n| was.simulate(n, 8_000, &mut random));
        let time = Alone { service_s: 1.0 / one.per_s, low: 1.0 / one.high, high: 1.0 / one.low };
        let found = fit(&[cpus(cpu)], time, &[one, half, whole]);
        let check =
            |lifted: &mut Vec<_>, what, removed: &[Removed], now: Loop, random: &mut Random| {
                let expected = without(&found, removed);
                let got = now.simulate(full, 8_000, random).per_s;
                let off = (expected.mid.0 / got).ln();
                let inside = expected.holds(linerate_model::OpRate(got));
                lifted.push((what, off, inside, expected.high.0 / expected.low.0));
            };
        check(&mut lifted, "delay", &[Removed::Delay(held)], shop(0.0, servers, cpu), &mut random);
        // The same where what stands behind the delay was measured too.
        let pool = QueueStation { id: "pool".into(), demand: service, servers: servers as f64 };
        let all = fit(&[cpus(cpu), pool], time, &[one, half, whole]);
        let expected = without(&all, &[Removed::Delay(held)]);
        let got = shop(0.0, servers, cpu).simulate(full, 8_000, &mut random).per_s;
        let inside = expected.holds(linerate_model::OpRate(got));
        let factor = expected.high.0 / expected.low.0;
        lifted.push(("delay, measured", (expected.mid.0 / got).ln(), inside, factor));
        let work = [Removed::Work { station: "host.cpu".into(), seconds: cpu / 2.0 }];
        check(&mut lifted, "work", &work, shop(held, servers, cpu / 2.0), &mut random);
        if let Some((_, k, _)) = found.k {
            let twice = [Removed::Servers { station: UNKNOWN.into(), servers: k * 2.0 }];
            check(&mut lifted, "servers", &twice, shop(held, servers * 2, cpu), &mut random);
        }
    }
    for what in ["delay", "delay, measured", "work", "servers"] {
        let of = |it: &&(&str, f64, bool, f64)| it.0 == what;
        let all = lifted.iter().filter(of).count();
        let inside = lifted.iter().filter(of).filter(|it| it.2).count();
        let mut off: Vec<f64> = lifted.iter().filter(of).map(|it| it.1.abs()).collect();
        let mut widths: Vec<f64> = lifted.iter().filter(of).map(|it| it.3).collect();
        off.sort_by(f64::total_cmp);
        widths.sort_by(f64::total_cmp);
        println!(
            "{what}: {inside} of {all} inside, |ln| {:.3} in the median, high / low {:.2}, {:.2} at the ninth decile",
            off[all / 2],
            widths[all / 2],
            widths[all * 9 / 10]
        );
        // Behind a delay here always stands a pool. Unmeasured, it is foretold in 61 to 65 of 80, by the seed.
        let least = if what == "delay" { 7 } else { 8 };
        assert!(inside * 10 >= all * least, "{what}: {inside} of {all}");
        assert!(off[all / 2] <= 0.15 && widths[all / 2] <= 3.0, "{what}");
    }
}
