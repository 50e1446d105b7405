//! Users whose connections several processes of the engine have, on this host or on others. One climb decides for all of them, so that one account
//! has everybody at every moment: a process does what it is told, and says what became of it.
//!
//! User `i` is process `i % processes`'s, and of another only once that one is lost: who was there has failed by that, and
//! comes back to one of those that are left, if it does. Instants of another host are translated by its clock.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use linerate_beam::Host;
use linerate_engine::{Happened, UserConnections, now};
use linerate_model::Timestamp;
use linerate_probe::EngineProcesses;
use linerate_ramp::LOST;
use linerate_session::{Act, Token};

use super::clock::Clock;
use super::format::{Became, Do, Heard, Said, Told, UsersOrder, heard, line};
use super::host::FarProcess;
use super::process::Process;
use super::{ALIGNING, Event, LONGEST_LOOK, Link, SILENT, STARTING};
use crate::error::RunError;

// Chosen: lines of one wake, so that what is due is not kept waiting by them.
const AT_ONCE: usize = 256;

// Chosen: a process that is behind with what it was told is asked again after this.
const AGAIN: Duration = Duration::from_millis(2);

/// See the module.
pub(crate) struct UserProcesses {
    processes: Vec<Part>,
    events: Receiver<(usize, Event)>,
    users: Vec<Place>,
    happened: Vec<Happened>,
    started: Timestamp,
    /// When it was looked who is silent.
    looked: Timestamp,
    /// Why the first that was lost was.
    first: Option<String>,
}

struct Part {
    /// None: it is lost.
    link: Option<Box<dyn Link>>,
    /// What a person calls it.
    name: String,
    /// Of this host; none: it is another's.
    pid: Option<u32>,
    /// Its host's, where that is another.
    clock: Option<Clock>,
    is_known: bool,
    is_ready: bool,
    /// For how long it has said nothing, as far as this process was running meanwhile.
    quiet: Duration,
    to_do: Vec<Do>,
    /// What it did not take yet.
    unsent: Vec<u8>,
}

/// Where a user is.
#[derive(Clone, Copy, Default)]
struct Place {
    process: u16,
    /// Connections that it was told of; 0: the user is nowhere yet.
    attempt: u32,
    /// The last of them has not ended.
    is_there: bool,
}

impl Part {
    /// On this host, or on another.
    fn start(
        number: usize,
        tell: Sender<(usize, Event)>,
        host: Option<&Host>,
    ) -> Result<Self, RunError> {
        let (link, pid): (Box<dyn Link>, _) = match host {
            None => {
                // Nothing of this kind of run looks for neighbours.
                let known = EngineProcesses::default();
                let process = Process::start(number, tell, &known).map_err(RunError::Engine)?;
                let pid = process.pid();
                (Box::new(process), Some(pid))
            }
            Some(host) => {
                let process = FarProcess::start(number, tell, host);
                let process = process.map_err(|fault| RunError::Host(fault.to_string()))?;
                (Box::new(process), None)
            }
        };
        Ok(Self {
            name: link.name(),
            link: Some(link),
            pid,
            clock: host.map(|_| Clock::default()),
            is_known: false,
            is_ready: false,
            quiet: Duration::ZERO,
            to_do: Vec::new(),
            unsent: Vec::new(),
        })
    }
}

impl UserProcesses {
    /// Starts so many, for so many users, each by an order of its place: on these hosts in turn, or on this one. They wait for
    /// users.
    pub(crate) fn start(
        count: u16,
        users: u32,
        hosts: &[Host],
        order: impl Fn(u16) -> UsersOrder,
    ) -> Result<Self, RunError> {
        let (tell, events) = channel();
        let mut all = Self {
            processes: Vec::new(),
            events,
            users: vec![Place::default(); users as usize],
            happened: Vec::new(),
            started: now(),
            looked: now(),
            first: None,
        };
        for number in 0..usize::from(count) {
            let host = hosts.get(number % hosts.len().max(1));
            let mut part = Part::start(number, tell.clone(), host)?;
            let text = line(&Told::Users(Box::new(order(number as u16))));
            // One that has ended says why with its end.
            let _ = part.link.as_mut().map(|link| link.tell(&text));
            all.processes.push(part);
        }
        all.await_ready();
        all.align();
        all.begin();
        match all.is_over() {
            Some(why) => Err(RunError::Worker(why)),
            None => Ok(all),
        }
    }

