//! What a run moved between the nodes of its target: messages and bytes that the far end counted before an
//! exchange was answered, so that throughput by what an exchange carries is theirs.

use std::time::Duration;

use linerate_evidence::sources::process::{
    NONVOLUNTARY_SWITCHES, ROOT_STIME, ROOT_UTIME, STIME, UTIME, VOLUNTARY_SWITCHES,
};
use linerate_evidence::sources::{between, calls, vm};
use linerate_evidence::{Carries, Metric, Of, Percentiles, Subject};
use linerate_model::{Bytes, Timestamp};
use linerate_roofline::Facts;
use serde::{Deserialize, Serialize};

use crate::assemble::{Curve, distribution};
use crate::document::Distribution;

use crate::number::{bits, count, finite, time};
use crate::table::Table;

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
    /// How long a message took until it was answered, by the clock of the process that sent it. Unit: microseconds. Absent:
    /// messages are not answered one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Distribution>,
    /// What each node did for a message. Absent: of an older linerate, or it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<NodesWork>,
    /// System calls of both nodes by message. Absent: the kernel did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<SystemCalls>,
}

/// What both nodes did for a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodesWork {
    /// The node that sends.
    pub near: NodeWork,
    /// The node that receives.
    pub far: NodeWork,
}

/// What one of them did, by message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeWork {
    /// Reductions of the processes that send or receive. Absent: not counted, as all that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reductions: Option<f64>,
    /// Reductions of all its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_reductions: Option<f64>,
    /// Calls of ports by the processes that send or receive. Absent also where they have none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_calls: Option<f64>,
    /// Bytes that the kernel copied from or to the node, as its ports count them: without the lengths that a driver
    /// writes. Absent also where the node does not count them (`socket`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_copied_bytes: Option<f64>,
    /// Its schedulers' time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedulers_us: Option<SchedulersTime>,
}

/// Time of all normal schedulers of a node by message, by the emulator's own accounts. Unit: microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulersTime {
    /// In code of processes.
    pub processes: f64,
    /// Of that, what falls to the processes that send or receive, by their part of the reductions. Absent: these were not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_processes: Option<f64>,
    /// In code of ports: the drivers' part, and the system calls that it makes.
    pub ports: f64,
    /// Asking the kernel for events.
    pub check_io: f64,
    /// Garbage collection.
    pub gc: f64,
    /// Auxiliary jobs, spinning and the rest.
    pub other: f64,
    /// Asleep.
    pub sleep: f64,
}

/// System calls of both nodes by message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemCalls {
    /// All of them.
    pub all: f64,
    /// Of the node that sends.
    pub near: f64,
    /// That write or send.
    pub writes: f64,
    /// That read or receive.
    pub reads: f64,
    /// That wait for descriptors or say for which.
    pub polls: f64,
    /// By which threads wait for and wake each other.
    pub futexes: f64,
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
            latency_us: latency(facts),
            work: work(facts, each.bytes as f64 / messages),
            system_calls: system_calls(facts, messages_per_s),
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
        if let Some(calls) = &self.system_calls {
            said += &format!(", {} system calls", significant(calls.all));
        }
        if let Some(calls) = self.port_calls() {
            said += &format!(", {} port calls", significant(calls));
        }
        if let Some(times) = self.latency_us.as_ref() {
            let at = |of: f64| {
                let found = times.percentiles.iter().find(|[percentile, _]| *percentile == of);
                found.map_or_else(|| "-".to_owned(), |[_, us]| time(*us))
            };
            said += &format!("; answered after p50 {}, p99 {}", at(50.0), at(99.0));
        }
        said
    }

    /// Of both nodes by message; none: neither counted any.
    fn port_calls(&self) -> Option<f64> {
        let work = self.work?;
        let [near, far] = [work.near.port_calls, work.far.port_calls];
        near.or(far).map(|_| near.unwrap_or(0.0) + far.unwrap_or(0.0))
    }

    /// What the nodes did, for a message or for so many of them.
    pub(crate) fn did(&self, of: &str, times: f64) -> Table {
        let mut table = Table::new(&format!("What the nodes did for {of}"), &["what"], &[]);
        table.head.extend(Table::new("", &[], &["that sends", "that receives"]).head);
        let mut row = |says: &str, [near, far]: [Option<f64>; 2], unit: fn(f64) -> String| {
            let cell = |value: Option<f64>| {
                value.map_or_else(|| "-".to_owned(), |value| unit(value * times))
            };
            if near.or(far).is_some() {
                table.rows.push(vec![says.to_owned(), cell(near), cell(far)]);
            }
        };
        if let Some(cpu) = self.nodes_cpu {
            let own = [Some(cpu.near_user_us), Some(cpu.far_user_us)];
            row("CPU, its own code", own, time);
            row("CPU, the kernel", [Some(cpu.near_kernel_us), Some(cpu.far_kernel_us)], time);
        }
        let Some(NodesWork { near, far }) = self.work else {
            return table;
        };
        let of = |part: fn(SchedulersTime) -> Option<f64>| {
            [near.schedulers_us.and_then(part), far.schedulers_us.and_then(part)]
        };
        row("schedulers: the load's processes", of(|of| of.own_processes), time);
        let others = of(|of| Some((of.processes - of.own_processes?).max(0.0)));
        row("schedulers: other processes", others, time);
        row("schedulers: ports", of(|of| Some(of.ports)), time);
        row("schedulers: asking for events", of(|of| Some(of.check_io)), time);
        row("schedulers: garbage collection", of(|of| Some(of.gc)), time);
        row("schedulers: other", of(|of| Some(of.other)), time);
        row("schedulers: asleep", of(|of| Some(of.sleep)), time);
        row("reductions, the load's", [near.reductions, far.reductions], amount);
        row("reductions, all", [near.all_reductions, far.all_reductions], amount);
        row("port calls", [near.port_calls, far.port_calls], amount);
        let calls = self.system_calls.map(|calls| [calls.near, (calls.all - calls.near).max(0.0)]);
        row("system calls", calls.map_or([None; 2], |each| each.map(Some)), amount);
        let copied = [near.kernel_copied_bytes, far.kernel_copied_bytes];
        row("bytes copied by the kernel", copied, amount);
        table
    }

    /// What to know of the table; empty: nothing.
    pub(crate) fn did_note(&self, times: f64) -> String {
        let Some(calls) = self.system_calls else { return String::new() };
        let SystemCalls { writes, reads, polls, futexes, .. } = calls;
        let [writes, reads, polls, futexes] =
            [writes, reads, polls, futexes].map(|each| amount(each * times));
        format!(
            "system calls: {writes} write, {reads} read, {polls} wait for descriptors or set them, {futexes} are futexes; \
             counted in windows of a tenth of the time"
        )
    }
}

