//! The hosts of a plan with several servers: which they are, and in sites where they stand and how far apart.

use serde::{Deserialize, Serialize};

/// The hosts of the engine and those of the target. Empty where the target has one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Places {
    /// Hosts with engine threads, in the order of [`crate::Slice::host`].
    pub hosts: Vec<Place>,
    /// Hosts with the target, in the order of [`crate::Slice::parts`].
    pub servers: Vec<Place>,
    /// Exchanges made alone before the load, between one engine host of each site and every server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<Alone>,
}

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Its name: `east-s1`.
    pub name: String,
    /// Its site's: `east`; empty where the plan names none.
    pub site: String,
    /// Where the target listens there, `ip:port`; none for hosts of the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Root of the target's process tree there, or of the engine's where that is a process of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// The preflight of one engine host and one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// Place in [`Places::hosts`].
    pub host: u16,
    /// Place in [`Places::servers`].
    pub server: u16,
    /// Service times in order. Unit: ns.
    pub service_ns: Vec<u64>,
}

impl Places {
    /// Whether the target has one server.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.servers.is_empty()
    }

    /// Whether the plan named sites.
    pub fn has_sites(&self) -> bool {
        self.servers.iter().any(|server| !server.site.is_empty())
    }

    /// Whether host and server stand in one site.
    pub fn are_near(&self, host: u16, server: u16) -> bool {
        let host = self.hosts.get(usize::from(host));
        let server = self.servers.get(usize::from(server));
        host.zip(server).is_some_and(|(host, server)| host.site == server.site)
    }
}
