//! Terms: reading one takes ten times as long as a binary of its size.
//! `each = bytes of terms an exchange x 10 ns`, at most what the node ran code
//! Of the machine, where the other node is on it as well: `bytes of terms an exchange x 4 ns` more, to write them
//! Source: `erts_decode_ext`, erts/emulator/beam/external.c; message_queue_data of process_flag(2).

use crate::prelude::*;

// Measured: OTP 25, 2.5 GHz: 5 ns/B for lists of integers, 20 to 45 ns/B for maps, 0.3 ns/B for binaries.
const READING: f64 = 10e-9;

// Measured: OTP 25, 2.4 GHz: 4 ns/B for lists of integers, 5 for maps, 7 for tuples.
const WRITING: f64 = 4e-9;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (node, mut channels) = facts.channels()?;
    channels.sort_by(|a, b| b.received.total_cmp(&a.received));
    let (peer, frame) = (channels[0].peer, bytes(channels[0].frame_received()?));
    let received: f64 = channels.iter().map(|channel| channel.received).sum();
    let cores = facts.node.as_ref().map_err(Clone::clone)?.active;
    let garbage = node.rate(vm::GC_RECLAIMED)? / received.max(1.0);
    // Where the node does not account for it, all of its work.
    let code = Work::of(facts).map_or(cores, |work| work.emulator);
    let share = received * READING / code.max(1e-3);
    let (came, price, reading) = (bytes(received), READING * 1e9, in_percent(share.min(1.0)));
    let seen = format!(
        "{came}/s came from {peer} in frames of {frame}; at {price:.0} ns to read a byte that is {reading} of the \
         {code:.2} CPUs that run code; {garbage:.1} bytes of garbage for each byte received"
    );
    // A term has a heap of its own, at least as large as its bytes.
    silent_if(garbage < 1.0, format!("{seen}: they are binaries"))?;
    let each = facts.per_exchange(share.min(1.0) * code);
    // Where its CPUs are not full, the other node may write while nobody waits.
    let is_full = facts.place.is_full_of(Resource::HostCpu);
    let here = channels.iter().filter(|of| of.is_here && is_full).map(|of| of.received);
    let written = facts.per_exchange(here.sum::<f64>() * WRITING);
    let (terms, what) = (bytes(facts.per_exchange(received)), facts.each());
    let [took, whole] = [each, facts.per_exchange(cores)].map(duration);
    let how = "send iodata or term_to_binary/1 of it, and binary_to_term/1 only where it is needed; filter on the node \
               that has the data; read in several processes";
    let does = "lets the other node send one binary, which needs no decoding";
    Ok(Claim::work(Resource::TargetCpu, each)
        .and([Part::Delay { at: At::Service, each }])
        .and(
            (written > 0.0)
                .then_some(Part::Work { resource: Resource::HostCpu, each: each + written }),
        )
        // The price of a byte is another machine's; that it is most of the work is this run's.
        .sized_if(share >= HALFWAY)
        .sum(format!(
            "{terms} of terms {what} x {price:.0} ns = {took} of {whole} of the node's work"
        ))
        .seen(seen)
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::by_knob(("shape", "binary"), does, how)]))
}
