//! Large messages between nodes: fragments of 64 KiB, one after the other on one channel.
//! `each = share of processes at work that wait for another node x share of time with a queue x an exchange's time`
//! Source: erl_dist_protocol, "Distribution header for fragmented messages".

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (_, channels) = facts.channels()?;
    let channel = &channels[0];
    let (peer, frame) = (channel.peer, bytes(channel.frame_sent()?));
    let frames = format!("frames to {peer} are {frame} on average");
    silent_if(!channel.is_fragments()?, format!("{frames}: few are fragments"))?;
    let some = |pending: Bytes, queue: Bytes| pending.0 + queue.0 > 0;
    let waited = channel.of.share_of_both(dist::PENDING, dist::QUEUE, some)?;
    let in_calls = facts.at_work_in(&[waits::DIST, waits::CALL])?;
    let each = waited * in_calls * facts.exchange_s();
    let carried = facts.per_exchange(channel.sent);
    let [took, exchange] = [each, facts.exchange_s()].map(duration);
    let ([waited, in_calls], count) = ([waited, in_calls].map(in_percent), carried / FRAGMENT);
    let [sent, carried] = [channel.sent, carried].map(bytes);
    let own = "send them over a separate connection (`linerate_link` has neither fragments nor their queue: beside 100 MB \
               messages a small one took 0.06 ms with it and 1.5 ms over the distribution, bench/RESULTS.md), or pass a \
               reference and fetch the data; or send parts of less than 64 KiB, each after the answer to the one before";
    let does = "keeps large payloads off the channel between nodes";
    Ok(Claim::delay(At::Service, each)
        .at_least(Least::OfTarget)
        .sum(format!(
            "{sent}/s to {peer} / {carried} ({count:.0} fragments) on the channel for each: {took} of {exchange}"
        ))
        .seen(format!(
            "{frames}; something waited for the channel in {waited} of the samples; {in_calls} of the processes at \
             work waited for another node"
        ))
        .lifted_by([Remedy::by_knob(("payload", "100"), does, own)]))
}
