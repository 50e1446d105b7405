//! Limits of the load itself: no more was asked.

pub(super) mod concurrency;
pub(super) mod offered_rate;
