//! The same limit at a watched service: on what it sends, and on what its clients send.
//!
//! Sent: `delay = connections amid an answer with nothing unsent / answers a second`, which all have the same rate.
//! Read: `delay = connections that wait to be read / reads a second`, while their readers would take any message.
//! Blind spot: a timer before each read, where all ask for the same.

use crate::prelude::*;

pub(super) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    given(facts).or_else(|not| match facts.serving_node() {
        Ok(_) => taken(facts),
        Err(_) => left_unread(facts).map_err(|why| match facts.place.station {
            Some(Station::Unread) => why,
            _ => not,
        }),
    })
}

/// What its clients send, where the service is not seen inside: it has time to read, serves nobody, and leaves as much
/// unread on each connection. Who serves one at a time always serves one; where none waits for another, those that were read
/// wait for what another one's client sends.
fn left_unread(facts: &Facts) -> Result<Claim, Silent> {
    let [unread, served] = [facts.ports(|of| of.unread), facts.ports(|of| of.in_application())];
    let few = format!("{unread:.1} connections wait to be read");
    silent_if(unread < 2.0 || unread < HOLDS * facts.place.of, few)?;
    let is_apart = facts.pace() == Some(Pace::Apart) && facts.inside.questions() < HALFWAY;
    let served = if is_apart { 0.0 } else { served };
    let at_work =
        served + facts.inside.running + facts.stations.fullest().map_or(0.0, |(_, full)| full);
    silent_if(at_work >= HALFWAY, format!("{at_work:.1} requests are served at any time"))?;
    silent_if(facts.one_is_away(), "the thread that would read them waits for something else")?;
    let waits = |flow: &Of| {
        flow.share(tcp_info::RQUEUE, |bytes| bytes.0 > 0).is_ok_and(|share| share >= HOLDS)
    };
    let rate = |flow: Of| flow.rate(tcp_info::BYTES_RECEIVED).ok().filter(|rate| *rate > 0.0);
    let flows = facts.run.flows(Side::Server).into_iter().filter(waits);
    let mut rates = Vec::from_iter(flows.filter_map(rate));
    rates.sort_by(f64::total_cmp);
    silent_if(rates.len() < SAMPLES, "fewer than three sampled connections wait to be read")?;
    let (low, high) = (rates[rates.len() / 10], rates[rates.len() - 1 - rates.len() / 10]);
    let are = format!("{}/s to {}/s", bytes(low), bytes(high));
    silent_if(low < EXPLAINED * high, format!("they are read at {are}, not all at the same rate"))?;
    let rate = bytes((low + high) / 2.0);
    Ok(Claim::delay(At::Service, facts.per_exchange(unread))
        .sum(format!("{unread:.1} connections x {rate}/s"))
        .seen(format!(
            "{unread:.1} connections wait to be read while the service has nothing to do; each is read at {are}"
        )))
}

/// What it sends.
fn given(facts: &Facts) -> Result<Claim, Silent> {
    let (port, headers) = facts.captured()?;
    let (answering, open, all) = (port.answering, port.connections, headers.answering);
    let few = format!("{answering:.1} connections wait for the next piece of an answer");
    silent_if(answering < 2.0 || answering < HALFWAY * all, few)?;
    let of = headers.lasting.filter(|[count, ..]| *count >= FEW);
    let [count, low, high] = of.or_not_here("fewer than ten answers lasted a tenth of a second")?;
    let rates = format!("{}/s to {}/s", bytes(low), bytes(high));
    silent_if(low < EXPLAINED * high, format!("answers get {rates}, not all the same rate"))?;
    Ok(Claim::delay(At::Station(Station::Application), facts.per_exchange(answering))
        .sum(format!("{answering:.1} connections x {}/s", bytes((low + high) / 2.0)))
        .seen(format!(
            "{count:.0} answers got {rates}, eight in ten of them; between their pieces nothing waits to be \
             sent, {answering:.1} of {open:.1} connections at a time"
        )))
}

/// What its clients send.
fn taken(facts: &Facts) -> Result<Claim, Silent> {
    mean_over(&facts.run.flows(Side::Server), |flow| flow.mean(tcp_info::RQUEUE))?;
    let these = facts.those(|each| is_held(&each.of))?.these;
    let all = facts.those(|each| each.bytes > 0.0 || is_held(&each.of))?.these.len();
    let held = these.len();
    silent_if(held < 2, "fewer than two connections have unread bytes and passive sockets")?;
    let of_one = |figure: fn(&&Connection) -> f64| middle(these.iter().map(figure)).unwrap_or(0.0);
    let (rate, reads) = (of_one(|of| of.bytes), of_one(|of| of.reads));
    let few = format!("{held} of {all} connections wait to be read");
    silent_if(2 * held < all || rate <= 0.0, few)?;
    let most = |part: usize, of: usize| part as f64 > HALFWAY * of as f64;
    // But for one read more or less at either end.
    let chance = 2.0 / (reads * facts.run.seconds()).max(1e-9);
    let alike = these.iter().filter(|of| (of.bytes - rate).abs() <= chance * rate).count();
    silent_if(!most(alike, held), format!("{alike} of {held} of them are read at the same rate"))?;
    let owns = |of: &&Process| these.iter().any(|one| one.owner == Some(of.pid.as_str()));
    let owners: Vec<&Process> = facts.processes.iter().filter(owns).collect();
    // It has nothing to do and would take any message.
    let is_idle =
        |of: &&&Process| is_in_loop(of.function) && of.running.max(of.with_mail) < HALFWAY;
    let (sampled, idle) = (owners.len(), owners.iter().filter(is_idle).count());
    let at = owners.iter().find(|of| !is_idle(of)).map_or("", |of| of.function);
    let why = format!("{idle} of {sampled} owners are idle meanwhile; one is in {at}");
    silent_if(!most(idle, sampled), why)?;
    let (rate, a_read) = (bytes(rate), bytes(rate / reads.max(1e-9)));
    let unread = bytes(of_one(|of| of.unread().unwrap_or(0.0)));
    // A part of what waits may have been read.
    Ok(Claim::delay(At::Service, facts.per_exchange(held as f64))
        .sum(format!("{held} connections x {rate}/s, {a_read} a read"))
        .seen(format!(
            "{held} of {all} connections have {unread} unread in passive sockets; {alike} of them are read at \
             {rate}/s; {idle} of {sampled} owners are idle in their receive loops meanwhile"
        )))
}

/// Whether the socket was passive in most of its samples, and bytes unread in a part of them: its client may rest between.
fn is_held(flow: &Of) -> bool {
    let unread = flow.share(tcp_info::RQUEUE, |bytes| bytes.0 > 0);
    let passive = flow.share(port::ACTIVE, |active| active == 0);
    unread.is_ok_and(|share| share >= HOLDS) && passive.is_ok_and(|share| share > HALFWAY)
}
