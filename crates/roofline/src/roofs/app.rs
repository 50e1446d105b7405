//! Limits of the application itself: what it serves at a time, waits for, and turns away.

pub(super) mod alarm;
pub(super) mod at_once;
pub(super) mod connection_limit;
pub(super) mod consumer;
pub(super) mod dependency;
pub(super) mod disk;
pub(super) mod garbage_collection;
pub(super) mod rate_limit;
pub(super) mod refused;
pub(super) mod shaper;
pub(super) mod wait;
