//! One copied file is linerate whole: it runs from an empty folder, far from the repository.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

mod ours;

use ours::{Linerate, needs};

/// Chosen: compiling the agent takes some seconds of a CPU, on a busy machine several times that.
const PATIENCE: Duration = Duration::from_secs(60);

/// linerate in a folder of its own, with nothing else there.
fn copy() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::copy(env!("CARGO_BIN_EXE_linerate"), folder.path().join("linerate")).unwrap();
    folder
}

/// A run of one of its Erlang servers by the copy, with this home. What it printed, and its exit code.
fn run(copy: &Path, home: &Path) -> (i32, String) {
    let mut command = Command::new(copy.join("linerate"));
    command
        .args([
            "run",
            "--beam",
            "http",
            "-c",
            "2",
            "-d",
            "300ms",
            "--no-check",
            "-q",
            "-o",
            "x.jsonl",
        ])
        .env_remove("LINERATE_AGENT")
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", home);
    let mut run = Linerate::spawn(TempDir::new().unwrap(), command, |_| {});
    let code = run.end(PATIENCE);
    run.assert_nothing_left();
    let evidence = fs::read_to_string(run.folder.path().join("x.jsonl")).unwrap_or_default();
    (code, run.out() + &run.err() + &evidence)
}

#[test]
fn a_copied_binary_brings_its_erlang_side_and_compiles_it_once() {
    needs(&["erl"]);
    let (copy, home) = (copy(), TempDir::new().unwrap());
    let folder = home.path().join(".cache/linerate");
    let kept = || -> Vec<_> {
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
        entries.map(|it| (it.file_name(), it.metadata().unwrap().modified().unwrap())).collect()
    };
    let (code, says) = run(copy.path(), home.path());
    // A run of 0.3 s on a busy machine may be void; it was made.
    assert!([0, 4].contains(&code), "{code}: {says}");
    // What only the probe inside the node tells.
    assert!(says.contains("\"vm."), "{says}");
    let first = kept();
    assert_eq!(first.len(), 1, "{first:?}");
    let (code, says) = run(copy.path(), home.path());
    assert!([0, 4].contains(&code), "{code}: {says}");
    assert_eq!(kept(), first, "it was compiled again");
}

#[test]
fn where_nothing_can_be_kept_it_says_what_to_set() {
    needs(&["erl"]);
    let (copy, home) = (copy(), TempDir::new().unwrap());
    let in_the_way = home.path().join("file");
    fs::write(&in_the_way, "").unwrap();
    let mut command = Command::new(copy.path().join("linerate"));
    command
        .args(["run", "--beam", "http", "-q"])
        .env_remove("LINERATE_AGENT")
        .env_remove("XDG_CACHE_HOME");
    let mut run = Linerate::spawn(TempDir::new().unwrap(), command, |command| {
        command.env("HOME", &in_the_way).env("TMPDIR", &in_the_way);
    });
    assert_eq!(run.end(PATIENCE), 1, "{}", run.err());
    assert!(run.err().contains("set XDG_CACHE_HOME to a folder of your own"), "{}", run.err());
    assert_eq!(run.err().lines().count(), 1, "{}", run.err());
}

#[test]
fn the_version_says_what_is_in_the_file() {
    let (copy, home) = (copy(), TempDir::new().unwrap());
    let version = |flag: &str| {
        let mut command = Command::new(copy.path().join("linerate"));
        command.arg(flag);
        let mut said = Linerate::spawn(TempDir::new().unwrap(), command, |command| {
            command.env("HOME", home.path());
        });
        assert_eq!(said.end(PATIENCE), 0, "{}", said.err());
        said.out()
    };
    let own = concat!("linerate ", env!("CARGO_PKG_VERSION"));
    assert_eq!(version("-V"), format!("{own}\n"));
    let long = version("--version");
    let mut lines = long.lines();
    assert!(lines.next().unwrap().starts_with(own), "{long}");
    for begins in ["built", "agent", "knows", "speaks"] {
        let line = lines.next().unwrap();
        assert!(line.starts_with(begins), "{long}");
    }
}
