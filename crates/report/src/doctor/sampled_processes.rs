//! Processes of the node that stand out.

use linerate_evidence::{Evidence, Metric, Subject};
use serde::{Deserialize, Serialize};

// Chosen: what a person reads.
const LISTED: usize = 10;

/// One process of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Suspect {
    /// `<0.812.0>`.
    pub pid: String,
    /// Its registered name, or the function it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Messages in its mailbox, at most.
    pub mailbox: u64,
    /// Share of the samples in which it ran, or could have run.
    pub running: f64,
    /// Its memory, at most. Unit: bytes.
    pub memory_bytes: u64,
    /// Where it was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What it waited for then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

/// The most suspect first.
pub(super) fn suspects(evidence: &Evidence) -> Vec<Suspect> {
    let mut found: Vec<(f64, Suspect)> = evidence
        .processes()
        .into_iter()
        .map(|subject| suspect(evidence, subject))
        .filter(|(weight, _)| *weight > 0.0)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(LISTED).map(|(_, suspect)| suspect).collect()
}

/// A process, and how suspect it is; 0 of one that only waits with nothing to do.
// Chosen: 10 messages, or running in a quarter of the samples, or 64 MiB.
fn suspect(evidence: &Evidence, subject: Subject) -> (f64, Suspect) {
    let of = evidence.of(subject);
    let most = |name| of.max(Metric::<u64>::new(name)).unwrap_or(0);
    let fact = |name| evidence.fact(subject, name).map(str::to_owned);
    let running = of.all(Metric::<u64>::new("suspect.running")).unwrap_or_default();
    let ran = running.iter().filter(|(_, ran)| *ran > 0).count() as f64;
    let suspect = Suspect {
        pid: fact("pid").unwrap_or_default(),
        name: fact("name"),
        mailbox: most("suspect.mailbox"),
        running: ran / running.len().max(1) as f64,
        memory_bytes: most("suspect.memory"),
        function: fact("function"),
        waits: fact("wait"),
    };
    let mail = if suspect.mailbox >= 10 { (suspect.mailbox as f64).log10() } else { 0.0 };
    let busy = if suspect.running >= 0.25 && running.len() > 1 { suspect.running } else { 0.0 };
    let large = if suspect.memory_bytes >= 64 << 20 { 0.5 } else { 0.0 };
    (mail + busy + large, suspect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Timestamp;

    #[test]
    fn one_with_mail_is_suspect_and_one_that_only_waits_is_not() {
        let mut evidence = Evidence::default();
        for (number, mailbox) in [(0, 0), (1, 400), (2, 12)] {
            let of = Subject::Process(number);
            evidence.push_raw(Timestamp(0), of, "suspect.mailbox", mailbox);
            evidence.push_fact(of, "pid", format!("<0.{number}.0>"));
        }
        let found = suspects(&evidence);
        let pids: Vec<&str> = found.iter().map(|suspect| suspect.pid.as_str()).collect();
        assert_eq!(pids, ["<0.1.0>", "<0.2.0>"]);
        assert_eq!(found[0].mailbox, 400);
    }
}
