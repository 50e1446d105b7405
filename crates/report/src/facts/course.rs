//! What climbs and studies say: runs set against each other.

use super::*;

/// What gave something, what was tried in vain, and what holds it now.
pub(crate) fn climb_line(climb: &ClimbDocument) -> String {
    let per_s = |step: &Step| step.run.load.throughput_per_s;
    let Some(base) = climb.steps.first() else { return "nothing was measured".into() };
    let gave = |step: &&Step| step.effect.as_ref().is_some_and(|effect| effect.interval[0] > 1.0);
    let (gained, vain): (Vec<_>, Vec<_>) = climb.steps[1..].iter().partition(gave);
    let reached = gained.last().copied().unwrap_or(base);
    let names = |steps: &[&Step]| steps.iter().map(|step| turned(step)).collect::<Vec<_>>();
    let mut said = rate(per_s(base));
    if !gained.is_empty() {
        let times = per_s(reached) / per_s(base);
        said += &format!(
            " -> {} ({}) by {}",
            rate(per_s(reached)),
            ratio(times),
            names(&gained).join(", ")
        );
    }
    if !vain.is_empty() {
        said += &format!("; tried {}: no gain", names(&vain).join(", "));
    }
    let by = reached.run.verdict.by().unwrap_or("unexplained");
    format!("{said}. Now: {by}")
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

/// Whether the measured throughput lies inside the predicted interval; a dash where nothing was predicted.
pub(crate) fn held(step: &Step) -> &'static str {
    match step.prediction_held {
        Some(true) => "inside",
        Some(false) => "outside",
        None => "-",
    }
}

/// Before, after, and what was expected.
pub(crate) fn effect_line(step: &Step) -> Option<String> {
    let effect = step.effect.as_ref()?;
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let [low, high] = effect.interval.map(|end| ratio(end)[1..].to_owned());
    let mut said = format!(
        "{} -> {}, {} ({low} to {high})",
        rate(mean(&effect.before_per_s)),
        rate(mean(&effect.after_per_s)),
        ratio(effect.ratio)
    );
    if let Some(of) = &effect.predicted_per_s {
        let place = step
            .prediction_held
            .map_or(String::new(), |_| format!(": {} the interval", held(step)));
        said += &format!("; expected {}{place}", predicted(of));
    }
    Some(said)
}

/// Why the prediction was wrong; none where it was not.
pub(crate) fn outcome(step: &Step) -> Option<String> {
    if step.prediction_held != Some(false) {
        return None;
    }
    let effect = step.effect.as_ref()?;
    let expected = effect.predicted_per_s.as_ref()?;
    let measured = effect.after_per_s.iter().sum::<f64>() / effect.after_per_s.len().max(1) as f64;
    let wrong = if measured < expected.low.0 { "high" } else { "low" };
    let because = match &step.because {
        // Of an older linerate: an id and no clause.
        Some(id) if !id.contains(' ') => format!("{id} is the limit"),
        Some(clause) => clause.clone(),
        None => match step.run.verdict.by() {
            Some(by) => format!("{by} is the limit"),
            None => "no known limit explains the result".into(),
        },
    };
    Some(format!("the prediction was too {wrong} because {because}"))
}

/// The middle of what was expected, or its high end where that is all that is known.
fn middle(of: &Predicted) -> String {
    if of.is_bound() { predicted(of) } else { rate(of.mid.0) }
}

/// A row a step.
pub(crate) fn climb(climb: &ClimbDocument) -> Table {
    let mut table = Table::new(
        "Knob by knob",
        &["step", "knob"],
        &["throughput", "ratio (95 %)", "expected", "measured is"],
    );
    table.head.extend(Table::new("", &["limit"], &[]).head);
    for (index, step) in climb.steps.iter().enumerate() {
        let expected = step.effect.as_ref().and_then(|effect| effect.predicted_per_s);
        table.rows.push(vec![
            index.to_string(),
            turned(step),
            rate(step.run.load.throughput_per_s),
            effect(step),
            expected.map_or_else(|| "-".into(), |of| middle(&of)),
            held(step).into(),
            step.run.verdict.by().unwrap_or("unexplained").to_owned(),
        ]);
    }
    table
}

/// A row a case. Of a study made to scale the published throughput is scaled as well, so that the ratio
/// compares like with like.
pub(crate) fn study(study: &StudyDocument) -> Table {
    if study.rows.iter().any(|row| row.run.load.carried.is_some()) {
        return super::between::study(study);
    }
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
    let mut table = Table::new("Claims and their outcomes", &["claim", "here", "figures"], &[]);
    for claim in &study.claims {
        let held = match claim.held {
            Some(true) => "held",
            Some(false) => "refuted",
            None => "not tried",
        };
        table.rows.push(vec![claim.says.clone(), held.into(), claim.because.clone()]);
    }
    table
}
