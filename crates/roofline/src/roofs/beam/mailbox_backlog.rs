//! Mailbox backlog: in active mode data that a process can't keep up with waits in its mailbox.
//! `each = mailbox / messages a second` (Little's law), of the bytes that went through such mailboxes
//! Source: inet(3), `active`; Little (1961).

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let length = |each: &Connection| each.of.mean(owner::MAILBOX);
    let is_pushed = |each: &Connection| each.is_pushed && each.bytes > 0.0;
    facts.those(is_pushed)?.these.iter().try_for_each(|each| length(each).map(drop))?;
    let is_behind = |each: &Connection| {
        let stands = each.standing().is_ok_and(|standing| standing >= FEW);
        is_pushed(each) && length(each).is_ok_and(|of| of >= FEW) && !stands
    };
    let behind = facts.those(is_behind)?;
    let owners = behind.these.len() as f64;
    let why = "no owner of a connection in active mode (true or N) is behind with its data";
    silent_if(owners == 0.0, why)?;
    let waiting: f64 = behind.these.iter().filter_map(|each| length(each).ok()).sum();
    let reads = behind.reads.max(1e-9);
    let (wait, through) = (waiting / reads, in_percent(behind.part));
    let [each, one] = [wait, owners / reads].map(duration);
    let (waiting, handled) = (waiting / owners, behind.reads / owners);
    let shorter = "shorten the owner's work (or waits) between two messages, or move it to another process; {buffer, \
                   65536} in the socket's options makes fewer messages";
    let once = "{active, once} or {active, N}, set again after the last message is handled";
    let does = "leaves unhandled data in the kernel, so that the peer slows down and memory is bounded; alone it is not \
                faster";
    let less = "takes less time for each message, or more data in one";
    Ok(Claim::delay(At::Reading, wait * behind.part)
        .sum(format!(
            "{waiting:.0} messages in a mailbox / {handled:.0} handled a second = {each} of waiting for each"
        ))
        .seen(format!(
            "{waiting:.0} messages waited in the mailbox of each owner in active mode, which handles one in {one}; \
             {through} of the bytes went through such mailboxes"
        ))
        .at_least(Least::OfTarget)
        .lifted_by([
            Remedy::by_knob(("read_delay_ms", "0"), less, shorter),
            Remedy::erlang(("active", "once"), does, once),
        ]))
}
