//! What a climb found, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use linerate_evidence::Live;
use linerate_model::Bytes;
use linerate_ramp::{Cost, Estimate, Outcome};
use serde_json::{Value, json};

use super::hold::Held;
use super::number;

/// Users that so much memory holds, with what it takes without any.
struct Fit {
    memory: Bytes,
    users: u64,
    each: f64,
    base: f64,
}

fn fit(held: &Held) -> Option<Fit> {
    let (each, base) = held.outcome.of_a_user("target.rss")?;
    let (kernel, _) = held.outcome.of_a_user("kernel.slab").unwrap_or((0.0, 0.0));
    let (tcp, _) = held.outcome.of_a_user("kernel.tcp").unwrap_or((0.0, 0.0));
    // Both ends are in this kernel, and alike: the service's is half of it.
    let each = each + (kernel + tcp).max(0.0) / 2.0;
    let users = (held.fit.0 as f64 - base) / each;
    (each > 0.0).then_some(Fit { memory: held.fit, users: users.max(0.0) as u64, each, base })
}

pub fn json(held: &Held) -> Value {
    let outcome = &held.outcome;
    let classes = outcome.asked.mix.classes().iter().zip(&outcome.classes).enumerate();
    let classes: Vec<_> = classes
        .map(|(at, (class, times))| {
            json!({
                "name": class.name,
                "share": outcome.asked.mix.share(at),
                "think": class.think.map(|think| think.to_string()),
                "connect": times_json(&times.connect),
                "login": times_json(&times.login),
                "delivered": times_json(&times.delivered),
                "answered": times_json(&times.answered),
            })
        })
        .collect();
    json!({
        "protocol": held.protocol,
        "asked": outcome.asked.users,
        "mix": outcome.asked.mix.to_string(),
        "held": outcome.held,
        "hold_s": outcome.asked.hold.as_secs_f64(),
        "most_online": outcome.most_online,
        "fewest_in_hold": outcome.fewest_in_hold,
        "dips": outcome.dips,
        "interrupted": outcome.interrupted,
        "limit": outcome.limit(),
        "met": outcome.met,
        "foretold": held.foretold.map(|(id, holds)| json!({ "id": id, "holds": holds })),
        "next": outcome.next(),
        "account": outcome.account,
        "levels": outcome.levels,
        "classes": classes,
        "both_ends_here": held.local,
        "costs": outcome.costs(),
        "fit": fit(held).map(|fit| json!({
            "memory": fit.memory.0, "users": fit.users, "bytes_a_user": fit.each, "base": fit.base,
        })),
        "points": outcome.points.iter().map(|point| json!({
            "idle": point.idle, "active": point.active, "memory": point.reading.memory,
            "roofs": point.reading.roofs,
        })).collect::<Vec<_>>(),
    })
}

fn times_json(live: &Live) -> Value {
    let Some(all) = live.recorded() else { return Value::Null };
    let ms = |ns: u64| ns as f64 / 1e6;
    json!({
        "count": all.len(),
        "p50_ms": ms(all.value_at_quantile(0.5)),
        "p99_ms": ms(all.value_at_quantile(0.99)),
        "p999_ms": ms(all.value_at_quantile(0.999)),
        "max_ms": ms(all.max()),
    })
}

pub fn text(held: &Held) -> String {
    let outcome = &held.outcome;
    let mut out = String::new();
    let seconds = outcome.asked.hold.as_secs_f64();
    let _ = writeln!(
        out,
        "{} users held for {seconds:.0} s, of {} asked for ({})\n",
        number(outcome.held),
        number(u64::from(outcome.asked.users)),
        outcome.asked.mix
    );
    match outcome.limit() {
        Some(limit) => {
            let _ = writeln!(out, "limit     {}: {}", limit.id, limit.says);
        }
        None if outcome.interrupted => out.push_str("limit     not known: it was interrupted\n"),
        None => out.push_str("limit     none was met\n"),
    }
    if let Some((id, holds)) = held.foretold {
        let _ = writeln!(out, "foretold  {id}, at {} connections", number(holds));
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
    dips(outcome, &mut out);
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
        out.push_str(
            "kernel.*: both ends of each connection, and whatever else this host did meanwhile\n",
        );
    }
    if let Some(fit) = fit(held) {
        let _ = writeln!(
            out,
            "\n{} would hold {} users: {:.0} bytes each (target.rss, and half of kernel.*), beside {}",
            fit.memory,
            number(fit.users),
            fit.each,
            Bytes(fit.base.max(0.0) as u64)
        );
    }
}
