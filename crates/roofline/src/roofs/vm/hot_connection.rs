//! Hot connection: one has the traffic, and its owner runs on one scheduler at a time.
//! `ceiling = 1 / an exchange's time of the owner`
//! Source: Erlang reference manual, "Processes".

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.serving_node()?;
    let (node, ..) = facts.schedulers()?;
    let hot = Hottest::of(&facts.run)?;
    let of_bytes = in_percent(hot.share);
    let why = format!("of {} connections the busiest has {of_bytes} of the bytes", hot.connections);
    silent_if(hot.share < EXPLAINED, why)?;
    silent_if(node.online < 2.0, "there is one scheduler for all processes")?;
    let of = format!("the owner of the connection with {}", hot.peer);
    let owner = facts.processes.iter().find(|of| of.pid == hot.owner);
    let owner = owner.ok_or_else(|| missing(suspect::RUNNING.name, &of))?;
    let used = facts.used_by(owner)?;
    silent_if(used <= 0.0, "no sample shows its owner at work")?;
    let each = facts.per_exchange(used);
    let (who, worked, rate) = (owner.words(), in_percent(owner.running), rate(1.0, each));
    let more = (node.online as u32).max(2).max(facts.run.connections());
    Ok(Claim::cause(vec![Part::capacity(Resource::Process, 1.0, each)])
        .sum(format!("one process, {} of its time used = {rate}", in_percent(used)))
        .seen(format!(
            "the connection with {} has {of_bytes} of the bytes; its owner, {who}, worked in {worked} of the samples, \
             with {:.2} of {:.0} schedulers in use",
            hot.peer, node.active, node.online
        ))
        .lifted_by([Remedy::plan(
            ("load.connections", more.to_string()),
            format!("spreads the same requests over {more} connections, and so over schedulers"),
            "in the client: a pool of connections instead of one; in the server: hand the work of a request \
             to a process of its own, and let the owner only read and write",
        ).serving(f64::from(more))]))
}