/// How long messages took that were timed in the nodes.
fn latency(facts: &Facts) -> Option<Distribution> {
    let (from, to) = facts.run.load.window;
    let since = |from| between::latency(facts.run.evidence, (from, to));
    // Of a short run all rounds may be in what was left out.
    let live = Some(since(from)).filter(|live| live.recorded().is_some());
    let live = live.unwrap_or_else(|| since(Timestamp(0)));
    live.recorded()?;
    Some(distribution(&Percentiles::of(&live), Curve::Kept))
}

/// By the messages that the node itself counted meanwhile: its samples are of other instants than the load's slices.
fn work(facts: &Facts, bytes_each: f64) -> Option<NodesWork> {
    let (from, to) = facts.run.load.window;
    let since = |from| facts.run.evidence.of(Subject::Node).within(from..=to);
    // Of a short run, or of a node that has hardly time to be asked, all rounds but one may be in what was left out.
    let whole = since(Timestamp(0));
    let has_time = |of: &Of| of.rate(vm::MICRO_EMULATOR).is_ok();
    let is_enough =
        |of: &Of| of.rate(between::MESSAGES).is_ok() && (has_time(of) || !has_time(&whole));
    let node = Some(since(from)).filter(is_enough).unwrap_or_else(|| whole.clone());
    let messages_per_s = node.rate(between::MESSAGES).ok()?;
    let count = |metric| node.rate(metric).ok().map(|rate: f64| rate / messages_per_s);
    let us = |metric| Some(node.rate(metric).ok()? * 1e6 / messages_per_s);
    let copied = |metrics: [Metric<Bytes>; 2]| {
        let [more, less] = metrics.map(|metric| node.rate(metric).ok());
        let rate = more? + less?;
        // A node that does not count these bytes has a few others.
        let each = rate / messages_per_s;
        (each > bytes_each / 2.0).then_some(each)
    };
    let schedulers = |of: [Metric<Duration>; 7], own: Option<f64>, all: Option<f64>| {
        let [processes, ports, check_io, gc, aux, other, sleep] = of.map(us);
        let processes = processes?;
        let share = own.zip(all).filter(|(_, all)| *all > 0.0);
        Some(SchedulersTime {
            processes,
            own_processes: share.map(|(own, all)| processes * (own / all).min(1.0)),
            ports: ports?,
            check_io: check_io?,
            gc: gc?,
            other: aux? + other?,
            sleep: sleep?,
        })
    };
    let near_micro = [
        vm::MICRO_EMULATOR,
        vm::MICRO_PORT,
        vm::MICRO_CHECK_IO,
        vm::MICRO_GC,
        vm::MICRO_AUX,
        vm::MICRO_OTHER,
        vm::MICRO_SLEEP,
    ];
    let far_micro = [
        between::FAR_MICRO_EMULATOR,
        between::FAR_MICRO_PORT,
        between::FAR_MICRO_CHECK_IO,
        between::FAR_MICRO_GC,
        between::FAR_MICRO_AUX,
        between::FAR_MICRO_OTHER,
        between::FAR_MICRO_SLEEP,
    ];
    let [own, all] = [between::REDUCTIONS, between::ALL_REDUCTIONS].map(count);
    let [far_own, far_all] = [between::FAR_REDUCTIONS, between::FAR_ALL_REDUCTIONS].map(count);
    let work = NodesWork {
        near: NodeWork {
            reductions: own,
            all_reductions: all,
            port_calls: count(between::PORT_CALLS),
            kernel_copied_bytes: copied([vm::IO_OUT, vm::IO_IN]),
            schedulers_us: schedulers(near_micro, own, all),
        },
        far: NodeWork {
            reductions: far_own,
            all_reductions: far_all,
            port_calls: count(between::FAR_PORT_CALLS),
            kernel_copied_bytes: copied([between::FAR_IO_IN, between::FAR_IO_OUT]),
            schedulers_us: schedulers(far_micro, far_own, far_all),
        },
    };
    (messages_per_s.is_normal() && all.is_some()).then_some(work)
}

