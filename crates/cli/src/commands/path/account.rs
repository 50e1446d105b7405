//! What was asked of a path, what it delivered, and what became of a command's packets, in words and as
//! JSON.

use std::process::ExitStatus;
use std::time::Duration;

use linerate_evidence::sources::link::DirectionReading;
use linerate_lab::{PathProof, ProofRow};
use linerate_model::{Aqm, Bytes, OneDirection, Path, Share};
use serde_json::{Value, json};

use super::{Place, exit_code};

/// See the module.
pub(super) struct Account<'a> {
    pub asked: &'a Path,
    pub place: &'a Place,
    pub words: &'a [String],
    pub status: ExitStatus,
    pub length: Duration,
    /// What the command sent, and what it got.
    pub directions: [DirectionReading; 2],
}

impl Account<'_> {
    /// A line a way.
    pub fn in_words(&self) -> String {
        let [out, back] = &self.directions;
        format!("out   {}\nback  {}\n", self.way(out), self.way(back))
    }

    fn way(&self, way: &DirectionReading) -> String {
        let mut parts = vec![match (way.packets_in, way.bytes_in) {
            (Some(packets), Some(Bytes(bytes))) => {
                format!("{} packets, {}", grouped(packets), megabytes(bytes))
            }
            _ => "packets not counted".to_owned(),
        }];
        for (count, what) in [
            (way.dropped_loss, "lost"),
            (way.dropped_queue, "dropped at the full queue"),
            (way.dropped_limit, "dropped at the limit"),
            (way.dropped_size, "dropped as too large"),
            (way.dropped, "dropped"),
            (way.dropped_device, "frames not carried by the emulator"),
            (way.duplicated, "sent twice"),
            (way.reordered, "sent ahead"),
        ] {
            if let Some(count @ 1..) = count {
                let share = Share(count as f64 / way.packets_in.unwrap_or(count).max(1) as f64);
                parts.push(format!("{} {what} ({share})", grouped(count)));
            }
        }
        if let Some(most @ 1..) = way.queue_most {
            parts.push(format!("queue {} at most", grouped(most)));
        }
        if let (Some(late), Some(frames @ 1..)) = (way.late, way.frames_out) {
            let mean = late / u32::try_from(frames).unwrap_or(u32::MAX);
            let most = way.late_most.unwrap_or_default();
            parts.push(format!("late {} in the mean, {} at most", short(mean), short(most)));
        }
        if let Some(cpu) = way.cpu {
            let share = Share(cpu.as_secs_f64() / self.length.as_secs_f64().max(1e-9));
            parts.push(format!("{share} of a CPU"));
        }
        parts.join("; ")
    }

    /// All of it.
    pub fn json(&self) -> String {
        let proof: Vec<Value> = self
            .place
            .proof
            .iter()
            .map(|[what, asked, delivered]| {
                json!({ "what": what, "asked": asked, "delivered": delivered })
            })
            .collect();
        let [out, back] = self.directions.each_ref().map(way_json);
        let whole = json!({
            "version": 1,
            "command": self.words,
            "exit_code": exit_code(self.status),
            "seconds": self.length.as_secs_f64(),
            "asked": self.asked,
            "backend": self.place.backend,
            "peer": self.place.peer,
            "gateway": self.place.gateway,
            "own": self.place.own,
            "paths": self.place.paths,
            "proof": proof,
            "out": out,
            "back": back,
        });
        format!("{whole:#}\n")
    }
}

/// Counts as they are; times in nanoseconds. What the backend does not tell is not there.
fn way_json(way: &DirectionReading) -> Value {
    let nanos = |time: Option<Duration>| time.map(|time| time.as_nanos() as u64);
    let all = [
        ("packets_in", way.packets_in),
        ("bytes_in", way.bytes_in.map(|bytes| bytes.0)),
        ("frames_in", way.frames_in),
        ("packets_out", way.packets_out),
        ("bytes_out", way.bytes_out.map(|bytes| bytes.0)),
        ("frames_out", way.frames_out),
        ("dropped_loss", way.dropped_loss),
        ("dropped_queue", way.dropped_queue),
        ("dropped_limit", way.dropped_limit),
        ("dropped_size", way.dropped_size),
        ("dropped_device", way.dropped_device),
        ("dropped", way.dropped),
        ("duplicated", way.duplicated),
        ("reordered", way.reordered),
        ("queue_most", way.queue_most),
        ("held_most", way.held_most),
        ("late_ns", nanos(way.late)),
        ("late_most_ns", nanos(way.late_most)),
        ("cpu_ns", nanos(way.cpu)),
    ];
    let told = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    Value::Object(told.collect())
}

