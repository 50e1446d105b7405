//! Sites: a network namespace a host, and one a site with a bridge in it, which is switch and router.
//!
//! Host 1 of the second site has 10.199.2.1 if it is a server, 10.199.2.101 if it makes load, and its
//! site's router 10.199.2.254, each in a /24 at MTU 1500. A backend lays a link between two routers, with
//! no addresses but the routers' own. Packets are forwarded by the kernel, in the routers' namespaces
//! alone; between hosts of one site they are only switched. All devices are made inside the namespaces:
//! the host's own has none of them, and no address, route or setting changes there.
//!
//! Blind spot: a switch and two routers cost CPU time of this machine, as emulated networks do.

use std::net::{IpAddr, Ipv4Addr};

use linerate_model::{Link, Plan, Site};

use crate::cancel::Cancel;
use crate::hosts::Host;
use crate::lay_error::LayError;
use crate::netns::{Ip, Netns, prefix};
use crate::path::backend::{LaidLink, LinkEnd, join};
use crate::path::proof::prove;
use crate::path::{LinkMeter, PathProof};
use crate::privileges;
use crate::targets::End;

/// Of each host's one device.
const DEVICE: &str = "eth0";

/// Source: Ethernet's.
const MTU: &str = "1500";

/// Of a site's router among its 254.
const ROUTER: u8 = 254;

/// Of the first host that makes load.
const FIRST_ENGINE: u8 = 101;

/// What a host is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    Server,
    Engine,
}

/// A host's namespace.
#[derive(Debug)]
struct LaidHost {
    host: Host,
    role: Role,
    netns: Netns,
    address: Ipv4Addr,
    /// Of the router's device that leads to it: `s1`.
    port: String,
}

/// A link between two sites, proven.
#[derive(Debug)]
struct LaidBetween {
    /// `east-west`.
    name: String,
    link: Box<dyn LaidLink>,
    proof: PathProof,
}

/// See the module. Taken away in reverse.
#[derive(Debug, Default)]
pub(crate) struct LaidSites {
    links: Vec<LaidBetween>,
    hosts: Vec<LaidHost>,
    /// As the plan's sites.
    routers: Vec<Netns>,
}

impl LaidSites {
    /// Lays and proves them. What was laid is taken away again if one can't be.
    pub fn lay(plan: &Plan, verbose: bool, cancel: &Cancel) -> Result<Self, LayError> {
        privileges::check()?;
        let ip = Ip { verbose };
        ip.clear_stale()?;
        let prefix = prefix();
        let mut laid = Self::default();
        for (site, number) in plan.sites.iter().zip(1..) {
            laid.lay_site(ip, &prefix, site, number, cancel)?;
        }
        for (link, index) in plan.links.iter().zip(0..) {
            laid.lay_link(ip, plan, link, index, cancel)?;
        }
        Ok(laid)
    }

    fn lay_site(
        &mut self,
        ip: Ip,
        prefix: &str,
        site: &Site,
        number: u8,
        cancel: &Cancel,
    ) -> Result<(), LayError> {
        let address = |host| Ipv4Addr::new(10, 199, number, host);
        let first = self.hosts.len();
        for (count, role, letter, lowest) in
            [(site.servers, Role::Server, 's', 1), (site.engines, Role::Engine, 'e', FIRST_ENGINE)]
        {
            for (nth, host) in (1..=count).zip(lowest..) {
                cancel.check()?;
                let port = format!("{letter}{nth}");
                let name = format!("{}-{port}", site.name);
                let netns = Netns::add(ip, format!("{prefix}-{name}"))?;
                let address = address(host);
                let end = End { netns: netns.file.clone(), ip: IpAddr::V4(address) };
                let host = Host { name, site: Some(site.name.clone()), end: Some(end) };
                self.hosts.push(LaidHost { host, role, netns, address, port });
            }
        }
        let router = Netns::add(ip, format!("{prefix}-{}", site.name))?;
        let hosts = &self.hosts[first..];
        router.batch(&switch(address(ROUTER), hosts)).map_err(no_such_device)?;
        for host in hosts {
            host.netns.batch(&wire(host.address, address(ROUTER)))?;
        }
        router.set("net.ipv4.ip_forward", "1")?;
        self.routers.push(router);
        cancel.check()
    }

