//! Where the agent's beams are.

use std::path::{Path, PathBuf};

/// No folder has them.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no linerate_control.beam in {looked}")]
pub struct NoAgent {
    /// Where it was looked for.
    pub looked: String,
}

/// The folder of the agent's beams: the first that has them of what was given, the environment's, and
/// the build's place below this folder and below the program's.
pub fn find_agent(given: Option<&Path>) -> Result<PathBuf, NoAgent> {
    let environment = std::env::var_os("LINERATE_AGENT").map(PathBuf::from);
    let program = std::env::current_exe().ok();
    let folders = folders(given, environment.as_deref(), program.as_deref());
    let built = |folder: &&PathBuf| folder.join("linerate_control.beam").is_file();
    match folders.iter().find(built) {
        // The node's folder is ours, but what it loads later is found from where it stands then.
        Some(folder) => Ok(folder.canonicalize().unwrap_or_else(|_| folder.clone())),
        None => {
            let looked: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
            Err(NoAgent { looked: looked.join(", ") })
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
