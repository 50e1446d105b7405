//! Where the agent's beams are.

use std::path::{Path, PathBuf};

use crate::embedded::{compiled, kept};

/// There are no beams.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoAgent {
    /// No folder has them.
    #[error("no linerate_control.beam in {looked}")]
    NotBuilt {
        /// Where it was looked for.
        looked: String,
    },
    /// Those inside this program could not be compiled.
    #[error("{reason}")]
    NotCompiled {
        /// By folder, why not.
        reason: String,
    },
}

/// As [`find_agent`]; where nobody named a folder and none has them, those inside this program.
pub fn agent(given: Option<&Path>) -> Result<PathBuf, NoAgent> {
    find_agent(given).or_else(|none| {
        if is_named(given) {
            return Err(none);
        }
        compiled().map_err(|reason| NoAgent::NotCompiled { reason })
    })
}

/// The same, as far as it is there without compiling anything now.
pub(crate) fn at_hand(given: Option<&Path>) -> Option<PathBuf> {
    find_agent(given).ok().or_else(|| if is_named(given) { None } else { kept() })
}

fn is_named(given: Option<&Path>) -> bool {
    given.is_some() || std::env::var_os(NAMED).is_some()
}

/// The variable that names the folder.
const NAMED: &str = "LINERATE_AGENT";

/// The folder of the agent's beams: the first that has them of what was given, the environment's, and
/// the build's place below this folder and below the program's.
pub fn find_agent(given: Option<&Path>) -> Result<PathBuf, NoAgent> {
    let environment = std::env::var_os(NAMED).map(PathBuf::from);
    let program = std::env::current_exe().ok();
    let folders = folders(given, environment.as_deref(), program.as_deref());
    let built = |folder: &&PathBuf| folder.join("linerate_control.beam").is_file();
    match folders.iter().find(built) {
        // The node's folder is ours, but what it loads later is found from where it stands then.
        Some(folder) => Ok(folder.canonicalize().unwrap_or_else(|_| folder.clone())),
        None => {
            let looked: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
            Err(NoAgent::NotBuilt { looked: looked.join(", ") })
        }
    }
}

/// Source: rebar3's place for what it builds.
const BUILT: &str = "agent/_build/default/lib/linerate/ebin";

fn folders(
    given: Option<&Path>,
    environment: Option<&Path>,
    program: Option<&Path>,
) -> Vec<PathBuf> {
    // Who names a folder means that one: a build found elsewhere would be another agent.
    if let Some(named) = given.or(environment) {
        return vec![named.to_path_buf()];
    }
    let above = program.into_iter().flat_map(|program| program.ancestors().skip(1));
    std::iter::once(PathBuf::from(BUILT)).chain(above.map(|folder| folder.join(BUILT))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_folder_is_the_only_one_looked_in() {
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        assert_eq!(folders(Some(a), Some(b), None), [a]);
        assert_eq!(folders(None, Some(b), None), [b]);
        let found = folders(None, None, Some(Path::new("/r/target/release/linerate")));
        assert_eq!(found[0], Path::new(BUILT));
        assert!(found.contains(&Path::new("/r").join(BUILT)));
    }
}
