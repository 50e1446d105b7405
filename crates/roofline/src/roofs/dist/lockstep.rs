//! Calls in lockstep: a process asks another node repeatedly, and waits for each answer.
//! `each = share of the processes at work in a call x an exchange's time x (1 - 1 / calls)`: asked at once, one wait
//! Source: `do_call/4` of lib/stdlib/src/gen.erl, `call/5` of lib/kernel/src/erpc.erl; Little's law.

use crate::prelude::*;

// Source: `do_call/4` of lib/stdlib/src/gen.erl: monitor, request and demonitor. Unit: frames.
const CALL: f64 = 3.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    if let Some(claim) = by_memory(facts) {
        return Ok(claim);
    }
    let (_, channels) = facts.channels()?;
    let by_erpc = is_by_erpc(facts);
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
    let claim = lockstep(count, in_calls);
    let exchange = facts.took(facts.exchange_s());
    let sum = format!("{count:.1} calls x {one} one after the other: {all} of {exchange}");
    Ok(claim.sum(sum).seen(seen))
}

/// Whether a process was seen waiting in a call of `erpc` (or `rpc`, which uses it).
fn is_by_erpc(facts: &Facts) -> bool {
    let processes = facts.run.evidence.processes().into_iter();
    let mut stacks = processes.filter_map(|of| facts.run.fact(of, "stack"));
    stacks.any(|stack| stack.contains("erpc:call"))
}

/// So many calls, which take so long together. Unit: seconds.
fn lockstep(count: f64, in_calls: f64) -> Claim {
    let how = "gen_server:send_request/2 for all, then gen_server:receive_response/1; or one call that takes a list; \
               erpc:multicall/4 over nodes";
    let does = "sends all calls at once, and waits once";
    Claim::delay(At::Service, in_calls * (1.0 - 1.0 / count))
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::by_knob(("order", "together"), does, how)])
}

/// Seen from outside: most requests wait for another node on this host, which gives several answers to each; by the node's
/// memory their processes are in calls, and wait for no process of their own node.
fn by_memory(facts: &Facts) -> Option<Claim> {
    let is_node = |of: &Asked| of.process.as_ref().is_some_and(|of| of.starts_with("beam.smp"));
    let of_node = |of: &(&Asked, f64)| is_node(onward(of.0).last().unwrap_or(of.0));
    let nodes = facts.asked_by_many().filter(of_node);
    let (asked, out) = nodes.max_by(|a, b| a.1.total_cmp(&b.1))?;
    // Of `erpc` the start of a call is told as well.
    let each = if is_by_erpc(facts) { 2.0 } else { 1.0 };
    let (count, calling) = (facts.answers_of(asked)? / each, facts.by_memory(erlang::CALLING)?);
    let is_so = facts.is_node_outside() && facts.most_wait_for().is_none();
    let in_calls = facts.per_exchange(out);
    let ([one, all], exchange) =
        ([in_calls / count, in_calls].map(duration), facts.took(facts.exchange_s()));
    let claim = lockstep(count, in_calls)
        .sum(format!("{count:.1} calls x {one} one after the other: {all} of {exchange}"))
        .seen(format!(
            "{out:.1} requests wait for {}, with {:.0} answers of it for a request alone; {calling:.1} processes waited in calls",
            asked.words(),
            count * each
        ));
    // Calls that go out at once have a process each, or none.
    let in_turn = (HALFWAY * out..=(1.0 + HALFWAY) * out).contains(&calling);
    (is_so && count >= TWO && in_turn).then_some(claim)
}

/// Calls a second, if a channel's frames are those of calls: of `gen`, [`CALL`] there, and an answer back; of `erpc`, a
/// request there, and its start and end back.
fn calls_among(sent: f64, received: f64, by_erpc: bool) -> f64 {
    let ratio = sent / received.max(1e-9);
    // Besides other traffic of the two nodes.
    let is_among = |least, most| EXPLAINED * least <= ratio && ratio <= (2.0 - EXPLAINED) * most;
    if is_among(CALL, CALL) || by_erpc && is_among(0.5, 2.0) { sent.min(received) } else { 0.0 }
}
