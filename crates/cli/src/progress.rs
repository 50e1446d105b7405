//! How far a run is: one line that is rewritten on a terminal, a line a second otherwise, events for
//! programs.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use linerate_engine::{Flows, now};
use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Evidence, Phase, Side, Slice, StepKind, Subject, live_histogram};
use linerate_model::{BitRate, Bytes, Flow, OpRate, Plan, Timestamp, Workload};
use linerate_run::Observer;
use serde_json::json;

use crate::output::say;

/// To whom progress is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Show {
    /// Nobody.
    Nothing,
    /// A person, on standard error.
    Lines,
    /// A program: NDJSON events on standard output.
    Events,
}

/// What was heard from the engine since the last line.
pub struct Progress {
    show: Show,
    label: String,
    start: Timestamp,
    length: Option<Duration>,
    exchanges: Option<u64>,
    answered: u64,
    printed: Timestamp,
    since: Window,
    /// Of streams: what its senders are.
    stream: Option<Senders>,
}

/// Of a run of streams, what is known of its senders.
struct Senders {
    direction: Flow,
    /// Segments that they had sent again by the last line.
    resent: u64,
}

impl Senders {
    /// Segments sent again since the last line, and the mean congestion window. Unit: bytes. None: not sampled yet.
    fn look(&mut self, so_far: &Evidence) -> (u64, Option<Bytes>) {
        let (mut all, mut windows) = (0, Vec::new());
        for number in 0..Flows::WATCHED {
            let side = match self.direction.of(number) {
                Flow::Down => Side::Server,
                _ => Side::Client,
            };
            let of = so_far.of(Subject::Flow(number, side));
            all += of.last(tcp_info::TOTAL_RETRANS).unwrap_or(0);
            if let (Ok(window), Ok(mss)) = (of.last(tcp_info::SND_CWND), of.last(tcp_info::SND_MSS))
            {
                windows.push(window * mss.0);
            }
        }
        let resent = all.saturating_sub(self.resent);
        self.resent = all;
        let mean = windows.iter().sum::<u64>() / windows.len().max(1) as u64;
        (resent, (!windows.is_empty()).then_some(Bytes(mean)))
    }
}

struct Window {
    answered: u64,
    failed: u64,
    up: u64,
    down: u64,
    latency: Histogram<u64>,
    phase: Phase,
}

impl Window {
    fn new() -> Self {
        Self {
            answered: 0,
            failed: 0,
            up: 0,
            down: 0,
            latency: live_histogram(),
            phase: Phase::Ramp,
        }
    }
}

impl Progress {
    /// Progress of the runs to come.
    pub fn new(show: Show) -> Self {
        Self {
            show,
            label: String::new(),
            start: Timestamp(0),
            length: None,
            exchanges: None,
            answered: 0,
            printed: Timestamp(0),
            since: Window::new(),
            stream: None,
        }
    }

    /// What the next run is for: stands in front of its lines.
    pub fn label(&mut self, label: impl Into<String>) {
        self.label = label.into();
        if self.show == Show::Lines && !self.label.is_empty() {
            say(&format!("{}\n", self.label));
        }
    }

    fn print(&mut self, at: Timestamp, so_far: &Evidence) {
        let seconds = at.since(self.printed).as_secs_f64().max(1e-3);
        let window = std::mem::replace(&mut self.since, Window::new());
        self.printed = at;
        let rate = OpRate(window.answered as f64 / seconds);
        let elapsed = at.since(self.start).as_secs_f64();
        let at_percentile = |percentile| window.latency.value_at_percentile(percentile);
        let goes = self.stream.as_ref().map(|senders| senders.direction);
        let senders = self.stream.as_mut().map(|senders| senders.look(so_far));
        if self.show == Show::Events {
            let mut told = json!({
                "at_s": elapsed,
                "phase": window.phase,
                "throughput_per_s": rate.0,
                "answered": window.answered,
                "failed": window.failed,
                "p50_us": at_percentile(50.0) as f64 / 1e3,
                "p99_us": at_percentile(99.0) as f64 / 1e3,
            });
            if let Some((resent, cwnd)) = senders {
                told["up_bytes"] = json!(window.up);
                told["down_bytes"] = json!(window.down);
                told["resent"] = json!(resent);
                told["cwnd_bytes"] = json!(cwnd.map(|window| window.0));
            }
            self.event("interval", told);
            return;
        }
        let left = match (self.length, self.exchanges) {
            (Some(length), _) => format!("{elapsed:5.1} of {:.1} s", length.as_secs_f64()),
            (None, Some(all)) => format!("{} of {all}", self.answered),
            (None, None) => format!("{elapsed:5.1} s"),
        };
        let line = match senders {
            None => format!(
                "  {left}  {rate:>10}  p50 {:>8}  p99 {:>8}  errors {}",
                time(at_percentile(50.0)),
                time(at_percentile(99.0)),
                window.failed
            ),
            Some((resent, cwnd)) => {
                let way = |way: Flow, bytes: u64| {
                    let rate = BitRate(bytes as f64 * 8.0 / seconds).to_string();
                    let bytes = Bytes(bytes).to_string();
                    let goes = goes.is_some_and(|of| of == way || of == Flow::Both);
                    if goes { format!("  {way} {bytes:>8} {rate:>11}") } else { String::new() }
                };
                let (up, down) = (way(Flow::Up, window.up), way(Flow::Down, window.down));
                let cwnd = cwnd.map_or_else(|| "-".to_owned(), |window| window.to_string());
                format!("  {left}{up}{down}  resent {resent:>5}  cwnd {cwnd:>8}")
            }
        };
        if std::io::stderr().is_terminal() {
            say(&format!("\r\x1b[K{line}"));
        } else {
            say(&format!("{line}\n"));
        }
    }

