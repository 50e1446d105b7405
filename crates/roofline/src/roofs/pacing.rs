//! Pacing: a fixed rate was set for each socket, and the kernel spaces its packets to it.
//!
//! `ceiling = connections x pacing rate / bytes an exchange`
//!
//! A rate that congestion control makes (bbr, or cubic's own spacing) follows the path and moves from
//! sample to sample; one that was set stands still. Only that is a limit by itself.
//! Blind spot: a limit in the queueing discipline (`fq maxrate`) is not the socket's.
//! Source: SO_MAX_PACING_RATE, socket(7); `tcp_update_pacing_rate`, net/ipv4/tcp_input.c.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Of};
use linerate_model::OpRate;

use super::receive_window::unpinned;
use super::window::{directions, mean_over, min_rtt};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct Pacing;

impl Roof for Pacing {
    fn id(&self) -> &'static str {
        "tcp.pacing"
    }

    fn title(&self) -> &'static str {
        "a pacing rate that was set"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.pacing.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let [heavier, _] = directions(run);
        let senders = run.flows(heavier.sender);
        let fixed = mean_over(&senders, |flow| Ok(f64::from(u8::from(stands_still(flow)?))))?;
        if fixed < 0.5 {
            return Ok(Finding::DoesNotApply(
                "what paces the senders, if anything, is their congestion control".into(),
            ));
        }
        let paced = mean_over(&senders, |flow| Ok(flow.last(tcp_info::PACING_RATE)? as f64))?;
        let bytes = heavier.bytes.max(1.0);
        let rate = OpRate(f64::from(run.connections()) * paced / bytes);
        let held = mean_over(&senders, held_share)?;
        let share = run.attained().0 / rate.0;
        let seen = format!(
            "the pacing rate stood still at {:.0} kB/s; in {:.0} % of busy samples bytes waited to be \
             sent with room in the windows",
            paced / 1e3,
            held * 100.0
        );
        // Headers are paced too, and a rate that is met in bursts is met on average.
        let binds = if held >= 0.5 && share >= 0.5 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} x {:.0} kB/s / {:.0} B for {} = {rate}",
                run.connections_words(),
                paced / 1e3,
                bytes,
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: "pacing".into(),
                value: "none".into(),
                does: "sends as fast as windows and path allow".into(),
                by_hand: "take SO_MAX_PACING_RATE off the sender's sockets (in a BEAM node \
                          {raw,1,47,_} among the socket options), or raise it"
                    .into(),
                predicted: unpinned(run, min_rtt(run)?),
            }],
        }))
    }
}

/// Whether the pacing rate was the same in every sample, of three at least, though bytes were sent.
fn stands_still(flow: &Of) -> Result<bool, Missing> {
    let samples = flow.all(tcp_info::PACING_RATE)?;
    let sent = flow.delta(tcp_info::BYTES_ACKED).is_ok_and(|(bytes, _)| bytes.0 > 0);
    Ok(sent && samples.len() >= 3 && samples.iter().all(|(_, rate)| *rate == samples[0].1))
}

/// Of the samples with bytes in flight or to send: in how many were bytes held back with room in the
/// congestion and the receive window.
fn held_share(flow: &Of) -> Result<f64, Missing> {
    let unacked = flow.all(tcp_info::UNACKED)?;
    let notsent = flow.all(tcp_info::NOTSENT_BYTES)?;
    let cwnd = flow.all(tcp_info::SND_CWND)?;
    let window = flow.all(tcp_info::SND_WND)?;
    let mss = flow.max(tcp_info::SND_MSS)?.0.max(1);
    let (mut busy, mut held) = (0u32, 0u32);
    let samples = unacked.iter().zip(&notsent).zip(&cwnd).zip(&window);
    for ((((_, unacked), (_, notsent)), (_, cwnd)), (_, window)) in samples {
        if *unacked == 0 && notsent.0 == 0 {
            continue;
        }
        busy += 1;
        let room = *unacked * 10 < cwnd * 9 && unacked * mss * 10 < window.0 * 9;
        held += u32::from(notsent.0 > 0 && room);
    }
    match busy {
        0 => Err(Missing { metric: "tcp.unacked".into(), of: "flow/* while sending".into() }),
        busy => Ok(f64::from(held) / f64::from(busy)),
    }
}
