//! Where a node is: its name, and what is needed beyond it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A node, as written, and the way to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Where {
    /// Before the `@`.
    pub name: String,
    /// After it; none: this host, and whatever the node calls it.
    pub host: Option<String>,
    /// Its distribution port; none: EPMD is asked for it.
    pub port: Option<u16>,
    /// Where EPMD listens; none: `ERL_EPMD_PORT`, or 4369.
    pub epmd_port: Option<u16>,
    /// Distribution over TLS (`-proto_dist inet_tls`).
    pub tls: Option<TlsFiles>,
    /// The network namespace from which it is reached, as `/run/netns/NAME` or `/proc/PID/ns/net`;
    /// none: ours.
    pub netns: Option<PathBuf>,
    /// The end here of a tunnel to its distribution port; none: it is reached by its host and port.
    pub via: Option<SocketAddr>,
}

/// PEM files for TLS distribution.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsFiles {
    /// Whom to trust. None: any certificate, as Erlang itself does without `verify_peer`.
    pub ca: Option<PathBuf>,
    /// Our certificate, for nodes that ask for one.
    pub cert: Option<PathBuf>,
    /// Its private key; none: it is in the certificate's file.
    pub key: Option<PathBuf>,
}

/// A node that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is not a node: write NAME@HOST as `node()` shows it, or NAME for one on this host")]
pub struct BadPlace(pub String);

impl Where {
    /// Whether the node's name is of the long kind (`-name`): its host has a dot, or is an address.
    pub fn is_long(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.contains(['.', ':']))
    }
}

impl FromStr for Where {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        let (name, host) = match text.split_once('@') {
            Some((name, host)) => (name, Some(host)),
            None => (text, None),
        };
        // Source: erl_dist_protocol: a name is an atom of at most 255 characters.
        let plain = |part: &str| {
            !part.is_empty()
                && !part.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@')
        };
        if text.len() > 255 || !plain(name) || host.is_some_and(|host| !plain(host)) {
            return Err(bad());
        }
        Ok(Self {
            name: name.to_owned(),
            host: host.map(str::to_owned),
            port: None,
            epmd_port: None,
            tls: None,
            netns: None,
            via: None,
        })
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{}@{host}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_name_with_or_without_a_host() {
        let place: Where = "shop@db1.example.com".parse().unwrap();
        assert_eq!((&*place.name, place.host.as_deref()), ("shop", Some("db1.example.com")));
        assert!(place.is_long());
        assert!(!"shop@db1".parse::<Where>().unwrap().is_long());
        let bare: Where = "shop".parse().unwrap();
        assert_eq!((bare.host.as_deref(), bare.to_string()), (None, "shop".into()));
    }

    #[test]
    fn what_is_no_name_is_refused_with_what_to_write() {
        for text in ["", "@host", "name@", "two words@host", "a@b@c"] {
            let error = text.parse::<Where>().unwrap_err().to_string();
            assert!(error.contains("write NAME@HOST"), "{error}");
        }
        assert!("x".repeat(256).parse::<Where>().is_err());
    }
}
