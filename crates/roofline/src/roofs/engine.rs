//! Limits of linerate itself: its figures then are not the target's.

pub(super) mod cpu;
pub(super) mod kept;
