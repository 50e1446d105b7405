//! What the tests of a real lab share: plans, and looking whether anything is left.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linerate_lab::{Lab, LayError, Options};
use linerate_model::Plan;

/// A plan of this target, in TOML.
pub fn plan(target: &str) -> Plan {
    Plan::from_toml(&format!("[target]\n{target}\n")).unwrap()
}

/// A command listening through Python's HTTP server, in these words.
pub fn python(more: &str) -> Plan {
    plan(&format!(
        "command = ['python3', '-m', 'http.server', '--bind', '127.0.0.1', '{{port}}']\n{more}"
    ))
}

/// The agent that `make agent` built.
pub fn options() -> Options {
    let built =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent/_build/default/lib/linerate/ebin");
    Options { agent: Some(PathBuf::from(built)), ..Options::default() }
}

/// A busy machine may keep a path from its proof, which is refused as it should be; not for long.
pub fn lay(plan: &Plan) -> Result<Lab, LayError> {
    for _ in 0..4 {
        match Lab::lay(plan, &options()) {
            Err(LayError::PathOff { .. } | LayError::PathNot { .. }) => {
                std::thread::sleep(Duration::from_secs(2));
            }
            laid => return laid,
        }
    }
    Lab::lay(plan, &options())
}

/// Why a plan can't be laid, as a sentence.
pub fn refused(plan: &Plan) -> String {
    lay(plan).unwrap_err().to_string()
}

pub fn knobs(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

pub fn lives(pid: u32) -> bool {
    // A zombie is dead, but for its parent.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Processes whose command line holds this, this one's own left out.
pub fn running(marker: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id() && lives(*pid))
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").contains(marker)
        })
        .collect()
}

/// Waits a second for it to become true.
pub fn soon(mut fact: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if fact() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    fact()
}

/// Does this in a network namespace, on a thread of its own: the caller stays where it is.
pub fn inside<T: Send>(netns: &std::path::Path, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let entered = scope.spawn(|| {
            let file = std::fs::File::open(netns).unwrap();
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind)
                .unwrap();
            work()
        });
        entered.join().unwrap()
    })
}
