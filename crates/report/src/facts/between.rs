//! A study of what moves between nodes: throughput in bits, beside what was published and the wire.

use super::*;
use crate::document::Wire;
use crate::link_account::{End, LinkAccount, LinkCost};

/// What rows without connections in common with others are called.
const WIRE: &str = "the wire";

/// A row a case. Where each series has one case they are steps, and each is compared with the first as well:
/// machines differ, what a step brings should not.
pub(crate) fn study(study: &StudyDocument) -> Table {
    let first = study.rows.first();
    let steps = has_steps(study);
    let mut columns = Vec::new();
    columns.extend((!steps).then(|| study.cases.as_deref().unwrap_or("connections")));
    columns.push("published");
    columns.extend(steps.then_some("by first"));
    columns.extend(study.published_wire_bit_s.map(|_| "of wire"));
    columns.push("measured");
    columns.extend(steps.then_some("by first"));
    columns.extend((!study.wire.is_empty()).then_some("of wire"));
    columns.extend(["messages", "CPU each"]);
    let mut table = Table::new("Published and measured", &["series"], &columns);
    table.head.extend(Table::new("", &["limit"], &[]).head);
    let dash = || "-".to_owned();
    for row in &study.rows {
        let by_first = |of: &dyn Fn(&StudyRow) -> Option<f64>| {
            let both = of(row).zip(first.and_then(of));
            both.map_or_else(dash, |(this, first)| ratio(this / first))
        };
        let (published, measured) = (row.published_bit_s, row.measured_bit_s);
        let of = |all: Option<f64>, part: Option<f64>| {
            part.zip(all).map_or_else(dash, |(part, all)| share(part / all))
        };
        let mut cells = vec![row.series.clone()];
        if !steps {
            cells.push(count(u64::from(row.case.unwrap_or(row.connections))));
        }
        cells.push(published.map_or_else(dash, |bit_s| bits(bit_s / 8.0)));
        if steps {
            cells.push(by_first(&|row| row.published_bit_s));
        }
        if let Some(wire) = study.published_wire_bit_s {
            cells.push(of(Some(wire), published));
        }
        cells.push(measured.map_or_else(dash, |bit_s| rounds(bit_s, &row.rounds_bit_s)));
        if steps {
            cells.push(by_first(&|row| row.measured_bit_s));
        }
        if !study.wire.is_empty() {
            let wire = study.wire.iter().find(|wire| Some(wire.case) == row.case);
            cells.push(of(wire.map(|wire| wire.bit_s), measured));
        }
        let carried = row.run.load.carried.as_ref();
        cells.push(carried.map_or_else(dash, |it| rate(it.messages_per_s)));
        cells.push(carried.and_then(|it| it.cpu_us_per_message).map_or_else(dash, time));
        cells.push(row.run.verdict.by().unwrap_or("unexplained").to_owned());
        table.rows.push(cells);
    }
    table
}

/// The same as it fits on a terminal: without rounds, messages and what each takes.
pub(crate) fn brief(study: &StudyDocument) -> Table {
    if study.rows.iter().all(|row| row.run.load.carried.is_none()) {
        return super::study(study);
    }
    let Table { caption, head, rows } = self::study(study);
    let kept = |column: usize| !["messages", "CPU each"].contains(&head[column].says.as_str());
    let columns: Vec<usize> = (0..head.len()).filter(|column| kept(*column)).collect();
    let cell = |cell: &String| match cell.split_once(" (") {
        Some((median, _)) => median.to_owned(),
        None => cell.clone(),
    };
    let row = |row: &Vec<String>| {
        // What a series is called stays as it is.
        let cells =
            columns.iter().map(|at| if *at == 0 { row[0].clone() } else { cell(&row[*at]) });
        cells.collect()
    };
    let rows = rows.iter().map(row).collect();
    let head = columns.iter().map(|column| head[*column].clone()).collect();
    Table { caption, head, rows }
}

/// Whether each series is a step of one case: they are read against each other.
fn has_steps(study: &StudyDocument) -> bool {
    study.rows.iter().all(|row| row.run.load.carried.is_some())
        && study.rows.windows(2).all(|pair| pair[0].series != pair[1].series)
        && study.rows.iter().all(|row| row.case == study.rows[0].case)
}

/// The median, and from which to which its rounds were: `19.8 Gbit/s (17.2 to 20.1)`.
fn rounds(bit_s: f64, rounds: &[f64]) -> String {
    let median = bits(bit_s / 8.0);
    let low = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rounds.iter().copied().fold(0.0, f64::max);
    if rounds.len() < 2 {
        return median;
    }
    // In the median's unit.
    let unit = if bit_s < 1e9 { 1e6 } else { 1e9 };
    let [low, high] = [low, high].map(|bit_s| significant_of_three(bit_s / unit));
    format!("{median} ({low} to {high})")
}

fn significant_of_three(value: f64) -> String {
    let decimals = (2 - value.abs().max(1e-3).log10().floor() as i32).clamp(0, 2) as usize;
    format!("{value:.decimals$}")
}

/// The wire's own rows: what it carried beside each case.
pub(crate) fn wire(study: &StudyDocument) -> Table {
    let case = study.cases.as_deref().unwrap_or("case");
    let columns = [case, "measured", "linerate's stream"];
    let shown = if study.wire.iter().any(|wire| wire.stream_bit_s.is_some()) { 3 } else { 2 };
    let mut table = Table::new("The wire, measured alternately", &[], &columns[..shown]);
    let row = |wire: &Wire| {
        let own = wire.stream_bit_s.map_or_else(|| "-".to_owned(), |bit_s| rounds(bit_s, &[]));
        let cells = [count(u64::from(wire.case)), rounds(wire.bit_s, &wire.rounds_bit_s), own];
        cells[..shown].to_vec()
    };
    table.rows = study.wire.iter().map(row).collect();
    table
}

