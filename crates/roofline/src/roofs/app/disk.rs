//! The disk: threads of the service wait for it while requests wait for them, and not for a sync.
//!
//! `each = threads that wait for a disk / throughput`

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    Ok(facts.disk_waits(false)?.lifted_by([Remedy::human(
        "waits for the disk less often",
        "if it reads, keep in memory what is read again, and read no more than is asked for; if it writes past the \
         cache (O_DIRECT, O_SYNC), write several at once; or a faster disk",
    )]))
}
