//! The main phase and the experiment: the engine loads, everything else samples, and all of it goes to the
//! evidence and its file.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use linerate_engine::{Job, Preflight, Running, now};
use linerate_evidence::sources::calls::KINDS;
use linerate_evidence::{Evidence, Header, Line, Phase, Step};
use linerate_model::Client;
use linerate_probe::{
    CallSampler, CensusSampler, EngineProcesses, Scope, ServerEnds, TargetSampler,
};

use crate::deploy::Deployment;
use crate::error::RunError;
use crate::evidence_file::EvidenceFile;
use crate::experiment::{self, Closing};
use crate::inside::{Inside, InsideSampler, OfLoad};
use crate::links::Links;
use crate::observer::Observer;
use crate::places::Names;
use crate::runner::Runner;
use crate::sampler::Sampler;
use crate::steps::{self, Beside};
use crate::workers::Far;
use crate::{beam_client, places, streams, workers};

/// How a run ends that nothing cut short.
const DONE: &str = "done";

impl<O: Observer> Runner<O> {
    pub(crate) fn load(
        &mut self,
        deployment: &mut Deployment,
        job: Job,
        preflight: &Preflight,
        header: &Header,
        file: Option<&mut EvidenceFile>,
    ) -> Result<(Evidence, String), RunError> {
        let plan = Arc::clone(&job.plan);
        let carries = header.target.carries.is_some();
        let of_load = if carries { OfLoad::Counted } else { OfLoad::No };
        let scope = places::scope(&deployment.lab, header.target.local);
        let inside = match (deployment.lab.node(), deployment.refusal.take()) {
            _ if !plan.target.inside => None,
            (Some(node), _) => Some(Inside::attach(Ok(node), of_load)),
            // One that did not let us in is not asked by each of many runs.
            (None, Some(refusal)) => Some(Inside::attach(Err(refusal), of_load)),
            (None, None) => Inside::enter(scope.target_pids.clone(), of_load, &self.cancel),
        };
        deployment.refusal = inside.as_ref().and_then(Inside::refusal);
        let checks = plan.until.check && plan.engine.client == Client::Own;
        let ends = (checks && scope.local)
            .then(|| ServerEnds::open(&scope.target_ports, &scope.server_netns).ok());
        let mut closing = Closing::of(ends.flatten());
        let main = job.clone();
        let before = streams::counted(&job);
        let engine = EngineProcesses::default();
        let running = match plan.engine.client {
            Client::Own => workers::start(&job, &scope, &engine, 1, far(deployment))?,
            Client::Beam => (beam_client::start(&job, deployment.lab.engine_hosts())?, None),
        };
        let (running, of_workers) = running;
        // A node that let us in tells itself.
        let is_in = inside.as_ref().is_some_and(|inside| inside.refusal().is_none());
        let by_memory = plan.target.inside && !is_in;
        let inside = inside.map(|inside| inside.begin(running.flows.clone()));
        let links = Links::of(&deployment.lab);
        let names = Names::of(&header.places);
        let mut course = Course {
            sampler: Sampler::start(
                scope.clone(),
                running.flows.clone(),
                engine.clone(),
                names,
                links,
            ),
            target: TargetSampler::start(
                scope.target_pids.clone(),
                scope.target_ports.clone(),
                by_memory,
                now,
            ),
            calls: (carries && scope.local)
                .then(|| CallSampler::start(scope.target_pids.clone(), &KINDS, now)),
            inside,
            census: None,
            of_workers: None,
            engine,
            jobs: 1,
            scope,
            servers: main.servers.iter().map(|server| server.address).collect(),
            seed: plan.engine.seed,
            deployment,
            cancel: Arc::clone(&self.cancel),
            kept: Kept { evidence: Evidence::default(), file },
            ended: DONE.to_owned(),
        };
        course.kept.add(before)?;
        course.begun(&running, of_workers);
        self.observer.begin(&header.plan, running.started);
        let started = running.started;
        self.main_phase(running, &main.stop, &mut course)?;
        course.kept.add(streams::counted(&main))?;
        if course.ended == DONE && checks {
            let slices = &course.kept.evidence.slices;
            let load = slices.iter().filter(|slice| slice.phase == Phase::Load);
            let opened = load.map(|slice| slice.from).min().unwrap_or(started);
            let patience = experiment::patience(opened.since(started));
            self.experiment(&main, preflight, patience, &mut closing, &mut course)?;
        }
        let result = course.finish();
        self.observer.end();
        result
    }

