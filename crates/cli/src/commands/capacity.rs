//! `capacity`: how many connections host and target hold, before any is opened; with `--hold`, and then by opening them.

use std::fmt::Write;

use linerate_capacity::{Forecast, Need};
use linerate_model::{Bytes, Plan};
use linerate_run::{foresee, foresee_users};
use linerate_session::Kind;
use serde_json::json;

use crate::args::{CapacityArgs, LoadArgs};
use crate::failure::Failure;
use crate::output::print;
use crate::plan_of::plan_of;
use crate::signals::Signals;

mod hold;
mod shown;

pub use hold::Held;
pub use shown::document;

/// See the module.
pub fn capacity(args: &CapacityArgs) -> Result<u8, Failure> {
    let (target, kind) = hold::target_of(args)?;
    let plan = plan_of(&load(args, target))?;
    if let (Some(host), None) = (plan.engine.hosts.first(), &args.hold) {
        return Err(Failure::plan(format!(
            "--host {host}: limits are read on this host: leave it out and ask on that one, or add --hold"
        )));
    }
    if args.hold.is_some() {
        return held(args, &plan, kind, &foresee_users(&plan)?);
    }
    let forecast = foresee(&plan)?;
    if args.json {
        let document = json!({
            "schema": "linerate/capacity/1",
            "program": env!("CARGO_PKG_VERSION"),
            "fits": forecast.fits(),
            "forecast": forecast,
        });
        print(&format!("{document:#}\n"))?;
    } else {
        print(&text(&forecast))?;
    }
    let Some(first) = forecast.short().next() else { return Ok(0) };
    Err(Failure::plan(format!(
        "{} connections do not fit: {} hold {} of them: {} needed, {} there; see {}",
        number(forecast.connections),
        first.what,
        number(first.holds.unwrap_or(0)),
        amount(first.needs, first.unit),
        first.has.map_or("?".into(), |has| amount(has, first.unit)),
        if args.json { "paste" } else { "\"To do\" for what to write" },
    )))
}

/// Flags of the plan. A target that is asked for TLS by its protocol is no TLS target.
fn load(args: &CapacityArgs, target: Option<String>) -> LoadArgs {
    let mut load = LoadArgs { target, ..args.load.clone() };
    if args.starttls {
        (load.insecure, load.cacert) = (false, None);
    }
    load
}

/// One climb, as flags of `capacity` with `--hold` ask for it.
pub fn climb(args: &CapacityArgs, signals: &Signals, label: &str) -> Result<Held, Failure> {
    let (target, kind) = hold::target_of(args)?;
    let plan = plan_of(&load(args, target))?;
    hold::hold(args, &plan, kind, &foresee_users(&plan)?, signals, label)
}

/// Opens them.
fn held(
    args: &CapacityArgs,
    plan: &Plan,
    kind: Option<&'static Kind>,
    forecast: &Forecast,
) -> Result<u8, Failure> {
    let signals = Signals::install().map_err(Failure::run)?;
    let held = hold::hold(args, plan, kind, forecast, &signals, "")?;
    if args.json {
        let document = json!({
            "schema": "linerate/capacity/1",
            "program": env!("CARGO_PKG_VERSION"),
            "fits": forecast.fits(),
            "forecast": forecast,
            "held": shown::document(&held),
        });
        print(&format!("{document:#}\n"))?;
    } else {
        print(&shown::text(&held))?;
    }
    let outcome = &held.outcome;
    match outcome.limit() {
        Some(limit) if outcome.held == 0 && !outcome.interrupted => {
            Err(Failure::run(format!("0 users are held: {}: {}", limit.id, limit.says)))
        }
        _ => Ok(held.code),
    }
}

fn text(forecast: &Forecast) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} connections\n", number(forecast.connections));
    let _ = writeln!(
        out,
        "{:>13}  {:6}  {:40}  {:>9}  {:>9}  sum",
        "holds", "of", "limit", "needs", "there"
    );
    for need in &forecast.needs {
        let _ = writeln!(out, "{}", row(need, forecast.connections));
    }
    let arranged = forecast.needs.iter().filter_map(|need| Some((need, need.arranged.as_ref()?)));
    let _ = writeln!(out, "\nlinerate by itself");
    for (need, does) in arranged {
        let _ = writeln!(out, "  {}: {does}", need.what);
    }
    let lines: Vec<_> =
        forecast.needs.iter().filter_map(|need| Some((need.what, need.paste.as_ref()?))).collect();
    if !lines.is_empty() {
        let _ = writeln!(out, "\nTo do");
        for (what, line) in lines {
            let _ = writeln!(out, "  {what}:\n    {line}");
        }
    }
    let holds = forecast.holds.map_or("no limit is known".into(), number);
    let _ = writeln!(out, "\nAll known limits allow: {holds}");
    out
}

fn row(need: &Need, connections: u64) -> String {
    let mark = if need.is_short(connections) { "! " } else { "" };
    let about = if need.is_estimate { "~" } else { "" };
    // What limits how many come at a time holds any number.
    let holds = match (need.holds, need.has) {
        (Some(holds), _) => format!("{mark}{about}{}", number(holds)),
        (None, Some(_)) => "any".into(),
        (None, None) => "?".into(),
    };
    let has = need.has.map_or("?".into(), |has| amount(has, need.unit));
    format!(
        "{holds:>13}  {:6}  {:40}  {:>9}  {has:>9}  {}",
        need.side.word(),
        need.what,
        amount(need.needs, need.unit),
        need.sum
    )
}

fn amount(value: u64, unit: &str) -> String {
    match (unit, value) {
        (_, u64::MAX) => "no limit".into(),
        ("bytes", _) => Bytes(value).to_string(),
        _ => number(value),
    }
}

/// `28,232`; what nobody counts to is no limit.
pub fn number(value: u64) -> String {
    // Chosen: more than any host has of anything that is counted here.
    if value > 1 << 50 {
        return "no limit".into();
    }
    let digits = value.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_groups_of_three() {
        assert_eq!(
            [7, 1_000, 28_232, 1_000_000].map(number),
            ["7", "1,000", "28,232", "1,000,000"]
        );
        assert_eq!(number(u64::MAX), "no limit");
    }
}
