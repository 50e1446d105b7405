//! How long a client pauses between an answer and its next request, as a plan says it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{Written, parse_duration, write_duration};

/// Think time: of each connection of a closed loop, from its seed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Think {
    /// Always this: `100ms`.
    Fixed(Duration),
    /// Anything from the one to the other, each as likely: `50ms..200ms`.
    Between(Duration, Duration),
    /// Exponential, of this mean: `exp:100ms`.
    Exponential(Duration),
}

/// A think time that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadThink {
    /// Not written as one.
    #[error(
        "`{0}` is not a think time: write 100ms, 50ms..200ms (each as likely) or exp:100ms (exponential, of that mean)"
    )]
    Written(String),
    /// It takes no time.
    #[error("`{0}` is no time to think: leave it out, or write for example 100ms")]
    Zero(String),
    /// From more to less.
    #[error("`{0}` begins above its end: write the shorter time first, as in 50ms..200ms")]
    Backwards(String),
    /// Longer than any run.
    #[error("`{0}` is longer than a day: write 24h or less")]
    Long(String),
}

impl Think {
    /// Its mean.
    pub fn mean(self) -> Duration {
        match self {
            Think::Fixed(time) | Think::Exponential(time) => time,
            Think::Between(from, to) => (from + to) / 2,
        }
    }
}

impl FromStr for Think {
    type Err = BadThink;

    fn from_str(text: &str) -> Result<Self, BadThink> {
        // A bare number is no time to think: `--think 100` of somebody who means ms would be 100 s.
        let time = |part: &str| match parse_duration(part) {
            Ok(time) if part.ends_with(|last: char| last.is_ascii_alphabetic()) => Ok(time),
            _ => Err(BadThink::Written(text.to_owned())),
        };
        let think = match (text.split_once(".."), text.strip_prefix("exp:")) {
            (Some((from, to)), _) => Think::Between(time(from)?, time(to)?),
            (None, Some(mean)) => Think::Exponential(time(mean)?),
            (None, None) => Think::Fixed(time(text)?),
        };
        let bad = match think {
            _ if think.mean().is_zero() => BadThink::Zero,
            Think::Between(from, to) if from > to => BadThink::Backwards,
            _ if think.mean() > Duration::from_secs(24 * 3600) => BadThink::Long,
            _ => return Ok(think),
        };
        Err(bad(text.to_owned()))
    }
}

impl Serialize for Think {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Think {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer)?.text().parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |time: &Duration| write_duration(*time);
        match self {
            Think::Fixed(time) => write!(f, "{}", write(time)),
            Think::Between(from, to) => write!(f, "{}..{}", write(from), write(to)),
            Think::Exponential(mean) => write!(f, "exp:{}", write(mean)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_think_time_is_written_as_it_is_read() {
        let ms = Duration::from_millis;
        for (text, think, mean) in [
            ("100ms", Think::Fixed(ms(100)), ms(100)),
            ("50ms..200ms", Think::Between(ms(50), ms(200)), ms(125)),
            ("0s..1s", Think::Between(ms(0), ms(1000)), ms(500)),
            ("exp:2s", Think::Exponential(ms(2000)), ms(2000)),
        ] {
            assert_eq!(text.parse(), Ok(think));
            assert_eq!((think.to_string().as_str(), think.mean()), (text, mean));
        }
    }

    #[test]
    fn what_is_none_is_refused_with_what_to_write() {
        for (text, says) in [
            ("soon", "write 100ms, 50ms..200ms"),
            ("100", "is not a think time"),
            ("0s", "no time to think"),
            ("0ms..0ms", "no time to think"),
            ("exp:0s", "no time to think"),
            ("200ms..50ms", "shorter time first"),
            ("2h..60h", "longer than a day"),
            ("-5ms", "is not a think time"),
            ("exp:", "is not a think time"),
        ] {
            let error = text.parse::<Think>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
