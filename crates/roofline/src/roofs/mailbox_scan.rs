//! A long mailbox that is searched again and again: a `receive` that does not match the first message
//! looks at all of them, each time. Two of a kind, told apart by what searches most.
//!
//! `ceiling = attained / utilisation of the schedulers`; a search costs the mailbox's length
//!
//! - `beam.send-mailbox-scan`: `gen_tcp:send/2`, which before OTP 26 waits so for the driver's reply.
//! - `beam.selective-receive`: the receive of data itself, or whatever else the owner waits for.
//!
//! Told from a mailbox that fills because data comes faster than it is taken: there the first message
//! matches, and nothing is searched. Here the mailbox keeps its length, and the searches account for the
//! code that the node runs.
//! Blind spot: processes that own no socket.
//! Source: `prim_inet:send/3`, erlang/otp pull request 6455; efficiency guide, "Processes".

use linerate_evidence::{Missing, Subject};

use super::sockets::{Connection, Work, at_work, ceiling, times};
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Measured: 5.5 to 7 ns a message looked at (OTP 25, mailboxes of 1,000 and 20,000). Unit: seconds.
const MESSAGE: f64 = 5.5e-9;

// Chosen: shorter mailboxes are searched in less than a send takes anyway.
const LONG: f64 = 500.0;

/// Which of the two.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum MailboxScan {
    Send,
    Receive,
}

/// Whether its owner's mailbox is long and keeps its length: nobody takes what is in it.
pub(super) fn is_left_alone(connection: &Connection) -> bool {
    connection.mailbox() >= LONG && connection.mailbox_stands()
}

/// What searching takes. Unit: schedulers' worth of time.
struct Searches {
    send: f64,
    receive: f64,
    /// The longest mailbox that stands.
    mailbox: f64,
}

/// Searches through mailboxes that stand, of all owners of connections.
fn searches(run: &Run, all: &[Connection]) -> Searches {
    let mut found = Searches { send: 0.0, receive: 0.0, mailbox: 0.0 };
    let sends_search = release(run).is_none_or(|release| release < 26);
    for each in all.iter().filter(|each| is_left_alone(each)) {
        let search = each.mailbox() * MESSAGE;
        found.receive += each.reads * search;
        found.send += if sends_search { each.writes * search } else { 0.0 };
        found.mailbox = found.mailbox.max(each.mailbox());
    }
    found
}

impl Searches {
    /// Whether they account for most of the code that the node runs.
    fn are_most(&self, work: &Work) -> bool {
        // Chosen: a third; and a fifth of a scheduler, below which nobody waits for it.
        let both = self.send + self.receive;
        both >= 0.33 * work.emulator && both >= 0.2
    }
}

fn release(run: &Run) -> Option<u32> {
    run.fact(Subject::Node, "otp")?.parse().ok()
}

impl Roof for MailboxScan {
    fn id(&self) -> &'static str {
        match self {
            MailboxScan::Send => "beam.send-mailbox-scan",
            MailboxScan::Receive => "beam.selective-receive",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            MailboxScan::Send => "sends that search a long mailbox",
            MailboxScan::Receive => "receives that search a long mailbox",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        match self {
            MailboxScan::Send => {
                include_str!("../../../../docs/roofs/beam.send-mailbox-scan.md")
            }
            MailboxScan::Receive => {
                include_str!("../../../../docs/roofs/beam.selective-receive.md")
            }
        }
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let (all, work) = match at_work(run)? {
            Ok(found) => found,
            Err(finding) => return Ok(finding),
        };
        if *self == MailboxScan::Send && release(run).is_some_and(|release| release >= 26) {
            return Ok(Finding::DoesNotApply(
                "from OTP 26 on gen_tcp:send searches no mailbox".into(),
            ));
        }
        let searches = searches(run, &all);
        if searches.mailbox == 0.0 {
            return Ok(Finding::DoesNotApply(format!(
                "no owner of a connection has {LONG} messages or more that nobody takes"
            )));
        }
        let mine = match self {
            MailboxScan::Send => searches.send,
            MailboxScan::Receive => searches.receive,
        };
        let both = searches.send + searches.receive;
        let seen = format!(
            "{:.0} messages stand in a mailbox; {} each time one is searched, {:.2} schedulers by sends and \
             {:.2} by receives, of {:.2} that run code",
            searches.mailbox,
            duration(searches.mailbox * MESSAGE),
            searches.send,
            searches.receive,
            work.emulator
        );
        let binds = if searches.are_most(&work) && mine >= 0.5 * both && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let rate = ceiling(run, &all, &work);
        // What is left without the searches; some of it grows with the rate.
        let gain = work.all() / (work.all() - both).max(0.05 * work.all());
        let predicted = times(run, 1.2, gain.sqrt().max(1.3), gain.max(1.5) * 2.0);
        let advice = |knob: &str, value: &str, does: &str, by_hand: &str| Advice {
            knob: knob.into(),
            value: value.into(),
            does: does.into(),
            by_hand: by_hand.into(),
            predicted,
        };
        let empty = advice(
            "mailbox_junk",
            "0",
            "leaves nothing to search",
            "a clause that takes (and logs) what the process does not know; find who sends it: \
             erlang:process_info(Pid, messages), on a node that can bear it",
        );
        let own = match self {
            MailboxScan::Send => advice(
                "target.otp",
                "26",
                "has gen_tcp:send wait for its reply by a fresh reference",
                "OTP 26 or later; before that a writer of its own with a short mailbox, or \
                 erlang:port_command/2 and one receive for all the replies",
            ),
            MailboxScan::Receive => advice(
                "receive",
                "by reference",
                "starts to look behind the reference's making",
                "gen_server:call, or make a reference, send it along and match on it in the receive; \
                 and work that others may send to in a process of its own",
            ),
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{:.2} schedulers, {both:.2} of them to search = {rate}", work.all()),
            binds,
            advice: vec![empty, own],
        }))
    }
}
