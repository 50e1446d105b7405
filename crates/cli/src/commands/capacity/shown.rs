//! What a climb found, as a document and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use linerate_evidence::Live;
use linerate_model::{Bytes, Timestamp};
use linerate_ramp::{Cost, Dip, Estimate, Outcome, Stage};
use linerate_report as report;
use linerate_report::{BytesEach, Fit, HeldTimes, UserCost};

use super::hold::Held;
use super::number;

fn fit(held: &Held) -> Option<Fit> {
    // What the kernel has without any user is not the service's.
    let (_, base) = held.outcome.of_a_user(&[("target.rss", 1.0)])?;
    // Where both ends of a connection are in this kernel they are alike: half of it is the service's.
    let end = if held.local { 0.5 } else { 1.0 };
    let of_it = [("target.rss", 1.0), ("kernel.slab", end), ("kernel.tcp", end)];
    let (each, _) = held.outcome.of_a_user(&of_it)?;
    let users = (held.fit.0 as f64 - base.bytes) / each.bytes;
    (each.bytes > 0.0).then_some(Fit {
        memory: held.fit.0,
        users: users.max(0.0) as u64,
        bytes_a_user: each.bytes,
        within: Some(each.within),
        base: base.bytes,
    })
}

fn each(estimate: Estimate) -> BytesEach {
    BytesEach { bytes: estimate.bytes, within: estimate.within }
}

/// What users cost, by kind.
fn user_costs(outcome: &Outcome) -> Vec<UserCost> {
    let cost = |Cost { kind, slopes }: Cost| UserCost {
        base: each(slopes.base),
        idle: slopes.idle.map(each),
        active: slopes.active.map(each),
        mean: outcome.of_a_user(&[(&kind, 1.0)]).map(|(mean, _)| each(mean)),
        kind,
    };
    outcome.costs().into_iter().map(cost).collect()
}

/// As `--json` has it.
pub fn document(held: &Held) -> report::Held {
    let outcome = &held.outcome;
    let start = outcome.points.first().map_or(Timestamp(0), |point| point.reading.at);
    let since = |at: Timestamp| at.since(start).as_secs_f64();
    let classes = outcome.asked.mix.classes().iter().zip(&outcome.classes).enumerate();
    let account = &outcome.account;
    report::Held {
        protocol: held.protocol.map(str::to_owned),
        asked: u64::from(outcome.asked.users),
        mix: outcome.asked.mix.to_string(),
        held: outcome.held,
        hold_s: outcome.asked.hold.as_secs_f64(),
        most_online: outcome.most_online,
        fewest_in_hold: outcome.fewest_in_hold,
        dips: outcome.dips.iter().map(dip).collect(),
        lost_processes: outcome.lost.clone(),
        engine_hosts: held.hosts.clone(),
        interrupted: outcome.interrupted,
        limit: outcome.limit().map(|it| report::MetLimit { id: it.id, says: it.says }),
        met: outcome.met.as_ref().map(|met| report::Seen {
            online: met.online,
            came: met.came,
            not_accepted: met.not_accepted,
            failed: met.failed.clone(),
            p99_ns: met.p99_ns,
        }),
        forecast: held
            .forecast
            .map(|(id, holds)| report::ForecastLimit { id: id.to_owned(), holds }),
        next: outcome
            .next()
            .into_iter()
            .map(|it| report::NextLimit {
                id: it.id,
                what: it.what,
                holds: it.holds,
                used: it.used,
                most: it.most,
            })
            .collect(),
        account: report::Users {
            asked: account.asked,
            connecting: account.connecting,
            logging_in: account.logging_in,
            online: account.online,
            closed: account.closed,
            failed: account.failed.clone(),
        },
        levels: outcome
            .levels
            .iter()
            .map(|level| report::HeldLevel {
                users: level.users,
                online: level.online,
                clean: level.clean,
                failed: level.failed,
                not_accepted: level.not_accepted,
                messages: level.messages,
                p99_ns: level.p99_ns,
                came_s: level.came_s,
            })
            .collect(),
        classes: classes
            .map(|(at, (class, times))| report::HeldClass {
                name: class.name.clone(),
                share: outcome.asked.mix.share(at),
                think: class.think.map(|think| think.to_string()),
                connect: times_of(&times.connect),
                login: times_of(&times.login),
                delivered: times_of(&times.delivered),
                answered: times_of(&times.answered),
            })
            .collect(),
        both_ends_here: held.local,
        costs: user_costs(outcome),
        fit: fit(held),
        points: outcome
            .points
            .iter()
            .map(|point| report::HeldPoint {
                at_s: Some(since(point.reading.at)),
                idle: point.idle,
                active: point.active,
                memory: point
                    .reading
                    .memory
                    .iter()
                    .map(|(kind, bytes)| ((*kind).to_owned(), *bytes))
                    .collect(),
                roofs: point
                    .reading
                    .roofs
                    .iter()
                    .map(|roof| report::HeldRoof {
                        id: roof.id.to_owned(),
                        what: roof.what.to_owned(),
                        used: roof.used,
                        most: roof.most,
                    })
                    .collect(),
            })
            .collect(),
        course: held
            .course
            .iter()
            .map(|told| report::HeldMoment {
                at_s: since(told.at),
                online: told.online,
                failed: told.failed,
                stage: stage(told.stage).to_owned(),
            })
            .collect(),
    }
}

