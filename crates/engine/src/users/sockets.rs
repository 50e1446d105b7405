//! Users' connections in this process.
//!
//! One thread, one epoll, edge-triggered. A user that is online and idle has a descriptor and its session here, and no
//! buffer: bytes are read into one that all share, and what is to be written is kept only while the kernel does not
//! take it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use linerate_model::{EngineOptions, Timestamp};
use linerate_session::{Act, Event, Protocol, Session, Token, UserId};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::{Entered, Happened, UserConnections};
use crate::alarm::Alarm;
use crate::clock::now;
use crate::connection::Wire;
use crate::socket::{Opener, cause, connected, port_range};
use crate::tls::{self, Peer, Tls};

// Chosen: as an engine thread.
const EVENTS: usize = 256;
const BUFFER: usize = 64 * 1024;

/// No users': their numbers are of 24 bits.
const WATCHED: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;

/// How users connect, and what they say.
pub struct UsersSetup {
    /// What they say; none: they connect, and are online with that.
    pub protocol: Option<Arc<dyn Protocol>>,
    /// How to go on when a session asks for TLS inside of its protocol; none: it does not.
    pub tls: Option<Tls>,
    /// Where: users of each process take them in turn. One at least.
    pub servers: Vec<SocketAddr>,
    /// The network namespace that they connect from; none: the process's own.
    pub netns: Option<PathBuf>,
    /// Of their sockets.
    pub options: EngineOptions,
    /// What is sent and not acknowledged for so long ends the connection.
    pub timeout: Duration,
    /// Which process this is, and of how many.
    pub process: (u16, u16),
}

/// See the module. All connections are closed when this is dropped.
pub struct UserSockets {
    epoll: OwnedFd,
    alarm: Alarm,
    opener: Opener,
    protocol: Option<Arc<dyn Protocol>>,
    tls: Option<Tls>,
    servers: Vec<SocketAddr>,
    processes: u32,
    timeout: Duration,
    users: Vec<User>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// What TLS made of it.
    plain: Vec<u8>,
    /// Of one call; empty in between.
    out: Vec<u8>,
    said: Vec<Event>,
    happened: Vec<Happened>,
    _entered: Option<Entered>,
}

#[derive(Default)]
struct User {
    /// Connections so far.
    attempt: u32,
    connection: Option<Box<Connection>>,
}

struct Connection {
    socket: OwnedFd,
    session: Option<Box<dyn Session>>,
    /// From when the session asked for it.
    tls: Option<tls::Session>,
    begun: Timestamp,
    is_connected: bool,
    /// What the kernel did not take.
    unsent: Vec<u8>,
}

fn of(users: &mut [User], user: u32) -> Option<&mut Connection> {
    users.get_mut(user as usize)?.connection.as_deref_mut()
}

impl UserConnections for UserSockets {
    fn connect(&mut self, user: u32) {
        if let Err(errno) = self.open(user) {
            self.fail(user, cause(errno));
        }
    }

    fn act(&mut self, user: u32, act: Act, token: Token) {
        let Some(connection) = of(&mut self.users, user) else { return };
        if let Some(session) = &mut connection.session {
            // What the protocol does not have is not answered, and counts as that.
            let _ = session.act(act, token, &mut self.out);
            self.flush(user);
        }
    }

    fn close(&mut self, user: u32) {
        let Some(connection) = of(&mut self.users, user) else { return };
        if let Some(session) = &mut connection.session {
            session.close(&mut self.out);
            self.flush(user);
        }
        self.end(user);
    }

    fn wait(&mut self, until: Timestamp) -> io::Result<()> {
        self.alarm.set(until)?;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            match event.data.u64() {
                WATCHED => {}
                ALARM => self.alarm.rang(),
                data => self.on_event(data, event.flags),
            }
        }
        self.events = events;
        Ok(())
    }

    fn take(&mut self, happened: &mut Vec<Happened>) {
        happened.append(&mut self.happened);
    }
}

