//! A service that was watched.

use linerate_roofline::Answer;

use super::ceilings::{CureLines, ceilings, cures, first_cure};
use super::sheet::{Sheet, Tone};
use super::table;
use crate::account::Source;
use crate::doctor::DoctorDocument;
use crate::facts;

// Chosen: what can be read at a glance, and a little more, since there are connections and processes.
const LINES: usize = 20;

/// How often the answer may be made shorter.
const SHORTEST: usize = 4;

pub(super) fn whole(sheet: &mut Sheet, doctor: &DoctorDocument) {
    if !sheet.is_verbose() {
        sheet.fit(LINES, SHORTEST, |sheet, left_out| {
            answer(sheet, doctor, left_out);
            first(sheet, doctor, left_out);
        });
        return;
    }
    answer(sheet, doctor, 0);
    cures(sheet, &doctor.advice);
    let ports = facts::ports(doctor);
    if !ports.rows.is_empty() {
        sheet.gap();
        sheet.heading(&ports.caption);
        table(sheet, 2, &ports);
    }
    if let Some(account) = &doctor.account {
        for note in facts::account_notes(account, doctor.inside.as_ref()) {
            sheet.wrapped(2, &note);
        }
    }
    connections(sheet, doctor);
    sampled_processes(sheet, doctor);
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
    ceilings(sheet, &doctor.roofline, &facts::unread(doctor));
    if let Some(probe) = &doctor.probe {
        sheet.gap();
        sheet.wrapped(2, &format!("the probe took {}", facts::cost(probe)));
    }
}

/// The answer, what its connections do, and from where it was watched.
fn answer(sheet: &mut Sheet, doctor: &DoctorDocument, left_out: usize) {
    let (label, says) = facts::answer(doctor);
    sheet.labelled(label, Tone::Loud, &says);
    let evidence = [3, 3, 2, 1, 1][left_out.min(SHORTEST)];
    let evidence = if sheet.is_verbose() { usize::MAX } else { evidence };
    sheet.clauses("", Tone::Plain, facts::because(doctor), evidence);
    if let Some(states) = facts::states(doctor) {
        sheet.labelled("WHERE", Tone::Loud, &states);
    }
    let timed = doctor.account.as_ref().filter(|account| account.source == Source::Headers);
    if let Some(bar) = timed.and_then(|account| facts::bar(account, doctor.inside.as_ref())) {
        sheet.labelled("TIME", Tone::Loud, &bar);
    }
    sheet.labelled("OF", Tone::Loud, &facts::watched(doctor));
    if doctor.verdict.state == Answer::Idle {
        return;
    }
    sheet.labelled("READS", Tone::Loud, &facts::reads(doctor));
    if let Some(applied) = &doctor.applied {
        sheet.labelled("EFFECT", Tone::Loud, &facts::doctor_effect(doctor, applied));
        if left_out < 3 {
            sheet.wrapped(8, &format!("{}={}: {}", applied.knob, applied.value, applied.says));
        }
    }
}

/// The first cure, the connections in trouble, the processes that stand out, what to watch.
fn first(sheet: &mut Sheet, doctor: &DoctorDocument, left_out: usize) {
    let lines = if left_out < 4 { CureLines::WithByHand } else { CureLines::Knob };
    first_cure(sheet, &doctor.advice, &doctor.roofline, lines);
    let most = if left_out < 2 { 3 } else { 1 };
    for says in facts::alike(doctor).iter().take(most) {
        sheet.labelled("ALIKE", Tone::Plain, says);
    }
    for of in doctor.sampled_processes.iter().take(most) {
        let name = of.name.as_ref().map_or(String::new(), |name| format!(" {name}"));
        let says = format!("{}{name}: {}", of.pid, sampled_process(of));
        sheet.labelled("PROC", Tone::Plain, &says);
    }
    let watch = facts::vitals(doctor, false);
    let said: Vec<String> = watch.rows.iter().map(|row| row.join(" ")).collect();
    sheet.clauses("WATCH", Tone::Plain, &said.join("; "), most);
    let next = facts::next(&doctor.roofline);
    if left_out < 3 && !next.is_empty() && doctor.verdict.by().is_some() {
        sheet.labelled("NEXT", Tone::Plain, &next);
    }
}

fn connections(sheet: &mut Sheet, doctor: &DoctorDocument) {
    if doctor.connections.is_empty() {
        return;
    }
    sheet.gap();
    sheet.heading("Connections, those in most trouble first (queues at their longest)");
    // Of those that are alike the first stands for all.
    let mut seen: Vec<String> = Vec::new();
    let mut listed = Vec::new();
    for of in &doctor.connections {
        let key = of.likeness();
        // Of an older linerate: nobody counted.
        if of.alike == 0 || !seen.contains(&key) {
            listed.push(of.clone());
            seen.push(key);
        }
    }
    let doctor = &DoctorDocument { connections: listed, ..doctor.clone() };
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

fn sampled_processes(sheet: &mut Sheet, doctor: &DoctorDocument) {
    if doctor.sampled_processes.is_empty() {
        return;
    }
    sheet.gap();
    sheet.heading("Processes that stand out");
    for of in &doctor.sampled_processes {
        let name = of.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        sheet.item(2, &format!("{}  ", of.pid), &format!("{name}{}", sampled_process(of)));
    }
}

fn sampled_process(of: &crate::doctor::SampledProcess) -> String {
    let mut said = format!("mailbox {}, running {:.0} %", of.mailbox, of.running * 100.0);
    if let Some(waits) = &of.waits {
        said += &format!(", {waits}");
    }
    if let Some(function) = &of.function {
        said += &format!(" at {function}");
    }
    said
}
