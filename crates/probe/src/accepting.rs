//! Connections to a port of this host that its service has not accepted, or that only the client has.

use std::collections::HashMap;
use std::net::SocketAddr;

use linerate_evidence::sources::{listener, sockets};

use crate::netlink::SockDiag;

/// See the module.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Accepting {
    /// Length of the accept queue, connections included that their client has closed since.
    pub queued: u64,
    /// Packets that the listening socket has dropped since it was made, where the kernel counts
    /// them.
    pub drops: Option<u64>,
    /// Established on both ends, and no process holds the server's.
    pub waiting: u64,
    /// Established at the client's end, and not there at the server's: its last packet of the handshake was
    /// dropped, because the accept queue was full.
    pub phantoms: u64,
}

/// The state at this address; none where it is not of this network namespace: no process listens there, or no client
/// here has its other end here (packets whose address is translated).
pub fn accepting(server: SocketAddr) -> Option<Accepting> {
    let mut diag = SockDiag::open().ok()?;
    let listeners = diag.listeners().ok()?;
    let queued = listener::queued(&listeners, server.port())?;
    let drops = listener::drops(&listeners, server.port());
    let all = sockets::connections(&diag.established().ok()?);
    // A server's end by its client; 0: held by no process.
    let servers: HashMap<SocketAddr, u32> = all
        .iter()
        .filter(|end| end.local.port() == server.port())
        .map(|end| (end.peer, end.inode))
        .collect();
    let mut found = Accepting { queued, drops, ..Accepting::default() };
    let mut accepted = 0;
    for client in all.iter().filter(|end| end.peer == server) {
        match servers.get(&client.local) {
            Some(0) => found.waiting += 1,
            Some(_) => accepted += 1,
            None => found.phantoms += 1,
        }
    }
    let any_here = accepted + found.waiting > 0;
    (any_here || found.phantoms == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_is_not_accepted_yet_waits_and_counts_no_more_once_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let of = |queued, waiting| Some(Accepting { queued, drops: Some(0), waiting, phantoms: 0 });
        assert_eq!(accepting(server), of(0, 0));
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(server).unwrap()).collect();
        assert_eq!(accepting(server), of(3, 3));
        let _kept = listener.accept().unwrap();
        assert_eq!(accepting(server), of(2, 2));
        // A connection that its client has closed no longer waits.
        drop(clients);
        assert_eq!(accepting(server), of(2, 0));
        drop(listener);
        assert_eq!(accepting(server), None);
    }
}
