//! All needs beside what there is, the first that ends it in front.

use serde::Serialize;

use crate::ask::Ask;
use crate::limits::Limits;
use crate::resources::RESOURCES;

/// Whose resource it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The load's.
    Engine,
    /// The service's.
    Target,
    /// The host's that both, or one of them, are on.
    Host,
}

impl Side {
    /// As reports have it.
    pub fn word(self) -> &'static str {
        match self {
            Side::Engine => "engine",
            Side::Target => "target",
            Side::Host => "host",
        }
    }
}

/// What the ask needs of one resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Need {
    /// `engine.descriptors`.
    pub id: &'static str,
    /// Whose it is.
    pub side: Side,
    /// In words: `descriptors of the engine's process`.
    pub what: &'static str,
    /// How much is needed.
    pub needs: u64,
    /// How much there is; none: not known.
    pub has: Option<u64>,
    /// So many connections it holds; none: not known.
    pub holds: Option<u64>,
    /// What both are counted in; empty where they are things by number.
    pub unit: &'static str,
    /// The sum, with its numbers.
    pub sum: String,
    /// It rests on an estimate.
    pub is_estimate: bool,
    /// What linerate does about it by itself.
    pub arranged: Option<String>,
    /// What whoever runs it is to do, as a line to paste.
    pub paste: Option<String>,
}

impl Need {
    /// Whether there is less of it than is needed.
    pub fn is_short(&self, connections: u64) -> bool {
        self.holds.is_some_and(|holds| holds < connections)
    }
}

/// What becomes of the ask.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Connections asked for.
    pub connections: u64,
    /// Connections that all known limits hold; none: no limit is known.
    pub holds: Option<u64>,
    /// By what they hold, the least first; then those that are not known.
    pub needs: Vec<Need>,
}

impl Forecast {
    /// Whether no limit that is known ends it before its time.
    pub fn fits(&self) -> bool {
        self.holds.is_none_or(|holds| holds >= self.connections)
    }

    /// The same without what is of this side.
    pub fn without(mut self, side: Side) -> Self {
        self.needs.retain(|need| need.side != side);
        self.holds = self.needs.iter().filter_map(|need| need.holds).min();
        self
    }

    /// Those that there is too little of.
    pub fn short(&self) -> impl Iterator<Item = &Need> {
        self.needs.iter().filter(|need| need.is_short(self.connections))
    }
}

/// See the crate.
pub fn forecast(ask: &Ask, limits: &Limits) -> Forecast {
    let mut needs: Vec<Need> = RESOURCES.iter().filter_map(|of| of(ask, limits)).collect();
    // None last; a stable order beside that.
    needs.sort_by_key(|need| need.holds.unwrap_or(u64::MAX));
    Forecast {
        connections: ask.connections,
        holds: needs.iter().filter_map(|need| need.holds).min(),
        needs,
    }
}
