//! Hot connection: one connection has the traffic, and the process that owns it works all the time. A
//! process is on one scheduler at a time, so one connection is never more than one CPU's worth.
//!
//! `ceiling = 1 / what an exchange takes of the owner`
//!
//! Blind spot: work that the owner has another process do (a TLS sender, a parser) is not its own.
//! Source: Erlang reference manual, "Processes".

use crate::facts::hottest::Hottest;
use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.serving_node()?;
    let (node, _, let_run) = facts.schedulers()?;
    let hot = Hottest::of(&facts.run)?;
    let of_bytes = in_percent(hot.share);
    if hot.share < EXPLAINED {
        let all = hot.connections;
        return not_here(format!("of {all} connections the busiest has {of_bytes} of the bytes"));
    }
    silent_if(node.online < 2.0, "there is one scheduler for all processes")?;
    let Some(owner) = facts.processes.iter().find(|of| of.pid == hot.owner) else {
        let of = format!("the owner of the connection with {}", hot.peer);
        return Err(missing("suspect.running", &of).into());
    };
    let used = node.of_one(owner.running) * let_run;
    let each = used / facts.attained.max(1e-9);
    let rate = OpRate(1.0 / each.max(1e-12));
    let (who, worked) = (owner.words(), in_percent(owner.running));
    let more = (node.online as u32).max(2).max(facts.run.connections());
    Ok(Claim {
        sum: format!("one process, {} of its time used = {rate}", in_percent(used)),
        seen: format!(
            "the connection with {} has {of_bytes} of the bytes; its owner, {who}, worked in {worked} of the samples, \
             with {:.2} of {:.0} schedulers in use",
            hot.peer, node.active, node.online
        ),
        remedies: vec![Remedy::size(
            "load.connections",
            more.to_string(),
            f64::from(more),
            format!("spreads the same requests over {more} connections, and so over schedulers"),
            "in the client: a pool of connections instead of one; in the server: hand the work of a request \
             to a process of its own, and let the owner only read and write",
        )],
        ..Claim::cause(vec![Part::capacity(Resource::Process, 1.0, each)])
    })
}
