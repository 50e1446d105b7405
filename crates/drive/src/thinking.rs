//! Clients that think: after an answer a connection's next request is due when its pause is over.
//!
//! A request that is due and cannot be sent (its connection is being opened again) waits, and its latency runs from
//! when it was due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use linerate_evidence::Phase;
use linerate_model::{Plan, Timestamp};

use crate::connection::{Connection, State};
use crate::driver::Driver;

/// The pauses of a thread's connections, by index.
pub(crate) struct Thinking {
    pauses: Vec<linerate_workload::Thinking>,
    /// When each is to ask again.
    due: Vec<Timestamp>,
    /// The same in order; a connection is in it once for each pause.
    next: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

impl Thinking {
    pub(crate) fn of(plan: &Plan, connections: &[Connection]) -> Option<Self> {
        let think = plan.load.think?;
        let seed = plan.engine.seed;
        let pauses = connections
            .iter()
            .map(|one| linerate_workload::Thinking::new(think, seed, one.worker))
            .collect();
        let due = vec![Timestamp(u64::MAX); connections.len()];
        Some(Self { pauses, due, next: BinaryHeap::new() })
    }

    /// From here on this connection asks.
    pub(crate) fn start(&mut self, index: usize, at: Timestamp) {
        let rest = self.pauses[index].rest();
        self.wait(index, at.after(rest));
    }

    /// It was answered, or it failed.
    #[inline]
    pub(crate) fn pause(&mut self, index: usize, at: Timestamp) {
        let pause = self.pauses[index].pause();
        self.wait(index, at.after(pause));
    }

    fn wait(&mut self, index: usize, due: Timestamp) {
        self.due[index] = due;
        self.next.push(Reverse((due, index)));
    }

    /// When this connection's next request is due.
    #[inline]
    pub(crate) fn due(&self, index: usize) -> Timestamp {
        self.due[index]
    }

    /// When the next of all is.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next.peek().map(|Reverse((due, _))| *due)
    }
}

impl Driver {
    /// Connections whose pause is over are free.
    pub(crate) fn end_pauses(&mut self, at: Timestamp) {
        let Some(thinking) = &mut self.thinking else { return };
        if self.phase == Phase::Drain || at >= self.ends {
            return;
        }
        let opens_each = self.plan.opens_each();
        while let Some(Reverse((due, index))) = thinking.next.peek().copied()
            && due <= at
        {
            thinking.next.pop();
            let connection = &self.connections[index];
            let is_open = connection.is_open || opens_each;
            // One that is being opened begins when it is; a due time that a later pause has put off is none.
            if connection.state == State::Idle && is_open && thinking.due[index] == due {
                self.freed.push_back(index);
            }
        }
    }

    /// Whether this connection's next request is due.
    pub(crate) fn is_due(&self, index: usize, at: Timestamp) -> bool {
        self.thinking.as_ref().is_none_or(|thinking| thinking.due(index) <= at)
    }
}
