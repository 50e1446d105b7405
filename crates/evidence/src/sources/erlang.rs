//! What the processes of an Erlang VM are at that nobody may enter: a node without a name, or without its cookie.
//!
//! Its memory is read at random instants, while it runs on: the table of processes, of each its state, its mailbox's
//! length, whether it is traced, and the functions on its stack; no message, no data. Counts are sums over the instants:
//! divided by `erlang.rounds` they are means. The metrics of `suspect`, and its facts, are told of up to 20 processes besides:
//! those that had messages or ran most often.
//!
//! Source: `struct process`, erts/emulator/beam/erl_process.h; `ErtsPTab`, erl_ptab.h; process_vm_readv(2).
//!
//! Blind spots: only releases whose layout is known; what is read while the VM changes it is left out; of many
//! processes some are read in turn.

use super::{Fetch, Parse, Source};

pub(super) const SOURCE: Source = Source {
    id: "erlang",
    says: "the processes of an Erlang VM that is not entered, by its memory",
    of: "target",
    fetch: Fetch::Threads,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Instants at which its processes were read, since sampling began; the other metrics are sums over them.
    ROUNDS: u64 = "erlang.rounds", "1";
    /// Processes that were read.
    PROCESSES: u64 = "erlang.processes", "1";
    /// Of those, the ones that ran, could have run, or collected garbage.
    RUNNING: u64 = "erlang.running", "1";
    /// Of the ones that ran, those that are traced.
    TRACED: u64 = "erlang.traced", "1";
    /// Of the ones that ran, those that collected a heap of a mebibyte and more, as dirty schedulers do.
    COLLECTING: u64 = "erlang.collecting", "1";
    /// Of all, the ones that waited within the call of a log handler.
    LOGGING: u64 = "erlang.logging", "1";
    /// Of all, the ones that slept: in `timer:sleep/1`, or in Elixir's `Process.sleep/1`.
    SLEEPING: u64 = "erlang.sleeping", "1";
    /// Of all, the ones that waited for the answer to a call: of `gen`, as of `gen_server`, or of `erpc`.
    CALLING: u64 = "erlang.calling", "1";
}

/// Larger heaps than this are collected on dirty schedulers. Unit: bytes.
/// Source: `ERTS_POTENTIALLY_LONG_GC_HSIZE`, erts/emulator/beam/erl_gc.h: 128 Ki words.
pub const LARGE: u64 = 128 * 1024 * 8;

/// Who is in one of these sleeps for a time that it chose.
/// Source: lib/stdlib/src/timer.erl; lib/elixir/lib/process.ex.
pub const SLEEP: [&str; 2] = ["timer:sleep/1", "Elixir.Process:sleep/1"];

/// Who is in one of these waits for the answer to a call.
/// Source: lib/stdlib/src/gen.erl; lib/kernel/src/erpc.erl, which `rpc` uses.
pub const CALL: [&str; 2] = ["gen:do_call/4", "erpc:call/5"];

/// Who runs in one of these has asked for a collection of all that it keeps, and is between its steps.
/// Source: erts/emulator/beam/erl_gc.c: `erts_garbage_collect_hibernate`; lib/kernel: `erlang:garbage_collect/0`.
pub const COLLECT: [&str; 2] = ["erlang:hibernate/3", "erts_internal:garbage_collect/1"];

/// Whether a function calls the handlers of a log: who waits below it waits for one.
/// Source: lib/kernel/src/logger_backend.erl of OTP 21 and later, which Elixir's Logger is behind.
pub fn calls_log_handlers(function: &str) -> bool {
    function.starts_with("logger_backend:call_handlers/")
}
