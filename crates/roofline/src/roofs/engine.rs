//! Limits of linerate itself: figures that are its own, and not the target's.

pub(super) mod cpu;
pub(super) mod kept;