    fn lay_link(
        &mut self,
        ip: Ip,
        plan: &Plan,
        link: &Link,
        index: usize,
        cancel: &Cancel,
    ) -> Result<(), LayError> {
        let ends = link.between.each_ref().map(|name| {
            let site = plan.sites.iter().position(|site| site.name == *name);
            // `Plan::check` refuses a link to nowhere; a plan made by hand may skip it.
            let site =
                site.and_then(|site| Some((self.routers.get(site)?, u8::try_from(site + 1).ok()?)));
            site.ok_or_else(|| LayError::NoBackend(format!("`{name}` is no site of the plan")))
        });
        let [near, far] = ends;
        let end = |(netns, site): (_, u8)| LinkEnd {
            netns,
            device: format!("l{index}"),
            address: Ipv4Addr::new(10, 199, site, ROUTER),
        };
        let (near, far) = (end(near?), end(far?));
        let joined = join(ip, [&near, &far], &link.path, cancel)?;
        for (from, to) in [(&near, &far), (&far, &near)] {
            let [a, b, c, _] = to.address.octets();
            let (network, router) = (format!("{a}.{b}.{c}.0/24"), to.address.to_string());
            let by = ["route", "add", &network, "via", &router, "dev", &from.device];
            from.netns.run(&by)?;
        }
        for host in &self.hosts {
            if host.host.site.as_ref().is_some_and(|site| link.between.contains(site)) {
                for (setting, value) in &link.path.sysctls {
                    host.netns.set(setting, value)?;
                }
            }
        }
        let proof = prove([&near, &far], &link.path, cancel)?;
        self.links.push(LaidBetween { name: link.between.join("-"), link: joined, proof });
        Ok(())
    }

    fn of(&self, role: Role) -> Vec<Host> {
        let hosts = self.hosts.iter().filter(|host| host.role == role);
        hosts.map(|host| host.host.clone()).collect()
    }

    /// Hosts that have the target, in the order of the plan's sites.
    pub fn servers(&self) -> Vec<Host> {
        self.of(Role::Server)
    }

    /// Hosts that make the load.
    pub fn engines(&self) -> Vec<Host> {
        self.of(Role::Engine)
    }

    /// What reads each link, in the order of the plan's.
    pub fn meters(&self) -> Vec<(String, LinkMeter)> {
        self.links.iter().map(|laid| (laid.name.clone(), laid.link.meter())).collect()
    }

    /// What each link was asked for and delivered.
    pub fn proofs(&self) -> Vec<(String, PathProof)> {
        self.links.iter().map(|laid| (laid.name.clone(), laid.proof.clone())).collect()
    }

    /// Returns what is left.
    pub fn take_away(&mut self) -> Vec<String> {
        let mut left: Vec<_> =
            self.links.drain(..).rev().flat_map(|mut laid| laid.link.take_away()).collect();
        let hosts = self.hosts.drain(..).map(|host| host.netns);
        let namespaces = hosts.chain(self.routers.drain(..));
        left.extend(namespaces.filter_map(|mut netns| netns.remove()));
        left
    }
}

/// What makes a site's namespace its switch and router. A device without an address of its own making
/// (addrgenmode) sends nothing by itself; the ports of a bridge without STP forward at once.
fn switch(own: Ipv4Addr, hosts: &[LaidHost]) -> Vec<String> {
    let mut commands = vec![
        "link set lo up".to_owned(),
        "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0".to_owned(),
        format!("link set br0 addrgenmode none mtu {MTU} up"),
        format!("address add {own}/24 dev br0"),
    ];
    for LaidHost { port, netns, .. } in hosts {
        let name = &netns.name;
        commands.push(format!("link add {port} type veth peer name {DEVICE} netns {name}"));
        commands.push(format!("link set {port} addrgenmode none mtu {MTU} master br0 up"));
    }
    commands
}

/// What a host's namespace is given besides its device.
fn wire(own: Ipv4Addr, router: Ipv4Addr) -> Vec<String> {
    vec![
        "link set lo up".to_owned(),
        format!("link set {DEVICE} addrgenmode none mtu {MTU} up"),
        format!("address add {own}/24 dev {DEVICE}"),
        format!("route add default via {router}"),
    ]
}

