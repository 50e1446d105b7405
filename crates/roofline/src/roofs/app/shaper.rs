//! A rate set for each connection: all move the same bytes a second, and wait in between.
//! `delay = (last byte - first byte) x share of samples with nothing unsent`
//! What a watched service sends: `delay = connections amid an answer with nothing unsent / answers a second`, all at one rate.
//! What it reads: `delay = connections that wait to be read / reads a second`, while their readers would take any message.
//!
//! Blind spot: a timer before each read, where all ask for the same.
//! Source: limit_rate of nginx, shapers of ejabberd, limiters of EMQX, per-connection limits of proxies.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let claim = if facts.load == Load::Made { made(facts)? } else { watched(facts)? };
    Ok(claim.lifted_by([Remedy::by_knob(
        ("quota", "0"),
        "lets a connection use what it can",
        "raise or lift the limit in the service's configuration: nginx limit_rate 0, ejabberd \
         `shaper: normal: none`, elsewhere a limiter, quota or rate",
    )]))
}

fn made(facts: &Facts) -> Result<Claim, Silent> {
    let load = facts.run.load;
    silent_if(load.bytes_written > load.bytes_read, "requests are larger than answers")?;
    let answer = load.bytes_read as f64 / load.exchanges.max(1) as f64;
    let [rate, spread, idle, segments, over] = flows(facts)?;
    let answers = rate / answer.max(1.0);
    let pieces = segments / answers.max(1e-9);
    // Two, but for an answer that was cut at either end of what was counted.
    let few = format!("answers leave in {pieces:.1} pieces: they are not spread");
    silent_if(pieces < 1.0 + HALFWAY, few)?;
    // One answer more or less at either end of the counted time.
    let chance = 2.0 / (answers * over).max(1e-9);
    let (each, within) = (bytes(rate), in_percent(spread));
    let differ = format!("connections differ: {each}/s on average, one by {within}");
    silent_if(spread > chance, differ)?;
    let inside = facts.at(Station::Application);
    // A piece that a peer is asked for comes when the peer answers.
    let asleep = (facts.inside.asleep - facts.inside.questions()).max(0.0);
    let asleep = if inside > 0.0 { asleep / inside } else { 1.0 };
    // Each has its rate for itself, however many others there are.
    let alone = facts.experiment.as_ref().and_then(|it| it.alone_s);
    let alone = alone.map_or(f64::INFINITY, |it| it.high);
    let slower = format!("alone an exchange takes {}: they wait for each other", duration(alone));
    silent_if(alone < EXPLAINED * load.service.mean() / 1e9, slower)?;
    let [first, service] = [&load.first_byte, &load.service].map(|of| of.mean() / 1e9);
    let waits = (service - first).max(0.0) * idle * asleep;
    let why = "the kernel holds the late part of an answer, or the CPU computes it";
    silent_if(waits <= 0.0, why)?;
    let (many, all) = (facts.run.connections(), facts.run.connections_words());
    let rate = OpRate(f64::from(many) * answers);
    let (first, service, idle) = (duration(first), duration(service), in_percent(idle));
    Ok(Claim::delay(At::Service, waits)
        .sum(format!("{all} x {each}/s / {} = {rate}", bytes(answer)))
        .seen(format!(
            "each connection gets {each}/s, within {within}; answers begin after {first} and end after {service}, \
             in {pieces:.0} pieces; the kernel held nothing in {idle} of the samples"
        )))
}

/// Of one connection, on average: bytes a second, the largest deviation from that (relative to it), the share of samples with
/// nothing unsent, segments a second; and for how many seconds they were counted.
fn flows(facts: &Facts) -> Result<[f64; 5], Missing> {
    let (mut rates, mut idle, mut segments, mut longest) = (Vec::new(), 0.0, 0.0, 0.0_f64);
    // Nothing left to send, at most two segments in flight: a piece, and the one before where its ACK was delayed.
    let is_idle = |unacked, unsent: Bytes| unacked <= 2 && unsent.0 == 0;
    for flow in facts.run.flows(Side::Server) {
        // Flows that moved nothing were opened for nothing, or just now.
        let moved = flow.delta(tcp_info::BYTES_ACKED).ok().filter(|(bytes, _)| bytes.0 > 0);
        let Some((bytes, over)) = moved else { continue };
        let seconds = over.as_secs_f64();
        rates.push(bytes.0 as f64 / seconds);
        idle += flow.share_of_both(tcp_info::UNACKED, tcp_info::NOTSENT_BYTES, is_idle)?;
        segments += flow.delta(tcp_info::DATA_SEGS_OUT)?.0 as f64 / seconds;
        longest = longest.max(seconds);
    }
    missing_if(rates.len() < 2, tcp_info::BYTES_ACKED.name, "two flows")?;
    let count = rates.len() as f64;
    let rate = rates.iter().sum::<f64>() / count;
    let spread = rates.iter().map(|of| (of - rate).abs()).fold(0.0, f64::max) / rate;
    Ok([rate, spread, idle / count, segments / count, longest])
}