fn dip(dip: &Dip) -> report::HeldDip {
    let Dip { at_s, back_after_s, of, fewest, lost, failed_again } = dip.clone();
    report::HeldDip { at_s, back_after_s, of, fewest, lost, failed_again }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Starting | Stage::Adding(_) => "adding",
        Stage::Settling(_) => "settling",
        Stage::Stopped => "stopped",
        Stage::SteppingBack | Stage::SettlingBack => "back",
        Stage::Holding | Stage::Over => "holding",
    }
}

fn times_of(live: &Live) -> Option<HeldTimes> {
    let all = live.recorded()?;
    let ms = |ns: u64| ns as f64 / 1e6;
    Some(HeldTimes {
        count: all.len(),
        p50_ms: ms(all.value_at_quantile(0.5)),
        p90_ms: Some(ms(all.value_at_quantile(0.9))),
        p99_ms: ms(all.value_at_quantile(0.99)),
        p999_ms: ms(all.value_at_quantile(0.999)),
        max_ms: ms(all.max()),
    })
}

pub fn text(held: &Held) -> String {
    let outcome = &held.outcome;
    let mut out = String::new();
    let seconds = outcome.asked.hold.as_secs_f64();
    let (users, until) = match document(held).until_it_ended() {
        Some((clean, most)) => (clean, format!("until the target ended with {}", number(most))),
        None => (outcome.held, format!("for {seconds:.0} s")),
    };
    let _ = writeln!(
        out,
        "{} users held {until}, of {} asked for ({})\n",
        number(users),
        number(u64::from(outcome.asked.users)),
        outcome.asked.mix
    );
    match outcome.limit() {
        Some(limit) => {
            let _ = writeln!(out, "limit     {}: {}", limit.id, limit.says);
        }
        None if outcome.interrupted => out.push_str("limit     not known: it was interrupted\n"),
        None => out.push_str("limit     none was reached\n"),
    }
    if let Some((id, holds)) = held.forecast {
        let _ = writeln!(out, "predicted {id}, at {} connections", number(holds));
    }
    for (at, next) in outcome.next().iter().take(4).enumerate() {
        let head = if at == 0 { "next" } else { "" };
        let _ = writeln!(
            out,
            "{head:9} {} would be, at about {} users ({} of {} {} are used)",
            next.id,
            number(next.holds),
            number(next.used),
            number(next.most),
            next.what
        );
    }
    for (at, sentence) in outcome.lost.iter().enumerate() {
        let _ = writeln!(out, "{:9} {sentence}", if at == 0 { "lost" } else { "" });
    }
    dips(outcome, &mut out);
    for (at, of) in held.hosts.iter().enumerate() {
        let head = if at == 0 { "hosts" } else { "" };
        let (ahead, interval) = (of.clock_offset_us / 1e3, of.clock_interval_us / 1e3);
        let _ =
            writeln!(out, "{head:9} {}: its clock {ahead:+.3} ms, within {interval:.3}", of.host);
    }
    let _ = writeln!(out, "accounted {}", accounted(outcome));
    levels(outcome, &mut out);
    classes(outcome, &mut out);
    costs(held, &mut out);
    out
}

