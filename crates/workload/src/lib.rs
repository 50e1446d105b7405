//! What one connection says, and when: workloads as state machines over bytes, schedules as closed
//! forms over time.
//!
//! Pure: no socket and no clock, so partial writes and split reads are ordinary test inputs.

#![forbid(unsafe_code)]

mod choice;
mod http;
mod matching;
mod requests;
mod rr;
mod schedule;
mod session;

use std::sync::Arc;

use linerate_model::Workload;

pub use choice::Choice;
pub use http::{Chunked, HttpSession};
pub use requests::BadRequests;
pub use schedule::Schedule;
pub use session::{Answer, Broken, Judged, Session, Step, Template};

/// A kind of workload.
pub struct Kind {
    /// Its name in plans.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub says: &'static str,
    /// A template for plans of this kind; none for others. The text is the target's authority.
    pub template: fn(&Workload, &str) -> Option<Arc<dyn Template>>,
}

/// Every workload. To add one: its parameters in `linerate_model::Workload`, a file here, a line here.
pub static WORKLOADS: &[&Kind] = &[&http::KIND, &rr::RR, &rr::CRR];

/// The template of a plan's workload.
pub fn template(workload: &Workload, authority: &str) -> Arc<dyn Template> {
    WORKLOADS
        .iter()
        .find_map(|kind| (kind.template)(workload, authority))
        .expect("every workload of the model has its kind in WORKLOADS")
}

/// The same of any plan, also one whose requests are from a file. The seed is of its random choices.
pub fn template_of(
    workload: &Workload,
    authority: &str,
    seed: u64,
) -> Result<Arc<dyn Template>, BadRequests> {
    http::of_requests(workload, authority, seed)
        .unwrap_or_else(|| Ok(template(workload, authority)))
}

#[cfg(test)]
mod tests {
    use linerate_model::{Bytes, Framing};

    use super::*;

    #[test]
    fn every_workload_of_the_model_has_one_kind() {
        let (framing, request, response) = (Framing::Fixed, Bytes(1), Bytes(1));
        for workload in [
            Workload::default(),
            Workload::Rr { framing, request, response, echo: false },
            Workload::Crr { framing, request, response },
        ] {
            let kinds = WORKLOADS.iter().filter(|kind| (kind.template)(&workload, "a").is_some());
            assert_eq!(kinds.count(), 1);
        }
    }
}
