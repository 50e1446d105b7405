//! What each connection takes one of runs out: the next ones wait or fail (`system_limit`). Three of a kind, by what.
//! `turned away = connections that wait to be accepted or failed, of all`; else answers that are refusals, as what they
//! take, a file or a socket, is not there either
//! Source: RLIMIT_NOFILE, getrlimit(2); EMFILE, accept(2); +Q and +P of erl(1); `erlang:system_info(port_limit)`.

use crate::prelude::*;

impl Stock {
    pub(in crate::roofs) fn explain(self, facts: &Facts) -> Result<Claim, Silent> {
        let (of, name) = (self.of(facts)?, self.name());
        let taken = format!("{} of {} {name} are in use", of.taken, of.limit);
        silent_if(of.out < HALFWAY, &taken)?;
        let waiting = facts.accept_queue().map_or(0.0, |queue| queue.waiting) + facts.try_again();
        let (load, counted) = (facts.run.load, |per_s: f64| per_s * facts.run.seconds());
        let failed = match facts.load {
            Load::Made => load.errors.values().sum::<u64>() as f64,
            // Accepted with the last one, and closed as what they need besides has none.
            Load::Watched if self == Stock::Descriptors => {
                counted(facts.by_headers(|of| of.refused_per_s))
            }
            Load::Watched => 0.0,
        };
        let lost = waiting + failed;
        let (answers, good) = match facts.load {
            Load::Made => (load.exchanges as f64, load.good as f64),
            Load::Watched => {
                let told = counted(facts.by_headers(|of| of.per_s));
                let hung_up = counted(facts.by_headers(|of| of.hung_up_per_s));
                (told + hung_up, told - counted(facts.by_headers(Exchanges::told_no_per_s)))
            }
        };
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
