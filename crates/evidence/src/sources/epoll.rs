//! Which descriptors an epoll descriptor watches.
//!
//! No source of samples by itself: the probe finds with it for which connections a thread waits.
//!
//! Source: `tfd` lines of `/proc/PID/fdinfo/FD` (proc_pid_fdinfo(5)).

/// Their numbers, in the process that made it.
pub fn members(text: &[u8]) -> Vec<u32> {
    let text = String::from_utf8_lossy(text);
    let number = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok();
    text.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_descriptor_is_one() {
        let text = b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n\
            tfd:        5 events:       19 data:                5  pos:0 ino:61af sdev:7\n\
            tfd:       12 events: 80002019 data: ffffffffffffffff  pos:0 ino:61b0 sdev:7\n\
            tfd:        x\ntfd:\n";
        assert_eq!(members(text), [5, 12]);
        assert!(members(b"").is_empty());
    }
}