/// What was asked and what was delivered, a row each.
pub(super) fn proof(proof: &PathProof) -> Vec<[String; 3]> {
    let row = |row: &ProofRow| [row.what.clone(), row.asked.clone(), row.delivered.to_string()];
    proof.rows.iter().map(row).collect()
}

/// `rtt 10ms, 200 Mbit/s, queue 1000 packets, loss 0.100 %`; each way by itself where they differ.
pub(super) fn path_in_words(path: &Path) -> String {
    let [out, back] = path.directions();
    let [there, here] = [&out, &back].map(|way| way_in_words(path, way));
    let rtt = format!("rtt {}", short(path.round_trip()));
    let mut parts = vec![rtt];
    if there == here && out.delay == back.delay {
        parts.extend((!there.is_empty()).then_some(there));
    } else {
        for (name, way, words) in [("out", &out, there), ("back", &back, here)] {
            let delay = format!("{name} {}", short(way.delay));
            parts.push(if words.is_empty() { delay } else { format!("{delay}, {words}") });
        }
    }
    parts.join(", ")
}

fn way_in_words(path: &Path, way: &OneDirection) -> String {
    let mut parts = Vec::new();
    if !way.jitter.is_zero() {
        parts.push(format!("jitter {}", short(way.jitter)));
    }
    if let Some(rate) = way.rate {
        parts.push(rate.to_string());
    }
    if let Some(trace) = &way.trace {
        parts.push(format!("trace {}", trace.display()));
    }
    if way.rate.is_some() || way.trace.is_some() {
        parts.push(format!("queue {}", way.queue));
        if way.aqm == Aqm::Codel {
            parts.push("CoDel".to_owned());
        }
    }
    parts.extend(way.limit.map(|limit| format!("limit {limit} packets")));
    for (share, what) in
        [(way.loss, "loss"), (way.duplicate, "duplicate"), (way.reorder, "reorder")]
    {
        if share.0 > 0.0 {
            parts.push(format!("{what} {share}"));
        }
    }
    if way.loss.0 > 0.0 && way.loss_burst != 1.0 {
        parts.push(format!("{} in a row", way.loss_burst));
    }
    parts.extend(way.largest.map(|largest| format!("nothing over {} bytes", largest.0)));
    if !path.offload {
        parts.push("no offload".to_owned());
    }
    parts.join(", ")
}

/// Three digits: `10 ms`, `48.2 us`.
fn short(duration: Duration) -> String {
    let ns = duration.as_nanos() as f64;
    let (value, unit) = match ns {
        ..1e3 => (ns, "ns"),
        ..1e6 => (ns / 1e3, "us"),
        ..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = if value.fract() == 0.0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

fn megabytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use linerate_model::{BitRate, DirectionChange, Queue};

    use super::*;

    #[test]
    fn a_path_is_said_once_where_both_ways_are_alike() {
        let path = Path {
            rate: Some(BitRate(2e8)),
            queue: Some(Queue::Packets(1000)),
            loss: Share(0.001),
            ..Path::of_rtt(Duration::from_millis(10))
        };
        assert_eq!(path_in_words(&path), "rtt 10 ms, 200 Mbit/s, queue 1000 packets, loss 0.100 %");
        assert_eq!(path_in_words(&Path::of_rtt(Duration::from_micros(250))), "rtt 250 us");
        let back = DirectionChange { rate: Some(BitRate(1e6)), ..DirectionChange::default() };
        let uneven = Path { back: Some(back), ..Path::of_rtt(Duration::from_millis(10)) };
        assert_eq!(
            path_in_words(&uneven),
            "rtt 10 ms, out 5 ms, back 5 ms, 1.00 Mbit/s, queue 100 packets"
        );
    }

    #[test]
    fn times_have_three_digits() {
        for (ns, text) in [
            (999, "999 ns"),
            (48_230, "48.2 us"),
            (10_000_000, "10 ms"),
            (10_084_000, "10.1 ms"),
            (1_500_000_000, "1.50 s"),
        ] {
            assert_eq!(short(Duration::from_nanos(ns)), text);
        }
    }

    #[test]
    fn what_is_not_told_is_not_in_the_account() {
        let way = DirectionReading { packets_in: Some(1), ..DirectionReading::default() };
        assert_eq!(way_json(&way), json!({ "packets_in": 1 }));
    }
}