/// With what it was measured, each way once.
pub(crate) fn wire_notes(study: &StudyDocument) -> Vec<String> {
    let mut notes: Vec<String> = study.wire.iter().map(|wire| wire.says.clone()).collect();
    notes.dedup();
    notes
}

/// From the wire down to the link, a step a row.
pub(crate) fn parts(study: &StudyDocument) -> Table {
    let mut table = Table::new("From the wire to the link", &["with"], &[]);
    let columns = ["throughput", "a megabyte", "more", "by itself"];
    let shown = if study.parts.iter().any(|part| part.alone_us_per_mb.is_some()) { 4 } else { 3 };
    table.head.extend(Table::new("", &[], &columns[..shown]).head);
    for part in &study.parts {
        let adds = part.adds_us_per_mb.map_or_else(
            || "-".to_owned(),
            |us| format!("{}{}", if us < 0.0 { "-" } else { "+" }, time(us.abs())),
        );
        let name = if part.series == "wire" { WIRE } else { &part.says };
        let alone = part.alone_us_per_mb.map_or_else(|| "-".to_owned(), time);
        let cells = [bits(part.bit_s / 8.0), time(part.us_per_mb), adds, alone];
        table.rows.push([&[name.to_owned()], &cells[..shown]].concat());
    }
    table
}

/// What a megabyte, or a message, costs at either node, a part a row.
pub(crate) fn link_account(account: &LinkAccount) -> Table {
    let unit = account.unit();
    let caption = format!("What {unit} costs: {}", account.series);
    let mut table = Table::new(&caption, &["part", "the node that"], &[&unit]);
    table.head.extend(Table::new("", &["measured by"], &[]).head);
    let row = |cost: &LinkCost| {
        let us = time(account.us(cost.us_per_mb));
        vec![cost.says.clone(), cost.node.says().into(), us, cost.by.clone()]
    };
    table.rows = account.costs.iter().map(row).collect();
    table
}

/// Both sums, and the rate that follows.
pub(crate) fn link_account_notes(account: &LinkAccount) -> Vec<String> {
    let node = |node: End, sum, cpu| {
        format!(
            "the node that {}: {}, and {} of CPU time in the run",
            node.says(),
            time(account.us(sum)),
            time(account.us(cpu))
        )
    };
    let sets = match account.busier() {
        Some(node) => format!("the one that {} sets the rate", node.says()),
        None => "together they set the rate".into(),
    };
    let copied = account.costs.iter().filter(|cost| cost.copies.is_some_and(|copies| copies > 0));
    let copied = copied.map(|cost| format!("{} {}", cost.says, cost.copies.unwrap_or_default()));
    let copied = copied.collect::<Vec<_>>().join(", ");
    let copies = match copied.is_empty() {
        true => Vec::new(),
        false => vec![format!("copies of each byte, by the rule of who does it: {copied}")],
    };
    let sums = vec![
        node(End::Near, account.near_us_per_mb, account.run.near_cpu_us_per_mb),
        node(End::Far, account.far_us_per_mb, account.run.far_cpu_us_per_mb),
        format!(
            "both work at once; {sets}, {}: {} predicted, {} measured ({:+.0} %)",
            account.why(),
            account.rate(account.predicted_bit_s),
            account.rate(account.run.measured_bit_s),
            (account.ratio() - 1.0) * 100.0
        ),
    ];
    [copies, sums].concat()
}

/// What the nodes of a run did for a message; none: it was not counted.
pub(crate) fn did(run: &RunDocument) -> Option<Table> {
    let did = run.load.carried.as_ref()?.did("a message", 1.0);
    (!did.rows.is_empty()).then_some(did)
}

/// What to know of it.
pub(crate) fn did_notes(run: &RunDocument) -> Vec<String> {
    let note = run.load.carried.as_ref().map(|carried| carried.did_note(1.0));
    note.into_iter().filter(|note| !note.is_empty()).collect()
}

/// The same of an account's series, for a megabyte or a message, and what to know of it; none: it was not counted.
pub(crate) fn did_in_study(
    study: &StudyDocument,
    account: &LinkAccount,
) -> Option<(Table, Vec<String>)> {
    let is = |row: &&StudyRow| row.series == account.series && row.case == Some(account.case);
    let carried = study.rows.iter().find(is)?.run.load.carried.as_ref()?;
    let times = match account.unit {
        Some(_) => 1.0,
        None => 1e6 * carried.messages_per_s / carried.bytes_per_s,
    };
    let did = carried.did(&format!("{}: {}", account.unit(), account.series), times);
    let note = carried.did_note(times);
    (!did.rows.is_empty()).then(|| (did, Vec::from_iter((!note.is_empty()).then_some(note))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_said_in_the_unit_of_their_median() {
        assert_eq!(rounds(19.8e9, &[17.2e9, 20.14e9, 19.8e9]), "19.8 Gbit/s (17.2 to 20.1)");
        assert_eq!(rounds(950e6, &[950e6, 1.1e9]), "950 Mbit/s (950 to 1100)");
        assert_eq!(rounds(23e6, &[]), "23.0 Mbit/s");
    }
}
