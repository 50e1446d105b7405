//! The most that receive buffers may grow to: tuning has brought them to `net.ipv4.tcp_rmem[2]`, and the
//! window that they give is all that is in flight per round trip.
//!
//! `ceiling = connections x window / min RTT / bytes an exchange`
//!
//! Told from tcp.receive-window by the buffer's size, and from a slow reader by its queue, which is empty
//! here.
//! Blind spot: an option that asks for just as much as the setting gives.
//! Source: `tcp_rcv_space_adjust`, net/ipv4/tcp_input.c; `tcp_rmem`, ip-sysctl.rst.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Side};
use linerate_model::{Bytes, OpRate};

use super::receive_window::{Held, unpinned};
use super::window::{directions, grown_to, mean_over, min_rtt, other, setting};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

const SETTING: &str = "net.ipv4.tcp_rmem";

pub(super) struct RmemMax;

impl Roof for RmemMax {
    fn id(&self) -> &'static str {
        "tcp.rmem-max"
    }

    fn title(&self) -> &'static str {
        "the kernel's limit of receive buffers"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.rmem-max.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let [heavier, _] = directions(run);
        let receiver = other(heavier.sender);
        let (senders, receivers) = (run.flows(heavier.sender), run.flows(receiver));
        let most = setting(run, SETTING)?;
        let grown = grown_to(&receivers, tcp_info::RCVBUF, most)?;
        if grown < 0.5 {
            return Ok(Finding::DoesNotApply(format!(
                "{:.0} % of receive buffers have the {} that they may grow to",
                grown * 100.0,
                Bytes(most as u64)
            )));
        }
        let window = mean_over(&senders, |flow| Ok(flow.max(tcp_info::SND_WND)?.0 as f64))?;
        let rtt = min_rtt(run)?;
        let bytes = heavier.bytes.max(1.0);
        let rate = OpRate(f64::from(run.connections()) * window / rtt / bytes);
        let held = Held::of(&senders, &receivers)?;
        let share = run.attained().0 / rate.0;
        let seen = format!(
            "{:.0} % of receive buffers grew to the kernel's limit; {}",
            grown * 100.0,
            held.words(receiver)
        );
        let binds =
            if held.by_window() && held.queue_is_empty() && share >= 0.5 && run.is_held_back() {
                Binds::Yes(seen)
            } else {
                Binds::No(seen)
            };
        let more = most as u64 * 4;
        let whose = match receiver {
            Side::Client => "the client",
            Side::Server => "the target's host",
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} x {} window / {} RTT / {} for {} = {rate}",
                run.connections_words(),
                Bytes(window as u64),
                duration(rtt),
                Bytes(bytes as u64),
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: SETTING.into(),
                value: more.to_string(),
                does: "lets receive buffers, and with them the window, grow to what the path needs"
                    .into(),
                by_hand: format!("on {whose}: sysctl -w {SETTING}='4096 131072 {more}'"),
                predicted: unpinned(run, rtt),
            }],
        }))
    }
}
