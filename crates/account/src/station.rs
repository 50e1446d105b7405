//! The stations that an exchange in flight can be at, in the order in which it passes them.

pub use linerate_evidence::sources::census::Held;

use crate::prelude::*;

/// Where an exchange in flight is. `docs/account.md` has a paragraph on each.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Station {
    /// Connecting: its SYN is not answered.
    Connect,
    /// Connected in the client's kernel, and not accepted.
    AcceptQueue,
    /// In the TLS handshake.
    TlsHandshake,
    /// Bytes of the request are unsent in the client's socket.
    ClientSending,
    /// The request is sent and has not arrived.
    PathOut,
    /// The request arrived and was not read.
    Unread,
    /// Taken by the service, and the answer not written.
    Application,
    /// Acknowledged by the other host and not answered: what happens there is not visible.
    Beyond,
    /// Over before both its ends could be asked: somewhere between two system calls of the engine.
    Brief,
    /// Bytes of the answer are unsent in the server's socket.
    ServerSending,
    /// The answer is sent and has not arrived.
    PathBack,
    /// Answered in the engine's kernel and not read by the engine.
    Engine,
}

impl Station {
    /// All of them, in the order in which an exchange passes them.
    pub const ALL: [Station; 12] = [
        Station::Connect,
        Station::AcceptQueue,
        Station::TlsHandshake,
        Station::ClientSending,
        Station::PathOut,
        Station::Unread,
        Station::Application,
        Station::Beyond,
        Station::Brief,
        Station::ServerSending,
        Station::PathBack,
        Station::Engine,
    ];

    /// Where the census found an exchange, and what holds its unsent bytes; none where none was under way.
    pub(crate) fn of(found: census::Station) -> Option<(Self, Option<Held>)> {
        Some(match found {
            census::Station::Idle => return None,
            census::Station::Connect => (Station::Connect, None),
            census::Station::TlsHandshake => (Station::TlsHandshake, None),
            census::Station::AcceptQueue => (Station::AcceptQueue, None),
            census::Station::ClientSending(held) => (Station::ClientSending, Some(held)),
            census::Station::PathOut => (Station::PathOut, None),
            census::Station::Unread => (Station::Unread, None),
            census::Station::Application => (Station::Application, None),
            census::Station::ServerSending(held) => (Station::ServerSending, Some(held)),
            census::Station::PathBack => (Station::PathBack, None),
            census::Station::Engine => (Station::Engine, None),
            census::Station::Beyond => (Station::Beyond, None),
            census::Station::Unresolved => (Station::Brief, None),
        })
    }

    /// As JSON has it; in words, to follow "31.9 of 32 exchanges are"; and in a word or two, for a bar.
    fn names(self) -> [&'static str; 3] {
        use Station::*;
        match self {
            Connect => ["connect", "connecting", "connect"],
            AcceptQueue => ["accept_queue", "waiting in the accept queue", "accept queue"],
            TlsHandshake => ["tls_handshake", "in the TLS handshake", "TLS handshake"],
            ClientSending => ["client_sending", "unsent in the client's socket", "request unsent"],
            PathOut => ["path_out", "in flight to the server", "outbound path"],
            Unread => ["unread", "unread in the server's socket", "unread"],
            Application => ["application", "in the application", "application"],
            ServerSending => ["server_sending", "unsent in the server's socket", "answer unsent"],
            PathBack => ["path_back", "in flight to the client", "return path"],
            Engine => ["engine", "answered, not yet read by linerate", "linerate"],
            Beyond => ["beyond", "on the other host", "other host"],
            Brief => ["brief", "too brief to locate", "kernel and wire"],
        }
    }

    /// As JSON has it.
    pub fn id(self) -> &'static str {
        self.names()[0]
    }

    /// Where the exchanges are, to follow "31.9 of 32 exchanges are": `in the application`.
    pub fn words(self) -> &'static str {
        self.names()[1]
    }

    /// The same in a word or two, for a bar.
    pub fn label(self) -> &'static str {
        self.names()[2]
    }
}
