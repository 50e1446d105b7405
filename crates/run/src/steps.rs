//! A step as it is made: its engine job begun, drained and taken together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use linerate_engine::{Job, Preflight, Running, now, spaced};
use linerate_evidence::{
    Live, Packed, Phase, Slice, Step, StepKind, is_turned_away, live_histogram,
};
use linerate_model::Timestamp;

use crate::error::RunError;
use crate::experiment::{self, KNOWN, Planned, WARM_UP};

/// What goes on beside a step, asked every few milliseconds; false ends it.
pub(crate) trait Beside {
    fn goes_on(&mut self) -> Result<bool, RunError>;

    /// Begins a closed loop.
    fn start(&mut self, job: &Job) -> Result<Running, RunError>;

    /// It has ended.
    fn over(&mut self) -> Result<(), RunError>;
}

/// Makes the step. None where it was ended early, or its connections did not open.
pub(crate) fn make(
    main: &Job,
    preflight: &Preflight,
    step: &Planned,
    patience: Duration,
    beside: &mut impl Beside,
) -> Result<Option<Step>, RunError> {
    match step.kind {
        StepKind::Spaced => spaced_step(main, preflight, step, beside),
        _ => loop_step(main, step, patience, beside),
    }
}

fn spaced_step(
    main: &Job,
    preflight: &Preflight,
    step: &Planned,
    beside: &mut impl Beside,
) -> Result<Option<Step>, RunError> {
    let begun = now();
    let (job, spacing) = experiment::spacing(main, preflight);
    let stop = Arc::clone(&job.stop);
    let thread = std::thread::spawn(move || spaced(&job, &spacing));
    let went_on = wait(beside, &stop, || thread.is_finished())?;
    let Ok(spaced) = thread.join() else { return Ok(None) };
    if !went_on || spaced.answered.is_empty() {
        return Ok(None);
    }
    let (mut service, mut first_byte) = (live_histogram(), live_histogram());
    let mut made = empty(step, begun);
    (made.from, made.to, made.failed) = (spaced.from, spaced.to, spaced.failed);
    for (took, first, status) in &spaced.answered {
        // They grow by themselves.
        let _ = service.record(took.as_nanos() as u64);
        let _ = first_byte.record(first.as_nanos() as u64);
        made.answered += 1;
        let class = status.map_or(0, |status| usize::from(status / 100));
        if let Some(count) = made.status.get_mut(class.wrapping_sub(1)) {
            *count += 1;
        }
        made.good += u64::from(class != 5 && !status.is_some_and(is_turned_away));
    }
    (made.service, made.first_byte) = (Packed::pack(&service), Packed::pack(&first_byte));
    Ok(Some(made))
}

/// Until it is over; whether it was not ended early.
fn wait(
    beside: &mut impl Beside,
    stop: &AtomicBool,
    is_over: impl Fn() -> bool,
) -> Result<bool, RunError> {
    while !is_over() {
        std::thread::sleep(Duration::from_millis(10));
        if !beside.goes_on().inspect_err(|_| stop.store(true, Ordering::Relaxed))? {
            stop.store(true, Ordering::Relaxed);
            return Ok(false);
        }
    }
    Ok(true)
}

