//! A daemon that wipes its environment, in a process of its own: nothing but its parent tells whose it is.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::TcpStream;
use std::process::Command;

use support::{lay, lives, plan, soon};

#[test]
fn nginx_as_a_daemon_is_found_and_ended() {
    let nginx = Command::new("nginx").arg("-v").output();
    assert!(nginx.is_ok(), "needs `nginx` in PATH: run `make setup`");
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let configuration = folder.path().join("nginx.conf");
    let write = |port: u16| {
        let text = format!(
            "worker_processes 2; pid {at}/pid; error_log {at}/error.log;\nevents {{ }}\n\
             http {{ access_log off; server {{ listen 127.0.0.1:{port}; return 200 hello; }} }}\n"
        );
        std::fs::write(&configuration, text).unwrap();
    };
    write(18089);
    let words = format!("command = ['nginx', '-p', '{at}', '-c', '{at}/nginx.conf']\nport = 18089");
    let mut lab = lay(&plan(&words)).unwrap();
    // It listens before it goes into the background.
    let noted = || std::fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
    assert!(soon(|| lab.facts().pid.unwrap().to_string() == noted().trim()));
    let pid = lab.facts().pid.unwrap();
    assert_eq!(lab.alive(), Ok(()));
    lab.close().unwrap();
    assert!(!lives(pid) && TcpStream::connect("127.0.0.1:18089").is_err());
}
