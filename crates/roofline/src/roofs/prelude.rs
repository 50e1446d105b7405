//! The words in which every roof speaks: metrics, values that were chosen, and what claims are made of.

pub(super) use linerate_account::Station;
pub(super) use linerate_evidence::sources::{
    dist, link, listener, netstat, port, process, snmp, sockstat, suspect, tcp_info, vm, waits,
};
pub(super) use linerate_evidence::{Missing, Of, Side, Subject};
pub(super) use linerate_model::{Bytes, OpRate};

pub(super) use crate::chosen::*;
pub(super) use crate::claim::{At, Claim, Known, OrNotHere, Part, Resource, Role, Silent};
pub(super) use crate::claim::{missing, not_here, silent_if};
pub(super) use crate::facts::{Facts, Load};
pub(super) use crate::place::Regime;
pub(super) use crate::remedy::Remedy;
pub(super) use crate::run::{Run, duration, in_percent};
