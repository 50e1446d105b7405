//! The lab: what was laid for one plan, and what is asked of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linerate_evidence::TargetFacts;
use linerate_model::{Client as Generator, Plan};

use crate::cancel::Cancel;
use crate::clients::Client;
use crate::front::{Front, Seen};
use crate::hosts::{Engine, EngineHost, Host, Server, ServerHost, each};
use crate::knob::KnobSpec;
use crate::lay_error::LayError;
use crate::ledger;
use crate::neighbours::Neighbours;
use crate::path::{LaidPath, LinkMeter, PathProof};
use crate::quota::Quota;
use crate::sites::LaidSites;
use crate::targets::{self, Place};

/// Targets that run, and the network between them and the engine. All of it goes with the lab, in reverse
/// order.
///
/// A plan without sites has one server and one engine host. What is asked of *the* target is asked of the
/// first server's; all of them have the same knobs.
pub struct Lab {
    neighbours: Option<Neighbours>,
    engines: Vec<Engine>,
    servers: Vec<Server>,
    network: Network,
    cancel: Cancel,
}

/// What lies between engine and targets.
enum Network {
    /// This host as it is.
    Host,
    Path(Box<LaidPath>),
    /// A path in front of what runs on this host already.
    Front(Box<Front>),
    Sites(LaidSites),
}

/// How a lab is laid.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folder of the agent's .beam files. None: `LINERATE_AGENT`, or where `make agent` puts them,
    /// below the current folder or one above the program; else compiled of the text in the program.
    pub agent: Option<PathBuf>,
    /// Print each `ip` command to standard error, as a user could repeat it.
    pub verbose: bool,
    /// Set from a signal's handler: laying ends within 100 ms with [`LayError::Interrupted`].
    pub cancel: Option<Arc<AtomicBool>>,
}

/// What could not be taken away, and how to do it by hand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("left behind: {}", .0.join("; "))]
pub struct Left(pub Vec<String>);

impl Lab {
    /// Lays the network and starts the targets: on return they listen.
    ///
    /// What linerates that were killed have left behind is cleared first.
    pub fn lay(plan: &Plan, options: &Options) -> Result<Lab, LayError> {
        let cancel = Cancel(options.cancel.clone());
        cancel.check()?;
        ledger::sweep();
        let network = Network::lay(plan, options, &cancel)?;
        // From here what is laid goes with the lab, if something does not start.
        let mut lab = Lab {
            neighbours: None,
            engines: Vec::new(),
            servers: Vec::new(),
            network,
            cancel: cancel.clone(),
        };
        let seen = lab.network.seen();
        let place = |host: &Host| Place {
            end: host.end.clone(),
            seen: seen.clone(),
            agent: options.agent.clone(),
            cancel: cancel.clone(),
        };
        let all = lab.network.servers().into_iter().map(|host| (host, plan.clone()));
        let beside = plan.target.servers.iter().map(|address| beside(plan, address));
        lab.servers = each(all.chain(beside), &cancel, |(host, plan)| {
            let running =
                targets::start(&plan, &place(&host)).map_err(|error| host.blame(error))?;
            Ok(Server { host, running, quota: None })
        })?;
        // After the targets: what they measure of this machine when they start is not disturbed.
        if let Some(cpus) = plan.target.cpu_quota {
            for server in &mut lab.servers {
                server.quota = Some(Quota::lay(cpus)?);
                server.hold_to_quota()?;
            }
        }
        lab.engines = each(lab.network.engines(), &cancel, |host| {
            let client = match plan.engine.client {
                Generator::Own => None,
                Generator::Beam => {
                    Some(Client::start(plan, &place(&host)).map_err(|error| host.blame(error))?)
                }
            };
            Ok(Engine { host, client })
        })?;
        if plan.target.neighbours > 0 {
            lab.neighbours = Some(Neighbours::start(plan.target.neighbours)?);
        }
        Ok(lab)
    }

    /// Hosts that have the target, in the order of the plan's sites: at least one.
    pub fn servers(&self) -> Vec<ServerHost> {
        self.servers.iter().map(Server::shown).collect()
    }

    /// Hosts that make load: at least one.
    pub fn engine_hosts(&self) -> Vec<EngineHost> {
        self.engines.iter().map(Engine::shown).collect()
    }

    /// The connections to the BEAM nodes that the targets are, in the order of [`Lab::servers`].
    pub fn nodes(&self) -> Vec<linerate_beam::Node> {
        self.servers.iter().filter_map(|server| server.running.node()).collect()
    }

    /// What reads each link of the network: `path`, or by the names of its sites, `east-west`.
    pub fn link_meters(&self) -> Vec<(String, LinkMeter)> {
        match &self.network {
            Network::Host => Vec::new(),
            Network::Path(path) => vec![("path".to_owned(), path.meter())],
            Network::Front(front) => vec![("path".to_owned(), front.behind().meter())],
            Network::Sites(sites) => sites.meters(),
        }
    }

    /// What each of these links was asked for and delivered before the targets were started.
    pub fn proofs(&self) -> Vec<(String, PathProof)> {
        match &self.network {
            Network::Host => Vec::new(),
            Network::Path(path) => vec![("path".to_owned(), path.proof())],
            Network::Front(front) => vec![("path".to_owned(), front.behind().proof().clone())],
            Network::Sites(sites) => sites.proofs(),
        }
    }

    /// Where the engine connects to.
    pub fn address(&self) -> SocketAddr {
        self.first().running.address()
    }

