//! The registry of limits. To add one: a file with a function `explain` in its layer's folder here, its line in
//! [`ROOFS`], its page in `docs/roofs/`, its plan in `fixtures/provoke/` or its case in `fixtures/{nodes,foreign}/`.

use crate::prelude::*;

mod app;
mod beam;
mod dist;
mod engine;
mod host;
mod http;
mod load;
mod path;
mod tcp;
mod tls;
mod vm;

use app::at_once::AtOnce;
use beam::{blocked_writers::BlockedWriters, mailbox_scan::MailboxScan, small_buffer::SmallBuffer};
use tcp::buffers::Buffers;

/// A limit. It knows no other roof and no order, only what its own mechanism does to exchanges, and its evidence.
pub struct Roof {
    /// `layer.limit`; stable for ever.
    pub id: &'static str,
    /// A heading for people.
    pub title: &'static str,
    /// Its page, `docs/roofs/ID.md`.
    pub page: &'static str,
    /// Its claim about a run.
    pub explain: fn(&Facts) -> Result<Claim, Silent>,
}

/// A roof by its id (and its page's), its heading, and its claim: a file's `explain`, or one of several of a kind.
macro_rules! roof {
    ($id:literal, $title:literal, $layer:ident::$file:ident) => {
        roof!($id, $title, $layer::$file::explain)
    };
    ($id:literal, $title:literal, $kind:ident: $which:ident) => {
        roof!($id, $title, |facts| $kind::$which.explain(facts))
    };
    ($id:literal, $title:literal, $explain:expr) => {{
        let page = include_str!(concat!("../../../docs/roofs/", $id, ".md"));
        Roof { id: $id, title: $title, page, explain: $explain }
    }};
}

