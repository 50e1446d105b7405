//! Receive window pinned: a flow has at most one window of its peer's in flight per round trip, and the
//! window was fixed too small.
//!
//! `ceiling = connections x window / min RTT / bytes an exchange`
//!
//! Blind spot: a window that opened and shut again between two samples. A slow reader also shuts the
//! window, but its receive queue is full; here it is empty.
//! Source: `tcpi_snd_wnd`, `tcpi_min_rtt`, `tcpi_rwnd_limited`, linux/tcp.h; SO_RCVBUF turns autotuning
//! off (`SOCK_RCVBUF_LOCK`, net/core/sock.c).

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Of, Side};
use linerate_model::{Bytes, OpRate};

use super::window::{directions, grown_to, mean_over, min_rtt, other, setting};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

pub(super) struct ReceiveWindow;

impl Roof for ReceiveWindow {
    fn id(&self) -> &'static str {
        "tcp.receive-window"
    }

    fn title(&self) -> &'static str {
        "a pinned receive window"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.receive-window.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_traffic() {
            return Ok(none);
        }
        let [heavier, _] = directions(run);
        let receiver = other(heavier.sender);
        let senders = run.flows(heavier.sender);
        let window = mean_over(&senders, |flow| Ok(flow.max(tcp_info::SND_WND)?.0 as f64))?;
        // A read is what one call took, not what the peer had to send.
        if !run.is_watched() && heavier.bytes <= window {
            return Ok(Finding::DoesNotApply(format!(
                "the {} of an exchange fit in the {receiver}'s window of {}",
                Bytes(heavier.bytes as u64),
                Bytes(window as u64)
            )));
        }
        let rtt = min_rtt(run)?;
        let connections = f64::from(run.connections());
        let rate = OpRate(connections * window / rtt / heavier.bytes);

        let receivers = run.flows(receiver);
        let held = Held::of(&senders, &receivers)?;
        let pinned = mean_over(&receivers, |flow| {
            let (least, most) = (flow.min(tcp_info::RCVBUF)?, flow.max(tcp_info::RCVBUF)?);
            Ok(f64::from(u8::from(least == most)))
        });
        // At the kernel's own maximum it is not an option that pins it: tcp.rmem-max.
        let at_most = setting(run, "net.ipv4.tcp_rmem")
            .and_then(|most| grown_to(&receivers, tcp_info::RCVBUF, most))
            .is_ok_and(|grown| grown >= 0.5);
        let share = run.attained().0 / rate.0;
        let seen = held.words(receiver);
        let binds = if at_most {
            Binds::No(format!("{seen}; its buffer grew as far as the kernel lets it"))
        } else if held.by_window()
            && held.queue_is_empty()
            && share >= 0.5
            && pinned.is_ok_and(|pinned| pinned > 0.5)
            && run.is_held_back()
        {
            Binds::Yes(seen)
        } else if held.by_window() && !held.queue_is_empty() {
            Binds::No(format!(
                "{seen}: its application reads too slowly, a larger window would not help"
            ))
        } else {
            Binds::No(seen)
        };
        let (knob, value, by_hand) = match receiver {
            Side::Client => (
                "engine.recbuf",
                "default",
                "set no SO_RCVBUF in the client: the kernel then sizes the window by itself",
            ),
            Side::Server => (
                "recbuf",
                "0",
                "take {recbuf, N} out of the listen options (set {buffer, N} instead, if it was \
                 meant for the driver): the kernel then sizes the window by itself, up to \
                 net.ipv4.tcp_rmem[2]",
            ),
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} x {} window / {} RTT / {} {} = {rate}",
                run.connections_words(),
                Bytes(window as u64),
                duration(rtt),
                Bytes(heavier.bytes as u64),
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: knob.into(),
                value: value.into(),
                does: "lets the kernel grow the window to what the path needs".into(),
                by_hand: by_hand.into(),
                predicted: unpinned(run, rtt),
            }],
        }))
    }
}

/// Whether senders waited for the receiver's window, and whether the receiver had anything to read then.
pub(super) struct Held {
    /// The share of their busy time for which the window held senders back.
    limited: f64,
    /// How full the receiver's queue is: of its buffer, in most samples.
    queued: Result<f64, Missing>,
}

impl Held {
    pub fn of(senders: &[Of], receivers: &[Of]) -> Result<Self, Missing> {
        let limited = mean_over(senders, |flow| {
            let (limited, _) = flow.delta(tcp_info::RWND_LIMITED)?;
            let (busy, _) = flow.delta(tcp_info::BUSY_TIME)?;
            Ok(limited.as_secs_f64() / busy.as_secs_f64().max(1e-9))
        })?;
        let queued = mean_over(receivers, |flow| {
            let buffer = flow.max(tcp_info::RCVBUF)?.0 as f64;
            Ok(flow.median(tcp_info::RQUEUE)?.0 as f64 / buffer.max(1.0))
        });
        Ok(Self { limited, queued })
    }

    pub fn by_window(&self) -> bool {
        self.limited >= 0.5
    }

    /// Else its application reads too slowly, and a larger window would only be filled as well.
    pub fn queue_is_empty(&self) -> bool {
        self.queued.as_ref().is_ok_and(|queued| *queued < 0.25)
    }

    pub fn words(&self, receiver: Side) -> String {
        let queued = self
            .queued
            .as_ref()
            .map_or("an unknown".into(), |queued| format!("{:.0}", queued * 100.0));
        format!(
            "senders were limited by the window {:.0} % of their busy time; the {receiver}'s receive \
             queue was {queued} % full",
            self.limited * 100.0
        )
    }
}

/// Without the pin an exchange takes at least one round trip; slow start and the path's rate decide how
/// many more, which this run could not show.
pub(super) fn unpinned(run: &Run, rtt: f64) -> Predicted {
    let attained = run.attained().0;
    let high = (f64::from(run.connections()) / rtt).max(attained * 2.0);
    let low = attained * 1.5;
    Predicted { low: OpRate(low), mid: OpRate((low * high).sqrt()), high: OpRate(high) }
}
