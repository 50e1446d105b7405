//! Calls in lockstep: a process asks another node repeatedly, and waits for each answer.
//! `each = share of the processes at work in a call x an exchange's time x (1 - 1 / calls)`: asked at once, one wait
//! Source: `do_call/4` of lib/stdlib/src/gen.erl, `call/5` of lib/kernel/src/erpc.erl; Little's law.

use crate::prelude::*;

// Source: `do_call/4` of lib/stdlib/src/gen.erl: monitor, request and demonitor. Unit: frames.
const CALL: f64 = 3.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (_, channels) = facts.channels()?;
    // Whether a process was seen waiting in a call of `erpc` (or `rpc`, which uses it).
    let (run, processes) = (&facts.run, facts.run.evidence.processes());
    let mut stacks = processes.into_iter().filter_map(|of| run.fact(of, "stack"));
    let by_erpc = stacks.any(|stack| stack.contains("erpc:call"));
    let frames = channels.iter().map(|channel| channel.frames());
    let calls = frames.map(|of| of.map(|(sent, received)| calls_among(sent, received, by_erpc)));
    let count = calls.sum::<Result<f64, _>>()? / facts.requests().max(1e-9);
    let calling = facts.at_work_in(&[waits::CALL])?;
    let waited = in_percent(calling);
    let seen = format!(
        "{count:.1} calls to another node for each request, and {waited} of the processes at work waited for one"
    );
    silent_if(count <= 1.0 || calling <= 0.0, &seen)?;
    let in_calls = calling * facts.exchange_s();
    let [one, all] = [in_calls / count, in_calls].map(duration);
    let exchange = facts.took(facts.exchange_s());
    let how = "gen_server:send_request/2 for all, then gen_server:receive_response/1; or one call that takes a list; \
               erpc:multicall/4 over nodes";
    let does = "sends all calls at once, and waits once";
    Ok(Claim::delay(At::Service, in_calls * (1.0 - 1.0 / count))
        .at_least(Least::OfTarget)
        .sum(format!("{count:.1} calls x {one} one after the other: {all} of {exchange}"))
        .seen(seen)
        .lifted_by([Remedy::by_knob(("order", "together"), does, how)]))
}

/// Calls a second, if a channel's frames are those of calls: of `gen`, [`CALL`] there, and an answer back; of `erpc`, a
/// request there, and its start and end back.
fn calls_among(sent: f64, received: f64, by_erpc: bool) -> f64 {
    let ratio = sent / received.max(1e-9);
    // Besides other traffic of the two nodes.
    let is_among = |least, most| EXPLAINED * least <= ratio && ratio <= (2.0 - EXPLAINED) * most;
    if is_among(CALL, CALL) || by_erpc && is_among(0.5, 2.0) { sent.min(received) } else { 0.0 }
}
