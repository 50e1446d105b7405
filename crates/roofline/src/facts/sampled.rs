//! The node's sampled processes, each with its figures over the run.

use crate::prelude::*;

pub struct Process<'a> {
    /// Its pid, or linerate's number for it.
    pub pid: String,
    /// Its registered name, or its initial function.
    pub name: &'a str,
    /// At the last sample, and with its callers.
    pub function: &'a str,
    pub stack: &'a str,
    /// What it waited for then, as the probe has it: `send`, `recv`, `receive`.
    pub wait: Option<&'a str>,
    /// The share of samples in which it ran or could have run, 0 to 1.
    pub running: f64,
    /// The largest share of the time that agrees with these samples, 0 to 1.
    pub running_most: f64,
    /// The share in which its garbage was collected, and in which it was in the sync of a file; of earlier evidence 0.
    pub collecting: f64,
    pub syncing: f64,
    /// The share in which it had mail.
    pub with_mail: f64,
    /// Median length of its mailbox; its shortest and longest.
    pub mailbox: u64,
    pub mail: [u64; 2],
    /// Unit: bytes.
    pub heap: f64,
    /// A second.
    pub reductions: f64,
    pub traced: bool,
    pub fullsweep_after: Option<&'a str>,
    /// Of the processes that wait in a call, the share that waits for it, 0 to 1: in the end, or by others.
    pub callers: f64,
    /// Whether somebody waited for it in a call in at least half of its samples.
    pub has_callers: bool,
    /// Whether half as many or more wait for a second process; who calls one through the other waits for both.
    pub is_one_of_several: bool,
    pub is_owner: bool,
}

impl Process<'_> {
    pub fn is_large(&self) -> bool {
        self.heap > erlang::LARGE as f64
    }

    /// Messages that stay in its mailbox: more than callers, constant but for theirs, or for a few that come and stay too.
    /// Work grows, or is worked off.
    pub fn standing(&self, callers: u64) -> u64 {
        let [least, most] = self.mail;
        let come = callers.max((AGREE * least as f64) as u64);
        if least > callers && most - least <= come { least } else { 0 }
    }

    pub fn waiting(&self, callers: u64) -> u64 {
        self.mailbox - self.standing(callers)
    }

    /// Whether it waits for another process in the middle of something, while its messages wait.
    pub fn waits_inside(&self) -> bool {
        let frames = self.stack.split(" < ").filter(|frame| !frame.starts_with("proc_lib:"));
        let is_called = !is_in_loop(self.function) && frames.count() > 1;
        self.running < HALFWAY && is_called || self.passes_over()
    }

    /// Whether it always has messages, which come and go, and sleeps in a receive that takes none of those there: it waits for
    /// another one in the middle of something, whatever its function.
    pub fn passes_over(&self) -> bool {
        let is_asleep = self.running < HALFWAY && self.wait == Some("receive");
        is_asleep && self.with_mail >= FULL && self.mail[0] < self.mail[1]
    }

    /// Whether it examines all of a long mailbox for each message that it takes, of which so many come a second, by one of these
    /// counts: a reduction for each message examined.
    pub fn looks_at_all(&self, callers: u64, came: [f64; 2]) -> bool {
        let there = self.mailbox as f64;
        let taken = self.reductions / there.max(1.0);
        let as_many = |came: &f64| (HALFWAY..=1.0 / HALFWAY).contains(&(taken / came.max(1e-9)));
        // Of callers each has one there, and an answer may cost as many reductions.
        there >= FEW * FEW && self.waiting(callers) > callers && came.iter().any(as_many)
    }

    /// Whether most of those that wait in a call wait for it, and the others for no second process.
    pub fn is_called(&self) -> bool {
        self.callers >= HALFWAY && !self.is_one_of_several
    }

    /// Whether it takes log events, or writes them for who does. Source: `logger_olp` and `logger_h_common` of OTP, which name
    /// it after the handler; `logger_std_h`, whose file has a process; `lager_app`, and Elixir's `Logger`
    /// before 1.15, which call their handlers' manager so.
    pub fn is_log_handler(&self) -> bool {
        let began = self.stack.split(" < ").last().unwrap_or_default();
        self.stack.contains("logger_olp:handle_load")
            || began.starts_with("logger_std_h:") && !self.is_owner
            || self.name.starts_with("logger_")
            || ["lager_event", "Elixir.Logger"].contains(&self.name)
    }

    /// The share of samples in which somebody waited for it, 0 to 1.
    pub fn wanted(&self) -> f64 {
        if self.is_called() { 1.0 } else { self.with_mail }
    }

    /// `my_server:init/1 (<0.123.0>)`.
    pub fn words(&self) -> String {
        format!("{} ({})", self.name, self.pid)
    }
}

/// The upper end of a share's 95 % interval.
/// Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
fn most(share: f64, samples: usize) -> f64 {
    let (n, z) = (samples as f64, 1.96);
    let about = share + z * z / (2.0 * n);
    let wide = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    ((about + wide) / (1.0 + z * z / n)).min(1.0)
}

impl Facts<'_> {
    /// CPUs' worth of time of one process: of the schedulers' what is not the others', as far as its samples agree.
    pub(crate) fn used_by(&self, of: &Process) -> Result<f64, Missing> {
        let (node, _, let_run) = self.schedulers()?;
        let others = self.processes.iter().filter(|other| other.pid != of.pid);
        let left = (node.active - others.map(|of| of.running).sum::<f64>()).min(of.running_most);
        let used = node.of_one(of.running);
        Ok(if node.active >= FULL * node.online { used } else { used.max(left) } * let_run)
    }
}

