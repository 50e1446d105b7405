//! The secret that two nodes share. Whoever has it may run anything on the node: it is read from a
//! file or the environment, never from a command line, and never shown.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::unreached::Unreached;

/// The environment's variable.
const VARIABLE: &str = "LINERATE_COOKIE";

/// A node's cookie. Shown as `***`.
#[derive(Clone, Eq, PartialEq)]
pub struct Cookie(String);

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(***)")
    }
}

impl Cookie {
    /// A cookie known otherwise.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// A new one that nobody can guess.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// From the named file; else from `LINERATE_COOKIE`; else from where Erlang looks.
    ///
    /// Source: erl(1) and auth.erl: `~/.erlang.cookie`, then `erlang/.erlang.cookie` in the user's
    /// folder of settings.
    pub fn find(file: Option<&Path>) -> Result<Self, Unreached> {
        if let Some(given) = Self::given(file)? {
            return Ok(given);
        }
        let files = usual_files();
        match files.iter().find(|file| file.exists()) {
            Some(file) => Self::read(file),
            None => {
                let looked: Vec<_> = files.iter().map(|it| it.display().to_string()).collect();
                Err(Unreached::NoCookie { looked: looked.join(", ") })
            }
        }
    }

    /// From the named file, else from `LINERATE_COOKIE`; none: neither is given.
    pub fn given(file: Option<&Path>) -> Result<Option<Self>, Unreached> {
        let secret = || std::env::var(VARIABLE).ok().filter(|secret| !secret.is_empty());
        file.map_or_else(|| Ok(secret().map(Self)), |file| Self::read(file).map(Some))
    }

    /// From a file with nothing else in it.
    pub fn read(file: &Path) -> Result<Self, Unreached> {
        let unreadable = |reason: String| Unreached::CookieFile { file: file.into(), reason };
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
        // Source: auth.erl: the first line, without what surrounds it.
        let secret = text.lines().next().unwrap_or_default().trim();
        if secret.is_empty() {
            return Err(unreadable("it is empty".into()));
        }
        Ok(Self(secret.to_owned()))
    }

    /// The secret itself, for the handshake and for a node of our own.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn usual_files() -> Vec<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = folder("HOME");
    let settings = folder("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|it| it.join(".config")));
    let below_settings = settings.map(|it| it.join("erlang"));
    [home, below_settings].into_iter().flatten().map(|it| it.join(".erlang.cookie")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_never_shown() {
        let cookie = Cookie::new("monster");
        assert_eq!(format!("{cookie:?}"), "Cookie(***)");
        assert_eq!(format!("{:?}", (Some(&cookie),)), "(Some(Cookie(***)),)");
    }

    #[test]
    fn a_cookie_file_is_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cookie");
        std::fs::write(&file, "  MONSTER \nrest\n").unwrap();
        assert_eq!(Cookie::find(Some(&file)), Ok(Cookie::new("MONSTER")));
    }

    #[test]
    fn a_file_that_is_empty_or_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cookie");
        let error = Cookie::find(Some(&file)).unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
        std::fs::write(&file, "\n").unwrap();
        let error = Cookie::find(Some(&file)).unwrap_err().to_string();
        assert!(error.contains("it is empty"), "{error}");
    }

    #[test]
    fn random_cookies_differ_and_are_atoms_without_quotes() {
        let (one, other) = (Cookie::random().unwrap(), Cookie::random().unwrap());
        assert_ne!(one, other);
        assert!(one.reveal().len() == 32 && one.reveal().bytes().all(|b| b.is_ascii_hexdigit()));
    }
}
