//! A worker: reads its order, makes its part of the load, and writes what came of it. The hidden command
//! `engine-worker` of the program is this and nothing else.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use linerate_engine::{Begins, Flow, Flows, Job, Prepared, Running, UserConnections, now, prepare};
use linerate_evidence::{Evidence, Line, to_line};
use linerate_model::Timestamp;
use linerate_probe::CensusSampler;
use linerate_workload::Part;
use rustix::event::{EventfdFlags, eventfd};

use super::format::{Hello, LONGEST, Order, Said, Told, UsersOrder, line};
use super::users_part;
use crate::{body, limits, runner};

/// How often it says that it lives.
// Chosen: ten times in the time after which a silent one is given up.
const ALIVE: Duration = Duration::from_millis(500);

// Chosen: as slices come, a fifth of the narrowest of a main phase.
const GLANCE: Duration = Duration::from_millis(20);

/// Does what it is told on `input`, and says it on `output`. The error is one of these two, and told to nobody.
pub fn worker(input: impl Read + Send + 'static, output: impl Write) -> Result<(), String> {
    let mut says = Says { output, flows: BTreeMap::new(), alive: now() };
    says.say(&Said::Worker(Hello::own()))?;
    let wake = Wake::default();
    let told = listen(input, Arc::clone(&wake));
    let order = match told.recv() {
        Ok(Ok(Told::Order(order))) => order,
        Ok(Ok(Told::Users(order))) => return says.have_users(&order, &wake, &told),
        Ok(Ok(_)) => return says.fail("it received a message before its order"),
        Ok(Err(wrong)) => return says.fail(&wrong),
        Err(_) => return Ok(()),
    };
    match begin(&order) {
        Ok((prepared, stop)) => says.work(&order, prepared, &stop, &told),
        Err(why) => says.fail(&why),
    }
}

/// Everything that can fail without the network.
fn begin(order: &Order) -> Result<(Prepared, Arc<AtomicBool>), String> {
    limits::raise_descriptors();
    let plan = &order.plan;
    let (index, of, job) = order.part;
    let in_words = |error: crate::RunError| error.to_string();
    let part = Part { index, of, job };
    let mut outside = order.outside.clone();
    let template = body::template(plan, &order.authority, part, Some(order.run), &mut outside);
    let stop = Arc::new(AtomicBool::new(false));
    let job = Job {
        template: template.map_err(in_words)?,
        tls: runner::tls_of(plan, &order.authority).map_err(in_words)?,
        servers: order.servers().ok_or("a server has no address")?,
        hosts: order.hosts(),
        threads: order.threads,
        process: (index, of),
        slice: order.slice(),
        stop: Arc::clone(&stop),
        plan: Arc::new(plan.clone()),
    };
    let prepared = prepare(job, Begins::WhenTold).map_err(|error| error.to_string())?;
    Ok((prepared, stop))
}

/// What it is told, line by line, on a thread that ends with the input.
fn listen(input: impl Read + Send + 'static, wake: Wake) -> Receiver<Result<Told, String>> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        let tell = Waking { tell: Some(tell), wake };
        loop {
            let mut text = String::new();
            // An order has its plan in it, which a file of requests is no part of.
            let read = (&mut input).take(LONGEST as u64).read_line(&mut text);
            if !matches!(read, Ok(1..)) || !text.ends_with('\n') {
                return;
            }
            let line = serde_json::from_str(&text).map_err(|error| format!("its order: {error}"));
            if !tell.tell(line) {
                return;
            }
        }
    });
    told
}

/// What is written to when something was told, once somebody waits for it so.
type Wake = Arc<OnceLock<OwnedFd>>;

/// Tells, and wakes; its end is told too.
struct Waking {
    tell: Option<Sender<Result<Told, String>>>,
    wake: Wake,
}

impl Waking {
    fn tell(&self, line: Result<Told, String>) -> bool {
        let told = self.tell.as_ref().is_some_and(|tell| tell.send(line).is_ok());
        self.wake();
        told
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            // It is full only if who waits has not looked yet.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.tell = None;
        self.wake();
    }
}

struct Says<W> {
    output: W,
    /// As they were said last.
    flows: BTreeMap<u32, Flow>,
    /// When it was said last that it lives.
    alive: Timestamp,
}

impl<W: Write> Says<W> {
    fn write(&mut self, text: &str) -> Result<(), String> {
        self.output.write_all(text.as_bytes()).map_err(|error| error.to_string())
    }

    fn say(&mut self, said: &Said) -> Result<(), String> {
        self.write(&line(said))?;
        self.output.flush().map_err(|error| error.to_string())
    }

    fn fail(&mut self, why: &str) -> Result<(), String> {
        self.say(&Said::Failed(why.to_owned()))
    }

