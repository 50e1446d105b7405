//! What each connection takes one of runs out: the next ones wait or fail (`system_limit`). Three of a kind, by what.
//!
//! `turned away = connections that wait to be accepted or failed, of all`
//!
//! Those that are open may be answered by refusals: what an answer takes, a file or a socket of its own, is not there either.
//!
//! - `host.descriptors`: the process has opened all that it may.
//! - `vm.port-limit`: every inet socket of a node is a port, and the table of ports is full.
//! - `vm.process-limit`: the table of processes is full, and none can be started for a new connection.
//!
//! Source: RLIMIT_NOFILE, getrlimit(2); EMFILE, accept(2); +Q and +P of erl(1); `erlang:system_info(port_limit)`.

use crate::prelude::*;

impl Stock {
    pub(in crate::roofs) fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        let (of, name) = (self.of(facts)?, self.name());
        let (all, is) = match self {
            Stock::Descriptors => ("all its", "open"),
            Stock::Ports | Stock::Processes => ("(almost) all", "in use"),
        };
        let taken = format!("{} of {} {name} are {is}", of.taken, of.limit);
        silent_if(of.out < HALFWAY, &taken)?;
        let queue = facts.accept_queue();
        let waiting = queue.as_ref().map_or(0.0, |queue| queue.waiting);
        let failed = facts.run.load.errors.values().sum::<u64>() as f64;
        let failed = if facts.load == Load::Made { failed } else { 0.0 };
        let lost = waiting + failed;
        let (port, failures) = match self {
            Stock::Descriptors => (format!(" on port {}", queue?.port), String::new()),
            Stock::Ports => Default::default(),
            Stock::Processes => (String::new(), format!(", {failed:.0} failed")),
        };
        let (asked, served) = facts.let_in(lost);
        let out = in_percent(of.out);
        let (all_answers, good) = facts.not_refused();
        if lost == 0.0 && good < HALFWAY * all_answers {
            let asked = all_answers;
            return Ok(Claim::cause(vec![Part::TurnedAway { asked, served: good }])
                .sum(format!("{good:.0} of {asked:.0} answers were no refusal: {taken}"))
                .seen(format!(
                    "{all} {name} were {is} in {out} of samples, and no connection waits"
                ))
                .lifted_by([remedy(self, &of, lost)]));
        }
        Ok(Claim::cause(vec![Part::TurnedAway { asked, served }])
            .sized_if(lost > 0.0 || self == Stock::Descriptors)
            .sum(format!("{served:.0} of {asked:.0} connections were accepted: {taken}"))
            .seen(format!(
                "{all} {name} were {is} in {out} of samples; {waiting:.1} connections wait{port} to be \
                 accepted{failures}"
            ))
            .lifted_by([remedy(self, &of, lost)]))
    }
}

/// Twice as many as are taken and wanted.
fn remedy(stock: Stock, of: &Taken, turned_away: f64) -> Remedy {
    let more = of.taken.saturating_add(turned_away as u64).saturating_mul(2).next_power_of_two();
    let (flag, does) = match stock {
        Stock::Descriptors => {
            let by_hand = format!(
                "LimitNOFILE={more} in its systemd unit, --ulimit nofile={more} of its container, or \
                 `ulimit -n {more}` before it starts"
            );
            let does = "lets it accept the connections that wait now";
            return Remedy::plan(("target.descriptors", more.to_string()), does, by_hand);
        }
        Stock::Ports => ("+Q", "lets the node open the sockets that wait now"),
        Stock::Processes => (
            "+P",
            "lets the node start a process for each new connection; first count its processes by \
             erlang:process_info(P, initial_call)",
        ),
    };
    Remedy::vm(format!("{flag} {more}"), does)
}
