//! Listen backlog: more connections arrive at once than the queue holds; the others try again.
//! `turned away = overflows / (connections made + overflows)`
//! Drops of the listeners count only as far as the stack's overflows confirm them: with `TCP_DEFER_ACCEPT` they drop the
//! bare ACK of each healthy connection.
//! Source: `LINUX_MIB_LISTENOVERFLOWS`, net/ipv4/tcp_ipv4.c; `tcp_check_req`, net/ipv4/tcp_minisocks.c.

use crate::prelude::*;

const SOMAXCONN: &str = "net.core.somaxconn";

// Source: the backlog had 16 bits until Linux 5.4; its maximum is no limit.
const MOST: u64 = 65_535;

// Source: `TCP_TIMEOUT_INIT`, include/net/tcp.h; RFC 6298, 2.1. Unit: seconds.
const RETRY_S: f64 = 1.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let run = &facts.run;
    silent_if(!run.header.target.local, "the target's listener is on another host")?;
    let grown = |metric| run.of(Subject::Stack(Side::Server)).delta(metric).map(|(count, _)| count);
    // Without SYN cookies the queue of half-open connections, as long as the backlog, drops as well.
    let half_open = grown(netstat::REQ_Q_FULL_DROP).unwrap_or(0);
    let confirmed = grown(netstat::LISTEN_OVERFLOWS)? + half_open;
    let deferred = grown(netstat::DEFER_ACCEPT_DROP).unwrap_or(0);
    let dropped = |(port, of): (u16, Of)| (port, of.delta(listener::DROPS).ok().map(|of| of.0));
    let listener = run.listeners().map(dropped).max_by_key(|(_, drops)| *drops);
    let own = listener.and_then(|(_, own)| own).map(|own| own.saturating_sub(deferred));
    let lost = confirmed.min(own.unwrap_or(confirmed)) as f64;
    silent_if(lost == 0.0, "no listener's queue overflowed")?;
    let is_kept = facts.load == Load::Made && run.load.opened <= u64::from(run.connections());
    let times = format!("a queue overflowed {lost:.0} times");
    silent_if(is_kept, format!("each connection was made once and kept; {times}"))?;
    let made = grown(snmp::PASSIVE_OPENS)? as f64;
    let none = "no connection was accepted: a longer queue would fill as well";
    silent_if(made == 0.0, format!("{times}, and {none}"))?;
    let asked = made + lost;
    let of_listener = listener.map(|(port, _)| run.whole(Subject::Listener(port)));
    let backlog = of_listener.as_ref().and_then(|of| of.last(listener::WQUEUE).ok());
    // The next one is accepted when another ends, and there always was one. Those of our own load end by themselves.
    let is_never_empty = facts.accept_queue().is_ok_and(|queue| queue.least > 0);
    let by_turns = facts.load == Load::Watched && facts.lets_in_by_turns() && is_never_empty;
    silent_if(by_turns, "one is accepted when another ends: a longer queue would fill as well")?;
    // A client that finds the queue full tries again after a second: sooner than one in a queue that takes longer.
    let waiting = of_listener.and_then(|of| of.mean(listener::RQUEUE).ok());
    let waits_s = waiting.unwrap_or(0.0) * run.seconds() / made;
    let waits = format!("a connection waits {} in the queue", duration(waits_s));
    silent_if(waits_s >= RETRY_S, format!("{waits}, and longer in a longer one"))?;
    let queue = backlog.map_or("the queue".into(), |backlog| format!("the queue of {backlog}"));
    let on = listener.map_or(String::new(), |(port, _)| format!(" of port {port}"));
    let late = run.load.connect.share_within(1_000_000_000, u64::MAX) * 100.0;
    Ok(Claim::cause(vec![Part::TurnedAway { asked, served: made }])
        .sum(format!(
            "{lost:.0} of {asked:.0} connections found {queue} full and retry after a second"
        ))
        .seen(format!(
            "the queue{on} overflowed {lost:.0} times while {made:.0} connections were accepted"
        ))
        .also((late > 0.0).then(|| format!("{late:.1} % of connects took a second or more")))
        .lifted_by(remedies(facts, backlog)))
}

/// The kernel's limit, which comes first where it is below the backlog.
fn remedies(facts: &Facts, backlog: Option<u64>) -> Vec<Remedy> {
    let does = "holds a burst of connections until they are accepted";
    let sysctls = &facts.run.header.host.sysctls;
    let most = sysctls.get(SOMAXCONN).and_then(|most| most.parse::<u64>().ok());
    let capped = most.is_some() && backlog >= most;
    let enough = most.filter(|_| !capped).unwrap_or(MOST);
    let how = match facts.is_beam() {
        true => format!("{{backlog, {enough}}} in the listen options (gen_tcp's default is 5)"),
        false => format!(
            "a backlog of {enough} where the server calls listen(2) (nginx: listen ... backlog={enough}; Apache: \
             ListenBacklog {enough}), and net.core.somaxconn at least as high"
        ),
    };
    let enough = enough.to_string();
    let longer = Remedy::plan(("socket.backlog", &enough), does, how).with_knob("backlog", &enough);
    let does = "lets the kernel grant a longer backlog";
    let sysctl = Remedy::kernel(SOMAXCONN, MOST.to_string(), Side::Server, does);
    if capped { vec![sysctl, longer] } else { vec![longer] }
}