/// Every roof, layer by layer. The order only decides how reports list equals.
pub static ROOFS: &[Roof] = &[
    roof!("path.emulator", "the path's emulator", path::emulator),
    roof!("path.queue-limit", "a queue limit on the path", path::drops::at_a_limit),
    roof!("path.rate", "the path's rate", path::rate),
    roof!("path.bufferbloat", "a standing queue on the path (bufferbloat)", path::bufferbloat),
    roof!("path.loss", "packets lost on the path", path::drops::at_random),
    roof!("path.black-hole", "a black hole for large packets", path::black_hole),
    roof!("tls.bulk", "encryption of bulk data", tls::bulk),
    roof!("host.cpu", "CPU shared by target and engine", host::cpu),
    roof!("target.cpu", "the target's CPU", host::target_cpu),
    roof!("engine.cpu", "the load engine itself", engine::cpu),
    roof!("host.cpu-quota", "the target's CPU quota", host::quota),
    roof!("host.neighbours", "other tenants on the same CPUs", host::neighbours),
    roof!("vm.schedulers", "the node's schedulers", vm::schedulers),
    roof!("vm.schedulers-too-few", "fewer schedulers than CPUs", vm::schedulers_too_few),
    roof!("vm.funnel", "a process that serves one call at a time", vm::funnel),
    roof!("vm.hot-connection", "one busy connection, one scheduler", vm::hot_connection),
    roof!("vm.large-heap", "garbage collection of large heaps", vm::large_heap),
    roof!("vm.persistent-term", "persistent terms that change at run time", vm::persistent_term),
    roof!("vm.logger", "waits for a log handler", vm::logger),
    roof!("vm.dirty-cpu", "dirty CPU schedulers", Pool: Computing),
    roof!("vm.dirty-io", "dirty I/O schedulers", Pool: Io),
    roof!("vm.tracing", "tracing left on", vm::tracing),
    roof!("vm.native-code", "native code that blocks schedulers", vm::native_code),
    roof!("host.descriptors", "the target's limit of open files", Stock: Descriptors),
    roof!("tcp.nagle-delayed-ack", "Nagle with delayed ACK", tcp::nagle_delayed_ack),
    roof!("tcp.cork", "a cork left in the socket", tcp::cork),
    roof!("tcp.receive-window", "a fixed receive buffer", |of| Buffers::Receive.pinned(of)),
    roof!("tcp.rmem-max", "the kernel's limit on receive buffers", |of| Buffers::Receive
        .at_most(of)),
    roof!("tcp.send-buffer", "a small send buffer", |of| Buffers::Send.pinned(of)),
    roof!("tcp.wmem-max", "the kernel's limit on send buffers", |of| Buffers::Send.at_most(of)),
    roof!("tcp.pacing", "a configured pacing rate", tcp::pacing),
    roof!("tcp.bbr-pacing", "bbr's pacing of single answers", tcp::bbr_pacing),
    roof!("tcp.initial-window", "slow start on every exchange", tcp::initial_window),
    roof!("tcp.slow-start-after-idle", "windows reset while idle", tcp::slow_start_after_idle),
    roof!("tcp.listen-backlog", "the listener's backlog", tcp::listen_backlog),
    roof!("tcp.acceptor", "too few acceptors", tcp::acceptor),
    roof!("app.connection-limit", "the server's connection limit", app::connection_limit),
    roof!("vm.port-limit", "the node's port table", Stock: Ports),
    roof!("vm.process-limit", "the node's process table", Stock: Processes),
    roof!("app.serial", "one request at a time inside the server", AtOnce: Serial),
    roof!("app.pool", "a pool inside the server", AtOnce: Pool),
    roof!("app.rate-limit", "a rate limit of the service", app::rate_limit),
    roof!("app.dependency", "a dependency of the service", app::dependency),
    roof!("app.wait", "waits inside the application", app::wait),
    roof!("app.garbage-collection", "a runtime's garbage collection", app::garbage_collection),
    roof!("app.refused", "refusals", app::refused),
    roof!("app.consumer", "consumers slower than publishers", app::consumer),
    roof!("app.disk", "waits for a disk", app::disk::waits),
    roof!("engine.quota", "linerate's own CPU quota", engine::kept::quota),
    roof!("engine.neighbours", "other programs on linerate's CPUs", engine::kept::neighbours),
    roof!("tcp.connection-churn", "a connection for each exchange", tcp::connection_churn),
    roof!("tcp.ephemeral-ports", "the client's local ports", tcp::ephemeral_ports),
    roof!("tls.handshake", "a TLS handshake every few exchanges", tls::handshake),
    roof!("tls.small-records", "small TLS records", tls::small_records),
    roof!("dist.busy-port", "a busy channel to another node", dist::busy_port),
    roof!("dist.head-of-line", "calls queued behind bulk data on one channel", dist::head_of_line),
    roof!("dist.fragments", "large messages to another node", dist::fragments),
    roof!(
        "dist.receive-buffer",
        "a small read buffer on the channel from another node",
        dist::receive_buffer
    ),
    roof!("dist.decode", "large terms from another node", dist::decode),
    roof!("dist.lockstep", "calls to another node, one after the other", dist::lockstep),
    roof!("http.keepalive-limit", "a limit of requests per connection", http::keepalive_limit),
    roof!("app.alarm", "an alarm of the service", app::alarm),
    roof!("app.shaper", "a rate limit per connection", app::shaper),
    roof!("app.disk-sync", "waiting for disk syncs", app::disk::sync),
    roof!("beam.small-buffer", "a small read buffer", SmallBuffer: Driver),
    roof!("beam.active-poll", "active mode with a small read buffer", SmallBuffer: ActivePoll),
    roof!("beam.socket-buffer", "a small read buffer of the socket module", SmallBuffer: SocketModule),
    roof!("beam.oversize-buffer", "an oversize read buffer", beam::oversize_buffer),
    roof!("beam.packet-buffer", "a packet mode with a small read buffer", beam::packet_buffer),
    roof!("beam.packet-parse", "lines parsed by the driver", beam::packet_parse),
    roof!("beam.list-mode", "data delivered as lists", beam::list_mode),
    roof!("beam.send-mailbox-scan", "sends that search a long mailbox", MailboxScan: Send),
    roof!("beam.selective-receive", "receives that search a long mailbox", MailboxScan: Receive),
    roof!("beam.mailbox-backlog", "data waiting in mailboxes", beam::mailbox_backlog),
    roof!("beam.slow-subscriber", "one slow peer blocks a process that writes to many", BlockedWriters: One),
    roof!("beam.busy-port", "processes suspended at a busy port", BlockedWriters: Several),
    roof!("tcp.slow-reader", "an application that reads slowly", tcp::slow_reader),
    roof!("load.concurrency", "concurrency (Little's law)", load::concurrency),
    roof!("load.offered-rate", "the offered rate", load::offered_rate),
];
