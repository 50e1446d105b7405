//! The commands, a file each. Each returns its exit code.

pub mod ab;
pub mod capacity;
pub mod climb;
pub mod compare;
pub mod diagnose;
pub mod doctor;
pub mod engine_worker;
pub mod explain;
pub mod path;
pub mod predict;
pub mod run;
pub mod serve;
pub mod shell;
pub mod study;
pub mod what_if;
