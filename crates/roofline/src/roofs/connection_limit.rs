//! A limit of connections: the server has taken as many as it was told to and takes no more; the next
//! ones are made by the kernel, wait in the listener's queue, and are never answered.
//!
//! `ceiling = attained`: what the connections that were let in carry
//!
//! A queue that stands still is one that nobody accepts from. With a slow acceptor it moves; out of
//! descriptors, ports or processes it stands still too, and then those are named.
//! Blind spot: acceptors that died, or hang, leave the same queue. Where connections come and go, a
//! limit looks like slow acceptors.
//! Source: `max_connections` of ranch, thousand_island's `num_connections`, `esockd`.

use linerate_evidence::Missing;

use super::admission::{out_of, queue};
use super::descriptors::admitted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

pub(super) struct ConnectionLimit;

impl Roof for ConnectionLimit {
    fn id(&self) -> &'static str {
        "app.connection-limit"
    }

    fn title(&self) -> &'static str {
        "the server's limit of connections"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/app.connection-limit.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if !run.header.target.local {
            return Ok(Finding::DoesNotApply("the target's listener is on another host".into()));
        }
        let queue = queue(run)?;
        if queue.share == 0.0 {
            return Ok(Finding::DoesNotApply("no connection waits to be accepted".into()));
        }
        // In a closed loop those that wait for a slow acceptor are always as many, too.
        if !run.is_watched() && run.opened_per_exchange() >= 0.05 {
            return Ok(Finding::DoesNotApply(
                "connections come and go: somebody accepts them".into(),
            ));
        }
        let rate = run.attained();
        let inside = (f64::from(run.connections()) - queue.waiting).max(0.0);
        let seen = format!(
            "{:.1} connections wait on port {}{}",
            queue.waiting,
            queue.port,
            match queue.stands_still {
                true => ", the same in all samples: nobody accepts",
                false => ", and their number changes: somebody accepts",
            }
        );
        let binds = match out_of(run) {
            Some(what) => {
                Binds::No(format!("{seen}; the target has no {what} left to accept with"))
            }
            None if queue.stands_still => Binds::Yes(seen),
            None => Binds::No(seen),
        };
        let more = (inside * 4.0).max(1024.0);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: match run.is_watched() {
                true => format!("those that were let in carry {rate}"),
                false => format!(
                    "{inside:.0} of {} were let in, and carry {rate}",
                    run.connections_words()
                ),
            },
            binds,
            advice: vec![Advice {
                knob: "max_connections".into(),
                value: format!("{more:.0}"),
                does: "lets in the connections that wait now".into(),
                by_hand: "raise the listener's limit (ranch max_connections, thousand_island \
                          num_connections, esockd max_connections); if it has none, see whether its \
                          acceptors live"
                    .into(),
                predicted: admitted(run, queue.waiting),
            }],
        }))
    }
}
