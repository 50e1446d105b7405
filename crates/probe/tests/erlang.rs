//! Processes of a real Erlang VM, seen from outside, against what the VM says of them itself.

// The helpers of tests are tests too, but not to the lint.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_evidence::Subject;
use linerate_evidence::sources::{erlang, suspect};
use linerate_model::Timestamp;
use linerate_probe::TargetSampler;
use linerate_probe::erlang::{Doing, Seen, Vm};

/// A node without a name that runs a function of the module below; ended with the test.
struct Node {
    child: Child,
    lines: Vec<String>,
}

impl Node {
    fn start(function: &str) -> Self {
        Self::with(&[], function)
    }

    /// Until it says `ready`.
    fn with(flags: &[&str], function: &str) -> Self {
        let folder = env!("CARGO_TARGET_TMPDIR");
        let own = std::process::id();
        let file = format!("{folder}/seen_outside-{function}{}-{own}.erl", flags.join(""));
        std::fs::write(&file, MODULE).unwrap();
        let eval = format!(
            "{{ok, M, B}} = compile:file(\"{file}\", [binary, return_errors]), \
             {{module, M}} = code:load_binary(M, \"{file}\", B), M:{function}()."
        );
        let child = Command::new("erl")
            .args(["+S", "2:2"])
            .args(flags)
            .args(["-noshell", "-noinput", "-eval", &eval])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("erl: {error}; `make setup` installs it"));
        let mut node = Self { child, lines: Vec::new() };
        for line in BufReader::new(node.child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line == "ready" {
                std::fs::remove_file(file).ok();
                return node;
            }
            node.lines.push(line);
        }
        panic!("it ended: {:?}", node.lines);
    }

    fn vm(&self) -> Vm {
        Vm::of(self.child.id())
            .expect("its memory can be read: root is needed, and a known release")
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

const MODULE: &str = r#"
-module(seen_outside).
-behaviour(gen_server).
-compile([export_all, nowarn_export_all]).

init([]) -> {ok, none}.
handle_call(work, _From, State) -> never(), {reply, ok, State}.
handle_cast(_, State) -> {noreply, State}.

never() -> receive {never, Ever} -> Ever end.
call() -> ok = gen_server:call(busy_server, work, infinity), done.
compute(N) -> _ = step(N) + 1, compute(N + 1).
step(N) -> N * 3 rem 7.
collect(List) -> true = erlang:garbage_collect(), collect(List).
hold(List) -> never(), length(List).
deep(0) -> never();
deep(N) -> [deep(N - 1)].

named(Name, Fun) -> Pid = spawn(Fun), register(Name, Pid), Pid.

start() ->
    {ok, _} = gen_server:start({local, busy_server}, ?MODULE, [], []),
    Callers = [list_to_atom("caller_" ++ integer_to_list(N)) || N <- lists:seq(1, 5)],
    [named(Name, fun ?MODULE:call/0) || Name <- Callers],
    Untaken = named(untaken, fun ?MODULE:never/0),
    [Untaken ! N || N <- lists:seq(1, 1000)],
    named(computing, fun() -> compute(0) end),
    named(collecting, fun() -> collect(lists:seq(1, 100000)) end),
    Traced = named(traced, fun ?MODULE:never/0),
    1 = erlang:trace(Traced, true, [call]),
    named(large, fun() -> hold(lists:seq(1, 650000)) end),
    named(deep, fun() -> deep(30) end),
    Suspended = named('suspended \x{e5}', fun ?MODULE:never/0),
    timer:sleep(500),
    true = erlang:suspend_process(Suspended),
    [say(Name) || Name <- [busy_server, untaken, traced, large, deep, init, kernel_sup | Callers]],
    io:format("ready~n"),
    timer:sleep(infinity).

say(Name) ->
    Pid = whereis(Name),
    Of = fun(Item) -> {Item, Value} = process_info(Pid, Item), Value end,
    Callers = [function({M, F, A}) || {M, F, A, _} <- Of(current_stacktrace)],
    Words = [Name, pid_to_list(Pid), function(Of(initial_call)), function(Of(current_function)),
             integer_to_list(Of(message_queue_len)), integer_to_list(8 * Of(total_heap_size)) | Callers],
    io:format("~s~n", [lists:join(" ", [io_lib:format("~s", [Word]) || Word <- Words])]).

function({M, F, A}) -> io_lib:format("~s:~s/~b", [M, F, A]).

many() ->
    [spawn(fun ?MODULE:call_nobody/0) || _ <- lists:seq(1, 1000)],
    Busy = spawn(fun ?MODULE:never/0),
    [Busy ! N || N <- lists:seq(1, 3)],
    timer:sleep(500),
    io:format("ready~n"),
    timer:sleep(infinity).

call_nobody() -> catch gen_server:call(whereis(init), work, infinity).

few() ->
    [spawn(fun ?MODULE:never/0) || _ <- lists:seq(1, 50)],
    io:format("ready~n"),
    timer:sleep(infinity).

others() ->
    Untaken = named(untaken, fun() -> deep(30) end),
    Untaken ! one,
    timer:sleep(200),
    io:format("ready~n"),
    timer:sleep(300),
    named(late, fun ?MODULE:never/0),
    timer:sleep(infinity).

storm() ->
    {_, Binary, File} = code:get_object_code(lists),
    spawn(fun() -> reload(Binary, File) end),
    [spawn(fun ?MODULE:beget/0) || _ <- lists:seq(1, 50)],
    io:format("ready~n"),
    timer:sleep(infinity).

reload(_, _) ->
    Name = list_to_atom("made_" ++ integer_to_list(erlang:unique_integer([positive]) rem 20)),
    Forms = [{attribute, 1, module, Name}, {attribute, 1, export, [{f, 0}]},
             {function, 1, f, 0, [{clause, 1, [], [], [{atom, 1, ok}]}]}],
    {ok, Name, Made} = compile:forms(Forms),
    code:purge(Name),
    {module, Name} = code:load_binary(Name, "made", Made),
    code:delete(Name),
    reload(none, none).

beget() ->
    Children = [spawn(fun() -> lists:sort(lists:seq(1, 500)), exit(done) end) || _ <- lists:seq(1, 20)],
    [begin Child ! {some, lists:seq(1, 20)} end || Child <- Children],
    timer:sleep(1),
    beget().
"#;

fn by_name(seen: Vec<Seen>) -> HashMap<String, Seen> {
    let named = |of: Seen| Some((of.name.clone()?, of));
    seen.into_iter().filter_map(named).collect()
}

#[test]
fn each_process_is_seen_as_the_erlang_vm_itself_tells_of_it() {
    let node = Node::start("start");
    let mut vm = node.vm();
    let all = vm.processes(1000).unwrap();
    let seen = by_name(all);

    // What is at rest is the same to the byte.
    for line in &node.lines {
        let words: Vec<&str> = line.split(' ').collect();
        let &[name, pid, initial, function, mailbox, heap, ref stack @ ..] = &words[..] else {
            panic!("{line}");
        };
        let of = &seen[name];
        assert_eq!(of.pid, pid);
        assert_eq!(of.initial.as_deref(), Some(initial), "{line}");
        assert_eq!(of.function.as_deref(), Some(function), "{line}");
        assert_eq!(of.mailbox.to_string(), mailbox, "{line}");
        assert_eq!(of.doing, Doing::Waiting, "{line}");
        assert_eq!(of.traced, name == "traced", "{line}");
        // To ask a process lets it make the answer on its heap.
        let heap: u64 = heap.parse().unwrap();
        assert!((heap / 4..=4 * heap).contains(&of.heap), "{line}: {}", of.heap);
        // It says the function itself first, and of the others 8 in all.
        let callers: Vec<&str> = stack[1..].to_vec();
        let same = callers.len().min(of.stack.len());
        assert_eq!(of.stack[..same], callers[..same], "{line}");
        assert!(same >= callers.len().min(7), "{line}: {:?}", of.stack);
    }
    let server = &seen["busy_server"];
    assert_eq!(server.function.as_deref(), Some("seen_outside:never/0"));
    assert_eq!(server.stack[0], "seen_outside:handle_call/3");
    assert_eq!(server.mailbox, 4);
    assert_eq!(seen["untaken"].mailbox, 1000);
    for caller in 1..=5 {
        let of = &seen[&format!("caller_{caller}")];
        let places = || of.function.iter().chain(&of.stack);
        assert!(places().any(|place| place == "gen:do_call/4"), "{of:?}");
        assert!(places().any(|place| place == "seen_outside:call/0"), "{of:?}");
    }
    assert_eq!(seen["deep"].stack, ["seen_outside:deep/1"; 8]);
    // 650,000 cells of 16 bytes.
    let large = seen["large"].heap;
    assert!((10_400_000..60_000_000).contains(&large), "{large}");
    assert_eq!(seen["suspended å"].doing, Doing::Suspended);

    // What runs, and what collects its garbage, at some of many instants.
    let (mut computed, mut collected) = (0, 0);
    for _ in 0..200 {
        let seen = by_name(vm.processes(1000).unwrap());
        let computing = &seen["computing"];
        assert!(matches!(computing.doing, Doing::Running | Doing::Runnable), "{computing:?}");
        assert_eq!(computing.initial.as_deref(), Some("erlang:apply/2"));
        let function = computing.function.as_deref().unwrap();
        assert!(["seen_outside:compute/1", "seen_outside:step/1"].contains(&function));
        computed += u32::from(computing.doing == Doing::Running);
        // It may not hold together while its heap is being moved.
        let collecting = seen.get("collecting").map(|of| of.doing);
        collected += u32::from(collecting == Some(Doing::Collecting));
        std::thread::sleep(Duration::from_millis(2));
    }
    // With two CPUs, of which one computes and one looks, the third of them is
    // mostly in the queue: 10 of 200 were seen so.
    assert!(computed > 20 && collected > 2, "{computed} and {collected} of 200");
}

#[test]
fn of_many_erlang_processes_the_busy_are_seen_each_time_and_the_others_in_turn() {
    let node = Node::start("many");
    let began = Instant::now();
    let mut vm = node.vm();
    println!("to begin: {:?}", began.elapsed());
    let all = vm.processes(usize::MAX).unwrap();
    assert!(all.len() > 1000, "{}", all.len());
    let pid = &all.iter().find(|of| of.mailbox == 3).unwrap().pid;
    let mut others = std::collections::HashSet::new();
    // 75 others in each of 20.
    for _ in 0..20 {
        let some = vm.processes(100).unwrap();
        assert_eq!(some.len(), 100);
        assert!(some.iter().any(|of| of.pid == *pid));
        others.extend(some.into_iter().map(|of| of.pid));
    }
    assert_eq!(others.len(), all.len());
    assert!(vm.processes(0).unwrap().is_empty());

    // `cargo test -p linerate-probe --test erlang -- --nocapture` prints what it costs.
    for most in [100, 1000] {
        let mut times: Vec<Duration> = (0..101)
            .map(|_| {
                let began = Instant::now();
                assert_eq!(vm.processes(most).unwrap().len(), most);
                began.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{most} processes: {:?}, nine tenths within {:?}", times[50], times[90]);
    }
}

#[test]
fn erlang_nodes_with_other_flags_are_seen_as_well() {
    // The old way to give slots; a table that is read in parts, in several calls; frames with pointers.
    for flags in [["+P", "legacy"], ["+P", "4000000"], ["+JPperf", "map"]] {
        let node = Node::with(&flags, "others");
        let (mut vm, began) = (node.vm(), Instant::now());
        let late = loop {
            let mut seen = by_name(vm.processes(1000).unwrap());
            if let Some(of) = seen.remove("untaken") {
                assert_eq!(of.stack, ["seen_outside:deep/1"; 8], "{flags:?}");
                assert_eq!((of.mailbox, of.doing), (1, Doing::Waiting), "{flags:?}");
                if let Some(late) = seen.remove("late") {
                    break late;
                }
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{flags:?}: it is not seen");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(late.initial.as_deref(), Some("erlang:apply/2"), "{flags:?}");
        // What the last flag lets the node write.
        std::fs::remove_file(format!("/tmp/perf-{}.map", node.child.id())).ok();
    }
}

#[test]
fn the_processes_of_a_node_that_is_not_entered_are_sampled_with_its_threads() {
    let node = Node::start("start");
    let begun = Instant::now();
    let clock = move || Timestamp(1 + begun.elapsed().as_nanos() as u64);
    let sampler = TargetSampler::start(vec![node.child.id()], Vec::new(), true, clock);
    std::thread::sleep(Duration::from_secs(2));
    let evidence = sampler.finish();
    let of = evidence.of(Subject::Target);
    let rounds = of.last(erlang::ROUNDS).unwrap();
    assert!(rounds >= 3, "{rounds}");
    // The server's callers, and all others of the node.
    assert!(of.last(erlang::PROCESSES).unwrap() >= 40 * rounds);
    // One computes, one collects.
    assert!(of.last(erlang::RUNNING).unwrap() >= rounds);
    let named = |name: &str| {
        let all = evidence.processes().into_iter();
        all.clone().find(|of| evidence.fact(*of, "name") == Some(name))
    };
    let server = evidence.of(named("busy_server").unwrap()).last(suspect::MAILBOX).unwrap();
    assert!((4..=5).contains(&server), "{server}");
    let stack = evidence.fact(named("busy_server").unwrap(), "stack").unwrap();
    assert!(stack.starts_with("seen_outside:never/0 < seen_outside:handle_call/3"), "{stack}");
    assert!(named("computing").is_some() && named("large").is_none());
}

#[test]
fn what_is_no_erlang_vm_is_none_and_one_that_ended_is_an_error() {
    assert!(Vm::of(std::process::id()).is_none());
    assert!(Vm::of(u32::MAX).is_none());
    let mut node = Node::start("few");
    let mut vm = node.vm();
    assert!(vm.processes(1000).unwrap().len() > 50);
    node.end();
    assert!(vm.processes(1000).is_err());
    assert!(Vm::of(node.child.id()).is_none());
}

#[test]
fn erlang_processes_that_come_and_go_and_code_that_is_loaded_meanwhile_spoil_nothing() {
    let node = Node::start("storm");
    let mut vm = node.vm();
    let (began, mut count, mut rounds) = (Instant::now(), 0, 0);
    while began.elapsed() < Duration::from_secs(3) {
        rounds += 1;
        for of in vm.processes(2000).unwrap() {
            count += 1;
            for function in of.initial.iter().chain(&of.function).chain(&of.stack) {
                let (module, rest) = function.split_once(':').unwrap();
                assert!(!module.is_empty() && rest.contains('/'), "{function}");
            }
            assert!(of.mailbox < 1000 && of.heap < 1 << 30, "{of:?}");
        }
    }
    println!("{} come and go: {:?}", count / rounds, began.elapsed() / rounds);
    assert!(count > 10_000, "{count}");
}
