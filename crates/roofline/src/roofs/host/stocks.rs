//! What each connection takes one of runs out: the next ones wait or fail (`system_limit`). Three of a kind, by what.
//! `turned away = connections that wait to be accepted or failed, of all`; else answers that are refusals
//! Source: RLIMIT_NOFILE, getrlimit(2); EMFILE, accept(2); +Q and +P of erl(1); `erlang:system_info(port_limit)`.

use crate::prelude::*;

impl Stock {
    pub(in crate::roofs) fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        let (of, name) = (self.of(facts)?, self.name());
        let taken = format!("{} of {} {name} are in use", of.taken, of.limit);
        silent_if(of.out < HALFWAY, &taken)?;
        let waiting = facts.accept_queue().map_or(0.0, |queue| queue.waiting) + facts.try_again();
        let load = facts.run.load;
        let (failed, answers, good) = match facts.load {
            Load::Made => {
                let failed = load.errors.values().sum::<u64>();
                (failed as f64, load.exchanges as f64, load.good as f64)
            }
            Load::Watched => {
                let all =
                    |rate: fn(&Exchanges) -> f64| facts.by_headers(rate) * facts.run.seconds();
                let (refused, told) = (all(|of| of.refused_per_s), all(|of| of.per_s));
                // Accepted with the last one, and closed as what they need besides has none.
                let failed = if self == Stock::Descriptors { refused } else { 0.0 };
                let answers = told + all(|of| of.hung_up_per_s);
                (failed, answers, told - all(Exchanges::told_no_per_s))
            }
        };
        let lost = waiting + failed;
        // Those that are open may be answered by refusals: what an answer takes is not there either.
        let (asked, served, what) = match facts.let_in(lost) {
            _ if lost == 0.0 && good < HALFWAY * answers => {
                (answers, good, "answers were no refusal")
            }
            (asked, served) => (asked, served, "connections were accepted"),
        };
        Ok(Claim::cause(vec![Part::TurnedAway { asked, served }])
            .sized_if(served < asked || self == Stock::Descriptors)
            .sum(format!("{served:.0} of {asked:.0} {what}: {taken}"))
            .seen(format!(
                "(almost) all {name} were in use in {} of samples; {waiting:.1} connections wait to be accepted, \
                 {failed:.0} failed",
                in_percent(of.out)
            ))
            .lifted_by([remedy(self, &of, lost)]))
    }
}

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
