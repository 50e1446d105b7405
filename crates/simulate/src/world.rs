//! The world around the engine's core: TCP, servers and what lies between them, in virtual time.
//!
//! Each engine host has a driver, which says what its connections do next and counts what became of each exchange.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use linerate_drive::{Action, Driver, Then};
use linerate_evidence::{Live, Slice};
use linerate_model::{OpRate, Share, Timestamp};
use linerate_netpath::{Counters, Packet, Pipe};
use linerate_workload::Answer;

use crate::agenda::Agenda;
use crate::outcome::{
    Causes, Kinds, Latencies, LinkOutcome, Outcome, Pair, Parts, Retransmitted, way,
};
use crate::scenario::{BadScenario, Scenario};
use crate::station::Cpus;
use crate::tcp::{End, Out, Segment};

/// A segment on its way.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    connection: u32,
    to: Side,
    segment: Segment,
    bytes: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    Client,
    Server,
}

impl Packet for Parcel {
    fn segments(&self) -> u32 {
        1
    }

    fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    fn largest(&self) -> u64 {
        u64::from(self.bytes)
    }

    fn split_first(&mut self, _segments: u32) -> Self {
        *self
    }

    fn copy(&self) -> Self {
        *self
    }
}

/// Hosts by their places, ends by connection and side. At its alarm a host's driver is asked again.
#[derive(Clone, Copy, Debug)]
enum Event {
    Alarm { host: u16 },
    Opened { connection: u32 },
    Prepared { connection: u32 },
    Served { connection: u32 },
    Pipe { pipe: usize },
    Timer { end: usize },
    Measure,
}

/// An engine host.
struct Client {
    site: usize,
    cpus: Cpus,
    driver: Driver,
    /// The first of its connections: the driver counts them from 0.
    first: u32,
    /// When the driver is to be asked again.
    alarm: Timestamp,
}

struct Server {
    site: usize,
    cpus: Cpus,
}

/// What a connection joins, by their places.
#[derive(Clone, Copy, Debug)]
struct Connection {
    host: u16,
    server: u16,
}

/// One end of a connection and what is known of it here.
#[derive(Clone, Debug)]
struct Socket {
    end: End,
    /// Bytes that came and are not yet a whole message.
    readable: u64,
    /// When its timer's event is due.
    timer_at: Option<Timestamp>,
}

struct LinkDirection {
    pipe: Pipe<Parcel>,
    due: Option<Timestamp>,
    kinds: Kinds,
    before: Counters,
}

/// See the module.
pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    now: Timestamp,
    agenda: Agenda<Event>,
    /// Within a site or on the way to the site's router: all take the same time.
    lan: VecDeque<(Timestamp, Parcel)>,
    lan_delay: u64,
    /// Acknowledgements that wait: all wait the same time.
    acks: VecDeque<(Timestamp, usize)>,
    clients: Vec<Client>,
    servers: Vec<Server>,
    /// Host after host, as their drivers have them.
    connections: Vec<Connection>,
    sockets: Vec<Socket>,
    directions: Vec<LinkDirection>,
    /// The way from one site to another, by from x sites + to.
    routes: Vec<Option<usize>>,
    out: Out,
    openings: Rng,
    services: Rng,
    /// When the measured part begins.
    measured: Timestamp,
    parts: Parts,
    /// By from x sites + to.
    pairs: Vec<Latencies>,
    all: Latencies,
    events: u64,
}

