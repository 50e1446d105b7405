//! Synchronous logging: processes that serve requests wait until a log handler has their event.
//! `delay = requests whose process waits for a handler, or in a call of it / throughput`
//! `work = the handler's own time / throughput`
//! Of a node that is not entered: by the functions on its processes' stacks, or by how much it logs.
//! Source: "Protecting the handler from overload", Logger chapter of the Kernel user's guide.

use crate::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    let node = match (facts.serving_node(), facts.unread_output()) {
        // What a node writes to its standard output is its log.
        (Err(_), Some(output)) if output.is_log_of_beam => {
            return Ok(claim(facts, output.each, UNTIL_TAKEN, output.seen));
        }
        (Err(silent), _) => {
            return by_memory(facts).or_else(|| by_its_size(facts)).ok_or(silent);
        }
        (node, _) => node?,
    };
    let asked: u64 = node.values(waits::ASKED)?.iter().sum();
    let waited: u64 = node.values(waits::LOGGER)?.iter().sum();
    let most = node.max(waits::LOGGER)?;
    let handlers = facts.processes.iter().filter(|of| of.is_log_handler());
    let handler = handlers
        .clone()
        .max_by(|a, b| a.callers.total_cmp(&b.callers).then(a.mailbox.cmp(&b.mailbox)));
    // Who asks it for something else than to take an event, such as to write all to the disk, calls it as any server.
    let calls = handler.filter(|of| of.is_called()).map_or(0.0, |of| of.callers);
    let calling = node.mean(callees::CALLING).unwrap_or(0.0).min(facts.under_way());
    let none = "no process was sampled waiting for a log handler";
    silent_if(waited == 0 && calls * calling <= 0.0, none)?;
    // Each is one process, and may be what is full.
    let full = facts.stations.of_resource(Resource::Process);
    let full = full.filter(|_| facts.place.is_full_of(Resource::Process));
    let busiest = handlers.map(|of| of.running).reduce(f64::max);
    let full = full.filter(|full| busiest.is_some_and(|busy| busy >= EXPLAINED * full.used));
    let works =
        |of: &InUse| Part::Work { resource: of.resource, each: facts.per_exchange(of.used) };
    // Some sampled processes serve no request: the share of the serving ones is at least this.
    let share = waited as f64 / asked.max(1) as f64;
    let each = facts.per_exchange((share * facts.under_way()).max(calls * calling));
    let waits = in_percent(share.max(calls));
    let seen = format!(
        "{waits} of the processes that wait do so for a log handler, {most} at once with an event"
    );
    Ok(claim(facts, each, "for a log handler", seen)
        .and(full.map(works))
        .also(handler.map(|of| format!("{} had {} events waiting", of.words(), of.mailbox))))
}

/// What a process takes to make and write a byte of the log, rather less than more. Measured, eight processes that log lines of 47 and
/// 69 bytes: 0.12 us of CPU time a byte by Elixir's Logger, 0.18 by `io:format`, OTP 25, on an AMD EPYC. Unit: seconds.
const A_BYTE: f64 = 0.1e-6;

/// What a line takes of the dirty scheduler that writes it by itself, and looks at the file before. Measured, `logger_std_h` with a file,
/// OTP 25, on an AMD EPYC: 33 us where a request logs 880 bytes in 8 lines, 32 us for 350 in 6. Unit: seconds.
const A_LINE: f64 = 30e-6;

/// The same where requests take turns, and what they wait for is the log: who makes it is at work for most of the time, that is a good
/// part of the node's work, and nobody else was asked. Or it is who writes it to its file, line by line.
fn by_its_size(facts: &Facts) -> Option<Claim> {
    let (of, threads) = (facts.run.of(Subject::Target), facts.threads());
    let takes_turns = facts.place.at_a_time().is_some_and(|k| k < TWO);
    let written = of.rate(process::LOG_WRITTEN).ok()?;
    let (inside, work) = (&facts.inside, facts.target_cpu().ok()?.work());
    let made = (written * A_BYTE).min(work);
    let asks_others = inside.questions() + inside.disk >= HALFWAY * inside.asleep;
    let is_made = takes_turns && made >= HALFWAY && made >= HOLDS * work;
    // Answers may be written by such calls as well.
    let lines = (of.rate(process::WRITE_CALLS).unwrap_or(0.0) - facts.attained).max(0.0);
    let is_most = written >= HALFWAY * of.rate(process::WRITTEN).unwrap_or(f64::INFINITY);
    let writer = threads.filter(|of| of.fullest_writes() && of.fullest >= EXPLAINED);
    let filed = writer.map(|of| (of.fullest - of.sync).max(0.0));
    let filed = filed.filter(|busy| is_most && lines * A_LINE >= HALFWAY * busy);
    let filed = filed.filter(|_| takes_turns || facts.load == Load::Watched);
    let is_so = facts.is_node_outside() && !asks_others && (is_made || filed.is_some());
    let how = match filed {
        Some(busy) => format!(
            "in {lines:.0} writes, for which one of its schedulers for files has {} of its time",
            in_percent((lines * A_LINE).min(busy))
        ),
        None => format!("which takes some {made:.2} of the {work:.2} CPUs it used"),
    };
    let (size, a_second) = (bytes(facts.per_exchange(written)), bytes(written));
    let seen = format!(
        "it wrote {size} of log an exchange, {a_second} a second, {how}; {:.1} requests sleep meanwhile",
        inside.asleep
    );
    is_so.then(|| claim(facts, facts.per_exchange(inside.asleep), UNTIL_TAKEN, seen))
}

/// Seen from outside, by its memory: most requests' processes wait within the call of a log handler.
fn by_memory(facts: &Facts) -> Option<Claim> {
    let (logging, under_way) = (facts.by_memory(erlang::LOGGING)?, facts.under_way());
    let each = facts.per_exchange(logging.min(under_way));
    let seen = format!(
        "{logging:.1} processes wait within the call of a log handler, while {under_way:.1} requests are under way"
    );
    let are_most = logging >= (HALFWAY * under_way).max(HALFWAY) && facts.has_traffic().is_ok();
    are_most.then(|| claim(facts, each, "for a log handler", seen))
}

const UNTIL_TAKEN: &str = "until its log is taken";

fn claim(facts: &Facts, each: f64, what: &str, seen: String) -> Claim {
    Claim::delay(At::Service, each)
        .sum(format!("{} of waiting {what}", facts.took(each)))
        .seen(seen)
        .at_least(Least::Asleep)
        .lifted_by([Remedy::by_knob(
            ("overload", "drop"),
            "drops events that the handler can't take, instead of blocking the processes that log",
            "log less: {logger_level, notice} of the kernel application. Then logger:update_handler_config(default, \
             config, #{sync_mode_qlen => 200, drop_mode_qlen => 200}), and a file ({type, file}) instead of a console. \
             lager: a higher async_threshold, and a handler that waits for nobody",
        )])
}
