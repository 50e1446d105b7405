//! Look-alikes among the limits of admission and of buffers, told apart: recorded runs with one thing
//! changed in them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::PathBuf;

use linerate_evidence::{Evidence, Header, Side, Subject, read, summarise};
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

    /// The same run, had a counter grown by so much from each sample to the next.
    fn growing(mut self, metric: &str, by: u64) -> Self {
        let mut count = 0;
        let mut changed = Evidence::default();
        changed.slices = std::mem::take(&mut self.evidence.slices);
        for (at, of, values) in self.evidence.rows() {
            for (name, raw) in values {
                if name != metric {
                    changed.push_raw(at, of, name, raw);
                }
            }
            let source = metric.split('.').next().unwrap();
            let is_its = match of {
                Subject::Stack(Side::Server) => source == "netstat",
                Subject::Listener(_) => source == "listener",
                _ => false,
            };
            if is_its {
                count += by;
                changed.push_raw(at, of, metric, count);
            }
        }
        Self { evidence: changed, ..self }
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

/// Erlang: each answer opens a socket that is not closed, and at 1,024 each is 500 (emfile).
#[test]
fn refusals_are_for_want_of_descriptors_where_none_are_left() {
    let refuses = || Recorded::of("foreign/refuses-without-descriptors");
    assert_eq!(refuses().named().unwrap(), "host.descriptors");
    assert_eq!(refuses().reading("process.fds_max", 100).named().unwrap(), "app.refused");
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
    let overflowing = slow.growing("netstat.listen_overflows", 10).growing("listener.drops", 10);
    assert_eq!(overflowing.named().unwrap(), "tcp.listen-backlog");
}

#[test]
fn slow_acceptors_are_not_named_where_descriptors_ran_out() {
    let slow = Recorded::of("acceptor").reading("process.fds_max", 100);
    assert_eq!(slow.reading("process.nofile", 100).named().unwrap(), "host.descriptors");
}

/// Before a pool or a single thread connections wait as well.
#[test]
fn slow_acceptors_are_not_named_where_those_that_were_accepted_take_the_time() {
    let slow = Recorded::of("acceptor");
    assert!(slow.binds("tcp.acceptor"));
    // 12 of 16 wait to be accepted: four are at work.
    let pool = slow
        .with(|_, name, raw| Some(if name == "listener.rqueue_total" { raw.min(12) } else { raw }));
    assert!(!pool.binds("tcp.acceptor"));
    assert!(!pool.binds("app.connection-limit"), "they come and go");
}

/// With `TCP_DEFER_ACCEPT` a listener drops the bare ACK of each connection, and nothing is amiss.
#[test]
fn acks_that_a_listener_defers_are_no_overflows() {
    let full = Recorded::of("listen-backlog");
    let deferred = full.with(|of, name, raw| {
        let is_overflow = ["netstat.listen_overflows", "netstat.listen_drops"].contains(&name);
        (!is_overflow || of != Subject::Stack(Side::Server)).then_some(raw)
    });
    assert!(!deferred.binds("tcp.listen-backlog"));
    let deferring = Recorded::of("acceptor")
        .growing("listener.drops", 50)
        .growing("netstat.defer_accept_drop", 50);
    assert!(!deferring.binds("tcp.listen-backlog"));
    // What the stack confirms and its own listeners deny was another service's.
    let others = Recorded::of("acceptor").growing("netstat.listen_overflows", 50);
    assert!(!others.binds("tcp.listen-backlog"));
    let own = Recorded::of("acceptor")
        .growing("netstat.listen_overflows", 50)
        .growing("listener.drops", 50);
    assert_eq!(own.named().unwrap(), "tcp.listen-backlog");
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
fn limits_of_the_node_do_not_apply_where_it_is_not_sampled_inside() {
    for (name, id) in [("port-limit", "vm.port-limit"), ("process-limit", "vm.process-limit")] {
        let outside =
            Recorded::of(name).with(|of, _, raw| (of != Subject::Node).then_some(raw)).judged();
        let roof = outside.roofs.iter().find(|roof| roof.id == id).unwrap();
        assert_eq!(roof.state, State::DoesNotApply, "{roof:?}");
        assert_ne!(outside.verdict.by(), Some(id));
    }
}

/// HAProxy with maxconn 10 and 40 clients: 11 connections wait in its queue, and 17 find it full.
#[test]
fn clients_that_are_still_connecting_wait_for_a_place_too() {
    let limited = || Recorded::of("foreign/most-never-get-in");
    assert_eq!(limited().named().unwrap(), "app.connection-limit");
    // All others were accepted, and most of those wait inside.
    let inside =
        limited().with(|_, name, raw| Some(if name == "census.connect" { 0 } else { raw }));
    assert_ne!(inside.named().as_deref(), Some("app.connection-limit"));
}

/// One acceptor makes each TLS handshake itself: 13 of 16 connections wait, one is accepted, and one is on its way.
#[test]
fn whoever_shakes_hands_accepts_one_at_a_time_and_a_connection_that_is_still_opened_was_not_let_in()
{
    let of = |tls, connecting: bool| {
        let one = Recorded::of("foreign/one-acceptor-shakes-hands");
        let keep = |name: &str| connecting || name != "census.connect";
        let mut one = one.with(|_, name, raw| Some(if keep(name) { raw } else { 0 }));
        one.header.plan.target.tls = tls;
        let roof = one.judged().roofs.into_iter().find(|roof| roof.id == "tcp.acceptor");
        roof.map(|roof| (roof.binds, roof.sum)).unwrap()
    };
    let (binds, sum) = of(true, true);
    assert!(binds && sum.starts_with("1 at a time"), "{sum}");
    // Without handshakes it is unknown what it does meanwhile.
    let (binds, sum) = of(false, true);
    assert!(binds && !sum.starts_with("1 at a time"), "{sum}");
    // They were all accepted: always the same number.
    assert!(!of(false, false).0);
}
