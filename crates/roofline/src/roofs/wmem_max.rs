//! The most that send buffers may grow to: tuning has brought them to `net.ipv4.tcp_wmem[2]`, and a flow
//! has at most that in flight per round trip.
//!
//! `ceiling = connections x tcp_wmem[2] / min RTT / bytes an exchange`
//!
//! Told from tcp.send-buffer by the size: a buffer that an option fixed is seldom just that large, and
//! more of the setting would not change it.
//! Blind spot: an option that asks for just as much as the setting gives.
//! Source: `tcp_sndbuf_expand`, net/ipv4/tcp_input.c; `tcp_wmem`, ip-sysctl.rst.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Missing, Side};
use linerate_model::{Bytes, OpRate};

use super::receive_window::unpinned;
use super::send_buffer::full_share;
use super::window::{directions, grown_to, mean_over, min_rtt, setting};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

const SETTING: &str = "net.ipv4.tcp_wmem";

pub(super) struct WmemMax;

impl Roof for WmemMax {
    fn id(&self) -> &'static str {
        "tcp.wmem-max"
    }

    fn title(&self) -> &'static str {
        "the kernel's limit of send buffers"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.wmem-max.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let [heavier, _] = directions(run);
        let senders = run.flows(heavier.sender);
        let most = setting(run, SETTING)?;
        let grown = grown_to(&senders, tcp_info::SNDBUF, most)?;
        if grown < 0.5 {
            return Ok(Finding::DoesNotApply(format!(
                "{:.0} % of send buffers have the {} that they may grow to",
                grown * 100.0,
                Bytes(most as u64)
            )));
        }
        let rtt = min_rtt(run)?;
        let bytes = heavier.bytes.max(1.0);
        let rate = OpRate(f64::from(run.connections()) * most / rtt / bytes);
        let full = mean_over(&senders, full_share)?;
        let share = run.attained().0 / rate.0;
        let seen = format!(
            "{:.0} % of send buffers grew to the kernel's limit, and in {:.0} % of busy samples all that \
             they hold was in flight, with room in both windows",
            grown * 100.0,
            full * 100.0
        );
        let binds = if full >= 0.5 && share >= 0.3 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let more = most as u64 * 4;
        let whose = match heavier.sender {
            Side::Client => "the client",
            Side::Server => "the target's host",
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} x {} / {} RTT / {} for {} = {rate}",
                run.connections_words(),
                Bytes(most as u64),
                duration(rtt),
                Bytes(bytes as u64),
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: SETTING.into(),
                value: more.to_string(),
                does: "lets send buffers grow to what the path needs".into(),
                by_hand: format!("on {whose}: sysctl -w {SETTING}='4096 16384 {more}'"),
                predicted: unpinned(run, rtt),
            }],
        }))
    }
}