    /// Has the connections of users, until nobody wants them any more.
    fn have_users(
        &mut self,
        order: &UsersOrder,
        wake: &Wake,
        told: &Receiver<Result<Told, String>>,
    ) -> Result<(), String> {
        limits::raise_descriptors();
        let begin = || {
            let sockets = users_part::sockets(order).map_err(|error| error.to_string())?;
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let own = eventfd(0, flags).map_err(|errno| errno.to_string())?;
            sockets.watch(&own).map_err(|error| error.to_string())?;
            Ok::<_, String>((sockets, own))
        };
        let (mut sockets, own) = match begin() {
            Ok(begun) => begun,
            Err(why) => return self.fail(&why),
        };
        let own = wake.get_or_init(|| own);
        self.say(&Said::Ready(now()))?;
        let mut happened = Vec::new();
        let mut asked = Vec::new();
        while users_part::obey(&mut sockets, told, &mut asked) {
            for at in asked.drain(..) {
                self.write(&line(&Said::Pong(at, now())))?;
            }
            sockets.take(&mut happened);
            // Chosen: a line that is read while the next is made.
            while !happened.is_empty() {
                let few = happened.drain(..happened.len().min(256));
                let few = few.filter_map(users_part::became).collect();
                self.write(&line(&Said::Users(few)))?;
            }
            if now().since(self.alive) >= ALIVE {
                self.alive = now();
                self.write(&line(&Said::Alive(self.alive)))?;
            }
            self.output.flush().map_err(|error| error.to_string())?;
            sockets.wait(self.alive.after(ALIVE)).map_err(|error| error.to_string())?;
            let _ = rustix::io::read(own, &mut [0; 8]);
        }
        Ok(())
    }

    fn work(
        &mut self,
        order: &Order,
        prepared: Prepared,
        stop: &AtomicBool,
        told: &Receiver<Result<Told, String>>,
    ) -> Result<(), String> {
        self.say(&Said::Ready(now()))?;
        let start = loop {
            match told.recv_timeout(ALIVE) {
                Ok(Ok(Told::Start(at))) => break at,
                Ok(Ok(Told::Ping(asked))) => self.say(&Said::Pong(asked, now()))?,
                Err(RecvTimeoutError::Timeout) => self.say(&Said::Alive(now()))?,
                // Nobody wants it any more; its threads end with the process.
                _ => return Ok(()),
            }
        };
        let opening = Arc::clone(&prepared.opening);
        let running = prepared.start(start);
        let board = Arc::new(running.board.clone());
        let servers: Vec<_> =
            order.servers().into_iter().flatten().map(|server| server.address).collect();
        // Chosen: each of its own instants.
        let seed = order.plan.engine.seed ^ u64::from(order.part.0) << 32;
        let of = order.part.1;
        let census = CensusSampler::start_one_of(of, &order.scope(), &servers, board, now, seed);
        let (mut opened, mut told_last) = (false, now());
        loop {
            match told.try_recv() {
                Ok(Ok(Told::Begin(at))) => opening.begin(at),
                Ok(Ok(Told::Ping(asked))) => self.say(&Said::Pong(asked, now()))?,
                Err(TryRecvError::Empty)
                | Ok(Ok(Told::Order(_) | Told::Start(_) | Told::Users(_) | Told::Do(_))) => {}
                Ok(Ok(Told::Stop(_)) | Err(_)) | Err(TryRecvError::Disconnected) => {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            if !opened && opening.has_ended(running.started, now()) {
                opened = true;
                self.say(&Said::Opened(now()))?;
            }
            match running.slices.recv_timeout(GLANCE) {
                Ok(slice) => self.write(&to_line(&Line::Slice(Box::new(slice.pack()))))?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if now().since(told_last) >= GLANCE {
                told_last = now();
                self.tell(&running.flows, census.drain())?;
            }
        }
        self.end(running, census)
    }

    fn end(&mut self, running: Running, census: CensusSampler) -> Result<(), String> {
        self.tell(&running.flows, census.finish())?;
        match running.join() {
            Ok(()) => self.say(&Said::Done(now())),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// What is new beside slices.
    fn tell(&mut self, flows: &Flows, sampled: Evidence) -> Result<(), String> {
        for flow in flows.snapshot() {
            if self.flows.insert(flow.id, flow) != Some(flow) {
                self.write(&line(&Said::Flow(flow.into())))?;
            }
        }
        for (at, of, values) in sampled.rows() {
            let values = values.into_iter().map(|(name, raw)| (name.to_owned(), raw)).collect();
            self.write(&to_line(&Line::Row { at, of, values }))?;
        }
        for (source, reason) in sampled.unread {
            self.write(&to_line(&Line::Unread { source, reason }))?;
        }
        if now().since(self.alive) >= ALIVE {
            self.alive = now();
            self.write(&line(&Said::Alive(self.alive)))?;
        }
        self.output.flush().map_err(|error| error.to_string())
    }
}
