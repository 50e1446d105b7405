//! The Debian package: built, installed and removed as dpkg does it, in a root of its own.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;
use tempfile::TempDir;

mod ours;

use ours::{needs, root};

/// What it prints; it must end well.
fn of(program: impl AsRef<Path>, words: &[&str]) -> String {
    let program = program.as_ref();
    let ended = Command::new(program).args(words).output().unwrap();
    let says = String::from_utf8_lossy(&ended.stdout).into_owned();
    let complains = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{program:?} {words:?}: {says}{complains}");
    says
}

/// All that is no folder, below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn a_package_brings_program_pages_and_completions_and_leaves_nothing_when_removed() {
    needs(&["dpkg", "dpkg-deb", "dpkg-shlibdeps", "strip", "man", "bash"]);
    let folder = TempDir::new().unwrap();
    let at = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
    let program = env!("CARGO_BIN_EXE_linerate");
    let package = of(root().join("packaging/deb"), &[program, &at("out")]);
    let package = package.trim();
    let version = env!("CARGO_PKG_VERSION");
    assert!(package.contains(&format!("/linerate_{version}_")), "{package}");
    let field = |name: &str| of("dpkg-deb", &["--field", package, name]).trim().to_owned();
    assert_eq!((field("Package"), field("Version")), ("linerate".into(), version.into()));
    assert!(field("Depends").contains("libc6 (>="), "{}", field("Depends"));

    let installed = folder.path().join("root");
    // dpkg changes owners, which is root's to do; for others what it unpacks must be enough.
    let dpkg = geteuid().is_root();
    let base = at("root");
    let options = ["--root", &base, "--force-depends", "--log=/dev/null"];
    if dpkg {
        for path in ["root/var/lib/dpkg/info", "root/var/lib/dpkg/updates"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("root/var/lib/dpkg/status"), "").unwrap();
        of("dpkg", &[&options[..], &["--install", package]].concat());
        of("dpkg", &[&options[..], &["--verify", "linerate"]].concat());
    } else {
        of("dpkg-deb", &["--extract", package, &base]);
    }

    let program = installed.join("usr/bin/linerate");
    assert_eq!(of(&program, &["-V"]).trim(), format!("linerate {version}"));
    assert!(of(&program, &["explain", "tcp.nagle-delayed-ack"]).contains("Nagle"));
    // They are inside the program.
    assert!(of(&program, &["study"]).contains("echo-sites"));
    let man = |page: &str| of("man", &["-l", &at(&format!("root/usr/share/man/man1/{page}.1.gz"))]);
    assert!(man("linerate").contains("linerate-run(1)"));
    for page in ["linerate-run", "linerate-doctor", "linerate-compare"] {
        assert!(man(page).contains("SYNOPSIS"), "{page}");
    }
    let completions = at("root/usr/share/bash-completion/completions/linerate");
    let asks = format!(
        "source {completions}; COMP_WORDS=(linerate di) COMP_CWORD=1; \
         _linerate linerate di linerate; echo ${{COMPREPLY[@]}}"
    );
    assert!(of("bash", &["-c", &asks]).contains("diagnose"));
    for file in ["zsh/vendor-completions/_linerate", "fish/vendor_completions.d/linerate.fish"] {
        assert!(installed.join("usr/share").join(file).is_file(), "{file}");
    }
    assert!(files(&installed.join("usr/share/doc/linerate")).len() == 2);

    if dpkg {
        of("dpkg", &[&options[..], &["--remove", "linerate"]].concat());
        assert_eq!(files(&installed.join("usr")), Vec::<PathBuf>::new());
    }
}
