//! Documents of what was not run: a prediction from a column (`schema/predict.json`), and of what a run
//! would have done otherwise (`schema/what-if.json`).

use linerate_evidence::Header;
use linerate_model::{OpRate, Path};
use linerate_predict::{Ceiling, Changed, Cpu, Crossing, Demands, Ends, Forecast, Measured, Usl};
use linerate_roofline::{Verdict, is_modelled};
use serde::{Deserialize, Serialize};

/// Throughput over concurrency of a service behind a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictDocument {
    /// `linerate/predict/1`.
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// The file, and which of its rows.
    pub from: String,
    /// Those rows.
    pub measured: Vec<Known>,
    /// What lies between now.
    pub crossing: Between,
    /// What an exchange needs, fitted to the rows; absent: they are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demands: Option<Demands>,
    /// The scalability law's coefficients, fitted to the rows; absent: they are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usl: Option<Usl>,
    /// One a concurrency.
    pub rows: Vec<PredictRow>,
    /// Which rows the prediction is held against; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// What it can't see.
    pub blind_spots: Vec<String>,
}

/// What is known of one concurrency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// Workers.
    pub connections: u32,
    /// What they did.
    pub per_s: f64,
    /// Mean latency; absent: not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<f64>,
}

/// One concurrency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictRow {
    /// The prediction; its keys stand beside the row's own.
    #[serde(flatten)]
    pub forecast: Forecast,
    /// What it was held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Known>,
    /// Predicted by known throughput, less one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<f64>,
    /// Predicted by known mean latency, less one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_off: Option<f64>,
    /// The same by packet-level simulation, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

/// What a packet-level simulation gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    /// Exchanges a second.
    pub throughput_per_s: f64,
    /// Half the width of its 95 % interval.
    pub error_per_s: f64,
    /// Mean latency.
    pub mean_latency_us: f64,
    /// 99th percentile of latency.
    pub p99_latency_us: f64,
    /// Share of the packets that the path dropped, of the direction where that is most.
    pub dropped: f64,
    /// Segments sent again, a second, in the whole network.
    pub retransmitted_per_s: f64,
    /// Workers that waited for a retransmission, in the mean.
    pub stalled_workers: f64,
}

/// A path and what crosses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// As in a plan.
    pub path: Path,
    /// Of all exchanges, those that cross it.
    pub share: f64,
    /// Servers that each worker has a connection to.
    pub servers: u32,
    /// Whether workers are on both sides.
    pub both_sides: bool,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of an answer.
    pub response_bytes: u64,
    /// What a connection may have on its way; absent: a whole message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
}

/// A run, changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIfDocument {
    /// `linerate/what-if/1`.
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// The evidence file.
    pub from: String,
    /// What was run.
    pub run: WasRun,
    /// What is to be otherwise; absent keys are as they were.
    pub change: Asked,
    /// What lies between then.
    pub crossing: Between,
    /// What to expect.
    pub expect: Forecast,
    /// Of what was measured.
    pub ratio: f64,
    /// What it can't see.
    pub blind_spots: Vec<String>,
}

/// What a run told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WasRun {
    /// The plan's name.
    pub name: String,
    /// Workers.
    pub connections: u32,
    /// What they did.
    pub throughput_per_s: f64,
    /// Mean latency.
    pub mean_latency_us: f64,
    /// What held it.
    pub verdict: Verdict,
    /// What lay between.
    pub crossing: Between,
    /// CPUs that its exchanges queue for.
    pub cpus: Vec<Cpu>,
    /// Threads that are full at a rate.
    pub threads: Vec<Ceiling>,
    /// What of an exchange neither CPUs nor path explain, and nobody waits for.
    pub delay_us: f64,
    /// Of something that is full and that nobody measured: an exchange's time there by how many are there at a time.
    pub unknown_us: f64,
}

/// What is asked to be otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// CPUs of the machine that the target is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u16>,
    /// Machines like this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u16>,
}

impl PredictDocument {
    /// As [`PredictDocument::schema`] has it.
    pub const SCHEMA: &str = "linerate/predict/1";

    /// What no such prediction sees.
    pub fn blind_spots() -> Vec<String> {
        [
            "an exchange is assumed to cost what it costs in the column with as many inside: effects of the path \
             (retransmissions, fewer bytes a read) are not included",
            "a lost packet waits for the timeout of 200 ms and a round trip: connections with several \
             packets under way recover sooner",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

impl PredictRow {
    /// A forecast, and what it is held against.
    pub fn new(forecast: Forecast, known: Option<Known>) -> Self {
        let off = known.map(|known| forecast.throughput_per_s.mid.0 / known.per_s - 1.0);
        let latency_off =
            known.and_then(|known| Some(forecast.mean_latency_us[1] / known.mean_us? - 1.0));
        Self { forecast, known, off, latency_off, simulated: None }
    }
}

impl WhatIfDocument {
    /// As [`WhatIfDocument::schema`] has it.
    pub const SCHEMA: &str = "linerate/what-if/1";

    /// What no such prediction sees, and what this run's verdict adds to that.
    pub fn blind_spots(verdict: &Verdict, local: bool) -> Vec<String> {
        let mut spots = vec![
            "the cost of an exchange is taken from one run: it falls as load grows (wake-ups and writes are shared, \
             spinning stops) and rises with many connections; the interval allows for a third of the CPUs' idle time"
                .to_owned(),
            "other limits (locks, pools, windows, accept queues) count as a delay where exchanges do not wait for \
             them, else as one queue: the run shows no more"
                .to_owned(),
        ];
        if !local {
            spots.push(
                "the target is on another host: its CPUs are unknown, and never full here"
                    .to_owned(),
            );
        }
        if let Some(by) = verdict.by().filter(|by| !is_modelled(by)) {
            spots.push(format!(
                "this run was limited by {by}, which stays: lift that first, see `linerate explain {by}`"
            ));
        }
        spots
    }
}

impl WasRun {
    /// Of a run's evidence. `mean_latency`: in ns.
    pub fn new(
        header: &Header,
        of: &Measured,
        verdict: Verdict,
        mean_latency: f64,
        changed: &Changed,
    ) -> Self {
        Self {
            name: header.plan.name.clone(),
            connections: of.connections,
            throughput_per_s: of.throughput.0,
            mean_latency_us: mean_latency / 1e3,
            verdict,
            crossing: Between::of(&of.crossing),
            cpus: of.cpus.clone(),
            threads: of.threads.clone(),
            delay_us: changed.delay() * 1e6,
            unknown_us: changed.unknown() * 1e6,
        }
    }

    pub(crate) fn throughput(&self) -> OpRate {
        OpRate(self.throughput_per_s)
    }
}

impl Between {
    /// The same as data.
    pub fn of(crossing: &Crossing) -> Self {
        Self {
            path: crossing.path.clone(),
            share: crossing.share.0,
            servers: crossing.servers,
            both_sides: crossing.ends == Ends::Both,
            request_bytes: crossing.request.0,
            response_bytes: crossing.response.0,
            window_bytes: crossing.window.map(|window| window.0),
        }
    }
}
