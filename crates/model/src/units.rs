//! Units: newtypes for what crosses a crate boundary, and how each is written by a person.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant on the run's clock. Unit: nanoseconds of `CLOCK_MONOTONIC`.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The same as a whole number of nanoseconds.
    #[inline]
    pub fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `duration` later.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_nanos() as u64))
    }
}

/// A size or an amount of memory, in bytes. Written with binary prefixes: `64KiB`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Bytes(pub u64);

/// Exchanges a second. Written `20k`, `2000/s`, `1.5m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct OpRate(pub f64);

/// Bits a second, decimal prefixes: `200Mbit`, `10Gbit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct BitRate(pub f64);

/// A part of a whole, 0 to 1. Written `2%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Share(pub f64);

/// CPUs' worth of time each second: 0.5 is half of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cpus(pub f64);

/// A quantity that could not be read: what stood there, and what to write.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadQuantity {
    /// `10Kb`: bits or bytes, decimal or binary?
    #[error("`{0}` is not a size: write bytes, or a number with KiB, MiB or GiB, as in `64KiB`")]
    NotASize(String),
    /// Not a rate of exchanges.
    #[error(
        "`{0}` is not a rate: write exchanges a second, as in `2000`, `20k`, `1.5m` or `2000/s`"
    )]
    NotARate(String),
    /// `10MB/s`: bits or bytes?
    #[error("`{0}` is not a rate of bits: write a number with kbit, Mbit or Gbit, as in `200Mbit`")]
    NotABitRate(String),
    /// Neither packets nor bytes.
    #[error("`{0}` is not a queue: write packets, as in `1000`, or bytes, as in `256KiB`")]
    NotAQueue(String),
    /// Not a share.
    #[error("`{0}` is not a share: write a percentage, as in `2%`")]
    NotAShare(String),
}

/// A duration that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a duration: write a number with us, ms, s, m or h, as in `500ms`; a bare number is seconds"
)]
pub struct BadDuration(pub String);

/// Reads `500ms`, `1.5s`, `2m`, `1h`, `30` (seconds).
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_each = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * seconds_each).map_err(|_| bad())
}

/// The shortest exact way to write a duration that [`parse_duration`] reads back.
pub(crate) fn write_duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    for (unit, each) in [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)] {
        if ns > 0 && ns.is_multiple_of(each) {
            return format!("{}{unit}", ns / each);
        }
    }
    match ns {
        0 => "0s".to_owned(),
        _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    }
}

impl FromStr for Bytes {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity::NotASize(text.to_owned());
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let shift = match unit {
            "" | "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => return Err(bad()),
        };
        let number: u64 = number.trim().parse().map_err(|_| bad())?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{} KiB", three(value / 1024.0)),
            1_048_576..1_073_741_824 => write!(f, "{} MiB", three(value / 1_048_576.0)),
            _ => write!(f, "{} GiB", three(value / 1_073_741_824.0)),
        }
    }
}

impl FromStr for OpRate {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity::NotARate(text.to_owned());
        let body = text.strip_suffix("/s").unwrap_or(text);
        let (number, each) = match body.strip_suffix(['k', 'K']) {
            Some(number) => (number, 1e3),
            None => match body.strip_suffix(['m', 'M']) {
                Some(number) => (number, 1e6),
                None => (body, 1.0),
            },
        };
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        // A rate of 10 G/s is more than any machine's clock can tell apart: one is due each 0.1 ns.
        if !(number.is_finite() && number > 0.0 && number * each <= 1e9) {
            return Err(bad());
        }
        Ok(OpRate(number * each))
    }
}

impl fmt::Display for OpRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", grouped(self.0))
    }
}

impl FromStr for BitRate {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity::NotABitRate(text.to_owned());
        let body = text.strip_suffix("/s").unwrap_or(text);
        let split = body.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(body.len());
        let (number, unit) = body.split_at(split);
        let each = match unit {
            "bit" | "" => 1.0,
            "kbit" => 1e3,
            "Mbit" => 1e6,
            "Gbit" => 1e9,
            _ => return Err(bad()),
        };
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        let rate = number * each;
        if rate.is_finite() && rate > 0.0 { Ok(BitRate(rate)) } else { Err(bad()) }
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            rate if rate >= 1e9 => (rate / 1e9, "Gbit/s"),
            rate if rate >= 1e6 => (rate / 1e6, "Mbit/s"),
            rate if rate >= 1e3 => (rate / 1e3, "kbit/s"),
            rate => (rate, "bit/s"),
        };
        write!(f, "{} {unit}", three(value))
    }
}

