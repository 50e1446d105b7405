//! One run: the engine loads, the probe samples, everything goes to the evidence and its file.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linerate_engine::{Flows, Job, Preflight, Tls, now, probe, start};
use linerate_evidence::{Evidence, Header, HostFacts, Line, TargetFacts, VERSION};
use linerate_lab::{Lab, LayError, Options};
use linerate_model::{Client, Plan, Timestamp};
use linerate_probe::{FlowAddress, Probe, Scope, host_facts, sysctls_of};

use crate::beam_client;
use crate::evidence_file::EvidenceFile;
use crate::failure::Failure;
use crate::inside::{Inside, InsideSampler};
use crate::links::{self, Links};
use crate::output::say;
use crate::places::{self, Names};
use crate::progress::Progress;
use crate::signals::Signals;

// Chosen: ten samples in a run of two seconds; a pass costs a millisecond or two.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// One run's outcome.
pub struct Measured {
    /// Plan, host, target.
    pub header: Header,
    /// All samples and slices.
    pub evidence: Evidence,
    /// Why it ended.
    pub ended: String,
}

/// What all runs of a command share.
pub struct Bench<'a> {
    /// Where they show how far they are.
    pub progress: Progress,
    /// What ends them early.
    pub signals: &'a Signals,
    /// Print the commands that lay a path.
    pub verbose: bool,
}

/// A target that is laid and answers.
pub struct Stand {
    lab: Lab,
    address: SocketAddr,
}

