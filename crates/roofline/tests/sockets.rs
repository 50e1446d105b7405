//! Look-alikes among the limits of a node's sockets, told apart: recorded runs with one thing changed in
//! them, and recorded runs of one beside the other.
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
        for (subject, facts) in self.evidence.facts() {
            for (name, text) in facts {
                changed.push_fact(*subject, name, text.clone());
            }
        }
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

    fn without(self, source: &str) -> Self {
        self.with(|_, name, raw| (!name.starts_with(source)).then_some(raw))
    }

    fn release(mut self, otp: &str) -> Self {
        self.evidence.push_fact(Subject::Node, "otp", otp.into());
        self
    }

    fn judged(&self) -> Judgement {
        let load = summarise(&self.evidence, &self.header.plan);
        judge(&Run { header: &self.header, evidence: &self.evidence, load: &load })
    }

    fn named(&self) -> String {
        self.judged().verdict.by().unwrap_or("none").to_owned()
    }

    fn binds(&self, id: &str) -> bool {
        binds(&self.judged(), id)
    }

    fn state(&self, id: &str) -> State {
        self.judged().roofs.iter().find(|roof| roof.id == id).unwrap().state
    }
}

fn binds(judged: &Judgement, id: &str) -> bool {
    judged.roofs.iter().any(|roof| roof.id == id && roof.binds)
}

/// What was recorded, by plan.
const PLANTED: [(&str, &str); 13] = [
    ("small-buffer", "beam.small-buffer"),
    ("active-poll", "beam.active-poll"),
    ("socket-buffer", "beam.socket-buffer"),
    ("oversize-buffer", "beam.oversize-buffer"),
    ("packet-buffer", "beam.packet-buffer"),
    ("packet-parse", "beam.packet-parse"),
    ("list-mode", "beam.list-mode"),
    ("send-mailbox-scan", "beam.send-mailbox-scan"),
    ("selective-receive", "beam.selective-receive"),
    ("mailbox-backlog", "beam.mailbox-backlog"),
    ("slow-subscriber", "beam.slow-subscriber"),
    ("busy-port", "beam.busy-port"),
    ("slow-reader", "tcp.slow-reader"),
];

#[test]
fn no_planted_fault_of_a_socket_makes_another_bind_but_the_readers_queue() {
    for (name, planted) in PLANTED {
        let judged = Recorded::of(name).judged();
        for (_, other) in PLANTED {
            // A queue fills behind whatever reads slowly; it is a resource, and named after defects.
            if other != planted && other != "tcp.slow-reader" {
                assert!(!binds(&judged, other), "{name}: {other}");
            }
        }
    }
}

#[test]
fn no_other_planted_fault_makes_a_fault_of_a_socket_bind() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence");
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_recording = path.extension().is_some_and(|ending| ending == "jsonl");
        if is_recording && PLANTED.iter().all(|(planted, _)| *planted != name) {
            let judged = Recorded::of(&name).judged();
            for (_, id) in PLANTED {
                assert!(!binds(&judged, id), "{name}: {id}");
            }
        }
    }
}

#[test]
fn a_pinned_window_has_an_empty_queue_and_a_slow_reader_a_full_one() {
    let pinned = Recorded::of("receive-window");
    assert!(!pinned.binds("tcp.slow-reader"));
    assert!(!Recorded::of("slow-reader").binds("tcp.receive-window"));
    // The same slow reader, had it taken everything at once.
    let emptied = Recorded::of("slow-reader").reading("tcp.rqueue", 0).reading("tcp.rmem_alloc", 0);
    assert!(!emptied.binds("tcp.slow-reader"));
}

#[test]
fn a_small_buffer_is_told_from_active_mode_and_packet_modes_by_how_the_socket_reads() {
    let active = Recorded::of("small-buffer").reading("port.active", 3);
    assert_eq!(active.named(), "beam.active-poll");
    // Had its owners asked for each piece of data.
    let passive = Recorded::of("active-poll").reading("port.active", 0).reading("waits.recv", 2);
    assert_eq!(passive.named(), "beam.small-buffer");
    let cut = Recorded::of("small-buffer").reading("port.packet", 2);
    assert!(!cut.binds("beam.small-buffer"));
    let raw = Recorded::of("packet-buffer").reading("port.packet", 0);
    assert!(!raw.binds("beam.packet-buffer"));
    let of_module = Recorded::of("small-buffer").reading("port.socket_backend", 1);
    assert!(!of_module.binds("beam.small-buffer"));
}

