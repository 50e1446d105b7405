//! The path's emulator: what delays, queues and drops for us is a program too, and may be the limit itself.
//!
//! `ceiling = attained / share of a CPU of the thread that carries the busiest way`
//!
//! It is named before anything that it might be mistaken for: with it full, or late, or losing what the plan
//! did not ask to be lost, the run measures the path that linerate made and not the one that was asked for.
//! Blind spot: the kernel's netem works in softirqs, on nobody's account; it tells neither CPU nor lateness.

use linerate_evidence::Missing;
use linerate_evidence::sources::link;
use linerate_model::OpRate;

use super::line_rate::FULL as LINE_FULL;
use super::stalls::{FullWindow, Stalls, percent};
use super::ways::{LaidWay, laid};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Target, Utilisation};

// Chosen: the same as for any other thread; the rest is what the kernel takes to switch.
const FULL: f64 = 0.85;

// Chosen: of exchanges' time. The path's proof lets 5 % pass on a machine that rests.
const LATE: f64 = 0.15;

// Chosen: of frames; fewer are one moment's.
const SEVERAL: f64 = 1e-4;

pub(super) struct Emulator;

/// What a way's emulator tells of itself.
struct Account<'a> {
    way: LaidWay<'a>,
    cpu: f64,
    /// Unit: seconds a frame.
    late: f64,
    /// Of frames that came.
    lost: f64,
    lost_per_second: f64,
}

impl Roof for Emulator {
    fn id(&self) -> &'static str {
        "path.emulator"
    }

    fn title(&self) -> &'static str {
        "the path's emulator itself"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/path.emulator.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let ways = laid(run);
        if ways.is_empty() {
            return Ok(Finding::DoesNotApply("the plan lays no path".into()));
        }
        let accounts = ways.into_iter().map(Account::of).collect::<Result<Vec<_>, _>>()?;
        let busiest = accounts.iter().map(|of| of.cpu).fold(0.0, f64::max);
        let late: f64 = accounts.iter().map(|of| of.late * of.way.crossing).sum();
        let Some(worst) = accounts.iter().max_by(|a, b| a.cpu.total_cmp(&b.cpu)) else {
            return Ok(Finding::DoesNotApply("the plan lays no path".into()));
        };
        let attained = run.attained().0;
        let utilisation = Utilisation::of(run);
        let others =
            utilisation.target.as_ref().map_or(0.0, Target::utilisation).max(utilisation.engine);
        let host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let mean = run.load.service.mean() / 1e9;
        let lost = accounts.iter().map(|of| of.lost).fold(0.0, f64::max);
        let lost_per_second: f64 = accounts.iter().map(|of| of.lost_per_second).sum();
        let line = worst.way.utilisation()?;

        let seen = format!(
            "the thread of {} used {:.0} % of a CPU; packets left {} late in a round trip, of {} that an exchange \
             takes; {} of the frames were lost by the emulator's own devices",
            worst.way.name,
            worst.cpu * 100.0,
            duration(late.max(1e-9)),
            duration(mean.max(1e-9)),
            percent(lost)
        );
        // A line that carries all that was asked of it does its work, however hard.
        let is_full =
            busiest >= FULL && busiest >= others - 0.05 && line.is_none_or(|used| used < LINE_FULL);
        // On a machine that is full everybody is late: that is host.cpu's to say.
        let is_late = late >= LATE * mean && host < FULL;
        let costs = || {
            let stalls =
                Stalls::of(run).is_ok_and(|it| it.are_by(lost_per_second / attained.max(1e-9)));
            stalls || FullWindow::of(run).is_ok_and(|windows| windows.holds())
        };
        let loses = lost >= SEVERAL && costs();
        let binds = if (is_full || is_late || loses) && run.is_held_back() {
            Binds::Yes(format!("{seen}: this measures linerate's path, not the target"))
        } else {
            Binds::No(seen)
        };
        let rate = OpRate(attained / busiest.max(1e-6));
        let path = run.header.plan.paths().first().map(|path| (*path).clone()).unwrap_or_default();
        let keys = if run.header.plan.sites.is_empty() { "path" } else { "links.path" };
        let (knob, value, does) = if path.offload {
            ("backend", "netem", "has the kernel delay, where it has netem")
        } else {
            ("offload", "true", "lets the ends hand over many segments in one frame")
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / {:.0} % of a CPU that the thread of {} used = {rate}",
                run.attained(),
                busiest * 100.0,
                worst.way.name
            ),
            binds,
            advice: vec![Advice {
                knob: format!("{keys}.{knob}"),
                value: value.into(),
                does: does.into(),
                by_hand: "more CPUs, or fewer at work: the emulator has a thread a direction, and each needs \
                          a CPU; else a lower rate or larger packets; else a kernel with netem"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * 1.5),
                    high: OpRate(attained * 10.0),
                },
            }],
        }))
    }
}

impl<'a> Account<'a> {
    fn of(way: LaidWay<'a>) -> Result<Self, Missing> {
        let cpu = way.cpu()?;
        // A way that carried nothing was not late.
        let late = way.late().unwrap_or(0.0);
        let lost_per_second = way.per_second(link::DROPPED_DEVICE)?;
        let came = way.per_second(link::FRAMES_IN)?;
        Ok(Self { cpu, late, lost: lost_per_second / came.max(1e-9), lost_per_second, way })
    }
}
