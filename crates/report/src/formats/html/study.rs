//! The page of a study: published beside measured, and what became of its claims.

use super::parts;
use crate::document::{StudyDocument, StudyRow};
use crate::facts;
use crate::figures::{Curve, Picture, between, costs, messages, percentiles, roofline, steps};
use crate::link_account::LinkAccount;
use crate::number::count;
use crate::svg::escape;

pub(super) fn page(study: &StudyDocument) -> String {
    let mut out = parts::masthead("study", &study.name, &study.about);
    if let Some(scale) = &study.scale {
        out += &format!("<p>{}</p>\n", escape(&scale.says));
    }
    if !study.claims.is_empty() {
        out += "<section><h2>Claims</h2>\n";
        out += &parts::table(&facts::claims(study));
        out += "</section>\n";
    }
    if study.cases.is_some() {
        out += &between(
            study,
            "Throughput between the nodes by what a message carries. Filled: measured here. Hollow: published, on other machines.",
        );
        out += &messages(study, "Messages a second by what each carries, measured here.");
    } else if study.rows.iter().all(|row| row.measured_bit_s.is_none()) {
        out += &roofline(
            &Picture::of_study(study),
            "Filled: measured here. Hollow: published, on another machine. Dashed: the roof that a series stood under.",
        );
    }
    out += "<section><h2>Cases</h2>\n";
    out += &parts::table(&facts::study(study));
    out += "</section>\n";
    out += &parts::section("The wire", &facts::wire(study), &facts::wire_notes(study));
    out += &steps(
        study,
        "What a megabyte takes from the wire to the link, each step with one thing more to do. Filled: what it adds or, \
         where the row is shorter than the one above, spares.",
    );
    out += &parts::section("From the wire to the link", &facts::parts(study), &[]);
    let unit = study.accounts.first().map_or_else(String::new, LinkAccount::unit);
    let several = study.accounts.iter().any(|account| account.run.pairs > 1);
    let sets = match several {
        true => {
            "Both nodes work at once, for several pairs: both bars together, on the CPUs that are left, set the rate."
        }
        false => "Both nodes work at once, so the longer bar sets the rate.",
    };
    let caption =
        format!("What {unit} costs at either node, each part measured, and what it took. {sets}");
    out += &costs(study, &caption);
    for account in &study.accounts {
        let of = facts::link_account(account);
        out += &parts::section(&of.caption, &of, &facts::link_account_notes(account));
        if let Some((did, notes)) = facts::did_in_study(study, account) {
            out += &parts::section(&did.caption, &did, &notes);
        }
    }
    let messages = of_messages(study);
    out += &match messages.is_empty() {
        true => percentiles(
            &curves(study),
            "Latency by percentile, each series at its most connections.",
        ),
        false => percentiles(
            &messages,
            "How long one message took until it was answered, by percentile, measured by the process that sent it.",
        ),
    };
    if let Some(row) = study.rows.last() {
        out += &parts::setting(&row.run);
    }
    out
}

/// A curve of each series whose messages are answered one by one; where some of these are beside others, of those alone.
fn of_messages(study: &StudyDocument) -> Vec<Curve<'_>> {
    let beside =
        |row: &&StudyRow| row.run.plan.target.knobs.get("beside").is_some_and(|bytes| bytes != "0");
    let any = study.rows.iter().any(|row| beside(&row));
    let rows = study.rows.iter().filter(|row| !any || beside(row));
    let rows = rows.filter_map(|row| {
        let carried = row.run.load.carried.as_ref()?;
        Some((row, carried.latency_us.as_ref()?))
    });
    let rows = rows.enumerate();
    let curve = |(style, (row, of)): (usize, (&StudyRow, _))| Curve {
        name: match row.case.filter(|_| !any) {
            Some(case) => format!("{}, {}", row.series, count(u64::from(case))),
            None => row.series.clone(),
        },
        of,
        style,
    };
    rows.map(curve).collect()
}

/// One curve a series: its largest case.
fn curves(study: &StudyDocument) -> Vec<Curve<'_>> {
    let mut curves: Vec<(&str, u32, Curve)> = Vec::new();
    for row in &study.rows {
        let of = &row.run.load.latency_us;
        let name = format!("{}, c={}", row.series, row.connections);
        match curves.iter_mut().find(|(series, ..)| *series == row.series) {
            Some((_, most, curve)) if row.connections > *most => {
                *most = row.connections;
                (curve.name, curve.of) = (name, of);
            }
            Some(_) => {}
            None => {
                let style = curves.len();
                curves.push((&row.series, row.connections, Curve { name, of, style }));
            }
        }
    }
    curves.into_iter().map(|(.., curve)| curve).collect()
}
