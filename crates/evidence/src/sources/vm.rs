//! The node's virtual machine: schedulers, microstates, run queues, memory, limits, events of the
//! system monitor; and what the probe itself cost.
//!
//! Source: `erlang:statistics/1`, `erlang:system_info/1` (of `allocator_sizes` too), `erlang:memory/0`,
//! `erlang:system_monitor/2`, asked by `agent/src/probe/linerate_probe_vm.erl`. Nothing whose reading would change
//! other readers' results: so no reductions.
//!
//! Blind spot: the scheduler's wall time is wall time. A scheduler that the operating system does not run counts as
//! active, one that spins for work does not.

use std::time::Duration;

use linerate_model::Bytes;

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "vm",
    says: "the node's virtual machine, and what the probe cost it",
    of: "node",
    fetch: Fetch::Node,
    metrics: METRICS,
    parse: Parse::Node,
};

metrics! {
    /// Time in which normal schedulers had work, summed over all; in the emulator's unit, so that only its ratio to `vm.scheduler_total` means anything.
    SCHEDULER_ACTIVE: u64 = "vm.scheduler_active", "1";
    /// Time that passed for normal schedulers, summed over all, those offline included; same unit.
    SCHEDULER_TOTAL: u64 = "vm.scheduler_total", "1";
    /// As `vm.scheduler_active`, of the dirty CPU schedulers.
    DIRTY_CPU_ACTIVE: u64 = "vm.dirty_cpu_active", "1";
    /// As `vm.scheduler_total`, of the dirty CPU schedulers, those offline included.
    DIRTY_CPU_TOTAL: u64 = "vm.dirty_cpu_total", "1";
    /// As `vm.scheduler_active`, of the dirty I/O schedulers.
    DIRTY_IO_ACTIVE: u64 = "vm.dirty_io_active", "1";
    /// As `vm.scheduler_total`, of the dirty I/O schedulers.
    DIRTY_IO_TOTAL: u64 = "vm.dirty_io_total", "1";
    /// Time of normal schedulers in code of processes (`emulator`), summed over them, since the probe came. As all `vm.micro_*`: from samples of 2 to 20 ms a pass, scaled to all the time.
    MICRO_EMULATOR: Duration = "vm.micro_emulator", "ns";
    /// Time of normal schedulers in code of ports, drivers included (`port`).
    MICRO_PORT: Duration = "vm.micro_port", "ns";
    /// Time of normal schedulers that asked the kernel for new I/O events (`check_io`).
    MICRO_CHECK_IO: Duration = "vm.micro_check_io", "ns";
    /// Time of normal schedulers in garbage collection (`gc`).
    MICRO_GC: Duration = "vm.micro_gc", "ns";
    /// Time of normal schedulers in auxiliary jobs (`aux`).
    MICRO_AUX: Duration = "vm.micro_aux", "ns";
    /// Time of normal schedulers in anything else, most of it spinning for work (`other`).
    MICRO_OTHER: Duration = "vm.micro_other", "ns";
    /// Time of normal schedulers asleep (`sleep`).
    MICRO_SLEEP: Duration = "vm.micro_sleep", "ns";
    /// Processes and ports that could run and wait for a normal scheduler; a state.
    RUN_QUEUE: u64 = "vm.run_queue", "1";
    /// The longest of the normal schedulers' queues; a state.
    RUN_QUEUE_LONGEST: u64 = "vm.run_queue_longest", "1";
    /// Processes that wait for a dirty scheduler for computing; a state.
    RUN_QUEUE_DIRTY_CPU: u64 = "vm.run_queue_dirty_cpu", "1";
    /// Processes that wait for a dirty scheduler for I/O; a state.
    RUN_QUEUE_DIRTY_IO: u64 = "vm.run_queue_dirty_io", "1";
    /// Processes and ports that run or wait for a normal scheduler, the probe among them; a state.
    ACTIVE_TASKS: u64 = "vm.active_tasks", "1";
    /// Normal schedulers (`+S`, first number).
    SCHEDULERS: u64 = "vm.schedulers", "1";
    /// Normal schedulers that are in use (`+S`, second number).
    SCHEDULERS_ONLINE: u64 = "vm.schedulers_online", "1";
    /// Normal schedulers of those that do nothing until a process that blocked them unblocks them
    /// (`erlang:system_flag(multi_scheduling, block)` or `block_normal`).
    SCHEDULERS_BLOCKED: u64 = "vm.schedulers_blocked", "1";
    /// Dirty schedulers for computing that the node has (`+SDcpu`, first number).
    DIRTY_CPU_SCHEDULERS: u64 = "vm.dirty_cpu_schedulers", "1";
    /// Dirty schedulers for computing that are in use (`+SDcpu`, second number).
    DIRTY_CPU_SCHEDULERS_ONLINE: u64 = "vm.dirty_cpu_schedulers_online", "1";
    /// Dirty schedulers for I/O (`+SDio`).
    DIRTY_IO_SCHEDULERS: u64 = "vm.dirty_io_schedulers", "1";
    /// CPUs that the node found it may use when it started.
    LOGICAL_PROCESSORS_AVAILABLE: u64 = "vm.logical_processors_available", "1";
    /// Times a scheduler took up a process, since the node started.
    CONTEXT_SWITCHES: u64 = "vm.context_switches", "1";
    /// Garbage collections since the node started.
    GC_COUNT: u64 = "vm.gc_count", "1";
    /// Memory that they gave back.
    GC_RECLAIMED: Bytes = "vm.gc_reclaimed", "B";
    /// Bytes that came in through ports, since the node started; sockets of the `socket` module are no ports.
    IO_IN: Bytes = "vm.io_in", "B";
    /// Bytes that went out through ports.
    IO_OUT: Bytes = "vm.io_out", "B";
    /// Processes; a state.
    PROCESS_COUNT: u64 = "vm.process_count", "1";
    /// Processes there may be (`+P`).
    PROCESS_LIMIT: u64 = "vm.process_limit", "1";
    /// Ports; a state.
    PORT_COUNT: u64 = "vm.port_count", "1";
    /// Ports there may be (`+Q`).
    PORT_LIMIT: u64 = "vm.port_limit", "1";
    /// Atoms; they are never freed.
    ATOM_COUNT: u64 = "vm.atom_count", "1";
    /// Atoms there may be (`+t`).
    ATOM_LIMIT: u64 = "vm.atom_limit", "1";
    /// ETS tables; a state.
    ETS_COUNT: u64 = "vm.ets_count", "1";
    /// ETS tables that the node was made for (`+e`); more are possible.
    ETS_LIMIT: u64 = "vm.ets_limit", "1";
    /// Descriptors the node may open, as it sees it; told once.
    MAX_FDS: u64 = "vm.max_fds", "1";
    /// Memory that the node's allocators gave out; a state, as all `vm.memory_*`.
    MEMORY_TOTAL: Bytes = "vm.memory_total", "B";
    /// Of it, that of processes.
    MEMORY_PROCESSES: Bytes = "vm.memory_processes", "B";
    /// Of it, all that is not of processes; atoms, binaries, code and ETS tables are in it.
    MEMORY_SYSTEM: Bytes = "vm.memory_system", "B";
    /// Of it, binaries outside of processes' heaps.
    MEMORY_BINARY: Bytes = "vm.memory_binary", "B";
    /// Of it, ETS tables.
    MEMORY_ETS: Bytes = "vm.memory_ets", "B";
    /// Of it, code.
    MEMORY_CODE: Bytes = "vm.memory_code", "B";
    /// Of it, atoms.
    MEMORY_ATOM: Bytes = "vm.memory_atom", "B";
    /// Of `vm.memory_system`, what drivers of ports have: a socket's state, and what it has still to send.
    MEMORY_DRIVERS: Bytes = "vm.memory_drivers", "B";
    /// Memory that the node's allocators have of the operating system, in use or not; what `vm.memory_total` leaves of it is fragmentation and reserve.
    MEMORY_CARRIERS: Bytes = "vm.memory_carriers", "B";
    /// Persistent terms; a state.
    PERSISTENT_TERMS: u64 = "vm.persistent_terms", "1";
    /// Their memory; a state.
    PERSISTENT_TERM_MEMORY: Bytes = "vm.persistent_term_memory", "B";
    /// Alarms that stand on the node or in its cluster, where an application that keeps such was found (RabbitMQ); which they are is the fact `alarms`.
    ALARMS: u64 = "vm.alarms", "1";
    /// Lanes of the links that `linerate_link` opened at the node, where that application runs (64 at most are looked at); to which nodes is the fact `links`.
    LINK_LANES: u64 = "vm.link_lanes", "1";
    /// Messages that wait in those lanes to be written.
    LINK_QUEUE: u64 = "vm.link_queue", "1";
    /// Frames of those lanes that the far node has not confirmed.
    LINK_UNCONFIRMED: u64 = "vm.link_unconfirmed", "1";
    /// Destinations without credit, for which a lane keeps messages back: they do not take what they have.
    LINK_STALLED: u64 = "vm.link_stalled", "1";
    /// Bytes of the messages that are kept back so.
    LINK_KEPT: Bytes = "vm.link_kept", "B";
    /// Readers of the links that were opened to the node, one a lane; from which nodes is the fact `links`.
    LINK_READERS: u64 = "vm.link_readers", "1";
    /// Frames that wait in those readers' mailboxes.
    LINK_UNREAD: u64 = "vm.link_unread", "1";
    /// Bytes of messages that those readers delivered and destinations were not seen to take: as of the last confirmation, and below a quarter of a window nobody looks.
    LINK_UNCONSUMED: Bytes = "vm.link_unconsumed", "B";
    /// Bytes queued for another node above which senders are suspended (`+zdbbl`).
    DIST_BUF_BUSY_LIMIT: Bytes = "vm.dist_buf_busy_limit", "B";
    /// Age of the node.
    UPTIME: Duration = "vm.uptime", "ns";
    /// Time in which the system monitor was asked what took long: not all of it on a node of very many time slices.
    TIMED: Duration = "vm.timed", "ns";
    /// Garbage collections of 20 ms and more that the system monitor reported since the probe came; absent where another program uses it, as all of its events.
    LONG_GC: u64 = "vm.long_gc", "1";
    /// The longest of them.
    LONG_GC_WORST: Duration = "vm.long_gc_worst", "ns";
    /// Collections after which a process had 64 MiB and more.
    LARGE_HEAP: u64 = "vm.large_heap", "1";
    /// Turns of a process or port that held its scheduler for 20 ms and more.
    LONG_SCHEDULE: u64 = "vm.long_schedule", "1";
    /// How long they held it, summed: by the wall clock, in whole milliseconds.
    LONG_SCHEDULE_TIME: Duration = "vm.long_schedule_time", "ns";
    /// Half of the squares of their lengths in seconds, summed, as seconds: by its growth a second what comes to one scheduler at any instant waits.
    LONG_SCHEDULE_WAIT: Duration = "vm.long_schedule_wait", "ns";
    /// Processes that were suspended because they sent to a port that was busy.
    BUSY_PORT: u64 = "vm.busy_port", "1";
    /// Processes that were suspended because they sent to a node whose channel was busy.
    BUSY_DIST_PORT: u64 = "vm.busy_dist_port", "1";
    /// What the probe took of a scheduler since it came: its sampling rounds' time, less the waits for answers of
    /// others, the sending of its answers, and by estimate what the emulator's accounts and clocks took for it.
    PROBE_TIME: Duration = "vm.probe_time", "ns";
    /// Those waits.
    PROBE_WAITED: Duration = "vm.probe_waited", "ns";
    /// Passes of the probe.
    PROBE_PASSES: u64 = "vm.probe_passes", "1";
    /// Of them, sampling rounds that left something out to keep the budget.
    PROBE_THINNED: u64 = "vm.probe_thinned", "1";
    /// Reductions of the probe's processes.
    PROBE_REDUCTIONS: u64 = "vm.probe_reductions", "1";
    /// Of `vm.probe_time`, what the virtual machine's part took.
    PROBE_VM_TIME: Duration = "vm.probe_vm_time", "ns";
    /// Of `vm.probe_time`, what the sockets' part took.
    PROBE_SOCKETS_TIME: Duration = "vm.probe_sockets_time", "ns";
    /// Of `vm.probe_time`, what the processes' part took.
    PROBE_PROCESSES_TIME: Duration = "vm.probe_processes_time", "ns";
    /// Of `vm.probe_time`, what the part that asks what processes are at took.
    PROBE_DOING_TIME: Duration = "vm.probe_doing_time", "ns";
    /// Of `vm.probe_time`, what the part that asks whom requests wait for took.
    PROBE_CALLEES_TIME: Duration = "vm.probe_callees_time", "ns";
    /// Of `vm.probe_time`, what the distribution's part took.
    PROBE_DIST_TIME: Duration = "vm.probe_dist_time", "ns";
    /// Of `vm.probe_time`, what the part for a message broker took.
    PROBE_BROKER_TIME: Duration = "vm.probe_broker_time", "ns";
    /// Of `vm.probe_time`, what the kernel's part took: only of a node on another host.
    PROBE_KERNEL_TIME: Duration = "vm.probe_kernel_time", "ns";
}

#[cfg(test)]
mod tests {
    use super::super::scheduler;
    use super::*;
    use std::collections::BTreeSet;

    /// The metrics that a module of the probe names, as quoted atoms.
    fn named<'a>(texts: &[&'a str], source: &str) -> BTreeSet<&'a str> {
        let atoms = texts.iter().flat_map(|text| text.split('\''));
        atoms
            .filter(|atom| atom.strip_prefix(source).is_some_and(|rest| rest.starts_with('.')))
            .collect()
    }

    #[test]
    fn the_probe_tells_these_metrics_and_no_others() {
        let texts = [
            include_str!("../../../../agent/src/probe/linerate_probe_vm.erl"),
            include_str!("../../../../agent/src/probe/linerate_probe_microstates.erl"),
            include_str!("../../../../agent/src/probe/linerate_probe_worker.erl"),
            include_str!("../../../../agent/src/probe/linerate_probe_links.erl"),
        ];
        for source in [&SOURCE, &scheduler::SOURCE] {
            let ours: BTreeSet<&str> = source.metrics.iter().map(|metric| metric.name).collect();
            assert_eq!(named(&texts, source.id), ours, "{source}");
        }
    }
}