#[test]
fn a_buffer_that_is_filled_binds_only_while_more_waits() {
    // One segment of a wire nearly fills the default buffer.
    let in_time = Recorded::of("small-buffer").reading("tcp.rqueue", 0);
    assert!(!in_time.binds("beam.small-buffer"));
    let large = Recorded::of("small-buffer").reading("port.buffer", 65_536);
    assert!(!large.binds("beam.small-buffer"));
}

/// Half as much is done in the same time: a slower CPU, or a release whose reads cost more.
#[test]
fn reads_and_lines_are_named_by_a_slow_node_too() {
    for (name, roof) in
        [("small-buffer", "beam.small-buffer"), ("packet-parse", "beam.packet-parse")]
    {
        let slow = Recorded::of(name).with(|_, metric, raw| {
            Some(if metric.starts_with("port.recv_") || metric == "port.send_cnt" {
                raw / 2
            } else {
                raw
            })
        });
        assert!(slow.binds(roof), "{name}");
    }
}

/// The drivers have an eighth of the reads, and of their time; the rest is the processes' own.
#[test]
fn reads_and_lines_beside_other_work_are_not_named() {
    for (name, roof) in
        [("small-buffer", "beam.small-buffer"), ("packet-parse", "beam.packet-parse")]
    {
        let busy = Recorded::of(name).with(|_, metric, raw| {
            let of_drivers = metric.starts_with("port.recv_")
                || ["port.send_cnt", "vm.micro_port", "vm.micro_check_io"].contains(&metric);
            Some(if of_drivers { raw / 8 } else { raw })
        });
        assert!(!busy.binds(roof), "{name}");
    }
}

#[test]
fn a_reader_that_rests_is_no_small_buffer_though_its_reads_fill_it() {
    let slow = Recorded::of("slow-reader");
    assert_eq!(slow.state("beam.small-buffer"), State::Ceiling);
    assert!(!slow.binds("beam.small-buffer"));
}

#[test]
fn a_backlog_comes_and_goes_and_junk_stands() {
    let backlog = Recorded::of("mailbox-backlog");
    assert!(!backlog.binds("beam.selective-receive"));
    let short = Recorded::of("mailbox-backlog").reading("owner.mailbox", 3);
    assert!(!short.binds("beam.mailbox-backlog"));
    // The junk, were it as much and never the same.
    let moving = Recorded::of("selective-receive").with(|_, name, raw| {
        Some(if name == "owner.mailbox" { raw + raw % 7 * 4_000 } else { raw })
    });
    assert!(!moving.binds("beam.selective-receive"));
}

#[test]
fn sends_search_no_mailbox_from_otp_26_on_and_receives_still_do() {
    let sends = Recorded::of("send-mailbox-scan").release("26");
    assert_eq!(sends.state("beam.send-mailbox-scan"), State::DoesNotApply);
    assert_ne!(sends.named(), "beam.send-mailbox-scan");
    assert_eq!(Recorded::of("selective-receive").release("27").named(), "beam.selective-receive");
}

#[test]
fn one_writer_that_waits_is_told_from_several_that_are_suspended() {
    let suspended = Recorded::of("slow-subscriber").reading("waits.port", 3);
    assert_eq!(suspended.named(), "beam.busy-port");
    let nobody = Recorded::of("busy-port").reading("waits.port", 0);
    assert!(!nobody.binds("beam.busy-port"));
    // Without a queue in the driver nobody waits for a peer.
    let empty = Recorded::of("slow-subscriber").reading("port.queue", 0);
    assert_eq!(empty.state("beam.slow-subscriber"), State::DoesNotApply);
}

#[test]
fn lists_of_small_messages_are_no_fault() {
    // A thousandth of the bytes, in the same time.
    let small = Recorded::of("list-mode")
        .with(|_, name, raw| Some(if name == "port.recv_oct" { raw / 1000 } else { raw }));
    assert!(!small.binds("beam.list-mode"));
}

#[test]
fn an_oversize_buffer_whose_pages_stay_is_no_fault() {
    let kept = Recorded::of("oversize-buffer").reading("process.minor_faults", 7);
    assert!(!kept.binds("beam.oversize-buffer"));
}

#[test]
fn without_the_nodes_samples_its_sockets_are_not_judged() {
    for (name, planted) in PLANTED {
        if planted.starts_with("beam.") {
            assert_eq!(Recorded::of(name).without("port.").state(planted), State::Unmeasured);
            let outside = Recorded::of(name).with(|of, metric, raw| {
                let inside = of == Subject::Node
                    || ["port.", "owner."].iter().any(|source| metric.starts_with(source));
                (!inside).then_some(raw)
            });
            assert_eq!(outside.state(planted), State::DoesNotApply, "{name}");
        }
    }
}
