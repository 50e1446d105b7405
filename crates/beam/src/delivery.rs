//! How the probe's code gets onto a node: nothing is written to a disk, there or here.
//!
//! The beam of all of it that was built here is loaded by `code:load_binary/3`, which needs no descriptor.
//! Where the node refuses that (a release made by a newer compiler) or none was built, its modules go there
//! one by one, compiled there from their text if need be. What the node has already, with the same code, is
//! used and left.
//!
//! One module, because of the leaving: before code is purged each process of the node is asked whether it
//! uses it.

use std::path::Path;
use std::time::Duration;

use crate::node::{CallFault, Node};
use crate::term::{Term, as_atom, as_tuple, atom, binary, in_words, integer, list, map, string};

/// A module of the probe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Module {
    /// Its name.
    pub name: &'static str,
    /// Its text: without macros, includes and records, so that `erl_parse` alone reads it.
    pub text: &'static str,
}

macro_rules! modules {
    ($($name:literal),+ $(,)?) => {
        &[$(Module {
            name: $name,
            text: include_str!(concat!("../../../agent/src/probe/", $name, ".erl")),
        }),+]
    };
}

/// What the probe is made of, in the order in which its modules are loaded where they go one by one: the
/// one that is started is the last. To add a part: its line here.
pub const MODULES: &[Module] = modules![
    "linerate_probe_text",
    "linerate_probe_monitor",
    "linerate_probe_alarms",
    "linerate_probe_microstates",
    "linerate_probe_vm",
    "linerate_probe_socket",
    "linerate_probe_listeners",
    "linerate_probe_sockets",
    "linerate_probe_turn",
    "linerate_probe_processes",
    "linerate_probe_dist",
    "linerate_probe_worker",
    "linerate_probe",
];

/// All of them in one. Source: agent/src/build/linerate_whole_probe.erl.
pub(crate) const WHOLE: &str = "linerate_whole_probe";

/// What is registered on a node that has a probe. Source: linerate_probe.erl, `keep/3`.
pub(crate) const REGISTERED: &str = "linerate_probe";

/// Chosen: compiling a module takes a tenth of a second, on a busy node several.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a module is not on the node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Undelivered {
    /// The connection, or the node.
    #[error(transparent)]
    Call(#[from] CallFault),
    /// The node will not have it.
    #[error("{module} can't be loaded on {node}: {reason}")]
    Refused {
        /// The module.
        module: &'static str,
        /// The node.
        node: String,
        /// What was tried, and what to do.
        reason: String,
    },
}

/// The probe on a node.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    /// Modules that were loaded now and are to be unloaded.
    pub(crate) loaded: Vec<&'static str>,
    /// Whether it is one module.
    pub(crate) is_whole: bool,
}