/// Users that were lost in the hold, and came back.
fn dips(outcome: &Outcome, out: &mut String) {
    // Chosen: the first of many tell what the others do.
    const SHOWN: usize = 5;
    for (at, dip) in outcome.dips.iter().take(SHOWN).enumerate() {
        let head = if at == 0 { "dip" } else { "" };
        let back = match dip.back_after_s {
            Some(seconds) => format!("all were back after {seconds:.1} s"),
            None => "not all came back".to_owned(),
        };
        let listed = |causes: &BTreeMap<String, u64>| {
            let each = causes.iter().map(|(cause, count)| format!("{} {cause}", number(*count)));
            each.collect::<Vec<_>>().join(", ")
        };
        let _ = write!(
            out,
            "{head:9} {:.1} s into the hold {} of {} users were online: {}; {back}",
            dip.at_s,
            number(dip.fewest),
            number(dip.of),
            listed(&dip.lost)
        );
        let _ = match dip.failed_again.is_empty() {
            true => writeln!(out),
            false => writeln!(out, "; attempts that failed: {}", listed(&dip.failed_again)),
        };
    }
    if outcome.dips.len() > SHOWN {
        let _ = writeln!(out, "{:9} and {} more", "", outcome.dips.len() - SHOWN);
    }
}

fn accounted(outcome: &Outcome) -> String {
    let account = &outcome.account;
    let mut parts = vec![
        format!("{} connecting", account.connecting),
        format!("{} logging in", account.logging_in),
        format!("{} online", number(account.online)),
        format!("{} closed", number(account.closed)),
    ];
    let failed = account.failed.iter().filter(|(_, count)| **count > 0);
    parts.extend(failed.map(|(cause, count)| format!("{} failed: {cause}", number(*count))));
    format!("{} asked = {}", number(account.asked), parts.join(" + "))
}

fn levels(outcome: &Outcome, out: &mut String) {
    let _ = writeln!(
        out,
        "\n{:>10}  {:>9}  {:>8}  {:>6}  {:>9}  {:>8}",
        "users", "online", "came in", "failed", "messages", "p99"
    );
    for level in &outcome.levels {
        let p99 = level.p99_ns.map_or("-".into(), |ns| format!("{:.1} ms", ns as f64 / 1e6));
        let _ = writeln!(
            out,
            "{:>10}  {:>9}  {:>6.1} s  {:>6}  {:>9}  {p99:>8}{}",
            number(u64::from(level.users)),
            number(level.online),
            level.came_s,
            level.failed,
            number(level.messages),
            if level.clean { "" } else { "  not clean" }
        );
    }
}

fn classes(outcome: &Outcome, out: &mut String) {
    let _ = writeln!(
        out,
        "\n{:16}  {:>20}  {:>20}  {:>20}",
        "p50 / p99 in ms", "connect", "login", "message"
    );
    for (class, times) in outcome.asked.mix.classes().iter().zip(&outcome.classes) {
        let of = |live: &Live| {
            live.recorded().map_or("-".into(), |all| {
                let ms = |quantile| all.value_at_quantile(quantile) as f64 / 1e6;
                format!("{:.2} / {:.2}", ms(0.5), ms(0.99))
            })
        };
        let message =
            if times.delivered.recorded().is_some() { &times.delivered } else { &times.answered };
        let _ = writeln!(
            out,
            "{:16}  {:>20}  {:>20}  {:>20}",
            class.name,
            of(&times.connect),
            of(&times.login),
            of(message)
        );
    }
}

fn costs(held: &Held, out: &mut String) {
    let costs = held.outcome.costs();
    if costs.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:16}  {:>12}  {:>22}  {:>22}",
        "bytes a user", "without any", "idle", "active"
    );
    for Cost { kind, slopes } in &costs {
        let each = |estimate: Option<Estimate>| {
            estimate.map_or("-".into(), |it| format!("{:.0} ± {:.0}", it.bytes, it.within))
        };
        let base = Bytes(slopes.base.bytes.max(0.0) as u64);
        let _ = writeln!(
            out,
            "{kind:16}  {:>12}  {:>22}  {:>22}",
            base.to_string(),
            each(slopes.idle),
            each(slopes.active)
        );
    }
    if held.local {
        out.push_str("kernel.*: both ends of each connection, and all else on this host\n");
    } else if !held.hosts.is_empty() && costs.iter().any(|cost| cost.kind.starts_with("kernel.")) {
        out.push_str("kernel.*: the service's ends, those of engine hosts in this kernel, and all else on this host\n");
    }
    if let Some(fit) = fit(held) {
        let _ = writeln!(
            out,
            "\n{} would hold {} users: {:.0} ± {:.0} bytes each (target.rss, and {}kernel.*), beside {}",
            Bytes(fit.memory),
            number(fit.users),
            fit.bytes_a_user,
            fit.within.unwrap_or(0.0),
            if held.local { "half of " } else { "" },
            Bytes(fit.base.max(0.0) as u64)
        );
    }
}
