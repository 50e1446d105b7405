//! A run looks into the BEAM node that it loads, unless it is told not to. Needs Erlang and the agent.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use linerate_evidence::{Evidence, Side, Subject, read};

mod nodes;
mod ours;

use ours::{Linerate, needs, soon};

const LONG: Duration = Duration::from_secs(40);

fn evidence(words: &[&str]) -> Evidence {
    needs(&["erl"]);
    let words = [&["run", "-q", "-c", "4", "-d", "1500ms", "-o", "run.jsonl"][..], words].concat();
    let mut linerate = Linerate::start(&words);
    assert_eq!(linerate.end(LONG), 0, "{}", linerate.err());
    linerate.assert_nothing_left();
    let file = std::fs::read_to_string(linerate.folder.path().join("run.jsonl")).unwrap();
    read(&file).unwrap().1
}

#[test]
fn what_the_node_and_the_kernel_tell_of_a_connection_stands_at_one_subject() {
    let evidence = evidence(&["--beam", "http"]);
    assert_eq!(evidence.unread.get("node"), None);
    let times = |of: Subject, name: &str| {
        let rows = evidence.rows();
        rows.iter()
            .filter(|(_, subject, values)| *subject == of && values.contains_key(name))
            .count()
    };
    // At the begin, at the end, and some between.
    assert!(times(Subject::Node, "vm.run_queue") >= 3);
    let flow = Subject::Flow(0, Side::Server);
    assert!(times(flow, "port.recv_cnt") >= 2 && times(flow, "tcp.bytes_received") >= 2);
    let peer = evidence.fact(flow, "peer").unwrap();
    assert!(peer.starts_with("127.0.0.1:"), "{peer}");
    // Linerate's own connection to the node is none of the engine's.
    assert!(evidence.flows(Side::Server).iter().any(|id| *id >= Subject::OTHER_FLOWS));
}

#[test]
fn a_run_that_is_to_stay_outside_has_nothing_of_the_node() {
    let evidence = evidence(&["--beam", "http", "--no-inside"]);
    assert_eq!(evidence.unread.get("node"), None);
    assert!(evidence.subjects().all(|of| !matches!(of, Subject::Node | Subject::Process(_))));
}

#[test]
fn a_node_of_this_host_that_runs_already_is_looked_into_and_left_as_it_was() {
    let node = nodes::Node::start("echo", "healthy", LONG);
    let target = format!("tcp://127.0.0.1:{}", node.port("echo"));
    let words = [target.as_str(), "--request", "64", "--no-check"];
    for more in [&[][..], &["--no-inside"]] {
        let open = node.descriptors();
        let evidence = evidence(&[&words, more].concat());
        assert_eq!(evidence.unread.get("node"), None);
        let is_inside = evidence.subjects().any(|of| of == Subject::Node);
        assert_eq!(is_inside, more.is_empty());
        assert!(soon(LONG, || node.descriptors() == open), "{open:?} {:?}", node.descriptors());
    }
}
