//! Requests from a file, and what a right answer is.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Requests from an NDJSON file, one a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// The file.
    pub file: String,
    /// Which comes next.
    #[serde(default)]
    pub order: Order,
    /// What was read of it; stands in no plan that is written.
    #[serde(skip)]
    pub contents: Option<Arc<[u8]>>,
}

/// In which order requests of a file are asked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// As they stand in the file, over all connections, and again from its beginning.
    #[default]
    Turn,
    /// All of them in an order that follows from the seed, and the same again.
    Shuffled,
    /// Each time at random, by their weights.
    Weighted,
}

/// What a right answer is. Any other is an error by its own cause.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Of these statuses; absent: of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Statuses>,
    /// With this text in its body; absent: with any body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

impl Expected {
    /// Whether every answer is right.
    pub fn is_anything(&self) -> bool {
        *self == Self::default()
    }
}

/// Statuses, as in `200,204`, `2xx` or `200-299`.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct Statuses(Vec<(u16, u16)>);

/// As TOML and JSON have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u16),
    Text(String),
}

impl Statuses {
    /// Whether this is one of them.
    #[inline]
    pub fn has(&self, status: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }
}

impl TryFrom<Written> for Statuses {
    type Error = BadStatus;

    fn try_from(written: Written) -> Result<Self, BadStatus> {
        match written {
            Written::Number(number) => number.to_string().parse(),
            Written::Text(text) => text.parse(),
        }
    }
}

/// What is no status.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no status of HTTP: write 200, 2xx or 200-299, several with a comma between")]
pub struct BadStatus(String);

impl FromStr for Statuses {
    type Err = BadStatus;

    fn from_str(text: &str) -> Result<Self, BadStatus> {
        let bad = || BadStatus(text.to_owned());
        let one = |word: &str| {
            let number = |text: &str| text.trim().parse::<u16>().ok();
            let word = word.trim();
            let (first, last) = match (word.strip_suffix("xx"), word.split_once('-')) {
                (Some(class), _) => {
                    let class = number(class).filter(|class| *class < 6)?;
                    (class * 100, class * 100 + 99)
                }
                (None, Some((first, last))) => (number(first)?, number(last)?),
                (None, None) => (number(word)?, number(word)?),
            };
            (100 <= first && first <= last && last <= 599).then_some((first, last))
        };
        let all: Option<Vec<_>> = text.split(',').map(one).collect();
        all.map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match (first, last) {
                _ if first == last => write!(f, "{comma}{first}")?,
                _ if first % 100 == 0 && *last == first + 99 => {
                    write!(f, "{comma}{}xx", first / 100)?;
                }
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl From<Statuses> for String {
    fn from(statuses: Statuses) -> Self {
        statuses.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_classes_and_ranges() {
        for (text, has, has_not) in [
            ("200", 200, 201),
            ("2xx", 299, 300),
            ("200-204,404", 404, 205),
            ("3xx, 200", 200, 201),
        ] {
            let statuses: Statuses = text.parse().unwrap();
            assert!(statuses.has(has) && !statuses.has(has_not), "{text}");
            assert_eq!(statuses.to_string(), text.replace(' ', ""));
        }
        for bad in ["", "ok", "99", "600", "6xx", "204-200", "200,", "x2xx", "70000", "700xx"] {
            assert!(bad.parse::<Statuses>().is_err(), "{bad}");
        }
    }
}
