//! `--apply`: a knob of the live node set, the target measured without and with it, and the knob
//! restored.
//!
//! Without, with, without: three equal stretches, so that what drifts in one direction has the same part
//! in both. The verdict is that of the first one. The probe in the node knows how to restore the knob
//! and does so by itself when linerate is gone.

use std::time::Duration;

use linerate_beam::term::{Term, as_atom, as_text, as_tuple, as_u64, atom, integer, tuple};
use linerate_engine::now;
use linerate_evidence::watched_bytes;
use linerate_model::{Bytes, Timestamp};
use linerate_report::Applied;

use super::watch::{EVERY, Watch};
use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::pairs::effect_of_rates;

/// What can be set and restored, and its values.
const KNOBS: [(&str, Takes); 7] = [
    ("nodelay", Takes::OnOff),
    ("delay_send", Takes::OnOff),
    ("buffer", Takes::Size),
    ("high_watermark", Takes::Size),
    ("schedulers_online", Takes::Count),
    ("dirty_cpu_schedulers_online", Takes::Count),
    ("fullsweep_after", Takes::Count),
];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Takes {
    OnOff,
    Size,
    Count,
}

// Chosen: past it nobody means a buffer.
const LARGEST: u64 = 1 << 30;

// Chosen: a node that is full answers within seconds.
const PATIENCE: Duration = Duration::from_secs(12);

/// See the module.
#[derive(Debug)]
pub(super) struct Apply {
    knob: &'static str,
    text: String,
    value: Term,
    listener: Option<u16>,
    keep: bool,
}

impl Apply {
    /// What was typed, if it can be set.
    pub(super) fn new((knob, text): &(String, String), args: &DoctorArgs) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::plan(format!("--apply {knob}={text}: {why}"));
        let Some((knob, takes)) = KNOBS.iter().find(|(known, _)| known == knob) else {
            let known: Vec<&str> = KNOBS.iter().map(|(known, _)| *known).collect();
            return Err(wrong(format!(
                "not a knob that can be set on a live node and restored: write one of {}",
                known.join(", ")
            )));
        };
        let value = match (takes, text.as_str()) {
            (Takes::OnOff, "on" | "true") => atom("true"),
            (Takes::OnOff, "off" | "false") => atom("false"),
            (Takes::OnOff, _) => return Err(wrong("write on or off".into())),
            (Takes::Size, size) => {
                let size: Bytes = size.parse().map_err(|error| wrong(format!("{error}")))?;
                integer(i64::try_from(size.0).unwrap_or(i64::MAX))
            }
            (Takes::Count, count) => {
                let count: u16 = count.parse().map_err(|_| wrong("write a whole number".into()))?;
                integer(count.into())
            }
        };
        if *takes == Takes::Size && !(1..LARGEST).contains(&as_u64(&value).unwrap_or(0)) {
            return Err(wrong("write more than 0 and less than 1GiB".into()));
        }
        if args.listener.is_some() && *takes == Takes::Count {
            return Err(wrong("--listener is for options of sockets: leave it out".into()));
        }
        Ok(Self { knob, text: text.clone(), value, listener: args.listener, keep: args.keep })
    }

    /// Watches for so long, a third of it with the knob set. None when it was interrupted.
    pub(super) fn measure(
        &self,
        watch: &mut Watch<'_>,
        start: Timestamp,
        length: Duration,
    ) -> Result<Option<Applied>, Failure> {
        let third = length / 3;
        watch.until(start.after(third))?;
        watch.judge_what_was_seen()?;
        if watch.has_ended() {
            return Ok(None);
        }
        if watch.attached().is_none() {
            return Ok(None);
        }
        let begun = now();
        let (sockets, changed) = self.set(watch)?;
        let since = now();
        watch.until(start.after(third * 2))?;
        let ended = now();
        if watch.is_lost() {
            return Ok(None);
        }
        self.call(watch, "restore", Vec::new())?;
        let back = now();
        watch.until(start.after(length))?;
        let without = [watched(watch, start, begun), watched(watch, back, now())];
        let with = [watched(watch, since, ended)];
        let mut kept = false;
        if self.keep && !watch.has_ended() {
            self.set(watch)?;
            self.call(watch, "keep", Vec::new())?;
            kept = true;
        }
        Ok(Some(Applied {
            knob: self.knob.into(),
            value: self.text.clone(),
            says: self.says(sockets, changed),
            kept,
            effect: effect_of_rates(&without, &with),
        }))
    }

    /// How many sockets there were, and how many of them were set otherwise.
    fn set(&self, watch: &Watch<'_>) -> Result<(u64, u64), Failure> {
        let what = tuple(vec![atom(self.knob), self.value.clone()]);
        let place = self.listener.map_or_else(|| atom("all"), |port| integer(port.into()));
        let answer = self.call(watch, "set", vec![what, place])?;
        let counts = as_tuple(&answer).and_then(|counts| match counts {
            [sockets, changed] => as_u64(sockets).zip(as_u64(changed)),
            _ => None,
        });
        match counts {
            Some((0, _)) => Err(self.refused(match self.listener {
                Some(port) => {
                    format!("no connection to port {port} was found: write another --listener")
                }
                None => "the node has no accepted connection to set it on".into(),
            })),
            Some(counts) => Ok(counts),
            None => Err(self.refused(format!("the probe answered {answer:?}"))),
        }
    }

    /// What a call gave beside `ok`.
    fn call(
        &self,
        watch: &Watch<'_>,
        function: &str,
        arguments: Vec<Term>,
    ) -> Result<Term, Failure> {
        let attached =
            watch.attached().ok_or_else(|| self.refused("the probe is not on the node".into()))?;
        let answer = attached
            .call("linerate_probe_knob", function, arguments, PATIENCE)
            .map_err(|fault| self.refused(fault.to_string()))?;
        match as_tuple(&answer) {
            Some([ok, value]) if as_atom(ok) == Some("ok") => Ok(value.clone()),
            Some([error, why]) if as_atom(error) == Some("error") => {
                Err(self.refused(as_text(why).unwrap_or_else(|| "it gives no reason".into())))
            }
            _ => Ok(answer),
        }
    }

    fn refused(&self, why: String) -> Failure {
        Failure::run(format!("--apply {}={}: {why}", self.knob, self.text))
    }

    fn says(&self, sockets: u64, changed: u64) -> String {
        let is_option =
            !matches!(KNOBS.iter().find(|(known, _)| *known == self.knob), Some((_, Takes::Count)));
        match (is_option, changed) {
            (_, 0) => "it was already set: nothing was changed".into(),
            (false, _) => "a flag of the node".into(),
            (true, _) if changed == sockets => format!("on {changed} connections"),
            (true, _) => format!("on {changed} of {sockets} connections; the others had it"),
        }
    }
}

