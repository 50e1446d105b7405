//! One of the agent's servers, in a BEAM node of its own.
//!
//! A variant is one more listener in the same node; all are kept, so that going back to one costs
//! nothing and its connections stay.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use linerate_evidence::{Carries, TargetFacts};
use linerate_model::Plan;

use super::node::{Node, Unanswered, Words};
use super::{Kind, Place, Running, agent_of, cpus_of, turnable};
use crate::cancel::Cancel;
use crate::knob::{KnobSpec, of_agent};
use crate::lay_error::LayError;

/// See the module.
pub(super) const KIND: Kind = Kind {
    name: "beam",
    named: |target| target.beam.is_some(),
    start: |plan, place| Ok(Box::new(Beam::start(plan, place)?)),
};

/// Chosen: starting a listener takes milliseconds, and seconds when its schedulers are all busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// Chosen: under full load a node still answers within this, and a report does not wait longer.
const READBACK: Duration = Duration::from_secs(2);

struct Beam {
    server: String,
    /// Asked by `facts` and `readback` too, which change nothing.
    node: Mutex<Node>,
    pid: u32,
    schedulers: Option<u16>,
    cancel: Cancel,
    ip: IpAddr,
    specs: Vec<KnobSpec>,
    /// The plan's.
    knobs: BTreeMap<String, String>,
    variants: Vec<Variant>,
    /// Index of the one in use.
    current: usize,
}

struct Variant {
    /// Every knob with its value.
    knobs: BTreeMap<String, String>,
    /// The agent's name for it.
    id: String,
    address: SocketAddr,
    carries: Option<Carries>,
}

impl Beam {
    fn start(plan: &Plan, place: &Place) -> Result<Self, LayError> {
        let target = &plan.target;
        let ebin = agent_of(place)?;
        let end = place.end.as_ref();
        let mut node = Node::boot(&ebin, target, end, &place.cancel)?;
        let server = target.beam.clone().unwrap_or_default();
        let specs = specs(&mut node, &server, &place.cancel)?;
        let mut beam = Self {
            server,
            pid: node.pid,
            schedulers: node.schedulers,
            node: Mutex::new(node),
            cancel: place.cancel.clone(),
            ip: end.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |end| end.ip),
            specs,
            knobs: target.knobs.clone(),
            variants: Vec::new(),
            current: 0,
        };
        beam.variant(&BTreeMap::new())?;
        Ok(beam)
    }

    fn full(&self, knobs: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, LayError> {
        let mut full: BTreeMap<_, _> =
            self.specs.iter().map(|spec| (spec.name.clone(), spec.default.clone())).collect();
        for (name, value) in self.knobs.iter().chain(knobs) {
            let Some(spec) = self.specs.iter().find(|spec| spec.name == *name) else {
                let there: Vec<_> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
                return Err(LayError::UnknownKnob {
                    knob: name.clone(),
                    target: self.server.clone(),
                    there: format!("write one of {}", there.join(", ")),
                });
            };
            if !spec.permits(value) {
                return Err(LayError::BadKnob {
                    knob: name.clone(),
                    value: value.clone(),
                    target: self.server.clone(),
                    permitted: spec.alternatives(),
                });
            }
            full.insert(name.clone(), value.clone());
        }
        Ok(full)
    }

    fn listen(&mut self, knobs: BTreeMap<String, String>) -> Result<Variant, LayError> {
        let ip = self.ip.to_string();
        let mut words = vec![("server", self.server.as_str()), ("port", "0"), ("ip", &ip)];
        words.extend(knobs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = ask(&mut node, "start", &words, &self.cancel, &self.server)?;
        let of = |key| answer.iter().find(|(found, _)| found == key).map(|(_, value)| value);
        match (of("server"), of("port").and_then(|port| port.parse().ok())) {
            (Some(id), Some(port)) => {
                let number = |key| of(key)?.parse().ok();
                let carries = number("carries_messages").zip(number("carries_bytes"));
                Ok(Variant {
                    knobs,
                    id: id.clone(),
                    address: SocketAddr::new(self.ip, port),
                    carries: carries.map(|(messages, bytes)| Carries { messages, bytes }),
                })
            }
            _ => Err(LayError::Unstarted {
                server: self.server.clone(),
                reason: "the node answered without its port; run `make agent` again".into(),
            }),
        }
    }
}

fn specs(node: &mut Node, server: &str, cancel: &Cancel) -> Result<Vec<KnobSpec>, LayError> {
    let servers = ask(node, "servers", &[], cancel, server)?;
    let servers = servers.into_iter().find(|(key, _)| key == "servers").unwrap_or_default().1;
    if !servers.split(',').any(|known| known == server) {
        return Err(LayError::UnknownServer {
            server: server.to_owned(),
            servers: servers.replace(',', ", "),
        });
    }
    let shown = ask(node, "knobs", &[("server", server)], cancel, server)?;
    let spec = |(name, shown): &(String, String)| {
        of_agent(name, shown).ok_or_else(|| LayError::Unstarted {
            server: server.to_owned(),
            reason: format!("the node shows its knob {name} as `{shown}`; run `make agent` again"),
        })
    };
    shown.iter().map(spec).collect()
}

fn ask(
    node: &mut Node,
    verb: &str,
    words: &[(&str, &str)],
    cancel: &Cancel,
    server: &str,
) -> Result<Words, LayError> {
    node.ask(verb, words, PATIENCE, cancel).map_err(|no| match no {
        Unanswered::Interrupted => LayError::Interrupted,
        Unanswered::Refused(reason) => LayError::Unstarted { server: server.to_owned(), reason },
        Unanswered::Broken(reason) => LayError::Node {
            trouble: format!("{reason} when asked to `{verb}`"),
            last_words: node.last_words(),
        },
    })
}

impl Running for Beam {
    fn address(&self) -> SocketAddr {
        self.variants[self.current].address
    }

    fn facts(&self) -> TargetFacts {
        TargetFacts {
            kind: KIND.name.into(),
            address: self.address().to_string(),
            local: true,
            through_node: false,
            copied: false,
            pid: Some(self.pid),
            name: self.server.clone(),
            cpus: cpus_of(self.pid),
            schedulers: self.schedulers,
            knobs: self.variants[self.current].knobs.clone(),
            readback: self.readback(),
            turnable: turnable(&self.specs),
            carries: self.variants[self.current].carries,
        }
    }

    fn pid(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn knobs(&self) -> &[KnobSpec] {
        &self.specs
    }

    fn variant(&mut self, knobs: &BTreeMap<String, String>) -> Result<SocketAddr, LayError> {
        let full = self.full(knobs)?;
        self.current = match self.variants.iter().position(|variant| variant.knobs == full) {
            Some(index) => index,
            None => {
                let variant = self.listen(full)?;
                self.variants.push(variant);
                self.variants.len() - 1
            }
        };
        Ok(self.address())
    }

    /// Not stopped by a wish to stop: the report of what was done so far wants it.
    fn readback(&self) -> BTreeMap<String, String> {
        let id = self.variants[self.current].id.as_str();
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = node.ask("readback", &[("server", id)], READBACK, &Cancel::default());
        answer.map(|words| words.into_iter().collect()).unwrap_or_default()
    }

    fn node(&self) -> Option<linerate_beam::Node> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner).link()
    }

    fn alive(&mut self) -> Result<(), String> {
        self.node.get_mut().unwrap_or_else(PoisonError::into_inner).alive()
    }

    fn stop(&mut self) -> Vec<String> {
        self.node.get_mut().unwrap_or_else(PoisonError::into_inner).stop()
    }
}
