//! Names that a shell can complete. What is typed is taken as it is: whoever uses it says what it should have been.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use linerate_roofline::roofs::ROOFS;

use crate::commands::study;

/// The agent's servers, as `linerate_servers` lists them.
pub const SERVERS: [&str; 20] = [
    "httpd",
    "http",
    "echo",
    "rr",
    "funnel",
    "pool",
    "heap",
    "terms",
    "logs",
    "jobs",
    "traced",
    "https",
    "journal",
    "relay",
    "shaped",
    "sink",
    "hub",
    "chat",
    "stream-terms",
    "dist-link",
];

/// See the module.
#[derive(Clone)]
pub struct Known(fn() -> Vec<String>);

/// Ids of roofs.
pub fn roofs() -> Known {
    Known(|| ROOFS.iter().map(|roof| roof.id.to_owned()).collect())
}

/// Names of the agent's servers.
pub fn servers() -> Known {
    Known(|| SERVERS.map(str::to_owned).to_vec())
}

/// Names of the studies that are found here.
pub fn studies() -> Known {
    Known(study::names)
}

impl Known {
    /// All of them.
    pub fn names(&self) -> Vec<String> {
        (self.0)()
    }
}

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        // clap keeps names for ever; this program prints once and ends.
        let value = |name: String| PossibleValue::new(&*name.leak());
        Some(Box::new(self.names().into_iter().map(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_are_those_of_the_agent() {
        let file =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent/src/server/linerate_servers.erl");
        let text = std::fs::read_to_string(file).unwrap();
        let list = text.split_once("\nall() ->").unwrap().1.split_once(']').unwrap().0;
        let names = list.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let names: Vec<String> = names
            .filter_map(|it| it.strip_prefix("linerate_"))
            .map(|name| name.replace('_', "-"))
            .collect();
        assert_eq!(names, SERVERS);
    }
}
