//! Limits of the machines: their CPUs, what a control group grants of them, who else has them, and what a process
//! may open.

pub(super) mod cpu;
pub(super) mod neighbours;
pub(super) mod quota;
pub(super) mod stocks;
pub(super) mod target_cpu;
