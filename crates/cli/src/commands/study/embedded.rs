//! The studies inside this program, for who has it without its repository.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use linerate_beam::cache;

macro_rules! texts {
    ($($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../../studies/", $file)))),+]
    };
}

/// Each file of `studies`: name and text.
const TEXTS: &[(&str, &str)] = texts![
    "capacity.toml",
    "dist-link.toml",
    "echo-sites.toml",
    "http-nodelay.toml",
    "http-nodelay/server.js",
    "published/capacity.csv",
    "published/dist-link.csv",
    "published/echo-sites.csv",
    "published/http-nodelay.csv",
    "published/scaling.csv",
    "published/stream-terms.csv",
    "stream-terms.toml",
];

/// Their names, in order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().filter_map(|(file, _)| file.strip_suffix(".toml"))
}

/// A folder with all of them, in the user's cache.
///
/// # Errors
/// Where it was tried, and why it could not be made there.
pub(super) fn folder() -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    TEXTS.hash(&mut hasher);
    cache::folder(&format!("studies-{:016x}", hasher.finish()), &written)
}

fn written(at: &Path) -> io::Result<()> {
    for (name, text) in TEXTS {
        let file = at.join(name);
        fs::create_dir_all(file.parent().unwrap_or(at))?;
        fs::write(file, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_of_the_studies_is_inside() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies"));
        let names = |of: &Path| {
            let entries = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().path());
            entries.collect::<Vec<_>>()
        };
        let (files, folders): (Vec<_>, Vec<_>) =
            names(folder).into_iter().partition(|path| path.is_file());
        let files = files.into_iter().chain(folders.iter().flat_map(|of| names(of)));
        let name = |path: PathBuf| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        let there: BTreeSet<String> = files.map(name).collect();
        let inside: BTreeSet<String> = TEXTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(inside, there);
    }
}
