//! Readings of the links that the lab laid, as samples: `link/N/WAY`, N by the link's place in the plan.

use linerate_evidence::{Direction, Evidence, Subject};
use linerate_lab::{Lab, LinkMeter};
use linerate_model::Timestamp;

/// The links of a run. None where the plan has no path.
pub struct Links {
    meters: Vec<(String, LinkMeter)>,
    are_named: bool,
}

impl Links {
    /// Those of a lab.
    pub fn of(lab: &Lab) -> Self {
        Self { meters: lab.link_meters(), are_named: false }
    }

    /// Adds a reading of each way of each; with the first what it is called and who carries it.
    pub fn tell(&mut self, now: impl Fn() -> Timestamp, evidence: &mut Evidence) {
        for (index, (name, meter)) in (0u16..).zip(&self.meters) {
            // The instant of the reading: those of netem take a command each.
            let at = now();
            for (direction, reading) in Direction::BOTH.into_iter().zip(meter.read()) {
                let of = Subject::Link(index, direction);
                reading.push(at, of, evidence);
                if !self.are_named {
                    evidence.push_fact(of, "name", name.clone());
                    evidence.push_fact(of, "backend", meter.backend().to_owned());
                }
            }
        }
        self.are_named = true;
    }
}

/// What was asked of each link and what it delivered before the run, as the header's facts:
/// `path.rtt.asked`, `path.rtt.delivered`, `links.east-west.rate.out.asked`.
pub fn proven(lab: &Lab) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let meters = lab.link_meters();
    for (name, proof) in lab.proofs() {
        let key = if name == "path" { name.clone() } else { format!("links.{name}") };
        if let Some((_, meter)) = meters.iter().find(|(of, _)| *of == name) {
            facts.push((format!("{key}.backend"), meter.backend().to_owned()));
        }
        for row in proof.rows {
            facts.push((format!("{key}.{}.asked", row.what), row.asked));
            facts.push((format!("{key}.{}.delivered", row.what), row.delivered.to_string()));
        }
    }
    facts
}
