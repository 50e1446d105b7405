//! A step as a line of the file.

use linerate_model::Timestamp;
use serde::{Deserialize, Serialize};

use super::MOST;
use crate::packed::Packed;
use crate::step::{Step, StepKind};

#[derive(Serialize, Deserialize)]
pub(super) struct StepOnDisk {
    pub(super) step: StepFields,
}

/// [`Step`] with its histograms as HDR V2, base64; empty ones are left out.
#[derive(Serialize, Deserialize)]
pub(super) struct StepFields {
    kind: StepKind,
    connections: u32,
    begun: Timestamp,
    from: Timestamp,
    to: Timestamp,
    answered: u64,
    good: u64,
    failed: u64,
    status: [u64; 5],
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rates: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    service: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    first_byte: String,
}

pub(super) fn fields(step: &Step) -> StepFields {
    let text = |times: &Packed| if times.is_empty() { String::new() } else { times.to_base64() };
    StepFields {
        kind: step.kind,
        connections: step.connections,
        begun: step.begun,
        from: step.from,
        to: step.to,
        answered: step.answered,
        good: step.good,
        failed: step.failed,
        status: step.status,
        rates: step.counts.clone(),
        service: text(&step.service),
        first_byte: text(&step.first_byte),
    }
}

pub(super) fn step(fields: StepFields) -> Result<Step, String> {
    let counts = [fields.answered, fields.good, fields.failed];
    let slices = fields.rates.iter().flat_map(|(length, answered)| [length, answered]);
    if let Some(count) = counts.iter().chain(&fields.status).chain(slices).find(|it| **it > MOST) {
        return Err(format!("step: {count} is more than any run counts"));
    }
    let times = |name: &str, text: &str| match text {
        "" => Ok(Packed::default()),
        text => Packed::from_base64(text).map_err(|wrong| format!("step: {name}: {wrong}")),
    };
    Ok(Step {
        kind: fields.kind,
        connections: fields.connections,
        begun: fields.begun,
        from: fields.from,
        to: fields.to,
        answered: fields.answered,
        good: fields.good,
        failed: fields.failed,
        status: fields.status,
        counts: fields.rates,
        service: times("service", &fields.service)?,
        first_byte: times("first_byte", &fields.first_byte)?,
    })
}
