//! The file of a study of users: its climbs, each as flags of `linerate capacity`.

use std::collections::BTreeMap;
use std::path::Path;

use linerate_report::Purpose;
use serde::Deserialize;

use crate::failure::Failure;

/// The file. A user's own looks the same.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsersFile {
    pub name: String,
    pub about: String,
    /// CSV of published figures, beside the study's file.
    pub published: String,
    /// What users are to fit in: `512MiB`.
    pub memory: String,
    /// Flags of every climb.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Flags of climbs by what they are for.
    #[serde(default)]
    pub of: BTreeMap<String, Vec<String>>,
    /// How often each of those is made that say what a setting does.
    #[serde(default = "one")]
    pub rounds: u32,
    /// What `--short` makes of it.
    pub short: ShortUsers,
    pub climbs: Vec<ClimbRule>,
    #[serde(default)]
    pub settings: Vec<SettingRule>,
    #[serde(default)]
    pub claims: Vec<UsersClaim>,
}

fn one() -> u32 {
    1
}

/// A quicker form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShortUsers {
    #[serde(default = "one")]
    pub rounds: u32,
    /// Flags instead of those of the same name.
    #[serde(default)]
    pub of: BTreeMap<String, Vec<String>>,
    /// Climbs that it leaves out.
    #[serde(default)]
    pub without: Vec<String>,
    /// What that leaves out, in a sentence.
    pub says: String,
}

/// One climb.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClimbRule {
    pub name: String,
    #[serde(rename = "for")]
    pub purpose: Purpose,
    /// The series that has all but what is turned here.
    pub beside: Option<String>,
    /// Of `linerate capacity`.
    pub flags: Vec<String>,
    /// In the short form these as well.
    #[serde(default)]
    pub short_flags: Vec<String>,
    /// A program that starts the service, says in a line of JSON where it is, and ends it when its input ends. Its words
    /// and the climb's have `{folder}`, the study's own; `{users}`, those asked for; and what the line says.
    #[serde(default)]
    pub service: Vec<String>,
    /// What it needs.
    #[serde(default)]
    pub needs: Vec<NeedRule>,
}

/// A program that must be there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeedRule {
    pub program: String,
    /// The sentence that says how to get it.
    pub install: String,
}

/// A setting of then.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingRule {
    pub says: String,
    /// As published, where its figures are not in the table.
    pub then: Option<String>,
    /// The settings with it, and those without it, of the published table.
    pub published: Option<[String; 2]>,
    /// What is left of it.
    pub today: String,
    /// The climb that turns it.
    pub climb: Option<String>,
}

/// What the study claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum UsersClaim {
    /// The limit that a climb met.
    Limit { says: String, climb: String, by: String },
    /// Users that the memory holds by what each takes; `tried`: that were held in it.
    Holds {
        says: String,
        climb: String,
        #[serde(default)]
        tried: bool,
        #[serde(default)]
        least: Option<f64>,
        #[serde(default)]
        most: Option<f64>,
        /// Why, where it does not hold any more.
        otherwise: Option<String>,
    },
    /// What a climb does to the users that the memory holds: within these ratios for certain, or not to be told apart
    /// from nothing (`none = true`).
    Effect {
        says: String,
        climb: String,
        #[serde(default)]
        none: bool,
        #[serde(default)]
        least: Option<f64>,
        #[serde(default)]
        most: Option<f64>,
        otherwise: Option<String>,
    },
}

impl UsersFile {
    /// Whether this is the file of such a study: it has climbs.
    pub fn is_one(path: &Path) -> bool {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("climbs"))
    }

    /// Reads it.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::plan(format!("{shown}: cannot be read: {error}")))?;
        let file: Self = toml::from_str(&text).map_err(|error| {
            Failure::plan(format!("{shown}: {}", error.to_string().trim().replace('\n', " ")))
        })?;
        let is_there = |name: &String| file.climbs.iter().any(|climb| climb.name == *name);
        let named = file.climbs.iter().filter_map(|climb| climb.beside.as_ref());
        let named = named.chain(file.settings.iter().filter_map(|setting| setting.climb.as_ref()));
        match named.chain(&file.short.without).find(|name| !is_there(name)) {
            Some(name) => Err(Failure::plan(format!(
                "{shown}: `{name}` is no climb: write the name of one of [[climbs]]"
            ))),
            None => Ok(file),
        }
    }

    /// What is left of it with `--short`.
    pub fn shorten(&mut self) {
        self.rounds = self.short.rounds;
        self.of.extend(std::mem::take(&mut self.short.of));
        let without = &self.short.without;
        self.climbs.retain(|climb| !without.contains(&climb.name));
        for climb in &mut self.climbs {
            climb.flags.append(&mut climb.short_flags);
        }
    }

    /// All flags of a climb; what stands last is what holds.
    pub fn flags_of(&self, climb: &ClimbRule) -> Vec<String> {
        let purpose = match climb.purpose {
            Purpose::Server => "server",
            Purpose::Limit => "limit",
            Purpose::Turned => "turned",
        };
        let of = self.of.get(purpose).into_iter().flatten();
        self.flags.iter().chain(of).chain(&climb.flags).cloned().collect()
    }
}
