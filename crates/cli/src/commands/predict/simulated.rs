//! The same prediction by packet-level simulation: what queues, timers and retransmissions make of it.
//!
//! Each server serves one exchange after the other, at the rate that the column has with as many inside;
//! the round trip that the column was measured on stays.

use std::time::Duration;

use linerate_model::{Link, Site};
use linerate_predict::{Crossing, Curve, Ends, Forecast, Lean};
use linerate_report::Simulated;
use linerate_simulate::{Outcome, Scenario, Service, Station, simulate};

use crate::failure::Failure;

/// Simulates one forecast.
pub(super) fn simulated(
    curve: &Curve,
    crossing: &Crossing,
    round_trip: f64,
    of: &Forecast,
) -> Result<Simulated, Failure> {
    let sites = sites(crossing)?;
    let away = of.throughput_per_s.mid.0 * crossing.share.0;
    let inside = f64::from(of.connections) - away * crossing.path.round_trip().as_secs_f64();
    // Below the first row it is not the servers that keep a column down.
    let (first, _) = curve.measured();
    let inside = (inside.max(1.0) as u32).clamp(first.min(of.connections), of.connections);
    let servers = f64::from(crossing.servers.max(1));
    let demand = Duration::from_secs_f64(servers / curve.rate(inside.max(first), Lean::Middle));
    let scenario = Scenario {
        sites,
        links: vec![Link { between: ["near".into(), "far".into()], path: crossing.path.clone() }],
        lan: Duration::from_secs_f64(round_trip),
        workers: of.connections,
        server: Station { cpus: Some(1), demand, service: Service::Exponential },
        request: crossing.request,
        response: crossing.response,
        ..Scenario::default()
    };
    let outcome = simulate(&scenario).map_err(|bad| Failure::plan(format!("--simulate: {bad}")))?;
    Ok(told(&outcome))
}

/// Two sites of which as many servers are on the other side as the share says.
fn sites(crossing: &Crossing) -> Result<Vec<Site>, Failure> {
    let servers = crossing.servers.max(1);
    let far = crossing.share.0 * f64::from(servers);
    let whole = (far - far.round()).abs() < 1e-6;
    let halves = crossing.ends == Ends::One || (far * 2.0 - f64::from(servers)).abs() < 1e-6;
    if !(whole && halves && servers <= 100) {
        return Err(Failure::plan(format!(
            "--simulate: no {servers} servers on two sides have {} of the exchanges cross: write --servers and --share that do (50% where workers are on both sides)",
            crossing.share
        )));
    }
    let far = far.round() as u16;
    let engines = u16::from(crossing.ends == Ends::Both);
    Ok(vec![
        Site { name: "near".into(), servers: servers as u16 - far, engines: 1 },
        Site { name: "far".into(), servers: far, engines },
    ])
}

fn told(of: &Outcome) -> Simulated {
    let directions = of.links.iter().flat_map(|link| &link.directions);
    let dropped = directions.map(|way| way.dropped() / way.packets().max(1e-9)).fold(0.0, f64::max);
    let again = &of.retransmitted;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    Simulated {
        throughput_per_s: of.throughput.0,
        error_per_s: of.throughput_error.0,
        mean_latency_us: us(of.latency.mean),
        p99_latency_us: us(of.latency.p99),
        dropped,
        retransmitted_per_s: again.timeouts.0 + again.probes.0 + again.fast.0,
        stalled_workers: of.stalled_workers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Share;

    #[test]
    fn sites_have_as_many_servers_on_the_other_side_as_exchanges_cross() {
        let of = |share, servers, ends| {
            sites(&Crossing { share: Share(share), servers, ends, ..Crossing::default() }).map(
                |sites| sites.iter().map(|site| (site.servers, site.engines)).collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(0.5, 4, Ends::Both).unwrap(), [(2, 1), (2, 1)]);
        assert_eq!(of(0.25, 4, Ends::One).unwrap(), [(3, 1), (1, 0)]);
        assert_eq!(of(1.0, 1, Ends::One).unwrap(), [(0, 1), (1, 0)]);
        assert!(of(0.3, 4, Ends::One).unwrap_err().sentence.contains("--simulate: no 4 servers"));
        assert!(of(0.25, 4, Ends::Both).is_err());
    }
}