    /// What is known of the target. Its readback is asked for now.
    pub fn facts(&self) -> TargetFacts {
        let mut facts = self.first().running.facts();
        facts.local &= self.servers.iter().skip(1).all(|server| server.running.facts().local);
        facts
    }

    /// The network namespace that the engine's threads enter; none: the host's own.
    pub fn client_netns(&self) -> Option<&Path> {
        let end = self.engines.first().and_then(|engine| engine.host.end.as_ref());
        end.map(|end| end.netns.as_path())
    }

    /// The network namespace of the target; none: the host's own.
    pub fn server_netns(&self) -> Option<&Path> {
        self.first().host.end.as_ref().map(|end| end.netns.as_path())
    }

    /// What is to be known of a target whose bytes are copied between it and a path; none: it is met as it is.
    pub fn copied(&self) -> Option<String> {
        let facts = self.facts();
        facts.says_copied()
    }

    /// What the path was asked for and what it delivered before the target was started.
    pub fn path(&self) -> Option<PathProof> {
        self.proofs().into_iter().next().map(|(_, proof)| proof)
    }

    /// What can be turned at the target.
    pub fn knobs(&self) -> &[KnobSpec] {
        self.first().running.knobs()
    }

    /// The same targets with these knobs over those of the plan, ready to be loaded. Returns the first's
    /// address; [`Lab::servers`] has them all.
    ///
    /// A BEAM node opens another listener and keeps the ones before; a command is restarted if the
    /// values differ from the current ones.
    pub fn variant(&mut self, knobs: &BTreeMap<String, String>) -> Result<SocketAddr, LayError> {
        each(&mut self.servers, &self.cancel, |server| {
            server.running.variant(knobs).map_err(|error| server.host.blame(error))?;
            // A command that was started again is another process.
            server.hold_to_quota()
        })?;
        Ok(self.address())
    }

    /// What kernel and driver say of the current variant's options, now; empty where nobody can say.
    pub fn readback(&mut self) -> BTreeMap<String, String> {
        self.first().running.readback()
    }

    /// The connection to the BEAM node that the target is; none for what is none. It is shared with the
    /// lab, which asks the node over it.
    pub fn node(&self) -> Option<linerate_beam::Node> {
        self.first().running.node()
    }

    /// An error that says how one of the targets ended, once it has, and on which host where there are
    /// several. A node that makes the load counts as well.
    pub fn alive(&mut self) -> Result<(), String> {
        self.servers.iter_mut().try_for_each(Server::alive)?;
        self.engines.iter_mut().try_for_each(Engine::alive)
    }

    /// Takes everything away. What could not be is named, with how to do it by hand.
    pub fn close(mut self) -> Result<(), Left> {
        let left = self.take_away();
        if left.is_empty() { Ok(()) } else { Err(Left(left)) }
    }

    fn take_away(&mut self) -> Vec<String> {
        let mut left =
            self.neighbours.take().map(|mut beside| beside.take_away()).unwrap_or_default();
        let stopped = |all: Result<Vec<Vec<String>>, LayError>| all.unwrap_or_default().concat();
        let never = Cancel::default();
        left.extend(stopped(each(self.engines.drain(..), &never, |mut it| Ok(it.stop()))));
        left.extend(stopped(each(self.servers.drain(..), &never, |mut it| Ok(it.stop()))));
        left.extend(std::mem::replace(&mut self.network, Network::Host).take_away());
        left
    }

    fn first(&self) -> &Server {
        self.servers.first().expect("a lab has one, and only close and drop take it")
    }
}

/// Another server of the plan's address, and the plan of it alone.
fn beside(plan: &Plan, address: &str) -> (Host, Plan) {
    let mut own = plan.clone();
    own.target.address = Some(address.to_owned());
    (Host::of_plan_without_sites(address, None), own)
}

impl Network {
    fn lay(plan: &Plan, options: &Options, cancel: &Cancel) -> Result<Self, LayError> {
        let verbose = options.verbose;
        Ok(match (&plan.path, &plan.target.address) {
            _ if !plan.sites.is_empty() => Network::Sites(LaidSites::lay(plan, verbose, cancel)?),
            (Some(path), Some(address)) => {
                Network::Front(Box::new(Front::lay(plan, path, address, options)?))
            }
            (Some(path), None) => Network::Path(Box::new(LaidPath::lay(path, verbose, cancel)?)),
            (None, _) => Network::Host,
        })
    }

    /// How the target is seen through a path in front of it; none: as it is.
    fn seen(&self) -> Option<Seen> {
        match self {
            Network::Front(front) => Some(front.seen()),
            _ => None,
        }
    }

    fn servers(&self) -> Vec<Host> {
        let one = |end| vec![Host::of_plan_without_sites("server", end)];
        match self {
            Network::Host => one(None),
            Network::Path(path) => one(Some(path.server())),
            Network::Front(_) => one(None),
            Network::Sites(sites) => sites.servers(),
        }
    }

    fn engines(&self) -> Vec<Host> {
        let one = |end| vec![Host::of_plan_without_sites("engine", end)];
        match self {
            Network::Host => one(None),
            Network::Path(path) => one(Some(path.client())),
            Network::Front(front) => one(Some(front.engine())),
            Network::Sites(sites) => sites.engines(),
        }
    }

    /// Returns what is left.
    fn take_away(mut self) -> Vec<String> {
        match &mut self {
            Network::Host => Vec::new(),
            Network::Path(path) => path.take_away(),
            Network::Front(front) => front.take_away(),
            Network::Sites(sites) => sites.take_away(),
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.take_away();
    }
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

// A watcher may ask for facts while another thread drives the run.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Lab>()
};
