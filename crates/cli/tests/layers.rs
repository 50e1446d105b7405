//! Dependencies go one way, and pure crates reach nothing that could do input or output.
//!
//! The lists are ARCHITECTURE.md's. A crate that is not in them fails here until it has its place.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Each crate of ours, and those of ours that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("workload", &["model"]),
    ("capacity", &["model"]),
    ("session", &["model"]),
    ("netpath", &["model"]),
    ("predict", &["model"]),
    ("evidence", &["model"]),
    ("account", &["model", "predict", "evidence"]),
    ("roofline", &["model", "predict", "evidence", "account"]),
    ("report", &["model", "predict", "evidence", "account", "roofline"]),
    ("drive", &["model", "workload", "evidence"]),
    ("simulate", &["model", "workload", "netpath", "evidence", "drive"]),
    ("ramp", &["model", "workload", "evidence", "session"]),
    ("engine", &["model", "workload", "evidence", "drive", "session", "ramp"]),
    ("beam", &["model", "evidence"]),
    ("lab", &["model", "netpath", "evidence", "beam"]),
    ("probe", &["model", "evidence"]),
    (
        "run",
        &[
            "model", "capacity", "workload", "evidence", "session", "ramp", "engine", "beam",
            "lab", "probe",
        ],
    ),
    (
        "cli",
        &[
            "model", "capacity", "workload", "simulate", "predict", "evidence", "roofline",
            "report", "session", "ramp", "engine", "beam", "lab", "probe", "run",
        ],
    ),
];

/// No clock, socket, file or thread.
const PURE: &[&str] = &[
    "model", "workload", "netpath", "simulate", "predict", "evidence", "account", "roofline",
    "report", "capacity", "drive", "session", "ramp",
];

/// What pure crates may use of others': things that work on bytes and numbers. A list of what may be and
/// not of what may not: the next crate that opens sockets is on nobody's list.
const PURE_OTHERS: &[&str] = &[
    "base64",
    "fastrand",
    "hdrhistogram",
    "httparse",
    "pbkdf2",
    "quick-xml",
    "serde",
    "serde_json",
    "sha1",
    "sha2",
    "smallvec",
    "thiserror",
    "toml",
];

/// What each pure crate's `clippy.toml` forbids at least.
const FORBIDDEN: &[&str] = &[
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::fs::read",
    "std::fs::write",
    "std::fs::File",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
];

#[test]
fn every_crate_uses_only_those_before_it() {
    let mut wrong = Vec::new();
    for package in packages() {
        let name = short(&package);
        let Some((_, allowed)) = MAY_USE.iter().find(|(of, _)| *of == name) else {
            wrong.push(format!("{name} has no place in MAY_USE (and in ARCHITECTURE.md)"));
            continue;
        };
        for used in used_by(&package).iter().filter_map(|used| used.strip_prefix("linerate-")) {
            if !allowed.contains(&used) {
                wrong.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_itself_has_no_circle() {
    for (index, (name, allowed)) in MAY_USE.iter().enumerate() {
        for used in *allowed {
            let before = MAY_USE[..index].iter().any(|(of, _)| of == used);
            assert!(before, "{name} may use {used}, which does not stand before it");
        }
    }
}

#[test]
fn pure_crates_use_nothing_that_does_input_or_output() {
    let mut wrong = Vec::new();
    for package in packages().iter().filter(|package| PURE.contains(&short(package).as_str())) {
        for used in used_by(package) {
            let pure = match used.strip_prefix("linerate-") {
                Some(ours) => PURE.contains(&ours),
                None => PURE_OTHERS.contains(&used.as_str()),
            };
            if !pure {
                wrong.push(format!("{} is pure and uses {used}", short(package)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_crates_forbid_the_calls_and_keep_what_the_roots_clippy_toml_says() {
    let root = root();
    let text = |path: PathBuf| {
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let shared = text(root.join("clippy.toml"));
    for name in PURE {
        let own = text(root.join("crates").join(name).join("clippy.toml"));
        for path in FORBIDDEN {
            assert!(own.contains(&format!("\"{path}\"")), "{name}/clippy.toml permits {path}");
        }
        for line in shared.lines() {
            assert!(own.contains(line), "{name}/clippy.toml lacks the root's `{line}`");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .output()
        .expect("cargo runs the tests, so it can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a workspace has packages").clone();
    assert_eq!(packages.len(), MAY_USE.len(), "as many crates as MAY_USE has");
    packages
}

/// Its name without the common prefix.
fn short(package: &Value) -> String {
    let name = package["name"].as_str().expect("a package has a name");
    name.strip_prefix("linerate-").unwrap_or(name).to_owned()
}

/// What it is built from. Tests and examples may use what they like.
fn used_by(package: &Value) -> Vec<String> {
    package["dependencies"]
        .as_array()
        .expect("a package has a list of dependencies")
        .iter()
        .filter(|used| used["kind"] != "dev")
        .map(|used| used["name"].as_str().expect("a dependency has a name").to_owned())
        .collect()
}
