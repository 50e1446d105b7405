//! The page of a service that was watched.

use std::fmt::Write;

use super::parts;
use crate::doctor::DoctorDocument;
use crate::facts;
use crate::figures::{self, Bar};
use crate::number::rate;
use crate::svg::escape;
use crate::table::Table;

pub(super) fn page(doctor: &DoctorDocument) -> String {
    let mut out = parts::masthead("doctor", &doctor.watched, &facts::watched(doctor));
    let (label, answer) = facts::answer(doctor);
    let _ = writeln!(
        out,
        "<section class=\"verdict\"><p class=\"kind\">{label}</p><h2>{}</h2><p>{}</p><dl class=\"figures\">{}</dl><p class=\"quiet\">{}</p></section>",
        escape(&answer),
        escape(facts::because(doctor)),
        parts::figure("Reads", &rate(doctor.traffic.reads_per_s)),
        escape(&facts::reads(doctor))
    );
    if let Some(states) = facts::states(doctor) {
        let _ = writeln!(out, "<p class=\"states\">{}</p>", escape(&states));
    }
    let account = doctor.account.as_ref();
    let bar = account.and_then(|of| Bar::new("a request", of, doctor.inside.as_ref()));
    out += &figures::account(
        &bar.into_iter().collect::<Vec<_>>(),
        "Where a request's time goes at the service's own end.",
    );
    let notes =
        account.map_or_else(Vec::new, |of| facts::account_notes(of, doctor.inside.as_ref()));
    out += &parts::section("Account", &facts::ports(doctor), &notes);
    if let Some(applied) = &doctor.applied {
        let _ = writeln!(
            out,
            "<section><h2>Effect of <code>{}={}</code></h2><p class=\"effect\">{}</p><p>{}</p></section>",
            escape(&applied.knob),
            escape(&applied.value),
            escape(&facts::doctor_effect(doctor, applied)),
            escape(&applied.says)
        );
    }
    out += &parts::cures(&doctor.advice);
    let mut connections = facts::doctor_connections(doctor);
    connections.head.extend(Table::new("", &["says"], &[]).head);
    for (row, of) in connections.rows.iter_mut().zip(&doctor.connections) {
        row.push(format!("{} {}", facts::address(of), facts::options(of)));
    }
    let tables = [
        connections,
        facts::sampled_processes(doctor),
        facts::vitals(doctor, false),
        facts::vitals(doctor, true),
    ];
    for table in tables.iter().filter(|table| !table.rows.is_empty()) {
        let _ = writeln!(
            out,
            "<section><h2>{}</h2>{}</section>",
            escape(&table.caption),
            parts::table(table)
        );
    }
    out += &parts::ceilings(&doctor.roofline, &facts::unread(doctor));
    if let Some(probe) = &doctor.probe {
        let _ =
            writeln!(out, "<p class=\"quiet\">The probe took {}.</p>", escape(&facts::cost(probe)));
    }
    out
}
