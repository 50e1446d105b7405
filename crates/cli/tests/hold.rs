//! `linerate capacity --hold`: users come until the first limit, which is named; each limit is planted.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::geteuid;
use serde_json::Value;
use tempfile::TempDir;

mod nodes;
mod ours;
mod schemas;

use nodes::Node;
use ours::cpus::{has_the_cpus, shares_the_cpus};
use ours::{Linerate, needs};

const LONG: Duration = Duration::from_secs(60);

/// Of this command, whose users speak `line`: the exit code, what was found, and what was said. The words are those
/// of a shell, without its quotes.
fn hold_line(command: &str, words: &str) -> (i32, Value, String) {
    climb(["--command", command, "--protocol", "line"].into_iter().chain(words.split(' ')))
}

/// The same in a network namespace of its own, in which this shell's line was run.
fn hold_line_in(prepared: &str, command: &str, words: &str) -> (i32, Value, String) {
    needs(&["unshare", "ip", "nft"]);
    let mut shell = Command::new("unshare");
    let script = format!("ip link set lo up && {prepared} && exec \"$@\"");
    shell.args(["--net", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_linerate")]);
    shell.args(AS_ALL).args(["--command", command, "--protocol", "line"]).args(words.split(' '));
    found(Linerate::spawn(TempDir::new().unwrap(), shell, |_| {}))
}

const AS_ALL: [&str; 4] = ["capacity", "--hold=1s", "--settle=500ms", "--json"];

fn climb<'a>(words: impl Iterator<Item = &'a str>) -> (i32, Value, String) {
    found(Linerate::start(&AS_ALL.into_iter().chain(words).collect::<Vec<_>>()))
}

fn found(mut linerate: Linerate) -> (i32, Value, String) {
    let code = linerate.end(LONG);
    let document = linerate.json();
    schemas::assert_as_promised("capacity", &document);
    let held = document["held"].clone();
    assert_accounted(&held);
    (code, held, linerate.err())
}

/// asked = connecting + logging in + online + failed + closed.
fn assert_accounted(held: &Value) {
    let account = &held["account"];
    let of = |key: &str| account[key].as_u64().unwrap();
    let failed: u64 =
        account["failed"].as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
    let known = of("connecting") + of("logging_in") + of("online") + of("closed");
    assert_eq!(of("asked"), known + failed, "{account:#}");
}

fn limit(held: &Value) -> &str {
    held["limit"]["id"].as_str().unwrap_or("none")
}

/// The command that starts the chat of these tests, in a shell that does something before.
fn chat(before: &str, options: &str) -> String {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/chat.py");
    format!("sh -c '{before} exec python3 {} {{port}} {options}'", server.display())
}

#[test]
fn all_users_are_held_where_there_is_no_limit_and_what_they_cost_is_told_apart() {
    let _cpus = shares_the_cpus();
    let command = chat("", "each=20000");
    let words = "-c 600 --mix idle=50,active=50@exp:500ms --levels 6";
    let (code, held, err) = hold_line(&command, words);
    assert_eq!((code, limit(&held)), (0, "none"), "{err} {held:#}");
    assert_eq!((&held["held"], &held["fewest_in_hold"]), (&600.into(), &600.into()));
    let classes = held["classes"].as_array().unwrap();
    let count = |class: usize, what: &str| classes[class][what]["count"].as_u64().unwrap_or(0);
    assert_eq!((count(0, "login"), count(1, "login")), (300, 300));
    assert_eq!(count(0, "delivered"), 0);
    assert!(count(1, "delivered") > 100 && count(1, "answered") > 100, "{classes:#?}");
    let costs = held["costs"].as_array().unwrap();
    let rss = costs.iter().find(|cost| cost["kind"] == "target.rss").unwrap();
    let (bytes, within) = (&rss["idle"]["bytes"], &rss["idle"]["within"]);
    let (bytes, within) = (bytes.as_f64().unwrap(), within.as_f64().unwrap());
    // The server keeps 20,000 bytes of each by plan, beside what Python has of it.
    assert!(bytes + within > 20_000.0 && bytes - within < 40_000.0, "{rss:#}");
    assert!(held["fit"]["users"].as_u64().unwrap() > 1_000, "{held:#}");
}

#[test]
fn a_target_that_may_open_a_thousand_descriptors_is_named_by_them() {
    let _cpus = shares_the_cpus();
    let command = chat("ulimit -n 1000;", "");
    let (code, held, err) = hold_line(&command, "-c 3000 --levels 12 --timeout 3s");
    assert_eq!((code, limit(&held)), (0, "target.descriptors"), "{err} {held:#}");
    assert_eq!(held["held"], 750, "{held:#}");
    let most = held["most_online"].as_u64().unwrap();
    assert!((970..1_000).contains(&most), "{most}");
    // Connected by the kernel, and nobody answers.
    let failed = held["met"]["failed"].as_object().unwrap();
    assert!(failed.contains_key("timed out while logging in"), "{failed:?}");
}

#[test]
fn an_accept_queue_that_a_burst_overruns_is_named() {
    let _cpus = has_the_cpus();
    let command = chat("", "backlog=5 accept_ms=20");
    let (code, held, err) =
        hold_line(&command, "-c 400 --levels 2 --timeout 2s --arrival-rate 100k");
    assert_eq!((code, limit(&held)), (1, "target.backlog"), "{err} {held:#}");
    assert!(err.contains("0 users are held: target.backlog"), "{err}");
}

#[test]
fn one_slow_acceptor_is_named_with_what_it_accepts_a_second() {
    let _cpus = has_the_cpus();
    // 50 a second, of 200 that come.
    let command = chat("", "accept_ms=20");
    let words = "-c 600 --levels 6 --mix idle=1 --timeout 1s --arrival-rate 200";
    let (_, held, err) = hold_line(&command, words);
    assert_eq!(limit(&held), "target.acceptor", "{err} {held:#}");
    let says = held["limit"]["says"].as_str().unwrap();
    let (_, rate) = says.rsplit_once("it accepts ").unwrap_or_else(|| panic!("{says}"));
    let rate: f64 = rate.split(' ').next().unwrap().parse().unwrap();
    assert!((30.0..55.0).contains(&rate), "{says}");
}

#[test]
fn a_service_that_accepts_nobody_any_more_is_named_whether_its_users_log_in_or_not() {
    let _cpus = shares_the_cpus();
    let command = chat("", "accepts=130");
    let (_, held, err) = hold_line(&command, "-c 500 --levels 5 --mix idle=1 --timeout 1s");
    assert_eq!(
        (limit(&held), &held["held"]),
        ("target.accept_suspended", &100.into()),
        "{err} {held:#}"
    );
    // The kernel completes what it accepts for nobody.
    let (_, held, err) = climb(["--command", &command, "-c", "500", "--levels", "5"].into_iter());
    assert_eq!(
        (limit(&held), &held["held"]),
        ("target.accept_suspended", &100.into()),
        "{err} {held:#}"
    );
    // One that was accepted was linerate's own, to see whether the service is up.
    assert!((70..=71).contains(&held["levels"][1]["not_accepted"].as_u64().unwrap()), "{held:#}");
}

#[test]
fn logins_that_take_the_services_cpu_are_named_with_what_each_takes() {
    let _cpus = has_the_cpus();
    let command = chat("", "login_ms=20");
    let words = "-c 600 --levels 6 --mix idle=1 --timeout 1s --arrival-rate 200";
    let (_, held, err) = hold_line(&command, words);
    assert_eq!(limit(&held), "target.login_cpu", "{err} {held:#}");
}

#[test]
fn source_ports_that_are_used_up_are_foretold_and_named() {
    let _cpus = shares_the_cpus();
    if !geteuid().is_root() {
        return;
    }
    let ports = "echo 40000 40999 > /proc/sys/net/ipv4/ip_local_port_range";
    let (code, held, err) = hold_line_in(ports, &chat("", ""), "-c 2100 --levels 7 --mix idle=1");
    assert_eq!((code, limit(&held)), (0, "engine.source_ports"), "{err} {held:#}");
    assert_eq!(
        (&held["held"], &held["foretold"]["id"]),
        (&900.into(), &"engine.source_ports".into())
    );
    assert_eq!(held["foretold"]["holds"], 1_000);
    assert!((990..=1_000).contains(&held["most_online"].as_u64().unwrap()), "{held:#}");
    // With as many source addresses as the forecast says they are no limit any more.
    let words = "-c 2100 --levels 3 --mix idle=1 -k engine.sources=127.0.0.1-127.0.0.3";
    let (code, held, err) = hold_line_in(ports, &chat("", ""), words);
    assert_eq!((code, limit(&held), &held["held"]), (0, "none", &2_100.into()), "{err} {held:#}");
}

/// Has connections tracked; with what is to become of new ones.
fn tracked(rule: &str) -> String {
    format!(
        "nft 'table ip t {{ chain in {{ type filter hook input priority 0; tcp dport > 0 ct state new {rule}; }}; }}'"
    )
}

#[test]
fn connections_that_a_packet_filter_counts_to_500_are_named_by_it() {
    let _cpus = shares_the_cpus();
    if !geteuid().is_root() {
        return;
    }
    let rule = tracked("ct count over 500 drop");
    let words = "-c 900 --levels 9 --mix idle=1 --timeout 2s";
    let (code, held, err) = hold_line_in(&rule, &chat("", ""), words);
    assert_eq!((code, limit(&held)), (0, "host.packet_filter"), "{err} {held:#}");
    assert_eq!((&held["held"], &held["most_online"]), (&500.into(), &500.into()), "{held:#}");
    let says = held["limit"]["says"].as_str().unwrap();
    assert!(says.contains(" connections are tracked here"), "{says}");
}

/// The chat of these tests at this port, until it is dropped.
struct Chat(std::process::Child);

impl Chat {
    fn start(port: u16, options: &[&str]) -> Self {
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/chat.py");
        let mut command = Command::new("python3");
        let its = Self(command.arg(server).arg(port.to_string()).args(options).spawn().unwrap());
        let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(ours::soon(LONG, listens));
        its
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn users_take_several_servers_in_turn_and_the_first_that_is_full_is_the_limit() {
    let _cpus = shares_the_cpus();
    let hold = |second: &[&str]| {
        let (a, b) = (ours::closed_port(), ours::closed_port());
        let _chats = (Chat::start(a, &[]), Chat::start(b, second));
        let words = format!(
            "line://127.0.0.1:{a} --server 127.0.0.1:{b} -c 240 --levels 4 --processes 2 --mix active=100@exp:300ms"
        );
        climb(words.split(' '))
    };
    let (code, held, err) = hold(&[]);
    assert_eq!((code, limit(&held), &held["held"]), (0, "none", &240.into()), "{err} {held:#}");
    assert!(held["classes"][0]["delivered"]["count"].as_u64().unwrap() > 200, "{held:#}");
    // Each has half of them: at 40 of the second there are 80.
    let (code, held, err) = hold(&["places=40"]);
    assert_eq!((code, limit(&held)), (0, "target.turns_away"), "{err} {held:#}");
    assert_eq!(held["held"], 60, "{held:#}");
    assert!((80..=160).contains(&held["most_online"].as_u64().unwrap()), "{held:#}");
}

#[test]
fn a_service_that_turns_users_away_is_named_with_what_it_said() {
    let _cpus = shares_the_cpus();
    let command = chat("", "places=250");
    let (code, held, err) = hold_line(&command, "-c 1000");
    assert_eq!((code, limit(&held)), (0, "target.turns_away"), "{err} {held:#}");
    assert_eq!(held["held"], 200);
    assert!(held["limit"]["says"].as_str().unwrap().contains("no place"), "{held:#}");
    // What they say is turned away.
    let command = chat("", "declines=1");
    let (code, held, err) = hold_line(&command, "-c 20 --mix active=100@exp:200ms");
    assert_eq!((code, limit(&held)), (1, "target.turns_away"), "{err} {held:#}");
    assert!(held["limit"]["says"].as_str().unwrap().contains("refused while online"), "{held:#}");
}

#[test]
fn logins_that_go_wrong_are_accounted_for_by_how_they_did() {
    let _cpus = shares_the_cpus();
    for (fault, by, cause) in [
        ("login_error", "target.turns_away", "turned away"),
        ("login_close", "unexplained", "closed while logging in"),
        ("login_stall", "unexplained", "timed out while logging in"),
    ] {
        let (fault, share) = (format!("fault={fault}"), "fault_share=20");
        let words = ["--beam", "chat", "-k", &fault, "-k", share, "-c", "100", "--timeout", "1s"];
        let (code, held, err) = climb(words.iter().copied());
        assert_eq!(code, 1, "{fault}: {err} {held:#}");
        // Beside whoever has all CPUs, what nothing explains may be them.
        let may_be_others = by == "unexplained" && limit(&held) == "host.neighbours";
        assert!(limit(&held) == by || may_be_others, "{fault}: {err} {held:#}");
        let failed = held["met"]["failed"].as_object().unwrap();
        assert!(failed.keys().all(|it| it.starts_with(cause)), "{fault}: {failed:?}");
        assert!(failed.values().any(|count| count.as_u64() > Some(0)), "{fault}: {failed:?}");
    }
}

#[test]
fn a_nodes_processes_are_named_where_they_end_it() {
    let _cpus = shares_the_cpus();
    let more = ["--beam", "chat", "-k", "target.vm_flags=+P 1024", "-c", "1500", "--levels", "3"];
    let (code, held, err) =
        climb([&more[..], &["--mix", "idle=100", "--timeout", "3s"]].concat().into_iter());
    assert_eq!((code, limit(&held)), (0, "target.vm_processes"), "{err} {held:#}");
    assert_eq!(held["held"], 500, "{held:#}");
}

#[test]
fn a_nodes_ports_are_named_where_they_end_it() {
    let _cpus = shares_the_cpus();
    let plan = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    let text = "[target]\nbeam = 'rr'\nvm_flags = ['+Q', '1024']\n[workload]\nkind = 'rr'\nframing = 'fixed'\nrequest = 64\nresponse = 64\n[load]\nconnections = 2100\ntimeout = '3s'\n";
    fs::write(plan.path(), text).unwrap();
    let plan = plan.path().to_str().unwrap();
    let (code, held, err) = climb([plan, "--levels", "7"].into_iter());
    assert_eq!((code, limit(&held)), (0, "target.vm_ports"), "{err} {held:#}");
    assert_eq!((&held["held"], &held["foretold"]["id"]), (&900.into(), &"target.vm_ports".into()));
    let kinds: Vec<_> = held["costs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cost| cost["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"vm.processes") && kinds.contains(&"vm.system"), "{kinds:?}");
}

/// Words of a climb of an ejabberd that runs, which is looked into.
fn at(ejabberd: &Node, users: &str) -> Vec<String> {
    let mut words = vec![format!("xmpp://127.0.0.1:{}", ejabberd.port("xmpp"))];
    words.extend(["--node", ejabberd.name(), "--node-port"].map(str::to_owned));
    words.push(ejabberd.port("dist").to_string());
    words.extend(["--cookie-file".to_owned(), ejabberd.cookie_file().display().to_string()]);
    words.extend(["--mechanism", "plain", "-c", users].map(str::to_owned));
    words
}

fn hold_at(ejabberd: &Node, users: &str, more: &[&str]) -> (i32, Value, String) {
    let words = at(ejabberd, users);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    climb(words.iter().copied())
}

/// Two ejabberds of one name on a host take each other's place.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn ejabberd_holds_users_who_talk_and_its_node_says_what_they_cost() {
    let _cpus = shares_the_cpus();
    let _alone = alone();
    let ejabberd = Node::start_with(&["ejabberd", "--users", "240", "--tls"]);
    let mix = "idle=50,active=50@exp:300ms";
    // With TLS inside; the others below without.
    let more = ["--mix", mix, "--levels", "4", "--starttls", "--insecure"];
    let (code, held, err) = hold_at(&ejabberd, "240", &more);
    assert_eq!((code, limit(&held), &held["held"]), (0, "none", &240.into()), "{err} {held:#}");
    let active = &held["classes"][1];
    assert!(active["delivered"]["count"].as_u64().unwrap() > 100, "{active:#}");
    let kinds: Vec<_> = held["costs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cost| cost["kind"].as_str().unwrap())
        .collect();
    for kind in ["target.rss", "vm.total", "vm.processes", "kernel.slab"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let roofs = held["points"][0]["roofs"].as_array().unwrap();
    assert!(roofs.iter().any(|roof| roof["id"] == "target.vm_ports"), "{roofs:#?}");
    let course = held["course"].as_array().unwrap();
    let most = course.iter().map(|moment| moment["online"].as_u64().unwrap()).max();
    assert_eq!(most, Some(240));

    // The same users, whose passwords are others.
    let (code, held, err) = hold_at(&ejabberd, "240", &["--passwords", "wrong{n}"]);
    assert_eq!((code, limit(&held)), (1, "target.turns_away"), "{err} {held:#}");
    assert!(err.contains("wrong credentials"), "{err}");

    let words = at(&ejabberd, "10");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let dist = words.iter().position(|word| *word == "--node-port").unwrap() + 1;
    let closed = ours::closed_port().to_string();
    let mut elsewhere = [&["capacity", "--hold=1s"], &words[..]].concat();
    elsewhere[dist + 2] = &closed;
    let mut linerate = Linerate::start(&elsewhere);
    assert_eq!(linerate.end(LONG), 1);
    assert!(linerate.err().contains("ejabberd@localhost"), "{}", linerate.err());
}

#[test]
fn a_memory_cgroup_that_ejabberds_users_fill_is_named() {
    let _cpus = shares_the_cpus();
    if !geteuid().is_root() {
        return;
    }
    let _alone = alone();
    let ejabberd = Node::start_with(&["ejabberd", "--users", "3000", "--memory", "128"]);
    let more = ["--mix", "idle=100", "--levels", "10", "--timeout", "5s"];
    let (_, held, err) = hold_at(&ejabberd, "3000", &more);
    assert_eq!(limit(&held), "target.memory", "{err} {held:#}");
}

#[test]
fn mosquitto_holds_users_who_publish_to_each_other() {
    let _cpus = shares_the_cpus();
    let command = "sh -c 'PATH=$PATH:/usr/sbin exec mosquitto -p {port}'";
    let mix = "idle=50,active=50@exp:300ms";
    let words =
        ["--command", command, "--protocol", "mqtt", "-c", "300", "--mix", mix, "--levels", "4"];
    let (code, held, err) = climb(words.iter().copied());
    assert_eq!((code, limit(&held), &held["held"]), (0, "none", &300.into()), "{err} {held:#}");
    let active = &held["classes"][1];
    assert!(active["delivered"]["count"].as_u64().unwrap() > 100, "{active:#}");
}

#[test]
fn an_idle_user_of_the_chat_takes_4_kib_of_its_node_and_8_with_the_kernels_memory() {
    let _cpus = has_the_cpus();
    if !geteuid().is_root() {
        // Slabs can't be read.
        return;
    }
    // A user's process hibernates a second after its login: levels are read after that.
    let words =
        "capacity --hold=1s --json --beam chat -c 4000 --mix idle=100 --levels 8 --settle 1600ms";
    let (code, held, err) = found(Linerate::start(&words.split(' ').collect::<Vec<_>>()));
    assert_eq!((code, limit(&held)), (0, "none"), "{err} {held:#}");
    let costs = held["costs"].as_array().unwrap();
    let each = |kind: &str| {
        let cost = costs.iter().find(|cost| cost["kind"] == kind);
        cost.unwrap_or_else(|| panic!("{kind}: {held:#}"))["idle"]["bytes"].as_f64().unwrap()
    };
    let (node, kernel) = (each("vm.total"), (each("kernel.slab") + each("kernel.tcp")) / 2.0);
    assert!((2_048.0..4_096.0).contains(&node), "{node} {kernel}: {costs:#?}");
    assert!(node + kernel < 8_192.0, "{node} {kernel}: {costs:#?}");
}

/// A server that sends this to whoever connects, and goes on sending it.
fn says(what: &'static [u8]) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(
                move || while std::io::Write::write_all(&mut stream, what).is_ok() {},
            );
        }
    });
    port
}

