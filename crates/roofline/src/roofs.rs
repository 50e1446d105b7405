//! Diagnosis rules. To add one: a file here, its line in [`ROOFS`], its page in `docs/roofs/`, its
//! plan in `fixtures/provoke/` or, where it takes somebody else's service, its case in `fixtures/nodes/`.

use crate::roof::Roof;

mod concurrency;
mod connection_churn;
mod engine_cpu;
mod ephemeral_ports;
mod host_cpu;
mod listen_backlog;
mod nagle_delayed_ack;
mod native_code;
#[allow(dead_code)]
mod node;
mod offered_rate;
mod receive_window;
mod send_buffer;
mod target_cpu;
mod window;

mod cpu_quota;
mod dirty_schedulers;
mod funnel;
mod hot_connection;
mod large_heap;
mod logger;
mod neighbours;
mod persistent_term;
mod schedulers;
mod schedulers_too_few;
mod suspects;
mod tracing;

mod acceptor;
mod admission;
mod alarm;
mod channels;
mod connection_limit;
mod descriptors;
mod disk_sync;
mod dist_busy_port;
mod dist_decode;
mod dist_fragments;
mod dist_head_of_line;
mod dist_lockstep;
mod dist_receive_buffer;
mod encryption;
mod initial_window;
mod keepalive_limit;
mod pacing;
mod pool;
mod port_limit;
mod process_limit;
mod rmem_max;
mod shaper;
mod tls_bulk;
mod tls_handshake;
mod tls_small_records;
mod wmem_max;

mod blocked_writers;
mod list_mode;
mod mailbox_backlog;
mod mailbox_scan;
mod oversize_buffer;
mod packet_buffer;
mod packet_parse;
mod slow_reader;
mod small_buffer;
mod sockets;

mod bbr_pacing;
mod black_hole;
mod bufferbloat;
mod emulator;
mod line_rate;
mod loss;
mod queue_limit;
mod slow_start_after_idle;
mod stalls;
mod ways;

/// Every roof, layer by layer. Order decides only how reports list equals.
pub static ROOFS: &[&dyn Roof] = &[
    &emulator::Emulator,
    &queue_limit::QueueLimit,
    &line_rate::LineRate,
    &bufferbloat::Bufferbloat,
    &loss::Loss,
    &black_hole::BlackHole,
    // Before the CPUs: it stands where they do, and says what they are used for.
    &tls_bulk::TlsBulk,
    &host_cpu::HostCpu,
    &target_cpu::TargetCpu,
    &engine_cpu::EngineCpu,
    &cpu_quota::CpuQuota,
    &neighbours::Neighbours,
    &schedulers::Schedulers,
    &schedulers_too_few::SchedulersTooFew,
    &funnel::Funnel,
    &hot_connection::HotConnection,
    &large_heap::LargeHeap,
    &persistent_term::PersistentTerm,
    &logger::Logger,
    &dirty_schedulers::DirtySchedulers::Computing,
    &dirty_schedulers::DirtySchedulers::Io,
    &tracing::Tracing,
    &native_code::NativeCode,
    &descriptors::Descriptors,
    &nagle_delayed_ack::NagleDelayedAck,
    &receive_window::ReceiveWindow,
    &rmem_max::RmemMax,
    &send_buffer::SendBuffer,
    &wmem_max::WmemMax,
    &pacing::Pacing,
    &bbr_pacing::BbrPacing,
    &initial_window::InitialWindow,
    &slow_start_after_idle::SlowStartAfterIdle,
    &listen_backlog::ListenBacklog,
    &acceptor::Acceptor,
    &connection_limit::ConnectionLimit,
    &port_limit::PortLimit,
    &process_limit::ProcessLimit,
    &pool::Pool,
    &connection_churn::ConnectionChurn,
    &ephemeral_ports::EphemeralPorts,
    &tls_handshake::TlsHandshake,
    &tls_small_records::TlsSmallRecords,
    &dist_busy_port::DistBusyPort,
    &dist_head_of_line::DistHeadOfLine,
    &dist_fragments::DistFragments,
    &dist_receive_buffer::DistReceiveBuffer,
    &dist_decode::DistDecode,
    &dist_lockstep::DistLockstep,
    &keepalive_limit::KeepaliveLimit,
    &alarm::Alarm,
    &shaper::Shaper,
    &disk_sync::DiskSync,
    &small_buffer::SmallBuffer::Driver,
    &small_buffer::SmallBuffer::ActivePoll,
    &small_buffer::SmallBuffer::SocketModule,
    &oversize_buffer::OversizeBuffer,
    &packet_buffer::PacketBuffer,
    &packet_parse::PacketParse,
    &list_mode::ListMode,
    &mailbox_scan::MailboxScan::Send,
    &mailbox_scan::MailboxScan::Receive,
    &mailbox_backlog::MailboxBacklog,
    &blocked_writers::BlockedWriters::One,
    &blocked_writers::BlockedWriters::Several,
    &slow_reader::SlowReader,
    &concurrency::Concurrency,
    &offered_rate::OfferedRate,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_of_the_form_layer_dot_limit() {
        let mut ids: Vec<_> = ROOFS.iter().map(|roof| roof.id()).collect();
        assert!(ids.iter().all(|id| id.split('.').count() == 2), "{ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), ROOFS.len());
    }

    #[test]
    fn every_roof_has_a_page_that_begins_with_its_id() {
        for roof in ROOFS {
            let heading = format!("# {}\n", roof.id());
            assert!(roof.page().starts_with(&heading), "{}", roof.id());
        }
    }

    #[test]
    fn every_roof_has_a_plan_that_provokes_it_or_a_node_that_has_it() {
        let plans = texts(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/provoke"));
        let nodes = texts(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/nodes"));
        let holds = |texts: &[String], line: String| texts.iter().any(|text| text.contains(&line));
        for roof in ROOFS {
            let by_plan = holds(&plans, format!("verdict = \"{}\"", roof.id()));
            let by_node = holds(&nodes, format!("roof=\"{}\"", roof.id()));
            assert!(by_plan || by_node, "{}", roof.id());
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
    fn texts(folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("it is part of the repository").flatten();
        entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect()
    }
}
