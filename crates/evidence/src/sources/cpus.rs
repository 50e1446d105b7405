//! Which CPUs threads may use: the lists of the kernel, `0-3,8`, and their union.
//!
//! Source: `Cpus_allowed_list` of `/proc/PID/task/TID/status` (proc_pid_status(5)): affinity and
//! cpuset together. A quota is another matter ([`super::groups`]).

use std::collections::BTreeSet;
use std::fmt;

/// A set of CPUs by their numbers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cpus(BTreeSet<u16>);

impl Cpus {
    /// All that some list names. Words that are no list are skipped.
    pub fn union<'a>(lists: impl IntoIterator<Item = &'a str>) -> Self {
        let ranges = lists.into_iter().flat_map(|list| list.trim().split(',')).filter_map(range);
        Self(ranges.flatten().collect())
    }

    /// Their numbers, in order.
    pub fn numbers(&self) -> Vec<u16> {
        self.0.iter().copied().collect()
    }

    /// How many.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The value of `Cpus_allowed_list` in a thread's `status`.
pub(super) fn allowed(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim)
}

fn range(word: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// As the kernel writes it.
impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if(|next| last.checked_add(1) == Some(*next)) {
                last = next;
            }
            match last == first {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_joined_and_written_as_the_kernel_does() {
        let cpus = Cpus::union(["0-1,4", "1-2\n", "9"]);
        assert_eq!((cpus.count(), cpus.to_string().as_str()), (5, "0-2,4,9"));
        assert_eq!(Cpus::union(["", "x", "3-"]), Cpus::default());
        assert_eq!(Cpus::default().to_string(), "");
        assert_eq!(Cpus::union(["65534-65535"]).to_string(), "65534-65535");
    }

    #[test]
    fn the_line_of_a_status_is_found() {
        let status = "Name:\tcat\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n";
        assert_eq!(allowed(status), Some("0-1"));
        assert_eq!(allowed("Name:\tcat\n"), None);
    }
}
