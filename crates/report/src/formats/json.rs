//! The document itself: `schema/run.json`, `schema/climb.json`, `schema/study.json`,
//! `schema/doctor.json`, `schema/predict.json`, `schema/what-if.json`, `schema/compare.json`.

use crate::formats::{Format, Look};
use crate::read::Document;

pub(super) const FORMAT: Format = Format {
    name: "json",
    extension: "json",
    says: "The whole document, as the schemas in schema/ describe it.",
    render,
};

fn render(document: &Document, _: &Look) -> String {
    let json = match document {
        Document::Run(run) => serde_json::to_string_pretty(run),
        Document::Climb(climb) => serde_json::to_string_pretty(climb),
        Document::Study(study) => serde_json::to_string_pretty(study),
        Document::Doctor(doctor) => serde_json::to_string_pretty(doctor),
        Document::Predict(predict) => serde_json::to_string_pretty(predict),
        Document::Compare(compare) => serde_json::to_string_pretty(compare),
        Document::WhatIf(what_if) => serde_json::to_string_pretty(what_if),
    };
    let mut json = json.expect("keys are strings, and writing to memory does not fail");
    json.push('\n');
    json
}
