//! TLS in bulk: the target encrypts what it sends, record by record, and that is where its CPU goes.
//!
//! `ceiling = attained / utilisation of what is busiest`, the CPU of one connection's sender among them:
//! a connection's records are encrypted by one process
//!
//! Told from target.cpu and host.cpu, which stand at the same place, by what the time is spent on: bytes
//! that are encrypted, at the price of encrypting them, are half of it or more. Told from
//! tls.small-records by the size of the writes.
//! Blind spot: the price is that of one kind of CPU; one without instructions for AES pays ten times as
//! much.
//! Source: tls_sender of OTP's ssl; RFC 8446, 5.1 (a record carries 16 KiB at most).

use linerate_evidence::Missing;
use linerate_model::{Bytes, OpRate};

use super::encryption::target_cores;
use super::tls_small_records::writes;
use super::window::directions;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Station, Utilisation};

// Measured: OTP 25, 2.5 GHz, AES-256-GCM: 1.0 ns/B in the server, of which the same answers without TLS
// take 0.3.
const PRICE: f64 = 0.7e-9;

// Chosen: four records. Below it an exchange's cost is the exchange's, and not its bytes'.
const BULK: f64 = 65_536.0;

pub(super) struct TlsBulk;

impl Roof for TlsBulk {
    fn id(&self) -> &'static str {
        "tls.bulk"
    }

    fn title(&self) -> &'static str {
        "encryption of bulk"
    }

    fn kind(&self) -> Kind {
        Kind::Resource
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tls.bulk.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_tls() {
            return Ok(none);
        }
        let [heavier, _] = directions(run);
        let bytes = heavier.bytes;
        if bytes < BULK {
            return Ok(Finding::DoesNotApply(format!(
                "{} for each is no bulk: its bytes are not what costs",
                Bytes(bytes as u64)
            )));
        }
        let attained = run.attained().0.max(1e-9);
        let cores = target_cores(run)?;
        let share = bytes * attained * PRICE / cores.max(1e-3);
        let utilisation = Utilisation::of(run);
        let bottleneck = utilisation.bottleneck();
        let host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let target = utilisation.target.as_ref().map_or(0.0, |target| target.utilisation());
        // One connection's sender is one process: it has a CPU, however many there are.
        let sender = cores / f64::from(run.connections()).max(1.0);
        // A connection alone waits for its sender, and not for other exchanges.
        let alone = matches!(bottleneck, Some(Station::Connections)) && sender >= 0.3;
        let full = matches!(bottleneck, Some(Station::Target | Station::Host)) || alone;
        let used = match bottleneck {
            Some(Station::Host) => host,
            Some(Station::Target) => target,
            _ => sender.max(target).max(host),
        };
        let rate = OpRate(attained / used.max(1e-6));
        let small = writes(run).is_ok_and(|writes| writes.is_small());
        let seen = format!(
            "{}/s encrypted take {:.0} % of the {cores:.2} CPUs that the target uses, at {:.1} ns a byte",
            Bytes((bytes * attained) as u64),
            (share * 100.0).min(100.0),
            PRICE * 1e9
        );
        // Chosen: a third; with the copies that TLS makes on its way it is most.
        let binds = if full && share >= 0.33 && !small && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} / {:.2} used, {} of the target's CPU for {} encrypted = {rate}",
                OpRate(attained),
                used,
                duration(cores / attained),
                Bytes(bytes as u64)
            ),
            binds,
            advice: vec![Advice {
                knob: "target.tls".into(),
                value: "elsewhere".into(),
                does: "leaves encryption to a program that does it for a tenth of the CPU, or to more cores"
                    .into(),
                by_hand: "more connections, where one alone is slow; a proxy that ends TLS in front; writes \
                          of 16 KiB and more; AES-128-GCM; compress before"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * 1.6),
                    high: OpRate(attained * 4.0),
                },
            }],
        }))
    }
}