impl UserSockets {
    /// Nobody is connected yet. To be used by the thread that made it.
    pub fn new(setup: UsersSetup) -> io::Result<Self> {
        if setup.servers.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let entered = setup.netns.as_deref().map(Entered::new).transpose()?;
        // Of a range of local ports each process begins with its own part.
        let (process, of) = setup.process;
        let ports = setup.options.local_ports.as_deref().and_then(port_range);
        let ports = ports.map_or(0, |(low, high)| u32::from(high - low) + 1);
        let first = u32::from(process) * ports / u32::from(of.max(1));
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self {
            alarm: Alarm::new(&epoll, ALARM)?,
            epoll,
            opener: Opener::new(&setup.options, u16::try_from(first).unwrap_or(0)),
            protocol: setup.protocol,
            tls: setup.tls,
            servers: setup.servers,
            processes: u32::from(of.max(1)),
            timeout: setup.timeout,
            users: Vec::new(),
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; BUFFER],
            plain: vec![0; BUFFER],
            out: Vec::new(),
            said: Vec::new(),
            happened: Vec::new(),
            _entered: entered,
        })
    }

    /// Waiting ends also when this can be read.
    pub fn watch(&self, other: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, other, EventData::new_u64(WATCHED), EventFlags::IN)?)
    }

    fn open(&mut self, user: u32) -> Result<(), Errno> {
        let index = user as usize;
        if self.users.len() <= index {
            self.users.resize_with(index + 1, User::default);
        }
        let server = self.server_of(user);
        let it = &mut self.users[index];
        (it.attempt, it.connection) = (it.attempt.wrapping_add(1), None);
        let begun = now();
        let socket = self.opener.open(server)?;
        let data = EventData::new_u64(u64::from(user) | u64::from(it.attempt) << 32);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket, data, flags)?;
        let session = |protocol: &Arc<dyn Protocol>| Arc::clone(protocol).session(UserId(user));
        it.connection = Some(Box::new(Connection {
            socket,
            session: self.protocol.as_ref().map(session),
            tls: None,
            begun,
            is_connected: false,
            unsent: Vec::new(),
        }));
        Ok(())
    }

    /// User `i` is process `i % processes`'s, and each process has users at every server.
    fn server_of(&self, user: u32) -> SocketAddr {
        self.servers[(user / self.processes) as usize % self.servers.len()]
    }

    fn on_event(&mut self, data: u64, flags: EventFlags) {
        let (user, attempt) = ((data & 0xffff_ffff) as u32, (data >> 32) as u32);
        if self.attempt(user) != attempt {
            return;
        }
        let Some(connection) = of(&mut self.users, user) else { return };
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

    fn attempt(&self, user: u32) -> u32 {
        self.users.get(user as usize).map_or(0, |it| it.attempt)
    }

    /// The connect ended, well or not.
    fn on_connected(&mut self, user: u32) {
        let attempt = self.attempt(user);
        let server = self.server_of(user);
        let Some(connection) = of(&mut self.users, user) else { return };
        if let Err(errno) = connected(&connection.socket, server) {
            return self.fail(user, cause(errno));
        }
        // A path that is cut is noticed by who says something: its connection ends with it.
        if let Ok(timeout) = u32::try_from(self.timeout.as_millis()) {
            let _ = sockopt::set_tcp_user_timeout(&connection.socket, timeout);
        }
        connection.is_connected = true;
        let (begun, at) = (connection.begun, now());
        self.happened.push(Happened::Connected { user, attempt, begun, at });
        match &mut connection.session {
            Some(session) => {
                session.connected(&mut self.out);
                self.flush(user);
                // The edge of what came with the connection is past.
                self.read(user);
            }
            None => self.happened.push(Happened::Online { user, attempt, at }),
        }
    }

    fn read(&mut self, user: u32) {
        loop {
            let Some(connection) = of(&mut self.users, user) else { return };
            match recv(&connection.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => return self.fail(user, "closed"),
                Ok((_, bytes)) => {
                    // Who says nothing is not listened to either.
                    let Some(session) = &mut connection.session else { continue };
                    let read = &self.buffer[..bytes];
                    let (out, said) = (&mut self.out, &mut self.said);
                    let mut result = Ok(());
                    let mut peer = Ok(Peer::Talks);
                    match &mut connection.tls {
                        None => result = session.received(read, out, said),
                        Some(tls) => {
                            peer = tls.read(read, &mut self.plain, |plain| {
                                result = session.received(plain, out, said);
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
        let (attempt, at) = (self.attempt(user), now());
        for event in std::mem::take(&mut self.said) {
            match event {
                Event::Online => self.happened.push(Happened::Online { user, attempt, at }),
                Event::Answered(_, token) => self.happened.push(Happened::Answered { token, at }),
                Event::Delivered(Some(token)) => {
                    self.happened.push(Happened::Delivered { token, at });
                }
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
        let Some(connection) = of(&mut self.users, user) else { return };
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
        let Some(connection) = of(&mut self.users, user) else { return self.out.clear() };
        let socket = &connection.socket;
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
        let attempt = self.attempt(user);
        self.end(user);
        let why = why.to_owned();
        self.happened.push(Happened::Failed { user, attempt, why, at: now() });
    }

    fn end(&mut self, user: u32) {
        if let Some(it) = self.users.get_mut(user as usize) {
            it.connection = None;
        }
    }
}