/// Whether a process there is idle and would take any message: in the loop of a behaviour.
pub(crate) fn is_in_loop(function: &str) -> bool {
    // Source: the loops of OTP's behaviours, of p1_utils (ejabberd) and of RabbitMQ's gen_server2.
    let all = "gen_server: gen_statem: gen_fsm: p1_server: p1_fsm: gen_server2: erlang:hibernate/";
    all.split(' ').any(|own| function.starts_with(own))
}

impl<'a> Run<'a> {
    /// Pids of the owners of sampled client connections; others may wait for the owner of one that the node opened.
    pub(crate) fn owners(&self) -> Vec<&'a str> {
        let ports: Vec<u16> = self.evidence.ports().collect();
        let port = |end| self.fact(end, "local")?.rsplit_once(':')?.1.parse().ok();
        let is_clients = |end: &Subject| {
            ports.is_empty() || port(*end).is_none_or(|port: u16| ports.contains(&port))
        };
        let ends = self.ends(Side::Server).filter(is_clients);
        ends.filter_map(|end| self.fact(end, "owner")).collect()
    }

    /// How many processes without a connection worked at a time: they ran, or waited amid it. None: too few sampled.
    pub(crate) fn taken(&self) -> Option<f64> {
        let of = self.window_or_whole(Subject::Node, |of| of.last(doing::ASKED).is_ok());
        let mean = |metric| of.mean(metric).ok();
        let (asked, all) = (mean(doing::ASKED)?, mean(doing::PROCESSES)?);
        let samples = of.all(doing::ASKED).ok()?.len() as f64;
        let each = all / asked.max(1e-9);
        // One that always works was met so often, or sampling was too short; and of those not drawn nothing is known.
        let is_enough = asked * samples / all.max(1.0) >= SAMPLES as f64;
        (is_enough && mean(doing::DRAWN)? >= EXPLAINED * all)
            .then_some((mean(doing::RUNNING)? + mean(doing::INSIDE)?) * each)
    }
}

pub(crate) fn sampled<'a>(run: &Run<'a>) -> Vec<Process<'a>> {
    let owners = run.owners();
    let calls = calls(run, Subject::Node, callees::CALLING);
    let ids = run.evidence.processes().into_iter();
    let mut all = Vec::from_iter(ids.filter_map(|of| process(run, of, &owners, calls)));
    let shares = Vec::from_iter(all.iter().map(|of| of.callers));
    for of in all.iter_mut().filter(|of| of.callers > 0.0) {
        let beside = |share: &f64| *share >= HALFWAY * of.callers && share + of.callers <= 1.0;
        of.is_one_of_several = shares.iter().any(beside);
    }
    all
}

/// Callers over all sampling rounds: too few a round, and a callee that nobody waits for is not in it.
fn calls(run: &Run, subject: Subject, metric: Metric<u64>) -> f64 {
    let of = run.whole(subject);
    of.all(metric).map_or(0.0, |samples| samples.iter().map(|(_, count)| *count as f64).sum())
}

fn process<'a>(run: &Run<'a>, id: Subject, owners: &[&str], all: f64) -> Option<Process<'a>> {
    let samples = |of: &Of| of.all(suspect::RUNNING).map_or(0, |samples| samples.len());
    let often = |of: &Of| samples(of) >= SAMPLES;
    let of = Some(run.window_or_whole(id, often)).filter(often)?;
    let fact = |name| run.fact(id, name);
    let some = |metric: Metric<u64>| of.share(metric, |value| value > 0).unwrap_or(0.0);
    let called = calls(run, id, callees::CALLERS);
    let rounds = of.all(callees::CALLERS).map_or(0, |all| all.iter().filter(|of| of.1 > 0).count());
    let pid = fact("pid").map_or_else(|| id.to_string(), str::to_owned);
    Some(Process {
        name: fact("name").unwrap_or("a process"),
        function: fact("function").unwrap_or("?"),
        stack: fact("stack").unwrap_or(""),
        wait: fact("wait"),
        running: some(suspect::RUNNING),
        running_most: most(some(suspect::RUNNING), samples(&of)),
        collecting: some(suspect::COLLECTING),
        syncing: some(suspect::SYNCING),
        with_mail: some(suspect::MAILBOX),
        mailbox: of.median(suspect::MAILBOX).unwrap_or(0),
        mail: [of.min(suspect::MAILBOX).unwrap_or(0), of.max(suspect::MAILBOX).unwrap_or(0)],
        heap: of.max(suspect::HEAP).map_or(0.0, |heap| heap.0 as f64),
        reductions: of.rate(suspect::REDUCTIONS).unwrap_or(0.0),
        traced: of.max(suspect::TRACED).is_ok_and(|traced| traced > 0),
        fullsweep_after: fact("fullsweep_after"),
        callers: if all < FEW { 0.0 } else { called / all },
        has_callers: called > 0.0 && rounds as f64 >= HALFWAY * samples(&of) as f64,
        is_one_of_several: false,
        is_owner: owners.contains(&pid.as_str()),
        pid,
    })
}
