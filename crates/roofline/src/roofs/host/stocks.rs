//! What each connection takes one of is used up, and the next connections wait in the listener's queue, or are refused
//! with `system_limit`. Three of a kind, by what it is.
//!
//! `turned away = connections that wait to be accepted or failed, of all`
//!
//! - `host.descriptors`: the process has opened all that it may.
//! - `vm.port-limit`: every inet socket of a node is a port, and its table is full.
//! - `vm.process-limit`: so is the table of processes, and none can be started for a new connection.
//!
//! Blind spot: `fs.file-max`, the whole machine's limit. Sockets of the `socket` module are no ports. Who fills a table
//! is not said. From another host the accept queue of a node cannot be seen, and of a load that is not linerate's nobody
//! else tells who got in.
//! Source: RLIMIT_NOFILE, getrlimit(2); EMFILE, accept(2); +Q and +P of erl(1); `erlang:system_info(port_limit)`.

use crate::facts::admission::{Stock, Taken};
use crate::roofs::prelude::*;

/// Whether a stock is used up.
pub(in crate::roofs) fn explain(stock: Stock, facts: &Facts) -> Result<Claim, Silent> {
    let of = stock.of(facts)?;
    let is = match stock {
        Stock::Descriptors => "open",
        Stock::Ports => "taken",
        Stock::Processes => "there",
    };
    let taken = format!("{} of {} {} are {is}", of.taken, of.limit, stock.name());
    silent_if(!of.is_out(), &taken)?;
    let queue = facts.accept_queue();
    let waiting = queue.as_ref().map_or(0.0, |queue| queue.waiting);
    let lost = facts.not_let_in(waiting);
    let (all, port, failed) = match stock {
        Stock::Descriptors => ("all its", format!(" on port {}", queue?.port), String::new()),
        Stock::Ports => ("(next to) all", String::new(), String::new()),
        Stock::Processes => {
            ("(next to) all", String::new(), format!(", {:.0} failed", lost - waiting))
        }
    };
    let (asked, served, part) = facts.turned_away(lost);
    let is_sized = lost > 0.0 || stock == Stock::Descriptors;
    Ok(Claim {
        known: if is_sized { Known::Sized } else { Known::PresentOnly },
        sum: format!("{served:.0} of {asked:.0} connections were let in: {taken}"),
        seen: format!(
            "in {} of samples {all} {} were {is}; {waiting:.1} connections wait{port} for somebody to accept \
             them{failed}",
            in_percent(of.out),
            stock.name()
        ),
        remedies: vec![remedy(stock, &of, lost)],
        ..Claim::cause(vec![part])
    })
}

/// Room for all that are taken and all that want in, and for as many again.
fn remedy(stock: Stock, of: &Taken, turned_away: f64) -> Remedy {
    let more = of.taken.saturating_add(turned_away as u64).saturating_mul(2).next_power_of_two();
    let (flag, does) = match stock {
        Stock::Descriptors => {
            let by_hand = format!(
                "LimitNOFILE={more} in its systemd unit, --ulimit nofile={more} of its container, or \
                 `ulimit -n {more}` before it starts"
            );
            let does = "lets it accept the connections that wait now";
            return Remedy::plan("target.descriptors", more.to_string(), does, by_hand);
        }
        Stock::Ports => ("+Q", "lets the node open the sockets that wait now"),
        Stock::Processes => (
            "+P",
            "lets the node start a process for each connection that comes; see first who has so many: \
             erlang:process_info(P, initial_call) of all, counted",
        ),
    };
    Remedy::vm(format!("{flag} {more}"), does)
}
