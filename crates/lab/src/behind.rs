//! A place behind a path: a network namespace whose only way out is a path to where linerate itself is.
//!
//! Source for the shape: mahimahi's packet shells. The side where linerate is gets one device with an
//! address, and the route to what is behind it; nothing else of it is touched. The device lasts as long as
//! this process. A path may begin behind another (see [`Block`](crate::block::Block) for the addresses).
//!
//! An ordinary user can make no device of the host's. Then the near side is a namespace too, empty but for
//! the ports that are forwarded.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::block::{self, Claim, WAY_OUT};
use crate::cancel::Cancel;
use crate::forward::Forward;
use crate::lab::{Left, Options};
use crate::lay_error::LayError;
use crate::netns::{Ip, Netns, prefix};
use crate::path::backend::{self, LaidLink, LinkEnd, LinkMeter};
use crate::path::proof::{self, PathProof};
use crate::process::{enter, inside};
use crate::{ledger, privileges, sys};

/// See the module. Taken away in reverse: first the link, then the namespaces.
#[derive(Debug)]
pub struct Behind {
    forwards: Vec<Forward>,
    link: Box<dyn LaidLink>,
    far: Netns,
    near: Netns,
    claim: Claim,
    nested: bool,
    proof: PathProof,
}

impl Behind {
    /// Lays and proves it; `ports` of 127.0.0.1 answer at the near side's address as well.
    pub fn lay(
        asked: &linerate_model::Path,
        ports: &[u16],
        options: &Options,
    ) -> Result<Self, LayError> {
        let cancel = Cancel(options.cancel.clone());
        cancel.check()?;
        ledger::sweep();
        privileges::check()?;
        let ip = Ip { verbose: options.verbose };
        ip.clear_stale()?;
        let name = prefix();
        // In a user namespace that we entered, the host's network is somebody else's.
        let near = match privileges::entered() {
            false => Netns::here(ip),
            true => Netns::add(ip, format!("{name}-s"))?,
        };
        let far = Netns::add(ip, format!("{name}-c"))?;
        cancel.check()?;
        let reading = || std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        let routes = inside(Some(&near.file), || block::routes(&reading()))
            .map_err(LayError::system("reading the routes"))?;
        let nested = block::behind(&routes).is_some();
        let claim = inside(Some(&near.file), || block::claim(&routes))
            .map_err(LayError::system("choosing addresses"))?
            .map_err(LayError::NoAddress)?;

        let (own, beyond) = (claim.block.near(), claim.block.far());
        for (setting, value) in &asked.sysctls {
            far.set(setting, value)?;
        }
        let device = format!("lr{}", std::process::id());
        let here = LinkEnd { netns: &near, device: device.clone(), address: own };
        let there = LinkEnd { netns: &far, device: WAY_OUT.into(), address: beyond };
        // The command is the client: what it sends goes out.
        let link = backend::join(ip, [&there, &here], asked, &cancel)?;
        let block = claim.block.to_string();
        near.run(&["route", "add", &block, "dev", &device])?;
        far.run(&["route", "add", &block, "dev", WAY_OUT])?;
        far.run(&["route", "add", "default", "via", &own.to_string(), "dev", WAY_OUT])?;
        // For paths that begin there. It is that namespace's own.
        far.set("net.ipv4.ip_forward", "1")?;
        cancel.check()?;
        let proof = proof::prove([&there, &here], asked, &cancel)?;
        let mut laid = Self { forwards: Vec::new(), link, far, near, claim, nested, proof };
        for port in ports {
            laid.forward(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)))?;
        }
        Ok(laid)
    }

    /// Has a service of the host answer at the near side's address too, at its own port.
    pub(crate) fn forward(&mut self, service: SocketAddr) -> Result<(), LayError> {
        self.forwards.push(Forward::start(&self.near.file, self.peer(), service)?);
        Ok(())
    }

    /// Has an address of the host's be reached through the path as it stands, the loopback's too: then what is
    /// behind the path has no loopback of its own.
    ///
    /// Source: Documentation/networking/ip-sysctl.rst, `route_localnet`; it is the devices', and goes with them.
    pub(crate) fn show(&self, ip: Ipv4Addr) -> Result<(), LayError> {
        if !ip.is_loopback() {
            return Ok(());
        }
        let setting = |device: &str| format!("net.ipv4.conf.{device}.route_localnet");
        self.near.set(&setting(&self.device()), "1")?;
        self.far.set(&setting(WAY_OUT), "1")?;
        self.far.run(&["addr", "del", "127.0.0.1/8", "dev", "lo"])?;
        let (to, via, own) = (ip.to_string(), self.peer().to_string(), self.own().to_string());
        self.far.run(&["route", "add", &to, "via", &via, "dev", WAY_OUT, "src", &own])?;
        Ok(())
    }

    /// The near side's device.
    fn device(&self) -> String {
        format!("lr{}", std::process::id())
    }

    /// The namespace behind the path.
    pub(crate) fn far(&self) -> PathBuf {
        self.far.file.clone()
    }

    /// The namespace in front of it.
    pub(crate) fn near(&self) -> PathBuf {
        self.near.file.clone()
    }

    /// The near side's address, at which the host's services are seen from behind the path.
    pub fn peer(&self) -> Ipv4Addr {
        self.claim.block.near()
    }

    /// The address of what is behind the path.
    pub fn own(&self) -> Ipv4Addr {
        self.claim.block.far()
    }

    /// Whether linerate itself is behind a path.
    pub fn is_nested(&self) -> bool {
        self.nested
    }

    /// Whether the near side is the host, and not a namespace of an ordinary user's.
    pub fn reaches_host(&self) -> bool {
        self.near.name.is_empty()
    }

    /// What the path was asked for and what it delivered.
    pub fn proof(&self) -> &PathProof {
        &self.proof
    }

    /// Reads what the path carries; `out` is what comes from behind it.
    pub fn meter(&self) -> LinkMeter {
        self.link.meter()
    }

    /// Runs a command behind the path to its end. `begun` is told its process id, and `ended` that this id
    /// is about to be nobody's. It is hung up on if linerate dies first.
    pub fn run(
        &self,
        mut command: Command,
        begun: impl FnOnce(u32) + Send,
        ended: impl FnOnce() + Send,
    ) -> io::Result<ExitStatus> {
        sys::hang_up_with_us(&mut command);
        // A thread of its own for as long as the command runs: the namespace is a thread's, and so is the
        // death that a child is told of.
        std::thread::scope(|scope| {
            let keeper = scope.spawn(move || {
                enter(&self.far.file)?;
                privileges::hand_down();
                let mut child = command.spawn()?;
                begun(child.id());
                if let Some(pid) = sys::pid(child.id()) {
                    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                    while matches!(waitid(WaitId::Pid(pid), options), Err(Errno::INTR)) {}
                }
                ended();
                child.wait()
            });
            keeper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Takes everything away. What could not be is named, with how to do it by hand.
    pub fn close(mut self) -> Result<(), Left> {
        let left = self.take_away();
        if left.is_empty() { Ok(()) } else { Err(Left(left)) }
    }

    /// Returns what is left.
    pub(crate) fn take_away(&mut self) -> Vec<String> {
        self.forwards.clear();
        let mut left = self.link.take_away();
        left.extend([self.far.remove(), self.near.remove()].into_iter().flatten());
        left
    }
}
