//! Connections that asked, read or not, and on which nothing moved for as long as they were watched.
//!
//! The headers of packets do not show them, and rates and means are of the others. They hang, or poll for long, or
//! sent what needs no answer. Where their requests are as long as those of connections that are answered meanwhile,
//! they likely ask the same: they hang, or wait for what the others have.
//!
//! Blind spot: the length is the mean over the connection's life, so requests of many lengths are not alike, and
//! another request of the same length is. A wait that began after the first dump is an exchange of the headers.

use std::collections::HashMap;

use linerate_model::Timestamp;

use super::{End, Place, UNANSWERED, UNANSWERED_ALIKE, UNANSWERED_UNREAD};
use crate::evidence::Evidence;
use crate::subject::Subject;

/// Two mean lengths within this share of each other are the same.
// Chosen: a byte of a short request; the lengths of two kinds of request seldom are so near.
const SAME: f64 = 0.01;

/// See the module.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Unanswered {
    /// See [`UNANSWERED`].
    pub all: u64,
    /// See [`UNANSWERED_UNREAD`].
    pub unread: u64,
    /// See [`UNANSWERED_ALIKE`].
    pub alike: u64,
}

impl Unanswered {
    /// Of a port's connections in two dumps.
    pub fn between(first: &[End], last: &[End]) -> Self {
        // A port that answers nobody takes what needs no answer, and reads it.
        let answers = last.iter().any(|end| end.sent > 0);
        let known: HashMap<_, _> = first.iter().map(|end| ((end.local, end.peer), end)).collect();
        let before = |end: &End| known.get(&(end.local, end.peer)).copied();
        let is_answered = |end: &&End| end.sent > before(end).map_or(0, |before| before.sent);
        let mut answered: Vec<f64> = last.iter().filter(is_answered).map(End::request).collect();
        answered.sort_by(f64::total_cmp);
        let is_alike = |end: &&End| {
            let at = answered.partition_point(|of| *of < end.request() * (1.0 - SAME));
            answered.get(at).is_some_and(|of| *of <= end.request() * (1.0 + SAME))
        };
        let waits = |end: &&End| {
            let is_still = |then: &End| end.moved_since(then) == (false, false);
            let is_asked = match end.place() {
                Place::Unread => true,
                Place::Application => answers,
                _ => false,
            };
            is_asked && before(end).is_some_and(is_still)
        };
        let unanswered: Vec<&End> = last.iter().filter(waits).collect();
        let count =
            |is: &dyn Fn(&&End) -> bool| unanswered.iter().filter(|end| is(end)).count() as u64;
        let (all, alike) = (unanswered.len() as u64, count(&is_alike));
        Self { all, unread: count(&|end| end.place() == Place::Unread), alike }
    }

    /// Adds them as samples of a [`Subject::Listener`].
    pub fn push(&self, at: Timestamp, of: Subject, evidence: &mut Evidence) {
        evidence.push(at, of, UNANSWERED, self.all);
        evidence.push(at, of, UNANSWERED_UNREAD, self.unread);
        evidence.push(at, of, UNANSWERED_ALIKE, self.alike);
    }
}

impl End {
    /// Mean length of a request, if each is one segment. Unit: bytes.
    fn request(&self) -> f64 {
        self.received as f64 / f64::from(self.received_segments.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::quiet;
    use super::*;

    fn at(peer: u16, of: End) -> End {
        End { peer: ([127, 0, 0, 1], peer).into(), ..of }
    }

    #[test]
    fn who_asks_what_others_are_answered_and_hears_nothing_is_counted() {
        let asked = End { since_received: 20, ..quiet() };
        let first = [at(1, asked), at(2, asked), at(3, quiet()), at(4, asked), at(5, asked)];
        let answered = at(2, End { sent: 1500, received: 1500, received_segments: 15, ..asked });
        // The fourth asks something longer, and the fifth has asked again meanwhile.
        let longer = at(4, End { received: 1200, ..asked });
        let again = at(5, End { received: 1100, received_segments: 11, ..asked });
        let last = [first[0], answered, first[2], longer, again, at(6, asked)];
        let first = [first[0], first[1], first[2], longer, first[4]];
        let of = |all, alike| Unanswered { all, alike, unread: 0 };
        assert_eq!(Unanswered::between(&first, &last), of(2, 1));
        // Nobody is answered meanwhile: none is like them.
        assert_eq!(Unanswered::between(&last, &last), of(5, 0));
        let unread = [at(1, End { unread: 100, ..asked })];
        assert_eq!(Unanswered::between(&unread, &unread), Unanswered { unread: 1, ..of(1, 0) });
        assert_eq!(Unanswered::between(&[], &last), Unanswered::default());
    }

    #[test]
    fn a_port_that_never_answers_leaves_nobody_waiting() {
        let logs = [at(1, End { sent: 0, since_received: 20, ..quiet() })];
        assert_eq!(Unanswered::between(&logs, &logs), Unanswered::default());
        // But it reads what came.
        let unread = [at(1, End { unread: 100, ..logs[0] })];
        assert_eq!(Unanswered::between(&unread, &unread).unread, 1);
    }
}
