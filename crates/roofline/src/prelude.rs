//! The crate's vocabulary: metrics, chosen values, facts and claims.

pub(crate) use std::time::Duration;

pub(crate) use linerate_account::{
    Estimate, Experiment, Held, Inside, Pace, Running, Station, Watched,
};
pub(crate) use linerate_evidence::sources::{
    callees, code, dist, doing, kernel_code, link, listener, netstat, owner, port, process, snmp,
    sockstat, spinning, stat, suspect, tcp_info, vm, waits,
};
pub(crate) use linerate_evidence::{Metric, Missing, Of, Side, Subject};
pub(crate) use linerate_model::words::{duration, in_percent, percent, rounded_up};
pub(crate) use linerate_model::{Bytes, OpRate};

pub(crate) use crate::chosen::*;
pub(crate) use crate::claim::{At, Claim, Known, Least, OrNotHere, Part, Resource, Role, Silent};
pub(crate) use crate::claim::{missing, not_here, rate, silent_if};
pub(crate) use crate::facts::connections::{Connection, Work};
pub(crate) use crate::facts::drops::{Cost, Drops};
pub(crate) use crate::facts::sampled::Process;
pub(crate) use crate::facts::{Facts, Load};
pub(crate) use crate::node_cpu::NodeCpu;
pub(crate) use crate::place::{Place, Regime};
pub(crate) use crate::remedy::{Remedy, SocketOption};
pub(crate) use crate::run::{Counted, Run};
pub(crate) use crate::utilisation::{Host, Target, used};
