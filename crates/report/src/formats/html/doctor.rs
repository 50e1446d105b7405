//! The page of a service that was watched.

use std::fmt::Write;

use super::parts;
use crate::doctor::DoctorDocument;
use crate::facts;
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
    if let Some(applied) = &doctor.applied {
        let _ = writeln!(
            out,
            "<section><h2>Effect of <code>{}={}</code></h2><p class=\"effect\">{}</p><p>{}</p></section>",
            escape(&applied.knob),
            escape(&applied.value),
            escape(&facts::doctor_effect(applied)),
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
        facts::suspects(doctor),
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
    out += &parts::ceilings(&doctor.roofline, &doctor.unread);
    if let Some(probe) = &doctor.probe {
        let _ =
            writeln!(out, "<p class=\"quiet\">The probe took {}.</p>", escape(&facts::cost(probe)));
    }
    out
}
