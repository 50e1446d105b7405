//! Limits of what a BEAM node says to other nodes, and hears of them.

pub(super) mod busy_port;
pub(super) mod decode;
pub(super) mod fragments;
pub(super) mod head_of_line;
pub(super) mod lockstep;
pub(super) mod receive_buffer;
