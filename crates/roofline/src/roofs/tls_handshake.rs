//! TLS handshakes: each connection begins with key agreement and a signature, and these cost the target
//! far more than what the connection then carries.
//!
//! `ceiling = attained / utilisation of what is busiest`, with the handshakes in it
//!
//! Told from tcp.connection-churn by the price: half a millisecond of CPU and more for each connection,
//! where a plain one takes a tenth of that.
//! Blind spot: resumed sessions cost less and count the same here.
//! Source: RFC 8446, 2; ssl of OTP, `session_tickets`.

use linerate_evidence::sources::snmp;
use linerate_evidence::{Missing, Side};
use linerate_model::OpRate;

use super::encryption::target_cores;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Measured: OTP 25, 2.5 GHz: 1.2 ms with a key on P-256, 2.4 ms with RSA of 2048 bits; a plain connection
// 60 to 120 us. Chosen: between them.
const DEAR: f64 = 0.0003;

// Chosen: fewer than this a second take a hundredth of a CPU. Unit: handshakes a second.
const FEW: f64 = 5.0;

pub(super) struct TlsHandshake;

impl Roof for TlsHandshake {
    fn id(&self) -> &'static str {
        "tls.handshake"
    }

    fn title(&self) -> &'static str {
        "a TLS handshake for each few exchanges"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tls.handshake.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_tls() {
            return Ok(none);
        }
        let cores = target_cores(run)?;
        let attained = run.attained().0.max(1e-9);
        // Of a connection that is gone by the next look no read was counted.
        let (opens, attained) = if run.is_watched() {
            let opens = super::channels::rate(&run.stack(Side::Server), snmp::PASSIVE_OPENS)?;
            (opens, attained.max(opens))
        } else {
            (run.opened_per_exchange() * attained, attained)
        };
        if opens < FEW {
            return Ok(Finding::DoesNotApply(format!("{opens:.1} handshakes a second")));
        }
        let each = opens / attained;
        let price = cores / opens.max(1e-9);
        let utilisation = Utilisation::of(run);
        let host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let target = utilisation.target.as_ref().map_or(0.0, |target| target.utilisation());
        let used = host.max(target).clamp(0.05, 1.0);
        let rate = OpRate(attained / used);
        let seen = format!(
            "{opens:.0} handshakes a second, {each:.2} {}, at {} of the target's CPU for each at most",
            run.each().replacen("an ", "for each ", 1).replacen("a ", "for each ", 1),
            duration(price)
        );
        // Chosen: one in ten: its exchanges, at a tenth of its price or less, then cost as much as it does.
        let binds = if each >= 0.1 && price >= DEAR && used >= 0.5 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let (knob, value) = match &run.header.plan.workload {
            linerate_model::Workload::Http { close: true, .. } => ("workload.close", "false"),
            linerate_model::Workload::Crr { .. } => ("workload.kind", "rr"),
            _ => ("keepalive", "on"),
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} with {used:.2} of the CPUs used, {} for each handshake in it = {rate}",
                OpRate(attained),
                duration(price)
            ),
            binds,
            advice: vec![Advice {
                knob: knob.into(),
                value: value.into(),
                does: "keeps a connection for many exchanges, and its handshake with it".into(),
                by_hand: "keep-alive or a connection pool in the client; session tickets \
                          ({session_tickets, stateless} in the server's ssl options); a key on P-256 and not \
                          RSA"
                .into(),
                predicted: Predicted {
                    low: OpRate(attained * 1.5),
                    mid: OpRate(attained * 10.0),
                    high: OpRate(attained * 100.0),
                },
            }],
        }))
    }
}
