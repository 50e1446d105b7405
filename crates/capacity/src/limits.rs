//! What limits a host and a target have. None: not known.

/// See the module.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// Descriptors that this process may have open (`RLIMIT_NOFILE`, hard).
    pub engine_descriptors: Option<u64>,
    /// Descriptors that the target's processes may have open, and have; of a node that is yet to be started what it
    /// will.
    pub target_descriptors: Option<(u64, u64)>,
    /// Open files of the whole host (`fs.file-nr`): in use, and most.
    pub files: Option<(u64, u64)>,
    /// `net.ipv4.ip_local_port_range`.
    pub port_range: Option<(u16, u16)>,
    /// How many ports of that are in `net.ipv4.ip_local_reserved_ports`.
    pub reserved_ports: u64,
    /// The target's accept queue: what its socket was given, or at most gets (`net.core.somaxconn`).
    pub backlog: Option<u64>,
    /// Entries of connection tracking: in use, and most. None too where nothing is tracked.
    pub conntrack: Option<(u64, u64)>,
    /// Pages that TCP's buffers may take (`net.ipv4.tcp_mem`, the last), and take.
    pub tcp_pages: Option<(u64, u64)>,
    /// A page. Unit: bytes.
    pub page: u64,
    /// Memory that could be had. Unit: bytes.
    pub memory: Option<u64>,
    /// The target's virtual machine, where it is a BEAM node.
    pub vm: Option<Vm>,
}

/// Limits of a virtual machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Vm {
    /// `+Q`.
    pub ports: u64,
    /// `+P`.
    pub processes: u64,
}

impl Vm {
    /// Of a node that is started with these flags and this descriptor limit.
    ///
    /// Source: erl(1), `+P` (default 262,144 up to OTP 26, more from 27 on) and `+Q` (default 65,536, or the
    /// descriptor limit where that is larger; both are rounded up to a power of two).
    pub fn of_flags(flags: &[String], descriptors: Option<u64>) -> Self {
        let value = |flag: &str| {
            let mut words = flags.iter().flat_map(|words| words.split_whitespace());
            words.find(|word| *word == flag)?;
            words.next()?.parse().ok().map(u64::next_power_of_two)
        };
        Self {
            ports: value("+Q").unwrap_or(65_536.max(descriptors.unwrap_or(0)).next_power_of_two()),
            processes: value("+P").unwrap_or(262_144),
        }
    }
}