    /// A target was looked at once more: reads a second since the last time, and on how many connections.
    pub fn on_pass(&mut self, at: Timestamp, reads_per_s: f64, connections: usize) {
        let first = self.printed == self.start;
        let every = match self.show {
            Show::Nothing => return,
            Show::Lines if std::io::stderr().is_terminal() => Duration::ZERO,
            Show::Lines | Show::Events => Duration::from_secs(1),
        };
        if !first && at.since(self.printed) < every {
            return;
        }
        self.printed = at;
        let elapsed = at.since(self.start).as_secs_f64();
        if self.show == Show::Events {
            let told = json!({
                "at_s": elapsed, "reads_per_s": reads_per_s, "connections": connections
            });
            self.event("interval", told);
            return;
        }
        let length = self.length.unwrap_or_default().as_secs_f64();
        let rate = OpRate(reads_per_s);
        let line = format!(
            "  {elapsed:5.1} of {length:.1} s  {rate:>10} reads on {connections} connections"
        );
        if std::io::stderr().is_terminal() {
            say(&format!("\r\x1b[K{line}"));
        } else {
            say(&format!("{line}\n"));
        }
    }

    /// An event for programs.
    pub fn event(&self, event: &str, data: serde_json::Value) {
        let line = json!({ "event": event, "data": data });
        // A reader that went away wants no more events.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

impl Observer for Progress {
    fn warn(&mut self, sentence: &str) {
        match self.show {
            Show::Events => self.event("warning", json!({ "says": sentence })),
            Show::Lines | Show::Nothing => say(&format!("warning: {sentence}\n")),
        }
    }

    fn laid(&mut self, servers: &[String], engines: &[String]) {
        if self.show == Show::Lines {
            say(&format!("servers on {}; engine on {}\n", listed(servers), listed(engines)));
        }
    }

    fn begin(&mut self, plan: &Plan, start: Timestamp) {
        self.start = start;
        self.printed = start;
        self.length = plan.until.duration.map(|duration| duration + plan.lead_in());
        self.exchanges = plan.until.exchanges;
        self.answered = 0;
        self.since = Window::new();
        self.stream = match plan.workload {
            Workload::Stream { direction, .. } => Some(Senders { direction, resent: 0 }),
            _ => None,
        };
        if self.show == Show::Events {
            self.event("start", json!({ "label": self.label, "plan": plan }));
        }
    }

    fn on_slice(&mut self, slice: &Slice, so_far: &Evidence) {
        self.since.up += slice.bytes_written;
        self.since.down += slice.bytes_read;
        self.answered += slice.answered;
        self.since.answered += slice.answered;
        self.since.failed += slice.failed() + slice.timed_out;
        self.since.phase = slice.phase;
        if self.show != Show::Nothing {
            slice.latency.add_to(&mut self.since.latency);
        }
        let every = match self.show {
            Show::Nothing => return,
            Show::Lines if std::io::stderr().is_terminal() => Duration::from_millis(250),
            Show::Lines | Show::Events => Duration::from_secs(1),
        };
        if slice.to.since(self.printed) >= every {
            self.print(slice.to, so_far);
        }
    }

    fn on_step(&mut self, kind: StepKind, connections: u32, left: Duration) {
        match self.show {
            Show::Nothing => {}
            Show::Events => self.event(
                "step",
                json!({ "kind": kind, "connections": connections, "left_s": left.as_secs_f64() }),
            ),
            Show::Lines => {
                let with = match (kind, connections) {
                    (StepKind::Spaced, _) => "single exchanges".to_owned(),
                    (_, 1) => "1 connection".to_owned(),
                    (_, many) => format!("{many} connections"),
                };
                let line = format!("  checking with {with}, {:.1} s left", left.as_secs_f64());
                if std::io::stderr().is_terminal() {
                    say(&format!("\r\x1b[K{line}"));
                } else {
                    say(&format!("{line}\n"));
                }
            }
        }
    }

    fn end(&mut self) {
        match self.show {
            Show::Lines if std::io::stderr().is_terminal() => say("\r\x1b[K"),
            Show::Events => {
                self.event("end", json!({ "at_s": now().since(self.start).as_secs_f64() }))
            }
            _ => {}
        }
    }
}

fn time(ns: u64) -> String {
    match ns as f64 {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.0} us", ns / 1e3),
    }
}

/// A line of hosts that a person reads: the first and the last, where there are many.
fn listed(names: &[String]) -> String {
    match names {
        // Chosen: two lines of a terminal.
        [first, .., last] if names.len() > 12 => {
            format!("{} hosts, {first} to {last}", names.len())
        }
        _ => names.join(", "),
    }
}
