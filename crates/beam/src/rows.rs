//! The probe's rows, from terms: `{Of, [{Name, Value}]}`.
//!
//! What can't be read is left out, and the rest stands: a newer probe may say more than this linerate
//! knows.

use std::net::{IpAddr, SocketAddr};

use linerate_evidence::sources::node::{NodeRow, NodeSubject, NodeValue};

use crate::term::{Term, as_atom, as_bytes, as_list, as_text, as_tuple, as_u64};

/// Rows in one answer. Chosen: a probe that keeps its budget has a hundred.
const MOST: usize = 20_000;

/// Values of a row. Chosen: those of the node itself are the most, a hundred.
const MOST_VALUES: usize = 1000;

/// What is no text. Source: `linerate_probe_socket:kernel/1`, linerate_probe_kernel.erl.
const RAW: [&str; 3] = ["tcp_info", "meminfo", "raw"];

/// Every row that can be read; none: it is no list.
pub fn rows(answer: &Term) -> Option<Vec<NodeRow>> {
    let rows = as_list(answer)?;
    Some(rows.iter().take(MOST).filter_map(row).collect())
}

fn row(term: &Term) -> Option<NodeRow> {
    let [of, values] = as_tuple(term)? else { return None };
    let of = subject(of)?;
    let values = as_list(values)?.iter().take(MOST_VALUES).filter_map(value).collect();
    Some(NodeRow { of, values })
}

fn value(term: &Term) -> Option<(String, NodeValue)> {
    let [name, value] = as_tuple(term)? else { return None };
    let name = as_atom(name)?.to_owned();
    if RAW.contains(&name.as_str()) {
        return Some((name, NodeValue::Raw(as_bytes(value)?.to_vec())));
    }
    match as_u64(value) {
        Some(number) => Some((name, NodeValue::Number(number))),
        None => Some((name, NodeValue::Text(as_text(value)?))),
    }
}

fn subject(term: &Term) -> Option<NodeSubject> {
    if as_atom(term) == Some("node") {
        return Some(NodeSubject::Node);
    }
    let parts = as_tuple(term)?;
    match (as_atom(parts.first()?)?, &parts[1..]) {
        ("scheduler", [number]) => Some(NodeSubject::Scheduler(small(number)?)),
        ("listener", [port]) => Some(NodeSubject::Listener(small(port)?)),
        ("file", [path]) => Some(NodeSubject::File(as_text(path)?)),
        ("process", [pid]) => Some(NodeSubject::Process(as_text(pid)?)),
        ("queue", [host, name]) => Some(NodeSubject::Queue(as_text(host)?, as_text(name)?)),
        ("connection", [local, peer]) => {
            Some(NodeSubject::Connection { local: address(local)?, peer: address(peer)? })
        }
        _ => None,
    }
}

fn address(term: &Term) -> Option<SocketAddr> {
    let [ip, port] = as_tuple(term)? else { return None };
    let words: Option<Vec<u16>> = as_tuple(ip)?.iter().map(small).collect();
    let ip: IpAddr = match words?[..] {
        [a, b, c, d] => {
            let byte = |word: u16| u8::try_from(word).ok();
            [byte(a)?, byte(b)?, byte(c)?, byte(d)?].into()
        }
        [a, b, c, d, e, f, g, h] => [a, b, c, d, e, f, g, h].into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, small(port)?))
}

fn small(term: &Term) -> Option<u16> {
    u16::try_from(as_u64(term)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{atom, binary, integer, list, tuple};

    fn ip(words: &[i64]) -> Term {
        tuple(words.iter().map(|word| integer(*word)).collect())
    }

    #[test]
    fn rows_are_read_and_strange_ones_left_out() {
        let end = |port| tuple(vec![ip(&[127, 0, 0, 1]), integer(port)]);
        let connection = tuple(vec![atom("connection"), end(80), end(4000)]);
        let values = list(vec![
            tuple(vec![atom("port.recv_cnt"), integer(9)]),
            tuple(vec![atom("owner"), binary("shop")]),
            tuple(vec![atom("port.strange"), tuple(vec![])]),
        ]);
        let strange = tuple(vec![atom("planet"), list(vec![])]);
        let answer = list(vec![strange, tuple(vec![connection, values])]);
        let expected = NodeRow {
            of: NodeSubject::Connection {
                local: "127.0.0.1:80".parse().unwrap(),
                peer: "127.0.0.1:4000".parse().unwrap(),
            },
            values: vec![
                ("port.recv_cnt".into(), NodeValue::Number(9)),
                ("owner".into(), NodeValue::Text("shop".into())),
            ],
        };
        assert_eq!(rows(&answer), Some(vec![expected]));
        assert_eq!(rows(&atom("ok")), None);
    }

    #[test]
    fn what_the_kernel_said_stays_as_it_is() {
        let named = |name: &str, what| value(&tuple(vec![atom(name), what]));
        let bytes = vec![1, 0, 255];
        let expected = Some(("tcp_info".to_owned(), NodeValue::Raw(bytes.clone())));
        assert_eq!(named("tcp_info", binary(bytes)), expected);
        assert_eq!(named("raw", atom("none")), None);
    }

    #[test]
    fn every_subject_is_read() {
        let of = |tag, what| subject(&tuple(vec![atom(tag), what]));
        assert_eq!(subject(&atom("node")), Some(NodeSubject::Node));
        assert_eq!(of("scheduler", integer(2)), Some(NodeSubject::Scheduler(2)));
        assert_eq!(of("listener", integer(80)), Some(NodeSubject::Listener(80)));
        assert_eq!(of("listener", integer(65_536)), None);
        let file = of("file", binary("/proc/stat"));
        assert_eq!(file, Some(NodeSubject::File("/proc/stat".into())));
        let process = of("process", binary("<0.9.0>"));
        assert_eq!(process, Some(NodeSubject::Process("<0.9.0>".into())));
        let queue = tuple(vec![atom("queue"), binary("/"), binary("work")]);
        assert_eq!(subject(&queue), Some(NodeSubject::Queue("/".into(), "work".into())));
        let long = tuple(vec![ip(&[0, 0, 0, 0, 0, 0, 0, 1]), integer(80)]);
        assert_eq!(address(&long), Some("[::1]:80".parse().unwrap()));
        assert_eq!(address(&tuple(vec![ip(&[1, 2, 3, 256]), integer(80)])), None);
    }
}
