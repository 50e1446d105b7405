//! Lines by the driver (`{packet, line}`, `{packet, http}`): each line of a head is a read.
//! `each = time of the drivers for lines, with their delivery / throughput`, but for a line an answer
//! Source: inet(3), `packet`; erlang:decode_packet/3 does the same without a port.

use crate::prelude::*;

// Less than was measured: with asking and delivery 3 to 4 times the drivers' time (OTP 25 and 27). Unit: 1.
const WITH_DELIVERY: f64 = 2.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    // A piece as long as the buffer is part of a longer line.
    let is_cut = |each: &Connection| matches!(each.packet, LINE | 11) && !each.fills_buffer();
    let cut = facts.those(is_cut)?;
    let (lines, answers): (_, f64) = (cut.reads, cut.these.iter().map(|each| each.writes).sum());
    // A whole request is one read.
    silent_if(lines - answers <= 0.0, "the driver reads no connection line by line")?;
    let work = Work::of(facts)?;
    let spared = WITH_DELIVERY * work.of_reads(&cut) * (lines - answers) / lines;
    let each = spared / facts.attained;
    let (long, part) = (cut.bytes / lines, in_percent((spared / work.all()).min(1.0)));
    let (often, took, what) = (format!("{lines:.0} lines a second"), duration(each), facts.each());
    let to_each = lines / answers.max(1e-9);
    let how = "{packet, raw} and erlang:decode_packet/3 over what has arrived, or a server that does so (cowboy, bandit)";
    Ok(Claim::work(Resource::TargetCpu, each)
        .sized_if(work.holds(spared))
        .sum(format!("{often}, {took} of the schedulers {what} more than one read would take"))
        .seen(format!(
            "{often} of {long:.0} bytes, {to_each:.1} to each answer, took about {part} of the node's work"
        ))
        .lifted_by([Remedy::erlang(("packet", "raw"), "reads the whole head at once", how)]))
}