    fn main_phase(
        &mut self,
        running: Running,
        stop: &AtomicBool,
        course: &mut Course<'_>,
    ) -> Result<(), RunError> {
        loop {
            match running.slices.recv_timeout(Duration::from_millis(50)) {
                Ok(slice) => {
                    let slice = slice.pack();
                    self.observer.on_slice(&slice, &course.kept.evidence);
                    course.kept.write(&Line::Slice(Box::new(slice.clone())))?;
                    course.kept.evidence.slices.push(slice);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if stop.load(Ordering::Relaxed) {
                course.take_samples()?;
            } else if !course.goes_on()? {
                stop.store(true, Ordering::Relaxed);
            }
        }
        running.join().map_err(RunError::Engine)?;
        course.over()
    }

    fn experiment(
        &mut self,
        main: &Job,
        preflight: &Preflight,
        patience: Duration,
        closing: &mut Closing,
        course: &mut Course<'_>,
    ) -> Result<(), RunError> {
        let planned = experiment::steps(&main.plan, &course.kept.evidence.slices);
        if planned.is_empty() {
            return Ok(());
        }
        course.sampler.forget_flows();
        for (index, step) in planned.iter().enumerate() {
            closing.wait(&self.cancel);
            if !course.goes_on()? {
                return Ok(());
            }
            let left = planned[index..].iter().map(|step| step.length).sum();
            self.observer.on_step(step.kind, step.connections, left);
            if let Some(made) = steps::make(main, preflight, step, patience, course)? {
                course.kept.add_step(made)?;
            }
        }
        Ok(())
    }
}

/// The other hosts of the engine, and what they are told of this one.
fn far(deployment: &Deployment) -> Far<'_> {
    Far { hosts: &deployment.hosts, outside: &deployment.outside }
}

/// What goes on beside the load, in the main phase and in the experiment.
struct Course<'a> {
    sampler: Sampler,
    target: TargetSampler,
    /// Of loads between two nodes, whose reports tell them: counting is not free.
    calls: Option<CallSampler>,
    inside: Option<InsideSampler>,
    /// Of the connections that there are now.
    census: Option<CensusSampler>,
    /// What the engine's other processes sample, where the connections are theirs.
    of_workers: Option<Receiver<Evidence>>,
    engine: EngineProcesses,
    /// Jobs of the engine so far.
    jobs: u16,
    scope: Scope,
    servers: Vec<SocketAddr>,
    seed: u64,
    deployment: &'a mut Deployment,
    cancel: Arc<AtomicBool>,
    kept: Kept<'a>,
    ended: String,
}

impl Beside for Course<'_> {
    /// Takes the samples there are, and sees whether anything ends the run.
    fn goes_on(&mut self) -> Result<bool, RunError> {
        self.take_samples()?;
        if self.cancel.load(Ordering::Relaxed) {
            self.ended = "interrupted".into();
        } else if let Err(died) = self.deployment.lab.alive() {
            self.ended = format!("target died: {died}");
        }
        Ok(self.ended == DONE)
    }

    fn start(&mut self, job: &Job) -> Result<Running, RunError> {
        self.jobs += 1;
        let (running, of_workers) =
            workers::start(job, &self.scope, &self.engine, self.jobs, far(self.deployment))?;
        self.begun(&running, of_workers);
        Ok(running)
    }

    fn over(&mut self) -> Result<(), RunError> {
        self.take_samples()?;
        self.of_workers = None;
        self.census.take().map_or(Ok(()), |census| self.kept.add(census.finish()))
    }
}

impl Course<'_> {
    /// Connections are opened.
    fn begun(&mut self, running: &Running, of_workers: Option<Receiver<Evidence>>) {
        self.census = of_workers.is_none().then(|| {
            let board = Arc::new(running.board.clone());
            CensusSampler::start(&self.scope, &self.servers, board, now, self.seed)
        });
        self.of_workers = of_workers;
    }

    fn take_samples(&mut self) -> Result<(), RunError> {
        while let Ok(samples) = self.sampler.samples.try_recv() {
            self.kept.add(samples)?;
        }
        while let Some(samples) = self.inside.as_ref().and_then(|it| it.samples.try_recv().ok()) {
            self.kept.add(samples)?;
        }
        while let Some(samples) = self.of_workers.as_ref().and_then(|it| it.try_recv().ok()) {
            self.kept.add(samples)?;
        }
        self.kept.add(self.target.drain())?;
        let calls = self.calls.as_ref().map(CallSampler::drain).unwrap_or_default();
        self.kept.add(calls)?;
        self.census.as_ref().map_or(Ok(()), |census| self.kept.add(census.drain()))
    }

    /// With the last samples: the evidence, and why the run ended.
    fn finish(mut self) -> Result<(Evidence, String), RunError> {
        self.over()?;
        self.kept.add(self.target.finish())?;
        let calls = self.calls.take().map(CallSampler::finish).unwrap_or_default();
        self.kept.add(calls)?;
        let left = self.sampler.finish().into_iter();
        for samples in left.chain(self.inside.map(InsideSampler::finish).unwrap_or_default()) {
            self.kept.add(samples)?;
        }
        Ok((self.kept.evidence, self.ended))
    }
}

/// The evidence, and the file that has it too.
struct Kept<'a> {
    evidence: Evidence,
    file: Option<&'a mut EvidenceFile>,
}

impl Kept<'_> {
    fn write(&mut self, line: &Line) -> Result<(), RunError> {
        self.file.as_mut().map_or(Ok(()), |file| file.write(line))
    }

    fn add(&mut self, samples: Evidence) -> Result<(), RunError> {
        if samples.is_empty() {
            return Ok(());
        }
        if let Some(file) = &mut self.file {
            file.write_samples(&samples)?;
        }
        self.evidence.absorb(samples);
        Ok(())
    }

    fn add_step(&mut self, step: Step) -> Result<(), RunError> {
        self.write(&Line::Step(Box::new(step.clone())))?;
        self.evidence.steps.push(step);
        Ok(())
    }
}
