//! The board: what each connection of a run is doing, for those who sample it from outside.
//!
//! A slot a connection, written by the thread that has the connection and read by anybody. No lock and no system
//! call: an exchange costs its thread three or four stores to a cache line that no other thread writes.
//!
//! Measured: 3 to 5 ns an exchange with 1,000 connections, on two cores of 2.5 GHz that other work filled (`cost`,
//! below).

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use linerate_evidence::sources::census::{Connections, SlotState, SlotView};
use linerate_model::Timestamp;

/// The connections of a run: each worker's side by side, one to every server.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Slots>);

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    servers: u32,
    workers: Workers,
}

/// Which of a run's workers this process has: every so-many-th. Their number is dealt out over threads, whose number is
/// a multiple of that of processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Workers {
    /// Those of all processes.
    pub(crate) all: u32,
    /// This process, of how many.
    pub(crate) process: u16,
    pub(crate) of: u16,
}

impl Workers {
    /// How many it has.
    pub(crate) fn count(&self) -> u32 {
        let left = self.all.saturating_sub(u32::from(self.process));
        left.div_ceil(u32::from(self.of.max(1)))
    }

    /// Of one of its own, its place among them.
    fn place(&self, worker: u32) -> u32 {
        worker / u32::from(self.of.max(1))
    }
}

/// What is written together stands in a cache line, which no other thread writes.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot {
    /// The sequence above [`STATE_BITS`], the state below.
    word: AtomicU64,
    written: AtomicU64,
    /// The engine's end: its address as IPv6, IPv4 mapped.
    ip: [AtomicU64; 2],
    /// Its port; 0: not connected. Above it the engine host.
    port: AtomicU32,
    /// Of a link-local address.
    scope: AtomicU32,
}

const STATE_BITS: u32 = 4;
const STATE: u64 = (1 << STATE_BITS) - 1;
/// Its address is half the one and half the other; no state has this code.
const IN_WRITING: u64 = STATE;

impl Board {
    /// One for these workers, each with a connection to every server.
    pub(crate) fn new(workers: &Workers, servers: usize) -> Self {
        let servers = u32::try_from(servers).unwrap_or(u32::MAX).max(1);
        let count = workers.count().saturating_mul(servers);
        let slots = (0..count).map(|_| Slot::default()).collect();
        Self(Arc::new(Slots { slots, servers, workers: *workers }))
    }

    /// How many connections there are, open or not; none where this engine does not tell.
    pub fn connections(&self) -> u32 {
        self.0.slots.len() as u32
    }

    /// One of them. None: it changed while it was read, or there is none of that number.
    pub fn read(&self, number: u32) -> Option<SlotView> {
        let slot = self.0.slots.get(number as usize)?;
        let word = slot.word.load(Ordering::Acquire);
        if word & STATE == IN_WRITING {
            return None;
        }
        let written = slot.written.load(Ordering::Relaxed);
        let [high, low] = slot.ip.each_ref().map(|half| half.load(Ordering::Relaxed));
        let (port, scope) = (slot.port.load(Ordering::Relaxed), slot.scope.load(Ordering::Relaxed));
        // The word is of what was read between its two readings only if it did not change.
        fence(Ordering::Acquire);
        if slot.word.load(Ordering::Relaxed) != word {
            return None;
        }
        let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        let client = match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(IpAddr::V4(ip), port as u16),
            None => SocketAddrV6::new(ip, port as u16, 0, scope).into(),
        };
        Some(SlotView {
            state: state_of(word),
            sequence: word >> STATE_BITS,
            written: Timestamp(written),
            client: (port as u16 != 0).then_some(client),
            server: (number % self.0.servers) as u16,
            host: (port >> 16) as u16,
        })
    }

    /// The slot of a worker's connection to a server.
    pub(crate) fn slot_of(&self, worker: u32, server: u16) -> u32 {
        let place = self.0.workers.place(worker);
        place.saturating_mul(self.0.servers).saturating_add(u32::from(server))
    }

    /// An exchange begins: in the state that follows from whether its connection is open.
    #[inline]
    pub(crate) fn begun(&self, number: u32, state: SlotState, written: Timestamp) {
        let Some(slot) = self.0.slots.get(number as usize) else { return };
        slot.written.store(written.0, Ordering::Relaxed);
        slot.change(state, 1);
    }

    /// The same exchange, or none, goes on in another state.
    #[inline]
    pub(crate) fn is_now(&self, number: u32, state: SlotState) {
        if let Some(slot) = self.0.slots.get(number as usize) {
            slot.change(state, 0);
        }
    }

    /// A socket is connected.
    pub(crate) fn connected(&self, number: u32, client: SocketAddr, host: u16, state: SlotState) {
        let Some(slot) = self.0.slots.get(number as usize) else { return };
        slot.address(client, host);
        slot.change(state, 1);
    }

    /// A socket is closed.
    pub(crate) fn closed(&self, number: u32) {
        let Some(slot) = self.0.slots.get(number as usize) else { return };
        slot.change(SlotState::Closed, 1);
        fence(Ordering::Release);
        slot.port.store(0, Ordering::Relaxed);
    }
}

impl Connections for Board {
    fn count(&self) -> u32 {
        self.connections()
    }

    fn read(&self, number: u32) -> Option<SlotView> {
        Board::read(self, number)
    }
}

impl Slot {
    /// Only the thread that has the connection writes, so that nothing is lost between load and store.
    #[inline]
    fn change(&self, state: SlotState, further: u64) {
        self.store(code(state), further);
    }

