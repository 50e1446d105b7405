//! A request's time cut into segments: its stations, the application's part by what it waits for.

use linerate_account::{Held, Station};

use crate::account::{Account, Inside, StationTime};

/// A part of a request's time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    /// Where it is spent.
    pub(crate) station: Station,
    /// The same in a few words.
    pub(crate) label: String,
    /// How long.
    pub(crate) seconds: f64,
}

/// In the order in which a request passes them; empty where nothing is split.
///
/// What is asleep and has a question out waits for whom it asked.
pub(crate) fn segments(account: &Account, inside: Option<&Inside>) -> Vec<Segment> {
    let mut found = Vec::new();
    for of in &account.stations {
        let Some(seconds) = of.seconds.filter(|seconds| *seconds > 0.0) else { continue };
        match (of.id, inside, account.per_s) {
            (Station::Application, Some(inside), Some(per_s)) => {
                found.extend(application(inside, per_s, seconds));
            }
            _ => found.push(Segment { station: of.id, label: label(of), seconds }),
        }
    }
    found
}

/// In a few words, with what holds it.
pub(crate) fn label(of: &StationTime) -> String {
    let by = match of.held {
        Some(Held::Nagle) => ", held by Nagle",
        Some(Held::Congestion) => ", congestion window",
        Some(Held::Window) => ", peer's window",
        Some(Held::Buffer) => ", buffer full",
        Some(Held::Pacing) => ", paced or corked",
        None => "",
    };
    format!("{}{by}", of.id.label())
}

fn application(inside: &Inside, per_s: f64, seconds: f64) -> Vec<Segment> {
    let mut asleep = inside.asleep;
    let mut parts = vec![
        ("running".to_owned(), inside.running),
        ("waiting for a CPU".to_owned(), inside.runnable),
        ("stopped by its quota".to_owned(), inside.throttled),
        ("waiting for a disk".to_owned(), inside.disk),
    ];
    for asked in &inside.asked {
        let waits = asked.asked.clamp(0.0, asleep);
        asleep -= waits;
        parts.push((format!("waiting for {}", asked.address), waits));
    }
    parts.push(("asleep".to_owned(), asleep));
    let all: f64 = parts.iter().map(|(_, count)| count).sum();
    if all <= 0.0 || per_s <= 0.0 {
        let label = Station::Application.label().to_owned();
        return vec![Segment { station: Station::Application, label, seconds }];
    }
    let segment = |(what, count): (String, f64)| Segment {
        station: Station::Application,
        label: format!("application {what}"),
        seconds: seconds * count / all,
    };
    parts.into_iter().filter(|(_, count)| *count > 0.0).map(segment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Asked, Source};

    #[test]
    fn what_sleeps_and_has_a_question_out_waits_for_whom_it_asked() {
        let station = |id, exchanges: f64| StationTime {
            id,
            held: None,
            exchanges,
            interval: None,
            seconds: Some(exchanges / 100.0),
            share: exchanges / 10.0,
        };
        let account = Account {
            source: Source::Census,
            under_way: 10.0,
            per_s: Some(100.0),
            instants: 1_000.0,
            unplaced_share: 0.0,
            agreement: Vec::new(),
            disagreement: 0.0,
            stations: vec![station(Station::Unread, 1.0), station(Station::Application, 9.0)],
        };
        let asked = Asked {
            address: "127.0.0.1:3000".into(),
            process: None,
            connections: 9.0,
            asked: 8.0,
            cores: None,
        };
        let inside = Inside { running: 1.0, asleep: 8.0, asked: vec![asked], ..Inside::default() };
        let found = segments(&account, Some(&inside));
        let said: Vec<_> = found.iter().map(|of| (of.label.as_str(), of.seconds)).collect();
        let expected = [
            ("unread", 0.01),
            ("application running", 0.01),
            ("application waiting for 127.0.0.1:3000", 0.08),
        ];
        assert_eq!(said, expected);
        assert_eq!(segments(&account, None)[1].label, "application");
    }
}
