//! Redis (and Valkey) whose lists are queues: `INFO commandstats`, and the length of each list (`LLEN`), where some command has ever
//! taken an element out and there are few keys, as a queue's Redis has. Redis 6.0 and later.
//!
//! Source: redis.io, "INFO", "SCAN", "LLEN", "RESP protocol description". Blind spots: lists of the first database alone; how
//! many elements a command put or took is not told, only the lengths are; consumers are not known. A list that nobody
//! takes from is not distinguished from a queue where other lists are taken from.

use linerate_model::Timestamp;

use super::super::queue;
use super::{ACKNOWLEDGED, DELIVERED, Names, PUBLISHED, Product, unread};
use crate::evidence::Evidence;
use crate::subject::Subject;

/// Chosen: one SCAN over so many keys takes a fraction of a millisecond.
const FEW_KEYS: u64 = 1000;

const PUTS: &[&str] = &["lpush", "rpush", "lpushx", "rpushx"];
const TAKES: &[&str] = &[
    "lpop",
    "rpop",
    "blpop",
    "brpop",
    "lmpop",
    "blmpop",
    "rpoplpush",
    "brpoplpush",
    "lmove",
    "blmove",
];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Redis {
    lists: Names,
    /// Whether lists are looked for.
    are_queues: bool,
}

/// A command as an array of bulk strings.
fn command(words: &[&str]) -> Vec<u8> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let words_of: String = words.iter().map(word).collect();
    format!("*{}\r\n{words_of}", words.len()).into_bytes()
}

impl Product for Redis {
    fn questions(&self) -> Vec<Vec<u8>> {
        let keys = FEW_KEYS.to_string();
        let scan: &[&str] = match self.are_queues {
            true => &["SCAN", "0", "COUNT", &keys, "TYPE", "list"],
            false => &["PING"],
        };
        let all = [command(&["INFO", "commandstats"]), command(&["DBSIZE"]), command(scan)];
        let lengths = self.lists.all().map(|(name, _)| command(&["LLEN", name]));
        all.into_iter().chain(lengths).collect()
    }

    fn reply(&self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        // Values that are still to come, of this and of what it is in.
        let mut left = 1_usize;
        while left > 0 {
            let rest = bytes.get(at..)?;
            let line = rest.windows(2).position(|two| two == b"\r\n")?;
            let count = || std::str::from_utf8(&rest[1..line]).ok()?.parse::<usize>().ok();
            at = at.checked_add(line + 2)?;
            left -= 1;
            match rest.first() {
                Some(b'$') => {
                    at = at.checked_add(count().map_or(Some(0), |length| length.checked_add(2))?)?
                }
                Some(b'*') => left = left.checked_add(count().unwrap_or(0))?,
                _ => {}
            }
        }
        (bytes.len() >= at).then_some(at)
    }

    fn take(
        &mut self,
        at: Timestamp,
        replies: &[Vec<u8>],
        evidence: &mut Evidence,
    ) -> Result<(), String> {
        let [stats, size, names, lengths @ ..] = replies else { return Ok(()) };
        let text = std::str::from_utf8(stats).ok().filter(|text| text.starts_with('$'));
        let text = text.ok_or_else(|| unread(stats))?;
        if self.are_queues && names.starts_with(b"-") {
            return Err(unread(names));
        }
        let [put, taken] = [PUTS, TAKES].map(|these| calls(text, these));
        evidence.push(at, Subject::Target, PUBLISHED, put);
        evidence.push(at, Subject::Target, DELIVERED, taken);
        evidence.push(at, Subject::Target, ACKNOWLEDGED, taken);
        for ((name, number), reply) in self.lists.all().zip(lengths) {
            if let Some(length) = number_of(reply) {
                evidence.push(at, Subject::Queue(number), queue::READY, length);
                evidence.push_fact(Subject::Queue(number), "name", name.clone());
            }
        }
        let is_small = number_of(size).is_some_and(|keys| keys <= FEW_KEYS);
        if self.are_queues {
            self.lists.add(bulk_strings(names));
        }
        self.are_queues = taken > 0 && is_small;
        Ok(())
    }
}

