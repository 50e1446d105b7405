//! Send buffer: a flow has at most its send buffer in flight per round trip, and the buffer was fixed
//! too small.
//!
//! `ceiling = connections x send buffer / min RTT / bytes an exchange`
//!
//! Blind spot: the kernel's own `sndbuf_limited` clock misses writers that do not block, so it is not
//! asked; what is in flight against what may be tells.
//! Source: `SK_MEMINFO_SNDBUF`, linux/sock_diag.h; `tcpi_unacked`, `tcpi_notsent_bytes`, linux/tcp.h.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Of, Side};
use linerate_model::{Bytes, OpRate};

use super::receive_window::unpinned;
use super::window::{directions, grown_to, mean_over, min_rtt, setting};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

pub(super) struct SendBuffer;

impl Roof for SendBuffer {
    fn id(&self) -> &'static str {
        "tcp.send-buffer"
    }

    fn title(&self) -> &'static str {
        "a small send buffer"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.send-buffer.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_traffic() {
            return Ok(none);
        }
        let [heavier, _] = directions(run);
        let senders = run.flows(heavier.sender);
        let buffer = mean_over(&senders, |flow| Ok(flow.max(tcp_info::SNDBUF)?.0 as f64))?;
        // A read is what one call took, not what the peer had to send.
        if !run.is_watched() && heavier.bytes <= buffer {
            return Ok(Finding::DoesNotApply(format!(
                "the {} of an exchange fit in the {}'s send buffer of {}",
                Bytes(heavier.bytes as u64),
                heavier.sender,
                Bytes(buffer as u64)
            )));
        }
        let rtt = min_rtt(run)?;
        let rate = OpRate(f64::from(run.connections()) * buffer / rtt / heavier.bytes);
        let full = mean_over(&senders, full_share)?;
        let fixed = mean_over(&senders, |flow| {
            let (least, most) = (flow.min(tcp_info::SNDBUF)?, flow.max(tcp_info::SNDBUF)?);
            Ok(f64::from(u8::from(least == most)))
        })?;
        // At the kernel's own maximum it is not an option that fixed it: tcp.wmem-max.
        let at_most = setting(run, "net.ipv4.tcp_wmem")
            .and_then(|most| grown_to(&senders, tcp_info::SNDBUF, most))
            .is_ok_and(|grown| grown >= 0.5);
        let share = run.attained().0 / rate.0;
        let seen = format!(
            "in {:.0} % of busy samples all that the buffer holds was in flight, with room in both windows",
            full * 100.0
        );
        let binds = if at_most {
            Binds::No(format!("{seen}; but it grew to that, as far as the kernel lets it"))
        } else if full >= 0.5 && fixed > 0.5 && share >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let (knob, value, by_hand) = match heavier.sender {
            Side::Client => (
                "engine.sndbuf",
                "default",
                "set no SO_SNDBUF in the client: the kernel then sizes the buffer by itself",
            ),
            Side::Server => (
                "sndbuf",
                "0",
                "take {sndbuf, N} out of the listen options: the kernel then sizes the buffer by \
                 itself, up to net.ipv4.tcp_wmem[2]",
            ),
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} x {} buffer / {} RTT / {} {} = {rate}",
                run.connections_words(),
                Bytes(buffer as u64),
                duration(rtt),
                Bytes(heavier.bytes as u64),
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: knob.into(),
                value: value.into(),
                does: "lets the kernel grow the buffer to what the path needs".into(),
                by_hand: by_hand.into(),
                predicted: unpinned(run, rtt),
            }],
        }))
    }
}

/// Of the samples in which a sender had bytes in flight: in how many had it all its buffer holds there,
/// nothing left to send, and room in the congestion and receive windows.
pub(super) fn full_share(flow: &Of) -> Result<f64, Missing> {
    let unacked = flow.all(tcp_info::UNACKED)?;
    let notsent = flow.all(tcp_info::NOTSENT_BYTES)?;
    let cwnd = flow.all(tcp_info::SND_CWND)?;
    let window = flow.all(tcp_info::SND_WND)?;
    let buffer = flow.all(tcp_info::SNDBUF)?;
    let mss = flow.max(tcp_info::SND_MSS)?.0.max(1);
    let (mut busy, mut full) = (0u32, 0u32);
    for (index, (_, unacked)) in unacked.iter().enumerate() {
        let (Some(notsent), Some(cwnd), Some(window), Some(buffer)) =
            (notsent.get(index), cwnd.get(index), window.get(index), buffer.get(index))
        else {
            break;
        };
        if *unacked == 0 {
            continue;
        }
        busy += 1;
        let in_flight = unacked * mss;
        // Half: the kernel charges a segment's own memory to the buffer, up to as much again.
        let is_full = in_flight * 2 >= buffer.1.0 && notsent.1.0 < mss;
        let room = *unacked * 10 < cwnd.1 * 9 && in_flight * 10 < window.1.0 * 9;
        full += u32::from(is_full && room);
    }
    if busy == 0 {
        return Err(Missing { metric: "tcp.unacked".into(), of: "flow/* while sending".into() });
    }
    Ok(f64::from(full) / f64::from(busy))
}
