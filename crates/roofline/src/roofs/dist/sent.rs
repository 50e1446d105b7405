//! What processes wait for at the channel to another node, which carries all that is sent there, in order.
//! Source: erl_dist_protocol: signals between two nodes are carried in order, by one connection.

use crate::prelude::*;

/// A busy channel: its queue is full, and senders to that node are suspended.
/// `each = share of the processes at work that are suspended at the channel x an exchange's time`
/// Source: `erts_dsig_send`, erts/emulator/beam/dist.c; erl(1), `+zdbbl`.
pub(in crate::roofs) fn busy_port(facts: &Facts) -> Result<Claim, Silent> {
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
    Ok(waiting(each)
        .sum(format!(
            "{took} of {exchange} suspended: the channel to {peer} carries only {sent}/s, {carried} for each"
        ))
        .seen(format!(
            "senders to {peer} were suspended {events:.0} times a second, and {suspended} of the processes at work were \
             suspended there"
        ))
        .lifted_by([Remedy::by_knob(("writers", "0"), OWN_CHANNEL, own)]))
}

const OWN_CHANNEL: &str = "moves bulk data off the channel of the calls";

/// Requests wait so long in the service; what that takes besides is not known. Unit: seconds.
fn waiting(each: f64) -> Claim {
    Claim::delay(At::Service, each).at_least(Least::OfTarget)
}

/// Large messages between nodes: fragments of 64 KiB, one after the other on one channel.
/// `each = share of processes at work that wait for another node x share of time with a queue x an exchange's time`
/// Source: erl_dist_protocol, "Distribution header for fragmented messages".
pub(in crate::roofs) fn fragments(facts: &Facts) -> Result<Claim, Silent> {
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
    Ok(waiting(each)
        .sum(format!(
            "{sent}/s to {peer} / {carried} ({count:.0} fragments) on the channel for each: {took} of {exchange}"
        ))
        .seen(format!(
            "{frames}; something waited for the channel in {waited} of the samples; {in_calls} of the processes at \
             work waited for another node"
        ))
        .lifted_by([Remedy::by_knob(("payload", "100"), does, own)]))
}

// Source: `do_call/4` of lib/stdlib/src/gen.erl: monitor, request and demonitor. Unit: frames.
const CALL: f64 = 3.0;

/// Head of the line: a small message waits until all that was sent to that node before has left.
/// `each = bytes ahead / rate at which they leave`, in so far as processes wait for the answers to calls
pub(in crate::roofs) fn queued(facts: &Facts) -> Result<Claim, Silent> {
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
    Ok(waiting(wait.min(calling * facts.exchange_s()))
        .sum(format!("{before} ahead / {sent}/s = {waits} of {exchange}"))
        .seen(format!("{stood}; {shown} of the processes at work waited for the answer to a call"))
        .lifted_by([Remedy::by_knob(("writers", "0"), OWN_CHANNEL, own)]))
}

/// Calls in lockstep: a process asks another node repeatedly, and waits for each answer.
/// `each = share of the processes at work in a call x an exchange's time x (1 - 1 / calls)`: asked at once, one wait
/// Source: `do_call/4` of lib/stdlib/src/gen.erl, `call/5` of lib/kernel/src/erpc.erl; Little's law.
pub(in crate::roofs) fn lockstep(facts: &Facts) -> Result<Claim, Silent> {
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
    Ok(waiting(in_calls * (1.0 - 1.0 / count))
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