/// A kernel without bridges says so in words that only its authors know.
fn no_such_device(error: LayError) -> LayError {
    match error {
        LayError::Command { command, reason }
            if reason.contains("Unknown device type") || reason.contains("not supported") =>
        {
            let reason = format!(
                "{reason} this kernel has no such devices; load their modules (`modprobe bridge veth`), or leave [[sites]] out"
            );
            LayError::Command { command, reason }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::one_at_a_time;
    use crate::process::inside;

    fn plan(more: &str) -> Plan {
        Plan::from_toml(&format!("[target]\nbeam = 'echo'\n{more}")).unwrap()
    }

    const THREE: &str = "[[sites]]\nname = 'east'\nservers = 2\nengines = 1\n\
                         [[sites]]\nname = 'west'\nservers = 1\nengines = 1\n\
                         [[sites]]\nname = 'far'\nservers = 1\n\
                         [[links]]\nbetween = ['east', 'west']\npath = { rtt = '20ms', tolerance = '1s', sysctls = { 'net.ipv4.tcp_fin_timeout' = '7' } }\n\
                         [[links]]\nbetween = ['far', 'east']\npath = { rtt = '100ms', tolerance = '1s' }\n\
                         [[links]]\nbetween = ['far', 'west']\npath = { rtt = '20ms', tolerance = '1s' }\n";

    #[test]
    fn hosts_reach_each_other_by_the_links_between_their_sites() {
        let Some(_one) = one_at_a_time() else { return };
        let laid = LaidSites::lay(&plan(THREE), false, &Cancel::default()).unwrap();
        let names = |hosts: &[Host]| hosts.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&laid.servers()), ["east-s1", "east-s2", "west-s1", "far-s1"]);
        assert_eq!(names(&laid.engines()), ["east-e1", "west-e1"]);
        let servers = laid.servers();
        let ends: Vec<_> = servers.iter().map(|host| host.end.clone().unwrap()).collect();
        assert_eq!(ends[3].ip.to_string(), "10.199.3.1");

        // One way to each server and back: the shortest of a few, since nothing makes a trip shorter.
        let shortest = |from: &Host, to: &End| {
            let at = |netns: &std::path::Path, ip: IpAddr| {
                inside(Some(netns), || std::net::UdpSocket::bind((ip, 0)).unwrap()).unwrap()
            };
            let from = from.end.clone().unwrap();
            let (here, there) = (at(&from.netns, from.ip), at(&to.netns, to.ip));
            let patience = Some(std::time::Duration::from_secs(5));
            here.set_read_timeout(patience).unwrap();
            there.set_read_timeout(patience).unwrap();
            let trip = |_| {
                let began = std::time::Instant::now();
                here.send_to(b"out", there.local_addr().unwrap()).unwrap();
                let (_, sender) = there.recv_from(&mut [0; 8]).unwrap();
                assert_eq!(sender.ip(), from.ip, "no address is translated");
                there.send_to(b"back", sender).unwrap();
                here.recv_from(&mut [0; 8]).unwrap();
                began.elapsed().as_secs_f64() * 1e3
            };
            (0..9).map(trip).fold(f64::MAX, f64::min)
        };
        let engines = laid.engines();
        let trips: Vec<_> = ends.iter().map(|end| shortest(&engines[0], end)).collect();
        assert!(trips[0] < 15.0 && trips[1] < 15.0, "its own site has no link: {trips:?}");
        assert!((19.9..80.0).contains(&trips[2]), "20 ms to west: {trips:?}");
        assert!(trips[3] >= 99.9, "100 ms to far: {trips:?}");
        let far = shortest(&engines[1], &ends[3]);
        assert!(far < 80.0, "not by way of east: {far}");

        let proofs = laid.proofs();
        let linked: Vec<_> = proofs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(linked, ["east-west", "far-east", "far-west"]);
        assert_eq!(laid.meters().len(), 3);
        // Settings are those of the hosts at both ends of the link, and of no other.
        let set = |end: &End| {
            let file = "/proc/sys/net/ipv4/tcp_fin_timeout";
            inside(Some(&end.netns), || std::fs::read_to_string(file).unwrap()).unwrap()
        };
        assert_eq!([set(&ends[0]), set(&ends[2])], ["7\n", "7\n"]);
        assert_ne!(set(&ends[3]), "7\n");
    }

    #[test]
    fn taken_away_nothing_is_left_and_the_host_has_seen_nothing_of_it() {
        let Some(_one) = one_at_a_time() else { return };
        let host = || {
            let ip = |words: &[&str]| {
                let output = std::process::Command::new("ip").args(words).output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            };
            let forward = std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap();
            (ip(&["-o", "link"]), ip(&["route", "show", "table", "all"]), forward)
        };
        let before = host();
        let mut laid = LaidSites::lay(&plan(THREE), false, &Cancel::default()).unwrap();
        let files: Vec<_> = laid.hosts.iter().map(|host| host.netns.file.clone()).collect();
        assert!(files.iter().all(|file| file.exists()));
        assert_eq!(host(), before);
        assert_eq!(laid.take_away(), Vec::<String>::new());
        assert!(!files.iter().any(|file| file.exists()));
        assert_eq!(host(), before);
    }

    #[test]
    fn a_kernel_without_bridges_is_told_which_modules_to_load() {
        let reason = "Error: Unknown device type.".to_owned();
        let error = LayError::Command { command: "ip link add".into(), reason };
        let said = no_such_device(error).to_string();
        assert!(said.contains("load their modules (`modprobe bridge veth`)"), "{said}");
    }
}
