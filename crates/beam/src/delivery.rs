//! How the probe's code gets onto a node: nothing is written to a disk, there or here.
//!
//! The beam of all of it that was built here is loaded by `code:load_binary/3`, which needs no descriptor.
//! Where the node refuses that (a release made by a newer compiler) or none was built, its modules are
//! compiled there, from their text. What the node has already, with the same code, is used and left.
//!
//! One call loads it and starts it, so that code without a process that would take it away again is never on
//! a node, however early a line is cut.
//!
//! One module, because of the leaving: before code is purged each process of the node is asked whether it
//! uses it.

use std::path::Path;
use std::time::Duration;

use crate::attached::KernelSide;
use crate::node::{CallFault, Node};
use crate::term::{
    ExternalFun, Term, as_atom, as_list, as_text, as_tuple, atom, binary, in_words, integer, list,
    map, string,
};

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

/// What the probe is made of. To add a part: its line here.
pub const MODULES: &[Module] = modules![
    "linerate_probe_text",
    "linerate_probe_monitor",
    "linerate_probe_alarms",
    "linerate_probe_links",
    "linerate_probe_microstates",
    "linerate_probe_vm",
    "linerate_probe_socket",
    "linerate_probe_listeners",
    "linerate_probe_sockets",
    "linerate_probe_knob",
    "linerate_probe_processes",
    "linerate_probe_doing",
    "linerate_probe_callees",
    "linerate_probe_dist",
    "linerate_probe_broker",
    "linerate_probe_kernel",
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

/// The probe's code, for a node.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// What the node has not got, and what is to be unloaded.
    beams: Vec<(&'static str, Vec<u8>)>,
    /// Whether it is one module.
    is_whole: bool,
}

impl Parcel {
    /// Modules that are loaded for the visit.
    pub(crate) fn loaded(&self) -> Vec<&'static str> {
        self.beams.iter().map(|(module, _)| *module).collect()
    }

    /// Loads it, and starts the probe, whose answer it is; none if the node will not have the code, and
    /// then some of it may be there.
    pub(crate) fn start(&self, node: &Node, options: Term) -> Result<Option<Term>, CallFault> {
        let mut steps: Vec<(&str, &str, Vec<Term>)> = Vec::new();
        for (module, beam) in &self.beams {
            let file = string(&own_file(module));
            // Old code that is in the way is of a linerate that was killed while the node was, too.
            steps.push(("code", "purge", vec![atom(module)]));
            steps.push(("code", "load_binary", vec![atom(module), file, binary(beam.clone())]));
            // And old code that this made would keep the new from being deleted.
            steps.push(("code", "purge", vec![atom(module)]));
            // It crashes, and with it the call, where the code was refused.
            steps.push((module, "module_info", vec![atom("module")]));
        }
        steps.push((module_of(self.is_whole, "linerate_probe"), "start", vec![options]));
        let modules = steps.iter().map(|(module, ..)| atom(module)).collect();
        let functions = steps.iter().map(|(_, function, _)| atom(function)).collect();
        let arguments = steps.into_iter().map(|(.., arguments)| list(arguments)).collect();
        let apply = Term::from(ExternalFun::from(("erlang", "apply", 3)));
        // In their order. Source: lists.erl, `zipwith3`: F of the first of each, then the rest.
        let each = vec![apply, list(modules), list(functions), list(arguments)];
        match node.call("lists", "zipwith3", each, PATIENCE) {
            Ok(answers) => Ok(as_list(&answers).and_then(|answers| answers.last().cloned())),
            Err(CallFault::Crashed { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// What is known of it once it is there.
    pub(crate) fn delivered(&self) -> Delivered {
        Delivered { loaded: self.loaded(), is_whole: self.is_whole }
    }
}

/// The probe on a node.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    /// Modules that were loaded and are to be unloaded.
    pub(crate) loaded: Vec<&'static str>,
    is_whole: bool,
}

impl Delivered {
    /// The module in which a part's functions are.
    pub(crate) fn module(&self, part: &'static str) -> &'static str {
        module_of(self.is_whole, part)
    }
}

fn module_of(is_whole: bool, part: &'static str) -> &'static str {
    if is_whole { WHOLE } else { part }
}

/// All of it in one, from the folder of beams; none where that was not built.
pub(crate) fn whole(node: &Node, beams: Option<&Path>) -> Result<Option<Parcel>, CallFault> {
    let Some(beam) = built(beams, WHOLE) else { return Ok(None) };
    let is_there = has(node, WHOLE, &beam)?;
    let beams = if is_there { Vec::new() } else { vec![(WHOLE, beam)] };
    Ok(Some(Parcel { beams, is_whole: true }))
}

/// Module by module, compiled there.
pub(crate) fn parts(node: &Node) -> Result<Parcel, Undelivered> {
    let mut beams = Vec::new();
    for module in MODULES {
        let beam = compile(node, module)?.map_err(|reason| refused(node, module.name, reason))?;
        if !has(node, module.name, &beam)? {
            beams.push((module.name, beam));
        }
    }
    Ok(Parcel { beams, is_whole: false })
}

/// Why there is no probe, in words for its user.
pub(crate) fn refused(node: &Node, module: &'static str, reason: String) -> Undelivered {
    let reason = format!(
        "{reason}; run `make agent` with the Erlang of that node, or set LINERATE_AGENT to the folder of its \
         .beam files"
    );
    Undelivered::Refused { module, node: node.name().to_owned(), reason }
}

fn built(beams: Option<&Path>, module: &str) -> Option<Vec<u8>> {
    std::fs::read(beams?.join(module).with_extension("beam")).ok()
}

/// Whether the node has this code, and not from a linerate that was there before.
fn has(node: &Node, module: &str, beam: &[u8]) -> Result<bool, CallFault> {
    let loaded = node.call("code", "is_loaded", vec![atom(module)], PATIENCE)?;
    match as_tuple(&loaded) {
        Some([_, file]) if as_text(file) != Some(own_file(module)) => {}
        _ => return Ok(false),
    }
    let version = |of: &str, function: &str, arguments: Vec<Term>| {
        match node.call(of, function, arguments, PATIENCE) {
            Ok(Term::Binary(version)) => Ok(Some(version.bytes)),
            // It was unloaded meanwhile.
            Ok(_) | Err(CallFault::Crashed { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    };
    let there = version("erlang", "get_module_info", vec![atom(module), atom("md5")])?;
    Ok(there.is_some() && there == version("code", "module_md5", vec![binary(beam)])?)
}

/// What code that linerate loads is said to be from. A node's own is from a file with a path.
pub(crate) fn own_file(module: &str) -> String {
    format!("{module}.erl")
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
pub(crate) fn compile(node: &Node, module: &Module) -> Result<Result<Vec<u8>, String>, CallFault> {
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
pub(crate) fn options(
    owner: Term,
    permille: i64,
    unload: &[&str],
    interval_ms: i64,
    kernel: Option<&KernelSide>,
) -> Term {
    let mut options = vec![
        (atom("owner"), owner),
        (atom("budget"), integer(permille)),
        (atom("unload"), list(unload.iter().map(|module| atom(module)).collect())),
        (atom("interval_hint"), integer(interval_ms)),
    ];
    if let Some(kernel) = kernel {
        let files = kernel.files.iter().map(|file| binary(file.as_bytes())).collect();
        let most = kernel.descriptors.and_then(|most| i64::try_from(most).ok());
        options.push((
            atom("kernel"),
            map(vec![
                (atom("files"), list(files)),
                (atom("descriptors"), most.map_or_else(|| atom("unlimited"), integer)),
                // What it sends of sockets are numbers of its machine: are they ours?
                (atom("order"), binary(1_u32.to_ne_bytes())),
            ]),
        ));
    }
    map(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_module_needs_nothing_but_erl_parse() {
        for module in MODULES.iter().chain([&crate::host::MODULE]) {
            for line in module.text.lines() {
                let wants = ["-include", "-define", "-record", "-ifdef"];
                assert!(!wants.iter().any(|it| line.starts_with(it)), "{}: {line}", module.name);
            }
        }
    }
}
