//! Look-alikes among the limits of admission and of buffers, told apart: recorded runs with one thing
//! changed in them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::PathBuf;

use linerate_evidence::{Evidence, Header, Subject, read, summarise};
use linerate_roofline::{Judgement, Run, State, judge};

struct Recorded {
    header: Header,
    evidence: Evidence,
}

impl Recorded {
    fn of(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence");
        let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
        let (header, evidence, _) = read(&text).unwrap();
        Self { header, evidence }
    }

    /// The same run, had these samples been others; none: had they not been taken.
    fn with(mut self, change: impl Fn(Subject, &str, u64) -> Option<u64>) -> Self {
        let mut changed = Evidence::default();
        changed.slices = std::mem::take(&mut self.evidence.slices);
        for (at, of, values) in self.evidence.rows() {
            for (metric, raw) in values {
                if let Some(raw) = change(of, metric, raw) {
                    changed.push_raw(at, of, metric, raw);
                }
            }
        }
        Self { evidence: changed, ..self }
    }

    /// The same run, had one metric read so.
    fn reading(self, metric: &str, value: u64) -> Self {
        self.with(|_, name, raw| Some(if name == metric { value } else { raw }))
    }

    fn setting(mut self, name: &str, value: &str) -> Self {
        self.header.host.sysctls.insert(name.into(), value.into());
        self
    }

    fn judged(&self) -> Judgement {
        let load = summarise(&self.evidence, &self.header.plan);
        judge(&Run { header: &self.header, evidence: &self.evidence, load: &load })
    }

    fn named(&self) -> Option<String> {
        self.judged().verdict.by().map(str::to_owned)
    }

    fn binds(&self, id: &str) -> bool {
        self.judged().roofs.iter().any(|roof| roof.id == id && roof.binds)
    }
}

#[test]
fn a_queue_that_stands_still_is_a_limit_of_the_servers_where_descriptors_are_left() {
    let full = Recorded::of("descriptors");
    assert!(!full.binds("app.connection-limit"));
    assert_eq!(full.reading("process.nofile", 20_000).named().unwrap(), "app.connection-limit");
}

#[test]
fn a_limit_of_the_servers_is_not_named_where_descriptors_ran_out() {
    let limited = Recorded::of("connection-limit");
    let open = limited.with(|_, name, raw| Some(if name == "process.fds_max" { 99 } else { raw }));
    assert_eq!(open.reading("process.nofile", 100).named().unwrap(), "host.descriptors");
}

#[test]
fn a_table_of_ports_that_is_full_is_neither_of_them() {
    let full = Recorded::of("port-limit");
    assert!(!full.binds("app.connection-limit") && !full.binds("host.descriptors"));
    let roomy = full.reading("vm.port_limit", 65_536);
    assert_eq!(roomy.named().unwrap(), "app.connection-limit");
}

#[test]
fn slow_acceptors_are_not_named_where_the_queue_overflows() {
    let slow = Recorded::of("acceptor");
    // 10 more in each sample: several times 1 % of those that were made.
    let count = std::cell::Cell::new(0);
    let overflowing = slow.with(|_, name, raw| {
        Some(if name == "netstat.listen_overflows" { count.replace(count.get() + 10) } else { raw })
    });
    assert!(!overflowing.binds("tcp.acceptor"));
}

#[test]
fn slow_acceptors_are_not_named_where_descriptors_ran_out() {
    let slow = Recorded::of("acceptor").reading("process.fds_max", 100);
    assert!(!slow.reading("process.nofile", 100).binds("tcp.acceptor"));
}

#[test]
fn slow_acceptors_are_not_named_where_nobody_waits() {
    assert!(!Recorded::of("acceptor").reading("listener.rqueue_total", 0).binds("tcp.acceptor"));
}

#[test]
fn a_buffer_is_an_options_or_the_kernels_by_what_the_kernel_would_give() {
    let grown = Recorded::of("wmem-max");
    assert!(!grown.binds("tcp.send-buffer"));
    let fixed = grown.setting("net.ipv4.tcp_wmem", "4096 16384 4194304");
    assert_eq!(fixed.named().unwrap(), "tcp.send-buffer");
    let fixed = Recorded::of("send-buffer");
    assert!(!fixed.binds("tcp.wmem-max"));
    assert_eq!(
        fixed.setting("net.ipv4.tcp_wmem", "4096 16384 65536").named().unwrap(),
        "tcp.wmem-max"
    );
}

#[test]
fn so_is_a_window() {
    let grown = Recorded::of("rmem-max");
    assert!(!grown.binds("tcp.receive-window"));
    let fixed = grown.setting("net.ipv4.tcp_rmem", "4096 131072 33554432");
    assert_eq!(fixed.named().unwrap(), "tcp.receive-window");
    let fixed = Recorded::of("receive-window");
    assert!(!fixed.binds("tcp.rmem-max"));
    assert_eq!(
        fixed.setting("net.ipv4.tcp_rmem", "4096 65536 131072").named().unwrap(),
        "tcp.rmem-max"
    );
}

#[test]
fn a_window_that_a_slow_reader_shut_is_not_the_kernels() {
    let unread = Recorded::of("rmem-max").reading("tcp.rqueue", 100_000);
    assert!(!unread.binds("tcp.rmem-max"));
}

#[test]
fn a_pacing_rate_that_moves_is_congestion_controls() {
    let count = std::cell::Cell::new(4_194_304);
    let moving = Recorded::of("pacing").with(|_, name, raw| {
        Some(if name == "tcp.pacing_rate" { count.replace(count.get() + 1) } else { raw })
    });
    let judgement = moving.judged();
    let pacing = judgement.roofs.iter().find(|roof| roof.id == "tcp.pacing").unwrap();
    assert_eq!(pacing.state, State::DoesNotApply, "{pacing:?}");
}

#[test]
fn slow_start_is_not_named_where_segments_are_lost() {
    let lossy = Recorded::of("initial-window").reading("tcp.total_retrans", 9);
    assert!(!lossy.binds("tcp.initial-window"));
}

#[test]
fn a_pool_is_not_named_where_a_mailbox_is_long_or_nobody_calls() {
    let pool = Recorded::of("pool");
    assert!(pool.binds("app.pool"));
    assert!(!Recorded::of("pool").reading("suspect.mailbox", 28).binds("app.pool"));
    assert!(!pool.reading("waits.call", 0).binds("app.pool"));
}

#[test]
fn limits_of_the_node_do_not_apply_where_it_is_not_sampled_inside() {
    for (name, id) in [
        ("port-limit", "vm.port-limit"),
        ("process-limit", "vm.process-limit"),
        ("pool", "app.pool"),
    ] {
        let outside =
            Recorded::of(name).with(|of, _, raw| (of != Subject::Node).then_some(raw)).judged();
        let roof = outside.roofs.iter().find(|roof| roof.id == id).unwrap();
        assert_eq!(roof.state, State::DoesNotApply, "{roof:?}");
        assert_ne!(outside.verdict.by(), Some(id));
    }
}
