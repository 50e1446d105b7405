//! bbr's pacing: it sends as fast as it has seen arrive, and a flow that is asked for one answer at a time has
//! never shown it more than an answer a round trip.
//!
//! `ceiling = connections / (first byte + bytes an answer / pacing rate)`
//!
//! A window that is open lets a whole answer out at once. bbr spreads it, at 2.89 times the rate that it
//! believes in while it is starting up (it stays there: what the application limits is no proof of a full
//! path), at about that rate later. So an answer takes a third of a round trip longer, up to one.
//! Told from tcp.pacing by the rate, which nobody set; told from a narrow path by the flow's own word that the
//! application limits it.
//! Blind spot: two sockets that share one path may need just that.
//! Source: Cardwell, Cheng, Gunn, Yeganeh, Jacobson, "BBR: Congestion-based congestion control", 2016;
//! `bbr_high_gain`, `bbr_check_full_bw_reached`, net/ipv4/tcp_bbr.c.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Of, Percentiles, Side, Subject};
use linerate_model::{Bytes, OpRate};

use super::line_rate::{FULL, fullest};
use super::ways::setting_knob;
use super::window::{directions, mean_over, min_rtt};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: of an exchange's time; less is not worth another congestion control.
const MUCH: f64 = 0.15;

// Source: RFC 6928; what any congestion control begins with. Unit: segments.
const FIRST: f64 = 10.0;

// Chosen: on a shorter path the spreading is lost in what the CPUs take. Unit: seconds.
const LONG: f64 = 1e-3;

pub(super) struct BbrPacing;

impl Roof for BbrPacing {
    fn id(&self) -> &'static str {
        "tcp.bbr-pacing"
    }

    fn title(&self) -> &'static str {
        "bbr's pacing of single answers"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.bbr-pacing.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(finding) = run.no_load() {
            return Ok(finding);
        }
        let [heavier, _] = directions(run);
        let ids = run.evidence.flows(heavier.sender);
        let mut controls = ids
            .into_iter()
            .filter_map(|id| run.fact(Subject::Flow(id, heavier.sender), "congestion"))
            .peekable();
        if controls.peek().is_none() {
            return Err(Missing { metric: "congestion".into(), of: "flow/*".into() });
        }
        if !controls.any(|name| name == "bbr") {
            return Ok(Finding::DoesNotApply("the senders' congestion control is not bbr".into()));
        }
        if run.opened_per_exchange() >= 0.5 {
            return Ok(Finding::DoesNotApply("connections are not kept".into()));
        }
        if heavier.sender == Side::Client {
            return Ok(Finding::DoesNotApply("answers are not the bulk".into()));
        }
        let senders = run.flows(heavier.sender);
        let mss = mean_over(&senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))?;
        if heavier.bytes <= FIRST * mss {
            return Ok(Finding::DoesNotApply(format!(
                "answers of {} are one burst at most",
                Bytes(heavier.bytes as u64)
            )));
        }
        let rtt = min_rtt(run)?;
        let paced = mean_over(&senders, |flow| Ok(flow.median(tcp_info::PACING_RATE)? as f64))?;
        let arrives = mean_over(&senders, |flow| Ok(flow.median(tcp_info::DELIVERY_RATE)? as f64))?;
        // A rate that was set is one that is met.
        if paced < 1.2 * arrives && mean_over(&senders, stands_still)? > 0.5 {
            return Ok(Finding::DoesNotApply("the pacing rate was set: tcp.pacing".into()));
        }
        let by_application = mean_over(&senders, |flow| {
            let samples = flow.all(tcp_info::APP_LIMITED)?;
            let limited = samples.iter().filter(|(_, limited)| *limited == 1).count();
            Ok(limited as f64 / samples.len() as f64)
        })?;
        let median = |of: &Percentiles| {
            let missing = Missing { metric: "service".into(), of: "engine".into() };
            of.at(50.0).map(|at| at.value as f64 / 1e9).ok_or(missing)
        };
        let (service, first) = (median(&run.load.service)?, median(&run.load.first_byte)?);
        let spread = heavier.bytes / paced.max(1.0);
        let body = (service - first).max(0.0);
        let connections = f64::from(run.connections());
        let rate = OpRate(connections / (first + spread).max(1e-9));
        let line = fullest(run).ok().flatten().map_or(0.0, |(_, _, used)| used);
        let utilisation = Utilisation::of(run);
        let host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let seen = format!(
            "from the first byte to the last an answer took {}, and {} at {:.1} MB/s take {}; in {:.0} % of \
             samples the application limited the flow",
            duration(body.max(1e-9)),
            Bytes(heavier.bytes as u64),
            paced / 1e6,
            duration(spread.max(1e-9)),
            by_application * 100.0
        );
        let is_spread = rtt >= LONG && body >= MUCH * service && body >= 0.5 * spread;
        // Much longer than the pacing explains: something else is slow as well.
        let is_explained = body <= 2.0 * spread && spread <= 1.5 * rtt;
        let is_free = by_application >= 0.5 && line < FULL && host < 0.85;
        let binds = if is_spread && is_explained && is_free && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let attained = run.attained().0;
        let open = (connections / first.max(1e-9)).max(attained * 1.1);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / ({} until the first byte + {} / {:.1} MB/s) = {rate}",
                run.connections_words(),
                duration(first),
                Bytes(heavier.bytes as u64),
                paced / 1e6
            ),
            binds,
            advice: vec![Advice {
                knob: setting_knob(&run.header.plan, "net.ipv4.tcp_congestion_control"),
                value: "reno".into(),
                does: "lets an open window out at once".into(),
                by_hand: "sysctl -w net.ipv4.tcp_congestion_control=cubic on the host that answers, or \
                          {raw, 6, 13, <<\"cubic\">>} among its listener's options. Where packets are lost bbr is \
                          worth more than this costs"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate((attained * open).sqrt()),
                    high: OpRate(open * 1.05),
                },
            }],
        }))
    }
}

/// 1 where the pacing rate was the same in every sample.
fn stands_still(flow: &Of) -> Result<f64, Missing> {
    let samples = flow.all(tcp_info::PACING_RATE)?;
    Ok(f64::from(u8::from(samples.iter().all(|(_, rate)| *rate == samples[0].1))))
}
