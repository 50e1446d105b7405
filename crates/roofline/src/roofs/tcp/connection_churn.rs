//! Connection churn: a connection for each exchange, by the client, or by a proxy to its backend.
//! `work = kernel's CPU time x segments that open and close connections / all segments`
//! `delay = time of a connect x connections an exchange`
//! Source: RFC 9293, 3.5 and 3.6; RFC 9112, 9.3.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let opening = facts.opening();
    let upstream = opening.upstream > opening.each;
    let opened = opening.each.max(opening.upstream);
    // Connections of our own load that carry several end by a server's limit. Of watched sessions the cost decides.
    let few = opened * facts.attained * facts.run.seconds() < FEW;
    let why = format!("{opened:.2} connections are opened for {}", facts.each());
    // A peer that takes its time for each of fewer has its price all the same.
    let least = if upstream && opening.login_s > 0.0 { HOLDS } else { HALFWAY };
    silent_if(few || (facts.is_made().is_ok() && opened < least), why)?;
    if let Some(limit) = facts.closes_after().filter(|answers| *answers > 1.0 && !upstream) {
        return not_here(format!("the target closes each after {limit:.0} answers"));
    }
    let (parts, first) = (facts.price(&opening, upstream), opening.slower_first());
    let share = opening.share.map(in_percent);
    if parts.is_empty() {
        share?;
        return not_here("the cost of a connection was not measured");
    }
    let count = format!("{opened:.2} connections for {}", facts.each());
    let whose = match facts.inside.asked.first() {
        Some(asked) if upstream => format!("the target opens to {}", asked.address),
        _ => "clients open".into(),
    };
    let does = "keeps connections open for the next exchange";
    let in_client = "a connection pool in the client; keep-alive in the server";
    let in_target = "keep connections to the dependency (nginx: keepalive in upstream{} and proxy_http_version 1.1; \
                     HAProxy: http-reuse always; elsewhere a connection pool)";
    let remedy = match upstream {
        true => Remedy::human(does, in_target),
        false => Remedy::keep_connections(facts, does, in_client),
    };
    Ok(Claim::cause(parts)
        .sum(match opening.connect_s {
            time if time > 0.0 && !upstream => format!("{count}, {} to connect", duration(time)),
            _ if upstream && opening.login_s > 0.0 => {
                let logs_in = duration(opening.login_s);
                format!("{count} that the target opens, {logs_in} until their first answer")
            }
            _ if !upstream && opening.login_share > 0.0 => {
                let share = in_percent(opening.login_share);
                format!("{count}: {share} of what they wait for is their login, and no question's")
            }
            _ => count.clone(),
        })
        .seen(format!("{whose} {count}"))
        .also(first.filter(|_| !upstream))
        .also(share.ok().map(|share| format!("{share} of all segments open or close connections")))
        .at_least(Least::OfBothEnds)
        .lifted_by([remedy]))
}
