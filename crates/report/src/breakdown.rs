//! A run with several servers: by server, and by pair of sites where there are sites.

use linerate_evidence::{Alone, Errors, Header, LoadSummary, PairLoad, Places};
use serde::{Deserialize, Serialize};

use crate::document::Distribution;
use crate::number::{count, rate, share, time};
use crate::table::Table;

/// Empty where the target has one server; without sites by server only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// By the engine's site and the server's.
    pub by_sites: Vec<Portion>,
    /// By server, all engine hosts together.
    pub by_server: Vec<Portion>,
}

/// A part of a run's exchanges. `_us` are microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Portion {
    /// Site of the engine hosts; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Site of the servers, or one server.
    pub to: String,
    /// Whether both ends are in one site; absent where there are several ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<bool>,
    /// Answered in the measured window.
    pub exchanges: u64,
    /// By its length.
    pub throughput_per_s: f64,
    /// Of all exchanges answered in the window.
    pub share: f64,
    /// From written to answered.
    pub service_us: Distribution,
    /// What an exchange took that met nobody, before the load: medians. Absent: none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_us: Option<f64>,
    /// Whole run: exchanges that chose these servers.
    pub chosen: u64,
    /// Whole run: answered.
    pub answered: u64,
    /// Whole run: failed, by cause.
    pub errors: Errors,
    /// Whole run: older than the timeout.
    pub timed_out: u64,
}

impl Breakdown {
    /// Whether the plan named no sites.
    pub fn is_empty(&self) -> bool {
        self.by_sites.is_empty() && self.by_server.is_empty()
    }
}

/// What a run's hosts had with each other. Distributions by the caller, who knows their percentiles.
pub(crate) fn of(
    header: &Header,
    load: &LoadSummary,
    distribution: impl Fn(&PairLoad) -> Distribution,
) -> Breakdown {
    let places = &header.places;
    if places.is_empty() {
        return Breakdown::default();
    }
    let all: u64 = load.pairs.iter().map(|pair| pair.exchanges).sum();
    let portion = |pair: &PairLoad, from: Option<&str>, to: &str, near, alone_us| Portion {
        from: from.map(str::to_owned),
        to: to.to_owned(),
        near,
        exchanges: pair.exchanges,
        throughput_per_s: pair.throughput.0,
        share: if all > 0 { pair.exchanges as f64 / all as f64 } else { 0.0 },
        service_us: distribution(pair),
        alone_us,
        chosen: pair.chosen,
        answered: pair.answered,
        errors: pair.errors.clone(),
        timed_out: pair.timed_out,
    };
    let sites = |host: u16, server: u16| {
        let from = places.hosts.get(usize::from(host)).map_or("", |host| host.site.as_str());
        let to = places.servers.get(usize::from(server)).map_or("", |to| to.site.as_str());
        (from, to)
    };
    let pairs = if places.has_sites() { &load.pairs[..] } else { &[] };
    let by_sites = PairLoad::merged(pairs, |pair| sites(pair.host, pair.server)).into_iter().map(
        |((from, to), pair)| {
            let alone = alone(places, |host, server| sites(host, server) == (from, to));
            portion(&pair, Some(from), to, Some(from == to), alone)
        },
    );
    let by_server =
        PairLoad::merged(&load.pairs, |pair| pair.server).into_iter().map(|(server, pair)| {
            let name = places.servers.get(usize::from(server)).map_or("", |it| it.name.as_str());
            portion(&pair, None, name, None, alone(places, |_, to| to == server))
        });
    Breakdown { by_sites: by_sites.collect(), by_server: by_server.collect() }
}

/// What an exchange takes that meets nobody: each pair's median, and of several pairs the mean, since all
/// are chosen alike. Unit: µs.
fn alone(places: &Places, of: impl Fn(u16, u16) -> bool) -> Option<f64> {
    let median = |pair: &Alone| {
        let mut times = pair.service_ns.clone();
        times.sort_unstable();
        times.get(times.len() / 2).map(|ns| *ns as f64 / 1e3)
    };
    let pairs = places.alone.iter().filter(|pair| of(pair.host, pair.server));
    let medians: Vec<f64> = pairs.filter_map(median).collect();
    (!medians.is_empty()).then(|| medians.iter().sum::<f64>() / medians.len() as f64)
}

