//! Time of an exchange alone.

use std::collections::BTreeMap;

use crate::file::Header;
use crate::load::{LoadSummary, PairLoad};
use crate::places::{Alone, Place};

/// Exchanges between the same two sites, alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Distance {
    /// Both sites, in order; none: within one.
    pub sites: Option<[String; 2]>,
    /// Of all exchanges, where each worker picks its server uniformly at random.
    pub share: f64,
    /// Time of one alone. Unit: seconds.
    pub alone: f64,
}

impl Header {
    /// Time of an exchange alone: the smaller of the preflight's median and the run's own. Unit: seconds. With
    /// servers in several places it is the mean over all that may be chosen. Medians: the fastest exchange of all is
    /// chance, and even one connection alone would seem slower than it.
    pub fn unhindered(&self, load: &LoadSummary) -> Option<f64> {
        let places = self.distances(load);
        if !places.is_empty() {
            return Some(places.iter().map(|place| place.share * place.alone).sum());
        }
        let median = load.service.at(50.0).map(|at| at.value);
        smaller(&self.preflight_ns, median)
    }

    /// The same by distance between engine and server, nearest first; empty where the plan names no sites, or where
    /// some of them were not measured.
    pub fn distances(&self, load: &LoadSummary) -> Vec<Distance> {
        let places = &self.places;
        if !places.has_sites() {
            return Vec::new();
        }
        let site = |of: &[Place], index: u16| Some(of.get(usize::from(index))?.site.clone());
        let distance = |pair: &PairLoad| {
            let (from, to) = (site(&places.hosts, pair.host)?, site(&places.servers, pair.server)?);
            let of_site = |alone: &&Alone| {
                alone.server == pair.server
                    && site(&places.hosts, alone.host).as_ref() == Some(&from)
            };
            let preflight =
                places.alone.iter().find(of_site).map(|alone| alone.service_ns.as_slice());
            let median = pair.service.at(50.0).map(|at| at.value);
            let alone = smaller(preflight.unwrap_or_default(), median)?;
            let is_one = from == to;
            let mut sites = [from, to];
            sites.sort();
            Some(((!is_one).then_some(sites), alone))
        };
        let mut found: BTreeMap<Option<[String; 2]>, Vec<f64>> = BTreeMap::new();
        for pair in &load.pairs {
            let Some((sites, alone)) = distance(pair) else { return Vec::new() };
            found.entry(sites).or_default().push(alone);
        }
        let all: usize = found.values().map(Vec::len).sum();
        let distance = |(sites, alone): (_, Vec<f64>)| {
            let count = alone.len() as f64;
            Distance { sites, share: count / all as f64, alone: alone.iter().sum::<f64>() / count }
        };
        let mut distances: Vec<Distance> = found.into_iter().map(distance).collect();
        distances.sort_by(|a, b| a.alone.total_cmp(&b.alone));
        distances
    }
}

/// The smaller of the median of times alone and another median. Unit: ns in, seconds out.
fn smaller(alone: &[u64], median: Option<u64>) -> Option<f64> {
    let mut alone = alone.to_vec();
    alone.sort_unstable();
    let alone = alone.get(alone.len() / 2).copied();
    let nanos = alone.into_iter().chain(median).min()?;
    (nanos > 0).then_some(nanos as f64 / 1e9)
}
