//! Every resource that connections use up. To add one: a function, here or in a file of its own, and its line in
//! [`RESOURCES`].

use crate::ask::{Ask, Place};
use crate::forecast::{Need, Side};
use crate::limits::Limits;
use crate::source_ports::source_ports;

/// What an ask needs of one resource; none where it needs nothing of it, or there is no such limit.
type Resource = fn(&Ask, &Limits) -> Option<Need>;

/// See the module.
pub static RESOURCES: &[Resource] = &[
    engine_descriptors,
    target_descriptors,
    host_files,
    source_ports,
    backlog,
    conntrack,
    vm_ports,
    vm_processes,
    tcp_pages,
    memory,
];

// Chosen: standard streams, epoll, netlink, files of /proc, pipes to the target.
const OTHER_DESCRIPTORS: u64 = 100;

// Chosen: a service's files, its listening sockets, pipes, and a distribution link or two.
const OF_A_TARGET: u64 = 100;

/// Connects under way at once, by engine thread (`linerate_drive`, `OPENING`).
const OPENING: u64 = 32;

/// A node's own processes and ports, before anybody connects.
const OF_A_NODE: u64 = 100;

/// Kernel memory of an established connection's end without data. Unit: bytes.
// Measured: growth of `Slab` in /proc/meminfo by 18,000 ends on loopback that epoll watches, each after one exchange,
// Linux 6.18 on x86-64: 4,168.
const KERNEL_END: u64 = 4_168;

/// The engine's own memory of a connection. Unit: bytes.
// Chosen: the goal for it is 2 KiB at most; bench/RESULTS.md has what it is.
const ENGINE_END: u64 = 2_048;

/// A service's own memory of a connection. Unit: bytes.
// Chosen: between a C server's (some hundred) and that of a process in a BEAM node (4 KiB and up).
const TARGET_END: u64 = 4_096;

fn engine_descriptors(ask: &Ask, limits: &Limits) -> Option<Need> {
    let room = limits.engine_descriptors.map(|has| has.saturating_sub(OTHER_DESCRIPTORS));
    // As many processes as it takes, as far as there may be.
    let processes = match room {
        Some(room @ 1..) => ask.connections.div_ceil(room).clamp(1, ask.processes),
        _ => 1,
    };
    let needs = ask.connections + OTHER_DESCRIPTORS * processes;
    let has = limits.engine_descriptors.map(|has| has.saturating_mul(processes));
    let holds = room.map(|room| room.saturating_mul(ask.processes));
    let each = ask.connections.div_ceil(processes) + OTHER_DESCRIPTORS;
    let (of, more) = match processes {
        1 => (String::new(), String::new()),
        many => (
            format!(" in each of {many} processes"),
            format!(", and makes the load with {many} processes"),
        ),
    };
    Some(Need {
        id: "engine.descriptors",
        side: Side::Engine,
        what: "descriptors of the engine",
        needs,
        has,
        holds,
        unit: "",
        sum: format!("a descriptor each, and {OTHER_DESCRIPTORS} more{of}"),
        is_estimate: false,
        arranged: Some(format!("raises its soft limit to the hard one (RLIMIT_NOFILE){more}")),
        paste: holds
            .is_some_and(|holds| holds < ask.connections)
            .then(|| format!("ulimit -Hn {each} && ulimit -Sn {each}    # as root, in the shell that starts linerate")),
    })
}

fn target_descriptors(ask: &Ask, limits: &Limits) -> Option<Need> {
    // As many at each of several servers, each with a limit of its own.
    let each = ask.connections.div_ceil(ask.servers);
    let (most, used) = limits.target_descriptors.unzip();
    let used = used.unwrap_or(OF_A_TARGET);
    let needs = each.saturating_add(used);
    let holds = most.map(|most| most.saturating_sub(used).saturating_mul(ask.servers));
    let at = if ask.servers > 1 {
        format!(" at each of {} servers", ask.servers)
    } else {
        String::new()
    };
    let line = match ask.is_node {
        true => format!(
            "ulimit -Sn {needs}    # in the shell that starts linerate, its nodes inherit it"
        ),
        false => format!(
            "LimitNOFILE={}    # in [Service] of its unit, and start it again; or prlimit --pid PID --nofile={0}",
            round(needs)
        ),
    };
    Some(Need {
        id: "target.descriptors",
        side: Side::Target,
        what: "descriptors of the target",
        needs,
        has: most,
        holds,
        unit: "",
        sum: format!("a descriptor each{at}, beside {used}"),
        is_estimate: false,
        arranged: None,
        paste: holds.is_some_and(|holds| holds < ask.connections).then_some(line),
    })
}