fn watched(facts: &Facts) -> Result<Claim, Silent> {
    given(facts).or_else(|not| match facts.serving_node() {
        Ok(_) => taken(facts),
        Err(_) => left_unread(facts).map_err(|why| match facts.place.station {
            Some(Station::Unread) => why,
            _ => not,
        }),
    })
}

/// What its clients send, where the service is not seen inside: it has time to read, serves nobody (who serves one at a time
/// always serves one), and leaves as much unread on each connection.
fn left_unread(facts: &Facts) -> Result<Claim, Silent> {
    let [unread, served] = [facts.ports(|of| of.unread), facts.ports(|of| of.in_application())];
    let few = format!("{unread:.1} connections wait to be read");
    // In a node's memory no process runs, has messages or sleeps: who would read waits for a timer's message.
    let [running, sleeping] = [erlang::RUNNING, erlang::SLEEPING].map(|of| facts.by_memory(of));
    let has_mail = facts.seen.iter().any(|of| of.with_mail >= HALFWAY);
    let rests = running.zip(sleeping).is_some_and(|(running, sleeping)| running + sleeping < SPLIT);
    let rests = rests && !has_mail;
    let least = if rests { FULL } else { 2.0 };
    silent_if(unread < least || unread < HOLDS * facts.place.of, few)?;
    let sleeping = sleeping.unwrap_or(0.0);
    let sleep = format!("{sleeping:.1} processes sleep, and read when they wake");
    silent_if(sleeping >= HALFWAY * unread, sleep)?;
    let is_apart = facts.pace() == Some(Pace::Apart) && facts.inside.questions() < HALFWAY;
    let served = if is_apart { 0.0 } else { served };
    let full = facts.stations.fullest().map_or(0.0, |(_, full)| full);
    let at_work = served + facts.inside.running + full;
    silent_if(at_work >= HALFWAY, format!("{at_work:.1} requests are served at any time"))?;
    let questions = facts.inside.questions();
    let asks = format!("it waits for the answers to {questions:.1} questions of its own");
    silent_if(questions >= HALFWAY * unread, asks)?;
    silent_if(facts.one_is_away(), "the thread that would read them waits for something else")?;
    let rate = |flow: Of| flow.rate(tcp_info::BYTES_RECEIVED).ok().filter(|rate| *rate > 0.0);
    let flows = facts.run.flows(Side::Server).into_iter().filter(is_unread);
    let mut rates = Vec::from_iter(flows.filter_map(rate));
    rates.sort_by(f64::total_cmp);
    let enough = if rests { 1 } else { SAMPLES };
    let few = format!("{} sampled connections are read, and wait to be, of {enough}", rates.len());
    silent_if(rates.len() < enough, few)?;
    let (low, high) = (rates[rates.len() / 10], rates[rates.len() - 1 - rates.len() / 10]);
    let are = format!("{}/s to {}/s", bytes(low), bytes(high));
    silent_if(low < EXPLAINED * high, format!("they are read at {are}, not all at the same rate"))?;
    Ok(Claim::delay(At::Service, facts.per_exchange(unread))
        .sum(format!("{unread:.1} connections x {}/s", bytes((low + high) / 2.0)))
        .seen(format!(
            "{unread:.1} connections wait to be read while the service has nothing to do; each is read at {are}"
        )))
}

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
    // It has nothing to do and would take any message.
    let is_idle = |of: &&Process| is_in_loop(of.function) && of.running.max(of.with_mail) < HALFWAY;
    let (free, others): (Vec<_>, Vec<_>) = facts.processes.iter().filter(owns).partition(is_idle);
    let (sampled, idle) = (free.len() + others.len(), free.len());
    let at = others.first().map_or("", |of| of.function);
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

/// Whether bytes were unread in a part of its samples: its client may rest between.
fn is_unread(flow: &Of) -> bool {
    flow.share(tcp_info::RQUEUE, |bytes| bytes.0 > 0).is_ok_and(|share| share >= HOLDS)
}

/// Whether the socket was passive in most of them as well.
fn is_held(flow: &Of) -> bool {
    is_unread(flow) && flow.share(port::ACTIVE, |of| of == 0).is_ok_and(|share| share > HALFWAY)
}
