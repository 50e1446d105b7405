//! Who is on the hosts of a lab: a target on each server, and where a BEAM node makes the load, one on each
//! engine host. Without a path both are this host.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::cancel::Cancel;
use crate::clients::Client;
use crate::lay_error::LayError;
use crate::quota::Quota;
use crate::targets::{End, Running};

/// Chosen: a node that boots keeps about one CPU busy, and half of its time it waits.
const AT_ONCE: usize = 4;

/// A host, before anything is started there.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// `east-s1`; `server` and `engine` where the plan names no sites.
    pub name: String,
    /// None where the plan names none.
    pub site: Option<String>,
    /// Its namespace and address; none: this host as it is.
    pub end: Option<End>,
}

/// A host that has the target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerHost {
    /// `east-s1`; `server` where the plan names no sites.
    pub name: String,
    /// Its site, where the plan names some.
    pub site: Option<String>,
    /// Its network namespace; none: the host's own.
    pub netns: Option<PathBuf>,
    /// Where the current variant of its target listens.
    pub address: SocketAddr,
    /// The root of its target's processes, where that is known.
    pub pid: Option<u32>,
}

/// A host that makes load.
#[derive(Clone)]
pub struct EngineHost {
    /// `east-e1`; `engine` where the plan names no sites.
    pub name: String,
    /// Its site, where the plan names some.
    pub site: Option<String>,
    /// The network namespace that its threads enter; none: the host's own.
    pub netns: Option<PathBuf>,
    /// The connection to its BEAM node, where the plan's client is one.
    pub node: Option<linerate_beam::Node>,
    /// That node's process.
    pub pid: Option<u32>,
}

/// A target, and the host it is on.
pub(crate) struct Server {
    pub host: Host,
    pub running: Box<dyn Running>,
    pub quota: Option<Quota>,
}

/// An engine host, and its BEAM node if it has one.
pub(crate) struct Engine {
    pub host: Host,
    pub client: Option<Client>,
}

impl Host {
    pub fn of_plan_without_sites(name: &str, end: Option<End>) -> Self {
        Self { name: name.to_owned(), site: None, end }
    }

    fn netns(&self) -> Option<PathBuf> {
        self.end.as_ref().map(|end| end.netns.clone())
    }

    /// Says on which host it was, where there are several.
    pub fn blame(&self, error: LayError) -> LayError {
        if self.site.is_some() { error.on(&self.name) } else { error }
    }

    /// The same for what has ended.
    fn blame_end(&self, ended: String) -> String {
        if self.site.is_some() { format!("host {}: {ended}", self.name) } else { ended }
    }
}

impl Server {
    pub fn shown(&self) -> ServerHost {
        ServerHost {
            name: self.host.name.clone(),
            site: self.host.site.clone(),
            netns: self.running.netns().or_else(|| self.host.netns()),
            address: self.running.address(),
            pid: self.running.pid(),
        }
    }

    /// Puts the target's processes under its quota.
    pub fn hold_to_quota(&self) -> Result<(), LayError> {
        match (&self.quota, self.running.pid()) {
            (Some(quota), Some(pid)) => quota.take_in(pid),
            _ => Ok(()),
        }
    }

    pub fn alive(&mut self) -> Result<(), String> {
        self.running.alive().map_err(|ended| self.host.blame_end(ended))
    }

    /// Returns what is left.
    pub fn stop(&mut self) -> Vec<String> {
        let mut left = self.running.stop();
        left.extend(self.quota.take().map(|quota| quota.take_away()).unwrap_or_default());
        left
    }
}

impl Engine {
    pub fn shown(&self) -> EngineHost {
        EngineHost {
            name: self.host.name.clone(),
            site: self.host.site.clone(),
            netns: self.host.netns(),
            node: self.client.as_ref().and_then(Client::link),
            pid: self.client.as_ref().map(Client::pid),
        }
    }

    pub fn alive(&mut self) -> Result<(), String> {
        let alive = self.client.as_mut().map_or(Ok(()), Client::alive);
        alive.map_err(|ended| self.host.blame_end(ended))
    }

    /// Returns what is left.
    pub fn stop(&mut self) -> Vec<String> {
        self.client.as_mut().map(Client::stop).unwrap_or_default()
    }
}

/// Does the same to each of several, [`AT_ONCE`] at a time, in their order. The first error of those that
/// failed is returned once all that were begun are done.
pub(crate) fn each<T: Send, R: Send>(
    all: impl IntoIterator<Item = T>,
    cancel: &Cancel,
    work: impl Fn(T) -> Result<R, LayError> + Sync,
) -> Result<Vec<R>, LayError> {
    let mut all = all.into_iter().peekable();
    let mut done = Vec::new();
    while all.peek().is_some() {
        cancel.check()?;
        let some: Vec<T> = all.by_ref().take(AT_ONCE).collect();
        let results: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = some.into_iter().map(|one| scope.spawn(|| work(one))).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        done.extend(results.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_done_in_order_and_the_first_fault_is_the_one_returned() {
        let cancel = Cancel::default();
        let doubled = each(1..=10, &cancel, |n| Ok(n * 2)).unwrap();
        assert_eq!(doubled, (1..=10).map(|n| n * 2).collect::<Vec<_>>());
        let only_two = |n: u32| {
            let fault = || LayError::NoBackend(n.to_string());
            if n == 2 { Ok(n) } else { Err(fault()) }
        };
        assert_eq!(each([2, 3, 5], &cancel, only_two), Err(LayError::NoBackend("3".into())));
    }

    #[test]
    fn a_fault_names_its_host_where_there_are_several_and_the_plans_own_never() {
        let one = Host::of_plan_without_sites("server", None);
        let two = Host { name: "east-s2".into(), site: Some("east".into()), end: None };
        let fault = || LayError::Node { trouble: "was silent".into(), last_words: String::new() };
        assert_eq!(one.blame(fault()).to_string(), "the BEAM node was silent");
        assert_eq!(two.blame(fault()).to_string(), "on host east-s2: the BEAM node was silent");
        assert_eq!(two.blame(LayError::NoErlang), LayError::NoErlang);
        assert_eq!(two.blame_end("it ended".into()), "host east-s2: it ended");
    }
}
