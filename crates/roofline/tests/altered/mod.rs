//! Recorded runs, judged as they are or changed in one respect.

use std::path::PathBuf;

use linerate_evidence::{Evidence, Header, Subject, read, summarise};
use linerate_roofline::{Assessed, Judgement, Run, judge};

/// A recorded run, by the name of its plan.
pub fn recording(name: &str) -> (Header, Evidence) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let (header, evidence, _) = read(&text).unwrap();
    (header, evidence)
}

/// What all roofs say of it.
pub fn judged(header: &Header, evidence: &Evidence) -> Judgement {
    let load = summarise(evidence, &header.plan);
    judge(&Run { header, evidence, load: &load })
}

/// What one of them says.
pub fn of<'a>(judgement: &'a Judgement, id: &str) -> &'a Assessed {
    judgement.roofs.iter().find(|roof| roof.id == id).unwrap()
}

/// The same evidence with samples changed: by subject and metric to another number, or to none.
pub fn changed(
    evidence: &Evidence,
    change: impl Fn(Subject, &str, u64) -> Option<u64>,
) -> Evidence {
    let mut changed = Evidence::default();
    changed.slices.clone_from(&evidence.slices);
    changed.steps.clone_from(&evidence.steps);
    for (subject, facts) in evidence.facts() {
        for (name, text) in facts {
            changed.push_fact(*subject, name, text.clone());
        }
    }
    for (at, subject, values) in evidence.rows() {
        for (metric, raw) in values {
            if let Some(raw) = change(subject, metric, raw) {
                changed.push_raw(at, subject, metric, raw);
            }
        }
    }
    changed
}
