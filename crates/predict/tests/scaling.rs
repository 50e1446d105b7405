//! Published tables: 50 and 100 connections from 1 and 10. Nothing is fitted to any of them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use linerate_model::OpRate;
use linerate_predict::{Crossing, Curve, Row, forecast};

/// By server: connections and requests a second.
#[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
fn tables(file: &str) -> BTreeMap<String, Vec<(u32, f64)>> {
    let path = format!("{}/../../studies/published/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("studies/ is part of the repository");
    let mut tables: BTreeMap<String, Vec<(u32, f64)>> = BTreeMap::new();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    for line in lines {
        let words: Vec<&str> = line.split(',').collect();
        let of = |name: &str| columns.iter().position(|column| *column == name).unwrap();
        let number = |name: &str| words[of(name)].parse::<f64>().unwrap();
        let row = (number("connections") as u32, number("requests_per_s"));
        tables.entry(words[0].to_owned()).or_default().push(row);
    }
    tables
}

fn curve(rows: &[(u32, f64)]) -> Curve {
    let row = |(connections, x): &(u32, f64)| Row {
        connections: *connections,
        throughput: OpRate(*x),
        fastest: None,
    };
    Curve::new(&rows.iter().map(row).collect::<Vec<_>>(), None).unwrap()
}

#[test]
fn from_one_and_ten_connections_four_of_five_published_rows_lie_inside() {
    let tables = tables("scaling.csv");
    assert_eq!(tables.len(), 7);
    let (mut held, mut off, mut widths) = (0, Vec::new(), Vec::new());
    for (server, rows) in &tables {
        let (known, asked) = rows.split_at(2);
        let curve = curve(known);
        for (connections, x) in asked {
            let found = forecast(&curve, &Crossing::default(), *connections).throughput_per_s;
            println!("{server} {connections}: {found:?}, published {x}");
            held += usize::from(found.holds(OpRate(*x)));
            off.push((found.mid.0 / x).ln().abs());
            widths.push(found.high.0 / found.low.0);
        }
        assert!(curve.says_beyond(100).unwrap().contains("two rows fix two of three unknowns"));
    }
    off.sort_by(f64::total_cmp);
    widths.sort_by(f64::total_cmp);
    println!("{held} of {}, median error {:.3}, median factor {:.2}", off.len(), off[7], widths[7]);
    assert!(held * 5 >= off.len() * 4, "{held} of {}", off.len());
    assert!(off[7] < 0.16, "no better than a flat line: {off:?}");
    assert!(widths[7] < 3.5 && widths[13] < 6.0, "{widths:?}");
}

#[test]
fn a_third_row_makes_the_interval_narrower() {
    let (mut held, mut narrower) = (0, 0);
    for rows in tables("scaling.csv").values() {
        let at = |rows: &[(u32, f64)]| {
            forecast(&curve(rows), &Crossing::default(), 100).throughput_per_s
        };
        let (two, three) = (at(&rows[..2]), at(&rows[..3]));
        held += usize::from(three.holds(OpRate(rows[3].1)));
        narrower += usize::from(three.high.0 / three.low.0 < two.high.0 / two.low.0);
        println!("{three:?} {}", rows[3].1);
    }
    assert!(held >= 5 && narrower == 7, "{held} {narrower}");
}

#[test]
fn three_tables_that_were_not_looked_at_are_held_as_well() {
    let (mut held, mut all) = (0, 0);
    for (server, rows) in tables("http-nodelay.csv") {
        if server == "node.js" {
            continue;
        }
        let (known, asked) = rows.split_at(2);
        for (connections, x) in asked {
            let found = forecast(&curve(known), &Crossing::default(), *connections);
            println!("{server} {connections}: {:?}, published {x}", found.throughput_per_s);
            held += usize::from(found.throughput_per_s.holds(OpRate(*x)));
            all += 1;
        }
    }
    println!("{held} of {all}");
    assert!(all == 7 && held >= 6, "{held} of {all}");
}
