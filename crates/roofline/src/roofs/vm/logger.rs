//! Synchronous logging: processes that serve requests wait until a log handler has their event.
//!
//! `delay = requests whose process waits for a handler / throughput`
//! Source: "Protecting the handler from overload", Logger chapter of the Kernel user's guide.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let node = facts.serving_node()?;
    let asked: u64 = node.values(waits::ASKED)?.iter().sum();
    let waited: u64 = node.values(waits::LOGGER)?.iter().sum();
    let most = node.max(waits::LOGGER)?;
    silent_if(waited == 0, "no process was sampled waiting for a log handler")?;
    // Some sampled processes serve no request: the share of the serving ones is at least this.
    let share = waited as f64 / asked.max(1) as f64;
    let each = facts.per_exchange(share * facts.under_way());
    let waits = in_percent(share);
    let is_handler = |of: &&Process| {
        of.stack.contains("logger_olp:handle_load") || of.name.starts_with("logger_")
    };
    let handler = facts.processes.iter().filter(is_handler).max_by_key(|of| of.mailbox);
    Ok(Claim::delay(At::Service, each)
        .sum(format!("{} of waiting for a log handler", facts.took(each)))
        .seen(format!("{waits} of the sampled processes waited for a log handler, {most} at once"))
        .also(handler.map(|of| format!("{} had {} events waiting", of.words(), of.mailbox)))
        .lifted_by([Remedy::by_knob(
            ("overload", "drop"),
            "drops events that the handler can't take, instead of blocking the processes that log",
            "log less: {logger_level, notice} of the kernel application. Then \
             logger:update_handler_config(default, config, #{sync_mode_qlen => 200, drop_mode_qlen => \
             200}), and a file ({type, file}) instead of a console",
        )]))
}
