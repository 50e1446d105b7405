//! What happens when: events in order of time, and of their making where the time is the same.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use linerate_model::Timestamp;

/// Events to come.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    made: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Timestamp,
    made: u64,
    event: E,
}

impl<E> Agenda<E> {
    pub fn new() -> Self {
        Self { heap: BinaryHeap::new(), made: 0 }
    }

    pub fn add(&mut self, at: Timestamp, event: E) {
        self.heap.push(Entry { at, made: self.made, event });
        self.made += 1;
    }

    pub fn next_at(&self) -> Option<Timestamp> {
        self.heap.peek().map(|entry| entry.at)
    }

    pub fn pop(&mut self) -> Option<(Timestamp, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap's greatest is the one that comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.made).cmp(&(self.at, self.made))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}