/// The breakdown as tables; none where the plan names no sites.
pub(crate) fn tables(of: &Breakdown) -> Vec<Table> {
    let numbers = ["exchanges/s", "share", "alone", "mean", "p50", "p99", "failed"];
    let cells = |portion: &Portion| {
        let at = |percentile: f64| {
            let found = portion.service_us.percentiles.iter().find(|[at, _]| *at == percentile);
            found.map_or_else(|| "-".to_owned(), |[_, us]| time(*us))
        };
        let failed = portion.errors.values().sum::<u64>() + portion.timed_out;
        [
            rate(portion.throughput_per_s).trim_end_matches("/s").to_owned(),
            share(portion.share),
            portion.alone_us.map_or_else(|| "-".to_owned(), time),
            time(portion.service_us.mean),
            at(50.0),
            at(99.0),
            count(failed),
        ]
    };
    let mut tables = Vec::new();
    if !of.by_sites.is_empty() {
        let mut table = Table::new("Service time by sites", &["from", "to"], &numbers);
        for portion in &of.by_sites {
            let from = portion.from.clone().unwrap_or_default();
            let mut row = vec![from, portion.to.clone()];
            row.extend(cells(portion));
            table.rows.push(row);
        }
        tables.push(table);
    }
    if !of.by_server.is_empty() {
        let mut table = Table::new("Service time by server", &["server"], &numbers);
        for portion in &of.by_server {
            let mut row = vec![portion.to.clone()];
            row.extend(cells(portion));
            table.rows.push(row);
        }
        tables.push(table);
    }
    tables
}

#[cfg(test)]
mod tests {
    use linerate_evidence::{
        Evidence, HostFacts, Packed, Part, Place, Slice, TargetFacts, VERSION, live_histogram,
        summarise,
    };
    use linerate_model::{Plan, Timestamp};

    use super::*;

    fn header() -> Header {
        let place = |name: &str, site: &str| Place {
            name: name.into(),
            site: site.into(),
            ..Place::default()
        };
        let alone = |host, server, us: u64| Alone { host, server, service_ns: vec![us * 1000; 3] };
        Header {
            linerate: "evidence".into(),
            version: VERSION,
            program: "0.1.0".into(),
            started_unix_ns: 0,
            started: Timestamp(0),
            preflight_ns: Vec::new(),
            places: Places {
                hosts: vec![place("east-e1", "east"), place("west-e1", "west")],
                servers: vec![place("east-s1", "east"), place("west-s1", "west")],
                alone: vec![alone(0, 0, 100), alone(0, 1, 10_100), alone(1, 0, 10_100)],
            },
            plan: Plan::from_toml("[target]\nbeam = 'echo'\n").unwrap(),
            host: HostFacts::default(),
            target: TargetFacts::default(),
        }
    }

    /// A second in which each host had 30 exchanges with the near server and 20 with the far one.
    fn evidence() -> Evidence {
        let mut evidence = Evidence::default();
        for host in 0..2u16 {
            let mut slice = Slice::new(host, 0, Timestamp(0));
            slice.to = Timestamp(1_000_000_000);
            slice.host = host;
            for server in 0..2u16 {
                let (count, ns) = if server == host { (30, 200_000) } else { (20, 10_200_000) };
                let mut times = live_histogram();
                times.record_n(ns, count).unwrap();
                let service = Packed::pack(&times);
                slice.scheduled += count;
                slice.answered += count;
                slice.parts.push(Part {
                    chosen: count,
                    answered: count,
                    service,
                    ..Part::default()
                });
            }
            evidence.slices.push(slice);
        }
        evidence
    }

    #[test]
    fn near_and_far_are_told_apart_and_add_up_to_the_whole() {
        let header = header();
        let load = summarise(&evidence(), &header.plan);
        let of = super::of(&header, &load, |pair| Distribution {
            count: pair.service.count(),
            ..Distribution::default()
        });
        let pairs: Vec<_> = of
            .by_sites
            .iter()
            .map(|pair| (pair.from.as_deref(), pair.to.as_str(), pair.near, pair.exchanges))
            .collect();
        assert_eq!(
            pairs,
            [
                (Some("east"), "east", Some(true), 30),
                (Some("east"), "west", Some(false), 20),
                (Some("west"), "east", Some(false), 20),
                (Some("west"), "west", Some(true), 30),
            ]
        );
        assert_eq!(of.by_sites[0].alone_us, Some(100.0));
        assert_eq!(of.by_sites[3].alone_us, None);
        assert_eq!(of.by_server[0].alone_us, Some(5_100.0)); // of 100 us and 10.1 ms
        assert_eq!(of.by_server.iter().map(|it| it.exchanges).collect::<Vec<_>>(), [50, 50]);
        assert_eq!(of.by_server[1].to, "west-s1");
        assert!((of.by_sites.iter().map(|it| it.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(of.by_server[0].service_us.count, 50);
        assert_eq!(tables(&of).len(), 2);
    }

    #[test]
    fn a_run_without_sites_has_none() {
        let header = Header { places: Places::default(), ..header() };
        let load = summarise(&evidence(), &header.plan);
        assert!(super::of(&header, &load, |_| Distribution::default()).is_empty());
    }
}
