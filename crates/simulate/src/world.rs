//! The closed loop: workers, connections, servers and what lies between them, in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use linerate_model::{OpRate, Share, Timestamp};
use linerate_netpath::{Counters, Packet, Pipe};

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

/// Workers and servers by their places, ends by connection and side.
#[derive(Clone, Copy, Debug)]
enum Event {
    Begin { worker: u32 },
    Prepared { host: u32, worker: u32 },
    Served { server: u32, connection: u32 },
    Pipe { pipe: usize },
    Timer { end: usize },
    Measure,
}

#[derive(Clone, Debug)]
struct Worker {
    site: usize,
    host: u32,
    server: u32,
    began: Timestamp,
}

#[derive(Clone, Debug)]
struct Host {
    site: usize,
    cpus: Cpus,
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
    workers: Vec<Worker>,
    clients: Vec<Host>,
    servers: Vec<Host>,
    sockets: Vec<Socket>,
    directions: Vec<LinkDirection>,
    /// The way from one site to another, by from x sites + to.
    routes: Vec<Option<usize>>,
    out: Out,
    picks: Rng,
    services: Rng,
    measuring: bool,
    parts: Parts,
    pairs: Vec<Latencies>,
    all: Latencies,
    /// Of exchanges that took as long as a timeout; ns.
    stalled: u64,
    events: u64,
}

