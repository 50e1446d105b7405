//! A limit of requests for each connection: after so many the next exchange opens another.
//!
//! `K = answers / connections opened again`, and of each exchange `1 / K` of a connection's cost
//! Source: `max_keepalive` of cowboy, `max_keep_alive_request` of httpd, `keepalive_requests` of nginx.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let (load, connections) = (facts.run.load, f64::from(facts.run.connections()));
    facts.is_made()?;
    let again = load.opened as f64 - connections;
    let (opened, answered, all) = (load.opened, load.answered, facts.run.connections_words());
    let kept = format!("{opened} connections for {answered} exchanges of {all}");
    let is_kept = facts.run.header.plan.opens_each() || again < connections.max(FEW);
    silent_if(is_kept, format!("{kept}: the server did not close them"))?;
    let failed = load.errors.values().sum::<u64>() as f64;
    // Connections open at the end had half of theirs, on average.
    let each = load.answered as f64 / (again + connections / 2.0);
    let limit = each.round();
    // The uncertainty from that.
    let known_to = each * (connections / 2.0 + FEW) / again;
    let is_whole = (each - limit).abs() <= known_to;
    let carried = format!("each connection carried {each:.2} exchanges");
    let is_limit = 1.0 / each < HALFWAY && is_whole && failed <= TURNED_AWAY * answered as f64;
    silent_if(!is_limit, format!("{carried}, and {failed:.0} failed: that is no request limit"))?;
    let opening = facts.opening();
    let mut parts = facts.price(&opening, false);
    if let Some((shaking, work)) = facts.shaking() {
        let each = shaking + opening.connect_s * opening.each;
        parts.push(Part::Delay { at: At::Connecting, each });
        parts.push(Part::Work { resource: Resource::TargetCpu, each: work? });
    }
    let (connect, service) = (duration(opening.connect_s), duration(load.service.mean() / 1e9));
    silent_if(parts.is_empty(), "the cost of a connection was not measured")?;
    Ok(Claim::cause(parts)
        .sum(format!(
            "each connection is closed after {limit:.0} answers, and the next exchange opens another"
        ))
        .seen(format!(
            "{carried} and was then closed, without a failure; a connect takes \
             {connect} of an exchange's {service}"
        ))
        .lifted_by([Remedy::by_knob(
            ("max_requests", "0"),
            "keeps connections for as long as the client wants them",
            "nginx: keepalive_requests 1000000; Apache: MaxKeepAliveRequests 0; cowboy: max_keepalive => \
             infinity; httpd of OTP: no {max_keep_alive_request, N}",
        )]))
}
