//! linerate's own connection to a service that it watches: it is none of that service's clients.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};

/// Its port; 0: none.
static PORT: AtomicU16 = AtomicU16::new(0);

/// From now on this is linerate's own end.
pub(crate) fn is_at(end: SocketAddr) {
    PORT.store(end.port(), Ordering::Relaxed);
}

/// Whether a client's end is linerate's.
pub(crate) fn is(client: &SocketAddr) -> bool {
    client.ip().to_canonical().is_loopback() && client.port() == PORT.load(Ordering::Relaxed)
}
