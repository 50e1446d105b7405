//! What was asked for: a node, a port or a process.

use std::str::FromStr;

use linerate_beam::Where;

use crate::failure::Failure;

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Asked {
    /// By its name.
    Node(Where),
    /// Whoever listens on this port of this host.
    Port(u16),
    /// By its number.
    Process(u32),
}

impl FromStr for Asked {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            Failure::plan(format!(
                "`{text}` is {what}: write NAME@HOST for a node, :PORT with 1 to 65535, or a process id"
            ))
        };
        if let Some(port) = text.strip_prefix(':') {
            return match port.parse() {
                Ok(port @ 1..) => Ok(Asked::Port(port)),
                _ => Err(wrong("no port")),
            };
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return match text.parse() {
                Ok(pid @ 1..) => Ok(Asked::Process(pid)),
                _ => Err(wrong("no process id")),
            };
        }
        // Host and port are what `run` takes; here the port alone tells.
        if let Some((host, port)) = text.rsplit_once(':')
            && !host.contains('@')
            && port.parse::<u16>().is_ok()
        {
            return Err(wrong("an address"));
        }
        text.parse().map(Asked::Node).map_err(Failure::plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_process_a_colon_a_port_and_a_word_a_node() {
        assert_eq!(":8080".parse::<Asked>().unwrap(), Asked::Port(8080));
        assert_eq!("4711".parse::<Asked>().unwrap(), Asked::Process(4711));
        let Asked::Node(place) = "shop@db1".parse().unwrap() else { panic!("it is a node") };
        assert_eq!(place.to_string(), "shop@db1");
    }

    #[test]
    fn what_is_none_of_them_is_refused_with_what_to_write() {
        for text in [":0", ":99999", ":", "0", "99999999999", "127.0.0.1:80", "a@b@c", ""] {
            let failure = text.parse::<Asked>().unwrap_err();
            assert_eq!(failure.code, 2, "{text}");
            assert!(failure.sentence.contains("write NAME@HOST"), "{text}: {failure}");
        }
    }
}
