//! `diagnose`: everything to the right of the evidence, again, without network.

use linerate_evidence::read;
use linerate_report::{Document, doctor_document, run_document};

use crate::args::DiagnoseArgs;
use crate::failure::Failure;
use crate::output::Output;

/// See the module.
pub fn diagnose(args: &DiagnoseArgs) -> Result<u8, Failure> {
    let path = args.file.display();
    let output = Output::new(&args.output)?.without_evidence("diagnose makes none")?;
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::plan(format!("{path}: cannot be read: {error}")))?;
    let (header, evidence, ended) =
        read(&text).map_err(|error| Failure::plan(format!("{path}: {error}")))?;
    let document = if header.plan.target.watch.is_some() {
        Document::Doctor(Box::new(doctor_document(&header, &evidence, &ended)))
    } else {
        Document::Run(Box::new(run_document(&header, &evidence, &ended)))
    };
    output.write(&document)?;
    Ok(0)
}
