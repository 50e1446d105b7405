//! The figures of a page, each drawn twice: for wide and for narrow screens.

use crate::svg::{Size, escape};

mod account;
mod between;
mod climbs;
mod costs;
mod experiment;
mod ladder;
mod percentiles;
mod roofline;
mod series;
mod steps;

pub(crate) use account::{Bar, account};
pub(crate) use between::{between, messages};
pub(crate) use climbs::climbs;
pub(crate) use costs::costs;
pub(crate) use experiment::experiment;
pub(crate) use ladder::ladder;
pub(crate) use percentiles::{Curve, percentiles};
pub(crate) use roofline::{Picture, roofline};
pub(crate) use series::series;
pub(crate) use steps::steps;

/// A figure with its caption.
fn figure(id: &str, caption: &str, draw: impl Fn(Size) -> String) -> String {
    format!(
        "<figure class=\"chart\" id=\"{id}\">\n{}\n{}\n<figcaption>{}</figcaption>\n</figure>\n",
        draw(Size::WIDE),
        draw(Size::NARROW),
        escape(caption)
    )
}

/// A rate on an axis: `100`, `20k`, `1.5m`.
fn tick_rate(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}m", round(value / 1e6)),
        _ if value >= 1e3 => format!("{}k", round(value / 1e3)),
        _ => round(value),
    }
}

/// Microseconds on an axis: `200 us`, `5 ms`, `1 s`.
fn tick_time(us: f64) -> String {
    match us {
        0.0 => "0".into(),
        _ if us < 1.0 => format!("{} ns", round(us * 1e3)),
        _ if us < 1e3 => format!("{} us", round(us)),
        _ if us < 1e6 => format!("{} ms", round(us / 1e3)),
        _ => format!("{} s", round(us / 1e6)),
    }
}

/// At most three decimals, none of them a trailing nought.
fn round(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
