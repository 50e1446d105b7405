//! Load made by clients inside the BEAM: a node on each engine host, whose workers are processes. What they
//! count becomes slices as our own threads hand over, so that everything after that is the same.
//!
//! A node's schedulers are the engine's threads: each has its CPU time in slices of its own, and what is
//! left of the node's has one more (`cpu.rs`). The counts of a node are its first scheduler's.
//! Source: agent/src/client/linerate_client.erl.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use linerate_beam::term::{
    Term, as_atom, as_list, as_text, as_tuple, as_u64, atom, binary, in_words, integer, list, map,
    tuple,
};
use linerate_beam::{CallFault, Node};
use linerate_engine::{Delivered, Flow, Flows, Job, Running, now};
use linerate_evidence::{Live, Part, Phase, Slice};
use linerate_lab::EngineHost;
use linerate_model::{Bytes, Framing, Plan, Timestamp, Workload};

use crate::error::{Refused, RunError};

mod cpu;

use cpu::NodeCpu;

// Chosen: twice a slice of the shortest width.
const EVERY: Duration = Duration::from_millis(50);

// Chosen: a node at the limit of its schedulers answers in tens of milliseconds; one that is silent for so
// long makes no load either.
const PATIENCE: Duration = Duration::from_secs(10);

// Chosen: as our own engine does: two retransmitted SYNs fit.
const OPENING: Duration = Duration::from_secs(5);

// Chosen: every node hears of the beginning before it comes.
const NOTICE: Duration = Duration::from_millis(50);

/// Starts the clients: on return they open their connections.
pub fn start(job: &Job, hosts: Vec<EngineHost>) -> Result<Running, RunError> {
    let plan = Arc::clone(&job.plan);
    if plan.engine.local_ports.is_some() {
        return Err(Refused::LocalPorts.into());
    }
    let count = hosts.len() as u32;
    let mut clients = Vec::new();
    for (host, engine) in (0u16..).zip(hosts) {
        let (Some(node), Some(pid)) = (engine.node, engine.pid) else {
            let says = format!("{}: its BEAM node is not there", engine.name);
            return Err(RunError::BeamClient(says));
        };
        let workers: Vec<u32> =
            (u32::from(host)..plan.load.connections).step_by(count as usize).collect();
        let exchanges = plan.until.exchanges.map_or(0, |all| {
            let (host, count) = (u64::from(host), u64::from(count));
            all / count + u64::from(host < all % count)
        });
        // A host without any would be one without end.
        if plan.until.exchanges.is_some() && exchanges == 0 {
            continue;
        }
        let client = Client {
            node,
            name: engine.name,
            host,
            cpu: NodeCpu::of(pid),
            begun: 0,
            ended: 0,
            open: 0,
            age: 0,
            phase: None,
            done: false,
        };
        let spec = spec(job, &workers, exchanges);
        client.tell("start", vec![spec]).map_err(RunError::BeamClient)?;
        clients.push(client);
    }
    let (sender, slices) = channel();
    let (flows, started) = (Flows::default(), now());
    let course = Course {
        stop: Arc::clone(&job.stop),
        servers: job.servers.iter().map(|server| server.address).collect(),
        hosts: count as u16,
        plan,
        flows: flows.clone(),
        slices: sender,
        started,
    };
    let thread = std::thread::Builder::new()
        .name("linerate-clients".into())
        .spawn(move || course.run(&mut clients).map_err(io::Error::other))
        .map_err(RunError::Engine)?;
    Ok(Running::of(slices, flows, started, vec![thread]))
}

