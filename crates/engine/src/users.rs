//! Users of a service that logs them in: the sockets and the event loop around a climb.
//!
//! One thread, one epoll, edge-triggered. A user that is online and idle has a descriptor and its session here, and no
//! buffer: bytes are read into one that all share, and what is to be written is kept only while the kernel does not
//! take it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_model::{EngineOptions, Timestamp};
use linerate_ramp::{Action, Moment, Ramp, Reading};
use linerate_session::{Event, Protocol, Session, UserId};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::Timespec;

use crate::clock::now;
use crate::connection::Wire;
use crate::socket::{Opener, cause, connected};
use crate::tls::{self, Peer, Tls};

// Chosen: as an engine thread.
const EVENTS: usize = 256;
const BUFFER: usize = 64 * 1024;

// Chosen: how often its caller hears how far it is, and may stop it.
const TELL: Duration = Duration::from_millis(100);

/// What users are to do.
pub struct UsersJob {
    /// Who comes when, and what is judged of it.
    pub ramp: Ramp,
    /// What they say; none: they connect, and are online with that.
    pub protocol: Option<Arc<dyn Protocol>>,
    /// How to go on when a session asks for TLS inside of its protocol; none: it does not.
    pub tls: Option<Tls>,
    /// Where.
    pub server: SocketAddr,
    /// The network namespace that they connect from; none: the host's own.
    pub netns: Option<PathBuf>,
    /// Of their sockets.
    pub options: EngineOptions,
    /// Ends it before its time.
    pub stop: Arc<AtomicBool>,
}

/// What happens beside it, on the thread that runs it.
pub trait Beside {
    /// Reads host and target.
    fn measure(&mut self, moment: Moment) -> Reading;

    /// Is told how far it is, ten times a second.
    fn tell(&mut self, ramp: &Ramp, at: Timestamp);
}

/// Runs it to its end, with all connections closed; the climb as it is then.
pub fn users(job: UsersJob, beside: &mut impl Beside) -> io::Result<Ramp> {
    let _entered = job.netns.as_deref().map(Entered::new).transpose()?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut users = Users {
        epoll,
        opener: Opener::new(&job.options, 0),
        ramp: job.ramp,
        protocol: job.protocol,
        tls: job.tls,
        server: job.server,
        connections: Vec::new(),
        buffer: vec![0; BUFFER],
        plain: vec![0; BUFFER],
        out: Vec::new(),
        happened: Vec::new(),
    };
    users.run(&job.stop, beside)?;
    Ok(users.ramp)
}

/// This thread is in another network namespace, until this is dropped.
struct Entered {
    own: File,
}

impl Entered {
    fn new(netns: &Path) -> io::Result<Self> {
        let own = File::open("/proc/thread-self/ns/net")?;
        let network = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(File::open(netns)?.as_fd(), network)?;
        Ok(Self { own })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Into where it was it may go.
        let _ = move_into_link_name_space(self.own.as_fd(), Some(LinkNameSpaceType::Network));
    }
}

#[derive(Default)]
struct Connection {
    socket: Option<OwnedFd>,
    session: Option<Box<dyn Session>>,
    /// From when the session asked for it.
    tls: Option<tls::Session>,
    generation: u32,
    is_connected: bool,
    /// What the kernel did not take.
    unsent: Vec<u8>,
}

struct Users {
    epoll: OwnedFd,
    opener: Opener,
    ramp: Ramp,
    protocol: Option<Arc<dyn Protocol>>,
    tls: Option<Tls>,
    server: SocketAddr,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
    /// What TLS made of it.
    plain: Vec<u8>,
    /// Of one call; empty in between.
    out: Vec<u8>,
    happened: Vec<Event>,
}

