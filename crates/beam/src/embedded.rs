//! The agent's text inside this program, and its beams made of that by the Erlang of this host: one copied file is all
//! that a host with Erlang needs.
//!
//! Text and not beams: so building linerate needs no Erlang, and what is compiled suits the Erlang that runs it. It is
//! compiled once, into the user's cache.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use crate::cache;

macro_rules! texts {
    ($($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../agent/src/", $file)))),+]
    };
}

/// Each source of `agent/src`, and of the link's application beside it: name and text.
const TEXTS: &[(&str, &str)] = texts![
    "linerate.app.src",
    "build/linerate_merge.erl",
    "build/linerate_whole_probe.erl",
    "client/linerate_client.erl",
    "client/linerate_client_buckets.erl",
    "client/linerate_client_counts.erl",
    "client/linerate_client_worker.erl",
    "control/linerate_control.erl",
    "control/linerate_epmd.erl",
    "control/linerate_verbs.erl",
    "host/linerate_host.erl",
    "linerate_app.erl",
    "linerate_sup.erl",
    "link/src/linerate_link.app.src",
    "link/src/linerate_link.erl",
    "link/src/linerate_link_app.erl",
    "link/src/linerate_link_auth.erl",
    "link/src/linerate_link_core.erl",
    "link/src/linerate_link_far.erl",
    "link/src/linerate_link_frame.erl",
    "link/src/linerate_link_holes.erl",
    "link/src/linerate_link_lane.erl",
    "link/src/linerate_link_listener.erl",
    "link/src/linerate_link_near.erl",
    "link/src/linerate_link_reader.erl",
    "link/src/linerate_link_socket.erl",
    "link/src/linerate_link_spin.erl",
    "link/src/linerate_link_sup.erl",
    "link/src/linerate_link_tls.erl",
    "probe/linerate_probe.erl",
    "probe/linerate_probe_alarms.erl",
    "probe/linerate_probe_broker.erl",
    "probe/linerate_probe_callees.erl",
    "probe/linerate_probe_dist.erl",
    "probe/linerate_probe_doing.erl",
    "probe/linerate_probe_kernel.erl",
    "probe/linerate_probe_knob.erl",
    "probe/linerate_probe_links.erl",
    "probe/linerate_probe_listeners.erl",
    "probe/linerate_probe_microstates.erl",
    "probe/linerate_probe_monitor.erl",
    "probe/linerate_probe_processes.erl",
    "probe/linerate_probe_socket.erl",
    "probe/linerate_probe_sockets.erl",
    "probe/linerate_probe_text.erl",
    "probe/linerate_probe_vm.erl",
    "probe/linerate_probe_worker.erl",
    "server/linerate_acceptor.erl",
    "server/linerate_acceptors_sup.erl",
    "server/linerate_asked.erl",
    "server/linerate_between.erl",
    "server/linerate_between_alone.erl",
    "server/linerate_between_channel.erl",
    "server/linerate_between_counts.erl",
    "server/linerate_between_dist.erl",
    "server/linerate_between_tcp.erl",
    "server/linerate_certificate.erl",
    "server/linerate_chat.erl",
    "server/linerate_chat_keeper.erl",
    "server/linerate_chat_line.erl",
    "server/linerate_chat_rooms.erl",
    "server/linerate_chat_user.erl",
    "server/linerate_conn.erl",
    "server/linerate_conns_sup.erl",
    "server/linerate_counts.erl",
    "server/linerate_dist_link.erl",
    "server/linerate_echo.erl",
    "server/linerate_funnel.erl",
    "server/linerate_heap.erl",
    "server/linerate_http.erl",
    "server/linerate_http_request.erl",
    "server/linerate_httpd.erl",
    "server/linerate_https.erl",
    "server/linerate_hub.erl",
    "server/linerate_jobs.erl",
    "server/linerate_journal.erl",
    "server/linerate_knobs.erl",
    "server/linerate_listener.erl",
    "server/linerate_listener_sup.erl",
    "server/linerate_listeners_sup.erl",
    "server/linerate_logs.erl",
    "server/linerate_peer.erl",
    "server/linerate_peer_epmd.erl",
    "server/linerate_peer_main.erl",
    "server/linerate_peer_path.erl",
    "server/linerate_pool.erl",
    "server/linerate_reading.erl",
    "server/linerate_relay.erl",
    "server/linerate_relay_bulk.erl",
    "server/linerate_relay_far.erl",
    "server/linerate_relay_load.erl",
    "server/linerate_rr.erl",
    "server/linerate_running.erl",
    "server/linerate_server.erl",
    "server/linerate_servers.erl",
    "server/linerate_service.erl",
    "server/linerate_shape.erl",
    "server/linerate_shaped.erl",
    "server/linerate_sink.erl",
    "server/linerate_socket.erl",
    "server/linerate_stream_alone.erl",
    "server/linerate_stream_terms.erl",
    "server/linerate_terms.erl",
    "server/linerate_traced.erl",
    "server/linerate_words.erl",
];

/// Compiles all modules below `src`, as many at a time as there are schedulers; the transform that one of them needs
/// first. Beside the beams it puts the application's file.
const COMPILING: &str = "
    Options = [{outdir, \"ebin\"}, debug_info, return],
    Transform = \"src/build/linerate_merge.erl\",
    Compile = fun(File) ->
        case compile:file(File, Options) of
            {ok, _, _} -> ok;
            Other -> io:format(\"~s: ~0p~n\", [File, Other]), halt(1)
        end
    end,
    Compile(Transform),
    true = code:add_patha(\"ebin\"),
    Patterns = [\"src/*.erl\", \"src/*/*.erl\", \"src/link/src/*.erl\"],
    Files = lists:flatmap(fun filelib:wildcard/1, Patterns) -- [Transform],
    Running = [spawn_monitor(fun() -> Compile(File) end) || File <- Files],
    [receive {'DOWN', Reference, _, _, normal} -> ok; {'DOWN', Reference, _, _, Why} -> exit(Why) end
     || {_, Reference} <- Running],
    {ok, _} = file:copy(\"src/linerate.app.src\", \"ebin/linerate.app\"),
    {ok, _} = file:copy(\"src/link/src/linerate_link.app.src\", \"ebin/linerate_link.app\"),
    halt(0).";

/// One of the beams; they are there together.
const COMPILED: &str = "ebin/linerate_control.beam";

/// The agent's version, as its application has it.
pub fn agent_version() -> &'static str {
    let (_, application) = TEXTS[0];
    let version = application.split_once("{vsn, \"").and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown", |(version, _)| version)
}

/// How many modules it has.
pub fn agent_modules() -> usize {
    TEXTS.iter().filter(|(name, _)| name.ends_with(".erl")).count()
}

/// The folder of the beams, compiled now if they were not before.
pub(crate) fn compiled() -> Result<PathBuf, String> {
    // Several nodes of a plan start at once.
    static COMPILED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    COMPILED.get_or_init(compile_or_find).clone()
}

fn compile_or_find() -> Result<PathBuf, String> {
    let erlang = erlang().ok_or("`erl` is not in PATH")?;
    cache::folder(&key(&erlang), COMPILED, &compile).map(|folder| folder.join("ebin"))
}

/// The folder of the beams that were compiled before.
pub(crate) fn kept() -> Option<PathBuf> {
    cache::kept(&key(&erlang()?), COMPILED).map(|folder| folder.join("ebin"))
}

/// Of this text and the Erlang that compiles it: another of either has another folder.
fn key(erlang: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    TEXTS.hash(&mut hasher);
    erlang.hash(&mut hasher);
    // An upgraded Erlang has the same path.
    let changed = fs::metadata(erlang).and_then(|it| it.modified()).ok();
    changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).hash(&mut hasher);
    format!("agent-{:016x}", hasher.finish())
}

/// `erl` of PATH, links followed.
fn erlang() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|folder| folder.join("erl").canonicalize().ok())
}

fn compile(at: &Path) -> io::Result<()> {
    for (name, text) in TEXTS {
        let file = at.join("src").join(name);
        fs::create_dir_all(file.parent().unwrap_or(at))?;
        fs::write(file, text)?;
    }
    fs::create_dir_all(at.join("ebin"))?;
    let output = Command::new("erl")
        .args(["-noinput", "-boot", "start_clean", "-eval", COMPILING])
        .current_dir(at)
        .env_remove("ERL_FLAGS")
        .env_remove("ERL_AFLAGS")
        .env_remove("ERL_ZFLAGS")
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let says = [output.stdout, output.stderr].concat();
    let says = String::from_utf8_lossy(&says);
    Err(io::Error::other(format!("erl: {}", says.lines().next().unwrap_or("no reason given"))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_source_of_the_agent_is_inside() {
        let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent/src"));
        let mut there = BTreeSet::new();
        let mut folders = vec![source.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(source).unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    folders.push(path);
                } else if !name.ends_with("rebar.config") {
                    there.insert(name);
                }
            }
        }
        let inside: BTreeSet<String> = TEXTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(inside, there);
    }

    #[test]
    fn the_agents_version_is_of_its_application() {
        assert!(agent_version().starts_with(|first: char| first.is_ascii_digit()));
    }
}
