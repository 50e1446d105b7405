//! Connections that asked, read or not, and on which nothing moved for as long as they were watched.
//!
//! The headers of packets do not show them, and rates and means are of the others. They hang, or poll for long, or
//! sent what needs no answer. Where their requests are as long as those of connections that are answered meanwhile,
//! they likely ask the same: they hang, or wait for what the others have.
//!
//! A port that has sent nothing on any connection that is open takes what needs no answer, or has a connection a question:
//! the connections of those that it answered are gone. Only the headers tell which, so they are counted apart.
//!
//! Blind spot: the length is the mean over the connection's life, so requests of many lengths are not alike, and
//! another request of the same length is. A wait that began after the first dump is an exchange of the headers.

use std::collections::HashMap;

use linerate_model::Timestamp;

use super::{End, Place, SILENT, SILENT_ALIKE, UNANSWERED, UNANSWERED_ALIKE, UNANSWERED_UNREAD};
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
    /// See [`SILENT`].
    pub silent: u64,
    /// See [`SILENT_ALIKE`].
    pub silent_alike: u64,
}

impl Unanswered {
    /// Of a port's connections in two dumps. `came`: lengths of requests on connections that came after the first dump.
    /// Unit: bytes.
    pub fn between(first: &[End], last: &[End], came: &[f64]) -> Self {
        let answers = last.iter().any(|end| end.sent > 0);
        let known: HashMap<_, _> = first.iter().map(|end| ((end.local, end.peer), end)).collect();
        let before = |end: &End| known.get(&(end.local, end.peer)).copied();
        let is_answered = |end: &&End| end.sent > before(end).map_or(0, |before| before.sent);
        let mut others = came.to_vec();
        if answers {
            others = last.iter().filter(is_answered).map(End::request).collect();
        }
        others.sort_by(f64::total_cmp);
        let is_alike = |end: &&End| {
            let at = others.partition_point(|of| *of < end.request() * (1.0 - SAME));
            others.get(at).is_some_and(|of| *of <= end.request() * (1.0 + SAME))
        };
        let waits = |end: &&End| {
            let is_still = |then: &End| end.moved_since(then) == (false, false);
            let is_asked = matches!(end.place(), Place::Unread | Place::Application);
            is_asked && before(end).is_some_and(is_still)
        };
        let is_unread = |end: &&End| end.place() == Place::Unread;
        let told = |end: &&End| answers || is_unread(end);
        let (told, silent): (Vec<&End>, Vec<&End>) = last.iter().filter(waits).partition(told);
        let count = |of: &[&End], is: &dyn Fn(&&End) -> bool| {
            of.iter().filter(|end| is(end)).count() as u64
        };
        Self {
            all: told.len() as u64,
            unread: count(&told, &is_unread),
            alike: count(&told, &is_alike),
            silent: silent.len() as u64,
            silent_alike: count(&silent, &is_alike),
        }
    }

    /// Adds them as samples of a [`Subject::Listener`].
    pub fn push(&self, at: Timestamp, of: Subject, evidence: &mut Evidence) {
        evidence.push(at, of, UNANSWERED, self.all);
        evidence.push(at, of, UNANSWERED_UNREAD, self.unread);
        evidence.push(at, of, UNANSWERED_ALIKE, self.alike);
        evidence.push(at, of, SILENT, self.silent);
        evidence.push(at, of, SILENT_ALIKE, self.silent_alike);
    }
}

impl End {
    /// Mean length of a request, if each is one segment; 0 before the first. Unit: bytes.
    pub fn request(&self) -> f64 {
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
        let of = |all, alike| Unanswered { all, alike, ..Unanswered::default() };
        assert_eq!(Unanswered::between(&first, &last, &[]), of(2, 1));
        // Nobody is answered meanwhile: none is like them.
        assert_eq!(Unanswered::between(&last, &last, &[]), of(5, 0));
        let unread = [at(1, End { unread: 100, ..asked })];
        let one = Unanswered { unread: 1, ..of(1, 0) };
        assert_eq!(Unanswered::between(&unread, &unread, &[]), one);
        assert_eq!(Unanswered::between(&[], &last, &[]), Unanswered::default());
    }

    #[test]
    fn where_nothing_was_sent_on_any_that_is_open_they_are_counted_apart() {
        let asked = End { since_received: 20, sent: 0, ..quiet() };
        let longer = at(2, End { received: 1200, ..asked });
        let all = [at(1, asked), longer];
        let of = |silent_alike| Unanswered { silent: 2, silent_alike, ..Unanswered::default() };
        assert_eq!(Unanswered::between(&all, &all, &[]), of(0));
        assert_eq!(Unanswered::between(&all, &all, &[asked.request()]), of(1));
    }
}
