//! What connections say, files that a plan names read: a request, its body, or many requests.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use linerate_model::{Body, MOST_SENT, Plan, Sent, Workload};
use linerate_workload::{Given, Template};

use crate::error::RunError;

/// What each connection says.
pub(crate) fn template(plan: &Plan, authority: &str) -> Result<Arc<dyn Template>, RunError> {
    let workload = read(&plan.workload)?;
    let variable = |name: &str| std::env::var(name).ok();
    let given = Given {
        authority,
        seed: plan.engine.seed,
        variable: &variable,
        congestion: plan.engine.congestion.as_deref(),
        run: fresh(),
    };
    linerate_workload::template(&workload, &given).map_err(|wrong| match &workload {
        Workload::Http { requests: Some(requests), .. } => {
            RunError::Requests { file: PathBuf::from(&requests.file), wrong: wrong.to_string() }
        }
        _ => RunError::Workload(wrong),
    })
}

/// A number that no other run on any machine is likely to have.
fn fresh() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64) ^ u64::from(std::process::id()).rotate_right(20)
}

/// The workload with its files read; any other as it is.
fn read(workload: &Workload) -> Result<Workload, RunError> {
    let mut workload = workload.clone();
    let of = |key, file: &str| {
        let path = Path::new(file);
        contents(path).map_err(|wrong| RunError::Body { key, file: path.to_owned(), wrong })
    };
    match &mut workload {
        Workload::Http { body, .. } => {
            if let Body::File(file) = body {
                *body = Body::Read(of("workload.body", file)?);
            }
        }
        Workload::Raw { send, .. } => {
            if let Sent::File(file) = send {
                *send = Sent::Read(of("workload.send", file)?);
            }
        }
        Workload::Rr { .. } | Workload::Crr { .. } | Workload::Stream { .. } => {}
    }
    if let Workload::Http { requests: Some(requests), .. } = &mut workload {
        let file = Path::new(&requests.file);
        let bytes = contents(file).map_err(|wrong| {
            let file = file.to_owned();
            RunError::Requests { file, wrong }
        })?;
        requests.contents = Some(bytes);
    }
    Ok(workload)
}

/// What a file holds: in memory whole, so there is an end to it.
fn contents(file: &Path) -> Result<Arc<[u8]>, String> {
    let opened = std::fs::File::open(file).map_err(|error| format!("cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    // A byte more than may be: a device or a pipe has no length to ask for.
    let read = opened.take(MOST_SENT + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MOST_SENT {
        return Err("it is longer than the 1GiB that it may have".into());
    }
    Ok(bytes.into())
}