fn host_files(ask: &Ask, limits: &Limits) -> Option<Need> {
    let (used, most) = limits.files?;
    let ends = ends_here(ask);
    let holds = most.saturating_sub(used) / ends;
    Some(Need {
        id: "host.files",
        side: Side::Host,
        what: "open files of the host",
        needs: ask.connections * ends + used,
        has: Some(most),
        holds: Some(holds),
        unit: "",
        sum: format!("{ends} a connection, beside {used}"),
        is_estimate: false,
        arranged: None,
        paste: (holds < ask.connections)
            .then(|| format!("sysctl -w fs.file-max={}", round(ask.connections * ends + used))),
    })
}

fn backlog(ask: &Ask, limits: &Limits) -> Option<Need> {
    let has = limits.backlog;
    let needs = (OPENING * ask.threads).min(ask.connections);
    Some(Need {
        id: "target.backlog",
        side: Side::Target,
        what: "accept queue of the listening socket",
        needs,
        has,
        // It limits how many come at a time, and not how many there are: the engine never has more on the way.
        holds: None,
        unit: "",
        sum: format!("{} engine threads open {OPENING} at a time", ask.threads),
        is_estimate: false,
        arranged: Some(format!("never has more than {needs} connects under way")),
        paste: has.is_some_and(|has| has < needs).then(|| {
            "raise the backlog that the service gives to listen(), and net.core.somaxconn".into()
        }),
    })
}

fn conntrack(ask: &Ask, limits: &Limits) -> Option<Need> {
    let (used, most) = limits.conntrack?;
    let holds = most.saturating_sub(used);
    Some(Need {
        id: "host.conntrack",
        side: Side::Host,
        what: "entries of connection tracking",
        needs: ask.connections + used,
        has: Some(most),
        holds: Some(holds),
        unit: "",
        sum: format!("an entry each, beside {used}, where a rule has them tracked"),
        is_estimate: false,
        arranged: None,
        paste: (holds < ask.connections).then(|| {
            format!("sysctl -w net.netfilter.nf_conntrack_max={}", round(ask.connections + used))
        }),
    })
}

fn vm_ports(ask: &Ask, limits: &Limits) -> Option<Need> {
    let vm = limits.vm?;
    of_vm(ask, "target.vm_ports", "ports of the virtual machine (+Q)", vm.ports, "+Q")
}

fn vm_processes(ask: &Ask, limits: &Limits) -> Option<Need> {
    let vm = limits.vm?;
    of_vm(ask, "target.vm_processes", "processes of the virtual machine (+P)", vm.processes, "+P")
}

fn of_vm(ask: &Ask, id: &'static str, what: &'static str, has: u64, flag: &str) -> Option<Need> {
    let needs = ask.connections.div_ceil(ask.servers) + OF_A_NODE;
    let holds = has.saturating_sub(OF_A_NODE) * ask.servers;
    Some(Need {
        id,
        side: Side::Target,
        what,
        needs,
        has: Some(has),
        holds: Some(holds),
        unit: "",
        sum: format!("one each, beside {OF_A_NODE} of the node's own"),
        is_estimate: false,
        arranged: None,
        paste: (holds < ask.connections).then(|| {
            format!(
                "{flag} {}    # flag of erl; target.vm_flags in a plan",
                needs.next_power_of_two()
            )
        }),
    })
}

fn tcp_pages(ask: &Ask, limits: &Limits) -> Option<Need> {
    let (used, most) = (limits.tcp_pages?.0, limits.tcp_pages?.1);
    let ends = ends_here(ask);
    let holds = most.saturating_sub(used) / ends;
    Some(Need {
        id: "host.tcp_mem",
        side: Side::Host,
        what: "memory of TCP's buffers (tcp_mem)",
        needs: (ask.connections * ends + used) * limits.page,
        has: Some(most * limits.page),
        holds: Some(holds),
        unit: "bytes",
        sum: "a page for each end with data under way, were all of them active at once".into(),
        is_estimate: true,
        arranged: None,
        paste: (holds < ask.connections).then(|| {
            let pages = round(ask.connections * ends + used);
            format!("sysctl -w net.ipv4.tcp_mem='{} {} {pages}'", pages / 2, pages * 3 / 4)
        }),
    })
}

