//! The page of a study of users: published beside measured, climbs over time, latency by class.

use super::parts;
use crate::document::{Distribution, StudyDocument};
use crate::facts;
use crate::figures::{Curve, climbs, percentiles};
use crate::held::{HeldTimes, Purpose, UsersStudy};
use crate::svg::escape;

pub(super) fn page(study: &StudyDocument, users: &UsersStudy) -> String {
    let mut out = parts::masthead("study", &study.name, &study.about);
    if !study.claims.is_empty() {
        out += "<section><h2>Claims</h2>\n";
        out += &parts::table(&facts::claims(study));
        out += "</section>\n";
    }
    let mut tables = facts::users(study).into_iter();
    if let Some(servers) = tables.next() {
        out += &parts::section(&servers.caption, &servers, &facts::users_notes(study));
    }
    out += &climbs(users);
    let times = latencies(users);
    let curves: Vec<Curve> = times
        .iter()
        .enumerate()
        .map(|(style, (name, of))| Curve { name: name.clone(), of, style })
        .collect();
    out += &percentiles(
        &curves,
        "Latency by class of users: from when a message was due to its delivery to another user.",
    );
    for table in tables {
        out += &parts::section(&table.caption, &table, &[]);
    }
    out += "<section><h2>Commands</h2><p>Each climb again, by itself; a name in braces stands for what a service told \
            that the study started.</p>\n<ul>";
    for climb in users.climbs.iter().filter(|climb| climb.round == 1) {
        out += &format!(
            "<li>{}: <code>{}</code></li>\n",
            escape(&climb.series),
            escape(&climb.command)
        );
    }
    out += "</ul></section>\n";
    out
}

/// Of each class that says something, on each server.
fn latencies(users: &UsersStudy) -> Vec<(String, Distribution)> {
    let servers = users.climbs.iter().filter(|climb| climb.purpose == Purpose::Server);
    servers
        .flat_map(|climb| {
            climb.held.classes.iter().filter_map(|class| {
                let times = class.delivered.as_ref().or(class.answered.as_ref())?;
                Some((format!("{}, {}", climb.series, class.name), distribution(times)))
            })
        })
        .collect()
}

fn distribution(times: &HeldTimes) -> Distribution {
    let known = [
        (50.0, Some(times.p50_ms)),
        (90.0, times.p90_ms),
        (99.0, Some(times.p99_ms)),
        (99.9, Some(times.p999_ms)),
        (100.0, Some(times.max_ms)),
    ];
    let percentiles = known.into_iter().filter_map(|(at, ms)| Some([at, ms? * 1e3])).collect();
    Distribution { count: times.count, percentiles, ..Distribution::default() }
}
