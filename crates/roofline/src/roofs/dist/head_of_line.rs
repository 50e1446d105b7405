//! Head of the line: a small message waits until all that was sent to that node before has left.
//! `each = bytes ahead / rate at which they leave`, in so far as processes wait for the answers to calls

use crate::prelude::*;

// Source: `do_call/4` of lib/stdlib/src/gen.erl: monitor, request and demonitor. Unit: frames.
const CALL: f64 = 3.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (_, channels) = facts.channels()?;
    let channel = &channels[0];
    // What a message sent now waits behind: in emulator, driver and kernel.
    let pending = channel.of.mean(dist::PENDING)?;
    let [queue, kernel] =
        [dist::QUEUE, tcp_info::WQUEUE].map(|of| channel.of.mean(of).unwrap_or(0.0));
    let (ahead, own) = (pending + queue + kernel, CALL * channel.frame_sent()?);
    let calling = facts.at_work_in(&[waits::CALL])?;
    let stood = format!("{} queued ahead of each message to {}", bytes(ahead), channel.peer);
    let why = format!("{stood}: no more than one call, or no process waits for a call");
    silent_if(ahead <= own || calling <= 0.0, why)?;
    let wait = (ahead - own) / channel.sent.max(1.0);
    let (before, sent, waits) = (bytes(ahead - own), bytes(channel.sent), duration(wait));
    let (exchange, shown) = (facts.took(facts.exchange_s()), in_percent(calling));
    let own = "send bulk data over a separate connection (`linerate_link` has lanes for it: beside 1 MB messages a small \
               one took 0.06 ms with it and 1.1 ms over the distribution, bench/RESULTS.md); or keep less of it in flight: \
               a smaller +zdbbl, `-kernel inet_dist_listen_options [{sndbuf,65536}]`";
    Ok(Claim::delay(At::Service, wait.min(calling * facts.exchange_s()))
        .at_least(Least::OfTarget)
        .sum(format!("{before} ahead / {sent}/s = {waits} of {exchange}"))
        .seen(format!("{stood}; {shown} of the processes at work waited for the answer to a call"))
        .lifted_by([Remedy::by_knob(
            ("writers", "0"),
            "moves bulk data off the channel of the calls",
            own,
        )]))
}
