//! What a run moved between the nodes of its target: messages and bytes that the far end counted before an
//! exchange was answered, so that throughput by what an exchange carries is theirs.

use linerate_evidence::sources::process::{
    NONVOLUNTARY_SWITCHES, ROOT_STIME, ROOT_UTIME, STIME, UTIME, VOLUNTARY_SWITCHES,
};
use linerate_evidence::{Carries, Of, Subject};
use linerate_roofline::Facts;
use serde::{Deserialize, Serialize};

use crate::number::{bits, count, finite, time};

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Messages a second, one way.
    pub messages_per_s: f64,
    /// Bytes a second of them, without what frames or acknowledges them.
    pub bytes_per_s: f64,
    /// CPU time of both nodes by message. Unit: microseconds. Absent: their threads could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_message: Option<f64>,
    /// Context switches of both nodes by message. Absent: their threads could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches_per_message: Option<f64>,
    /// CPU time by node and by whose code it was, by message. Absent: it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_cpu: Option<NodesCpu>,
}

/// CPU time by message, in the nodes' own code and in the kernel on their behalf. Unit: microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodesCpu {
    /// The node that sends, in its own code.
    pub near_user_us: f64,
    /// The node that sends, in the kernel.
    pub near_kernel_us: f64,
    /// The node that receives, in its own code.
    pub far_user_us: f64,
    /// The node that receives, in the kernel.
    pub far_kernel_us: f64,
    /// CPUs that other programs left to the nodes.
    pub cpus_left: f64,
}

impl Carried {
    /// Of a run whose exchanges carry so much, this many a second with so much CPU each.
    pub(crate) fn of(
        each: Carries,
        facts: &Facts,
        per_s: f64,
        cpu_us_per_exchange: Option<f64>,
    ) -> Self {
        let messages = each.messages.max(1) as f64;
        let messages_per_s = finite(per_s * messages);
        let target = facts.run.evidence.of(Subject::Target);
        let target = target.within(facts.run.load.window.0..=facts.run.load.window.1);
        let switches = target.rate(VOLUNTARY_SWITCHES).ok();
        let switches = switches.zip(target.rate(NONVOLUNTARY_SWITCHES).ok());
        let switches = switches.map(|(gave_up, put_off)| (gave_up + put_off) / messages_per_s);
        Self {
            messages_per_s,
            bytes_per_s: finite(per_s * each.bytes as f64),
            cpu_us_per_message: cpu_us_per_exchange.map(|us| us / messages),
            switches_per_message: switches.filter(|each| each.is_finite()),
            nodes_cpu: nodes_cpu(facts, &target, messages_per_s),
        }
    }

    /// `696,000 messages/s to the other node, 106 Mbit/s; a message 2.49 us of CPU on both nodes`.
    pub(crate) fn says(&self) -> String {
        let mut said = format!(
            "{} messages/s to the other node, {}",
            count(self.messages_per_s.round() as u64),
            bits(self.bytes_per_s)
        );
        if let Some(us) = self.cpu_us_per_message {
            said += &format!("; a message {} of CPU on both nodes", time(us));
        }
        if let Some(each) = self.switches_per_message {
            said += &format!(", {} context switches", significant(each));
        }
        said
    }
}

/// The target's tree has the node that sends for its root, and the other is the rest.
fn nodes_cpu(facts: &Facts, target: &Of<'_>, messages_per_s: f64) -> Option<NodesCpu> {
    let us = |metric| Some(target.rate(metric).ok()? * 1e6 / messages_per_s);
    let [near_user_us, near_kernel_us] = [us(ROOT_UTIME)?, us(ROOT_STIME)?];
    let engine = facts.engine.as_ref().filter(|engine| !engine.cpus.list.is_empty())?;
    let rest = |all: f64, root: f64| (all - root).max(0.0);
    let cpu = NodesCpu {
        near_user_us,
        near_kernel_us,
        far_user_us: rest(us(UTIME)?, near_user_us),
        far_kernel_us: rest(us(STIME)?, near_kernel_us),
        cpus_left: engine.cpus.list.len() as f64 - engine.running - facts.strangers_of_engine()?,
    };
    messages_per_s.is_normal().then_some(cpu)
}

/// Two significant digits of a small number.
pub(crate) fn significant(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "-".into(),
        0.0 => "0".into(),
        _ if value >= 10.0 => format!("{value:.0}"),
        _ => {
            let decimals = (1 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
            format!("{value:.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_has_the_unit_of_each_figure() {
        let carried = Carried {
            messages_per_s: 696_000.4,
            bytes_per_s: 13_224_000.0, // 19 B each: 105.8 Mbit/s
            cpu_us_per_message: Some(2.49),
            switches_per_message: Some(0.041),
            nodes_cpu: None,
        };
        assert_eq!(
            carried.says(),
            "696,000 messages/s to the other node, 106 Mbit/s; a message 2.49 us of CPU on both nodes, \
             0.041 context switches"
        );
    }

    #[test]
    fn small_numbers_keep_two_digits() {
        let of = [0.0, 0.0413, 0.41, 4.13, 41.3].map(significant);
        assert_eq!(of, ["0", "0.041", "0.41", "4.1", "41"]);
    }
}
