//! Folders that are made once of what is inside this program, and kept in the user's cache.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::geteuid;

/// The folder of this name, made now if it was not before. The name is of its content: another content has another name.
/// It is whole if `file`, which `make` writes last, is in it: what empties caches may leave folders.
///
/// # Errors
/// Where it was tried, and why it could not be made there.
pub fn folder(
    name: &str,
    file: &str,
    make: &dyn Fn(&Path) -> io::Result<()>,
) -> Result<PathBuf, String> {
    let mut tried = Vec::new();
    for parent in caches() {
        let folder = parent.join(name);
        match own(&parent).and_then(|()| made(&folder, file, make)) {
            Ok(()) => return Ok(folder),
            Err(error) => tried.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(tried.join("; "))
}

/// The folder of this name, if it was made before.
pub(crate) fn kept(name: &str, file: &str) -> Option<PathBuf> {
    caches().into_iter().find_map(|parent| {
        let folder = parent.join(name);
        (is_own(&parent).is_ok() && folder.join(file).is_file()).then_some(folder)
    })
}

/// Where to keep it, best first. Source: XDG Base Directory Specification; a user without a home has the last.
fn caches() -> Vec<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    // Under sudo HOME may be another user's, and is left as it is.
    let is_ours =
        |home: &PathBuf| fs::metadata(home).is_ok_and(|it| it.uid() == geteuid().as_raw());
    let home = of("HOME").filter(is_ours).map(|home| home.join(".cache"));
    let homes = [of("XDG_CACHE_HOME"), home];
    let shared = std::env::temp_dir().join(format!("linerate-{}", geteuid().as_raw()));
    homes.into_iter().flatten().map(|cache| cache.join("linerate")).chain([shared]).collect()
}

/// Makes a folder that only its user can write to.
fn own(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    is_own(folder)
}

/// Refuses a folder that others could have filled.
fn is_own(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write there"));
    }
    Ok(())
}

/// Makes it beside its place and renames: it is there whole, or it is not there.
fn made(folder: &Path, file: &str, make: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_whole = || folder.join(file).is_file();
    if is_whole() {
        return Ok(());
    }
    // Two threads of ours may make it at once.
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let part = folder.with_extension(format!("{}-{number}.part", std::process::id()));
    let made = make(&part).and_then(|()| match fs::rename(&part, folder) {
        // Another linerate was quicker.
        Err(_) if is_whole() => Ok(()),
        // What was left of it stands in the way.
        Err(_) if folder.is_dir() => {
            fs::remove_dir_all(folder).and_then(|()| fs::rename(&part, folder))
        }
        other => other,
    });
    let _ = fs::remove_dir_all(&part);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::TempDir::new().unwrap();
        let at = folder.path().join("cache");
        own(&at).unwrap();
        own(&at).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(own(&at).is_err());
    }

    #[test]
    fn it_is_made_once_and_again_where_a_part_is_gone() {
        let cache = tempfile::TempDir::new().unwrap();
        let folder = cache.path().join("texts");
        let count = AtomicU32::new(0);
        let make = |at: &Path| {
            count.fetch_add(1, Ordering::Relaxed);
            fs::create_dir_all(at.join("more"))?;
            fs::write(at.join("more/last"), "text")
        };
        for (left, times) in [(true, 1), (true, 1), (false, 2)] {
            if !left {
                fs::remove_file(folder.join("more/last")).unwrap();
            }
            made(&folder, "more/last", &make).unwrap();
            assert_eq!(count.load(Ordering::Relaxed), times);
        }
        let failed = made(&cache.path().join("none"), "last", &|_| Err(io::Error::other("full")));
        assert!(failed.is_err());
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "no part is left");
    }
}