/// Windows of the main phase, its warm-up included: what is counted in them is set against their own length.
fn system_calls(facts: &Facts, messages_per_s: f64) -> Option<SystemCalls> {
    let target = facts.run.evidence.of(Subject::Target);
    let target = target.within(Timestamp(0)..=facts.run.load.window.1);
    let watched = target.grown(calls::WATCHED).ok().filter(|watched| *watched > 0.0)?;
    let each = |metric| Some(target.grown(metric).ok()? / watched / messages_per_s);
    let calls = SystemCalls {
        all: each(calls::ALL)?,
        near: each(calls::ROOT_ALL)?,
        writes: each(calls::WRITES)?,
        reads: each(calls::READS)?,
        polls: each(calls::POLLS)?,
        futexes: each(calls::FUTEXES)?,
    };
    messages_per_s.is_normal().then_some(calls)
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

/// A number with two significant digits, or whole from a thousand on.
fn amount(value: f64) -> String {
    if value >= 1000.0 { count(value.round() as u64) } else { significant(value) }
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
            latency_us: None,
            work: None,
            system_calls: None,
        };
        assert_eq!(
            carried.says(),
            "696,000 messages/s to the other node, 106 Mbit/s; a message 2.49 us of CPU on both nodes, \
             0.041 context switches"
        );
    }

    #[test]
    fn what_the_nodes_did_is_told_of_a_message_or_of_a_megabyte_and_what_was_not_counted_is_no_row()
    {
        let near = NodeWork {
            reductions: Some(30.0),
            port_calls: Some(1.0),
            schedulers_us: Some(SchedulersTime {
                processes: 0.5,
                own_processes: Some(0.4),
                ports: 2.0,
                ..SchedulersTime::default()
            }),
            ..NodeWork::default()
        };
        let far = NodeWork { port_calls: Some(1.1), ..NodeWork::default() };
        let carried = Carried {
            messages_per_s: 1000.0,
            bytes_per_s: 20_000.0,
            cpu_us_per_message: None,
            switches_per_message: None,
            nodes_cpu: None,
            latency_us: None,
            work: Some(NodesWork { near, far }),
            system_calls: Some(SystemCalls {
                all: 1.5,
                near: 1.0,
                writes: 1.0,
                reads: 0.4,
                polls: 0.1,
                futexes: 0.0,
            }),
        };
        // Of 20 bytes a message: 50,000 of them.
        let did = carried.did("a megabyte", 1e6 / 20.0);
        let cell =
            |name: &str| did.rows.iter().find(|row| row[0] == name).map(|row| row[1..].to_vec());
        let row = |near: &str, far: &str| Some(vec![near.to_owned(), far.to_owned()]);
        assert_eq!(cell("reductions, the load's"), row("1,500,000", "-"));
        assert_eq!(cell("reductions, all"), None);
        assert_eq!(cell("port calls"), row("50,000", "55,000"));
        assert_eq!(cell("system calls"), row("50,000", "25,000"));
        assert_eq!(cell("schedulers: ports"), row("100 ms", "-"));
        assert_eq!(cell("schedulers: other processes"), row("5.00 ms", "-"));
        assert!(carried.did_note(1.0).starts_with("system calls: 1.0 write, 0.40 read, 0.10 wait"));
        assert!(carried.says().ends_with(", 1.5 system calls, 2.1 port calls"));
    }

    #[test]
    fn small_numbers_keep_two_digits() {
        let of = [0.0, 0.0413, 0.41, 4.13, 41.3].map(significant);
        assert_eq!(of, ["0", "0.041", "0.41", "4.1", "41"]);
    }
}