impl<'a> World<'a> {
    /// All workers about to begin.
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
        let hosts = |number: fn(&linerate_model::Site) -> u16, station| -> Vec<Host> {
            let of_site = |(site, of): (usize, &linerate_model::Site)| {
                (0..number(of)).map(move |_| Host { site, cpus: Cpus::new(station) })
            };
            scenario.sites.iter().enumerate().flat_map(of_site).collect()
        };
        let clients = hosts(|site| site.engines, scenario.client);
        let servers = hosts(|site| site.servers, scenario.server);
        let workers: Vec<Worker> = (0..scenario.workers)
            .map(|worker| {
                let host = worker % clients.len() as u32;
                let site = clients[host as usize].site;
                Worker { site, host, server: 0, began: Timestamp(0) }
            })
            .collect();
        let sockets = workers
            .iter()
            .flat_map(|worker| {
                servers.iter().flat_map(|server| {
                    let rtt = scenario.lan + round_trips[worker.site * sites + server.site];
                    let end = End::new(&scenario.tcp, rtt);
                    let socket = Socket { end, readable: 0, timer_at: None };
                    [socket.clone(), socket]
                })
            })
            .collect();
        let mut world = Self {
            scenario,
            now: Timestamp(0),
            agenda: Agenda::new(),
            lan: VecDeque::new(),
            lan_delay: (scenario.lan / 2).as_nanos() as u64,
            acks: VecDeque::new(),
            workers,
            clients,
            servers,
            sockets,
            directions,
            routes,
            out: Out::default(),
            // Apart, so that a change of demands does not change who is picked.
            picks: Rng::with_seed(scenario.seed.wrapping_mul(2)),
            services: Rng::with_seed(scenario.seed.wrapping_mul(2).wrapping_add(1)),
            measuring: false,
            parts: Parts::new(Timestamp(0).after(scenario.warm_up), scenario.run),
            pairs: vec![Latencies::new(); sites * sites],
            all: Latencies::new(),
            stalled: 0,
            events: 0,
        };
        // At random in the first half of the warm-up: all at once they would fill any queue.
        let ramp = (scenario.warm_up / 2).as_nanos() as u64;
        for worker in 0..scenario.workers {
            let at = Timestamp(world.picks.u64(0..=ramp));
            world.agenda.add(at, Event::Begin { worker });
        }
        world.agenda.add(Timestamp(0).after(scenario.warm_up), Event::Measure);
        Ok(world)
    }

    /// Simulates to the end.
    pub fn run(mut self) -> Outcome {
        let end = Timestamp(0).after(self.scenario.warm_up).after(self.scenario.run);
        loop {
            let events = self.agenda.next_at();
            let lan = self.lan.front().map(|(at, _)| *at);
            let acks = self.acks.front().map(|(at, _)| *at);
            let Some(next) = [events, lan, acks].into_iter().flatten().min() else { break };
            if next >= end {
                break;
            }
            self.now = next;
            self.events += 1;
            if lan == Some(next) {
                if let Some((_, parcel)) = self.lan.pop_front() {
                    self.on_router(parcel);
                }
            } else if acks == Some(next) {
                if let Some((_, end)) = self.acks.pop_front() {
                    self.sockets[end].end.on_ack_due(next, &mut self.out);
                    self.flush(end);
                }
            } else if let Some((_, event)) = self.agenda.pop() {
                self.on_event(event);
            }
        }
        self.outcome()
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Begin { worker } => self.begin(worker),
            Event::Prepared { host, worker } => {
                let cpus = &mut self.clients[host as usize].cpus;
                if let Some((next, nanos)) = cpus.done(&mut self.services) {
                    self.after(nanos, Event::Prepared { host, worker: next });
                }
                self.ask(worker);
            }
            Event::Served { server, connection } => {
                let cpus = &mut self.servers[server as usize].cpus;
                if let Some((next, nanos)) = cpus.done(&mut self.services) {
                    self.after(nanos, Event::Served { server, connection: next });
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
                self.measuring = true;
                self.out.causes = Causes::default();
                for host in self.clients.iter_mut().chain(&mut self.servers) {
                    host.cpus.restart_count();
                }
                for way in &mut self.directions {
                    way.pipe.restart_mosts();
                    way.before = way.pipe.counters();
                    way.kinds = Kinds::default();
                }
            }
        }
    }

    /// A worker begins an exchange.
    fn begin(&mut self, worker: u32) {
        let server = self.picks.u32(0..self.servers.len() as u32);
        let of = &mut self.workers[worker as usize];
        (of.server, of.began) = (server, self.now);
        let host = of.host;
        if self.scenario.client.is_idle() {
            self.ask(worker);
        } else if let Some(nanos) =
            self.clients[host as usize].cpus.take(worker, &mut self.services)
        {
            self.after(nanos, Event::Prepared { host, worker });
        }
    }

    fn ask(&mut self, worker: u32) {
        let connection = worker * self.servers.len() as u32 + self.workers[worker as usize].server;
        self.write(connection, Side::Client, self.scenario.request.0);
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
        let (worker, server) = self.ends_of(parcel.connection);
        let (client, server) =
            (self.workers[worker as usize].site, self.servers[server as usize].site);
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
            let (worker, server) = self.ends_of(parcel.connection);
            match parcel.to {
                Side::Server => self.serve(server, parcel.connection),
                Side::Client => self.answered(worker),
            }
        }
    }

    fn serve(&mut self, server: u32, connection: u32) {
        if self.scenario.server.is_idle() {
            self.write(connection, Side::Server, self.scenario.response.0);
        } else if let Some(nanos) =
            self.servers[server as usize].cpus.take(connection, &mut self.services)
        {
            self.after(nanos, Event::Served { server, connection });
        }
    }

    fn answered(&mut self, worker: u32) {
        if self.measuring {
            let of = &self.workers[worker as usize];
            let latency = self.now.nanos_since(of.began);
            let pair = of.site * self.scenario.sites.len() + self.servers[of.server as usize].site;
            self.pairs[pair].record(latency);
            self.all.record(latency);
            self.parts.count(self.now);
            if u128::from(latency) >= self.scenario.tcp.min_rto.as_nanos() {
                self.stalled += latency;
            }
        }
        self.begin(worker);
    }

    fn after(&mut self, nanos: u64, event: Event) {
        self.agenda.add(Timestamp(self.now.0 + nanos), event);
    }

    /// Its worker and its server.
    fn ends_of(&self, connection: u32) -> (u32, u32) {
        let servers = self.servers.len() as u32;
        (connection / servers, connection % servers)
    }

    fn outcome(self) -> Outcome {
        let run = self.scenario.run;
        let seconds = run.as_secs_f64();
        let rate = |count: u64| OpRate(count as f64 / seconds);
        let busy = |hosts: &[Host]| {
            let used: Option<Vec<_>> = hosts.iter().map(|host| host.cpus.used_of(run)).collect();
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
            server_busy: busy(&self.servers),
            client_busy: busy(&self.clients),
            pairs,
            links,
            retransmitted: Retransmitted {
                timeouts: rate(causes.timeouts),
                probes: rate(causes.probes),
                fast: rate(causes.fast),
            },
            stalled_workers: self.stalled as f64 / run.as_nanos() as f64,
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