/// What a client is told. The keys are those of `linerate_client:spec()`.
fn spec(job: &Job, workers: &[u32], exchanges: u64) -> Term {
    let plan = &job.plan;
    let server = |server: &linerate_engine::ServerAddress| {
        let port = i64::from(server.address.port());
        tuple(vec![binary(server.address.ip().to_string()), integer(port)])
    };
    let (framing, request, response, echo) = match &plan.workload {
        Workload::Rr { framing, request, response, echo } => {
            (*framing, request.0, response.0, *echo)
        }
        // `Plan::check` refuses all others.
        _ => (Framing::Fixed, 1, 1, false),
    };
    let framing = match framing {
        Framing::Fixed => "fixed",
        Framing::Length2 => "length2",
        Framing::Length4 => "length4",
    };
    let number = |number: u64| integer(i64::try_from(number).unwrap_or(i64::MAX));
    let size = |size: Option<Bytes>| number(size.map_or(0, |size| size.0));
    let bool = |yes: bool| atom(if yes { "true" } else { "false" });
    let engine = &plan.engine;
    let pairs = [
        ("servers", list(job.servers.iter().map(server).collect())),
        ("workers", list(workers.iter().map(|one| integer(i64::from(*one))).collect())),
        ("watched", number(u64::from(Flows::WATCHED))),
        ("framing", atom(framing)),
        ("request", number(request)),
        ("response", number(response)),
        ("echo", bool(echo)),
        ("nodelay", bool(engine.nodelay)),
        ("recbuf", size(engine.recbuf)),
        ("sndbuf", size(engine.sndbuf)),
        ("congestion", binary(engine.congestion.clone().unwrap_or_default())),
        ("timeout_ms", number(plan.load.timeout.as_millis().max(1) as u64)),
        // The generator there takes 58 bits.
        ("seed", number(engine.seed >> 6 ^ engine.seed & 0x3f)),
        ("exchanges", number(exchanges)),
    ];
    map(pairs.into_iter().map(|(key, value)| (atom(key), value)).collect())
}

/// One node's client.
struct Client {
    node: Node,
    name: String,
    host: u16,
    cpu: NodeCpu,
    /// Over the whole run so far: exchanges begun and ended.
    begun: u64,
    ended: u64,
    open: u64,
    /// Sum of the ages of what was under way at the last slice's end.
    age: u128,
    /// Of the last slice.
    phase: Option<Phase>,
    done: bool,
}

/// What a client said.
struct Told {
    opened: u64,
    slices: Vec<Term>,
    watched: Vec<Term>,
    done: bool,
}

impl Client {
    fn call(&self, function: &str, arguments: Vec<Term>) -> Result<Term, String> {
        let in_trouble = |fault: CallFault| format!("the client on {}: {fault}", self.name);
        self.node.call("linerate_client", function, arguments, PATIENCE).map_err(in_trouble)
    }

    /// Calls what answers `ok`.
    fn tell(&self, function: &str, arguments: Vec<Term>) -> Result<(), String> {
        let answer = self.call(function, arguments)?;
        match as_atom(&answer) {
            Some("ok") => Ok(()),
            _ => Err(self.strange(&answer)),
        }
    }

    fn strange(&self, answer: &Term) -> String {
        match as_tuple(answer) {
            Some([_, reason]) if as_text(reason).is_some() => {
                format!("the client on {}: {}", self.name, as_text(reason).unwrap_or_default())
            }
            _ => format!("the client on {} answered {}", self.name, in_words(answer)),
        }
    }

    fn take(&self) -> Result<Told, String> {
        let answer = self.call("take", Vec::new())?;
        let told = || {
            let [_, opened, slices, watched, done] = as_tuple(&answer)? else { return None };
            Some(Told {
                opened: as_u64(opened)?,
                slices: as_list(slices)?.into_owned(),
                watched: as_list(watched)?.into_owned(),
                done: as_atom(done)? == "true",
            })
        };
        told().ok_or_else(|| self.strange(&answer))
    }

    /// Threads of the engine that a node counts for.
    fn threads(&self) -> u16 {
        self.cpu.schedulers() + 1
    }

