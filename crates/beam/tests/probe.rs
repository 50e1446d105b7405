//! The probe in real nodes: how it gets there, and that nothing of it stays. Needs Erlang.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::PathBuf;
use std::time::Duration;

use linerate_beam::term::{Term, as_atom, as_tuple, atom, binary, integer, list, string};
use linerate_beam::{Attached, MODULES, Node, ProbeFault, ProbeOptions};
use linerate_evidence::sources::node::NodeSubject;
use support::{LONG, connect, lone, lone_in, soon};

/// The agent that `make agent` built.
fn built() -> Option<PathBuf> {
    let folder =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent/_build/default/lib/linerate/ebin");
    Some(PathBuf::from(folder))
}

/// The probe as one module. Source: agent/src/build.
const WHOLE: &str = "linerate_whole_probe";

/// A folder without one: the text is compiled on the node.
fn nowhere() -> Option<PathBuf> {
    Some(PathBuf::from("/nonexistent"))
}

fn attach(node: &Node) -> Attached {
    let options = ProbeOptions { agent: built(), ..ProbeOptions::default() };
    node.attach(&options).unwrap()
}

/// The probe's process there.
fn keeper(node: &Node) -> Term {
    node.call("erlang", "whereis", vec![atom("linerate_probe")], LONG).unwrap()
}

fn loaded(node: &Node) -> Vec<&'static str> {
    let names = MODULES.iter().map(|module| module.name).chain([WHOLE]);
    names
        .filter(|name| {
            ["module_loaded", "check_old_code"].iter().any(|what| {
                let there = node.call("erlang", what, vec![atom(name)], LONG).unwrap();
                as_atom(&there) == Some("true")
            })
        })
        .collect()
}

/// Of as many modules.
fn samples_the_node(agent: Option<PathBuf>, modules: usize, node: &Node) {
    assert_eq!(loaded(node), Vec::<&str>::new());
    samples_the_node_and_leaves_nothing(agent, modules, node);
}

fn samples_the_node_and_leaves_nothing(agent: Option<PathBuf>, modules: usize, node: &Node) {
    let options = ProbeOptions { agent, ..ProbeOptions::default() };
    let attached = node.attach(&options).unwrap();
    assert_eq!(attached.loaded().len(), modules);
    let rows = attached.sample(LONG).unwrap();
    assert!(rows.iter().any(|row| row.of == NodeSubject::Node), "{rows:?}");
    attached.detach().unwrap();
    assert_eq!(loaded(node), Vec::<&str>::new());
}

#[test]
fn beams_or_text_it_samples_the_node_and_leaves_nothing() {
    let (_daemon, place) = lone("probed", &[]);
    let node = connect(&place).unwrap();
    samples_the_node(built(), 1, &node);
    samples_the_node(nowhere(), MODULES.len(), &node);
    samples_the_node(built(), 1, &node);
}

#[test]
fn what_the_node_has_already_is_used_and_left() {
    let folder = built().unwrap();
    let (_daemon, place) = lone("agent", &["-pa", folder.to_str().unwrap()]);
    let node = connect(&place).unwrap();
    node.call("code", "ensure_loaded", vec![atom(WHOLE)], LONG).unwrap();
    let attached = attach(&node);
    assert!(attached.loaded().is_empty());
    attached.sample(LONG).unwrap();
    attached.detach().unwrap();
    assert_eq!(loaded(&node), [WHOLE]);
}

#[test]
fn what_a_linerate_before_left_there_is_taken_away() {
    let (_daemon, place) = lone("left", &[]);
    let node = connect(&place).unwrap();
    let beam = std::fs::read(built().unwrap().join(WHOLE).with_extension("beam")).unwrap();
    let file = string(&format!("{WHOLE}.erl"));
    node.call("code", "load_binary", vec![atom(WHOLE), file, binary(beam)], LONG).unwrap();
    assert_eq!(loaded(&node), [WHOLE]);
    samples_the_node_and_leaves_nothing(built(), 1, &node);
}

