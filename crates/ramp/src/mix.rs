//! Which users there are: classes by share, and how long each pauses between what it does.

use std::fmt;
use std::str::FromStr;

use linerate_model::Think;

/// A class of users.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name, as reports have it.
    pub name: String,
    /// How many there are of it, beside those of the others.
    pub weight: u32,
    /// The pause between two messages; none: it is online and says nothing.
    pub think: Option<Think>,
}

/// Classes of users; those that say nothing stand first.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix(Vec<Class>);

/// A mix that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadMix {
    /// Not written as one.
    #[error(
        "`{0}` is no class of users: write NAME=SHARE, or NAME=SHARE@PAUSE for one that sends messages, as in idle=20,active=80@exp:10s"
    )]
    Written(String),
    /// Its pause could not be read.
    #[error("class {0}: {1}")]
    Pause(String, linerate_model::BadThink),
    /// Nobody.
    #[error("a mix without users: write a share above 0, as in idle=20,active=80@exp:10s")]
    Empty,
}

impl Mix {
    /// Users that say nothing.
    pub fn idle() -> Self {
        Self(vec![Class { name: "idle".into(), weight: 1, think: None }])
    }

    /// Its classes; those that say nothing first.
    pub fn classes(&self) -> &[Class] {
        &self.0
    }

    fn weights(&self) -> u64 {
        self.0.iter().map(|class| u64::from(class.weight)).sum()
    }

    /// The share of a class, by its place.
    pub fn share(&self, class: usize) -> f64 {
        f64::from(self.0[class].weight) / self.weights() as f64
    }

    /// How many of the first `users` are of each class: as near to the shares as whole users can be.
    pub(crate) fn counts(&self, users: u32) -> Vec<u32> {
        let (all, mut weight, mut before) = (self.weights(), 0, 0);
        let mut counts = Vec::with_capacity(self.0.len());
        for class in &self.0 {
            weight += u64::from(class.weight);
            let until = ((u64::from(users) * weight + all / 2) / all) as u32;
            counts.push(until - before);
            before = until;
        }
        counts
    }
}

impl Default for Mix {
    /// The study's: 20 % idle, 60 % semi-active, 20 % active.
    fn default() -> Self {
        // Source of the shares: studies/published, capacity (2007). Chosen, because it does not tell them: a message a
        // minute of one who is there beside other work, and one in ten seconds of one who talks.
        "idle=20,semi-active=60@exp:60s,active=20@exp:10s"
            .parse()
            .expect("is written as it is read")
    }
}

impl FromStr for Mix {
    type Err = BadMix;

    fn from_str(text: &str) -> Result<Self, BadMix> {
        let mut classes = Vec::new();
        for part in text.split(',') {
            let wrong = || BadMix::Written(part.to_owned());
            let (name, rest) = part.trim().split_once('=').ok_or_else(wrong)?;
            let (share, think) = match rest.split_once('@') {
                Some((share, pause)) => {
                    let think = pause.parse::<Think>();
                    (share, Some(think.map_err(|bad| BadMix::Pause(name.to_owned(), bad))?))
                }
                None => (rest, None),
            };
            let weight = share.trim().trim_end_matches('%').parse().map_err(|_| wrong())?;
            // Chosen: more than anybody needs, and products with users fit.
            if name.is_empty() || weight > 1_000_000 {
                return Err(wrong());
            }
            classes.push(Class { name: name.to_owned(), weight, think });
        }
        classes.retain(|class| class.weight > 0);
        classes.sort_by_key(|class| class.think.is_some());
        if classes.is_empty() { Err(BadMix::Empty) } else { Ok(Self(classes)) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, class) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}={}", class.name, class.weight)?;
            if let Some(think) = &class.think {
                write!(f, "@{think}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_written_as_it_is_read_and_who_says_nothing_stands_first() {
        let mix: Mix = "active=20@exp:10s,idle=80%".parse().unwrap();
        assert_eq!(mix.to_string(), "idle=80,active=20@exp:10s");
        assert_eq!(mix.counts(1_000), [800, 200]);
        assert_eq!(Mix::default().counts(3_000), [600, 1_800, 600]);
    }

    #[test]
    fn whole_users_are_as_near_to_the_shares_as_they_can_be_and_none_is_left_out() {
        let mix: Mix = "a=1,b=1@1s,c=1@1s".parse().unwrap();
        for users in 0..50 {
            let counts = mix.counts(users);
            assert_eq!(counts.iter().sum::<u32>(), users);
            assert!(counts.iter().all(|count| (*count).abs_diff(users / 3) <= 1), "{counts:?}");
        }
    }

    #[test]
    fn what_is_no_mix_is_refused_with_what_to_write() {
        for (text, says) in [
            ("idle", "write NAME=SHARE"),
            ("idle=many", "write NAME=SHARE"),
            ("a=20@soon", "class a: `soon` is not a think time"),
            ("a=0", "without users"),
            ("=5", "write NAME=SHARE"),
        ] {
            let error = text.parse::<Mix>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
