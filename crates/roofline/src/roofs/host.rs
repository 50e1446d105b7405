//! Limits of the machines: their CPUs, quotas and neighbours, and what a process may open.

pub(super) mod cpu;
pub(super) mod neighbours;
pub(super) mod quota;
pub(super) mod stocks;
pub(super) mod target_cpu;