#[test]
fn a_probe_that_hangs_is_not_robbed_of_its_code() {
    let (_daemon, place) = lone("hung", &[]);
    let node = connect(&place).unwrap();
    let attached = attach(&node);
    let probe = keeper(&node);
    run(
        &node,
        "spawn(fun() -> erlang:suspend_process(whereis(linerate_probe)), timer:sleep(2000) end).",
    );
    let hangs = || {
        let asked = vec![probe.clone(), atom("status")];
        let status = node.call("erlang", "process_info", asked, LONG).unwrap();
        as_tuple(&status).is_some_and(|status| as_atom(&status[1]) == Some("suspended"))
    };
    assert!(soon(LONG, hangs));
    attached.detach_within(Duration::from_millis(300)).unwrap_err();
    assert_eq!(loaded(&node), [WHOLE]);
    assert!(soon(Duration::from_secs(10), || loaded(&node).is_empty()));
}

#[test]
fn a_probe_whose_linerate_is_cut_off_goes_with_its_modules_and_another_may_come() {
    let (_daemon, place) = lone("orphan", &[]);
    let node = connect(&place).unwrap();
    let attached = attach(&node);
    let watcher = connect(&place).unwrap();
    let own = atom(&node.own_pid().node.name);
    watcher.call("erlang", "disconnect_node", vec![own], LONG).unwrap();
    assert!(attached.sample(LONG).unwrap_err().is_lost());
    assert!(soon(Duration::from_secs(10), || loaded(&watcher).is_empty()));
    drop(attached);
    let again = node.reconnect().unwrap();
    attach(&again).sample(LONG).unwrap();
}

#[test]
fn a_second_linerate_is_told_of_the_first_and_does_it_no_harm() {
    let (_daemon, place) = lone("taken", &[]);
    let (first, second) = (connect(&place).unwrap(), connect(&place).unwrap());
    let attached = attach(&first);
    // Other code: had it been loaded, the first one's would have been purged with its process.
    let other = ProbeOptions { agent: nowhere(), ..ProbeOptions::default() };
    let fault = second.attach(&other).unwrap_err();
    assert!(matches!(fault, ProbeFault::Already(_)), "{fault}");
    // All that time it was not asked, and is there still.
    attached.sample(LONG).unwrap();
    drop(attached);
    attach(&second).detach().unwrap();
}

#[test]
fn a_probe_that_was_killed_is_said_to_be_gone() {
    let (_daemon, place) = lone("killed", &[]);
    let node = connect(&place).unwrap();
    let attached = attach(&node);
    let probe = keeper(&node);
    node.call("erlang", "exit", vec![probe, atom("kill")], LONG).unwrap();
    let fault = attached.sample(Duration::from_secs(1)).unwrap_err();
    assert!(matches!(fault, ProbeFault::Gone(_)), "{fault}");
    let _ = attached.detach();
    assert!(soon(Duration::from_secs(10), || loaded(&node).is_empty()));
}

#[test]
fn a_node_without_descriptors_can_be_sampled() {
    let (_daemon, place) = lone_in("ulimit -n 40 && exec \"$@\"", "starved", &[]);
    let node = connect(&place).unwrap();
    // Its owner stays, and with it all the sockets that there can be: it asks again, for the one that
    // the question below may have had and given back.
    let hold = "Hold = fun Hold() -> case gen_tcp:listen(0, []) of {ok, _} -> Hold(); _ -> receive never -> ok after 20 -> Hold() end end end, spawn(Hold).";
    run(&node, hold);
    let full = || {
        let answer = node.call("gen_tcp", "listen", vec![integer(0), list(vec![])], LONG).unwrap();
        as_tuple(&answer).is_some_and(|answer| as_atom(&answer[1]) == Some("emfile"))
    };
    assert!(soon(LONG, full));
    let attached = attach(&node);
    assert!(!attached.sample(LONG).unwrap().is_empty());
    attached.detach().unwrap();
    assert_eq!(loaded(&node), Vec::<&str>::new());
}

/// Runs Erlang's text there.
fn run(node: &Node, text: &str) {
    let scanned = node.call("erl_scan", "string", vec![string(text)], LONG).unwrap();
    let tokens = as_tuple(&scanned).unwrap()[1].clone();
    let parsed = node.call("erl_parse", "parse_exprs", vec![tokens], LONG).unwrap();
    let expressions = as_tuple(&parsed).unwrap()[1].clone();
    node.call("erl_eval", "exprs", vec![expressions, list(vec![])], LONG).unwrap();
}
