//! The path: two network namespaces, joined by a backend.
//!
//! Source for the shape: mahimahi's packet shells. The addresses are 10.199.0.1 (client) and
//! 10.199.0.2 (server), in namespaces of their own, so that any number of paths may have them.
//! The namespaces are this process's by name, `lr-PID-c` and `lr-PID-s` (`lr-PID.N-c` for the second
//! and later ones of a process); those of processes that no longer live are removed before a path is
//! laid.

use std::net::{IpAddr, Ipv4Addr};

use crate::cancel::Cancel;
use crate::lay_error::LayError;
use crate::netns::prefix;
use crate::netns::{Ip, Netns};
use crate::privileges;
use crate::targets::End;

pub(crate) mod backend;
mod line;
mod netem;
pub(crate) mod proof;

use backend::LaidLink;
pub(crate) use backend::LinkEnd;
pub use backend::LinkMeter;
pub use proof::{Delivered, PathProof, ProofRow};

/// Chosen: nothing routes it by default, and few networks use it.
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 1);
/// See [`CLIENT`].
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 2);

/// Of the device in each namespace.
const DEVICE: &str = "lr0";

/// See the module. Taken away in reverse: first the link, then the namespaces.
#[derive(Debug)]
pub(crate) struct LaidPath {
    link: Box<dyn LaidLink>,
    client: Netns,
    server: Netns,
    proof: PathProof,
}

impl LaidPath {
    /// Lays and proves it.
    pub fn lay(
        asked: &linerate_model::Path,
        verbose: bool,
        cancel: &Cancel,
    ) -> Result<Self, LayError> {
        privileges::check()?;
        let ip = Ip { verbose };
        ip.clear_stale()?;
        let name = prefix();
        let client = Netns::add(ip, format!("{name}-c"))?;
        cancel.check()?;
        let server = Netns::add(ip, format!("{name}-s"))?;
        cancel.check()?;
        for netns in [&client, &server] {
            for (setting, value) in &asked.sysctls {
                netns.set(setting, value)?;
            }
        }
        let near = LinkEnd { netns: &client, device: DEVICE.into(), address: CLIENT };
        let far = LinkEnd { netns: &server, device: DEVICE.into(), address: SERVER };
        let link = backend::join(ip, [&near, &far], asked, cancel)?;
        let proof = proof::prove([&near, &far], asked, cancel)?;
        Ok(Self { link, client, server, proof })
    }

    /// Reads what it carries.
    pub fn meter(&self) -> LinkMeter {
        self.link.meter()
    }

    pub fn client(&self) -> End {
        End { netns: self.client.file.clone(), ip: IpAddr::V4(CLIENT) }
    }

    pub fn server(&self) -> End {
        End { netns: self.server.file.clone(), ip: IpAddr::V4(SERVER) }
    }

    pub fn proof(&self) -> PathProof {
        self.proof.clone()
    }

    /// Returns what is left.
    pub fn take_away(&mut self) -> Vec<String> {
        let mut left = self.link.take_away();
        left.extend([self.server.remove(), self.client.remove()].into_iter().flatten());
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::inside;
    use std::time::Duration;

    impl LaidPath {
        fn prove(&self, asked: &linerate_model::Path) -> Result<PathProof, LayError> {
            let near = LinkEnd { netns: &self.client, device: DEVICE.into(), address: CLIENT };
            let far = LinkEnd { netns: &self.server, device: DEVICE.into(), address: SERVER };
            proof::prove([&near, &far], asked, &Cancel::default())
        }
    }

    #[test]
    fn both_ends_have_the_paths_settings_and_the_host_its_own() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap();
        let before = read();
        let mut asked = linerate_model::Path::of_rtt(Duration::from_millis(1));
        asked.sysctls.insert("net.ipv4.tcp_wmem".into(), "4096 16384 77777".into());
        let laid = LaidPath::lay(&asked, false, &Cancel::default()).unwrap();
        for netns in [&laid.client.file, &laid.server.file] {
            assert!(inside(Some(netns), read).unwrap().trim().ends_with("77777"));
        }
        assert_eq!(read(), before);
        asked.sysctls.insert("net.ipv4.tcp_wmemm".into(), "1".into());
        let error = LaidPath::lay(&asked, false, &Cancel::default()).unwrap_err();
        assert!(error.to_string().contains("no such setting"), "{error}");
    }

    #[test]
    fn a_path_that_delivers_something_else_is_refused_with_both() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (two, ten) = (Duration::from_millis(2), Duration::from_millis(10));
        let cancel = Cancel::default();
        let laid = LaidPath::lay(&linerate_model::Path::of_rtt(two), false, &cancel).unwrap();
        let error = laid.prove(&linerate_model::Path::of_rtt(ten));
        let error = error.unwrap_err();
        assert!(
            matches!(error, LayError::PathOff { asked, delivered, .. }
                if asked == ten && delivered >= two && delivered < ten),
            "{error}"
        );
        assert!(error.to_string().starts_with("the path was asked for a round trip of 10ms"));
    }

    #[test]
    fn a_path_of_another_rate_or_queue_is_refused_by_name() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let path = |rate: f64, queue: u32| linerate_model::Path {
            rate: Some(linerate_model::BitRate(rate)),
            queue: Some(linerate_model::Queue::Packets(queue)),
            ..linerate_model::Path::of_rtt(Duration::from_millis(1))
        };
        let cancel = Cancel::default();
        // A busy machine may keep a path from its proof, or refuse it for another reason; not thrice.
        let laid = (0..3).find_map(|_| LaidPath::lay(&path(20e6, 100), false, &cancel).ok());
        let laid = laid.unwrap();
        for (asked, says) in [
            (path(40e6, 100), "the path was asked for a rate (out) of 40.0 Mbit/s and delivers "),
            (path(20e6, 400), "the path was asked for a queue (out) of 400 packets and delivers "),
        ] {
            let errors: Vec<_> =
                (0..3).map(|_| laid.prove(&asked).unwrap_err().to_string()).collect();
            assert!(errors.iter().any(|error| error.starts_with(says)), "{errors:?}");
        }
    }

    #[test]
    fn a_path_that_delivers_nothing_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let cancel = Cancel::default();
        let rtt = Duration::from_millis(1);
        let mut laid = LaidPath::lay(&linerate_model::Path::of_rtt(rtt), false, &cancel).unwrap();
        laid.link.take_away();
        let error = laid.prove(&linerate_model::Path::of_rtt(rtt));
        // Without its device the address is gone too, and the socket can't be bound.
        assert!(matches!(error, Err(LayError::System { .. } | LayError::PathDead(_))), "{error:?}");
    }
}
