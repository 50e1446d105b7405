//! The first exchanges, given up when the run is cancelled: a target that says nothing is waited for as long
//! as the plan's timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use linerate_engine::{Job, Preflight, probe};

use crate::deploy::Deployment;
use crate::error::RunError;
use crate::limits;

pub(crate) fn preflight(
    deployment: &mut Deployment,
    job: &Job,
    cancel: &AtomicBool,
) -> Result<Preflight, RunError> {
    let (tell, told) = channel();
    let (job, plan) = (job.clone(), Arc::clone(&job.plan));
    // Left to itself if need be: it ends with the timeout, or the program.
    std::thread::spawn(move || tell.send(probe(&job)));
    loop {
        match told.recv_timeout(Duration::from_millis(20)) {
            Ok(Ok(preflight)) => return Ok(preflight),
            Ok(Err(trouble)) => {
                return Err(match (deployment.lab.alive(), limits::missing_congestion(&plan)) {
                    (Err(ended), _) => RunError::TargetDied(ended),
                    (Ok(()), Some(missing)) => missing.into(),
                    (Ok(()), None) => trouble.into(),
                });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(RunError::NoPreflight),
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
    }
}