/// Bytes a second in a stretch, a step a pass: a larger buffer makes fewer reads of the same. The passes
/// at its ends saw a part of something else.
fn watched(watch: &Watch<'_>, from: Timestamp, to: Timestamp) -> Vec<f64> {
    let inner = to.since(from).saturating_sub(EVERY);
    watched_bytes(watch.evidence(), from.after(EVERY), from.after(inner), EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn apply(words: &[&str]) -> Result<Apply, Failure> {
        let words = [&["linerate", "doctor", "shop"], words].concat();
        let Command::Doctor(args) = Cli::try_parse_from(words).unwrap().command else {
            unreachable!("it is doctor that is parsed")
        };
        Apply::new(args.apply.as_ref().unwrap(), &args)
    }

    #[test]
    fn values_are_those_that_the_knob_takes() {
        assert_eq!(apply(&["--apply", "nodelay=on"]).unwrap().value, atom("true"));
        assert_eq!(apply(&["--apply", "buffer=64KiB"]).unwrap().value, integer(65_536));
        assert_eq!(apply(&["--apply", "schedulers_online=1"]).unwrap().value, integer(1));
        for (knob, says) in [
            ("nodelay=maybe", "write on or off"),
            ("buffer=0", "more than 0"),
            ("schedulers_online=x", "whole number"),
            ("sndbuf=1KiB", "write one of nodelay"),
            ("active=once", "write one of nodelay"),
        ] {
            let failure = apply(&["--apply", knob]).unwrap_err();
            assert_eq!(failure.code, 2, "{knob}");
            assert!(failure.sentence.contains(says), "{failure}");
        }
        assert!(apply(&["--apply", "fullsweep_after=0", "--listener", "80"]).is_err());
    }
}