fn loop_step(
    main: &Job,
    step: &Planned,
    patience: Duration,
    beside: &mut impl Beside,
) -> Result<Option<Step>, RunError> {
    let job = experiment::job(main, step);
    let stop = Arc::clone(&job.stop);
    let running = beside.start(&job)?;
    let begun = running.started;
    let (mut slices, mut went_on) = (Vec::new(), true);
    loop {
        match running.slices.recv_timeout(Duration::from_millis(20)) {
            Ok(slice) => slices.push(slice.live()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stop.load(Ordering::Relaxed) {
            continue;
        }
        let load = slices.iter().filter(|slice| slice.phase == Phase::Load);
        let first = load.map(|slice| slice.from).min();
        let loads = first.is_some();
        if first.is_some_and(|first| now().since(first) >= step.length)
            && taken_together(step, begun, &slices).is_some_and(|so_far| is_known(&so_far))
        {
            stop.store(true, Ordering::Relaxed);
            continue;
        }
        let goes_on = beside.goes_on().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        if !goes_on || (!loads && now().since(begun) > patience + step.length) {
            went_on = false;
            stop.store(true, Ordering::Relaxed);
        }
    }
    running.join().map_err(RunError::Engine)?;
    beside.over()?;
    Ok(if went_on { taken_together(step, begun, &slices) } else { None })
}

/// Whether its throughput is known to a tenth.
fn is_known(step: &Step) -> bool {
    let (rate, (low, high)) = (step.throughput().0, step.interval());
    high.0 - low.0 <= 2.0 * KNOWN * rate
}

/// The slices of the load, the warm-up cut.
fn taken_together(step: &Planned, begun: Timestamp, slices: &[Slice<Live>]) -> Option<Step> {
    let load = || slices.iter().filter(|slice| slice.phase == Phase::Load);
    let first = load().map(|slice| slice.from).min()?;
    let cut = first.after(step.length.mul_f64(WARM_UP)).max(first_wave(step, slices));
    let begins = load().map(|slice| slice.from).filter(|from| *from >= cut).min()?;
    let mut made = empty(step, begun);
    made.from = begins;
    let mut rows = std::collections::BTreeMap::<u32, (Timestamp, Timestamp, u64)>::new();
    let (mut service, mut first_byte) = (live_histogram(), live_histogram());
    // Threads' slices of one index span the same time; the first that is whole for one is for all.
    let index = load().filter(|slice| slice.from >= cut).map(|slice| slice.index).min()?;
    for slice in load().filter(|slice| slice.index >= index) {
        let row = rows.entry(slice.index).or_insert((slice.from, slice.to, 0));
        *row = (row.0.min(slice.from), row.1.max(slice.to), row.2 + slice.answered);
        made.to = made.to.max(slice.to);
        made.answered += slice.answered;
        made.good += slice.good();
        made.failed += slice.failed() + slice.timed_out;
        made.status.iter_mut().zip(slice.status).for_each(|(sum, count)| *sum += count);
        for (sum, live) in [(&mut service, &slice.service), (&mut first_byte, &slice.first_byte)] {
            if let Some(times) = live.recorded() {
                // It grows by itself.
                let _ = sum.add(times);
            }
        }
    }
    made.counts =
        rows.into_values().map(|(from, to, answered)| (to.nanos_since(from), answered)).collect();
    (made.service, made.first_byte) = (Packed::pack(&service), Packed::pack(&first_byte));
    Some(made)
}

/// When as many were answered as there are connections, in the first half of the time so far; else the beginning of time.
fn first_wave(step: &Planned, slices: &[Slice<Live>]) -> Timestamp {
    let load = || slices.iter().filter(|slice| slice.phase == Phase::Load);
    let mut ends: Vec<_> = load().map(|slice| (slice.to, slice.answered)).collect();
    ends.sort_unstable();
    let mut answered = 0;
    let wave = ends.iter().find(|(_, count)| {
        answered += count;
        answered >= u64::from(step.connections)
    });
    let times = load().map(|slice| slice.from).min().zip(ends.last());
    let middle = times.map(|(from, (to, _))| from.after(to.since(from) / 2));
    wave.map(|(at, _)| *at).filter(|at| Some(*at) <= middle).unwrap_or(Timestamp(0))
}

fn empty(step: &Planned, begun: Timestamp) -> Step {
    Step {
        kind: step.kind,
        connections: step.connections,
        begun,
        from: begun,
        to: begun,
        answered: 0,
        good: 0,
        failed: 0,
        status: [0; 5],
        counts: Vec::new(),
        service: Packed::default(),
        first_byte: Packed::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned() -> Planned {
        let length = Duration::from_millis(100);
        Planned { kind: StepKind::Half, connections: 2, length, most: length }
    }

    #[test]
    fn the_first_fifth_is_no_part_of_it() {
        let planned = planned();
        // Two threads, ten slices of 10 ms, an exchange of 1 ms in each; five in those of the first 20 ms.
        let slice = |thread: u16, index: u32| {
            let mut slice =
                Slice::<Live>::new(thread, index, Timestamp(u64::from(index) * 10_000_000));
            slice.to = Timestamp(slice.from.0 + 10_000_000);
            slice.answered = if index < 2 { 5 } else { 1 };
            slice.service.record_n(1_000_000, slice.answered);
            slice
        };
        let slices: Vec<_> = (0..10).flat_map(|index| [slice(0, index), slice(1, index)]).collect();
        let step = taken_together(&planned, Timestamp(0), &slices).unwrap();
        assert_eq!((step.answered, step.service.len(), step.counts.len()), (16, 16, 8));
        assert_eq!(step.throughput().0, 200.0); // 16 / 80 ms
    }

    #[test]
    fn nor_are_the_first_exchanges_of_new_connections() {
        let planned = planned();
        // A slow start takes 35 ms, later exchanges 10 ms.
        let slice = |index: u32| {
            let mut slice = Slice::<Live>::new(0, index, Timestamp(u64::from(index) * 10_000_000));
            slice.to = Timestamp(slice.from.0 + 10_000_000);
            slice.answered = if index < 3 { 0 } else { 2 };
            slice
                .service
                .record_n(if index == 3 { 35_000_000 } else { 10_000_000 }, slice.answered);
            slice
        };
        let slices: Vec<_> = (0..10).map(slice).collect();
        let step = taken_together(&planned, Timestamp(0), &slices).unwrap();
        assert_eq!((step.from, step.answered), (Timestamp(40_000_000), 12));
        assert!(step.mean_service().unwrap().as_millis() < 12);
        // A wave that takes most of the step is all there is to see.
        let step = taken_together(&planned, Timestamp(0), &slices[..5]).unwrap();
        assert_eq!((step.from, step.answered), (Timestamp(20_000_000), 4));
    }

    #[test]
    fn a_step_that_never_loaded_says_nothing() {
        let planned = planned();
        let mut slice = Slice::<Live>::new(0, 0, Timestamp(0));
        slice.phase = Phase::Ramp;
        assert!(taken_together(&planned, Timestamp(0), &[slice]).is_none());
    }
}
