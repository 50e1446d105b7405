//! What `--version` says: this program, and what is in it.

use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

use linerate_beam::{agent_modules, agent_version};
use linerate_report::FORMATS;
use linerate_roofline::roofs::ROOFS;

use crate::known::SERVERS;

/// The commit that it was built of, where whoever built it said so: `make` does.
const COMMIT: Option<&str> = option_env!("LINERATE_COMMIT");

/// Several lines. The first goes behind the program's name.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let commit = COMMIT.filter(|commit| !commit.is_empty()).unwrap_or("unknown");
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let formats: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        format!(
            "{}\n\
             built   of commit {commit}, {profile}, for {ARCH} {OS}\n\
             agent   {}: {} Erlang modules in this file, compiled when one of its servers is first used\n\
             knows   {} limits, {} Erlang servers, and any service of the protocols below\n\
             speaks  HTTP/1.1 and, over TCP, rr, crr and raw (any that asks and answers), with TLS 1.2 and 1.3; Erlang's distribution\n\
             writes  {}",
            env!("CARGO_PKG_VERSION"),
            agent_version(),
            agent_modules(),
            ROOFS.len(),
            SERVERS.len(),
            formats.join(", ")
        )
    });
    &LONG
}
