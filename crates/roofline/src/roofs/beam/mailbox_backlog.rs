//! Mailbox backlog: in active mode data is delivered whether the process has handled the last or not, so
//! what it cannot keep up with waits in its mailbox, without bound.
//!
//! `each = mailbox / messages a second` (Little's law), of the bytes that went through such mailboxes
//!
//! Blind spot: messages of another kind in the same mailbox.
//! Source: inet(3), `active`; Little (1961).

use crate::facts::connections::{bytes, reads};
use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let all = facts.connections()?;
    let (mut behind, mut waiting) = (Vec::new(), 0.0);
    for each in all.iter().filter(|each| each.is_pushed() && each.bytes > 0.0) {
        let mailbox = each.mean_mailbox()?;
        if mailbox >= FEW && each.standing()? < FEW {
            waiting += mailbox;
            behind.push(each);
        }
    }
    if behind.is_empty() {
        return not_here(
            "no owner of a connection in active mode, true or a count, is behind with its data",
        );
    }
    let messages = reads(behind.iter().copied());
    let part = bytes(behind.iter().copied()) / bytes(all).max(1e-9);
    let wait = waiting / messages.max(1e-9);
    let owners = behind.len() as f64;
    let (waiting, handled, through) = (waiting / owners, messages / owners, in_percent(part));
    let one = duration(owners / messages.max(1e-9));
    Ok(Claim {
        sum: format!(
            "{waiting:.0} messages in a mailbox / {handled:.0} handled a second = {} that each waits",
            duration(wait)
        ),
        seen: format!(
            "{waiting:.0} messages waited in the mailbox of each owner in active mode, which handles one in {one}; \
             {through} of the bytes went through such"
        ),
        remedies: vec![
            Remedy::by_knob(
                ("read_delay_ms", "0"),
                "takes less time for each message, or more data in one",
                "shorten what the owner does (or waits for) between two messages, or hand it to another \
                 process; {buffer, 65536} among the socket's options makes fewer of them",
            ),
            Remedy::erlang(
                "active",
                "once",
                "leaves in the kernel what is not handled yet, so that the peer slows down and memory is \
                 bounded; by itself it is no faster",
                "{active, once} or {active, N}, set again when the last was handled",
            ),
        ],
        ..Claim::cause(vec![Part::Delay { at: At::Reading, each: wait * part }])
    })
}
