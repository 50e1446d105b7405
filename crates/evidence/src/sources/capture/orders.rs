//! How many a port serves at a time, by three orders: of single requests, of whole connections, of transactions.
//!
//! A service that has a place for each connection, or for each transaction, shows its number by the order of those and
//! not of their requests.

use linerate_model::Timestamp;

use super::servers::Servers;
use super::transactions::{Transaction, Transactions};

/// A port's orders.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    /// From a request to its answer.
    pub requests: Servers,
    /// Of whole connections, from the first request to the end.
    pub sessions: Servers,
    pub transactions: Transactions,
}

/// Where a connection is in the orders of its port.
#[derive(Clone, Copy, Debug)]
pub(super) struct InOrders {
    session: Session,
    transaction: Transaction,
}

/// A connection from its first request to its end.
#[derive(Clone, Copy, Debug)]
enum Session {
    Counted,
    Fresh,
    Asked { first: Timestamp, answers: u32 },
}

impl InOrders {
    /// A new connection.
    pub fn fresh() -> Self {
        Self { session: Session::Fresh, transaction: Transaction::default() }
    }

    /// A connection that began before the capture did: it is older than all that the capture saw begin.
    pub fn older(began: Timestamp) -> Self {
        let session = Session::Asked { first: began, answers: 0 };
        Self { session, transaction: Transaction::default() }
    }

    /// A request was sent.
    pub fn asked(&mut self, at: Timestamp) {
        if let Session::Fresh = self.session {
            self.greeted(at);
        }
    }

    /// The server sends first, on a connection that waits for that since then.
    pub fn greeted(&mut self, since: Timestamp) {
        self.session = Session::Asked { first: since, answers: 0 };
    }

    /// Which answers came meanwhile is not known.
    pub fn paused(&mut self) {
        self.transaction = Transaction::default();
    }
}

impl Orders {
    /// An answer to a request that was complete at `asked`; `is_long`: it took half of the mean time or longer.
    pub fn answered(
        &mut self,
        of: &mut InOrders,
        asked: Timestamp,
        at: Timestamp,
        is_long: bool,
        weight: u64,
    ) {
        self.requests.answered(asked, at);
        self.transactions.answered(&mut of.transaction, asked, at, is_long, weight);
        if let Session::Asked { answers, .. } = &mut of.session {
            *answers += 1;
        }
    }

    /// The connection has ended. Returns its answers, the first time; none without any.
    pub fn ended(&mut self, of: &mut InOrders, at: Timestamp) -> Option<u64> {
        let session = std::mem::replace(&mut of.session, Session::Counted);
        let Session::Asked { first, answers: answers @ 1.. } = session else { return None };
        self.sessions.answered(first, at);
        Some(answers.into())
    }
}