impl Delivered {
    /// The module in which a part's functions are.
    pub(crate) fn module(&self, part: &'static str) -> &'static str {
        if self.is_whole { WHOLE } else { part }
    }
}

/// Puts the probe there, from the folder of beams where there is one. After an error nothing of it is left.
pub(crate) fn deliver(node: &Node, beams: Option<&Path>) -> Result<Delivered, Undelivered> {
    if let Some(beam) = built(beams, WHOLE) {
        let there = loaded_version(node, WHOLE)?;
        if there.is_some() && there == version(node, &beam)? {
            return Ok(Delivered { loaded: Vec::new(), is_whole: true });
        }
        match load(node, WHOLE, beam) {
            Ok(Ok(())) => return Ok(Delivered { loaded: vec![WHOLE], is_whole: true }),
            Ok(Err(_refused)) => {}
            Err(fault) => {
                unload(node, &[WHOLE]);
                return Err(fault.into());
            }
        }
    }
    let mut loaded = Vec::new();
    for module in MODULES {
        match deliver_one(node, module, beams) {
            Ok(Before::There) => {}
            Ok(Before::Absent) => loaded.push(module.name),
            Err(error) => {
                unload(node, &loaded);
                return Err(error);
            }
        }
    }
    Ok(Delivered { loaded, is_whole: false })
}

fn built(beams: Option<&Path>, module: &str) -> Option<Vec<u8>> {
    std::fs::read(beams?.join(module).with_extension("beam")).ok()
}

enum Before {
    There,
    Absent,
}

fn deliver_one(
    node: &Node,
    module: &'static Module,
    beams: Option<&Path>,
) -> Result<Before, Undelivered> {
    let there = loaded_version(node, module.name)?;
    let mut refused = None;
    if let Some(beam) = built(beams, module.name) {
        if there.is_some() && there == version(node, &beam)? {
            return Ok(Before::There);
        }
        match load(node, module.name, beam)? {
            Ok(()) => return Ok(Before::Absent),
            Err(reason) => refused = Some(reason),
        }
    }
    let compiled = match compile(node, module)? {
        Ok(compiled) => compiled,
        Err(reason) => {
            let reason = match refused {
                Some(refused) => format!("its beam is refused ({refused}), and {reason}"),
                None => format!(
                    "{reason}; run `make agent`, or set LINERATE_AGENT to the folder of its .beam files"
                ),
            };
            return Err(no(node, module, reason));
        }
    };
    if there.is_some() && there == version(node, &compiled)? {
        return Ok(Before::There);
    }
    match load(node, module.name, compiled)? {
        Ok(()) => Ok(Before::Absent),
        Err(reason) => Err(no(node, module, reason)),
    }
}

fn no(node: &Node, module: &Module, reason: String) -> Undelivered {
    Undelivered::Refused { module: module.name, node: node.name().to_owned(), reason }
}

/// The hash of the code that is loaded there; none if none is.
fn loaded_version(node: &Node, module: &str) -> Result<Option<Term>, CallFault> {
    let loaded = node.call("erlang", "module_loaded", vec![atom(module)], PATIENCE)?;
    if as_atom(&loaded) != Some("true") {
        return Ok(None);
    }
    let told = node.call("erlang", "get_module_info", vec![atom(module), atom("md5")], PATIENCE);
    match told {
        Ok(version) => Ok(Some(version)),
        // It was unloaded meanwhile.
        Err(CallFault::Crashed { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

fn version(node: &Node, beam: &[u8]) -> Result<Option<Term>, CallFault> {
    match node.call("code", "module_md5", vec![binary(beam)], PATIENCE) {
        Ok(Term::Binary(version)) => Ok(Some(version.into())),
        Ok(_) | Err(CallFault::Crashed { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The inner error is the node's reason.
fn load(node: &Node, module: &str, beam: Vec<u8>) -> Result<Result<(), String>, CallFault> {
    // Old code that is in the way is of a linerate that was killed while the node was, too.
    let purge = || node.call("code", "purge", vec![atom(module)], PATIENCE);
    purge()?;
    let file = string(&format!("{module}.erl"));
    let arguments = vec![atom(module), file, binary(beam)];
    let result = node.call("code", "load_binary", arguments, PATIENCE)?;
    // And old code that this made would keep the new from being deleted.
    purge()?;
    Ok(match as_tuple(&result) {
        Some([tag, _]) if as_atom(tag) == Some("module") => Ok(()),
        Some([_, reason]) => Err(in_words(reason)),
        _ => Err(in_words(&result)),
    })
}

/// Runs there, so that the forms need not cross the line. The text is cut into forms at its dots.
const COMPILING: &str = "
    (fun(Text) ->
        {ok, All, _} = erl_scan:string(unicode:characters_to_list(Text)),
        Forms = fun Cut([], _, Done) -> lists:reverse(Done);
                    Cut([{dot, _} = Dot | Rest], Form, Done) ->
                        {ok, Parsed} = erl_parse:parse_form(lists:reverse(Form, [Dot])),
                        Cut(Rest, [], [Parsed | Done]);
                    Cut([Token | Rest], Form, Done) -> Cut(Rest, [Token | Form], Done)
                end,
        compile:forms(Forms(All, [], []), [binary, return_errors, deterministic])
     end)(Text).";

/// The beam; the inner error is a reason in words.
fn compile(node: &Node, module: &Module) -> Result<Result<Vec<u8>, String>, CallFault> {
    let outcome = (|| {
        let scanned = node.call("erl_scan", "string", vec![string(COMPILING)], PATIENCE)?;
        let Some([_, tokens, _]) = as_tuple(&scanned) else { return Ok(scanned) };
        let parsed = node.call("erl_parse", "parse_exprs", vec![tokens.clone()], PATIENCE)?;
        let Some([_, expressions]) = as_tuple(&parsed) else { return Ok(parsed) };
        let bindings = map(vec![(atom("Text"), binary(module.text))]);
        let arguments = vec![expressions.clone(), bindings];
        let value = node.call("erl_eval", "exprs", arguments, PATIENCE)?;
        Ok(match as_tuple(&value) {
            Some([_, value, _]) => value.clone(),
            _ => value,
        })
    })();
    match outcome {
        Ok(value) => Ok(match as_tuple(&value) {
            Some([ok, _, Term::Binary(beam)]) if as_atom(ok) == Some("ok") => {
                Ok(beam.bytes.clone())
            }
            _ => Err(format!("the node can't compile its text: {}", in_words(&value))),
        }),
        Err(CallFault::Crashed { reason, .. }) => {
            let reason = in_words(&reason);
            Ok(Err(format!("the node can't compile its text: {reason}")))
        }
        Err(other) => Err(other),
    }
}

/// Takes modules away, as far as that goes.
pub(crate) fn unload(node: &Node, modules: &[&str]) {
    for module in modules {
        // What runs in old code is none of ours: the probe has ended.
        for function in ["purge", "delete", "purge"] {
            if node.call("code", function, vec![atom(module)], PATIENCE).is_err() {
                return;
            }
        }
    }
}

/// The probe's options, as it wants them.
pub(crate) fn options(owner: Term, permille: i64, unload: &[&str], interval_ms: i64) -> Term {
    map(vec![
        (atom("owner"), owner),
        (atom("budget"), integer(permille)),
        (atom("unload"), list(unload.iter().map(|module| atom(module)).collect())),
        (atom("interval_hint"), integer(interval_ms)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_module_needs_nothing_but_erl_parse() {
        for module in MODULES {
            for line in module.text.lines() {
                let wants = ["-include", "-define", "-record", "-ifdef"];
                assert!(!wants.iter().any(|it| line.starts_with(it)), "{}: {line}", module.name);
            }
        }
    }
}
