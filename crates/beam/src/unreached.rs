//! Why a node could not be reached: what was found, what is wrong, what to write or do.

use std::path::PathBuf;
use std::time::Duration;

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreached {
    /// EPMD runs and does not know the name.
    #[error("no node `{name}` at {host}: EPMD there knows {known}; write one of those, or --port")]
    UnknownName {
        /// Before the `@`.
        name: String,
        /// Whose EPMD was asked.
        host: String,
        /// The names it has, or `none`.
        known: String,
    },
    /// Nobody to ask for the port.
    #[error(
        "EPMD at {address} does not answer: {reason}; start the node with a name (-sname or -name), or write its distribution port (`doctor --port`, `capacity --node-port`)"
    )]
    NoEpmd {
        /// The last address tried.
        address: String,
        /// What the kernel said.
        reason: String,
    },
    /// EPMD answered something else.
    #[error(
        "what listens at {address} is not EPMD: {reason}; correct ERL_EPMD_PORT, or write --port"
    )]
    NotEpmd {
        /// The address.
        address: String,
        /// What it answered.
        reason: String,
    },
    /// A host that nobody knows.
    #[error(
        "`{host}` has no address: {reason}; write the node as NAME@HOST with a host that resolves"
    )]
    Unresolvable {
        /// After the `@`.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// The node's port is closed.
    #[error(
        "nothing listens at {address}, the distribution port of {node}: the connection was refused; check --port and inet_dist_use_interface"
    )]
    Refused {
        /// As written.
        node: String,
        /// The last one tried.
        address: String,
    },
    /// Another fault on the way.
    #[error("{address} can't be reached: {reason}; check host, port, and any firewall between")]
    Unreachable {
        /// The last one tried.
        address: String,
        /// What the kernel said.
        reason: String,
    },
    /// The node hung up when it saw our answer to its challenge.
    #[error(
        "{node} refused the cookie: write the node's own as --cookie-file FILE or LINERATE_COOKIE (on the node, \
         `erlang:get_cookie()` shows it)"
    )]
    WrongCookie {
        /// As written.
        node: String,
    },
    /// The node does not know the cookie that it should.
    #[error(
        "what answers as {node} does not have the cookie itself: it is not that node, or write its cookie as --cookie-file FILE"
    )]
    Impostor {
        /// As written.
        node: String,
    },
    /// The node let us in only so far.
    #[error("{node} refuses linerate: {reason}")]
    NotAllowed {
        /// As written.
        node: String,
        /// The handshake's status, in words, and what to do.
        reason: String,
    },
    /// Too old, or too new.
    #[error(
        "{node} speaks another version of the distribution protocol: {reason}; linerate needs OTP 25 or newer"
    )]
    Version {
        /// As written.
        node: String,
        /// What was found.
        reason: String,
    },
    /// It is another node.
    #[error(
        "the node there is `{found}` and not `{asked}`: write {found}, or the port of the other"
    )]
    OtherNode {
        /// As written.
        asked: String,
        /// What it calls itself.
        found: String,
    },
    /// Nobody answered.
    #[error("{node} is silent: no answer to {to} within {waited:?}; {advice}")]
    Silent {
        /// As written.
        node: String,
        /// `the connection`, `the handshake`.
        to: &'static str,
        /// How long.
        waited: Duration,
        /// What to look at.
        advice: &'static str,
    },
    /// The peer talks, but not this.
    #[error("what listens at {address} does not speak Erlang's distribution protocol: {reason}")]
    NotANode {
        /// Where.
        address: String,
        /// What it said, and what to do.
        reason: String,
    },
    /// TLS, before the handshake of the nodes.
    #[error("TLS to {node}: {reason}")]
    Tls {
        /// As written.
        node: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// No cookie anywhere.
    #[error(
        "no cookie: there is no LINERATE_COOKIE and none of {looked}; write the node's as --cookie-file FILE or LINERATE_COOKIE"
    )]
    NoCookie {
        /// Where it was looked for.
        looked: String,
    },
    /// The named file is no use.
    #[error("the cookie file {} can't be read: {reason}; write a file that holds the cookie as its first line", .file.display())]
    CookieFile {
        /// The file.
        file: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// Its namespace can't be entered.
    #[error("the network namespace {} can't be entered: {reason}; run as root", .file.display())]
    Namespace {
        /// Its file.
        file: PathBuf,
        /// What the kernel said.
        reason: String,
    },
}

impl Unreached {
    /// Whether what was written is at fault, and not the world: a name, a file, a host.
    pub fn is_of_the_caller(&self) -> bool {
        matches!(
            self,
            Unreached::Unresolvable { .. }
                | Unreached::NoCookie { .. }
                | Unreached::CookieFile { .. }
        )
    }
}
