//! Limits of a BEAM node: its schedulers, its processes, its tables, and the emulator's own work.

pub(super) mod dirty_schedulers;
pub(super) mod funnel;
pub(super) mod hot_connection;
pub(super) mod large_heap;
pub(super) mod logger;
pub(super) mod native_code;
pub(super) mod persistent_term;
pub(super) mod schedulers;
pub(super) mod schedulers_too_few;
pub(super) mod tracing;
