//! The crate's vocabulary: evidence, chosen values, stations and estimates.

pub(crate) use std::collections::BTreeMap;
pub(crate) use std::ops::RangeInclusive;
pub(crate) use std::time::Duration;

pub(crate) use linerate_evidence::sources::capture::{Beat, Refusal, Rhythm, Served};
pub(crate) use linerate_evidence::sources::census::Batches;
pub(crate) use linerate_evidence::sources::{
    bursts, capture, census, cpus, diskstats,
    peers::Asked,
    process, stat, tcp_info,
    threads::{LATER, States},
};
pub(crate) use linerate_evidence::{
    Evidence, Header, LoadSummary, Metric, Of, Side, Step, StepKind, Subject, t95,
};
pub(crate) use linerate_model::{OpRate, Timestamp};
pub(crate) use linerate_predict::{Elasticity, Observed, elasticity};
pub(crate) use serde::{Deserialize, Serialize};

pub(crate) use crate::{account::*, chosen::*, cpu::*, share::*, station::*};
