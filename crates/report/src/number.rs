//! Numbers for people: three significant digits, and the unit that suits them.

use linerate_model::OpRate;

/// Microseconds, scaled: `830 ns`, `40.4 ms`, `1.20 s`.
pub(crate) fn time(us: f64) -> String {
    if !us.is_finite() {
        return "-".into();
    }
    // Rounded before the unit is chosen: 999.9 us is 1.00 ms, not 1000 us.
    let rounded: f64 = format!("{us:.2e}").parse().unwrap_or(us);
    let (value, unit) = match rounded.abs() {
        0.0 => return "0 us".into(),
        size if size < 1.0 => (rounded * 1e3, "ns"),
        size if size < 1e3 => (rounded, "us"),
        size if size < 1e6 => (rounded / 1e3, "ms"),
        _ => (rounded / 1e6, "s"),
    };
    format!("{} {unit}", three(value))
}

/// JSON has neither infinities nor NaN; a run of no length would divide by zero.
pub(crate) fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

/// Seconds, scaled.
pub(crate) fn seconds(s: f64) -> String {
    time(s * 1e6)
}

/// Exchanges a second: `24.8/s`, `12,482/s`.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        0.0 => "0/s".into(),
        _ if per_s.is_finite() => OpRate(per_s).to_string(),
        _ => "-".into(),
    }
}

/// A share as a percentage: `99.6 %`; `-` where a division had nothing to divide by.
pub(crate) fn share(of_one: f64) -> String {
    if of_one.is_finite() { format!("{} %", three(of_one * 100.0)) } else { "-".into() }
}

/// A ratio: `x0.94`, `x161`.
pub(crate) fn ratio(value: f64) -> String {
    if value.is_finite() { format!("x{}", three(value)) } else { "-".into() }
}

/// A count with thousands apart: `2,468`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Decimal bits a second, as `tc(8)` writes them, from bytes a second.
pub(crate) fn bits(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    match bits {
        _ if !bits.is_finite() => "-".into(),
        _ if bits < 1e3 => format!("{} bit/s", three(bits)),
        _ if bits < 1e6 => format!("{} kbit/s", three(bits / 1e3)),
        _ if bits < 1e9 => format!("{} Mbit/s", three(bits / 1e6)),
        _ => format!("{} Gbit/s", three(bits / 1e9)),
    }
}

/// A percentile's name: `p50`, `p99.9`, `max`.
pub(crate) fn percentile(percentile: f64) -> String {
    match percentile {
        100.0 => "max".into(),
        0.0 => "min".into(),
        _ => format!("p{percentile}"),
    }
}

/// Three significant digits, no exponent.
fn three(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    format!("{value:.*}", (2 - magnitude).clamp(0, 3) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_choose_their_unit_after_rounding() {
        for (us, says) in [
            (0.0, "0 us"),
            (0.83, "830 ns"),
            (163.0, "163 us"),
            (999.9, "1.00 ms"),
            (40_400.0, "40.4 ms"),
            (1_204_000.0, "1.20 s"),
            (75_000_000.0, "75.0 s"),
        ] {
            assert_eq!(time(us), says);
        }
    }

    #[test]
    fn what_is_not_a_number_is_a_dash() {
        assert_eq!(time(f64::NAN), "-");
        for says in [rate(f64::INFINITY), share(f64::NAN), ratio(f64::INFINITY), bits(f64::NAN)] {
            assert_eq!(says, "-");
        }
    }

    #[test]
    fn counts_and_bits_are_grouped_and_decimal() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bits(125_000.0), "1.00 Mbit/s");
    }
}
