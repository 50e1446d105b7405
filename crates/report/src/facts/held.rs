//! A study of users: what servers held, the limits on the way, what was turned.

use crate::document::StudyDocument;
use crate::held::{BytesEach, Held, Purpose, UsersClimb, UsersStudy};
use crate::number::count;
use crate::table::Table;

/// All tables of one, in order.
pub(crate) fn users(study: &StudyDocument) -> Vec<Table> {
    let Some(users) = &study.users else { return Vec::new() };
    let tables = [servers(users), limits(users), settings(users), turned(users)];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// What was not measured, and why; then what the figures are.
pub(crate) fn users_notes(study: &StudyDocument) -> Vec<String> {
    let Some(users) = &study.users else { return Vec::new() };
    let mut notes: Vec<String> =
        users.left_out.iter().map(|says| format!("left out: {says}")).collect();
    notes.push(
        "bytes a user are slopes over the levels, of a mean user of the mix, with their 95 % interval; kernel is half of \
         what the connections take, which have both ends here"
            .into(),
    );
    notes
}

fn of(users: &UsersStudy, purpose: Purpose) -> impl Iterator<Item = &UsersClimb> {
    users.climbs.iter().filter(move |climb| climb.purpose == purpose && climb.round == 1)
}

/// Published beside measured.
fn servers(users: &UsersStudy) -> Table {
    let memory = format!("in {}", mebibytes(users.memory));
    let mut table = Table::new(
        "Users held",
        &["server"],
        &["users held", "VM, bytes a user", "resident", "kernel", memory.as_str()],
    );
    table.head.extend(Table::new("", &["limit"], &[]).head);
    let published = || users.published.iter();
    let ends = [
        ("least", published().min_by_key(|row| row.users)),
        ("best", published().max_by_key(|row| row.users)),
    ];
    for (which, row) in ends {
        let Some(row) = row else { continue };
        let dash = || "-".to_owned();
        let name = format!("published, {which}: {}, {}", row.os, row.settings);
        let held = count(row.users);
        table.rows.push(vec![name, held.clone(), dash(), dash(), dash(), held, dash()]);
    }
    for climb in of(users, Purpose::Server) {
        let held = &climb.held;
        table.rows.push(vec![
            climb.series.clone(),
            held_users(held),
            each(held.mean("vm.total")),
            each(held.mean("target.rss")),
            each(kernel(held)),
            fits(held),
            limit(held),
        ]);
    }
    table
}

/// Limits that were met on the way.
fn limits(users: &UsersStudy) -> Table {
    let mut table = Table::new("Limits before that", &["with"], &["users held", "most online"]);
    table.head.extend(Table::new("", &["limit", "seen"], &[]).head);
    for climb in of(users, Purpose::Limit) {
        let held = &climb.held;
        let says = held.limit.as_ref().map_or("-", |limit| &limit.says);
        table.rows.push(vec![
            climb.series.clone(),
            held_users(held),
            count(held.most_online),
            limit(held),
            says.to_owned(),
        ]);
    }
    table
}

/// What each thing that was turned does.
fn turned(users: &UsersStudy) -> Table {
    let mut table = Table::new("Effect of a setting", &["with", "beside"], &[]);
    let more = ["more VM, bytes a user", "resident", "kernel", "users"];
    table.head.extend(Table::new("", &[], &more).head);
    for effect in &users.effects {
        table.rows.push(vec![
            effect.series.clone(),
            effect.beside.clone(),
            signed(effect.vm),
            signed(effect.rss),
            signed(effect.kernel),
            effect.users.map_or("-".into(), by),
        ]);
    }
    table
}

/// Published settings, and their effect here.
fn settings(users: &UsersStudy) -> Table {
    let columns = ["setting", "published", "today", "here"];
    let mut table = Table::new("Published settings, and their effect here", &columns, &[]);
    for setting in &users.settings {
        let series = setting.series.as_deref().unwrap_or_default();
        let effect = users.effects.iter().find(|effect| effect.series == series);
        let climb = users.climbs.iter().find(|climb| climb.series == series);
        let here = match (effect.and_then(|effect| effect.users), climb) {
            (Some(users), _) => format!("{} users", by(users)),
            (None, Some(climb)) => {
                format!("{} held; {}", held_users(&climb.held), limit(&climb.held))
            }
            (None, None) => "-".into(),
        };
        table.rows.push(vec![
            setting.says.clone(),
            setting.then.clone(),
            setting.today.clone(),
            here,
        ]);
    }
    table
}

/// Users held; of a service that ended, those before it did.
fn held_users(held: &Held) -> String {
    match held.until_it_ended() {
        Some((clean, most)) => format!("{}, and it ended at {}", count(clean), count(most)),
        None => count(held.held),
    }
}

/// The limit that was met; the nearest that was not.
pub(crate) fn limit(held: &Held) -> String {
    match (&held.limit, held.next.first()) {
        (Some(limit), _) => limit.id.clone(),
        (None, Some(next)) => format!("none reached; {} at about {}", next.id, count(next.holds)),
        (None, None) => "none reached".into(),
    }
}

/// One end of each connection, where both are here.
fn kernel(held: &Held) -> Option<BytesEach> {
    let (slab, tcp) = (held.mean("kernel.slab")?, held.mean("kernel.tcp").unwrap_or_default());
    let within = slab.within.hypot(tcp.within) / 2.0;
    Some(BytesEach { bytes: (slab.bytes + tcp.bytes) / 2.0, within })
}

fn each(of: Option<BytesEach>) -> String {
    of.map_or("-".into(), |it| format!("{} ± {}", whole(it.bytes), whole(it.within)))
}

fn signed(of: Option<BytesEach>) -> String {
    let sign = |bytes: f64| if bytes < 0.0 { "" } else { "+" };
    of.map_or("-".into(), |it| {
        format!("{}{} ± {}", sign(it.bytes), whole(it.bytes), whole(it.within))
    })
}

fn by([middle, low, high]: [f64; 3]) -> String {
    format!("x{middle:.2} ({low:.2} to {high:.2})")
}

/// Users that the memory holds, with the interval.
fn fits(held: &Held) -> String {
    let Some(fit) = &held.fit else { return "-".into() };
    match held.fit_interval() {
        Some((low, Some(high))) => {
            format!("{} ({} to {})", count(fit.users), whole(low), whole(high))
        }
        Some((low, None)) => format!("{} ({} and more)", count(fit.users), whole(low)),
        None => count(fit.users),
    }
}

fn whole(value: f64) -> String {
    let sign = if value <= -0.5 { "-" } else { "" };
    format!("{sign}{}", count(value.abs().round() as u64))
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_their_sign_and_whole_bytes() {
        let of = |bytes, within| Some(BytesEach { bytes, within });
        assert_eq!(signed(of(1_490.4, 90.0)), "+1,490 ± 90");
        assert_eq!(signed(of(-1_490.6, 90.0)), "-1,491 ± 90");
        assert_eq!(signed(of(-0.2, 0.4)), "0 ± 0");
        assert_eq!(signed(None), "-");
    }
}
