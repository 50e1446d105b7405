//! What `doctor` says, as sentences and tables.

use linerate_model::Bytes;
use linerate_roofline::Verdict;

use super::*;
use crate::doctor::{Applied, Connection, DoctorDocument, ProbeCost};
use crate::number::bits;

/// The label of the answer, and the answer.
pub(crate) fn answer(doctor: &DoctorDocument) -> (&'static str, String) {
    let says = doctor.verdict.says().to_owned();
    match &doctor.verdict {
        Verdict::Bound { by, .. } => {
            let roof = doctor.roofline.roofs.iter().find(|roof| roof.id == *by);
            let Some(roof) = roof else { return ("LIMIT", says) };
            let attained =
                roof.share.map_or(String::new(), |part| format!("; attained {}", share(part)));
            ("LIMIT", format!("{} holds it: {}{attained}", roof.title, roof.sum))
        }
        Verdict::Unexplained { .. } => ("LIMIT", format!("not found: {says}")),
        Verdict::Unlimited { .. } => ("WELL", says),
        Verdict::Idle { .. } => ("IDLE", says.trim_start_matches("idle: ").to_owned()),
    }
}

/// The evidence of the limit; empty without one.
pub(crate) fn because(doctor: &DoctorDocument) -> &str {
    let by = doctor.verdict.by();
    let roof = doctor.roofline.roofs.iter().find(|roof| Some(roof.id.as_str()) == by);
    roof.map_or("", |roof| &roof.because)
}

/// What its connections did.
pub(crate) fn reads(doctor: &DoctorDocument) -> String {
    let traffic = &doctor.traffic;
    let [low, high] = traffic.reads_interval_per_s;
    let interval = if high.is_finite() {
        format!(" (95 % interval {} to {})", rate(low), rate(high))
    } else {
        String::new()
    };
    let of = match (traffic.sampled, traffic.connections) {
        (1, None | Some(1)) => "1 connection".into(),
        (sampled, Some(all)) if all > sampled => {
            format!("{} of {} connections", count(sampled), count(all))
        }
        (sampled, _) => format!("{} connections", count(sampled)),
    };
    format!(
        "{}{interval} on {of}; {} in, {} out",
        rate(traffic.reads_per_s),
        bits(traffic.read_bytes_per_s),
        bits(traffic.written_bytes_per_s)
    )
}

/// What was watched, from where, and for how long.
pub(crate) fn watched(doctor: &DoctorDocument) -> String {
    let node = |name: &str| doctor.node.get(name).map(String::as_str);
    let mut said = vec![match (node("node"), node("otp")) {
        (Some(name), Some(otp)) => format!("{name}, OTP {otp}"),
        _ => doctor.target.name.clone(),
    }];
    said.extend(doctor.target.pid.map(|pid| format!("process {pid}")));
    let inside = !doctor.node.is_empty();
    said.push(
        match (inside, doctor.target.local) {
            (true, true) => "watched from inside and by this host's kernel",
            (true, false) => "watched from inside only: it is on another host",
            (false, _) => "watched by this host's kernel only",
        }
        .into(),
    );
    said.push(format!("for {}", seconds(doctor.seconds)));
    if doctor.ended != "done" {
        said.push(doctor.ended.clone());
    }
    said.join(", ")
}

/// A row a connection.
pub(crate) fn connections(doctor: &DoctorDocument) -> Table {
    let kernel = |of: &Connection, value: fn(&crate::doctor::Kernel) -> String| {
        of.kernel.as_ref().map_or_else(|| "-".into(), value)
    };
    let mut table = Table::new(
        "Connections",
        &["peer"],
        &["reads", "driver queue", "unread", "unsent", "unacked", "rtt", "resent"],
    );
    for of in &doctor.connections {
        table.rows.push(vec![
            of.peer.clone(),
            rate(of.reads_per_s),
            of.driver_queue_bytes.map_or_else(|| "-".into(), |bytes| Bytes(bytes).to_string()),
            kernel(of, |kernel| Bytes(kernel.unread_bytes).to_string()),
            kernel(of, |kernel| Bytes(kernel.notsent_bytes).to_string()),
            kernel(of, |kernel| kernel.unacked.to_string()),
            kernel(of, |kernel| time(kernel.rtt_us)),
            kernel(of, |kernel| kernel.retransmitted.to_string()),
        ]);
    }
    table
}

/// What stands beside a connection's numbers: whose it is, and what is wrong with it.
pub(crate) fn address(of: &Connection) -> String {
    let mut said = vec![format!("at {}", of.local)];
    said.extend(of.owner.as_ref().map(|owner| format!("of {owner}")));
    said.extend(of.mailbox.map(|mailbox| format!("mailbox {mailbox}")));
    said.extend(of.trouble.iter().cloned());
    said.join("; ")
}

/// `nodelay false, buffer 1460`; empty where the node did not tell.
pub(crate) fn options(of: &Connection) -> String {
    let said: Vec<String> =
        of.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
    said.join(", ")
}

/// A row a process.
pub(crate) fn suspects(doctor: &DoctorDocument) -> Table {
    let mut table =
        Table::new("Suspect processes", &["process", "waits"], &["mailbox", "running", "memory"]);
    for of in &doctor.suspects {
        let name = of.name.as_ref().map_or(String::new(), |name| format!(" {name}"));
        table.rows.push(vec![
            format!("{}{name}", of.pid),
            of.waits.clone().unwrap_or_else(|| "-".into()),
            count(of.mailbox),
            share(of.running),
            Bytes(of.memory_bytes).to_string(),
        ]);
    }
    table
}

/// What is well, or what is not.
pub(crate) fn vitals(doctor: &DoctorDocument, well: bool) -> Table {
    let caption = if well { "Healthy" } else { "To watch" };
    let mut table = Table::new(caption, &["what", "how it is"], &[]);
    let those = doctor.vitals.iter().filter(|vital| vital.well == well);
    table.rows = those.map(|vital| vec![vital.what.clone(), vital.says.clone()]).collect();
    table
}

/// What watching cost the node.
pub(crate) fn cost(of: &ProbeCost) -> String {
    let budget = of.budget.as_ref().map_or(String::new(), |budget| format!(", allowed {budget}"));
    let thinned = match of.thinned {
        0 => String::new(),
        thinned => format!(", {thinned} of them thinned to keep that"),
    };
    format!("{} of one scheduler{budget}; {} passes{thinned}", share(of.share), of.passes)
}

/// What turning a knob did.
pub(crate) fn effect(of: &Applied) -> String {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let left = if of.kept { "left so" } else { "put back" };
    format!(
        "{} -> {}, {}; {left}",
        bits(mean(&of.effect.before_per_s)),
        bits(mean(&of.effect.after_per_s)),
        of.effect.says
    )
}