    /// The slice that a term is, its thread being `thread`.
    fn slice(&mut self, term: &Term, thread: u16, plan: &Plan) -> Option<Slice<Live>> {
        let [index, from, to, phase, taken] = as_tuple(term)? else { return None };
        let [censored, age, parts] = as_tuple(taken)? else { return None };
        let index = u32::try_from(as_u64(index)?).ok()?;
        let mut slice = Slice::<Live>::new(thread, index, Timestamp(as_u64(from)?));
        slice.host = self.host;
        slice.to = Timestamp(as_u64(to)?);
        slice.phase = match as_atom(phase)? {
            "ramp" => Phase::Ramp,
            "load" => Phase::Load,
            _ => Phase::Drain,
        };
        times(censored, &mut slice.censored)?;
        let (request, response) = lengths(&plan.workload);
        for part in as_list(parts)?.iter() {
            let [chosen, timed_out, failed_age, opened, closed, errors, service] = as_tuple(part)?
            else {
                return None;
            };
            let mut of = Part::<Live> {
                chosen: as_u64(chosen)?,
                timed_out: as_u64(timed_out)?,
                ..Part::default()
            };
            for error in as_list(errors)?.iter() {
                let [cause, count] = as_tuple(error)? else { return None };
                of.errors.insert(as_atom(cause)?.to_owned(), as_u64(count)?);
            }
            let (answered, took) = times(service, &mut of.service)?;
            times(service, &mut slice.service)?;
            of.answered = answered;
            let failed_age = u128::from(as_u64(failed_age)?);
            // Over the slice each was under way from when it was written, or the slice began, to when it
            // ended, or the slice did: what ended brought its whole age, less what the slices before had.
            slice.in_flight_area += u128::from(took) + failed_age;
            slice.failed_age += failed_age;
            slice.answered += answered;
            slice.timed_out += of.timed_out;
            slice.scheduled += of.chosen;
            slice.opened += as_u64(opened)?;
            self.open = (self.open + as_u64(opened)?).saturating_sub(as_u64(closed)?);
            for (cause, count) in &of.errors {
                *slice.errors.entry(cause.clone()).or_default() += count;
            }
            slice.parts.push(of);
        }
        if slice.parts.len() == 1 {
            slice.parts.clear();
        }
        slice.begun = slice.scheduled;
        slice.bytes_written = slice.begun * request;
        slice.bytes_read = slice.answered * response;
        slice.age_at_end = u128::from(as_u64(age)?);
        slice.in_flight_area = (slice.in_flight_area + slice.age_at_end).saturating_sub(self.age);
        self.age = slice.age_at_end;
        self.begun += slice.begun;
        self.ended += slice.answered + slice.timed_out + slice.failed();
        slice.in_flight_at_end = self.begun.saturating_sub(self.ended);
        slice.open_at_end = self.open;
        self.phase = Some(slice.phase);
        Some(slice)
    }
}

/// Adds a histogram's times; how many there are, and their sum.
fn times(histogram: &Term, live: &mut Live) -> Option<(u64, u64)> {
    let (mut count, mut sum) = (0u64, 0u64);
    for bucket in as_list(histogram)?.iter() {
        let [time, times] = as_tuple(bucket)? else { return None };
        let (time, times) = (as_u64(time)?, as_u64(times)?);
        live.record_n(time, times);
        count += times;
        sum = sum.saturating_add(time.saturating_mul(times));
    }
    Some((count, sum))
}

/// Bytes on the wire of a request and of a response.
fn lengths(workload: &Workload) -> (u64, u64) {
    let Workload::Rr { framing, request, response, .. } = workload else { return (0, 0) };
    let prefix = match framing {
        Framing::Fixed => 0,
        Framing::Length2 => 2,
        Framing::Length4 => 4,
    };
    (request.0 + prefix, response.0 + prefix)
}

/// The run's course, on a thread of its own.
struct Course {
    plan: Arc<Plan>,
    stop: Arc<AtomicBool>,
    servers: Vec<SocketAddr>,
    hosts: u16,
    flows: Flows,
    slices: Sender<Delivered>,
    started: Timestamp,
}

impl Course {
    fn run(&self, clients: &mut [Client]) -> Result<(), String> {
        let ended = self.load(clients);
        for client in clients.iter() {
            // Its node ends with the lab, whatever it says to this.
            let _ = client.call("close", Vec::new());
        }
        ended
    }

