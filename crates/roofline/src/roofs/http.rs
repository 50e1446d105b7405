//! Limits of HTTP.

pub(super) mod keepalive_limit;
