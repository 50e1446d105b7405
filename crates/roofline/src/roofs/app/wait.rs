//! Waits of the application: requests are taken, and what they wait for is neither a CPU, a disk nor
//! somebody that the service asked: a timer, a poll interval, a sleep.
//!
//! `each = application asleep / throughput`
//!
//! Blind spot: a question to somebody over a pipe or shared memory looks the same.
//! Source: off-CPU analysis, B. Gregg, "Systems Performance", 2nd edition, 5.4.

use crate::roofs::prelude::*;

pub(in crate::roofs) fn explain(facts: &Facts) -> Result<Claim, Silent> {
    silent_if(facts.load == Load::Watched, "nobody says how many were asked")?;
    let is_seen = facts.is_split() && facts.place.regime == Regime::Delayed;
    silent_if(!is_seen, "where the exchanges are was not seen, or something is full")?;
    let asleep = facts.inside.asleep;
    let under_way = facts.under_way();
    if asleep < HALFWAY * under_way {
        return not_here(format!(
            "{asleep:.1} of {under_way:.1} exchanges sleep in the application"
        ));
    }
    let questions = facts.inside.questions();
    if questions >= HALFWAY * asleep {
        return not_here(format!("{questions:.1} of them have asked somebody else"));
    }
    let each = asleep / facts.attained;
    let rate = OpRate(
        f64::from(facts.run.connections()) / facts.account.as_ref().map_or(each, |of| of.seconds()),
    );
    let (connections, whole) =
        (facts.run.connections_words(), duration(under_way / facts.attained));
    let twice = facts.run.connections().saturating_mul(2);
    let threads = facts.inside.threads.as_ref().map(|threads| threads.words());
    let threads = threads.filter(|words| !words.is_empty());
    Ok(Claim {
        sum: format!(
            "{connections} / {whole}, of which {} asleep in the application = {rate}",
            duration(each)
        ),
        seen: format!(
            "{asleep:.1} of {under_way:.1} exchanges are taken by the service and nothing of it runs for them{}",
            threads.map_or(String::new(), |words| format!("; its threads: {words}"))
        ),
        remedies: vec![
            Remedy::human(
                "takes the wait out of each request",
                "find what a request sleeps for: a timer, a poll interval, a retry's pause, a sleep; strace -f \
                 -p PID shows the call, py-spy dump, jstack or pprof the line",
            ),
            Remedy::plan(
                "load.connections",
                twice.to_string(),
                "keeps twice as many exchanges under way: nothing is full",
                format!("-c {twice}"),
            ),
        ],
        ..Claim::place(vec![Part::Delay { at: At::Station(Station::Application), each }])
    })
}
