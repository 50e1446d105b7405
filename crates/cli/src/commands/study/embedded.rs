//! The studies inside this program, for who has it without its repository.

use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use linerate_beam::cache;

macro_rules! texts {
    ($($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../../", $file)))),+]
    };
}

/// Each file of the studies, and of the servers that they start: name and text.
const TEXTS: &[(&str, &str)] = texts![
    "fixtures/nginx/serve.sh",
    "fixtures/nodes/beam.py",
    "fixtures/nodes/echo.erl",
    "fixtures/nodes/echo.py",
    "fixtures/nodes/ejabberd.py",
    "fixtures/nodes/pages.erl",
    "fixtures/nodes/rabbitmq.py",
    "fixtures/nodes/serve",
    "fixtures/nodes/yaws.py",
    "studies/capacity.toml",
    "studies/dist-link.toml",
    "studies/echo-sites.toml",
    "studies/http-nodelay.toml",
    "studies/http-nodelay/server.js",
    "studies/published/capacity.csv",
    "studies/published/dist-link.csv",
    "studies/published/echo-sites.csv",
    "studies/published/http-nodelay.csv",
    "studies/published/scaling.csv",
    "studies/published/stream-terms.csv",
    "studies/stream-terms.toml",
];

/// The last of them.
const LAST: &str = "studies/stream-terms.toml";

/// Their names, in order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().filter_map(|(file, _)| file.strip_prefix("studies/")?.strip_suffix(".toml"))
}

/// The folder of the studies in one with all of this, in the user's cache.
///
/// # Errors
/// Where it was tried, and why it could not be made there.
pub(super) fn folder() -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    TEXTS.hash(&mut hasher);
    let name = format!("studies-{:016x}", hasher.finish());
    cache::folder(&name, LAST, &written).map(|folder| folder.join("studies"))
}

fn written(at: &Path) -> io::Result<()> {
    for (name, text) in TEXTS {
        let file = at.join(name);
        fs::create_dir_all(file.parent().unwrap_or(at))?;
        fs::write(&file, text)?;
        if text.starts_with("#!") {
            fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn inside() -> BTreeSet<&'static str> {
        TEXTS.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn every_file_of_the_studies_is_inside() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let names = |of: &Path| {
            let entries = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
            entries.collect::<Vec<_>>()
        };
        let (files, folders): (Vec<_>, Vec<_>) =
            names(&root.join("studies")).into_iter().partition(|path| path.is_file());
        for file in files.into_iter().chain(folders.iter().flat_map(|of| names(of))) {
            let name = file.strip_prefix(root).unwrap().to_str().unwrap();
            assert!(inside().contains(name), "{name}");
        }
    }

    #[test]
    fn what_the_studies_start_is_inside_and_can_be_started() {
        let at = tempfile::TempDir::new().unwrap();
        written(at.path()).unwrap();
        let mut count = 0;
        for (name, text) in TEXTS.iter().filter(|(name, _)| name.ends_with(".toml")) {
            for path in text.split("\"{folder}/").skip(1).filter_map(|rest| rest.split('"').next())
            {
                let file = at.path().join("studies").join(path);
                assert!(file.is_file(), "{name}: {path}");
                let is_script = fs::read_to_string(&file).unwrap().starts_with("#!");
                let mode = fs::metadata(&file).unwrap().permissions().mode();
                assert_eq!(mode & 0o100 != 0, is_script, "{path}");
                count += 1;
            }
        }
        assert!(count >= 4, "{count}");
    }
}
