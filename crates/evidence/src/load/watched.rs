//! The figures of a service that is watched and not loaded: no stamps of ours, so no latency.
//!
//! Its throughput is what its connections read: reads as the node's driver counts them, or else data
//! segments as the kernel does.

use std::time::Duration;

use linerate_model::{OpRate, Timestamp};

use super::{LoadSummary, Percentiles, Validity, WarmUp};
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::sources::{port, tcp_info};
use crate::subject::{Side, Subject};

/// Sums what the connections of the target did between their first and last samples.
pub(super) fn summarise(evidence: &Evidence) -> LoadSummary {
    let rows = evidence.rows();
    let first = rows.first().map_or(Timestamp(0), |(at, _, _)| *at);
    let last = rows.last().map_or(Timestamp(0), |(at, _, _)| *at);
    let seconds = last.since(first).as_secs_f64();
    let grew = |metric: &'static str| -> Option<u64> {
        let metric = Metric::<u64>::new(metric);
        let flows = evidence.flows(Side::Server).into_iter();
        let grown = flows.filter_map(|id| {
            evidence.of(Subject::Flow(id, Side::Server)).delta(metric).ok().map(|(count, _)| count)
        });
        grown.fold(None, |sum, count| Some(sum.unwrap_or(0) + count))
    };
    let reads = grew(port::RECV_CNT.name).or_else(|| grew(tcp_info::DATA_SEGS_IN.name));
    let reads = reads.unwrap_or(0);
    let throughput = OpRate(if seconds > 0.0 { reads as f64 / seconds } else { 0.0 });
    let open = evidence.flows(Side::Server).len() as u64;
    LoadSummary {
        window: (first, last),
        warm_up: WarmUp { length: Duration::ZERO, because: "none: the load is not ours".into() },
        exchanges: reads,
        due: reads,
        throughput,
        throughput_interval: (throughput, throughput),
        scheduled: reads,
        answered: reads,
        errors: Default::default(),
        timed_out: 0,
        in_flight_at_end: 0,
        status: [0; 5],
        opened: 0,
        open,
        bytes_written: grew(port::RECV_OCT.name).unwrap_or(0),
        bytes_read: grew(port::SEND_OCT.name).unwrap_or(0),
        engine_cpu: Duration::ZERO,
        busiest_thread: 0.0,
        in_flight: 0.0,
        in_flight_by_little: 0.0,
        latency: Percentiles::new(),
        service: Percentiles::new(),
        first_byte: Percentiles::new(),
        lateness: Percentiles::new(),
        own_lateness: Percentiles::new(),
        connect: Percentiles::new(),
        points: Vec::new(),
        validity: Validity::default(),
    }
}
