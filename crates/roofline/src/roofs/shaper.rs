//! A rate set for each connection: every one moves as many bytes a second as every other, and waits in
//! between for its program, with nothing held back by the network.
//!
//! `ceiling = connections x bytes a second of one / bytes an exchange`
//!
//! Where the load is not ours: [`watched`].
//! Told from load.concurrency by where the time goes: an answer begins at once and then takes long, in
//! many small writes. Told from a path or a window by what stands in the kernel: nothing.
//! Blind spot: a program that makes its answers bit by bit, each at the same pace, looks the same.
//! Source: shapers of ejabberd, limiters of EMQX, per-connection limits of proxies.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Of, Side};
use linerate_model::{Bytes, OpRate};

use super::channels::{knob, rate};
use super::window::directions;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Utilisation};

// Chosen: the catalogue of such limits says 5 %; a run of two seconds has an exchange more or less.
const ALIKE: f64 = 0.25;

mod watched;

pub(super) use watched::is_paced;

pub(super) struct Shaper;

impl Roof for Shaper {
    fn id(&self) -> &'static str {
        "app.shaper"
    }

    fn title(&self) -> &'static str {
        "a rate set for each connection"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/app.shaper.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if run.is_watched() {
            return watched::judge(run);
        }
        let [heavier, _] = directions(run);
        if heavier.sender == Side::Client {
            return Ok(Finding::DoesNotApply("more is asked than answered".into()));
        }
        let flows = run.flows(Side::Server);
        let mut rates = Vec::new();
        let mut idle = 0.0;
        let mut pieces = 0.0;
        for flow in &flows {
            // Flows that moved nothing were opened for nothing, or just now.
            if let Ok(bytes) = rate(flow, tcp_info::BYTES_ACKED)
                && bytes > 0.0
            {
                rates.push(bytes);
                idle += idle_share(flow)?;
                pieces += rate(flow, tcp_info::DATA_SEGS_OUT)?;
            }
        }
        if rates.len() < 2 {
            return Err(Missing {
                metric: tcp_info::BYTES_ACKED.name.into(),
                of: "two flows".into(),
            });
        }
        let count = rates.len() as f64;
        let (mean, idle) = (rates.iter().sum::<f64>() / count, idle / count);
        let spread = rates.iter().map(|rate| (rate - mean).abs()).fold(0.0, f64::max) / mean;
        let exchanges = mean / heavier.bytes.max(1.0);
        let pieces = pieces / count / exchanges.max(1e-9);
        let (service, first) = (run.load.service.mean() / 1e9, run.load.first_byte.mean() / 1e9);
        let rate = OpRate(f64::from(run.connections()) * mean / heavier.bytes.max(1.0));
        let seen = format!(
            "each connection is given {}/s, within {:.0} %; answers begin after {} and end after {}, in \
             {pieces:.0} pieces; nothing was held back in {:.0} % of the samples",
            Bytes(mean as u64),
            spread * 100.0,
            duration(first),
            duration(service),
            idle * 100.0
        );
        let cpu = matches!(
            Utilisation::of(run).bottleneck(),
            Some(Station::Host | Station::Target | Station::Engine)
        );
        // Chosen: an answer is nearly all waiting, in enough pieces for a pace to be seen.
        let paced = service >= 0.005 && first <= 0.2 * service && pieces >= 4.0;
        let binds = if paced && spread <= ALIKE && idle >= 0.7 && !cpu && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let attained = run.attained();
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} x {}/s / {} = {rate}",
                run.connections_words(),
                Bytes(mean as u64),
                Bytes(heavier.bytes as u64)
            ),
            binds,
            advice: vec![advice(run, attained)],
        }))
    }
}

fn advice(run: &Run, attained: OpRate) -> Advice {
    let (knob, value) = knob(run, "quota", "0", "app.quota");
    Advice {
        knob,
        value,
        does: "gives a connection as much as it can take".into(),
        by_hand: "raise or lift the limit in the service's configuration: in ejabberd \
                  `shaper: normal: none`, elsewhere what is called limiter, quota or rate"
            .into(),
        predicted: Predicted {
            low: attained,
            mid: OpRate(attained.0 * 10.0),
            high: OpRate(attained.0 * 10_000.0),
        },
    }
}

/// In which share of the samples had this end nothing left to send, and two segments on their way at most:
/// a piece, and the one before it where its ACK was delayed.
fn idle_share(flow: &Of) -> Result<f64, Missing> {
    let unacked = flow.all(tcp_info::UNACKED)?;
    let notsent = flow.all(tcp_info::NOTSENT_BYTES)?;
    let idle = unacked.iter().zip(&notsent).filter(|((_, a), (_, b))| *a <= 2 && b.0 == 0).count();
    Ok(idle as f64 / unacked.len().max(1) as f64)
}
