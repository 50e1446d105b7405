//! What connections say, files that a plan names read: the requests' body, or the requests themselves.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linerate_model::{Body, MOST_SENT, Plan, Workload};
use linerate_workload::{Template, template_of};

use crate::error::RunError;

/// What each connection says.
pub(crate) fn template(plan: &Plan, authority: &str) -> Result<Arc<dyn Template>, RunError> {
    let workload = read(&plan.workload)?;
    template_of(&workload, authority, plan.engine.seed).map_err(|wrong| {
        let file = match &workload {
            Workload::Http { requests: Some(requests), .. } => PathBuf::from(&requests.file),
            _ => PathBuf::new(),
        };
        RunError::Requests { file, wrong: wrong.to_string() }
    })
}

/// The workload with its files read; any other as it is.
fn read(workload: &Workload) -> Result<Workload, RunError> {
    let mut workload = workload.clone();
    if let Workload::Http { body, .. } = &mut workload
        && let Body::File(file) = body
    {
        let path = Path::new(file.as_str());
        let read =
            contents(path).map_err(|wrong| RunError::Body { file: path.to_owned(), wrong })?;
        *body = Body::Read(read);
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
