//! Faults of networks that are laid: each ends in one sentence and its exit code, and leaves no namespace,
//! link, route, setting, process or file behind. The parts that need root are run by root only.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

mod ours;

use ours::{Linerate, needs, root, signal_to, soon};

/// One at a time: paths are proven by the time that packets take.
static ONE: Mutex<()> = Mutex::new(());

/// Chosen: for one of two cores on a machine with neighbours; all of them take a second or two.
const SOON: Duration = Duration::from_secs(40);

/// Somebody who is nobody.
const USER: u32 = 65_534;

const PYTHON: &str = "command = ['python3', '-m', 'http.server', '{port}']";

const SITES: &str = "[[sites]]\nname = 'east'\nservers = 2\nengines = 1\n\
                     [[sites]]\nname = 'west'\nservers = 1\nengines = 1\n\
                     [[links]]\nbetween = ['east', 'west']\npath = { rtt = '40ms', tolerance = '1s' }\n\
                     [load]\nconnections = 4\n";

fn as_root() -> Option<MutexGuard<'static, ()>> {
    let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    geteuid().is_root().then_some(one)
}

/// What of this host a laid network could have changed.
#[derive(Debug, PartialEq)]
struct Host {
    links: Vec<String>,
    routes: Vec<String>,
    sysctls: Vec<String>,
}

impl Host {
    fn now() -> Self {
        let lines = |words: &[&str]| {
            let output = Command::new("ip").args(words).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        // States and counters of the machine's own devices change by themselves; their names do not.
        let name = |line: &String| line.split(": ").nth(1).unwrap_or_default().to_owned();
        let set = |name: &&str| fs::read_to_string(Path::new("/proc/sys/net").join(name)).unwrap();
        let settings = ["ipv4/ip_forward", "ipv4/conf/all/rp_filter", "ipv4/tcp_wmem"];
        Self {
            links: lines(&["-o", "link"]).iter().map(name).collect(),
            routes: lines(&["route", "show", "table", "all"])
                .into_iter()
                .filter(|route| route.contains("10.199."))
                .collect(),
            sysctls: settings.iter().map(set).collect(),
        }
    }
}

/// A folder that the user may use, with a linerate and an agent that they may read.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::copy(env!("CARGO_BIN_EXE_linerate"), at("linerate")).unwrap();
        let agent = root().join("agent/_build/default/lib/linerate/ebin");
        let built = fs::read_dir(&agent).expect("the agent is built: run `make agent`");
        fs::create_dir(at("agent")).unwrap();
        for beam in built.flatten() {
            fs::copy(beam.path(), at("agent").join(beam.file_name())).unwrap();
        }
        fs::create_dir(at("tmp")).unwrap();
        let words = ["-R", &format!("{USER}:{USER}"), folder.path().to_str().unwrap()];
        assert!(Command::new("chown").args(words).status().unwrap().success());
        Self(folder)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let file = self.0.path().join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    }
}

/// linerate, started by a shell that does this before.
fn after(script: &str, by: &str, words: &[&str], home: Home) -> Linerate {
    let linerate = home.0.path().join("linerate");
    let agent = home.0.path().join("agent");
    let mut command = Command::new("unshare");
    command.args(by.split(' ')).args(["sh", "-c", script, "sh"]).arg(linerate).args(words);
    command.env("LINERATE_AGENT", agent).env("HOME", home.0.path()).env_remove("XDG_RUNTIME_DIR");
    Linerate::spawn(home.0, command, |_| {})
}

/// Has every user open `/dev/net/tun`, as on most systems, in a mount namespace.
const TUN: &str = "case $(stat -c %a /dev/net/tun) in *6) ;; *) mount -t tmpfs -o mode=0755 tmpfs /dev/net \
                   && mknod -m 0666 /dev/net/tun c 10 200 ;; esac";

/// A container may forbid its root to make device nodes.
fn may_show_tun_to_users() -> bool {
    let words = ["--mount", "sh", "-c", TUN];
    Command::new("unshare").args(words).status().unwrap().success()
}

