//! What one connection says, and when: workloads as state machines over bytes, schedules as closed
//! forms over time.
//!
//! Pure: no socket and no clock, so partial writes and split reads are ordinary test inputs.

#![forbid(unsafe_code)]

mod choice;
mod counter;
mod holes;
mod http;
mod matching;
mod raw;
mod requests;
mod rr;
mod schedule;
mod session;
mod stream;
mod thinking;

use std::sync::Arc;

use linerate_model::Workload;

pub use choice::Choice;
pub use counter::Part;
pub use http::{Chunked, HttpSession};
pub use requests::BadRequests;
pub use schedule::Schedule;
pub use session::{Answer, Broken, Judged, Session, Step, Template};
pub use stream::{Asked, BadHello, Hello, LONGEST_LINE, NO, OK, Stream, Totals};
pub use thinking::Thinking;

/// What a plan does not say itself.
pub struct Given<'a> {
    /// The target's authority: its `Host`.
    pub authority: &'a str,
    /// Of random choices.
    pub seed: u64,
    /// A variable of the environment, by its name.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// `TCP_CONGESTION` of both ends of a stream.
    pub congestion: Option<&'a str>,
    /// The run among all that a far end of streams serves.
    pub run: u64,
    /// Of several processes, which one this is.
    pub part: Part,
}

impl<'a> Given<'a> {
    /// Of a target, and nothing else: for tests.
    pub fn of(authority: &'a str) -> Self {
        Self {
            authority,
            seed: 1,
            variable: &|_| None,
            congestion: None,
            run: 1,
            part: Part::default(),
        }
    }
}

/// A kind of workload.
pub struct Kind {
    /// Its name in plans.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub says: &'static str,
    /// A template for plans of this kind; none for others.
    pub template: fn(&Workload, &Given<'_>) -> Option<Made>,
}

/// A template, or why there is none.
pub type Made = Result<Arc<dyn Template>, BadRequests>;

/// Every workload. To add one: its parameters in `linerate_model::Workload`, a file here, a line here.
pub static WORKLOADS: &[&Kind] = &[&http::KIND, &raw::KIND, &rr::RR, &rr::CRR, &stream::KIND];

/// The template of a plan's workload.
pub fn template(workload: &Workload, given: &Given<'_>) -> Made {
    WORKLOADS
        .iter()
        .find_map(|kind| (kind.template)(workload, given))
        .expect("every workload of the model has its kind in WORKLOADS")
}

/// The random choices of one session, by its number.
fn random_of(seed: u64, session: u64) -> fastrand::Rng {
    // The odd constant keeps neighbours apart.
    fastrand::Rng::with_seed(seed ^ (session + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use linerate_model::{Bytes, Ending, Expected, Flow, Framing, Sent};

    use super::*;

    #[test]
    fn every_workload_of_the_model_has_one_kind() {
        let (framing, request, response) = (Framing::Fixed, Bytes(1), Bytes(1));
        for workload in [
            Workload::default(),
            Workload::Rr { framing, request, response, echo: false },
            Workload::Crr { framing, request, response },
            Workload::Raw {
                send: Sent::Text("a".into()),
                until: Ending { bytes: Some(Bytes(1)), ..Ending::default() },
                close: false,
                expected: Expected::default(),
            },
            Workload::Stream { direction: Flow::Up, block: Bytes(1), zerocopy: false, bare: true },
        ] {
            let given = Given::of("a");
            let kinds =
                WORKLOADS.iter().filter(|kind| (kind.template)(&workload, &given).is_some());
            assert_eq!(kinds.count(), 1);
        }
    }
}
