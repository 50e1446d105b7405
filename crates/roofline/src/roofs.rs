//! Diagnosis rules. To add one: a file here, its line in [`ROOFS`], its page in `docs/roofs/`, its
//! plan in `fixtures/provoke/`.

use crate::roof::Roof;

mod concurrency;
mod connection_churn;
mod engine_cpu;
mod ephemeral_ports;
mod host_cpu;
mod listen_backlog;
mod nagle_delayed_ack;
#[allow(dead_code)]
mod node;
mod offered_rate;
mod receive_window;
mod send_buffer;
mod target_cpu;
mod window;

#[allow(dead_code)]
mod cpu_quota;
#[allow(dead_code)]
mod dirty_schedulers;
#[allow(dead_code)]
mod funnel;
#[allow(dead_code)]
mod hot_connection;
#[allow(dead_code)]
mod large_heap;
#[allow(dead_code)]
mod logger;
#[allow(dead_code)]
mod neighbours;
#[allow(dead_code)]
mod persistent_term;
#[allow(dead_code)]
mod schedulers;
#[allow(dead_code)]
mod schedulers_too_few;
#[allow(dead_code)]
mod suspects;
#[allow(dead_code)]
mod tracing;


mod acceptor;
mod admission;
mod connection_limit;
mod descriptors;
mod initial_window;
mod pacing;
mod pool;
mod port_limit;
mod process_limit;
mod rmem_max;
mod wmem_max;
#[allow(dead_code)]
mod channels;
#[allow(dead_code)]
mod disk_sync;
#[allow(dead_code)]
mod dist_busy_port;
#[allow(dead_code)]
mod dist_decode;
#[allow(dead_code)]
mod dist_fragments;
#[allow(dead_code)]
mod dist_head_of_line;
#[allow(dead_code)]
mod dist_lockstep;
#[allow(dead_code)]
mod dist_receive_buffer;
#[allow(dead_code)]
mod encryption;
#[allow(dead_code)]
mod keepalive_limit;
#[allow(dead_code)]
mod shaper;
#[allow(dead_code)]
mod tls_bulk;
#[allow(dead_code)]
mod tls_handshake;
#[allow(dead_code)]
mod tls_small_records;

/// Every roof, lowest layer first. Order decides only how reports list equals.
pub static ROOFS: &[&dyn Roof] = &[
    &host_cpu::HostCpu,
    &target_cpu::TargetCpu,
    &engine_cpu::EngineCpu,
    &descriptors::Descriptors,
    &nagle_delayed_ack::NagleDelayedAck,
    &receive_window::ReceiveWindow,
    &rmem_max::RmemMax,
    &send_buffer::SendBuffer,
    &wmem_max::WmemMax,
    &pacing::Pacing,
    &initial_window::InitialWindow,
    &listen_backlog::ListenBacklog,
    &acceptor::Acceptor,
    &connection_limit::ConnectionLimit,
    &port_limit::PortLimit,
    &process_limit::ProcessLimit,
    &pool::Pool,
    &connection_churn::ConnectionChurn,
    &ephemeral_ports::EphemeralPorts,
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
    #[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
    fn every_roof_has_a_plan_that_provokes_it() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/provoke");
        let plans: Vec<String> = std::fs::read_dir(folder)
            .expect("fixtures/provoke is part of the repository")
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
            .collect();
        for roof in ROOFS {
            let line = format!("verdict = \"{}\"", roof.id());
            assert!(plans.iter().any(|plan| plan.contains(&line)), "{}", roof.id());
        }
    }
}
