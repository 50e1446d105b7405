//! Single exchanges with idle pauses between: each meets nobody, and no limit of a rate.
//!
//! The pauses are of random length, so that the exchanges keep out of step with what a service repeats.

use std::sync::atomic::Ordering;
use std::time::Duration;

use linerate_model::Timestamp;

use crate::clock::now;
use crate::job::Job;
use crate::probe::Line;

// Chosen: one reset may be chance (a server that closes idle connections); three are an answer.
const FAILURES: u64 = 3;

// Chosen: a signal is heard at once, as people have it.
const NAP: Duration = Duration::from_millis(20);

/// How many exchanges, and how far apart.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    /// Mean idle time before each; each is half to one and a half times this.
    pub pause: Duration,
    /// At most so many.
    pub count: usize,
    /// None is begun later than this after the first.
    pub longest: Duration,
}

/// What they showed.
#[derive(Clone, Debug, Default)]
pub struct Spaced {
    /// When the first pause began.
    pub from: Timestamp,
    /// When the last answer had come.
    pub to: Timestamp,
    /// Each that was answered: time to the last byte, time to the first, status where the protocol has one. From
    /// when it was written; with the connect where each exchange has one of its own.
    pub answered: Vec<(Duration, Duration, Option<u16>)>,
    /// How many were not.
    pub failed: u64,
}

/// Makes them, in turn over the servers, on connections that have carried an exchange before. Ends early when
/// the job is stopped.
pub fn spaced(job: &Job, spacing: &Spacing) -> Spaced {
    let job = job.clone();
    let spacing = *spacing;
    // A thread of its own: network namespaces are entered for good.
    std::thread::spawn(move || exchanges(&job, &spacing)).join().unwrap_or_default()
}

fn exchanges(job: &Job, spacing: &Spacing) -> Spaced {
    let mut lines: Vec<Line<'_>> = Line::of(job).into_iter().map(|(_, _, line)| line).collect();
    let mut spaced = Spaced { from: now(), to: now(), ..Spaced::default() };
    if !job.plan.opens_each() {
        // The first opens the connection and its windows.
        spaced.failed +=
            lines.iter_mut().filter_map(|line| line.exchange(job).err()).count() as u64;
    }
    spaced.from = now();
    let mut random = fastrand::Rng::with_seed(job.plan.engine.seed);
    let latest = spaced.from.after(spacing.longest);
    for index in 0..spacing.count {
        let pause = spacing.pause.mul_f64(0.5 + random.f64());
        if now().after(pause) > latest || !idle(job, pause) || spaced.failed >= FAILURES {
            break;
        }
        let count = lines.len().max(1);
        let Some(line) = lines.get_mut(index % count) else { break };
        match line.exchange(job) {
            Ok(took) => spaced.answered.push((took.service, took.first_byte, took.status)),
            Err(_) => spaced.failed += 1,
        }
        spaced.to = now();
    }
    spaced
}

/// Waits; false: the job was stopped.
fn idle(job: &Job, pause: Duration) -> bool {
    let until = now().after(pause);
    while now() < until && !job.stop.load(Ordering::Relaxed) {
        std::thread::sleep(until.since(now()).min(NAP));
    }
    !job.stop.load(Ordering::Relaxed)
}
