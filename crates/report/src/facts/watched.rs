//! What `doctor` says, as sentences and tables.

use std::collections::BTreeMap;

use linerate_model::Bytes;
use linerate_roofline::Answer;

use super::*;
use crate::doctor::{Applied, Connection, DoctorDocument, Port, ProbeCost};
use crate::number::bits;

/// The label of the answer, and the answer.
pub(crate) fn answer(doctor: &DoctorDocument) -> (&'static str, String) {
    // What its connections do stands in a line of its own.
    let of_connections =
        |clause: &&str| clause.starts_with("of ") && clause.contains(" connections ");
    let clauses = doctor.verdict.says.split("; ");
    let clauses: Vec<&str> = if doctor.ports.is_empty() {
        clauses.collect()
    } else {
        clauses.filter(|clause| !of_connections(clause)).collect()
    };
    let says = clauses.join("; ");
    match doctor.verdict.state {
        Answer::Bound => {
            let by = doctor.verdict.by();
            let roof = doctor.roofline.roofs.iter().find(|roof| Some(roof.id.as_str()) == by);
            let Some(roof) = roof else { return ("LIMIT", says) };
            ("LIMIT", format!("{}: {} ({})", roof.title, roof.sum, roof.id))
        }
        Answer::Unexplained => ("LIMIT", format!("not found: {says}")),
        Answer::Unlimited => ("WELL", says),
        Answer::Idle => ("IDLE", says.trim_start_matches("idle: ").to_owned()),
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
    let headers = doctor.ports.iter().filter_map(|port| port.exchanges.as_ref());
    let (answers, opened) = headers
        .filter(|of| of.alternate)
        .fold((0.0, 0.0), |sum, of| (sum.0 + of.per_s, sum.1 + of.opened_per_s));
    // Fewer than half of what the headers show.
    if 2.0 * traffic.reads_per_s < answers {
        return format!(
            "{} by the headers of their packets, on {} new connections; most were over before they were sampled",
            rate(answers),
            rate(opened)
        );
    }
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

/// `1,500 connections: 1,320 idle, 150 in the application`; none where they were not sampled.
pub(crate) fn states(doctor: &DoctorDocument) -> Option<String> {
    if doctor.ports.is_empty() {
        return None;
    }
    let sum = |of: fn(&Port) -> f64| doctor.ports.iter().map(of).sum::<f64>();
    let all = sum(|port| port.connections);
    let mut states = vec![
        (sum(|port| port.idle), "idle"),
        (sum(|port| port.tls_handshake), "in the TLS handshake"),
        (sum(|port| port.application), "in the application"),
        (sum(|port| port.asking), "in the midst of a request"),
        (sum(|port| port.unread), "unread"),
        (sum(|port| port.accept_queue), "in the accept queue"),
        (sum(|port| port.held_nagle), "held by Nagle"),
        (sum(|port| port.held_congestion), "held by the congestion window"),
        (sum(|port| port.held_window), "held by the peer's window"),
        (sum(|port| port.air), "with an answer in flight"),
        (sum(|port| port.unanswered), "unanswered throughout"),
        (sum(|port| port.undecided), "of unknown state"),
    ];
    states.retain(|(count, _)| *count >= MET);
    states.sort_by(|a, b| b.0.total_cmp(&a.0));
    let said: Vec<String> =
        states.iter().map(|(count, what)| format!("{} {what}", mean(*count))).collect();
    let noun = if mean(all) == "1" { "connection" } else { "connections" };
    let said = if said.is_empty() { "no exchange under way".into() } else { said.join(", ") };
    Some(if all < MET { said } else { format!("{} {noun}: {said}", mean(all)) })
}

// Chosen: less than a twentieth of a connection is one that was met once.
const MET: f64 = 0.05;

/// A mean number of connections: whole from ten on.
fn mean(count: f64) -> String {
    let rounded = (count * 10.0).round() / 10.0;
    if count >= 10.0 || rounded.fract() == 0.0 {
        crate::number::count(count.round() as u64)
    } else {
        format!("{rounded:.1}")
    }
}

/// A row a listening port.
pub(crate) fn ports(doctor: &DoctorDocument) -> Table {
    let mut table = Table::new(
        "Connections by listening port",
        &["port"],
        &["all", "idle", "application", "unread", "held", "answers/s", "mean", "p99"],
    );
    for port in &doctor.ports {
        let held = port.held_nagle + port.held_congestion + port.held_window;
        let alternate = port.exchanges.as_ref().filter(|of| of.alternate);
        let dash = || "-".to_owned();
        table.rows.push(vec![
            format!(":{}", port.port),
            mean(port.connections),
            mean(port.idle),
            mean(port.application),
            mean(port.unread),
            mean(held),
            alternate.map_or_else(dash, |of| rate(of.per_s).trim_end_matches("/s").to_owned()),
            alternate.map_or_else(dash, |of| time(of.service_us)),
            alternate.map_or_else(dash, |of| time(of.p99_us)),
        ]);
    }
    table
}

/// The connections that have trouble, those that are alike in one line with their number.
pub(crate) fn alike(doctor: &DoctorDocument) -> Vec<String> {
    let mut said = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for of in doctor.connections.iter().filter(|of| !of.trouble.is_empty()) {
        let key = of.likeness();
        if seen.contains(&key) {
            continue;
        }
        let listed =
            doctor.connections.iter().filter(|other| other.likeness() == key).count() as u64;
        seen.push(key);
        let owner = of.owner.as_deref().and_then(|owner| owner.split(" <").next());
        let owner = owner.map_or(String::new(), |owner| format!(" ({owner})"));
        let at = format!("{} at {}{owner}: {}", of.peer, of.local, of.trouble.join(", "));
        said.push(match of.alike.max(listed) {
            1 => at,
            many => format!("{} connections like {at}", count(many)),
        });
    }
    said
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
    said.push(match (inside, doctor.target.local) {
        (true, true) if doctor.target.through_node => {
            "watched from inside, and by its host's kernel as far as the node can read it".into()
        }
        (true, true) => "watched from inside and by this host's kernel".into(),
        (true, false) => "watched from inside only: it is on another host".into(),
        (false, _) => {
            let why = outside(doctor).map_or(String::new(), |why| format!(" ({why})"));
            format!("watched by this host's kernel only{why}")
        }
    });
    said.push(format!("for {}", seconds(doctor.seconds)));
    if doctor.ended != "done" {
        said.push(doctor.ended.clone());
    }
    said.join(", ")
}

/// Why the node was not watched from inside, where it was not.
pub(crate) fn outside(doctor: &DoctorDocument) -> Option<&str> {
    let why = doctor.unread.get(INSIDE).filter(|_| doctor.node.is_empty());
    why.map(String::as_str)
}

/// What else could not be read.
pub(crate) fn unread(doctor: &DoctorDocument) -> BTreeMap<String, String> {
    let mut unread = doctor.unread.clone();
    if outside(doctor).is_some() {
        unread.remove(INSIDE);
    }
    unread
}

/// The key of [`DoctorDocument::unread`] that stands for the node itself.
const INSIDE: &str = "node";

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
    said.extend((of.alike > 1).then(|| format!("one of {} alike", count(of.alike))));
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
pub(crate) fn sampled_processes(doctor: &DoctorDocument) -> Table {
    let mut table = Table::new(
        "Processes that stand out",
        &["process", "waits"],
        &["mailbox", "running", "memory"],
    );
    for of in &doctor.sampled_processes {
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
    let caption = if well { "Healthy" } else { "Needs attention" };
    let mut table = Table::new(caption, &["what", "state"], &[]);
    let those = doctor.vitals.iter().filter(|vital| vital.well == well);
    table.rows = those.map(|vital| vec![vital.what.clone(), vital.says.clone()]).collect();
    table
}

/// What watching cost the node.
pub(crate) fn cost(of: &ProbeCost) -> String {
    let budget = of.budget.as_ref().map_or(String::new(), |budget| format!(", allowed {budget}"));
    let thinned = match of.thinned {
        0 => String::new(),
        thinned => format!(", {thinned} of them reduced to keep it"),
    };
    format!("{} of one scheduler{budget}; {} sampling rounds{thinned}", share(of.share), of.passes)
}

/// What setting a knob did, and what was predicted of it. That is of reads and this of bytes: both as ratios.
pub(crate) fn effect(doctor: &DoctorDocument, of: &Applied) -> String {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let left = if of.kept { "kept" } else { "restored" };
    let advice = doctor.advice.iter().find(|advice| advice.knob == of.knob);
    let expected = advice.map_or(String::new(), |advice| {
        let now = doctor.roofline.attained;
        let [mid, low, high] = [advice.predicted.mid, advice.predicted.low, advice.predicted.high]
            .map(|rate| rate.0 / now);
        if advice.predicted.is_bound() && high.is_finite() {
            format!(", expected up to {}", ratio(high))
        } else if mid.is_finite() && mid > 0.0 && high.is_finite() {
            format!(", expected {} ({} to {})", ratio(mid), &ratio(low)[1..], &ratio(high)[1..])
        } else {
            String::new()
        }
    });
    format!(
        "{} -> {}, {}{expected}; {left}",
        bits(mean(&of.effect.before_per_s)),
        bits(mean(&of.effect.after_per_s)),
        of.effect.says
    )
}
