//! The target as it sees itself: a BEAM node that linerate is let into.

use std::net::SocketAddr;
use std::time::Duration;

use linerate_beam::term::{as_text, as_u64, atom};
use linerate_beam::{Attached, Cookie, Node, ProbeOptions, TlsFiles, Unreached, Where};
use linerate_model::Share;
use linerate_probe::ProcessSockets;
use linerate_run::local_node::{Started, is_beam, look_for_room};

use super::asked::Asked;
use super::far::FarHost;
use super::outside::Outside;
use super::watch::EVERY;
use crate::args::DoctorArgs;
use crate::failure::Failure;

// Chosen: a call takes microseconds, and seconds on a node whose schedulers are all taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is not read of a node elsewhere that can't be asked about its kernel.
pub(super) const KERNEL: &str = "kernel";

/// See the module.
pub(super) struct Inside {
    pub(super) attached: Attached,
    /// Normal schedulers online.
    pub(super) schedulers: Option<u16>,
    /// Our own connection to it, its end first: no part of what it does.
    pub(super) own: (SocketAddr, SocketAddr),
    /// Where its process can't be seen from here: its host, whose kernel it asks for us.
    pub(super) far: Option<FarHost>,
    budget: Share,
}

impl Inside {
    pub(super) fn name(&self) -> &str {
        self.attached.node().name()
    }

    /// Goes in once more over a connection of its own: the one before is lost, and its probe with it.
    pub(super) fn again(&mut self) -> Result<(), String> {
        let node = self.attached.node().reconnect().map_err(|error| error.to_string())?;
        let (ours, theirs) = node.ends();
        let options = options(self.budget, self.far.as_ref());
        self.attached = node.attach(&options).map_err(|error| error.to_string())?;
        self.own = (theirs, ours);
        Ok(())
    }
}

fn options(budget: Share, far: Option<&FarHost>) -> ProbeOptions {
    let kernel = far.map(|far| far.kernel.clone());
    ProbeOptions { budget, interval: EVERY, kernel, ..ProbeOptions::default() }
}

/// Goes in, if that is asked for and possible. A node that was asked for by its name and can't be
/// entered is a failure; a port or process has its outside in any case, and a sentence why no more. A
/// node of this host that has no room for us is looked at from outside, whatever it was asked for by.
pub(super) fn enter(
    asked: &Asked,
    args: &DoctorArgs,
    budget: Share,
    outside: &mut Outside,
) -> Result<Option<Inside>, Failure> {
    let place = match (asked, args.no_inside) {
        (Asked::Node(_), true) => {
            return Err(Failure::plan(format!(
                "--no-inside: {} names only a node: write its :PORT or process id",
                args.target
            )));
        }
        (_, true) => {
            outside.unread.push(("node", "not asked: --no-inside".into()));
            outside.by_memory = false;
            return Ok(None);
        }
        (Asked::Node(place), false) => Ok(place.clone()),
        _ => outside.node(),
    };
    let place = place.map(|place| Where { port: args.port.or(place.port), ..place });
    if let Ok(place) = &place
        && let Err(full) = look_for_room(place, outside.pid)
    {
        if args.apply.is_some() {
            return Err(Failure::run(full.says));
        }
        if outside.pid.is_none() {
            outside.settle(full.pid);
        }
        outside.unread.push(("node", full.says));
        return Ok(None);
    }
    let entered = place.and_then(|place| go(place, args, budget, outside));
    match (asked, entered) {
        (_, Ok(inside)) => Ok(Some(inside)),
        (Asked::Node(_), Err(why)) => Err(Failure::run(why)),
        (_, Err(why)) if args.apply.is_some() => Err(Failure::run(why)),
        (_, Err(why)) => {
            outside.unread.push(("node", why));
            Ok(None)
        }
    }
}

/// The one that was given; else its process's own, where we may read that; else ours.
fn cookie(args: &DoctorArgs, pid: Option<u32>) -> Result<Cookie, Unreached> {
    let given = Cookie::given(args.cookie_file.as_deref())?;
    let own = || pid.and_then(|pid| Started::of(pid).ok()?.cookie());
    given.or_else(own).map_or_else(|| Cookie::find(None), Ok)
}

fn go(
    mut place: Where,
    args: &DoctorArgs,
    budget: Share,
    outside: &mut Outside,
) -> Result<Inside, String> {
    place.tls = args.tls.then(|| TlsFiles {
        ca: args.tls_ca.clone(),
        cert: args.tls_cert.clone(),
        key: args.tls_key.clone(),
    });
    let cookie = cookie(args, outside.pid).map_err(|error| error.to_string())?;
    let node = Node::connect(&place, &cookie).map_err(|error| error.to_string())?;
    find_its_process(&node, outside);
    let (ours, theirs) = node.ends();
    let far = match outside.pid {
        Some(_) => None,
        None => {
            FarHost::ask(&node, PATIENCE).map_err(|why| outside.unread.push((KERNEL, why))).ok()
        }
    };
    let options = options(budget, far.as_ref());
    let attached = node.attach(&options).map_err(|error| error.to_string())?;
    let schedulers = node
        .call("erlang", "system_info", vec![atom("schedulers_online")], PATIENCE)
        .ok()
        .and_then(|count| u16::try_from(as_u64(&count)?).ok());
    Ok(Inside { attached, schedulers, own: (theirs, ours), far, budget })
}

/// Finds the node's process if it is on this host, by our connection: its other end is that
/// process's.
fn find_its_process(node: &Node, outside: &mut Outside) {
    if outside.pid.is_some() {
        return;
    }
    let pid = node.call("os", "getpid", Vec::new(), PATIENCE).ok();
    let pid: Option<u32> = pid.and_then(|pid| as_text(&pid)?.parse().ok());
    let Some(pid) = pid.filter(|pid| is_beam(*pid)) else { return };
    let (ours, theirs) = node.ends();
    // Both ends are addresses of one machine; a pid of another one means nothing here.
    let near = theirs.ip().is_loopback() || theirs.ip() == ours.ip();
    let held = ProcessSockets::open(pid).and_then(|mut sockets| sockets.read());
    let is_its = held.as_ref().is_ok_and(|held| {
        held.connections.iter().any(|end| end.local == theirs && end.peer == ours)
    });
    // Where its descriptors may not be read, its name has to do.
    if is_its || (near && held.is_err()) {
        outside.settle(pid);
    }
}
