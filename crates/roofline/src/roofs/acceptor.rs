//! Acceptors: connections are made faster than they are taken from the listener's queue, and wait there.
//!
//! `ceiling = connections accepted a second / connections an exchange`
//!
//! By Little's law a connection waits `queue / accepted a second`; that is set against the time of an
//! exchange. A backlog that overflows, a target that is out of descriptors, ports or processes, and full
//! CPUs make a queue as well: those are named, and this is not.
//! Blind spot: where others connect to the same namespace, their connections count as accepted.
//! Source: `idiag_rqueue` of a listening socket, net/ipv4/tcp_diag.c; Little (1961).

use linerate_evidence::Missing;
use linerate_model::OpRate;

use super::admission::{MOSTLY, arrivals, out_of, queue};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: below this an acceptor that is slow finds CPU time when it wants it.
const IDLE: f64 = 0.7;

// Chosen: half the time of an exchange; less than that, and most of it passes somewhere else.
const WAITS: f64 = 0.5;

// Chosen: where nobody tells the time of an exchange. A listener that is well is waited for by its next
// connection for a moment only. Unit: seconds.
const LONG: f64 = 0.01;

pub(super) struct Acceptor;

impl Roof for Acceptor {
    fn id(&self) -> &'static str {
        "tcp.acceptor"
    }

    fn title(&self) -> &'static str {
        "too few acceptors"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tcp.acceptor.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if !run.header.target.local {
            return Ok(Finding::DoesNotApply("the target's listener is on another host".into()));
        }
        let queue = queue(run)?;
        let (made, overflows) = arrivals(run)?;
        // Those that were made and not dropped went through the queue, but for those that wait still.
        let accepted = match run.is_watched() {
            true => made,
            false => run.attained().0 * run.opened_per_exchange(),
        };
        if accepted < 1.0 || (!run.is_watched() && run.opened_per_exchange() < 0.05) {
            return Ok(Finding::DoesNotApply("connections are kept".into()));
        }
        let rate = OpRate(if run.is_watched() {
            run.attained().0
        } else {
            accepted / run.opened_per_exchange()
        });
        let wait = queue.waiting / accepted;
        let service = (!run.is_watched()).then(|| run.load.service.mean() / 1e9);
        let waits = wait >= service.map_or(LONG, |service| WAITS * service);
        let utilisation = Utilisation::of(run);
        let of_host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let of_target =
            utilisation.target.as_ref().map_or(0.0, |target| target.cores / target.limit);
        let busiest = of_host.max(of_target);
        let seen = format!(
            "in {:.0} % of samples connections waited on port {}, {:.1} on average, for {} each{}",
            queue.share * 100.0,
            queue.port,
            queue.waiting,
            duration(wait),
            service.map_or(String::new(), |service| format!(" of {} in all", duration(service)))
        );
        let binds = match out_of(run) {
            _ if queue.share < MOSTLY || !waits || !run.is_held_back() => Binds::No(seen),
            Some(what) => {
                Binds::No(format!("{seen}; but the target has no {what} left to accept with"))
            }
            None if overflows > 0.01 * made => {
                Binds::No(format!("{seen}; but the queue overflows: it is too short first of all"))
            }
            None if busiest >= IDLE => Binds::No(format!(
                "{seen}; but {:.0} % of the CPUs are used, and acceptors wait for them too",
                busiest * 100.0
            )),
            None => Binds::Yes(seen),
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} connections accepted a second, {:.2} for {} = {rate}",
                OpRate(accepted),
                accepted / rate.0.max(1e-9),
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: "acceptors".into(),
                value: "16".into(),
                does: "takes several connections from the queue at a time".into(),
                by_hand:
                    "more acceptors (ranch num_acceptors, thousand_island num_acceptors), several \
                          connection supervisors, and nothing slow between two accepts"
                        .into(),
                predicted: prediction(run, wait, service),
            }],
        }))
    }
}

/// Without the wait, as far as that goes; or four times the acceptors, where there are no stamps.
fn prediction(run: &Run, wait: f64, service: Option<f64>) -> Predicted {
    let attained = run.attained().0;
    let gain = service.map_or(4.0, |service| service / (service - wait).max(service * 0.05));
    let high = attained * gain.clamp(1.5, 20.0);
    Predicted { low: OpRate(attained), mid: OpRate((attained * high).sqrt()), high: OpRate(high) }
}
