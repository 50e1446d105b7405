//! Processes of the node that stand out.

use linerate_evidence::{Evidence, Metric, Subject};
use serde::{Deserialize, Serialize};

// Chosen: what a person reads.
const LISTED: usize = 10;

/// One process of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledProcess {
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

/// The most notable first.
pub(super) fn sampled_processes(evidence: &Evidence) -> Vec<SampledProcess> {
    let mut found: Vec<(f64, SampledProcess)> = evidence
        .processes()
        .into_iter()
        .map(|subject| sampled_process(evidence, subject))
        .filter(|(weight, _)| *weight > 0.0)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(LISTED).map(|(_, process)| process).collect()
}

/// A process, and how notable it is; 0 of one that only waits with nothing to do.
// Chosen: 10 messages, or running in a quarter of the samples, or 64 MiB.
fn sampled_process(evidence: &Evidence, subject: Subject) -> (f64, SampledProcess) {
    let of = evidence.of(subject);
    let most = |name| of.max(Metric::<u64>::new(name)).unwrap_or(0);
    let fact = |name| evidence.fact(subject, name).map(str::to_owned);
    let running = of.all(Metric::<u64>::new("suspect.running")).unwrap_or_default();
    let ran = running.iter().filter(|(_, ran)| *ran > 0).count() as f64;
    let process = SampledProcess {
        pid: fact("pid").unwrap_or_default(),
        name: fact("name"),
        mailbox: most("suspect.mailbox"),
        running: ran / running.len().max(1) as f64,
        memory_bytes: most("suspect.memory"),
        function: fact("function"),
        waits: fact("wait"),
    };
    let mail = if process.mailbox >= 10 { (process.mailbox as f64).log10() } else { 0.0 };
    let busy = if process.running >= 0.25 && running.len() > 1 { process.running } else { 0.0 };
    let large = if process.memory_bytes >= 64 << 20 { 0.5 } else { 0.0 };
    (mail + busy + large, process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Timestamp;

    #[test]
    fn one_with_mail_is_notable_and_one_that_only_waits_is_not() {
        let mut evidence = Evidence::default();
        for (number, mailbox) in [(0, 0), (1, 400), (2, 12)] {
            let of = Subject::Process(number);
            evidence.push_raw(Timestamp(0), of, "suspect.mailbox", mailbox);
            evidence.push_fact(of, "pid", format!("<0.{number}.0>"));
        }
        let found = sampled_processes(&evidence);
        let pids: Vec<&str> = found.iter().map(|process| process.pid.as_str()).collect();
        assert_eq!(pids, ["<0.1.0>", "<0.2.0>"]);
        assert_eq!(found[0].mailbox, 400);
    }
}