impl<'a> World<'a> {
    /// All drivers started, no connection open.
    pub fn new(scenario: &'a Scenario) -> Result<Self, BadScenario> {
        scenario.check()?;
        let sites = scenario.sites.len();
        let mut directions = Vec::new();
        let mut routes = vec![None; sites * sites];
        let mut round_trips = vec![Duration::ZERO; sites * sites];
        for link in &scenario.links {
            let (first, second) =
                (scenario.site(&link.between[0])?, scenario.site(&link.between[1])?);
            for (way, (from, to)) in
                link.path.directions().iter().zip([(first, second), (second, first)])
            {
                routes[from * sites + to] = Some(directions.len());
                round_trips[from * sites + to] = link.path.round_trip();
                directions.push(LinkDirection {
                    pipe: Pipe::new(way, None),
                    due: None,
                    kinds: Kinds::default(),
                    before: Counters::default(),
                });
            }
        }
        let places = |number: fn(&linerate_model::Site) -> u16| {
            let of_site = move |(site, of)| (0..number(of)).map(move |_| site);
            scenario.sites.iter().enumerate().flat_map(of_site)
        };
        let servers: Vec<Server> = places(|site| site.servers)
            .map(|site| Server { site, cpus: Cpus::new(scenario.server) })
            .collect();
        let plan = Arc::new(scenario.plan());
        let hosts = places(|site| site.engines).count() as u16;
        let (mut clients, mut connections, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        for (host, site) in (0..hosts).zip(places(|site| site.engines)) {
            let share = linerate_drive::Share {
                thread: host,
                threads: hosts,
                host,
                servers: servers.len() as u16,
            };
            let mut driver = Driver::new(Arc::clone(&plan), share);
            let first = connections.len() as u32;
            for place in 0..driver.connections() {
                let (_, server) = driver.between(place);
                connections.push(Connection { host, server });
                let there = servers[usize::from(server)].site;
                let rtt = scenario.lan + round_trips[site * sites + there];
                let end = End::new(&scenario.tcp, rtt);
                let socket = Socket { end, readable: 0, timer_at: None };
                sockets.extend([socket.clone(), socket]);
            }
            driver.start(Timestamp(0), scenario.slice());
            // Without a ramp a driver waits until all drivers' connections are open; here they open at once.
            if !driver.has_begun() {
                driver.begin_load(Timestamp(0), Timestamp(0));
            }
            let cpus = Cpus::new(scenario.client);
            clients.push(Client { site, cpus, driver, first, alarm: Timestamp(u64::MAX) });
        }
        let measured = Timestamp(0).after(scenario.warm_up_in_slices());
        let mut world = Self {
            scenario,
            now: Timestamp(0),
            agenda: Agenda::new(),
            lan: VecDeque::new(),
            lan_delay: (scenario.lan / 2).as_nanos() as u64,
            acks: VecDeque::new(),
            clients,
            servers,
            connections,
            sockets,
            directions,
            routes,
            out: Out::default(),
            // Apart, so that a change of demands does not change who begins when.
            openings: Rng::with_seed(scenario.seed.wrapping_mul(2)),
            services: Rng::with_seed(scenario.seed.wrapping_mul(2).wrapping_add(1)),
            measured,
            parts: Parts::new(measured, scenario.slice()),
            pairs: vec![Latencies::new(); sites * sites],
            all: Latencies::new(),
            events: 0,
        };
        world.agenda.add(measured, Event::Measure);
        for host in 0..world.clients.len() as u16 {
            world.act(host);
        }
        Ok(world)
    }

    /// Simulates to the end.
    pub fn run(mut self) -> Outcome {
        let end = self.measured.after(self.scenario.run);
        let never = Timestamp(u64::MAX);
        loop {
            let events = self.agenda.next_at().unwrap_or(never);
            let lan = self.lan.front().map_or(never, |(at, _)| *at);
            let acks = self.acks.front().map_or(never, |(at, _)| *at);
            let next = events.min(lan).min(acks);
            if next >= end {
                break;
            }
            self.now = next;
            self.events += 1;
            if lan == next {
                if let Some((_, parcel)) = self.lan.pop_front() {
                    self.on_router(parcel);
                }
            } else if acks == next {
                if let Some((_, end)) = self.acks.pop_front() {
                    self.sockets[end].end.on_ack_due(next, &mut self.out);
                    self.flush(end);
                }
            } else if let Some((_, event)) = self.agenda.pop() {
                self.on_event(event);
            }
        }
        // The last slices end.
        self.now = end;
        for host in 0..self.clients.len() as u16 {
            self.act(host);
        }
        self.outcome()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Alarm { host } => {
                if self.clients[usize::from(host)].alarm == self.now {
                    self.act(host);
                }
            }
            Event::Opened { connection } => {
                let (host, place) = self.of_driver(connection);
                let driver = &mut self.clients[usize::from(host)].driver;
                driver.on_connected(place, self.now);
                let then = driver.on_ready(place, self.now);
                debug_assert_eq!(then, Then::Keep, "no exchange comes with a connection");
                self.act(host);
            }
            Event::Prepared { connection } => {
                let host = self.connections[connection as usize].host;
                let cpus = &mut self.clients[usize::from(host)].cpus;
                if let Some((next, nanos)) = cpus.done(&mut self.services) {
                    self.after(nanos, Event::Prepared { connection: next });
                }
                self.write(connection, Side::Client, self.scenario.request.0);
            }
            Event::Served { connection } => {
                let server = self.connections[connection as usize].server;
                let cpus = &mut self.servers[usize::from(server)].cpus;
                if let Some((next, nanos)) = cpus.done(&mut self.services) {
                    self.after(nanos, Event::Served { connection: next });
                }
                self.write(connection, Side::Server, self.scenario.response.0);
            }
            Event::Pipe { pipe } => {
                if self.directions[pipe].due == Some(self.now) {
                    self.directions[pipe].due = None;
                    while let Some(parcel) = self.directions[pipe].pipe.pop(self.now) {
                        self.deliver(parcel);
                    }
                    self.arm_pipe(pipe);
                }
            }
            Event::Timer { end } => {
                let socket = &mut self.sockets[end];
                if socket.timer_at == Some(self.now) {
                    socket.timer_at = None;
                    socket.end.on_timer(self.now, &self.scenario.tcp, &mut self.out);
                    self.flush(end);
                }
            }
            Event::Measure => {
                self.out.causes = Causes::default();
                let clients = self.clients.iter_mut().map(|client| &mut client.cpus);
                let servers = self.servers.iter_mut().map(|server| &mut server.cpus);
                clients.chain(servers).for_each(Cpus::restart_count);
                for way in &mut self.directions {
                    way.pipe.restart_mosts();
                    way.before = way.pipe.counters();
                    way.kinds = Kinds::default();
                }
            }
        }
    }