/// `:12`.
fn number_of(reply: &[u8]) -> Option<u64> {
    std::str::from_utf8(reply).ok()?.strip_prefix(':')?.trim_end().parse().ok()
}

/// Calls of these commands: `cmdstat_lpush:calls=12,usec=34,...`.
fn calls(text: &str, commands: &[&str]) -> u64 {
    let one = |line: &str| {
        let (name, counts) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = counts.strip_prefix("calls=")?.split(',').next()?;
        commands.contains(&name).then(|| calls.parse::<u64>().ok())?
    };
    text.lines().filter_map(one).fold(0, u64::saturating_add)
}

/// Keys of a reply to SCAN, those in plain text: the first string is its cursor.
fn bulk_strings(reply: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(reply);
    let mut lines = text.split("\r\n");
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$')
            && let Some(text) = lines.next()
        {
            found.push(text.to_owned());
        }
    }
    found.into_iter().skip(1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_with_all_that_is_in_it() {
        let broker = Redis::default();
        let whole: [&[u8]; 5] = [
            b"+PONG\r\n",
            b":12\r\n",
            b"$3\r\na\r\n\r\n",
            b"$-1\r\n",
            b"*2\r\n$1\r\n0\r\n*2\r\n$4\r\njobs\r\n$5\r\nmails\r\n",
        ];
        for reply in whole {
            assert_eq!(broker.reply(reply), Some(reply.len()));
            assert_eq!(broker.reply(&[reply, b":1\r\n"].concat()), Some(reply.len()));
            (0..reply.len()).for_each(|cut| assert_eq!(broker.reply(&reply[..cut]), None));
        }
        assert_eq!(broker.reply(b"$18446744073709551615\r\n"), None);
        assert_eq!(broker.reply(b"*18446744073709551615\r\n*18446744073709551615\r\n"), None);
    }

    #[test]
    fn lists_are_looked_for_where_some_command_takes_from_lists_and_keys_are_few() {
        let stats = |taken: &str| {
            let text = format!("# Commandstats\r\ncmdstat_lpush:calls=90,usec=1\r\n{taken}");
            format!("${}\r\n{text}\r\n", text.len()).into_bytes()
        };
        let (size, pong) = (b":4\r\n".to_vec(), b"+PONG\r\n".to_vec());
        let mut broker = Redis::default();
        let mut evidence = Evidence::default();
        broker.take(Timestamp(1), &[stats(""), size.clone(), pong.clone()], &mut evidence).unwrap();
        assert!(!broker.are_queues, "a log, or a timeline");
        let taken = stats("cmdstat_brpop:calls=30,usec=1\r\n");
        let many = b":2000000\r\n".to_vec();
        broker.take(Timestamp(2), &[taken.clone(), many, pong.clone()], &mut evidence).unwrap();
        assert!(!broker.are_queues, "a cache");
        broker.take(Timestamp(3), &[taken.clone(), size.clone(), pong], &mut evidence).unwrap();
        let scanned = b"*2\r\n$1\r\n0\r\n*1\r\n$4\r\njobs\r\n".to_vec();
        broker
            .take(Timestamp(4), &[taken.clone(), size.clone(), scanned.clone()], &mut evidence)
            .unwrap();
        assert_eq!(broker.questions()[3], b"*2\r\n$4\r\nLLEN\r\n$4\r\njobs\r\n");
        let length = b":60\r\n".to_vec();
        broker.take(Timestamp(5), &[taken, size, scanned, length], &mut evidence).unwrap();
        let target = evidence.of(Subject::Target);
        assert_eq!((target.last(PUBLISHED), target.last(DELIVERED)), (Ok(90), Ok(30)));
        assert_eq!(evidence.of(Subject::Queue(0)).last(queue::READY), Ok(60));
        assert_eq!(evidence.fact(Subject::Queue(0), "name"), Some("jobs"));
    }

    #[test]
    fn a_refusal_is_quoted() {
        let refusal = b"-NOAUTH Authentication required.\r\n".to_vec();
        let replies = [refusal.clone(), refusal.clone(), refusal];
        let said = Redis::default().take(Timestamp(1), &replies, &mut Evidence::default());
        assert_eq!(said, Err("it answered \"-NOAUTH Authentication required.\"".into()));
    }
}