impl Bench<'_> {
    /// Lays the plan's path and target.
    pub fn lay(&self, plan: &Plan) -> Result<Stand, Failure> {
        let cancel = Some(self.signals.flag());
        let options = Options { agent: None, verbose: self.verbose, cancel };
        let lab = Lab::lay(plan, &options).map_err(|error| self.lay_failure(error))?;
        let address = lab.address();
        if !plan.sites.is_empty() {
            let servers: Vec<_> = lab.servers().into_iter().map(|host| host.name).collect();
            let engines: Vec<_> = lab.engine_hosts().into_iter().map(|host| host.name).collect();
            self.progress.laid(&servers, &engines);
        }
        Ok(Stand { lab, address })
    }

    /// Makes the target stand as this plan's knobs say.
    pub fn set(&self, stand: &mut Stand, plan: &Plan) -> Result<(), Failure> {
        if !plan.target.knobs.is_empty() || !stand.lab.knobs().is_empty() {
            stand.address =
                stand.lab.variant(&plan.target.knobs).map_err(|error| self.lay_failure(error))?;
        }
        Ok(())
    }

    fn lay_failure(&self, error: LayError) -> Failure {
        let code = match &error {
            LayError::Interrupted => self.signals.exit_code().unwrap_or(1),
            LayError::NotAnAddress(_)
            | LayError::NoPort
            | LayError::NoSuchCpus { .. }
            | LayError::UnknownServer { .. }
            | LayError::UnknownKnob { .. }
            | LayError::BadKnob { .. }
            | LayError::PathToAddress(_) => 2,
            _ => 1,
        };
        Failure { code, sentence: error.to_string() }
    }

    /// One run. The file, if any, is written as the run goes.
    pub fn measure(
        &mut self,
        stand: &mut Stand,
        plan: &Plan,
        file: Option<&Path>,
    ) -> Result<Measured, Failure> {
        let job = self.job(stand, plan)?;
        raise_descriptors(plan)?;
        check_cpus(plan)?;
        let preflight = self.preflight(stand, &job)?;
        refuse_impossible(plan, &preflight, &self.progress)?;
        let header = header(stand, plan, &job, &preflight);
        let mut file = file.map(|path| EvidenceFile::create(path, &header)).transpose()?;
        let (evidence, ended) = self.load(stand, job, &header, file.as_mut())?;
        if let Some(file) = file {
            file.end(now(), &ended)?;
        }
        Ok(Measured { header, evidence, ended })
    }

    /// A few exchanges, given up at a signal: a target that says nothing is waited for as long as the
    /// plan's timeout.
    fn preflight(&self, stand: &mut Stand, job: &Job) -> Result<Preflight, Failure> {
        let (tell, told) = channel();
        let (job, plan) = (job.clone(), Arc::clone(&job.plan));
        // Left to itself if need be: it ends with the timeout, or the program.
        std::thread::spawn(move || tell.send(probe(&job)));
        loop {
            match told.recv_timeout(Duration::from_millis(20)) {
                Ok(Ok(preflight)) => return Ok(preflight),
                Ok(Err(trouble)) => {
                    return Err(match (stand.lab.alive(), missing_congestion(&plan)) {
                        (Err(ended), _) => Failure::run(ended),
                        (Ok(()), Some(missing)) => missing,
                        (Ok(()), None) => Failure::run(trouble),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::run("the first exchanges ended without a result"));
                }
            }
            if let Some(code) = self.signals.exit_code() {
                let sentence = "interrupted before the load began".to_owned();
                return Err(Failure { code, sentence });
            }
        }
    }

    fn job(&self, stand: &Stand, plan: &Plan) -> Result<Job, Failure> {
        let authority = plan.target.address.clone().unwrap_or_else(|| stand.address.to_string());
        let tls = plan.target.tls.then(|| tls(&authority)).transpose()?;
        let hosts = places::hosts(&stand.lab);
        Ok(Job {
            template: linerate_workload::template(&plan.workload, &authority),
            plan: Arc::new(plan.clone()),
            servers: places::servers(&stand.lab),
            threads: match plan.engine.client {
                Client::Own => threads(plan, hosts.len()),
                Client::Beam => schedulers(plan, hosts.len()),
            },
            hosts,
            tls,
            stop: Arc::new(AtomicBool::new(false)),
        })
    }

    fn load(
        &mut self,
        stand: &mut Stand,
        job: Job,
        header: &Header,
        mut file: Option<&mut EvidenceFile>,
    ) -> Result<(Evidence, String), Failure> {
        let stop = Arc::clone(&job.stop);
        let plan = Arc::clone(&job.plan);
        let inside = stand.lab.node().filter(|_| plan.target.inside);
        let inside = inside.map(|node| Inside::attach(&node, None));
        let running = match plan.engine.client {
            Client::Own => {
                start(job).map_err(|error| Failure::run(format!("the engine: {error}")))?
            }
            Client::Beam => beam_client::start(&job, stand.lab.engine_hosts())?,
        };
        let inside = inside.map(|inside| inside.begin(running.flows.clone()));
        let scope = places::scope(&stand.lab, header.target.local);
        let links = Links::of(&stand.lab);
        let names = Names::of(&header.places);
        let sampler = Sampler::start(scope, running.flows.clone(), names, links);
        let mut evidence = Evidence::default();
        let mut ended = "done".to_owned();
        self.progress.begin(&plan, running.started);
        loop {
            match running.slices.recv_timeout(Duration::from_millis(50)) {
                Ok(slice) => {
                    self.progress.on_slice(&slice);
                    let slice = slice.pack();
                    if let Some(file) = &mut file {
                        file.write(&Line::Slice(Box::new(slice.clone())))?;
                    }
                    evidence.slices.push(slice);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Ok(samples) = sampler.samples.try_recv() {
                keep(samples, &mut evidence, &mut file)?;
            }
            while let Some(samples) = inside.as_ref().and_then(|it| it.samples.try_recv().ok()) {
                keep(samples, &mut evidence, &mut file)?;
            }
            if !stop.load(Ordering::Relaxed) {
                if self.signals.received() {
                    ended = "interrupted".into();
                    stop.store(true, Ordering::Relaxed);
                } else if let Err(died) = stand.lab.alive() {
                    ended = format!("target died: {died}");
                    stop.store(true, Ordering::Relaxed);
                }
            }
        }
        running.join().map_err(|error| Failure::run(format!("the engine: {error}")))?;
        let left = sampler.finish().into_iter();
        for samples in left.chain(inside.map(InsideSampler::finish).unwrap_or_default()) {
            keep(samples, &mut evidence, &mut file)?;
        }
        self.progress.end();
        Ok((evidence, ended))
    }
}

impl Stand {
    /// Takes the lab away; what could not be is said.
    pub fn close(self) {
        if let Err(left) = self.lab.close() {
            say(&format!("warning: {left}\n"));
        }
    }

    /// The target's knobs: name, permitted values.
    pub fn knobs(&self) -> Vec<(String, Vec<String>)> {
        self.lab
            .knobs()
            .iter()
            .map(|knob| (knob.name.clone(), knob.values.iter().map(ToString::to_string).collect()))
            .collect()
    }
}

fn keep(
    samples: Evidence,
    evidence: &mut Evidence,
    file: &mut Option<&mut EvidenceFile>,
) -> Result<(), Failure> {
    if let Some(file) = file {
        file.write_samples(&samples)?;
    }
    evidence.absorb(samples);
    Ok(())
}

/// The probe on a thread of its own.
struct Sampler {
    samples: Receiver<Evidence>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Sampler {
    fn start(scope: Scope, flows: Flows, mut names: Names, mut links: Links) -> Self {
        let (sender, samples) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut probe = Probe::open(scope);
            let mut next = now();
            loop {
                let last = until.load(Ordering::Relaxed);
                let flows = flows.snapshot();
                let asked: Vec<FlowAddress> = flows.iter().map(places::flow_address).collect();
                let mut evidence = probe.sample(now, &asked);
                names.tell(&flows, &mut evidence);
                links.tell(now, &mut evidence);
                if sender.send(evidence).is_err() || last {
                    return;
                }
                next = next.after(SAMPLE_EVERY);
                while now() < next && !until.load(Ordering::Relaxed) {
                    std::thread::sleep(next.since(now()).min(Duration::from_millis(20)));
                }
            }
        });
        Self { samples, stop, thread }
    }

    /// The samples not yet taken, the last pass among them.
    fn finish(self) -> Vec<Evidence> {
        self.stop.store(true, Ordering::Relaxed);
        // It ends by itself; a panic in it leaves what it had sent.
        let _ = self.thread.join();
        self.samples.try_iter().collect()
    }
}

fn header(stand: &Stand, plan: &Plan, job: &Job, preflight: &Preflight) -> Header {
    let started_unix_ns =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let mut host = HostFacts { engine_threads: job.threads, ..host_facts() };
    if let Some(netns) = stand.lab.server_netns() {
        // Both ends of a path have the same.
        host.sysctls = sysctls_of(Some(netns));
    }
    Header {
        linerate: "evidence".into(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        started_unix_ns,
        started: now(),
        plan: plan.clone(),
        host,
        target: facts(stand, plan),
        preflight_ns: preflight.service.iter().map(|time| time.as_nanos() as u64).collect(),
        places: places::places(&stand.lab, plan, preflight),
    }
}

/// What is known of the target, and what its paths were asked for and delivered before the run.
fn facts(stand: &Stand, plan: &Plan) -> TargetFacts {
    let mut facts = stand.lab.facts();
    // Schedulers of all servers; what CPUs they may use they share.
    let servers = u16::try_from(plan.servers()).unwrap_or(u16::MAX);
    facts.schedulers = facts.schedulers.map(|one| one.saturating_mul(servers));
    facts.readback.extend(links::proven(&stand.lab));
    facts
}

/// One thread a CPU that the engine may use, but never more than workers; of several hosts each has as
/// many as the others.
fn threads(plan: &Plan, hosts: usize) -> u16 {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = if plan.engine.cpus.is_empty() { available } else { plan.engine.cpus.len() };
    let workers = plan.load.connections as usize;
    let wanted = match plan.engine.threads {
        0 => cpus.min(workers).max(1),
        asked => usize::from(asked),
    };
    let hosts = hosts.max(1);
    let even = wanted.next_multiple_of(hosts);
    let even = if even > workers { (workers / hosts).max(1) * hosts } else { even };
    u16::try_from(even).unwrap_or(u16::MAX)
}

/// Schedulers of the clients' nodes, which are the engine's threads where the client is the BEAM.
fn schedulers(plan: &Plan, hosts: usize) -> u16 {
    let available = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpus = if plan.engine.cpus.is_empty() { available } else { plan.engine.cpus.len() };
    let each = if plan.engine.threads > 0 { usize::from(plan.engine.threads) } else { cpus };
    u16::try_from(each * hosts.max(1)).unwrap_or(u16::MAX)
}

/// TLS by the name in the authority; an address is a name as well.
fn tls(authority: &str) -> Result<Tls, Failure> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_matches(['[', ']']).to_owned();
    let name = rustls::pki_types::ServerName::try_from(host.clone())
        .map_err(|_| Failure::plan(format!("`{host}` is not a name that TLS can ask for")))?;
    let config = linerate_engine::client_config().map_err(Failure::run)?;
    Ok(Tls { config: Arc::new(config), name })
}

/// Lets this process open as many descriptors as the system allows, and says when that is too few.
fn raise_descriptors(plan: &Plan) -> Result<(), Failure> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Failing leaves the soft limit, which is checked next.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Chosen: standard streams, epoll, netlink, /proc files, the target's pipes.
    let needed = u64::from(plan.connections()) + 100;
    if needed > allowed {
        return Err(Failure::plan(format!(
            "load.connections: {} need {needed} descriptors and this process may open {allowed}: raise \
             `ulimit -n`, or write {} or fewer",
            plan.load.connections,
            allowed.saturating_sub(100) / u64::from(plan.servers())
        )));
    }
    Ok(())
}

