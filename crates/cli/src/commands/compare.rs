//! `compare`: two runs' JSON, ratio by ratio with intervals; exit 5 when the second is worse.

use std::path::Path;

use linerate_evidence::{Packed, live_histogram};
use linerate_model::{OpRate, Share};
use linerate_report::{Document, RunDocument};
use serde_json::json;

use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::pairs::effect;
use crate::plan_of::read;

/// One figure of both runs. A ratio is after by before.
struct Line {
    name: String,
    before: f64,
    after: f64,
    interval: [f64; 2],
    says: String,
    regressed: bool,
}

/// See the module.
pub fn compare(args: &CompareArgs) -> Result<u8, Failure> {
    let tolerance: Share = read("--tolerance", &args.tolerance)?;
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let mut lines = vec![throughput(&before, &after, tolerance.0)];
    for percentile in [50.0, 99.0] {
        lines.extend(latency(&before, &after, percentile, tolerance.0));
    }
    let regressed = lines.iter().any(|line| line.regressed);
    let changed = differences(&before, &after);
    if args.json {
        let figures: Vec<_> = lines
            .iter()
            .map(|line| {
                json!({ "figure": line.name, "before": line.before, "after": line.after,
                        "ratio": line.after / line.before, "interval": line.interval,
                        "says": line.says, "regressed": line.regressed })
            })
            .collect();
        let document = json!({ "schema": "linerate/compare/1", "tolerance": tolerance.0,
                               "plans_differ": changed, "figures": figures, "regressed": regressed });
        print(&format!("{document:#}\n"))?;
    } else {
        print(&text(&lines, &changed, &before, &after, tolerance))?;
    }
    Ok(if regressed { 5 } else { 0 })
}

fn load(path: &Path) -> Result<RunDocument, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{}: cannot be read: {error}", path.display())))?;
    match Document::read(&text) {
        Ok(Document::Run(run)) => Ok(*run),
        Ok(_) => Err(Failure::plan(format!(
            "{}: not one run but several: compare takes the JSON of `linerate run`",
            path.display()
        ))),
        Err(error) => Err(Failure::plan(format!("{}: {error}", path.display()))),
    }
}

fn throughput(before: &RunDocument, after: &RunDocument, tolerance: f64) -> Line {
    let effect = effect(&[before], &[after]);
    Line {
        name: "throughput".into(),
        before: before.load.throughput_per_s,
        after: after.load.throughput_per_s,
        interval: effect.interval,
        says: effect.says,
        // Worse beyond the tolerance, and not by chance.
        regressed: effect.ratio < 1.0 - tolerance && effect.interval[1] < 1.0,
    }
}

/// A percentile of latency; its interval from order statistics, exchanges taken as independent.
fn latency(
    before: &RunDocument,
    after: &RunDocument,
    percentile: f64,
    tolerance: f64,
) -> Option<Line> {
    let (a, b) = (bounds(before, percentile)?, bounds(after, percentile)?);
    let interval = [b[0] / a[2], b[2] / a[0]];
    let ratio = b[1] / a[1];
    let certain = interval[0] > 1.0 || interval[1] < 1.0;
    Some(Line {
        name: format!("latency p{percentile}"),
        before: a[1],
        after: b[1],
        interval,
        says: if certain {
            format!("x{ratio:.2} ({:.2} to {:.2})", interval[0], interval[1])
        } else {
            "no difference found".into()
        },
        regressed: ratio > 1.0 + tolerance && interval[0] > 1.0,
    })
}

/// Low, value, high of a percentile. Unit: microseconds.
fn bounds(run: &RunDocument, percentile: f64) -> Option<[f64; 3]> {
    let packed = Packed::from_base64(&run.load.histogram_v2_base64).ok()?;
    let mut live = live_histogram();
    packed.add_to(&mut live);
    let count = live.len() as f64;
    let share = percentile / 100.0;
    // Source: order statistics; the rank of a quantile is binomial, 1.96 deviations are 95 %.
    let spread = 1.96 * (share * (1.0 - share) / count.max(1.0)).sqrt();
    let at = |share: f64| live.value_at_quantile(share.clamp(0.0, 1.0)) as f64 / 1e3;
    Some([at(share - spread).max(1e-3), at(share).max(1e-3), at(share + spread)])
}

/// What of the plans differs, by dotted key: a comparison of two things at once explains neither.
fn differences(before: &RunDocument, after: &RunDocument) -> Vec<String> {
    let flat = |run: &RunDocument| {
        let mut keys = std::collections::BTreeMap::new();
        flatten("", &serde_json::to_value(&run.plan).unwrap_or_default(), &mut keys);
        keys
    };
    let (a, b) = (flat(before), flat(after));
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    keys.into_iter()
        .filter(|key| a.get(*key) != b.get(*key))
        .map(|key| {
            let show = |side: Option<&String>| side.map_or("absent".to_owned(), Clone::clone);
            format!("{key}: {} -> {}", show(a.get(key)), show(b.get(key)))
        })
        .collect()
}

fn flatten(
    prefix: &str,
    value: &serde_json::Value,
    into: &mut std::collections::BTreeMap<String, String>,
) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&name, value, into);
            }
        }
        other => {
            into.insert(prefix.to_owned(), other.to_string());
        }
    }
}

fn text(
    lines: &[Line],
    changed: &[String],
    before: &RunDocument,
    after: &RunDocument,
    tolerance: Share,
) -> String {
    let mut text = String::new();
    for change in changed {
        text.push_str(&format!("plan      {change}\n"));
    }
    let show = |line: &Line, value: f64| {
        if line.name == "throughput" {
            OpRate(value).to_string()
        } else {
            format!("{:.3} ms", value / 1e3)
        }
    };
    for line in lines {
        text.push_str(&format!(
            "{:<13} {:>14} -> {:>14}  {}{}\n",
            line.name,
            show(line, line.before),
            show(line, line.after),
            line.says,
            if line.regressed { "  REGRESSED" } else { "" }
        ));
    }
    let by = |run: &RunDocument| run.verdict.by().unwrap_or("unexplained").to_owned();
    text.push_str(&format!("limit         {} -> {}\n", by(before), by(after)));
    if lines.iter().any(|line| line.regressed) {
        text.push_str(&format!("worse by more than {tolerance}, beyond chance\n"));
    }
    text
}
