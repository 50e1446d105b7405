//! `engine-worker`: one of several engine processes, as whoever coordinates them starts it.

use std::io::{stdin, stdout};

use crate::failure::Failure;

/// See the module.
pub fn engine_worker() -> Result<u8, Failure> {
    // Whoever would hear why is gone.
    Ok(u8::from(linerate_run::worker(stdin(), stdout().lock()).is_err()))
}