/// linerate, started by somebody who is not root.
fn as_user(words: &[&str], home: Home) -> Linerate {
    let script = format!("{TUN}; exec setpriv --reuid {USER} --regid {USER} --clear-groups \"$@\"");
    after(&script, "--mount", words, home)
}

/// A plan in a file of linerate's own folder.
fn start(plan: &str, words: &[&str]) -> Linerate {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let words = [&["run", "plan.toml"], words].concat();
    Linerate::start_in(folder, &words, |_| {})
}

fn plan(target: &str, more: &str) -> String {
    format!("[target]\n{target}\n{more}")
}

/// Ends with this code and one sentence on standard error.
fn ends(linerate: &mut Linerate, code: i32) -> String {
    let found = linerate.end(SOON);
    let said = linerate.err();
    assert_eq!(found, code, "{said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    said
}

fn nothing_left(linerate: &Linerate, before: &Host) {
    linerate.assert_nothing_left();
    assert_eq!(Host::now(), *before);
}

#[test]
fn an_ordinary_user_runs_across_paths_and_sites_in_a_user_namespace() {
    let Some(_one) = as_root() else { return };
    needs(&["unshare", "setpriv", "erl", "ip"]);
    let before = Host::now();
    if !may_show_tun_to_users() {
        let home = Home::new();
        let network = "[path]\nrtt = '20ms'\ntolerance = '1s'\nbackend = 'line'\n";
        let file = home.file("plan.toml", &plan("beam = 'echo'", network));
        let mut linerate = as_user(&["run", &file, "-q"], home);
        let said = ends(&mut linerate, 1);
        assert!(said.contains("/dev/net/tun can't be opened: "), "{said}");
        return nothing_left(&linerate, &before);
    }
    let rr = "[workload]\nkind = 'rr'\nframing = 'length2'\nrequest = 64\nresponse = 64\n";
    for (name, network) in [
        ("path", "[load]\nconnections = 4\n[path]\nrtt = '20ms'\ntolerance = '1s'\n"),
        ("sites", SITES),
    ] {
        let home = Home::new();
        let text = plan("beam = 'echo'", &format!("{rr}[until]\nduration = '1s'\n{network}"));
        let file = home.file("plan.toml", &text);
        let words = ["run", &file, "-q", "--json", "-o", "x.jsonl"];
        let mut linerate = as_user(&words, home);
        linerate.await_that("it loads", |it| {
            let evidence = it.folder.path().join("x.jsonl");
            fs::read_to_string(evidence).is_ok_and(|text| text.contains("{\"slice\":"))
        });
        // Its namespaces are in a /run/netns of its own.
        assert_eq!(linerate.namespaces(), [""; 0], "{name}");
        assert!(!linerate.targets().is_empty());
        for target in linerate.targets() {
            let status = fs::read_to_string(format!("/proc/{target}/status")).unwrap();
            let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            assert!(of("Uid:").trim().starts_with(&USER.to_string()), "{name}: {status}");
            assert_eq!(of("CapEff:").trim(), "0".repeat(16), "{name}: a target is given nothing");
        }
        assert_eq!(linerate.end(SOON), 0, "{name}: {}", linerate.err());
        let run = linerate.json();
        assert!(run["load"]["throughput_per_s"].as_f64().unwrap() > 0.0, "{name}: {run}");
        // The kernel is asked inside the namespaces, and the target's processes are read.
        let evidence = fs::read_to_string(linerate.folder.path().join("x.jsonl")).unwrap();
        for metric in ["tcp.min_rtt", "process.utime"] {
            assert!(evidence.contains(metric), "{name}: {metric} is missing");
        }
        nothing_left(&linerate, &before);
    }
}

#[test]
fn a_user_who_may_have_no_namespaces_is_told_which_setting_forbids_them() {
    let Some(_one) = as_root() else { return };
    needs(&["unshare", "setpriv"]);
    let before = Host::now();
    // The limit is one of each user namespace's own; so the host's stays as it is.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --inh-caps=-all --bounding-set=-all \"$@\"";
    let home = Home::new();
    let file = home.file("plan.toml", &plan(PYTHON, "[path]\nrtt = '20ms'\ntolerance = '1s'\n"));
    let mut linerate = after(script, "--user --map-root-user", &["run", &file], home);
    let said = ends(&mut linerate, 1);
    assert_eq!(
        said,
        "error: a path needs network namespaces, and this process has no CAP_NET_ADMIN and may make \
         no user namespace: user.max_user_namespaces is 0; run as root, or \
         `sysctl -w user.max_user_namespaces=15000` as root, or leave [path] out\n"
    );
    nothing_left(&linerate, &before);
}

#[test]
fn a_machine_without_tun_devices_is_told_which_module_to_load() {
    let Some(_one) = as_root() else { return };
    needs(&["unshare"]);
    let before = Host::now();
    let links = "[[links]]\nbetween = ['east', 'west']\npath = { rtt = '40ms', tolerance = '1s', backend = 'line' }\n";
    let sites = SITES.replace(
        "[[links]]\nbetween = ['east', 'west']\npath = { rtt = '40ms', tolerance = '1s' }\n",
        links,
    );
    assert_ne!(sites, SITES);
    for network in ["[path]\nrtt = '20ms'\ntolerance = '1s'\nbackend = 'line'\n", &sites] {
        let home = Home::new();
        let file = home.file("plan.toml", &plan(PYTHON, network));
        let script = "mount -t tmpfs tmpfs /dev/net && exec \"$@\"";
        let mut linerate = after(script, "--mount", &["run", &file], home);
        let said = ends(&mut linerate, 1);
        assert_eq!(
            said,
            "error: a path needs TUN devices, and /dev/net/tun can't be opened: it is not there; load \
             the tun module (`modprobe tun`), or leave [path] out\n"
        );
        nothing_left(&linerate, &before);
    }
}

#[test]
fn a_target_on_the_wrong_address_is_told_where_to_listen() {
    let Some(_one) = as_root() else { return };
    let before = Host::now();
    let target = PYTHON.replace("'{port}'", "'--bind', '127.0.0.1', '{port}'");
    for (network, host, address) in [
        ("[path]\nrtt = '20ms'\ntolerance = '1s'\n", "", "10.199.0.2"),
        (SITES, "on host east-s1: ", "10.199.1.1"),
    ] {
        let mut linerate = start(&plan(&target, network), &["-q"]);
        let said = ends(&mut linerate, 1);
        assert!(said.starts_with(&format!("error: {host}`python3 -m http.server")), "{said}");
        let listens = said.split_once("it listens on 127.0.0.1:").unwrap().1;
        let advice = format!(" and not on {address}; have it listen on 0.0.0.0");
        assert!(listens.contains(&advice), "{said}");
        nothing_left(&linerate, &before);
    }
}

#[test]
fn a_path_that_cannot_be_is_refused_by_its_key() {
    for (path, part) in [
        ("rtt = '1ms'\nrate = 0", "`0` is not a rate of bits"),
        ("rtt = '1ms'\nrate = '0bit'", "rate"),
        ("rtt = '1ms'\nrate = '10Mbit'\nqueue = 0", "path: queue: 0 lets no packet in"),
        ("rtt = '1ms'\nloss = '101%'", "101%"),
        ("rtt = '1ms'\nloss = '100%'", "path: loss: "),
        ("rtt = '20s'", "path: rtt: "),
        ("rtt = '1ms'\nsysctls = { 'kernel.pid_max' = '1' }", "path: sysctls: `kernel.pid_max`"),
    ] {
        let mut linerate = start(&plan(PYTHON, &format!("[path]\n{path}\n")), &[]);
        let said = ends(&mut linerate, 2);
        assert!(said.contains(part), "{path}: {said}");
        linerate.assert_nothing_left();
    }
}

#[test]
fn a_setting_that_the_kernel_does_not_have_or_take_ends_it_with_the_command() {
    let Some(_one) = as_root() else { return };
    let before = Host::now();
    for (setting, value, says) in [
        ("net.ipv4.tcp_wmemm", "1", "a network namespace has no such setting"),
        ("net.ipv4.tcp_wmem", "much", "write in path.sysctls what sysctl(8) takes"),
    ] {
        let sysctls = format!("rtt = '40ms', sysctls = {{ '{setting}' = '{value}' }}");
        let network = SITES.replace("rtt = '40ms'", &sysctls);
        let mut linerate = start(&plan(PYTHON, &network), &["-q"]);
        let said = ends(&mut linerate, 1);
        assert!(said.contains(&format!("sysctl -w {setting}='{value}'` failed: ")), "{said}");
        assert!(said.contains(says), "{said}");
        nothing_left(&linerate, &before);
    }
}

#[test]
fn killed_in_mid_run_the_next_clears_what_is_left() {
    let Some(_one) = as_root() else { return };
    needs(&["erl"]);
    let before = Host::now();
    let echo = plan("beam = 'http'", SITES);
    let mut killed = start(&echo, &["-d", "60s", "--json-stream"]);
    killed.await_starts(1);
    // Three servers, two engines, two routers.
    assert_eq!((killed.targets().len() >= 3, killed.namespaces().len()), (true, 7));
    killed.signal(Signal::KILL);
    killed.end(SOON);
    assert!(soon(SOON, || killed.targets().is_empty()), "targets go with it");

    let mut next = start(&echo, &["-q", "-d", "1s", "--no-check"]);
    assert_eq!(next.end(SOON), 0, "{}", next.err());
    killed.assert_nothing_left();
    nothing_left(&next, &before);
}

#[test]
fn killed_in_mid_run_an_ordinary_users_leaves_nothing() {
    let Some(_one) = as_root() else { return };
    needs(&["unshare", "setpriv", "erl", "ip"]);
    if !may_show_tun_to_users() {
        return;
    }
    let before = Host::now();
    let home = Home::new();
    let file = home.file("plan.toml", &plan("beam = 'http'", SITES));
    let mut killed = as_user(&["run", &file, "-d", "60s", "--json-stream"], home);
    killed.await_starts(1);
    assert!(killed.targets().len() >= 3);
    killed.signal(Signal::KILL);
    killed.end(SOON);
    assert!(soon(SOON, || killed.targets().is_empty()), "targets go with it");
    // Namespaces and devices went with the last of its processes; a note of them may be left for the next.
    assert_eq!(Host::now(), before);
}

#[test]
fn a_host_that_has_the_same_subnet_is_not_in_the_way() {
    let Some(_one) = as_root() else { return };
    needs(&["unshare", "erl", "ip"]);
    let before = Host::now();
    let home = Home::new();
    let file = home.file("plan.toml", &plan("beam = 'http'", SITES));
    let script = "ip link set lo up && ip address add 10.199.1.1/16 dev lo && exec \"$@\"";
    let words = ["run", &file, "-q", "-d", "1s", "--no-check"];
    let mut linerate = after(script, "--net", &words, home);
    assert_eq!(linerate.end(SOON), 0, "{}", linerate.err());
    nothing_left(&linerate, &before);
}

#[test]
fn two_runs_at_once_do_not_meet() {
    let Some(_one) = as_root() else { return };
    needs(&["erl"]);
    let before = Host::now();
    // A path's proof is of its time: two runs on two CPUs are given a long one to be off by little.
    let network = SITES.replace("rtt = '40ms'", "rtt = '100ms'");
    let runs =
        || start(&plan("beam = 'http'", &network), &["-d", "4s", "--no-check", "--json-stream"]);
    let mut both = [runs(), runs()];
    for run in &mut both {
        run.await_starts(1);
    }
    // The same addresses, in namespaces of either's own.
    assert!(both.iter().all(|run| run.namespaces().len() == 7));
    for run in &mut both {
        assert_eq!(run.end(SOON), 0, "{}", run.err());
    }
    both.iter().for_each(|run| nothing_left(run, &before));
}

#[test]
fn a_host_that_dies_in_mid_run_is_named_and_the_report_is_of_what_was() {
    let Some(_one) = as_root() else { return };
    needs(&["erl"]);
    let before = Host::now();
    let mut linerate = start(&plan("beam = 'http'", SITES), &["-d", "60s", "--json-stream"]);
    linerate.await_starts(1);
    linerate.await_that("a second of load", |it| {
        it.events().iter().filter(|event| event["event"] == "interval").count() >= 1
    });
    let in_west = |pid: &u32| {
        let file = |path: String| {
            fs::metadata(path).ok().map(|it| std::os::unix::fs::MetadataExt::ino(&it))
        };
        let west =
            linerate.namespaces().into_iter().find(|name| name.ends_with("-west-s1")).unwrap();
        file(format!("/proc/{pid}/ns/net")) == file(format!("/run/netns/{west}"))
    };
    let node = linerate.targets().into_iter().filter(in_west).min().expect("a node is in west");
    signal_to(node, Signal::KILL);
    assert_eq!(linerate.end(SOON), 1, "{}", linerate.err());
    let how = "target died: host west-s1: the BEAM node ended with signal 9";
    assert!(linerate.err().contains(&format!("error: {how}")), "{}", linerate.err());
    let report = linerate.events().pop().unwrap();
    assert_eq!(report["event"], "report");
    assert!(report["data"]["ended"].as_str().unwrap().starts_with(how), "{report}");
    nothing_left(&linerate, &before);
}

#[test]
fn a_signal_while_sites_are_laid_takes_them_away() {
    let Some(_one) = as_root() else { return };
    let before = Host::now();
    let network = SITES.replace("rtt = '40ms'", "rtt = '2s'");
    let mut linerate = start(&plan(PYTHON, &network), &["-q"]);
    // The last of them: now the link between is proven, which takes some of its round trips.
    linerate.await_that("namespaces", |it| it.namespaces().len() == 7);
    linerate.signal(Signal::INT);
    assert_eq!(linerate.end(SOON), 130);
    assert_eq!(linerate.err(), "error: interrupted while the lab was being laid\n");
    nothing_left(&linerate, &before);
}

#[test]
fn what_is_printed_can_be_repeated_by_hand() {
    let Some(_one) = as_root() else { return };
    let before = Host::now();
    // A target that ends at once: the network is laid and taken away again.
    let target = "command = ['false']\nport = 80";
    let network = SITES
        .replace("rtt = '40ms'", "rtt = '40ms', sysctls = { 'net.ipv4.tcp_fin_timeout' = '7' }");
    let mut linerate = start(&plan(target, &network), &["-v"]);
    assert_eq!(linerate.end(SOON), 1, "{}", linerate.err());
    let said = linerate.err();
    let commands: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("+ ")).collect();
    let has = |part: &str| commands.iter().any(|command| command.contains(part));
    for part in [
        "ip netns add lr-",
        "type bridge",
        "type veth",
        "route add 10.199.2.0/24 via",
        "tcp_fin_timeout='7'",
        "ip_forward='1'",
        "ip netns delete lr-",
    ] {
        assert!(has(part), "{part}: {said}");
    }
    // sysctl(8) is in a package of its own.
    let sysctl = Path::new("/usr/sbin/sysctl").exists();
    let typed = |command: &&str| sysctl || !command.contains("sysctl -w");
    let script = commands.into_iter().filter(typed).collect::<Vec<_>>().join("\n");
    let mut shell = Command::new("sh");
    let output = shell.args(["-e", "-c", &script]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}\n{script}", String::from_utf8_lossy(&output.stderr));
    nothing_left(&linerate, &before);
}
