//! Ephemeral ports: each connection of the client keeps one, a minute longer if it closes first.
//!
//! `turned away = connects that found no port / all connects`
//! Source: EADDRNOTAVAIL, connect(2); `TCP_TIMEWAIT_LEN` = 60 s, linux/include/net/tcp.h.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    facts.is_made()?;
    let load = facts.run.load;
    let missed = load.errors.get("no-address").copied().unwrap_or(0);
    silent_if(missed == 0, "every connect found a local port")?;
    let (asked, served) = ((load.opened + missed) as f64, load.opened as f64);
    let ports = ports(facts).map_or(String::new(), |ports| format!(", of {ports}"));
    let most = |side| facts.run.whole(Subject::Stack(side)).max(sockstat::TCP_TW);
    let waiting = most(Side::Client).or_else(|_| most(Side::Server));
    let waiting = waiting.map_or("an unknown number of".into(), |waiting| waiting.to_string());
    Ok(Claim::cause(vec![Part::TurnedAway { asked, served }])
        .sum(format!("{missed} of {asked:.0} connects found no free local port{ports}"))
        .seen(format!(
            "{missed} connects failed with EADDRNOTAVAIL; {waiting} sockets in TIME_WAIT at most"
        ))
        .lifted_by([Remedy::plan(
            ("engine.local_ports", "default"),
            "uses the host's whole range, whose ports are reusable after 1 s on loopback",
            "keep connections; or more source or destination addresses; or \
             sysctl -w net.ipv4.ip_local_port_range='1024 65535' net.ipv4.tcp_tw_reuse=1",
        )]))
}

/// How many local ports the client may use.
fn ports(facts: &Facts) -> Option<u32> {
    let header = facts.run.header;
    let range = header.plan.engine.local_ports.as_ref();
    let range = range.or_else(|| header.host.sysctls.get("net.ipv4.ip_local_port_range"))?;
    let mut ends = range.split(['-', ' ', '\t']).filter_map(|end| end.parse::<u32>().ok());
    let (low, high) = (ends.next()?, ends.next()?);
    (low <= high).then_some(high - low + 1)
}