    #[inline]
    fn store(&self, code: u64, further: u64) {
        let sequence = (self.word.load(Ordering::Relaxed) >> STATE_BITS).wrapping_add(further);
        self.word.store(sequence << STATE_BITS | code, Ordering::Release);
    }

    fn address(&self, client: SocketAddr, host: u16) {
        // Whoever reads a part of the new address has read this word before, or reads it afterwards.
        self.store(IN_WRITING, 1);
        fence(Ordering::Release);
        let (ip, scope) = match client {
            SocketAddr::V4(client) => (client.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(client) => (*client.ip(), client.scope_id()),
        };
        let bits = ip.to_bits();
        self.ip[0].store((bits >> 64) as u64, Ordering::Relaxed);
        self.ip[1].store(bits as u64, Ordering::Relaxed);
        self.scope.store(scope, Ordering::Relaxed);
        let port = u32::from(client.port()) | u32::from(host) << 16;
        self.port.store(port, Ordering::Relaxed);
    }
}

const fn code(state: SlotState) -> u64 {
    match state {
        SlotState::Closed => 0,
        SlotState::Connecting => 1,
        SlotState::TlsHandshake => 2,
        SlotState::Idle => 3,
        SlotState::Waiting => 4,
        SlotState::Answering => 5,
        SlotState::Sending => 6,
        SlotState::Receiving => 7,
    }
}

const fn state_of(word: u64) -> SlotState {
    match word & STATE {
        0 => SlotState::Closed,
        1 => SlotState::Connecting,
        2 => SlotState::TlsHandshake,
        3 => SlotState::Idle,
        4 => SlotState::Waiting,
        6 => SlotState::Sending,
        7 => SlotState::Receiving,
        _ => SlotState::Answering,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn all(workers: u32) -> Workers {
        Workers { all: workers, process: 0, of: 1 }
    }

    #[test]
    fn the_workers_of_all_processes_are_all_workers_and_each_has_a_place_of_its_own() {
        for (all, of) in [(10, 4), (7, 3), (2, 2), (2, 3), (5, 1)] {
            let mut count = 0;
            for process in 0..of {
                let workers = Workers { all, process, of };
                let own = (0..all).filter(|id| id % u32::from(of) == u32::from(process));
                let places: Vec<u32> = own.map(|id| workers.place(id)).collect();
                assert!(places.iter().copied().eq(0..workers.count()), "{workers:?}: {places:?}");
                count += workers.count();
            }
            assert_eq!(count, all);
        }
    }

    #[test]
    fn a_slot_reads_back_as_it_was_written_in_both_families() {
        let board = Board::new(&all(3), 2);
        assert_eq!(board.connections(), 6);
        assert_eq!(board.read(6), None);
        assert_eq!(board.read(5).unwrap().state, SlotState::Closed);
        let slot = board.slot_of(2, 1);
        for client in ["10.1.2.3:40000", "[fe80::1%7]:40001", "[2001:db8::5]:1", "[::1]:65535"] {
            let client: SocketAddr = client.parse().unwrap();
            board.connected(slot, client, 4, SlotState::Idle);
            let idle = board.read(slot).unwrap();
            assert_eq!((idle.client, idle.host, idle.server), (Some(client), 4, 1));

            board.begun(slot, SlotState::Waiting, Timestamp(77));
            let waiting = board.read(slot).unwrap();
            assert_eq!((waiting.state, waiting.written), (SlotState::Waiting, Timestamp(77)));
            assert_ne!(waiting.sequence, idle.sequence);

            board.is_now(slot, SlotState::Answering);
            let answering = board.read(slot).unwrap();
            assert_eq!(answering.sequence, waiting.sequence);
            assert_eq!(answering.state, SlotState::Answering);

            board.closed(slot);
            assert_eq!(board.read(slot).unwrap().client, None);
        }
        assert_eq!(board.read(4).unwrap().state, SlotState::Closed);
    }

    #[test]
    fn a_reader_never_has_an_address_of_two_sockets() {
        let board = Board::new(&all(1), 1);
        let (of_one, of_two) = ("10.0.0.1:1".parse().unwrap(), "[2001:db8::2]:2".parse().unwrap());
        let writer = board.clone();
        let thread = std::thread::spawn(move || {
            for _ in 0..100_000 {
                writer.connected(0, of_one, 1, SlotState::Waiting);
                writer.closed(0);
                writer.connected(0, of_two, 2, SlotState::Waiting);
                writer.closed(0);
            }
        });
        while !thread.is_finished() {
            if let Some(view) = board.read(0)
                && let Some(client) = view.client
            {
                assert!([(of_one, 1), (of_two, 2)].contains(&(client, view.host)), "{view:?}");
            }
        }
        thread.join().unwrap();
    }

    /// `--nocapture` prints it.
    #[test]
    fn cost() {
        // Chosen: more than a cache of the first level holds.
        let board = Board::new(&all(1_000), 1);
        let (rounds, began) = (2_000_u64, Instant::now());
        for round in 0..rounds {
            for slot in 0..1_000 {
                board.begun(slot, SlotState::Waiting, Timestamp(round));
                board.is_now(slot, SlotState::Idle);
            }
        }
        let each = began.elapsed().as_nanos() as f64 / (rounds * 1_000) as f64;
        println!("{each:.1} ns an exchange");
        // Ten times what was measured is a defect on any machine.
        assert!(cfg!(debug_assertions) || each < 100.0, "{each}");
    }
}
