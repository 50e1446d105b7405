//! Flags of `capacity`.

use clap::Args;

use super::LoadArgs;

pub(super) const CAPACITY_EXAMPLES: &str = "\
Examples:
  linerate capacity http://127.0.0.1:8080/ -c 50k         of a service on this host
  linerate capacity tcp://10.0.0.5:5222 -c 100k           of one elsewhere: this side's limits
  linerate capacity --beam rr -c 30k                      of a node that linerate would start
  linerate capacity plan.toml --json
  linerate capacity line://127.0.0.1:5220 -c 20k --hold 60s       users log in, talk, and are held
  linerate capacity tcp://127.0.0.1:8080 -c 5000 --hold           bare connections, to any service
  linerate capacity mqtt://broker:1883 -c 5000 --hold --arrival-rate 500 --mix idle=80,active=20@exp:10s
  linerate capacity xmpp://127.0.0.1 -c 5000 --hold --node ejabberd@localhost     and what its node says of memory
  linerate capacity line://10.0.0.5:5220 -c 60k --hold --processes 4      connections of four engine processes

Without --hold it reads limits and makes no connection: descriptors, open files, source ports, accept queue,
connection tracking, ports and processes of a BEAM node, buffers of TCP, memory (an estimate). The
first row is the first limit. Below the table: what linerate raises by itself, and a line to
paste for what is too little.

With --hold users come in ten levels. At the first limit (users that fail, or a 99th percentile of
message latency above --gate) no users are added; the highest clean level is restored and held.
The report names the limit and the next ones, accounts for each user, and says what a user
costs by slope: memory of the target, of a BEAM node by kind, and of the kernel, apart.
Users are spread over engine processes: as many as their connections need descriptors for, or --processes.

Exit codes: without --hold, 0 if all known limits hold the connections, 2 if one does not; with it
0, also when a limit is named, and 1 if none are held; 2 if the flags are wrong.";

/// `capacity`.
#[derive(Args, Debug)]
pub struct CapacityArgs {
    #[command(flatten)]
    pub load: LoadArgs,
    /// Make the load: users connect level by level until the first limit, then the highest clean level is held for this
    /// time [default: 30s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "30s", help_heading = "Users")]
    pub hold: Option<String>,
    /// What users speak, where the address does not say it: line, mqtt or xmpp (bare connections, if it is neither there
    /// nor in the address)
    #[arg(long, value_name = "NAME", requires = "hold", help_heading = "Users")]
    pub protocol: Option<String>,
    /// Classes of users by share, and the pause between messages of one
    /// [default: idle=20,semi-active=60@exp:60s,active=20@exp:10s]
    #[arg(long, value_name = "NAME=SHARE[@PAUSE],...", requires = "hold", help_heading = "Users")]
    pub mix: Option<String>,
    /// New users a second [default: 32 at a time, as fast as they are logged in]
    #[arg(long, value_name = "RATE", requires = "hold", help_heading = "Users")]
    pub arrival_rate: Option<String>,
    /// Levels up to -c, each by as many users more [default: 10]
    #[arg(long, value_name = "N", requires = "hold", help_heading = "Users")]
    pub levels: Option<u32>,
    /// How long a level is held before it is judged [default: 5s]
    #[arg(long, value_name = "TIME", requires = "hold", help_heading = "Users")]
    pub settle: Option<String>,
    /// A level is not clean if the 99th percentile of message latency is above this [default: 1s]
    #[arg(long, value_name = "TIME", requires = "hold", help_heading = "Users")]
    pub gate: Option<String>,
    /// Their names, with n in braces where the number goes [default: user and that]
    #[arg(long, value_name = "PATTERN", requires = "hold", help_heading = "Users")]
    pub users: Option<String>,
    /// Their passwords, of the same form [default: secret and n in braces]
    #[arg(long, value_name = "PATTERN", requires = "hold", help_heading = "Users")]
    pub passwords: Option<String>,
    /// The server's own name, where the protocol has one [default: localhost]
    #[arg(long, value_name = "NAME", requires = "hold", help_heading = "Users")]
    pub domain: Option<String>,
    /// How XMPP's users log in: plain, scram-sha-1 or scram-sha-256 [default: the best that the server offers]
    #[arg(long, value_name = "NAME", requires = "hold", help_heading = "Users")]
    pub mechanism: Option<String>,
    /// Begin TLS inside of XMPP (STARTTLS), with a server whose certificate is for the --domain; see
    /// --cacert and --insecure
    #[arg(long, requires = "hold", help_heading = "Users")]
    pub starttls: bool,
    /// Say how many users so much memory would hold [default: 512MiB]
    #[arg(long, value_name = "SIZE", requires = "hold", help_heading = "Users")]
    pub fit: Option<String>,
    /// The Erlang node that the address is in: read its memory by kind, its ports and processes
    #[arg(long, value_name = "NAME@HOST", requires = "hold", help_heading = "Node")]
    pub node: Option<String>,
    /// Its distribution port, without asking EPMD
    #[arg(long, value_name = "PORT", requires = "node", help_heading = "Node")]
    pub node_port: Option<u16>,
    /// Write JSON instead
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