impl Users {
    fn run(&mut self, stop: &AtomicBool, beside: &mut impl Beside) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut next_tell = now();
        loop {
            let at = self.do_what_is_due(beside);
            if stop.load(Ordering::Relaxed) {
                self.ramp.stop();
            }
            if self.ramp.is_over() {
                return Ok(());
            }
            if at >= next_tell {
                next_tell = at.after(TELL);
                beside.tell(&self.ramp, at);
            }
            let wait = self.ramp.next(at).min(next_tell).nanos_since(at);
            let timeout = Timespec {
                tv_sec: (wait / 1_000_000_000) as i64,
                tv_nsec: (wait % 1_000_000_000) as i64,
            };
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                self.on_event(event.data.u64(), event.flags);
            }
        }
    }

    fn do_what_is_due(&mut self, beside: &mut impl Beside) -> Timestamp {
        let mut at = now();
        // What comes meanwhile is not kept waiting for all that is due.
        for _ in 0..EVENTS {
            let Some(action) = self.ramp.poll(at) else { break };
            match action {
                Action::Connect(user) => {
                    if let Err(errno) = self.connect(user) {
                        self.fail(user, cause(errno));
                    }
                }
                Action::Act(user, act, token) => {
                    if let Some(session) = &mut self.connections[user as usize].session {
                        // What the protocol does not have is not answered, and counts as that.
                        let _ = session.act(act, token, &mut self.out);
                        self.flush(user);
                    }
                }
                Action::Close(user) => self.leave(user),
                Action::Measure(moment) => {
                    let reading = beside.measure(moment);
                    self.ramp.on_reading(moment, reading);
                }
            }
            at = now();
        }
        at
    }

    fn connect(&mut self, user: u32) -> Result<(), Errno> {
        let index = user as usize;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, Connection::default);
        }
        let socket = self.opener.open(self.server)?;
        let connection = &mut self.connections[index];
        connection.generation = connection.generation.wrapping_add(1);
        let data = EventData::new_u64(u64::from(user) | u64::from(connection.generation) << 32);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket, data, flags)?;
        connection.socket = Some(socket);
        connection.is_connected = false;
        let session = |protocol: &Arc<dyn Protocol>| Arc::clone(protocol).session(UserId(user));
        connection.session = self.protocol.as_ref().map(session);
        Ok(())
    }

    fn on_event(&mut self, data: u64, flags: EventFlags) {
        let (user, generation) = ((data & 0xffff_ffff) as u32, (data >> 32) as u32);
        let Some(connection) = self.connections.get(user as usize) else { return };
        if connection.generation != generation || connection.socket.is_none() {
            return;
        }
        if !connection.is_connected {
            return self.on_connected(user);
        }
        // Records that the kernel did not take are TLS's own.
        let has_unsent = !connection.unsent.is_empty() || connection.tls.is_some();
        if flags.contains(EventFlags::OUT) && has_unsent {
            self.flush(user);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
        {
            self.read(user);
        }
    }

    /// The connect ended, well or not.
    fn on_connected(&mut self, user: u32) {
        let connection = &mut self.connections[user as usize];
        let Some(socket) = &connection.socket else { return };
        if let Err(errno) = connected(socket, self.server) {
            return self.fail(user, cause(errno));
        }
        // A path that is cut is noticed by who says something: its connection ends with it.
        if let Ok(timeout) = u32::try_from(self.ramp.asked().timeout.as_millis()) {
            let _ = sockopt::set_tcp_user_timeout(socket, timeout);
        }
        connection.is_connected = true;
        let at = now();
        self.ramp.on_connected(user, at);
        match &mut connection.session {
            Some(session) => {
                session.connected(&mut self.out);
                self.flush(user);
                // The edge of what came with the connection is past.
                self.read(user);
            }
            None => self.ramp.on_online(user, at),
        }
    }

    fn read(&mut self, user: u32) {
        loop {
            let connection = &mut self.connections[user as usize];
            let Some(socket) = &connection.socket else { return };
            match recv(socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => return self.fail(user, "closed"),
                Ok((_, bytes)) => {
                    // Who says nothing is not listened to either.
                    let Some(session) = &mut connection.session else { continue };
                    let read = &self.buffer[..bytes];
                    let (out, happened) = (&mut self.out, &mut self.happened);
                    let mut result = Ok(());
                    let mut peer = Ok(Peer::Talks);
                    match &mut connection.tls {
                        None => result = session.received(read, out, happened),
                        Some(tls) => {
                            peer = tls.read(read, &mut self.plain, |plain| {
                                result = session.received(plain, out, happened);
                                result.is_ok()
                            });
                        }
                    }
                    self.flush(user);
                    self.tell_all(user);
                    if let Err(fault) = result {
                        return self.fail(user, &format!("malformed: {fault}"));
                    }
                    match peer {
                        Ok(Peer::Talks) => {}
                        Ok(Peer::Closed) => return self.fail(user, "closed"),
                        Err(wrong) => return self.fail(user, &format!("TLS: {wrong}")),
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(errno) => return self.fail(user, cause(errno)),
            }
        }
    }

    fn tell_all(&mut self, user: u32) {
        let at = now();
        for event in std::mem::take(&mut self.happened) {
            match event {
                Event::Online => self.ramp.on_online(user, at),
                Event::Answered(doing, token) => self.ramp.on_answered(doing, token, at),
                Event::Delivered(Some(token)) => self.ramp.on_delivered(token, at),
                Event::Delivered(None) => {}
                Event::Refused(why) | Event::Ended(why) | Event::Declined(_, _, why) => {
                    let said = format!("turned away ({}): {}", why.cause.name(), why.said);
                    self.fail(user, &said);
                }
                Event::StartTls => self.start_tls(user),
            }
        }
    }

    /// From now on it speaks through TLS; what it says first waits in there for the end of the handshake.
    fn start_tls(&mut self, user: u32) {
        let Some(tls) = &self.tls else { return self.fail(user, "asked for TLS") };
        let connection = &mut self.connections[user as usize];
        match tls::Session::new(tls) {
            Ok(secured) => connection.tls = Some(secured),
            Err(wrong) => return self.fail(user, &format!("TLS: {wrong}")),
        }
        if let Some(session) = &mut connection.session {
            session.connected(&mut self.out);
            self.flush(user);
        }
    }

    /// Writes what one call gave, behind what was not taken before.
    fn flush(&mut self, user: u32) {
        let connection = &mut self.connections[user as usize];
        let Some(socket) = &connection.socket else { return self.out.clear() };
        if !connection.unsent.is_empty() {
            connection.unsent.append(&mut self.out);
            std::mem::swap(&mut connection.unsent, &mut self.out);
        }
        let mut sent = 0;
        if let Some(tls) = &mut connection.tls {
            let mut wire = Wire { socket, bytes: 0 };
            loop {
                let taken = tls.write(&self.out[sent..]);
                sent += taken;
                // Its error is met again by who reads next.
                let all_went = matches!(tls.flush(&mut wire), Ok(true));
                if !all_went || taken == 0 {
                    break;
                }
            }
        }
        while sent < self.out.len() && connection.tls.is_none() {
            match send(socket, &self.out[sent..], SendFlags::NOSIGNAL) {
                Ok(bytes) => sent += bytes,
                Err(Errno::INTR) => {}
                // What the peer said before it closed is read next, and its end.
                Err(_) => break,
            }
        }
        connection.unsent = self.out[sent..].to_vec();
        self.out.clear();
    }

    fn fail(&mut self, user: u32, why: &str) {
        self.close(user);
        self.ramp.on_failed(user, why, now());
    }

    fn leave(&mut self, user: u32) {
        if let Some(session) = &mut self.connections[user as usize].session {
            session.close(&mut self.out);
            self.flush(user);
        }
        self.close(user);
    }

    fn close(&mut self, user: u32) {
        if let Some(connection) = self.connections.get_mut(user as usize) {
            let generation = connection.generation.wrapping_add(1);
            *connection = Connection { generation, ..Connection::default() };
        }
    }
}
