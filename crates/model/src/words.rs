//! Numbers for people.

/// A time in seconds, three significant digits: `40.4 ms`.
pub fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    let digits = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// A share: `12 %`.
pub fn in_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The same with so many digits that it is not zero: `0.12 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        most if most >= 10.0 => format!("{most:.0} %"),
        some if some >= 1.0 => format!("{some:.1} %"),
        few => format!("{few:.2} %"),
    }
}

/// Two significant digits, upwards: 1,234 is 1,300.
pub fn rounded_up(number: f64) -> u64 {
    let number = number.ceil().max(1.0);
    let unit = 10f64.powf(number.log10().floor() - 1.0).max(1.0);
    ((number / unit).ceil() * unit) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_enough_and_never_less_than_what_is_needed() {
        assert_eq!([1.0, 9.2, 99.0, 101.0, 1234.0].map(rounded_up), [1, 10, 99, 110, 1300]);
    }
}