    /// Those that live and are of this host.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let live = self.processes.iter().filter(|part| part.link.is_some());
        live.filter_map(|part| part.pid).collect()
    }

    /// How far the clocks of other hosts are ahead of this one's, and half of the interval that says so; by name. Unit: ns.
    pub(crate) fn clocks(&self) -> Vec<(String, i64, u64)> {
        let of = |part: &Part| {
            let clock = part.clock.as_ref().filter(|clock| !clock.is_unknown())?;
            let host = part.name.strip_prefix("host ").unwrap_or(&part.name);
            Some((host.to_owned(), clock.offset(), clock.interval()))
        };
        self.processes.iter().filter_map(of).collect()
    }

    /// Why there is none left.
    pub(crate) fn is_over(&self) -> Option<String> {
        let all = self.processes.iter().all(|part| part.link.is_none());
        all.then(|| self.first.clone().unwrap_or_default())
    }

    fn await_ready(&mut self) {
        let waits = |part: &Part| part.link.is_some() && !part.is_ready;
        while self.processes.iter().any(waits) {
            let left = STARTING.saturating_sub(now().since(self.started));
            if left.is_zero() {
                let late = (0..self.processes.len()).filter(|it| waits(&self.processes[*it]));
                for process in late.collect::<Vec<_>>() {
                    self.lose(process, format!("it was not ready within {} s", STARTING.as_secs()));
                }
                return;
            }
            if let Ok((process, event)) = self.events.recv_timeout(left) {
                self.on_event(process, event);
            }
        }
    }

    /// Asks the clocks of other hosts.
    fn align(&mut self) {
        let began = now();
        for part in self.processes.iter_mut().filter(|part| part.clock.is_some()) {
            // One that has ended says why with its end.
            let _ = part.link.as_mut().map(|link| link.tell(&line(&Told::Ping(now()))));
        }
        let asks = |part: &Part| {
            part.link.is_some() && part.clock.as_ref().is_some_and(|clock| !clock.is_known())
        };
        while self.processes.iter().any(asks) && now().since(began) < ALIGNING {
            if let Ok((process, event)) = self.events.recv_timeout(Duration::from_millis(50)) {
                self.on_event(process, event);
            }
        }
        for process in 0..self.processes.len() {
            let part = &self.processes[process];
            if part.link.is_some() && part.clock.as_ref().is_some_and(Clock::is_unknown) {
                self.lose(process, "its clock could not be read".into());
            }
        }
    }

    /// From now on nobody waits for what a process takes.
    fn begin(&mut self) {
        for process in 0..self.processes.len() {
            let Some(link) = &mut self.processes[process].link else { continue };
            if let Err(error) = link.never_wait() {
                self.lose(process, error.to_string());
            }
        }
        (self.started, self.looked) = (now(), now());
    }

    fn on_event(&mut self, process: usize, event: Event) {
        if self.processes[process].link.is_none() {
            return;
        }
        self.processes[process].quiet = Duration::ZERO;
        let text = match event {
            Event::Line(text) => text,
            Event::Ended(why) => {
                let of = self.processes[process].link.as_mut().map(|link| link.how_it_ended());
                return self.lose(process, why.or(of).unwrap_or_default());
            }
        };
        let took = match heard(&text) {
            Ok(Heard::Said(said)) => self.on_said(process, said),
            Ok(Heard::Evidence(line)) => Err(format!("it sent an unexpected message: {line:?}")),
            Err(wrong) => Err(wrong),
        };
        if let Err(why) = took {
            self.lose(process, why);
        }
    }

    /// The error is why it is lost.
    fn on_said(&mut self, process: usize, said: Said) -> Result<(), String> {
        let part = &mut self.processes[process];
        match said {
            Said::Worker(hello) if !part.is_known => {
                part.is_known = true;
                hello.refused().map_or(Ok(()), Err)
            }
            Said::Ready(_) if part.is_known && !part.is_ready => {
                part.is_ready = true;
                Ok(())
            }
            Said::Users(became) if part.is_ready => {
                became.into_iter().try_for_each(|became| self.on_became(process, became))
            }
            Said::Pong(asked, theirs) => {
                let Some(clock) = &mut part.clock else { return Ok(()) };
                clock.took(asked, theirs, now());
                if !clock.is_known() {
                    let text = line(&Told::Ping(now()));
                    let _ = part.link.as_mut().map(|link| link.tell(&text));
                }
                Ok(())
            }
            Said::Alive(_) => Ok(()),
            Said::Failed(why) => Err(why),
            said => Err(format!("it sent an unexpected message: {said:?}")),
        }
    }

    fn on_became(&mut self, process: usize, became: Became) -> Result<(), String> {
        let clock = self.processes[process].clock.as_ref();
        let ours = |theirs| clock.map_or(theirs, |clock| clock.ours(theirs));
        let happened = match became {
            Became::Connected(user, attempt, begun, at) => {
                Happened::Connected { user, attempt, begun: ours(begun), at: ours(at) }
            }
            Became::Online(user, attempt, at) => Happened::Online { user, attempt, at: ours(at) },
            Became::Failed(user, attempt, why, at) => {
                Happened::Failed { user, attempt, why, at: ours(at) }
            }
            Became::Answered(token, at) => Happened::Answered { token: Token(token), at: ours(at) },
            Became::Delivered(token, at) => {
                Happened::Delivered { token: Token(token), at: ours(at) }
            }
        };
        if let Happened::Connected { user, attempt, .. }
        | Happened::Online { user, attempt, .. }
        | Happened::Failed { user, attempt, .. } = &happened
        {
            let place = self.users.get_mut(*user as usize);
            let place =
                place.ok_or_else(|| format!("it reported user {user}, whom it does not have"))?;
            // It was closed, or closed and connected again, before this was said.
            let is_current = usize::from(place.process) == process && place.attempt == *attempt;
            if !is_current || !place.is_there {
                return Ok(());
            }
            place.is_there = !matches!(happened, Happened::Failed { .. });
        }
        self.happened.push(happened);
        Ok(())
    }

    /// Its users have failed with it.
    fn lose(&mut self, process: usize, why: String) {
        let (count, at) = (self.processes.len(), now());
        let part = &mut self.processes[process];
        (part.link, part.to_do, part.unsent) = (None, Vec::new(), Vec::new());
        let name = part.name.clone();
        let mut lost = 0;
        for (user, place) in (0..).zip(&mut self.users) {
            if place.is_there && usize::from(place.process) == process {
                place.is_there = false;
                lost += 1;
                let (attempt, why) = (place.attempt, LOST.to_owned());
                self.happened.push(Happened::Failed { user, attempt, why, at });
            }
        }
        let says = format!(
            "engine process {} of {count} ({name}), with {lost} users, was lost after {:.1} s: {why}",
            process + 1,
            at.since(self.started).as_secs_f64()
        );
        self.first.get_or_insert_with(|| says.clone());
        self.happened.push(Happened::Lost(says));
    }

    /// Where a user connects: where it was, or is to be, if that lives.
    fn process_of(&self, user: u32) -> Option<u16> {
        let lives = |process: &u16| self.processes[usize::from(*process)].link.is_some();
        let (count, place) = (self.processes.len() as u16, self.users[user as usize]);
        let own = if place.attempt > 0 { place.process } else { (user % u32::from(count)) as u16 };
        if lives(&own) {
            return Some(own);
        }
        let left: Vec<u16> = (0..count).filter(lives).collect();
        left.get(user as usize / usize::from(count) % left.len().max(1)).copied()
    }

    fn tell(&mut self, user: u32, to_do: Do) {
        let place = self.users[user as usize];
        if place.is_there {
            self.processes[usize::from(place.process)].to_do.push(to_do);
        }
    }

    /// Hands over what is to be done, as far as it is taken; whether all of it was.
    fn send(&mut self) -> bool {
        let mut all = true;
        for process in 0..self.processes.len() {
            let part = &mut self.processes[process];
            if !part.to_do.is_empty() {
                let to_do = std::mem::take(&mut part.to_do);
                part.unsent.extend_from_slice(line(&Told::Do(to_do)).as_bytes());
            }
            let Some(link) = part.link.as_mut().filter(|_| !part.unsent.is_empty()) else {
                continue;
            };
            match link.write(&part.unsent) {
                Ok(taken) => drop(part.unsent.drain(..taken)),
                // One that has ended says why with its end.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => part.unsent.clear(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.lose(process, format!("no message could be sent to it: {error}"))
                }
            }
            all &= self.processes[process].unsent.is_empty();
        }
        all
    }

    /// One that is silent for too long is lost.
    fn look(&mut self) {
        let passed = now().since(self.looked).min(LONGEST_LOOK);
        self.looked = now();
        for process in 0..self.processes.len() {
            let part = &mut self.processes[process];
            part.quiet += passed;
            if part.link.is_some() && part.quiet >= SILENT {
                self.lose(process, format!("it sent nothing for {} s", SILENT.as_secs()));
            }
        }
    }
}

