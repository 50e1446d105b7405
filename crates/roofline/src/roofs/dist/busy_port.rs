//! A busy channel: its queue is full, and senders to that node are suspended.
//! `each = share of the processes at work that are suspended at the channel x an exchange's time`
//! Source: `erts_dsig_send`, erts/emulator/beam/dist.c; erl(1), `+zdbbl`.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (node, channels) = facts.channels()?;
    let (channel, peer) = (&channels[0], channels[0].peer);
    silent_if(channel.is_fragments()?, format!("fragments fill the channel to {peer}"))?;
    let suspended = facts.at_work_in(&[waits::DIST])?;
    silent_if(suspended <= 0.0, format!("no process was suspended at the channel to {peer}"))?;
    // Missing where another program uses the system monitor.
    let events = node.rate(vm::BUSY_DIST_PORT).unwrap_or(0.0);
    let each = suspended * facts.exchange_s();
    let (took, exchange) = (duration(each), facts.took(facts.exchange_s()));
    let [sent, carried] = [channel.sent, facts.per_exchange(channel.sent)].map(bytes);
    let suspended = in_percent(suspended);
    let own = "send bulk data over a separate connection (`linerate_link` is one: beside 1 MB messages a small one took \
               0.06 ms with it and 1.1 ms over the distribution, bench/RESULTS.md), or less of it; find out why the other \
               node reads slowly; `+zdbbl 32768` in vm.args only absorbs bursts";
    Ok(Claim::delay(At::Service, each)
        .at_least(Least::OfTarget)
        .sum(format!(
            "{took} of {exchange} suspended: the channel to {peer} carries only {sent}/s, {carried} for each"
        ))
        .seen(format!(
            "senders to {peer} were suspended {events:.0} times a second, and {suspended} of the processes at work were \
             suspended there"
        ))
        .lifted_by([Remedy::by_knob(("writers", "0"), "moves bulk data off the channel of the calls", own)]))
}
