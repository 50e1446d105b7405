//! A pool: only so many exchanges are served at a time, and the others' processes wait for a worker while
//! everything idles.
//!
//! `ceiling = workers / service time of an exchange alone`, where by Little's law
//! `workers = rate x service time alone`
//!
//! Told from a funnel, one process that does the work of all and has their messages in its mailbox, by
//! the mailboxes: a pool takes each request at once and keeps it in its own queue. Told from too few
//! connections because there are more of them than are served.
//! Blind spot: workers that wait for each other; a pool whose workers use the CPU, which is then named.
//! Source: Little (1961); `queue` of poolboy, hackney_pool, `worker_pool`.

use linerate_evidence::sources::{suspect, waits};
use linerate_evidence::{Missing, Of};
use linerate_model::OpRate;

use super::channels::asks_elsewhere;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::{Utilisation, unhindered};

// Chosen: above this somebody works, and need not be waiting for a pool.
const IDLE: f64 = 0.6;

pub(super) struct Pool;

impl Roof for Pool {
    fn id(&self) -> &'static str {
        "app.pool"
    }

    fn title(&self) -> &'static str {
        "a pool of workers"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/app.pool.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match run.node() {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        if let Some(finding) = run.no_load() {
            return Ok(finding);
        }
        let Some(alone) = unhindered(run) else {
            return Err(Missing { metric: "service".into(), of: "engine".into() });
        };
        let workers = run.attained().0 * alone;
        let connections = f64::from(run.connections());
        if workers > 0.7 * connections {
            return Ok(Finding::DoesNotApply(format!(
                "{workers:.1} of {} are served at a time",
                run.connections_words()
            )));
        }
        let rate = OpRate((workers.max(1.0)) / alone);
        let calling = calling(&node)?;
        let mail = longest_mailbox(run);
        let utilisation = Utilisation::of(run);
        let of_target =
            utilisation.target.as_ref().map_or(0.0, |target| target.cores / target.limit);
        let of_host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let busiest = of_target.max(of_host);
        let seen = format!(
            "{workers:.1} of {} are served at a time; {:.0} % of the processes asked wait for the answer \
             to a call; the longest mailbox has {mail} messages; {:.0} % of the CPUs are used",
            run.connections_words(),
            calling * 100.0,
            busiest * 100.0
        );
        // One at a time is a funnel; there the mailbox may be short when it sleeps.
        let is_pool = workers >= 1.5 && calling >= 0.5 && (mail as f64) < 0.25 * connections;
        let elsewhere = asks_elsewhere(run);
        let binds = if is_pool && busiest < IDLE && !elsewhere && run.is_held_back() {
            Binds::Yes(seen)
        } else if elsewhere {
            Binds::No(format!("{seen}; it is another node that they call"))
        } else {
            Binds::No(seen)
        };
        let all = run.attained().0 * connections / workers.max(1.0);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{workers:.1} at a time / {} = {rate}", duration(alone)),
            binds,
            advice: vec![Advice {
                knob: "workers".into(),
                value: format!("{connections:.0}"),
                does: "serves as many exchanges at a time as are asked".into(),
                by_hand:
                    "a larger pool (poolboy size, hackney max_connections, Finch size), or more of \
                          them; or less time in each worker"
                        .into(),
                predicted: Predicted {
                    low: OpRate(run.attained().0),
                    mid: OpRate((run.attained().0 * all).sqrt()),
                    high: OpRate(all * 1.05),
                },
            }],
        }))
    }
}

/// Of the processes that were asked, the share that waits for the answer to a call.
fn calling(node: &Of) -> Result<f64, Missing> {
    let sum = |samples: Vec<(_, u64)>| samples.iter().map(|(_, count)| *count).sum::<u64>() as f64;
    let asked = sum(node.all(waits::ASKED)?);
    Ok(sum(node.all(waits::CALL)?) / asked.max(1.0))
}

/// The longest mailbox of a process, in the middle of its samples.
fn longest_mailbox(run: &Run) -> u64 {
    let mailboxes = run.evidence.processes().into_iter().map(|process| run.of(process));
    mailboxes.filter_map(|process| process.median(suspect::MAILBOX).ok()).max().unwrap_or(0)
}
