//! Blocks of streams: one after the other on each connection, while the kernel takes or gives them.
//!
//! A block up is over with its last byte written, so the next one begins in the same wake; one down is over when it is
//! read. After some of each a thread looks at the clock and at its other connections.

use linerate_evidence::sources::census::SlotState;
use linerate_model::{Flow, Workload};
use linerate_workload::Answer;

use super::{BLOCKS, Edge, Thread};
use crate::clock::now;

/// What a connection of this worker does while an exchange is under way and nothing came of it.
pub(super) fn under_way(workload: &Workload, worker: u32) -> SlotState {
    match workload {
        Workload::Stream { direction, .. } if direction.of(worker) == Flow::Down => {
            SlotState::Receiving
        }
        Workload::Stream { .. } => SlotState::Sending,
        _ => SlotState::Waiting,
    }
}

impl Thread {
    /// What was left unread in this wake, in turn.
    pub(super) fn read_again(&mut self) {
        for index in std::mem::take(&mut self.again) {
            self.on_readable(index, Edge::Last);
        }
    }

    /// All that the session had is with the kernel, or as much as that takes.
    pub(super) fn on_streamed(&mut self, index: usize) {
        let connection = &self.connections[index];
        if connection.session.is_over() {
            self.on_answer(index, Answer::default(), now());
        } else if connection.session.unsent().is_empty() {
            // It is the peer's turn, who may have written before.
            self.again.push(index);
        }
    }

    /// A part of a block, or of what a far end says first; after that blocks go up.
    pub(super) fn on_more_of_a_stream(&mut self, index: usize) {
        let connection = &self.connections[index];
        if !connection.blocked && !connection.session.unsent().is_empty() {
            self.write_on(index);
        }
    }

    /// Further blocks of the connections whose last one is over.
    pub(super) fn go_on_streaming(&mut self) {
        for _ in 0..BLOCKS {
            self.read_again();
            let at = self.act();
            if self.again.is_empty() && self.driver.next(at) > at {
                return;
            }
        }
    }
}
