//! Ephemeral ports: each connection keeps one of its client's (or of the target's, to a service that it asks), a
//! minute longer if that end closes first.
//! `turned away = connects that found no port / all connects`
//! `each = application's time asleep`, where (nearly) all ports from which the target connects to a peer rest
//! Source: EADDRNOTAVAIL, connect(2); `TCP_TIMEWAIT_LEN` = 60 s, linux/include/net/tcp.h.

use crate::prelude::*;

// Source: `TCP_TIMEWAIT_LEN`, linux/include/net/tcp.h. Unit: seconds.
const TIME_WAIT_S: f64 = 60.0;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    of_target(facts).map_or_else(|| of_engine(facts), Ok)
}

/// The kernel takes ports to one peer in order, every second one first: it takes nearly all only without others.
fn of_target(facts: &Facts) -> Option<Claim> {
    let is_out = |of: &&Asked| {
        of.resting as f64 >= FEW && of.resting as f64 + of.connections >= FULL * of.ports as f64
    };
    let Asked { address, resting, ports, .. } = facts.inside.asked.iter().find(is_out)?;
    let (asleep, inside) = (facts.inside.asleep, facts.at(Station::Application));
    let (rest, sum) = (duration(TIME_WAIT_S), "ports from which it connects to");
    let by_hand = format!(
        "keep the connections to {address}: a pool, keep-alive; or more ports (IP_LOCAL_PORT_RANGE of the socket, \
         net.ipv4.ip_local_port_range), more source addresses, or net.ipv4.tcp_tw_reuse=1"
    );
    let claim = Claim::delay(At::Station(Station::Application), facts.per_exchange(asleep))
        .sum(format!("{resting} of the {ports} {sum} {address} are in TIME_WAIT"))
        .seen(format!(
            "each connection that it closes keeps its port for {rest} (1 s on loopback, where the kernel takes it again \
             then); {asleep:.1} of {inside:.1} requests in the application sleep"
        ))
        .lifted_by([Remedy::human("frees no port, as it closes no connection", by_hand)]);
    (asleep >= HALFWAY * inside).then_some(claim)
}

fn of_engine(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let load = facts.run.load;
    let missed = load.errors.get("no-address").copied().unwrap_or(0);
    silent_if(missed == 0, "every connect found a local port")?;
    let (asked, served) = ((load.opened + missed) as f64, load.opened as f64);
    let ports = facts.run.header.local_ports();
    let ports = ports.map_or(String::new(), |ports| format!(", of {ports}"));
    let most = |side| facts.run.whole(Subject::Stack(side)).max(sockstat::TCP_TW);
    let waiting = most(Side::Client).or_else(|_| most(Side::Server));
    let waiting = waiting.map_or("an unknown number of".into(), |waiting| waiting.to_string());
    let by_hand = "keep connections; or more source or destination addresses; or \
                   sysctl -w net.ipv4.ip_local_port_range='1024 65535' net.ipv4.tcp_tw_reuse=1";
    let does = "uses the host's whole range, whose ports are reusable after 1 s on loopback";
    Ok(Claim::cause(vec![Part::TurnedAway { asked, served }])
        .sum(format!("{missed} of {asked:.0} connects found no free local port{ports}"))
        .seen(format!(
            "{missed} connects failed with EADDRNOTAVAIL; {waiting} sockets in TIME_WAIT at most"
        ))
        .lifted_by([Remedy::plan(("engine.local_ports", "default"), does, by_hand)]))
}