/// Refuses engine CPUs that this process may not use.
fn check_cpus(plan: &Plan) -> Result<(), Failure> {
    let ours = rustix::thread::sched_getaffinity(None).map_err(Failure::run)?;
    let asked = &plan.engine.cpus;
    if asked.iter().all(|cpu| ours.is_set(usize::from(*cpu))) {
        return Ok(());
    }
    let there: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| ours.is_set(*cpu))
        .map(|cpu| cpu.to_string())
        .collect();
    Err(Failure::plan(format!(
        "engine.cpus: {asked:?} can't be had: write some of {}, those linerate may use",
        there.join(", ")
    )))
}

/// Why no socket could be opened, if it is for want of the plan's congestion control. Asked only then:
/// the kernel may load one when it is first used.
fn missing_congestion(plan: &Plan) -> Option<Failure> {
    let asked = plan.engine.congestion.as_ref()?;
    let there = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let there = there.ok()?;
    let there: Vec<_> = there.split_whitespace().collect();
    (!there.contains(&asked.as_str())).then(|| {
        Failure::plan(format!(
            "engine.congestion: this kernel has no `{asked}`: write one of {}",
            there.join(", ")
        ))
    })
}

/// Little's law before the run: `connections / service time` is all they carry.
fn refuse_impossible(
    plan: &Plan,
    preflight: &Preflight,
    progress: &Progress,
) -> Result<(), Failure> {
    let Some(rate) = plan.load.rate else { return Ok(()) };
    let connections = f64::from(plan.connections());
    let sum = |service: Duration| {
        let seconds = service.as_secs_f64().max(1e-9);
        let needed = (rate.0 * seconds * 1.2).ceil();
        let most = linerate_model::OpRate(connections / seconds);
        (
            most,
            format!(
                "{} / {:.3} ms an exchange = {most} at most, and {rate} were asked for: write -c {needed:.0} or more",
                if plan.connections() == 1 {
                    "1 connection".into()
                } else {
                    format!("{connections:.0} connections")
                },
                seconds * 1e3
            ),
        )
    };
    let (most, words) = sum(preflight.fastest());
    if rate.0 > most.0 && !plan.load.overload {
        return Err(Failure::plan(format!(
            "load.rate: {words} (or --overload to run it all the same)"
        )));
    }
    let (most, words) = sum(preflight.typical());
    if rate.0 > most.0 {
        progress.warn(&words);
    }
    Ok(())
}

/// The instant a run is timed from, for those who show progress.
pub fn seconds_since(start: Timestamp) -> f64 {
    now().since(start).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_host_has_as_many_threads_as_the_others() {
        let plan = |connections, threads| {
            let mut plan = Plan::from_toml("[target]\naddress = 'a:1'\n").unwrap();
            plan.load.connections = connections;
            plan.engine.threads = threads;
            plan
        };
        assert_eq!(threads(&plan(100, 3), 1), 3);
        assert_eq!(threads(&plan(100, 2), 4), 4);
        assert_eq!(threads(&plan(100, 5), 4), 8);
        assert_eq!(threads(&plan(5, 5), 4), 4); // 8 threads would leave three without a worker
        assert_eq!(threads(&plan(1, 0), 1), 1);
    }
}