impl Serialize for BitRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            // Reports hold measured shares, which noise may have put beyond the whole.
            Written::Whole(number) => Ok(Share(number as f64)),
            Written::Number(number) => Ok(Share(number)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// What stands there, number or text, as text.
pub(crate) fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Written::deserialize(deserializer)?.text())
}

impl FromStr for Share {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity::NotAShare(text.to_owned());
        let (number, each) = match text.strip_suffix('%') {
            Some(number) => (number, 0.01),
            None => (text, 1.0),
        };
        let number: f64 = number.trim().parse().map_err(|_| bad())?;
        let share = number * each;
        if (0.0..=1.0).contains(&share) { Ok(Share(share)) } else { Err(bad()) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", three(self.0 * 100.0))
    }
}

/// Three significant digits, no exponent: `24.8`, `3.14`, `128`.
fn three(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    format!("{value:.*}", (2 - magnitude).clamp(0, 3) as usize)
}

/// Three significant digits below a thousand, whole numbers with thousands apart above it.
fn grouped(value: f64) -> String {
    if value.abs() < 1000.0 {
        return three(value);
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl Serialize for OpRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

/// Either a bare number in the base unit, or text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Written {
    Whole(u64),
    Number(f64),
    Text(String),
}

impl Written {
    pub(crate) fn text(self) -> String {
        match self {
            Written::Whole(number) => number.to_string(),
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Written::deserialize(deserializer)?.text();
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for OpRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            // Reports hold measured rates, and those may be nothing.
            Written::Whole(number) => Ok(OpRate(number as f64)),
            Written::Number(number) => Ok(OpRate(number)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// Durations in plans: `"500ms"`, or a bare number of seconds.
pub(crate) mod duration {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&write_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        parse_duration(&Written::deserialize(d)?.text()).map_err(serde::de::Error::custom)
    }
}

/// The same for what may be left out.
pub(crate) mod optional_duration {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => s.serialize_str(&write_duration(*value)),
            None => s.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<Written>::deserialize(d)?
            .map(|written| parse_duration(&written.text()).map_err(serde::de::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_be_written_as_people_write_it() {
        assert_eq!("20k".parse(), Ok(OpRate(20_000.0)));
        assert_eq!("2000/s".parse(), Ok(OpRate(2_000.0)));
        assert_eq!("1.5m".parse(), Ok(OpRate(1_500_000.0)));
    }

    #[test]
    fn a_rate_of_nothing_is_refused_with_what_to_write() {
        let error = "0".parse::<OpRate>().unwrap_err();
        assert!(error.to_string().contains("`0` is not a rate"), "{error}");
        assert!("-3".parse::<OpRate>().is_err());
        assert!("nan".parse::<OpRate>().is_err());
    }

    #[test]
    fn sizes_are_binary_and_kb_is_refused() {
        assert_eq!("64KiB".parse(), Ok(Bytes(65_536)));
        assert!("64kB".parse::<Bytes>().unwrap_err().to_string().contains("64KiB"));
        assert!("99999999999999GiB".parse::<Bytes>().is_err());
    }

    #[test]
    fn durations_read_back_as_they_are_written() {
        for text in ["500ms", "90s", "2m", "1h", "250us", "0s"] {
            let read = parse_duration(text).unwrap();
            assert_eq!(parse_duration(&write_duration(read)).unwrap(), read);
        }
        assert_eq!(parse_duration("30").unwrap(), Duration::from_secs(30));
        assert!(parse_duration("soon").is_err());
        assert!(parse_duration("-1s").is_err());
    }

    #[test]
    fn bit_rates_are_decimal_and_bytes_a_second_are_refused() {
        assert_eq!("200Mbit".parse(), Ok(BitRate(2e8)));
        assert_eq!("1.5Gbit/s".parse(), Ok(BitRate(1.5e9)));
        assert_eq!(BitRate(2e8).to_string(), "200 Mbit/s");
        for bad in ["10MB/s", "0Mbit", "-1kbit", "fast"] {
            assert!(bad.parse::<BitRate>().unwrap_err().to_string().contains("200Mbit"), "{bad}");
        }
    }

    #[test]
    fn numbers_for_people_have_three_digits_that_matter() {
        assert_eq!(OpRate(24.752).to_string(), "24.8/s");
        assert_eq!(OpRate(12_481.7).to_string(), "12,482/s");
        assert_eq!(Share(0.9963).to_string(), "99.6 %");
        assert_eq!(Bytes(4_194_304).to_string(), "4.00 MiB");
    }
}