#[test]
fn what_a_hostile_server_sends_is_malformed_and_nothing_of_it_is_kept() {
    let _cpus = shares_the_cpus();
    // Entities that would grow to a billion letters; elements without end; a tag without end; a packet of 256 MiB.
    const GROWS: &[u8] = b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]>\
        <stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'><x>&b;</x>";
    for (protocol, sends) in [
        ("xmpp", GROWS),
        ("xmpp", b"<a>" as &[u8]),
        ("xmpp", b"<stream:stream a='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("mqtt", b"\x30\xff\xff\xff\x7fxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        ("mqtt", b"\x20\xff\xff\xff\xff\xff"),
        ("line", b"from user1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
    ] {
        let target = format!("{protocol}://127.0.0.1:{}", says(sends));
        let words = [&target, "-c", "20", "--levels", "1", "--timeout", "2s"];
        let (code, held, err) = climb(words.iter().copied());
        let sends = &sends[..sends.len().min(40)];
        let case = format!("{protocol}: {}: {err} {held:#}", sends.escape_ascii());
        assert_eq!((code, &held["held"]), (1, &0.into()), "{case}");
        let failed = held["met"]["failed"].as_object().unwrap();
        assert!(!failed.is_empty() && failed.keys().all(|why| why.contains("malformed")), "{case}");
    }
}

/// A memory cgroup of this size, of either version; it goes with it.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Self {
        let first = Path::new("/sys/fs/cgroup/memory");
        let (parent, most) = match first.is_dir() {
            true => (first, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let folder = parent.join(format!("linerate-hold-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(most), bytes.to_string()).unwrap();
        Self(folder)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process may still be on its way out.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_memory_cgroup_that_is_full_is_named() {
    let _cpus = shares_the_cpus();
    if !geteuid().is_root() {
        return;
    }
    let group = Group::new(64 << 20);
    let enter = format!("echo $$ > {}/cgroup.procs;", group.0.display());
    let command = chat(&enter, "each=200000");
    let (_, held, err) = hold_line(&command, "-c 1000 --mix idle=100 --levels 20");
    assert_eq!(limit(&held), "target.memory", "{err} {held:#}");
    let most = held["most_online"].as_u64().unwrap();
    assert!((100..335).contains(&most), "{most}");
}

#[test]
fn what_was_typed_wrong_is_said_with_what_to_write() {
    let _cpus = shares_the_cpus();
    for (words, says) in [
        (
            &["line://127.0.0.1:9", "--hold", "--mix", "idle"][..],
            "--mix: `idle` is no class of users",
        ),
        (&["tcp://127.0.0.1:9", "--hold", "--mix", "a=1@1s"], "send nothing: write line://"),
        (&["line://127.0.0.1:9", "--hold", "--protocol", "morse"], "`morse` is not supported"),
        (&["line://127.0.0.1:9", "--hold", "--users", "u"], "is the same for every user"),
        (&["line://127.0.0.1:9", "--hold", "--levels", "0"], "--levels 0: write 1 or more"),
        (&["line://127.0.0.1:9", "--hold", "--gate", "soon"], "--gate: "),
        (&["line://127.0.0.1:9", "--mix", "idle=1"], "--hold"),
        (&["line://127.0.0.1:9", "--hold", "--starttls"], "write xmpp:// or --protocol xmpp"),
        (&["xmpp://127.0.0.1:9", "--hold", "--mechanism", "digest"], "write plain, scram-sha-1"),
        (&["xmpp://127.0.0.1:9", "--hold", "--node", "a@b@c"], "write NAME@HOST"),
        (&["line://127.0.0.1:9", "--hold", "-c", "9"], "nothing listens at 127.0.0.1:9"),
    ] {
        let mut linerate = Linerate::start(&[&["capacity"], words].concat());
        let code = linerate.end(LONG);
        assert!(matches!(code, 1 | 2), "{words:?}: {code}: {}", linerate.err());
        assert!(linerate.err().contains(says), "{words:?}: {}", linerate.err());
    }
}