    /// Does what a host's driver says is to be done now.
    fn act(&mut self, host: u16) {
        while let Some(action) = self.clients[usize::from(host)].driver.poll(self.now) {
            let first = self.clients[usize::from(host)].first;
            match action {
                Action::Open(place) => {
                    // No handshake is simulated. Chosen: opening takes a random part of the time until the next
                    // worker's turn. Evenly spaced workers with a constant round trip would ask in step for ever.
                    // It takes less where servers are many: a driver opens 32 connections at once and no more.
                    let batches = self.servers.len().div_ceil(32) as u32;
                    let step = self.scenario.ramp() / self.scenario.workers / batches;
                    let nanos = self.openings.u64(0..=step.as_nanos() as u64);
                    self.after(nanos, Event::Opened { connection: first + place as u32 });
                }
                Action::Begin(place) => self.begin(first + place as u32),
                Action::Slice(slice) => self.account(host, &slice),
                Action::OpenWith(_) | Action::Close(_) => {
                    debug_assert!(false, "connections are kept, and no exchange times out");
                }
            }
        }
        let client = &mut self.clients[usize::from(host)];
        let next = client.driver.next(self.now);
        if next != client.alarm {
            client.alarm = next;
            self.agenda.add(next, Event::Alarm { host });
        }
    }

    /// An exchange begins.
    fn begin(&mut self, connection: u32) {
        let host = self.connections[connection as usize].host;
        if self.scenario.client.is_idle() {
            self.write(connection, Side::Client, self.scenario.request.0);
        } else if let Some(nanos) =
            self.clients[usize::from(host)].cpus.take(connection, &mut self.services)
        {
            self.after(nanos, Event::Prepared { connection });
        }
    }

    fn write(&mut self, connection: u32, side: Side, bytes: u64) {
        let end = place(connection, side);
        self.sockets[end].end.write(self.now, bytes, &self.scenario.tcp, &mut self.out);
        self.flush(end);
    }

    /// Sends what an end gave out, and sees to its timers.
    fn flush(&mut self, end: usize) {
        let (connection, side) = of_place(end);
        let to = if side == Side::Client { Side::Server } else { Side::Client };
        let at = Timestamp(self.now.0 + self.lan_delay);
        while let Some(segment) = self.out.segments.pop_front() {
            let bytes = segment.len + self.scenario.tcp.headers.0 as u32;
            self.lan.push_back((at, Parcel { connection, to, segment, bytes }));
        }
        let socket = &mut self.sockets[end];
        if let Some(due) = socket.end.timer_due()
            && socket.timer_at.is_none_or(|at| at > due)
        {
            socket.timer_at = Some(due);
            self.agenda.add(due, Event::Timer { end });
        }
    }

    /// A parcel has left its host: it is there, or at the path to another site.
    fn on_router(&mut self, parcel: Parcel) {
        let Connection { host, server } = self.connections[parcel.connection as usize];
        let (client, server) =
            (self.clients[usize::from(host)].site, self.servers[usize::from(server)].site);
        let (from, to) =
            if parcel.to == Side::Server { (client, server) } else { (server, client) };
        let Some(pipe) = self.routes[from * self.scenario.sites.len() + to].filter(|_| from != to)
        else {
            return self.deliver(parcel);
        };
        let way = &mut self.directions[pipe];
        if parcel.segment.len == 0 {
            way.kinds.pure_acks += 1;
        } else {
            way.kinds.data += 1;
            way.kinds.retransmitted += u64::from(parcel.segment.again);
        }
        // What is due now leaves first: it takes no room any more.
        while let Some(due) = self.directions[pipe].pipe.pop(self.now) {
            self.deliver(due);
        }
        self.directions[pipe].pipe.push(self.now, parcel);
        self.arm_pipe(pipe);
    }

    fn arm_pipe(&mut self, pipe: usize) {
        let way = &mut self.directions[pipe];
        if let Some(due) = way.pipe.next_due()
            && way.due.is_none_or(|at| at > due)
        {
            way.due = Some(due);
            self.agenda.add(due, Event::Pipe { pipe });
        }
    }

