//! Reports: evidence and roofline to text, JSON, CSV, Markdown and a self-contained page.
//!
//! Pure: a document in, text out. To add a format: a file in `formats/`, and its line in [`FORMATS`].

#![forbid(unsafe_code)]

mod assemble;
mod breakdown;
mod civil;
mod doctor;
mod document;
mod facts;
mod figures;
mod forecast;
mod formats;
mod number;
mod read;
mod svg;
mod table;

pub use assemble::run_document;
pub use breakdown::{Breakdown, Portion};
pub use doctor::{
    Applied, Connection, DoctorDocument, Kernel, ProbeCost, Suspect, Traffic, Vital,
    doctor_document,
};
pub use document::{
    Claim, ClimbDocument, Distribution, Effect, Load, Roofline, RunDocument, Scale, SeriesPoint,
    Step, StudyDocument, StudyRow,
};
pub use forecast::{
    Asked, Between, Known, PredictDocument, PredictRow, Simulated, WasRun, WhatIfDocument,
};
pub use formats::{FORMATS, Format, Look};
pub use read::{BadDocument, Document};
