//! A limit of requests for each connection: after so many the next exchange opens another.
//! `K = answers / connections opened again`, and of each exchange `1 / K` of a connection's cost
//! Source: `max_keepalive` of cowboy, `max_keep_alive_request` of httpd, `keepalive_requests` of nginx.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let (load, all) = (facts.run.load, facts.run.connections_words());
    let (opened, answered) = (load.opened, load.answered);
    let each = answered as f64 / opened.max(1) as f64;
    let carried =
        format!("{opened} connections for {answered} exchanges of {all}: each carried {each:.2}");
    let limit = facts.closes_after().or_not_here(format!("{carried}: that is no request limit"))?;
    let (opening, unheard) = (facts.opening(), facts.unheard());
    let mut parts = facts.price(&opening, false);
    if let Some((shaking, work)) = facts.shaking() {
        let each = shaking + opening.connect_s * opening.each;
        parts.push(Part::Delay { at: At::Connecting, each });
        parts.extend(work.map(|each| Part::Work { resource: Resource::TargetCpu, each }));
    }
    let [connect, service] = [opening.connect_s, load.service.mean() / 1e9].map(duration);
    silent_if(parts.is_empty(), "the cost of a connection was not measured")?;
    let by_hand = "nginx: keepalive_requests 1000000; Apache: MaxKeepAliveRequests 0; cowboy: max_keepalive => infinity; \
                   httpd of OTP: no {max_keep_alive_request, N}";
    let does = "keeps connections for as long as the client wants them";
    Ok(Claim::cause(parts)
        .sum(format!(
            "each connection is closed after {limit:.0} answers, and the next exchange opens another"
        ))
        .seen(format!(
            "{carried}, and was then closed; a connect takes {connect} of an exchange's {service}"
        ))
        .also(opening.slower_first())
        .also((unheard > 0).then(|| format!("{unheard} requests crossed it and had no answer")))
        .at_least(Least::OfTarget)
        .lifted_by([Remedy::by_knob(("max_requests", "0"), does, by_hand)]))
}
