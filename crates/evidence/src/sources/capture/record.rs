//! TLS, by the heads of the records that requests begin with: their type and version, which are never encrypted.
//!
//! The kernel compares them, as it does with refusals; both are told by how much of the headers it hands over, and a
//! request is no answer.
//!
//! Blind spot: the last flight of a handshake in TLS 1.3 is encrypted, and counts as a request; a request in which the
//! client asks for TLS first (STARTTLS, PostgreSQL's SSLRequest) is not encrypted yet.
//! Source: RFC 8446, 5.1, and D.4: a ChangeCipherSpec before the second ClientHello; RFC 5246, 6.2.1.

/// The record that a request begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Record {
    /// Of a handshake: a ClientHello, also a second one; the client's part of TLS 1.2.
    Handshake,
    /// Application data, an alert, or the change to encryption and what is encrypted.
    Other,
}

impl Record {
    /// A record's first two bytes, in network order: its type, and 3, of every version.
    pub const HANDSHAKE: u16 = 0x1603;
    /// An alert, and application data.
    pub const OTHERS: [u16; 2] = [0x1503, 0x1703];
    /// ChangeCipherSpec: what it is depends on the type of the record behind it.
    pub const CHANGE: u16 = 0x1403;
    /// The length of that one. Unit: bytes.
    pub const CHANGE_LENGTH: u32 = 6;
    /// The type of a record of a handshake.
    pub const HANDSHAKE_TYPE: u8 = 0x16;

    /// How many bytes more of a packet's headers stand for it: fewer, of those that are not read.
    pub fn more(self) -> i32 {
        if self == Self::Handshake { -1 } else { -2 }
    }

    /// By the number of bytes more than 20.
    pub fn of_more(bytes: i32) -> Option<Self> {
        [Self::Handshake, Self::Other].into_iter().find(|of| of.more() == bytes)
    }
}
