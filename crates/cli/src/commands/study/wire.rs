//! What the network between the nodes carries by itself: iperf3, and a stream of linerate's own, over the loopback that
//! they talk over, with the congestion control that their sockets have.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::file::WireRule;

/// Chosen: a server listens within milliseconds, on a full machine within a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// Source: tcp(7); what every socket has that asks for none.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Throughput of one stream, in bit/s, and with what it was measured.
pub(super) fn wire(rule: &WireRule, length: Duration) -> Result<(f64, String), String> {
    let congestion = std::fs::read_to_string(CONGESTION).map_err(|error| error.to_string())?;
    let congestion = congestion.trim();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|free| free.local_addr())
        .map_err(|error| error.to_string())?
        .port()
        .to_string();
    let ip = Ipv4Addr::LOCALHOST.to_string();
    let _server = Server::start(&ip, &port)?;
    let seconds = length.as_secs().max(1).to_string();
    let bytes = rule.length.to_string();
    let began = Instant::now();
    loop {
        let output = Command::new("iperf3")
            .args(["-c", &ip, "-p", &port, "-t", &seconds, "-l", &bytes, "-C", congestion, "-J"])
            .output()
            .map_err(|error| error.to_string())?;
        match read(&output) {
            Ok((bit_s, version)) => {
                let says = format!(
                    "{version}, one stream, writes of {bytes} bytes, {congestion} as the nodes' sockets"
                );
                return Ok((bit_s, says));
            }
            // Its server is not there yet.
            Err(trouble) if trouble.contains("refused") && began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(trouble) => return Err(trouble),
        }
    }
}

/// The same of linerate's own stream: bit/s, as its far end counted them.
pub(super) fn stream(rule: &WireRule, length: Duration) -> Result<f64, String> {
    let congestion = std::fs::read_to_string(CONGESTION).map_err(|error| error.to_string())?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let seconds = length.as_secs().max(1);
    let output = Command::new(own)
        .args(["run", "--stream", "up", "--no-check", "--json", "-q", "-d", &format!("{seconds}s")])
        .args(["--block", &rule.length.to_string(), "-C", congestion.trim()])
        .output()
        .map_err(|error| error.to_string())?;
    let said: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
    let arrived = said["load"]["streamed"]["far_read_bytes"].as_f64();
    let arrived = arrived.ok_or("the far end of the stream sent no count")?;
    Ok(arrived * 8.0 / seconds as f64)
}

/// Throughput as the receiver counted it, and the program's version.
fn read(output: &Output) -> Result<(f64, String), String> {
    let said: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).trim().to_owned())?;
    if let Some(trouble) = said["error"].as_str() {
        return Err(format!("iperf3: {trouble}"));
    }
    let version = said["start"]["version"].as_str().unwrap_or("iperf3").to_owned();
    let received = said["end"]["sum_received"]["bits_per_second"].as_f64();
    received
        .map(|bit_s| (bit_s, version))
        .ok_or("iperf3 printed no sum of the bytes received".into())
}

/// It ends after one client, or with this.
struct Server(Child);

impl Server {
    fn start(ip: &str, port: &str) -> Result<Self, String> {
        let started = Command::new("iperf3")
            .args(["-s", "-1", "-B", ip, "-p", port])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        started.map(Self).map_err(|error| match error.kind() {
            ErrorKind::NotFound => "iperf3 is not installed: run `make setup`".into(),
            _ => error.to_string(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