fn memory(ask: &Ask, limits: &Limits) -> Option<Need> {
    let ends = ends_here(ask);
    let (each, what) = match ask.place {
        Place::Here => (
            ends * KERNEL_END + ENGINE_END + TARGET_END,
            "engine, target and the kernel's two ends",
        ),
        Place::Elsewhere => (
            KERNEL_END + ENGINE_END,
            "engine and the kernel's end here; the target's host is unknown",
        ),
    };
    let holds = limits.memory.map(|has| has / each);
    Some(Need {
        id: "host.memory",
        side: Side::Host,
        what: "memory",
        needs: ask.connections * each,
        has: limits.memory,
        holds,
        unit: "bytes",
        sum: format!("{each} bytes each: {what}"),
        is_estimate: true,
        arranged: None,
        paste: holds
            .is_some_and(|holds| holds < ask.connections)
            .then(|| "fewer connections, or a host with more memory: no setting gives it".into()),
    })
}

/// How many of a connection's two ends are on this host.
fn ends_here(ask: &Ask) -> u64 {
    match ask.place {
        Place::Here => 2,
        Place::Elsewhere => 1,
    }
}

/// Somewhat more than asked for, and a number that people would write.
fn round(number: u64) -> u64 {
    number.saturating_add(number / 10).next_multiple_of(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::forecast;
    use crate::limits::Vm;

    fn ask(connections: u64) -> Ask {
        Ask {
            connections,
            servers: 1,
            processes: 1,
            threads: 2,
            place: Place::Here,
            is_node: false,
            local_ports: None,
            sources: 1,
            is_loopback: false,
        }
    }

    fn roomy() -> Limits {
        Limits {
            engine_descriptors: Some(1_000_000),
            target_descriptors: Some((1_000_000, 20)),
            files: Some((1_000, 10_000_000)),
            port_range: Some((32_768, 60_999)),
            reserved_ports: 0,
            backlog: Some(4_096),
            conntrack: None,
            tcp_pages: Some((100, 1_000_000)),
            page: 4_096,
            memory: Some(16 << 30),
            vm: None,
        }
    }

    /// Asked for 20,000, what ends it first, and where.
    fn first(limits: &Limits) -> (&'static str, u64) {
        let forecast = forecast(&ask(20_000), limits);
        (forecast.needs[0].id, forecast.needs[0].holds.unwrap())
    }

    #[test]
    fn an_engine_of_several_processes_has_the_descriptors_of_all() {
        let limits = Limits { engine_descriptors: Some(1_100), ..roomy() };
        let of = |processes| {
            let ask = Ask { processes, ..ask(3_500) };
            let need = engine_descriptors(&ask, &limits).unwrap();
            (need.needs, need.has.unwrap(), need.holds.unwrap())
        };
        // Four of 1,000 each, of 256 that there may be.
        assert_eq!(of(256), (3_900, 4_400, 256_000));
        assert_eq!(of(2), (3_700, 2_200, 2_000));
        assert_eq!(of(1), (3_600, 1_100, 1_000));
    }

    #[test]
    fn each_limit_is_the_first_where_it_is_the_least() {
        // 60,999 - 32,768 + 1 ports.
        assert_eq!(first(&roomy()), ("engine.source_ports", 28_232));
        let with = |change: fn(&mut Limits)| {
            let mut limits = roomy();
            change(&mut limits);
            first(&limits)
        };
        assert_eq!(with(|it| it.engine_descriptors = Some(1_000)), ("engine.descriptors", 900));
        assert_eq!(
            with(|it| it.target_descriptors = Some((1_000, 30))),
            ("target.descriptors", 970)
        );
        // Both ends are here.
        assert_eq!(with(|it| it.files = Some((1_000, 3_000))), ("host.files", 1_000));
        assert_eq!(
            with(|it| it.port_range = Some((40_000, 40_999))),
            ("engine.source_ports", 1_000)
        );
        assert_eq!(with(|it| it.reserved_ports = 28_000), ("engine.source_ports", 232));
        assert_eq!(with(|it| it.conntrack = Some((12, 512))), ("host.conntrack", 500));
        let vm = with(|it| it.vm = Some(Vm { ports: 1_024, processes: 262_144 }));
        assert_eq!(vm, ("target.vm_ports", 924));
        let vm = with(|it| it.vm = Some(Vm { ports: 65_536, processes: 1_024 }));
        assert_eq!(vm, ("target.vm_processes", 924));
        assert_eq!(with(|it| it.tcp_pages = Some((0, 2_000))), ("host.tcp_mem", 1_000));
        // 2 x 4,168 + 2,048 + 4,096 = 14,480 bytes each: 64 MiB hold 4,634.
        assert_eq!(with(|it| it.memory = Some(64 << 20)), ("host.memory", 4_634));
    }

    #[test]
    fn more_source_addresses_are_more_ports_and_loopback_has_them() {
        let limits = Limits { port_range: Some((40_000, 40_999)), ..roomy() };
        let of = |ask: Ask| {
            let all = forecast(&ask, &limits).needs;
            let need = all.into_iter().find(|need| need.id == "engine.source_ports").unwrap();
            (need.holds.unwrap(), need.paste.unwrap_or_default())
        };
        let loopback = Ask { is_loopback: true, ..ask(2_100) };
        let (holds, paste) = of(loopback.clone());
        assert!(holds == 1_000 && paste.starts_with("-k engine.sources=127.0.0.1-127.0.0.3 "));
        assert_eq!(of(Ask { sources: 5, ..loopback }), (5_000, String::new()));
        assert!(of(ask(2_100)).1.starts_with("sysctl "));
        // Past half of them the kernel is slow to find one.
        let of_many = |connections| of(Ask { is_loopback: true, ..ask(connections) }).1;
        assert!(of_many(501).starts_with("-k engine.sources=127.0.0.1-127.0.0.2 "));
        assert_eq!(of_many(500), "");
    }

    #[test]
    fn an_ask_that_fits_has_nothing_to_paste_and_one_that_does_not_has_a_line_for_each_shortage() {
        let fits = forecast(&ask(20_000), &roomy());
        assert!(fits.fits());
        assert!(fits.needs.iter().all(|need| need.paste.is_none()), "{fits:#?}");
        let not = forecast(&ask(100_000_000), &Limits { conntrack: Some((0, 10)), ..roomy() });
        assert!(!not.fits());
        assert!(not.short().count() >= 7);
        assert!(not.short().all(|need| need.paste.is_some()), "{not:#?}");
    }

    #[test]
    fn what_is_not_known_ends_nothing_and_stands_last() {
        let forecast = forecast(&ask(1 << 40), &Limits::default());
        assert!(forecast.fits());
        assert_eq!(forecast.holds, None);
        assert!(forecast.needs.iter().all(|need| need.holds.is_none()));
    }

    #[test]
    fn what_it_holds_is_what_fits_and_one_more_does_not() {
        // Whatever the resource: its own arithmetic forwards and backwards agree.
        let limits = Limits {
            conntrack: Some((7, 5_000)),
            vm: Some(Vm { ports: 65_536, processes: 262_144 }),
            ..roomy()
        };
        for servers in [1, 3] {
            for of in RESOURCES {
                let at = |connections| of(&Ask { servers, ..ask(connections) }, &limits).unwrap();
                let Some(holds) = at(1).holds else { continue };
                let (fits, over) = (at(holds), at(holds + 1));
                assert!(fits.needs <= fits.has.unwrap(), "{fits:?}");
                assert!(over.needs > over.has.unwrap(), "{over:?}");
            }
        }
    }

    #[test]
    fn flags_of_a_node_set_its_limits_and_are_rounded_up_as_it_does() {
        let of = |flags: &[&str]| {
            let flags: Vec<_> = flags.iter().map(|word| (*word).to_owned()).collect();
            Vm::of_flags(&flags, Some(20_000))
        };
        assert_eq!(of(&[]), Vm { ports: 65_536, processes: 262_144 });
        assert_eq!(of(&["+Q", "1000"]).ports, 1_024);
        assert_eq!(of(&["+P 300000"]).processes, 524_288);
        assert_eq!(Vm::of_flags(&[], Some(1 << 20)).ports, 1 << 20);
    }
}
