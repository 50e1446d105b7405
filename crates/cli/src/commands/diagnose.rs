//! `diagnose`: everything to the right of the evidence, again, without network.

use linerate_evidence::read;
use linerate_report::{Document, doctor_document, run_document};

use crate::args::DiagnoseArgs;
use crate::commands::run::judged;
use crate::failure::Failure;
use crate::gate::Gate;
use crate::output::Output;

/// See the module.
pub fn diagnose(args: &DiagnoseArgs) -> Result<u8, Failure> {
    let path = args.file.display();
    let gates = Gate::all(&args.fail_if).map_err(Failure::plan)?;
    let output = Output::new(&args.output)?.without_evidence("diagnose makes none")?;
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::plan(format!("{path}: cannot be read: {error}")))?;
    let (header, evidence, ended) =
        read(&text).map_err(|error| Failure::plan(format!("{path}: {error}")))?;
    let mut document = if header.plan.target.watch.is_some() {
        Document::Doctor(Box::new(doctor_document(&header, &evidence, &ended)))
    } else {
        Document::Run(Box::new(run_document(&header, &evidence, &ended)))
    };
    if !gates.is_empty() && header.plan.target.watch.is_some() {
        return Err(Failure::plan(format!(
            "--fail-if: {path} was watched by doctor, and gates are about a load: leave it out"
        )));
    }
    Gate::judge_all(&gates, &mut document);
    output.write(&document)?;
    // A recording that somebody cut short is diagnosed as far as it goes; a target that died is no run.
    if ended.starts_with("target died") {
        return Err(Failure::run(ended));
    }
    Ok(judged(&document))
}
