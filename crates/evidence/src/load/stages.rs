//! Levels of load that were held one after the other, each by itself.

use std::time::Duration;

use linerate_model::{OpRate, Plan, Stage, Timestamp};

use super::Row;
use crate::engine::Phase;
use crate::packed::live_histogram;

/// One level's figures: of all slices whose middle is in it, its own warm-up included.
#[derive(Clone, Debug, PartialEq)]
pub struct StageLoad {
    /// Connections of a closed loop, or the rate of an open one; the time by the plan.
    pub stage: Stage,
    /// When its first slice began and its last one ended.
    pub window: (Timestamp, Timestamp),
    /// Answered in it, by its length.
    pub throughput: OpRate,
    /// Median latency. Unit: ns; absent: nothing was answered.
    pub p50: Option<u64>,
    /// 99th percentile of it. Unit: ns.
    pub p99: Option<u64>,
    /// Failed or timed out.
    pub failed: u64,
}

/// Those of a run; none where its plan has no stages.
pub(super) fn of(rows: &[Row], plan: &Plan) -> Vec<StageLoad> {
    let load = &plan.load;
    let begun = rows.iter().find(|row| row.scheduled > 0);
    let (Some(begun), false) = (begun, load.stages.is_empty()) else { return Vec::new() };
    let last = Stage {
        length: plan.until.duration.unwrap_or_default(),
        connections: (!plan.is_open_loop()).then_some(load.connections),
        rate: load.rate,
    };
    let mut begins = begun.from;
    let all = load.stages.iter().chain(std::iter::once(&last));
    let made = all.filter_map(|stage| {
        let from = begins;
        begins = begins.after(stage.length);
        let within = |row: &&Row| {
            let middle = Timestamp(row.from.0 + row.to.since(row.from).as_nanos() as u64 / 2);
            row.phase != Phase::Drain && (from..begins).contains(&middle)
        };
        one(stage, &rows.iter().filter(within).collect::<Vec<_>>())
    });
    made.collect()
}

/// None: the run ended before it.
fn one(stage: &Stage, rows: &[&Row]) -> Option<StageLoad> {
    let window = (rows.first()?.from, rows.last()?.to);
    let length: Duration = window.1.since(window.0);
    let mut latency = live_histogram();
    for row in rows {
        row.latency.iter().for_each(|packed| packed.add_to(&mut latency));
    }
    let at = |percentile| (!latency.is_empty()).then(|| latency.value_at_percentile(percentile));
    let answered: u64 = rows.iter().map(|row| row.answered).sum();
    Some(StageLoad {
        stage: stage.clone(),
        window,
        throughput: OpRate(answered as f64 / length.as_secs_f64().max(1e-9)),
        p50: at(50.0),
        p99: at(99.0),
        failed: rows.iter().map(|row| row.failed).sum(),
    })
}
