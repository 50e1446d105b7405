//! What TLS costs.

pub(super) mod bulk;
pub(super) mod handshake;
pub(super) mod small_records;