    fn deliver(&mut self, parcel: Parcel) {
        let end = place(parcel.connection, parcel.to);
        let tcp = &self.scenario.tcp;
        let socket = &mut self.sockets[end];
        socket.readable += socket.end.on_segment(self.now, parcel.segment, tcp, &mut self.out);
        let message = match parcel.to {
            Side::Server => self.scenario.request.0,
            Side::Client => self.scenario.response.0,
        };
        let whole = socket.readable >= message;
        if whole {
            socket.readable -= message;
        }
        if parcel.segment.len > 0
            && let Some(due) = socket.end.ack_due()
        {
            self.acks.push_back((due, end));
        }
        self.flush(end);
        if whole {
            match parcel.to {
                Side::Server => self.serve(parcel.connection),
                Side::Client => self.answered(parcel.connection),
            }
        }
    }

    fn serve(&mut self, connection: u32) {
        let server = self.connections[connection as usize].server;
        if self.scenario.server.is_idle() {
            self.write(connection, Side::Server, self.scenario.response.0);
        } else if let Some(nanos) =
            self.servers[usize::from(server)].cpus.take(connection, &mut self.services)
        {
            self.after(nanos, Event::Served { connection });
        }
    }

    fn answered(&mut self, connection: u32) {
        let (host, place) = self.of_driver(connection);
        let driver = &mut self.clients[usize::from(host)].driver;
        let then = driver.on_answer(place, Answer::default(), self.now, self.now);
        debug_assert_eq!(then, Then::Keep, "connections are kept");
        self.act(host);
    }

    /// Adds up what a host's driver counted, from the measured part on.
    fn account(&mut self, host: u16, slice: &Slice<Live>) {
        if slice.from < self.measured {
            return;
        }
        self.parts.add(slice.from, slice.answered);
        self.all.add(&slice.service);
        let from = self.clients[usize::from(host)].site * self.scenario.sites.len();
        if slice.parts.is_empty() {
            self.pairs[from + self.servers[0].site].add(&slice.service);
        }
        for (part, server) in slice.parts.iter().zip(&self.servers) {
            self.pairs[from + server.site].add(&part.service);
        }
    }

    fn after(&mut self, nanos: u64, event: Event) {
        self.agenda.add(Timestamp(self.now.0 + nanos), event);
    }

    /// Its host, and its place among the connections of that host's driver.
    fn of_driver(&self, connection: u32) -> (u16, usize) {
        let host = self.connections[connection as usize].host;
        (host, (connection - self.clients[usize::from(host)].first) as usize)
    }

    fn outcome(self) -> Outcome {
        let run = self.scenario.run;
        let seconds = run.as_secs_f64();
        let rate = |count: u64| OpRate(count as f64 / seconds);
        let busy = |hosts: &mut dyn Iterator<Item = &Cpus>| {
            let used: Option<Vec<_>> = hosts.map(|cpus| cpus.used_of(run)).collect();
            let (used, there) =
                used?.into_iter().fold((0.0, 0.0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
            Some(Share(used / there))
        };
        let sites = &self.scenario.sites;
        let mut pairs = Vec::new();
        for (index, latencies) in self.pairs.iter().enumerate().filter(|(_, of)| of.count() > 0) {
            pairs.push(Pair {
                from: sites[index / sites.len()].name.clone(),
                to: sites[index % sites.len()].name.clone(),
                throughput: rate(latencies.count()),
                latency: latencies.summary(),
            });
        }
        let of_way = |index: usize| {
            let of: &LinkDirection = &self.directions[index];
            way(of.kinds, &of.before, &of.pipe.counters(), seconds)
        };
        let links = self
            .scenario
            .links
            .iter()
            .enumerate()
            .map(|(index, link)| LinkOutcome {
                between: link.between.clone(),
                directions: [of_way(2 * index), of_way(2 * index + 1)],
            })
            .collect();
        let causes = self.out.causes;
        Outcome {
            throughput: rate(self.all.count()),
            throughput_error: self.parts.error(),
            latency: self.all.summary(),
            server_busy: busy(&mut self.servers.iter().map(|server| &server.cpus)),
            client_busy: busy(&mut self.clients.iter().map(|client| &client.cpus)),
            pairs,
            links,
            retransmitted: Retransmitted {
                timeouts: rate(causes.timeouts),
                probes: rate(causes.probes),
                fast: rate(causes.fast),
            },
            stalled_workers: self.all.sum_from(self.scenario.tcp.min_rto) as f64
                / run.as_nanos() as f64,
            events: self.events,
        }
    }
}

/// Where an end of a connection stands among the sockets.
fn place(connection: u32, side: Side) -> usize {
    connection as usize * 2 + usize::from(side == Side::Server)
}

fn of_place(end: usize) -> (u32, Side) {
    ((end / 2) as u32, if end.is_multiple_of(2) { Side::Client } else { Side::Server })
}
