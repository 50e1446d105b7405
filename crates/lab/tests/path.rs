//! Paths. Needs root and /dev/net/tun; without them the refusal is what is tested.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use linerate_lab::LayError;
use support::{inside, lay, lives, plan};

/// One at a time: they measure time.
static ONE: Mutex<()> = Mutex::new(());

const PYTHON: &str = "command = ['python3', '-m', 'http.server', '{port}']\n[path]\n";

fn may_lay() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let error = lay(&plan(&format!("{PYTHON}rtt = '20ms'"))).unwrap_err();
    assert!(matches!(error, LayError::NotPrivileged(_)), "{error}");
    false
}

fn namespaces() -> Vec<String> {
    let ours = format!("lr-{}", std::process::id());
    let Ok(names) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    names
        .flatten()
        .map(|name| name.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            name.starts_with(&format!("{ours}-")) || name.starts_with(&format!("{ours}."))
        })
        .collect()
}

#[test]
fn a_connection_over_20_ms_takes_20_ms_and_nothing_is_left() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may_lay() {
        return;
    }
    let lab = lay(&plan(&format!("{PYTHON}rtt = '20ms'\ntolerance = '1s'"))).unwrap();
    let proof = lab.path().unwrap();
    assert_eq!(proof.asked, Duration::from_millis(20));
    eprintln!("{proof:?}");
    let address = lab.address();
    assert_eq!(address.ip().to_string(), "10.199.0.2");
    let mut took: Vec<_> = inside(lab.client_netns().unwrap(), || {
        let once = |_| {
            let began = Instant::now();
            TcpStream::connect(address).unwrap();
            began.elapsed()
        };
        (0..50).map(once).collect()
    });
    // Neighbours make a round trip later, nothing makes one earlier: the shortest is the path's.
    took.sort();
    let shortest = took[0].as_secs_f64() * 1e3;
    assert!((19.9..22.0).contains(&shortest), "{took:?}");

    let pid = lab.facts().pid.unwrap();
    assert_eq!(namespaces().len(), 2);
    lab.close().unwrap();
    assert!(!lives(pid));
    assert_eq!(namespaces(), Vec::<String>::new());
}

#[test]
fn a_node_listens_at_its_end_of_the_path() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may_lay() {
        return;
    }
    let mut lab = lay(&plan("beam = 'echo'\n[path]\nrtt = '2ms'\ntolerance = '1s'")).unwrap();
    let address = lab.address();
    assert!(TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_err());
    inside(lab.client_netns().unwrap(), || TcpStream::connect(address).unwrap());
    assert!(lab.readback().contains_key("nodelay"));
    drop(lab);
    assert_eq!(namespaces(), Vec::<String>::new());
}

#[test]
fn a_target_that_does_not_start_takes_the_path_with_it() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may_lay() {
        return;
    }
    let error = lay(&plan("command = ['false']\nport = 80\n[path]\nrtt = '2ms'\ntolerance = '1s'"))
        .unwrap_err();
    assert!(matches!(error, LayError::DiedFirst { .. }), "{error}");
    assert_eq!(namespaces(), Vec::<String>::new());
}

#[test]
fn a_stream_over_the_path_loses_nothing_and_is_not_slow() {
    let _one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may_lay() {
        return;
    }
    const BYTES: usize = 50_000_000;
    let sender = "import socket,sys;s=socket.create_server(('',int(sys.argv[1])));b=bytes(1<<16)\n\
                  while 1:\n c,_=s.accept()\n try:\n  while 1: c.sendall(b)\n except OSError: pass";
    let words = format!("command = [\"python3\", \"-c\", '''{sender}''', \"{{port}}\"]");
    let lab = lay(&plan(&format!("{words}\n[path]\nrtt = '1ms'\ntolerance = '1s'"))).unwrap();
    let address = lab.address();
    let took = inside(lab.client_netns().unwrap(), || {
        use std::io::Read;
        let mut stream = TcpStream::connect(address).unwrap();
        let began = Instant::now();
        let (mut buffer, mut read) = (vec![0; 1 << 16], 0);
        while read < BYTES {
            read += stream.read(&mut buffer).unwrap();
        }
        began.elapsed()
    });
    let rate = BYTES as f64 / took.as_secs_f64() / 1e6;
    eprintln!("{rate:.0} Mbyte/s");
    // A path that drops is some hundred times slower than one that does not, on any machine.
    assert!(rate > 5.0, "{rate:.1} Mbyte/s");
    lab.close().unwrap();
}
