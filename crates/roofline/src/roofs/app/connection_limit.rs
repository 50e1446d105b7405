//! A limit of connections: the server has taken as many as it was told to and takes no more; the next
//! ones are made by the kernel, wait in the listener's queue, and are never answered.
//!
//! `turned away = connections that wait to be accepted, of all`
//!
//! The queue was never empty, and fewer connections came than wait in it: nobody accepts, though the target
//! has all that accepting takes.
//! Blind spot: acceptors that died, or hang, leave the same queue. Where connections come and go, a limit
//! looks like slow acceptors.
//! Source: `max_connections` of ranch, thousand_island's `num_connections`, `esockd`; MaxRequestWorkers of
//! Apache with connections that are kept.

use crate::facts::admission::AcceptQueue;
use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let AcceptQueue { port, waiting, least, drained } = facts.accept_queue()?;
    silent_if(least == 0, "the accept queue was empty, at times at least")?;
    silent_if(drained >= HOLDS, "the accept queue is on its way to being empty")?;
    let came = facts.came()?;
    if came >= waiting {
        let why =
            format!("{came:.0} connections came and {waiting:.1} wait: somebody accepts them");
        return not_here(why);
    }
    if let Some(what) = facts.out_of() {
        return not_here(format!("the target has no {what} left to accept with"));
    }
    let (asked, served, part) = facts.turned_away(waiting + facts.unmade());
    Ok(Claim {
        sum: format!("{served:.0} of {asked:.0} connections were let in"),
        seen: format!(
            "{waiting:.1} connections wait on port {port}, {least} at least, and {came:.0} came: nobody accepts"
        ),
        remedies: vec![Remedy::by_knob(
            ("max_connections", format!("{:.0}", 2.0 * asked)),
            "lets in the connections that wait now",
            "raise the server's limit of connections or workers (Apache MaxRequestWorkers, PostgreSQL \
             max_connections, ranch max_connections, thousand_island num_connections); if it has none, \
             see whether its acceptors live",
        )],
        ..Claim::cause(vec![part])
    })
}
