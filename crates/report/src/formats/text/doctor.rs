//! A service that was watched.

use super::sheet::{Sheet, Tone};
use super::{ceilings, cures};
use crate::doctor::DoctorDocument;
use crate::facts;

pub(super) fn whole(sheet: &mut Sheet, doctor: &DoctorDocument) {
    let (label, answer) = facts::answer(doctor);
    sheet.labelled(label, Tone::Loud, &answer);
    sheet.wrapped(7, facts::because(doctor));
    sheet.labelled("READS", Tone::Loud, &facts::reads(doctor));
    sheet.labelled("OF", Tone::Loud, &facts::watched(doctor));
    if let Some(applied) = &doctor.applied {
        sheet.labelled("EFFECT", Tone::Loud, &facts::doctor_effect(applied));
        sheet.wrapped(8, &format!("{}={}: {}", applied.knob, applied.value, applied.says));
    }
    cures(sheet, &doctor.advice);
    connections(sheet, doctor);
    suspects(sheet, doctor);
    for well in [false, true] {
        let vitals = facts::vitals(doctor, well);
        if vitals.rows.is_empty() {
            continue;
        }
        sheet.gap();
        sheet.heading(&vitals.caption);
        let width = vitals.rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
        for row in &vitals.rows {
            sheet.item(2, &format!("{:width$}  ", row[0]), &row[1]);
        }
    }
    ceilings(sheet, &doctor.roofline, &doctor.unread);
    if let Some(probe) = &doctor.probe {
        sheet.gap();
        sheet.wrapped(2, &format!("the probe took {}", facts::cost(probe)));
    }
}

fn connections(sheet: &mut Sheet, doctor: &DoctorDocument) {
    if doctor.connections.is_empty() {
        return;
    }
    sheet.gap();
    sheet.heading("Connections, worst first (queues at their longest)");
    let mut lines = facts::doctor_connections(doctor);
    // Names of columns are short here: 80 columns hold eight numbers.
    for (head, short) in lines.head.iter_mut().zip(SHORT) {
        head.says = short.into();
    }
    // A long address has a line of its own.
    for row in lines.rows.iter_mut().filter(|row| row[0].chars().count() > LONGEST) {
        row[0].clear();
    }
    for (index, line) in lines.lines().into_iter().enumerate() {
        let of = index.checked_sub(1).and_then(|index| doctor.connections.get(index));
        if let Some(of) = of.filter(|of| of.peer.chars().count() > LONGEST) {
            sheet.line(2, Tone::Plain, &of.peer);
        }
        sheet.line(2, if of.is_some() { Tone::Plain } else { Tone::Quiet }, &line);
        if let Some(of) = of {
            sheet.wrapped(4, &facts::address(of));
            sheet.wrapped(4, &facts::options(of));
        }
    }
}

/// `255.255.255.255:65535`.
const LONGEST: usize = 21;

const SHORT: [&str; 8] = ["peer", "reads", "queue", "unread", "unsent", "out", "rtt", "again"];

fn suspects(sheet: &mut Sheet, doctor: &DoctorDocument) {
    if doctor.suspects.is_empty() {
        return;
    }
    sheet.gap();
    sheet.heading("Suspect processes");
    for of in &doctor.suspects {
        let mut said = format!("mailbox {}, running {:.0} %", of.mailbox, of.running * 100.0);
        if let Some(waits) = &of.waits {
            said += &format!(", {waits}");
        }
        if let Some(function) = &of.function {
            said += &format!(" at {function}");
        }
        let name = of.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        sheet.item(2, &format!("{}  ", of.pid), &format!("{name}{said}"));
    }
}
