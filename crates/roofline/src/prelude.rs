//! The crate's vocabulary: metrics, chosen values, facts and claims.

pub(crate) use std::collections::BTreeMap;
pub(crate) use std::time::Duration;

pub(crate) use linerate_account::{
    Account, Estimate, Exchanges, Experiment, Held, Inside, Pace, Running, Station, Watched,
};
pub(crate) use linerate_evidence::sources::{
    broker, bursts, callees, capture, clients, code, diskstats, dist, doing, erlang, kernel_code,
    link, listener, netstat, owner, peers::Asked, port, process, queue, snmp, sockstat, spinning,
    stat, suspect, tcp_info, threads::States, vm, waits,
};
pub(crate) use linerate_evidence::{
    Direction, Distance, LoadSummary, Metric, Missing, Of, Percentiles, Quantity, SILENT, Side,
    Step, StepKind, Subject, WAKING,
};
pub(crate) use linerate_model::words::{duration, in_percent, percent, rounded_up};
pub(crate) use linerate_model::{Aqm, BitRate, Bytes, OneDirection, OpRate, Timestamp, Workload};
pub(crate) use linerate_predict::{Predicted, QueueStation, trips_again, window_with_losses};
pub(crate) use serde::{Deserialize, Serialize};

pub(crate) use crate::facts::{Facts, Load, admission::*, channels::*, connections::*, drops::*};
pub(crate) use crate::facts::{directions::*, flows::*, output::*, queues::*, sampled::*};
pub(crate) use crate::facts::{shared::*, stops::*};
pub(crate) use crate::{candidate::*, latency::*, stations::*, utilisation::*, verdict::*};
pub(crate) use crate::{chosen::*, claim::*, model::*, node_cpu::*, place::*, remedy::*, run::*};
