//! A bare accept loop, for `bench/run` to see how many connections a second the engine opens, and what it takes for each.
//!
//! `accept_server` listens on a free port of 127.0.0.1, prints `ready ADDRESS`, accepts on one thread and does nothing else
//! with its connections than to keep them. It ends when its standard input does, and then prints one JSON object: how many
//! connections it accepted, the time from the first of them to the last, and the CPU time of the process.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use linerate_engine::now;
use linerate_model::Timestamp;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use rustix::time::{ClockId, clock_gettime};

// Source: net.core.somaxconn, since Linux 5.4.
const BACKLOG: i32 = 4_096;

type Failure = Box<dyn std::error::Error>;

/// Connections, and when the first and the last of them were accepted.
#[derive(Default)]
struct Accepted {
    connections: Vec<std::net::TcpStream>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

fn main() -> Result<(), Failure> {
    // The standard library's queue of 128 is full before a loop on another core wakes, and a SYN that is dropped comes again
    // after a second.
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0)))?;
    listen(&socket, BACKLOG)?;
    let listener = TcpListener::from(socket);
    println!("ready {}", listener.local_addr()?);
    let accepted = Arc::new(Mutex::new(Accepted::default()));
    let of_loop = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let at = now();
            let Ok(mut all) = of_loop.lock() else { return };
            all.first.get_or_insert(at);
            all.last = Some(at);
            all.connections.push(connection);
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let all = accepted.lock().map_err(|_| "the accept loop has failed")?;
    let took = all.first.zip(all.last).map(|(first, last)| last.since(first).as_secs_f64());
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    println!(
        r#"{{"accepted": {}, "seconds": {}, "cpu_s": {}.{:09}}}"#,
        all.connections.len(),
        took.unwrap_or_default(),
        cpu.tv_sec,
        cpu.tv_nsec
    );
    Ok(())
}
