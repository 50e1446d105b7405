//! What the kernel's part of a capture costs whoever sends: CPU time of exchanges that one thread has with itself over
//! the loopback, captured, filtered out, and captured within the budget, each in turn with not captured.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use linerate_model::Timestamp;
use linerate_probe::CaptureSampler;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let mut client = TcpStream::connect(("127.0.0.1", port))?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut slice = |exchanges: u32| -> std::io::Result<f64> {
        let (mut asked, mut answered) = ([1; 100], [2; 300]);
        let began = own_cpu();
        for _ in 0..exchanges {
            client.write_all(&asked)?;
            server.read_exact(&mut asked)?;
            server.write_all(&answered)?;
            client.read_exact(&mut answered)?;
        }
        Ok((own_cpu() - began).as_nanos() as f64 / f64::from(2 * exchanges))
    };
    // Short slices are over before the capture pauses. The other port: the filter drops the packet, and all else is
    // as it is.
    for (name, watched, exchanges, pairs) in [
        ("captured", port, 5_000, 60),
        ("filtered out", port ^ 1, 5_000, 60),
        ("captured within the budget", port, 300_000, 5),
    ] {
        let mut differences = Vec::new();
        let mut alone = Vec::new();
        for pair in 0..pairs {
            let mut of = [0.0; 2];
            for captured in [pair % 2 == 0, pair % 2 != 0] {
                let capture =
                    captured.then(|| CaptureSampler::start(None, &[watched])).transpose()?;
                slice(5_000)?;
                of[usize::from(captured)] = slice(exchanges)?;
                drop(capture.map(|capture| capture.finish(Timestamp(0))));
            }
            differences.push(of[1] - of[0]);
            alone.push(of[0]);
        }
        differences.sort_by(f64::total_cmp);
        alone.sort_by(f64::total_cmp);
        let at = |share: f64| differences[(share * pairs as f64) as usize];
        println!(
            "{name}: {:.0} ns a packet more (quartiles {:.0} to {:.0}); a packet costs {:.0} ns",
            at(0.5),
            at(0.25),
            at(0.75),
            alone[pairs / 2]
        );
    }
    Ok(())
}

fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
