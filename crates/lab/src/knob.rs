//! What can be turned at a target: names, permitted values, defaults.

use std::fmt;

/// A knob of a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KnobSpec {
    /// As plans write it.
    pub name: String,
    /// What it may be.
    pub values: Vec<Permitted>,
    /// What it is if nobody says.
    pub default: String,
    /// Where it is turned: `at start`.
    pub how: &'static str,
    /// What it does, in a few words; empty where the target does not say.
    pub says: String,
}

/// Some of the values that a knob may have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Permitted {
    /// This word.
    Word(String),
    /// These integers, both ends included.
    Range(i64, i64),
    /// Anything: a word in a command means what the command takes it for.
    Any,
}

/// How a value of any kind is shown, here and by the agent (`linerate_knobs.erl`).
const ANYTHING: &str = "anything";

impl KnobSpec {
    /// Whether it may have this value.
    pub fn permits(&self, value: &str) -> bool {
        self.values.iter().any(|permitted| match permitted {
            Permitted::Word(word) => word == value,
            Permitted::Range(least, most) => {
                value.parse().is_ok_and(|value: i64| (*least..=*most).contains(&value))
            }
            Permitted::Any => true,
        })
    }

    /// What it may be, for people: `off|on`, `1..65535`.
    pub fn alternatives(&self) -> String {
        self.values.iter().map(Permitted::to_string).collect::<Vec<_>>().join("|")
    }
}

impl fmt::Display for Permitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Permitted::Word(word) => f.write_str(word),
            Permitted::Range(least, most) => write!(f, "{least}..{most}"),
            Permitted::Any => f.write_str(ANYTHING),
        }
    }
}

/// Reads a knob as the agent shows it: `off|on/off`, and a sentence after another `/` if it has one.
pub(crate) fn of_agent(name: &str, shown: &str) -> Option<KnobSpec> {
    let mut parts = shown.splitn(3, '/');
    let (values, default, says) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    let values = values
        .split('|')
        .map(|value| {
            let range = value.split_once("..").and_then(|(least, most)| {
                Some(Permitted::Range(least.parse().ok()?, most.parse().ok()?))
            });
            match value {
                ANYTHING => Permitted::Any,
                _ => range.unwrap_or_else(|| Permitted::Word(value.to_owned())),
            }
        })
        .collect();
    Some(KnobSpec {
        name: name.to_owned(),
        values,
        default: default.to_owned(),
        how: "at start",
        says: says.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_ranges_may_stand_in_one_knob() {
        let knob = of_agent("active", "passive|once|true|1..32767/once").unwrap();
        assert_eq!(knob.default, "once");
        assert_eq!(knob.alternatives(), "passive|once|true|1..32767");
        assert!(knob.permits("passive") && knob.permits("100") && knob.permits("32767"));
        assert!(!knob.permits("0") && !knob.permits("sometimes") && !knob.permits(""));
    }

    #[test]
    fn a_knob_may_take_any_text_besides_its_words() {
        let knob = of_agent("term", "pair|tree|anything/pair").unwrap();
        assert!(knob.permits("tree") && knob.permits("{N, [N]}"));
        assert_eq!(knob.alternatives(), "pair|tree|anything");
    }

    #[test]
    fn a_sentence_may_follow_and_hold_slashes() {
        let knob = of_agent("nodelay", "off|on/off/see tcp(7) and/or socket(7)").unwrap();
        assert_eq!(knob.says, "see tcp(7) and/or socket(7)");
    }

    #[test]
    fn without_a_default_it_is_no_knob() {
        assert_eq!(of_agent("nodelay", "off|on"), None);
    }
}
