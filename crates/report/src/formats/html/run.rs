//! The page of one run.

use super::parts;
use crate::breakdown;
use crate::document::RunDocument;
use crate::facts;
use crate::figures::{Bar, Curve, Picture, account, experiment, percentiles, roofline, series};

pub(super) fn page(run: &RunDocument) -> String {
    let about = if run.plan.about.is_empty() {
        format!("{} at {}", run.target.name, run.target.address)
    } else {
        run.plan.about.clone()
    };
    [
        parts::masthead("run", &facts::subject(run), &about),
        parts::labels(Some(run)),
        parts::section("Gates", &facts::gates(run), &[]),
        parts::validity(run),
        parts::verdict(run),
        account(
            &Bar::of_run("a request", run).into_iter().collect::<Vec<_>>(),
            "Where a request's time goes, station by station in the order in which it passes them.",
        ),
        series(run, "The course of the run. What is not shaded was left out: ramp and warm-up."),
        parts::cures(&run.advice),
        experiment(
            run.experiment.as_ref(),
            "Throughput over connections: measured, each point with its 95 % interval, and what the model fitted to this run gives, with its interval shaded.",
        ),
        roofline(
            &Picture::of_run(run),
            "Throughput over connections, both logarithmic. Slanted ceilings grow with the connections, level ones are shared by all. Only what lies under every line can be reached.",
        ),
        parts::account(run),
        facts::did(run).map_or_else(String::new, |did| {
            parts::section(&did.caption, &did, &facts::did_notes(run))
        }),
        parts::ceilings(&run.roofline, &run.unread),
        parts::section("Stages", &facts::stages(run), &[]),
        parts::section("Answers", &facts::codes(run), &[]),
        String::from("<section><h2>Times</h2>\n"),
        parts::times(run),
        percentiles(
            &curves(run),
            "Time by percentile, the tail drawn out: each step to the right is ten times rarer. Dotted where values are lower bounds.",
        ),
        breakdown::tables(&run.load.breakdown).iter().map(parts::table).collect(),
        String::from("</section>\n"),
        parts::notes(run),
        parts::setting(run),
    ]
    .concat()
}

fn curves(run: &RunDocument) -> Vec<Curve<'_>> {
    let curve = |name: &str, of, style| Curve { name: name.into(), of, style };
    let (latency, service) = (&run.load.latency_us, &run.load.service_us);
    let mut curves = if latency.percentiles == service.percentiles {
        vec![curve("latency and service", latency, 0)]
    } else {
        vec![curve("latency, from due", latency, 0), curve("service, from sent", service, 1)]
    };
    let message = run.load.carried.as_ref().and_then(|carried| carried.latency_us.as_ref());
    curves.extend(message.map(|of| curve("a message between the nodes", of, 2)));
    curves
}
