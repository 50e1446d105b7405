//! What connections say, files that a plan names read: a request, its body, or many requests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use linerate_model::{Body, MOST_SENT, Plan, Sent, Workload};
use linerate_workload::{Given, Part, Template};
use serde::{Deserialize, Serialize};

use crate::error::RunError;

/// Files and variables that connections say something of: as they were given, or else as this host has them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Outside {
    /// By name, in base64.
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// Whether there is nothing else.
    #[serde(default)]
    whole: bool,
    /// Whether what this host has is noted.
    #[serde(skip)]
    notes: bool,
}

impl Outside {
    /// Whether nothing was given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// One that notes what this host has.
    pub(crate) fn noting() -> Self {
        Self { notes: true, ..Self::default() }
    }

    /// All that there is of them, for another host.
    pub(crate) fn whole(self) -> Self {
        Self { whole: true, notes: false, ..self }
    }

    /// Bytes of it.
    pub(crate) fn size(&self) -> usize {
        self.files.values().chain(self.variables.values()).map(String::len).sum()
    }

    fn file(&mut self, file: &str) -> Result<Arc<[u8]>, String> {
        if let Some(given) = self.files.get(file) {
            let bytes = BASE64.decode(given).map_err(|error| format!("not base64: {error}"))?;
            return Ok(bytes.into());
        }
        let bytes = contents(Path::new(file))?;
        if self.notes {
            self.files.insert(file.to_owned(), BASE64.encode(&bytes));
        }
        Ok(bytes)
    }
}

/// What each connection says, in this part of a run; `run` where it has a number already.
pub(crate) fn template(
    plan: &Plan,
    authority: &str,
    part: Part,
    run: Option<u64>,
    outside: &mut Outside,
) -> Result<Arc<dyn Template>, RunError> {
    let workload = read(&plan.workload, outside)?;
    let asked = RefCell::new(BTreeMap::new());
    let variable = |name: &str| {
        let given = outside.variables.get(name).cloned();
        let value = given.or_else(|| (!outside.whole).then(|| std::env::var(name).ok())?)?;
        asked.borrow_mut().insert(name.to_owned(), value.clone());
        Some(value)
    };
    let given = Given {
        authority,
        seed: plan.engine.seed,
        variable: &variable,
        congestion: plan.engine.congestion.as_deref(),
        run: run.unwrap_or_else(fresh),
        part,
    };
    let made = linerate_workload::template(&workload, &given);
    if outside.notes {
        outside.variables.extend(asked.into_inner());
    }
    made.map_err(|wrong| match &workload {
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
fn read(workload: &Workload, outside: &mut Outside) -> Result<Workload, RunError> {
    let mut workload = workload.clone();
    let mut of = |key, file: &str| {
        outside.file(file).map_err(|wrong| RunError::Body { key, file: file.into(), wrong })
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
        let bytes = outside.file(&requests.file).map_err(|wrong| {
            let file = PathBuf::from(&requests.file);
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
