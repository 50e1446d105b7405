//! Logging in step: processes that serve requests wait until a log handler has taken their event.
//!
//! `ceiling = attained / part of the looks in which the handler had events waiting`
//!
//! Blind spot: a handler that is no `logger_olp` (a library's own) is not told from any other process
//! that is called.
//! Source: "Protecting the handler from overload", Logger chapter of the Kernel user's guide.

use linerate_evidence::Missing;
use linerate_evidence::sources::waits;
use linerate_model::OpRate;

use super::suspects::{serving_node, suspects};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Chosen: of the processes that were asked. Some of those never log, and who logs now and then waits now
// and then.
const WAITING: f64 = 0.25;

pub(super) struct Logger;

impl Roof for Logger {
    fn id(&self) -> &'static str {
        "vm.logger"
    }

    fn title(&self) -> &'static str {
        "log events that are waited for"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.logger.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match serving_node(run) {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let sum = |metric| -> Result<u64, Missing> {
            Ok(node.all(metric)?.iter().map(|(_, count): &(_, u64)| *count).sum())
        };
        let (asked, waited) = (sum(waits::ASKED)?, sum(waits::LOGGER)?);
        let most = node.max(waits::LOGGER)?;
        if waited == 0 {
            return Ok(Finding::DoesNotApply("nobody was seen to wait for a log handler".into()));
        }
        let share = waited as f64 / asked.max(1) as f64;
        let found = suspects(run);
        let handler = found
            .iter()
            .filter(|it| {
                it.stack.contains("logger_olp:handle_load") || it.name.starts_with("logger_")
            })
            .max_by_key(|it| it.mailbox);
        let full = handler.map_or(1.0, |handler| handler.with_mail.max(share));
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / full.max(0.05));
        let mut seen = format!(
            "{:.0} % of the processes that were looked at waited for a log handler, {most} at once",
            share * 100.0
        );
        if let Some(handler) = handler {
            seen.push_str(&format!("; {} had {} events waiting", handler.words(), handler.mailbox));
        }
        let binds = if share >= WAITING && most >= 2 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("one handler, an event each {} = {rate}", duration(full / attained)),
            binds,
            advice: vec![Advice {
                knob: "overload".into(),
                value: "drop".into(),
                does: "drops events that the handler can't take, instead of holding up who logs"
                    .into(),
                by_hand: "log less: {logger_level, notice} of the kernel application. Then \
                          logger:update_handler_config(default, config, #{sync_mode_qlen => 200, \
                          drop_mode_qlen => 200}), and a file ({type, file}) instead of a console"
                    .into(),
                predicted: Predicted {
                    low: OpRate(attained * 1.2),
                    mid: OpRate(attained * 5.0),
                    high: OpRate(attained * 200.0),
                },
            }],
        }))
    }
}
