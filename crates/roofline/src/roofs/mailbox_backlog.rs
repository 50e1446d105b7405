//! Mailbox backlog: in active mode data is delivered whether the process has handled the last or not, so
//! what it cannot keep up with waits in its mailbox, without bound.
//!
//! `ceiling = attained`: what the owners handle; by Little's law the wait is `mailbox / messages a second`
//!
//! Told from a slow reader by where the bytes wait: here in the mailbox, there in the kernel's queue,
//! where the peer notices. Told from a mailbox that is searched (`beam.selective-receive`), which keeps its
//! length.
//! Blind spot: messages of another kind in the same mailbox.
//! Source: inet(3), `active`; Little (1961).

use linerate_evidence::sources::owner;
use linerate_evidence::{Missing, Of};
use linerate_model::OpRate;

use super::mailbox_scan::is_left_alone;
use super::sockets::{Connection, connections, share};
use super::suspects::serving_node;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Chosen: what a burst leaves for a moment is shorter.
const LONG: f64 = 20.0;

// Chosen: a wait that people notice, and longer than any turn of a scheduler. Unit: seconds.
const WAIT: f64 = 0.02;

pub(super) struct MailboxBacklog;

impl Roof for MailboxBacklog {
    fn id(&self) -> &'static str {
        "beam.mailbox-backlog"
    }

    fn title(&self) -> &'static str {
        "data that waits in mailboxes"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/beam.mailbox-backlog.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Err(finding) = serving_node(run) {
            return Ok(finding);
        }
        let all = connections(run)?;
        // Messages that nobody takes are no data that waits.
        let pushed: Vec<&Connection> = all
            .iter()
            .filter(|each| each.is_pushed() && each.bytes > 0.0 && !is_left_alone(each))
            .collect();
        if pushed.is_empty() {
            return Ok(Finding::DoesNotApply(
                "no connection that carried data is in active mode, true or a count, with a mailbox \
                 that is emptied now and then"
                    .into(),
            ));
        }
        let mut mailboxes = Vec::new();
        for each in &pushed {
            mailboxes.push(mailbox(&each.of)?);
        }
        let mailbox = mailboxes.iter().sum::<f64>() / mailboxes.len() as f64;
        let messages = pushed.iter().map(|each| each.reads).sum::<f64>() / pushed.len() as f64;
        let wait = mailbox / messages.max(1e-9);
        let behind = share(&all, |each| {
            each.is_pushed()
                && !is_left_alone(each)
                && self::mailbox(&each.of).is_ok_and(|length| length >= LONG)
        });
        let seen = format!(
            "{mailbox:.0} messages waited in the mailbox of each owner in active mode, {} at {messages:.0} \
             a second; {:.0} % of the bytes went through such",
            duration(wait),
            behind * 100.0
        );
        let binds = if mailbox >= LONG && wait >= WAIT && behind >= 0.5 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let attained = run.attained();
        Ok(Finding::Ceiling(Ceiling {
            rate: attained,
            sum: format!(
                "{} owners / {} a message = {attained}",
                pushed.len(),
                duration(1.0 / messages.max(1e-9))
            ),
            binds,
            advice: vec![Advice {
                knob: "active".into(),
                value: "once".into(),
                does:
                    "leaves in the kernel what is not handled yet, so that the peer slows down and \
                       memory is bounded; faster it becomes by handling each message in less time"
                        .into(),
                by_hand: "{active, once} or {active, N}, set again when the last was handled"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained.0 * 0.7),
                    mid: attained,
                    high: OpRate(attained.0 * 2.0),
                },
            }],
        }))
    }
}

/// The mean length over the samples.
fn mailbox(of: &Of) -> Result<f64, Missing> {
    let samples = of.all(owner::MAILBOX)?;
    Ok(samples.iter().map(|(_, length)| *length as f64).sum::<f64>() / samples.len() as f64)
}
