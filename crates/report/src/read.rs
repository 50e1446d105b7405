//! Documents of all kinds, and how one is known when it is read back.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::compare::CompareDocument;
use crate::doctor::DoctorDocument;
use crate::document::{ClimbDocument, RunDocument, StudyDocument};
use crate::forecast::{PredictDocument, WhatIfDocument};

/// What a report can be made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// One run.
    Run(Box<RunDocument>),
    /// A roof lifted after the other.
    Climb(ClimbDocument),
    /// Published figures beside measured ones.
    Study(StudyDocument),
    /// A service that was watched and not loaded.
    Doctor(Box<DoctorDocument>),
    /// What a service would do behind a path.
    Predict(Box<PredictDocument>),
    /// What a run would have done otherwise.
    WhatIf(Box<WhatIfDocument>),
    /// Two sides, run against run.
    Compare(Box<CompareDocument>),
}

/// Text that is no document.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadDocument {
    /// Not even JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON of something else.
    #[error(
        "`schema` is {0}, not a linerate document: expected linerate/run/1, linerate/climb/1, linerate/study/1, linerate/doctor/1, linerate/predict/1, linerate/what-if/1 or linerate/compare/2, as `--json` writes them"
    )]
    SomethingElse(String),
    /// Its schema is known, but a key is missing or wrong.
    #[error("not a whole {schema}: {wrong}")]
    Incomplete {
        /// What it says it is.
        schema: String,
        /// The key, and what is wrong with it.
        wrong: String,
    },
}

impl Document {
    /// Reads what the `json` format wrote.
    pub fn read(json: &str) -> Result<Self, BadDocument> {
        let value: Value =
            serde_json::from_str(json).map_err(|error| BadDocument::NotJson(error.to_string()))?;
        match value.get("schema").and_then(Value::as_str) {
            Some("linerate/run/1") => Ok(Document::Run(Box::new(whole(value)?))),
            Some("linerate/climb/1") => Ok(Document::Climb(whole(value)?)),
            Some("linerate/study/1") => Ok(Document::Study(whole(value)?)),
            Some("linerate/doctor/1") => Ok(Document::Doctor(Box::new(whole(value)?))),
            Some(PredictDocument::SCHEMA) => Ok(Document::Predict(Box::new(whole(value)?))),
            Some(WhatIfDocument::SCHEMA) => Ok(Document::WhatIf(Box::new(whole(value)?))),
            Some(CompareDocument::SCHEMA) => Ok(Document::Compare(Box::new(whole(value)?))),
            Some(other) => Err(BadDocument::SomethingElse(format!("`{other}`"))),
            None => Err(BadDocument::SomethingElse("absent".into())),
        }
    }

    /// The same, to be added to.
    pub fn runs_mut(&mut self) -> Vec<&mut RunDocument> {
        match self {
            Document::Run(run) => vec![run],
            Document::Climb(climb) => climb.steps.iter_mut().map(|step| &mut step.run).collect(),
            Document::Study(study) => study.rows.iter_mut().map(|row| &mut row.run).collect(),
            Document::Doctor(_)
            | Document::Predict(_)
            | Document::WhatIf(_)
            | Document::Compare(_) => Vec::new(),
        }
    }

    /// All runs in it, in order.
    pub fn runs(&self) -> Vec<&RunDocument> {
        match self {
            Document::Run(run) => vec![run],
            Document::Climb(climb) => climb.steps.iter().map(|step| &step.run).collect(),
            Document::Study(study) => study.rows.iter().map(|row| &row.run).collect(),
            Document::Doctor(_)
            | Document::Predict(_)
            | Document::WhatIf(_)
            | Document::Compare(_) => Vec::new(),
        }
    }
}

fn whole<T: DeserializeOwned>(value: Value) -> Result<T, BadDocument> {
    let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default().to_owned();
    serde_json::from_value(value)
        .map_err(|error| BadDocument::Incomplete { schema, wrong: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_else_is_refused_with_what_was_expected() {
        let says = |text| Document::read(text).unwrap_err().to_string();
        assert!(says("{").starts_with("not JSON: "));
        assert!(says("[1]").starts_with("`schema` is absent"));
        assert!(says(r#"{"schema": "k6/1"}"#).starts_with("`schema` is `k6/1`, not a linerate"));
        assert_eq!(
            says(r#"{"schema": "linerate/climb/1", "program": "0.1.0", "name": "x"}"#),
            "not a whole linerate/climb/1: missing field `steps`"
        );
    }
}
