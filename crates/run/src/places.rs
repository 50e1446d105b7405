//! The hosts of a run, as the engine, the probe and the evidence want them.

use std::collections::BTreeSet;

use linerate_beam::Host;
use linerate_engine::{EngineHost, Flow, Preflight, ServerAddress};
use linerate_evidence::{Alone, Evidence, Place, Places, Side, Subject};
use linerate_lab::Lab;
use linerate_model::Plan;
use linerate_probe::{FlowAddress, Scope};

/// Where the engine connects to.
pub fn servers(lab: &Lab) -> Vec<ServerAddress> {
    let server = |host: linerate_lab::ServerHost| ServerAddress {
        name: host.name,
        site: host.site.unwrap_or_default(),
        address: host.address,
    };
    lab.servers().into_iter().map(server).collect()
}

/// Where its threads work.
pub fn hosts(lab: &Lab) -> Vec<EngineHost> {
    let engine = |host: linerate_lab::EngineHost| EngineHost {
        name: host.name,
        site: host.site.unwrap_or_default(),
        netns: host.netns,
    };
    lab.engine_hosts().into_iter().map(engine).collect()
}

/// One of other hosts.
pub fn far_host(host: &Host) -> EngineHost {
    EngineHost { name: host.name().to_owned(), ..EngineHost::default() }
}

/// What the evidence's header says of them: nothing where the target has one server.
pub fn places(lab: &Lab, plan: &Plan, preflight: &Preflight) -> Places {
    if !plan.names_servers() {
        return Places::default();
    }
    let servers = lab.servers().into_iter().map(|host| Place {
        name: if plan.sites.is_empty() { host.address.to_string() } else { host.name },
        site: host.site.unwrap_or_default(),
        address: Some(host.address.to_string()),
        pid: host.pid,
    });
    let hosts = lab.engine_hosts().into_iter().map(|host| Place {
        name: host.name,
        site: host.site.unwrap_or_default(),
        address: None,
        pid: host.pid,
    });
    let alone = preflight.pairs.iter().map(|pair| Alone {
        host: pair.host,
        server: pair.server,
        service_ns: pair.service.iter().map(|time| time.as_nanos() as u64).collect(),
    });
    Places { hosts: hosts.collect(), servers: servers.collect(), alone: alone.collect() }
}

/// Where the probe is to look.
pub fn scope(lab: &Lab, local: bool) -> Scope {
    let servers = lab.servers();
    let ports: BTreeSet<u16> = servers.iter().map(|server| server.address.port()).collect();
    Scope {
        target_pids: servers.iter().filter_map(|server| server.pid).collect(),
        target_ports: ports.into_iter().collect(),
        client_netns: lab.engine_hosts().into_iter().map(|host| host.netns).collect(),
        server_netns: servers.into_iter().map(|server| server.netns).collect(),
        local,
    }
}

/// A watched connection as the probe knows it.
pub fn flow_address(flow: &Flow) -> FlowAddress {
    FlowAddress {
        id: flow.id,
        client: flow.client,
        server: flow.server,
        client_host: flow.host,
        server_host: flow.server_host,
    }
}

/// Tells once of each watched connection between which hosts it is, where the plan names sites.
#[derive(Default)]
pub struct Names {
    places: Places,
    told: BTreeSet<u32>,
}

impl Names {
    /// By the names of these hosts.
    pub fn of(places: &Places) -> Self {
        Self { places: places.clone(), told: BTreeSet::new() }
    }

    /// Adds the facts of connections that are new.
    pub fn tell(&mut self, flows: &[Flow], evidence: &mut Evidence) {
        for flow in flows {
            let host = self.places.hosts.get(usize::from(flow.host));
            let server = self.places.servers.get(usize::from(flow.server_host));
            let (Some(host), Some(server)) = (host, server) else { continue };
            if self.told.insert(flow.id) {
                let of = Subject::Flow(flow.id, Side::Client);
                evidence.push_fact(of, "host", host.name.clone());
                evidence.push_fact(of, "server", server.name.clone());
                let near = if host.site == server.site { "near" } else { "far" };
                evidence.push_fact(of, "reach", near.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_once_by_its_hosts_names() {
        let place = |name: &str, site: &str| Place {
            name: name.into(),
            site: site.into(),
            ..Place::default()
        };
        let mut names = Names::of(&Places {
            hosts: vec![place("east-e1", "east")],
            servers: vec![place("east-s1", "east"), place("west-s1", "west")],
            alone: Vec::new(),
        });
        let (client, server) = ("10.0.0.1:9".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let flow = Flow { id: 3, host: 0, server_host: 1, client, server };
        let mut evidence = Evidence::default();
        names.tell(&[flow], &mut evidence);
        let of = Subject::Flow(3, Side::Client);
        assert_eq!(evidence.fact(of, "server"), Some("west-s1"));
        assert_eq!(evidence.fact(of, "reach"), Some("far"));
        let mut again = Evidence::default();
        names.tell(&[flow], &mut again);
        assert!(again.facts().is_empty());
    }
}
