//! The machine's CPUs, for tests of one program that run side by side.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What is named for them, or by how long something takes, has them to itself.
static CPUS: RwLock<()> = RwLock::new(());

pub fn shares_the_cpus() -> RwLockReadGuard<'static, ()> {
    CPUS.read().unwrap_or_else(PoisonError::into_inner)
}

pub fn has_the_cpus() -> RwLockWriteGuard<'static, ()> {
    CPUS.write().unwrap_or_else(PoisonError::into_inner)
}
