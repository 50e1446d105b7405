//! Other hosts of the engine: a BEAM node on each is reached as `doctor` reaches any, or started there by ssh, and is given
//! this program.

use std::path::PathBuf;
use std::sync::Arc;

use linerate_beam::{BadPlace, Cookie, Host, Node, SSH, SshNode, TlsFiles, Where};
use linerate_model::Plan;

use crate::error::RunError;

/// What is needed beside their names.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The file that holds their cookie; none: as [`Cookie::find`] finds it.
    pub cookie_file: Option<PathBuf>,
    /// Distribution over TLS.
    pub tls: Option<TlsFiles>,
    /// The command that is ssh, with arguments in front; empty: `ssh`.
    pub ssh: Vec<String>,
}

/// `load@10.0.1.1:9100`: with the port of its distribution EPMD is not asked. An IPv6 address has more colons, and no port.
fn node_and_port(text: &str) -> (&str, Option<u16>) {
    match text.rsplit_once(':') {
        Some((node, port)) if !node.contains(':') && node.contains('@') => match port.parse() {
            Ok(port) => (node, Some(port)),
            Err(_) => (text, None),
        },
        _ => (text, None),
    }
}

/// A node that runs there.
fn of_node(name: &str, access: &Access, cookie: &Cookie) -> Result<Host, String> {
    let (node, port) = node_and_port(name);
    let place: Where = node.parse().map_err(|bad: BadPlace| bad.to_string())?;
    let place = Where { tls: access.tls.clone(), port, ..place };
    let node = Node::connect(&place, cookie).map_err(|no| no.to_string())?;
    Host::of(node).map_err(|fault| fault.to_string())
}

/// A node that ssh starts there.
fn of_ssh(name: &str, access: &Access) -> Result<Host, String> {
    let started = SshNode::start(name, &access.ssh).map_err(|why| why.to_string())?;
    let node = Node::connect(started.place(), started.cookie());
    let node = node.map_err(|no| match started.not_forwarded() {
        Some(why) => why.to_string(),
        None => no.to_string(),
    })?;
    Host::of_started(node, started, name).map_err(|fault| fault.to_string())
}

/// Reaches all of the plan's, all at the same time, and has each have this program. All are there, or
/// no run is made.
pub(crate) fn reach(plan: &Plan, access: &Access) -> Result<Vec<Host>, RunError> {
    let names = &plan.engine.hosts;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |host: &str, why: &dyn std::fmt::Display| {
        RunError::Host(format!("engine.hosts: {host}: {why}"))
    };
    // Nodes that are started here have a cookie of their own.
    let cookie = match names.iter().all(|name| name.starts_with(SSH)) {
        true => None,
        false => Some(Cookie::find(access.cookie_file.as_deref()))
            .transpose()
            .map_err(|no| RunError::Host(no.to_string()))?,
    };
    // The file that this process was made of, whatever has its name now.
    let program = std::fs::read("/proc/self/exe").map_err(RunError::Kernel)?;
    let program: Arc<[u8]> = program.into();
    let md5 = md5::compute(&program).0;
    let (program, md5, cookie) = (&program, &md5, cookie.as_ref());
    let one = |name: &String| {
        let host = match cookie {
            Some(cookie) if !name.starts_with(SSH) => of_node(name, access, cookie),
            _ => of_ssh(name, access),
        };
        let host = host.map_err(|why| failed(name, &why))?;
        let (own, other) = (std::env::consts::ARCH, host.architecture());
        if !other.starts_with(own) {
            let why = format!(
                "it is {other}, and this program is for {own}: run a linerate of that kind on a host of that kind"
            );
            return Err(failed(name, &why));
        }
        host.deliver(program, md5).map_err(|fault| failed(name, &fault))?;
        Ok(host)
    };
    std::thread::scope(|scope| {
        let reached: Vec<_> = names.iter().map(|name| scope.spawn(|| one(name))).collect();
        let joined = reached
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        // All threads are waited for, whichever fails.
        joined.collect::<Vec<_>>().into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_what_follows_the_only_colon() {
        assert_eq!(node_and_port("load@10.0.1.1:9100"), ("load@10.0.1.1", Some(9_100)));
        assert_eq!(node_and_port("load@10.0.1.1"), ("load@10.0.1.1", None));
        assert_eq!(node_and_port("load@fe80::1"), ("load@fe80::1", None));
        assert_eq!(node_and_port("load@a:b"), ("load@a:b", None));
    }
}
