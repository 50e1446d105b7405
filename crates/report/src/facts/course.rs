//! What climbs and studies say: runs set against each other.

use super::*;

/// From the first state to the last, in a line.
pub(crate) fn climb_line(climb: &ClimbDocument) -> String {
    let of = |step: Option<&Step>| step.map_or(0.0, |step| step.run.load.throughput_per_s);
    let (first, last) = (of(climb.steps.first()), of(climb.steps.last()));
    let turns = climb.steps.len().saturating_sub(1);
    let knobs = if turns == 1 { "1 knob".into() } else { format!("{turns} knobs") };
    if first > 0.0 && turns > 0 {
        format!("{} to {} ({}) by {knobs}", rate(first), rate(last), ratio(last / first))
    } else {
        format!("{}; no knob was turned", rate(first))
    }
}

/// The knob of a step.
pub(crate) fn turned(step: &Step) -> String {
    step.turned.as_ref().map_or_else(|| "(base)".into(), knob)
}

/// Ratio with its interval.
fn effect(step: &Step) -> String {
    step.effect.as_ref().map_or_else(
        || "-".into(),
        |effect| {
            let [low, high] = effect.interval.map(|end| ratio(end)[1..].to_owned());
            format!("{} ({low} to {high})", ratio(effect.ratio))
        },
    )
}

/// `held`, `missed`, or nothing where nothing was predicted.
pub(crate) fn held(step: &Step) -> &'static str {
    match step.prediction_held {
        Some(true) => "held",
        Some(false) => "missed",
        None => "-",
    }
}

/// The roof that a step ran into, and the one its prediction overlooked.
fn outcome(step: &Step) -> String {
    let by = step.run.verdict.by().unwrap_or("unexplained");
    match &step.overlooked {
        Some(overlooked) if overlooked == by => format!("{by}, which the prediction overlooked"),
        Some(overlooked) => format!("{by}; the prediction overlooked {overlooked}"),
        None => by.to_owned(),
    }
}

/// A row a step.
pub(crate) fn climb(climb: &ClimbDocument) -> Table {
    let mut table = Table::new(
        "Knob by knob",
        &["step", "knob"],
        &["throughput", "ratio (95 %)", "predicted", "prediction"],
    );
    table.head.extend(Table::new("", &["limit"], &[]).head);
    for (index, step) in climb.steps.iter().enumerate() {
        let expected = step.effect.as_ref().and_then(|effect| effect.predicted_per_s);
        table.rows.push(vec![
            index.to_string(),
            turned(step),
            rate(step.run.load.throughput_per_s),
            effect(step),
            expected.map_or_else(|| "-".into(), |expected| rate(expected.mid.0)),
            held(step).into(),
            outcome(step),
        ]);
    }
    table
}

/// A row a case. Of a study made to scale the published throughput is scaled as well, so that the ratio
/// compares like with like.
pub(crate) fn study(study: &StudyDocument) -> Table {
    let scaled = study.scale.is_some();
    let predicted = study.rows.iter().any(|row| row.predicted_per_s.is_some());
    let mut columns = vec!["connections"];
    columns.extend(scaled.then_some("of"));
    columns.push(if scaled { "published, scaled" } else { "published" });
    columns.extend(predicted.then_some("predicted"));
    columns.extend(["measured", "ratio", "mean latency"]);
    columns.extend(scaled.then_some("published"));
    let mut table = Table::new("Published and measured", &["series"], &columns);
    table.head.extend(Table::new("", &["limit"], &[]).head);
    table.rows = study.rows.iter().map(|row| case(study, row, predicted)).collect();
    table
}

fn case(study: &StudyDocument, row: &StudyRow, predicted: bool) -> Vec<String> {
    let measured = row.run.load.throughput_per_s;
    let dash = || "-".to_owned();
    // A case with the published connections is the published one, whatever the scale of the others.
    let factor = row.published_connections.and(study.scale.as_ref()).map_or(1.0, |it| it.factor);
    let published = row.published_per_s.map(|published| published * factor);
    let mut cells = vec![row.series.clone(), row.connections.to_string()];
    if study.scale.is_some() {
        cells.push(row.published_connections.map_or_else(dash, |count| count.to_string()));
    }
    cells.push(published.map_or_else(dash, rate));
    if predicted {
        cells.push(row.predicted_per_s.map_or_else(dash, rate));
    }
    cells.push(rate(measured));
    cells.push(published.map_or_else(dash, |published| ratio(measured / published)));
    cells.push(time(row.run.load.latency_us.mean));
    if study.scale.is_some() {
        cells.push(row.published_mean_us.map_or_else(dash, time));
    }
    cells.push(row.run.verdict.by().unwrap_or("unexplained").to_owned());
    cells
}

/// A row a claim.
pub(crate) fn claims(study: &StudyDocument) -> Table {
    let mut table =
        Table::new("What was claimed, and what became of it", &["claim", "here", "figures"], &[]);
    for claim in &study.claims {
        let held = if claim.held { "held" } else { "not held" };
        table.rows.push(vec![claim.says.clone(), held.into(), claim.because.clone()]);
    }
    table
}
