//! Limits of a BEAM node's traffic with other nodes.

pub(super) mod busy_port;
pub(super) mod decode;
pub(super) mod fragments;
pub(super) mod head_of_line;
pub(super) mod lockstep;
pub(super) mod receive_buffer;
