//! beanstalkd: `stats`, `list-tubes`, and `stats-tube` of each.
//!
//! Source: beanstalkd's doc/protocol.txt. A worker is taken to hold one job at a time. Blind spot: jobs that a worker releases
//! again count as not handed out.

use std::collections::HashMap;

use linerate_model::Timestamp;

use super::super::queue;
use super::{
    ACKNOWLEDGED, CONSUMERS, DELIVERED, Names, PUBLISHED, Product, QUEUES, REDELIVERED, REJECTED,
    STREAMS, unread,
};
use crate::evidence::Evidence;
use crate::subject::Subject;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Beanstalkd {
    tubes: Names,
}

impl Product for Beanstalkd {
    fn questions(&self) -> Vec<Vec<u8>> {
        let tubes = self.tubes.all().map(|(name, _)| format!("stats-tube {name}\r\n"));
        let all = ["stats\r\n", "list-tubes\r\n"].map(String::from).into_iter();
        all.chain(tubes).map(String::into_bytes).collect()
    }

    fn reply(&self, bytes: &[u8]) -> Option<usize> {
        let line = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
        let body = std::str::from_utf8(&bytes[..line - 2]).ok().and_then(|line| {
            let length: usize = line.strip_prefix("OK ")?.parse().ok()?;
            length.checked_add(2)
        });
        let all = line.checked_add(body.unwrap_or(0))?;
        (bytes.len() >= all).then_some(all)
    }

    fn take(
        &mut self,
        at: Timestamp,
        replies: &[Vec<u8>],
        evidence: &mut Evidence,
    ) -> Result<(), String> {
        let [all, names, tubes @ ..] = replies else { return Ok(()) };
        let all = Counts::read(all)?;
        let workers = all.of("current-workers");
        let handed = all.handed();
        let held = all.of("current-jobs-reserved");
        let mut push = |metric, value| evidence.push(at, Subject::Target, metric, value);
        push(PUBLISHED, all.of("total-jobs"));
        push(DELIVERED, handed);
        push(ACKNOWLEDGED, handed.saturating_sub(held));
        push(CONSUMERS, workers);
        push(QUEUES, all.of("current-tubes"));
        [REDELIVERED, REJECTED, STREAMS].into_iter().for_each(|none| push(none, 0));
        // Those found by the round before; one that is gone meanwhile has no counts.
        for ((name, number), reply) in self.tubes.all().zip(tubes) {
            let Ok(of) = Counts::read(reply) else { continue };
            let tube = Subject::Queue(number);
            let (held, done) = (of.of("current-jobs-reserved"), of.of("cmd-delete"));
            // Everybody watches the tube `default` until told otherwise.
            let watch = of.of("current-watching").min(workers);
            let mut push = |metric, value| evidence.push(at, tube, metric, value);
            push(queue::READY, of.of("current-jobs-ready"));
            push(queue::UNACKNOWLEDGED, held);
            push(queue::PUBLISHED, of.of("total-jobs"));
            push(queue::DELIVERED, done.saturating_add(held));
            push(queue::ACKNOWLEDGED, done);
            push(queue::CONSUMERS, watch);
            push(queue::PREFETCH, watch);
            let none = [
                queue::DELIVERED_NO_ACK,
                queue::REDELIVERED,
                queue::CONSUMERS_UNLIMITED,
                queue::CONSUMERS_NO_ACK,
            ];
            none.into_iter().for_each(|none| push(none, 0));
            evidence.push_fact(tube, "name", name.clone());
        }
        let text = String::from_utf8_lossy(names).into_owned();
        let found = text.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned);
        self.tubes.add(found);
        Ok(())
    }
}

/// `name: 12`, line by line.
struct Counts(HashMap<String, u64>);

impl Counts {
    fn read(reply: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(reply).ok().filter(|text| text.starts_with("OK "));
        let lines = text.ok_or_else(|| unread(reply))?.lines();
        let one = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(Self(lines.filter_map(one).collect()))
    }

    fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Jobs that wait for nobody: reserved, or deleted.
    fn handed(&self) -> u64 {
        let waiting = ["current-jobs-ready", "current-jobs-delayed", "current-jobs-buried"];
        let waiting = waiting.into_iter().map(|name| self.of(name)).fold(0, u64::saturating_add);
        self.of("total-jobs").saturating_sub(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(body: &str) -> Vec<u8> {
        format!("OK {}\r\n{body}\r\n", body.len()).into_bytes()
    }

    #[test]
    fn a_reply_is_whole_with_the_length_that_it_tells() {
        let (broker, reply) = (Beanstalkd::default(), framed("---\ncurrent-jobs-ready: 7\n"));
        assert_eq!(broker.reply(&reply), Some(reply.len()));
        assert_eq!(broker.reply(&[reply.clone(), b"OK".to_vec()].concat()), Some(reply.len()));
        (0..reply.len()).for_each(|cut| assert_eq!(broker.reply(&reply[..cut]), None, "{cut}"));
        assert_eq!(broker.reply(b"NOT_FOUND\r\nOK 3"), Some(11));
        assert_eq!(broker.reply(b"OK 18446744073709551615\r\n"), Some(25), "no length");
    }

    #[test]
    fn what_waits_and_what_is_worked_on_is_told_apart_and_tubes_from_the_second_round_on() {
        let mut broker = Beanstalkd::default();
        assert_eq!(broker.questions().len(), 2);
        let all = "---\ncurrent-jobs-ready: 40\ncurrent-jobs-reserved: 2\ncurrent-jobs-delayed: 3\n\
                   current-jobs-buried: 5\ntotal-jobs: 150\ncurrent-tubes: 2\ncurrent-workers: 2\n";
        let (all, names) = (framed(all), framed("---\n- default\n- orders\n"));
        let mut evidence = Evidence::default();
        broker.take(Timestamp(1), &[all.clone(), names.clone()], &mut evidence).unwrap();
        let target = evidence.of(Subject::Target);
        let told = [PUBLISHED, DELIVERED, ACKNOWLEDGED, CONSUMERS].map(|of| target.last(of));
        assert_eq!(told, [150, 102, 100, 2].map(Ok));
        assert_eq!(broker.questions()[3], b"stats-tube orders\r\n");
        let orders = "---\ncurrent-jobs-ready: 40\ncurrent-jobs-reserved: 2\ntotal-jobs: 150\n\
                      current-watching: 2\ncmd-delete: 100\n";
        let gone = b"NOT_FOUND\r\n".to_vec();
        broker.take(Timestamp(2), &[all, names, gone, framed(orders)], &mut evidence).unwrap();
        let tube = evidence.of(Subject::Queue(1));
        let told = [queue::READY, queue::DELIVERED, queue::PREFETCH].map(|of| tube.last(of));
        assert_eq!(told, [40, 102, 2].map(Ok));
        assert_eq!(evidence.fact(Subject::Queue(1), "name"), Some("orders"));
        assert!(evidence.of(Subject::Queue(0)).last(queue::READY).is_err());
    }

    #[test]
    fn another_program_is_quoted() {
        let said = Beanstalkd::default().take(
            Timestamp(1),
            &[b"-ERR unknown\r\n".to_vec(), Vec::new()],
            &mut Evidence::default(),
        );
        assert_eq!(said, Err("it answered \"-ERR unknown\"".into()));
    }
}
