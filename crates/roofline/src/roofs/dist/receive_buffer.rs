//! The channel's read buffer: the node reads 1460 bytes at a time, and falls behind.
//! `each = reads / time slices x share of the processes at work that wait for another node x an exchange's time`
//! Source: `INET_DEF_BUFFER`, erts/emulator/drivers/common/inet_drv.c; kernel(6), `inet_dist_listen_options`.

use crate::prelude::*;

// Measured: 0.72 of all turns were reads with 1460 bytes, 0.02 with this (dist.receive-buffer.md). Unit: bytes.
const ENOUGH: u64 = 262_144;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (node, mut channels) = facts.channels()?;
    channels.sort_by(|a, b| b.received.total_cmp(&a.received));
    let (channel, peer) = (&channels[0], channels[0].peer);
    let buffer = channel.of.last(dist::BUFFER)?;
    let (frame, frames) = (channel.frame_received()?, channel.frames()?.1);
    let (size, whole) = (bytes(frame), "each is read whole, whatever the buffer");
    let whole = format!("frames from {peer} are {size} on average: {whole}");
    silent_if(frame > buffer.0 as f64, whole)?;
    let reads = channel.received / buffer.0.max(1) as f64;
    let turns = (reads / node.rate(vm::CONTEXT_SWITCHES)?.max(1.0)).min(1.0);
    let waiting = facts.at_work_in(&[waits::DIST, waits::CALL])?;
    let each = turns * waiting * facts.exchange_s();
    let (came, [turns, waiting]) = (bytes(channel.received), [turns, waiting].map(in_percent));
    let flag = |end| format!("-kernel inet_dist_{end}_options [{{buffer,{ENOUGH}}}]");
    let flags = format!("{} {}", flag("listen"), flag("connect"));
    let does = "lets one read take many messages; set it on both nodes, as either may connect";
    let (took, exchange) = (duration(each.max(1e-9)), facts.took(facts.exchange_s()));
    Ok(Claim::delay(At::Service, each)
        .sum(format!(
            "{came}/s from {peer} in {reads:.0} reads of {buffer}, {turns} of all time slices: {took} of {exchange}"
        ))
        .seen(format!(
            "{frames:.0} frames a second of {size} from {peer} take {reads:.0} reads of {buffer}, {turns} of all time \
             slices of the schedulers; {waiting} of the processes at work waited for another node"
        ))
        .lifted_by([Remedy::vm(flags, does).with_knob("dist_buffer", ENOUGH.to_string())]))
}
