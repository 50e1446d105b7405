//! Limits of the path that the plan lays: its rate, its queues, its losses, and its emulator.

pub(super) mod black_hole;
pub(super) mod bufferbloat;
pub(super) mod drops;
pub(super) mod emulator;
pub(super) mod rate;