impl UserConnections for UserProcesses {
    fn connect(&mut self, user: u32) {
        let Some(process) = self.process_of(user) else {
            let (attempt, why) = (self.users[user as usize].attempt, LOST.to_owned());
            return self.happened.push(Happened::Failed { user, attempt, why, at: now() });
        };
        let place = &mut self.users[user as usize];
        if place.process != process {
            // The other side counts its own.
            *place = Place { process, ..Place::default() };
        }
        (place.attempt, place.is_there) = (place.attempt + 1, true);
        self.tell(user, Do::Connect(user));
    }

    fn act(&mut self, user: u32, act: Act, token: Token) {
        // A climb has users do nothing else.
        if let Act::Message { to, size } = act {
            self.tell(user, Do::Message(user, to.0, size.0, token.0));
        }
    }

    fn close(&mut self, user: u32) {
        self.tell(user, Do::Close(user));
        self.users[user as usize].is_there = false;
    }

    fn wait(&mut self, until: Timestamp) -> io::Result<()> {
        let patience = until.since(now());
        let patience = if self.send() { patience } else { patience.min(AGAIN) };
        let mut event = self.events.recv_timeout(patience);
        for _ in 0..AT_ONCE {
            match event {
                Ok((process, event)) => self.on_event(process, event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
            event = self.events.try_recv().map_err(|_| RecvTimeoutError::Timeout);
        }
        self.look();
        match self.is_over() {
            Some(why) => Err(io::Error::other(why)),
            None => Ok(()),
        }
    }

    fn take(&mut self, happened: &mut Vec<Happened>) {
        happened.append(&mut self.happened);
    }
}