    fn load(&self, clients: &mut [Client]) -> Result<(), String> {
        let first: BTreeMap<u16, u16> = clients
            .iter()
            .scan(0, |next, client| {
                let first = *next;
                *next += client.threads();
                Some((client.host, first))
            })
            .collect();
        let (mut going, mut stopped) = (false, false);
        loop {
            let mut opened = 0;
            for client in clients.iter_mut().filter(|client| !client.done) {
                let told = client.take()?;
                opened += told.opened;
                for watched in &told.watched {
                    self.watch(client.host, watched);
                }
                let thread = first.get(&client.host).copied().unwrap_or_default();
                self.hand_over(client, thread, &told.slices)?;
                client.done = told.done;
            }
            if clients.iter().all(|client| client.done) {
                return Ok(());
            }
            let at = now();
            let late = at.since(self.started) >= OPENING;
            if !going && (opened >= u64::from(self.plan.load.connections) || late) {
                going = true;
                let course = self.course(at.after(NOTICE));
                clients.iter().try_for_each(|client| client.tell("go", vec![course.clone()]))?;
            }
            if self.stop.load(Ordering::Relaxed) && !stopped {
                stopped = true;
                clients.iter().try_for_each(|client| client.tell("stop", Vec::new()))?;
            }
            std::thread::sleep(EVERY);
        }
    }

    /// The keys are those of `linerate_client:course()`.
    fn course(&self, begins: Timestamp) -> Term {
        let number = |number: u128| integer(i64::try_from(number).unwrap_or(i64::MAX));
        let until = self.plan.until.duration;
        let pairs = [
            ("at", number(u128::from(begins.0))),
            ("ramp", number(self.plan.load.ramp.as_nanos())),
            ("duration", number(until.unwrap_or_default().as_nanos())),
            ("width", number(linerate_engine::slice_width(until).as_nanos())),
            ("count", number(u128::from(self.plan.load.connections.max(1)))),
        ];
        map(pairs.into_iter().map(|(key, value)| (atom(key), value)).collect())
    }

    /// A worker's number and the ends of its connections.
    fn watch(&self, host: u16, told: &Term) -> Option<()> {
        let [worker, ends] = as_tuple(told)? else { return None };
        let worker = u32::try_from(as_u64(worker)?).ok()?;
        let servers = self.servers.len() as u16;
        for (server, end) in (0u16..).zip(as_list(ends)?.iter()) {
            let Some([ip, port]) = as_tuple(end) else { continue };
            let (ip, port) = (as_text(ip)?, u16::try_from(as_u64(port)?).ok()?);
            let client = SocketAddr::new(ip.parse::<IpAddr>().ok()?, port);
            if let Some(id) = Flows::number(worker, server, servers, self.hosts) {
                let to = self.servers[usize::from(server)];
                self.flows.opened(Flow { id, host, server_host: server, client, server: to });
            }
        }
        Some(())
    }

    /// Slices of a client's counts, and beside the last of them those of its node's CPU time.
    fn hand_over(&self, client: &mut Client, thread: u16, told: &[Term]) -> Result<(), String> {
        for (place, term) in told.iter().enumerate() {
            let mut slice = client.slice(term, thread, &self.plan).ok_or_else(|| {
                format!("the client on {} reported {}", client.name, in_words(term))
            })?;
            if place + 1 == told.len() {
                let (schedulers, rest) = client.cpu.since();
                slice.cpu = schedulers.first().copied().unwrap_or_default();
                let others = schedulers.iter().skip(1).chain([&rest]);
                for (beside, cpu) in (thread + 1..).zip(others) {
                    let mut of = Slice::<Live>::new(beside, slice.index, slice.from);
                    (of.host, of.to, of.phase, of.cpu) = (slice.host, slice.to, slice.phase, *cpu);
                    // The receiver is gone only when the program is on its way out.
                    let _ = self.slices.send(Delivered::Live(Box::new(of)));
                }
            }
            let _ = self.slices.send(Delivered::Live(Box::new(slice)));
        }
        Ok(())
    }
}
