//! Limits of a BEAM node's traffic with other nodes.

pub(super) mod received;
pub(super) mod sent;
