//! What the far end of streams has counted, asked of it before the load and after it.

use std::time::Duration;

use linerate_engine::{Job, now, totals};
use linerate_evidence::Evidence;
use linerate_evidence::sources::stream::FarEndReading;
use linerate_model::Bytes;

/// As samples; empty where there is no far end of ours. One that does not say is noted as unread.
pub(crate) fn counted(job: &Job) -> Evidence {
    let mut evidence = Evidence::default();
    let hello = job.template.stream().and_then(|stream| stream.greeting.as_ref());
    let Some(hello) = hello else { return evidence };
    match totals(job, hello.run) {
        Ok(of) => FarEndReading {
            connections: of.connections,
            open: of.open,
            read: Bytes(of.read),
            written: Bytes(of.written),
            cpu: Duration::from_nanos(of.cpu),
            copied: of.copied,
        }
        .push(now(), &mut evidence),
        Err(why) => {
            evidence.unread.insert("stream".into(), why);
        }
    }
    evidence
}
