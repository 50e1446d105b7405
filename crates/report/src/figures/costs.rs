//! The account of a link: a bar for each node, with a segment for what each part costs, beside the time that a megabyte,
//! or a message, took.

use super::{figure, tick_time};
use crate::document::StudyDocument;
use crate::link_account::{End, LinkAccount};
use crate::number::time;
use crate::svg::{Chart, Scale, Size, says_attribute};

/// The figure; nothing without an account.
pub(crate) fn costs(study: &StudyDocument, caption: &str) -> String {
    if study.accounts.is_empty() {
        return String::new();
    }
    figure("costs", caption, |size| draw(&study.accounts, size))
}

/// A bar: what it is of, its segments with their names, and their sum.
struct Bar<'a> {
    says: String,
    segments: Vec<(&'a str, f64)>,
    measured: bool,
}

fn bars(account: &LinkAccount) -> [Bar<'_>; 3] {
    let of = |node: End, sum: f64| {
        let costs = account.costs.iter().filter(|cost| cost.node == node);
        let segments: Vec<_> =
            costs.map(|cost| (cost.says.as_str(), account.us(cost.us_per_mb))).collect();
        let parts: Vec<String> =
            segments.iter().map(|(says, us)| format!("{says} {}", time(*us))).collect();
        let says = format!("{}, the node that {}: {}", time(sum), node.says(), parts.join(", "));
        Bar { says, segments, measured: false }
    };
    let measured = account.us(account.measured_us_per_mb());
    let says = format!(
        "{}, {}: {}; predicted {}",
        time(measured),
        account.series,
        account.rate(account.run.measured_bit_s),
        account.rate(account.predicted_bit_s)
    );
    [
        of(End::Near, account.us(account.near_us_per_mb)),
        of(End::Far, account.us(account.far_us_per_mb)),
        Bar { says, segments: vec![("measured", measured)], measured: true },
    ]
}

fn draw(accounts: &[LinkAccount], mut size: Size) -> String {
    let row = size.font * 3.6;
    let (left, top, under) = (size.font, size.font * 0.6, size.font * 3.8);
    let all: Vec<Bar> = accounts.iter().flat_map(bars).collect();
    let bottom = top + row * all.len() as f64;
    size.height = (bottom + under).ceil();
    let right = size.width - size.font * 2.0;
    let sum = |bar: &Bar| bar.segments.iter().map(|(_, us)| us).sum::<f64>();
    let most = all.iter().map(sum).fold(0.0, f64::max);
    let x = Scale::linear(most, (left, right));
    let mut chart = Chart::new(size, (left, top, right, bottom));
    let unit = accounts.first().map_or_else(|| "a megabyte".into(), LinkAccount::unit);
    chart.across(&x, &format!("time {unit}"), tick_time);
    for (index, bar) in all.iter().enumerate() {
        let head = top + row * index as f64 + size.font * 1.2;
        let (upper, lower) = (head + size.font * 0.5, head + size.font * 1.9);
        let room = size.characters(right - left);
        chart.text("step", left, head, &bar.says.chars().take(room).collect::<String>());
        let mut before = 0.0;
        for (number, (says, us)) in bar.segments.iter().enumerate() {
            let (from, to) = (x.at(before), x.at(before + us));
            let corners = [(from, upper), (to, upper), (to, lower), (from, lower), (from, upper)];
            let class =
                if bar.measured { "bar".to_owned() } else { format!("segment s{}", number % 6) };
            chart.path(&class, &corners, &says_attribute(&format!("{says}: {}", time(*us))));
            before += us;
        }
    }
    let says: Vec<String> = all.iter().map(|bar| bar.says.clone()).collect();
    chart.finish("costs", &format!("What {unit} costs at either node"), &says.join("; "))
}
