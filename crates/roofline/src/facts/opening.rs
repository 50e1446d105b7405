//! The cost of connections that are opened for the exchanges of this run, by its own counts; and of TLS, where the target
//! speaks it with its clients.
//!
//! `kernel's CPU time x segments that open and close connections / all segments`
//!
//! Of the target's kernel time only what samples find in calls for connections, where they were taken.
//!
//! Blind spot: a lower bound, without what programs do for a connection; without samples with kernel time of no segment.

use crate::prelude::*;

// Source: RFC 9293, 3.5 (three segments open a connection) and 3.6 (four close it).
const SEGMENTS: f64 = 7.0;

pub(crate) struct Opening {
    /// By the client, an exchange.
    pub each: f64,
    /// By the target itself, to any peer, an exchange.
    pub upstream: f64,
    /// Of an exchange, the time in which a peer of the target does what it does for each of these; 0: unknown. Unit: seconds.
    pub login_s: f64,
    /// The part of an exchange that lets a client in, where clients connect for each, and is no question's; 0: unknown.
    pub login_share: f64,
    /// Median. Unit: seconds.
    pub connect_s: f64,
    /// What the first exchange of each connection takes, and each later one; none: too few of either. Unit: seconds.
    pub first_and_later_s: Option<[f64; 2]>,
    /// The share of the stack's segments that open and close connections, 0 to 1.
    pub share: Result<f64, Missing>,
}

impl Opening {
    pub fn slower_first(&self) -> Option<String> {
        let is_slower = |[first, later]: &[f64; 2]| *first > (1.0 + HALFWAY) * later;
        let [first, later] = self.first_and_later_s.filter(is_slower)?.map(duration);
        Some(format!("the first exchange of a connection takes {first}, each later one {later}"))
    }
}

// Measured, OpenSSL 3.0 on an AMD EPYC, `openssl speed -evp aes-256-gcm`: a record of 16 to 64 bytes takes 0.33 us, and the library
// has as much again around it; 0.5 ns a byte in records of 1 KiB. Unit: seconds.
const CIPHER_RECORD: f64 = 1e-6;
const CIPHER_BYTE: f64 = 0.5e-9;

// With a key of RSA, 2,048 bits, `openssl speed`: 0.21 ms for a signature, 0.05 for the key exchange, and as much again for the rest.
// Less than what a key of 4,096 bits takes, whose handshakes are most of the time of those that wait. Unit: seconds.
const HANDSHAKE: f64 = 0.5e-3;

impl Facts<'_> {
    pub(crate) fn opening(&self) -> Opening {
        let (run, load) = (&self.run, self.run.load);
        let answered = self.by_headers(|of| of.per_s);
        let opened = self.by_headers(|of| of.opened_per_s);
        let each = match self.load {
            Load::Made => run.opened_per_exchange(),
            Load::Watched if answered > 0.0 => opened / answered.max(1e-9),
            Load::Watched => self.per_exchange(load.opened as f64 / run.seconds().max(1e-9)),
        };
        let connect_s = load.connect.at(50.0).map_or(0.0, |at| at.value as f64 / 1e9);
        let stack = run.of(Subject::Stack(Side::Server));
        let upstream = self.upstream(&stack, each).unwrap_or(0.0);
        let first_and_later_s = self.first_and_later_s();
        // Kept connections would be found beyond their first answers.
        let is_login = |of: &&Asked| upstream >= HOLDS && of.logging_in[1] >= FEW;
        let login = self.inside.asked.first().filter(is_login);
        let login_s = login.map_or(0.0, |of| self.per_exchange(of.logging_in[0]));
        let login_share = self.login_share(opened, answered).unwrap_or(0.0);
        let share = share(&stack);
        Opening { each, upstream, login_s, login_share, connect_s, first_and_later_s, share }
    }

    /// Of so many connections and answers a second: the share of the answers' time that passes until clients are let in, by what
    /// the service says then. In older recordings of a broker, of the answers that are to no message: each has one at most.
    fn login_share(&self, opened: f64, answered: f64) -> Option<f64> {
        let [logins, share] = self.captured().ok()?.1.logins;
        let broker = self.run.of(Subject::Node);
        let of = |metric| broker.rate(metric).ok();
        let messages = of(broker::PUBLISHED).zip(of(broker::DELIVERED));
        let messages = messages.map(|(put, taken)| put.max(taken));
        let questions = messages.unwrap_or((answered - logins).max(0.0));
        let to_none = messages.filter(|messages| *messages > 0.0 && logins <= 0.0);
        let share = to_none.map_or(share, |messages| 1.0 - messages / answered.max(1e-9));
        // A session of several questions may be a transaction.
        let is_for_each = opened >= HOLDS * questions && opened * self.run.seconds() >= FEW;
        // Who lets a client in may wait for somebody else.
        let waits = self.inside.questions() >= HALFWAY * self.place.exchanges;
        (is_for_each && !waits).then_some(share.max(0.0))
    }

    /// Of a made load, whose requests are alike. What watched clients ask first may be more than what they ask then.
    fn first_and_later_s(&self) -> Option<[f64; 2]> {
        let (load, (first, first_s)) = (self.run.load, self.run.load.first_answers);
        let (first, first_s, all) = (first as f64, first_s.as_secs_f64(), load.exchanges as f64);
        let (later, all_s) = (all - first, load.service.mean() / 1e9);
        let are_enough = self.load == Load::Made && first.min(later) >= FEW;
        are_enough.then(|| [first_s, (all * all_s - first * first_s) / later])
    }

    /// After how many answers the target closes each connection of a made load. The client's next request may cross
    /// the close and have no answer. None where it is no whole number: there connections are cut off at any request.
    pub(crate) fn closes_after(&self) -> Option<f64> {
        let (load, connections) = (self.run.load, f64::from(self.run.connections()));
        let again = load.opened as f64 - connections;
        let is_kept = self.run.header.plan.opens_each() || again < connections.max(FEW);
        if self.load != Load::Made || is_kept {
            return None;
        }
        // Connections open at the end had half of theirs, on average: the uncertainty is of these.
        let each = load.answered as f64 / (again + connections / 2.0);
        let known_to = each * (connections / 2.0 + FEW) / again;
        let is_whole = 1.0 / each < HALFWAY && (each - each.round()).abs() <= known_to;
        let of_others = load.errors.values().sum::<u64>() - self.unheard();
        // A server that cuts off requests closes no connection between two of them.
        let is_alike = of_others as f64 <= TURNED_AWAY * load.answered as f64
            && (self.unheard() as f64) < FULL * again;
        (is_whole && is_alike).then(|| each.round())
    }

    /// Exchanges whose connection ended before the answer began.
    pub(crate) fn unheard(&self) -> u64 {
        ["closed", "reset"].iter().filter_map(|cause| self.run.load.errors.get(*cause)).sum()
    }

    /// Connections that the target opens itself: those of its stack that the engine did not open.
    fn upstream(&self, stack: &Of, each: f64) -> Option<f64> {
        // One that stays is there whenever it is looked at, and its port is the same; or nobody asks it.
        let stays = |of: &Asked| {
            let is_there = of.samples[0] >= FEW && !of.is_timeless();
            let is_same = of.resting == 0 && (of.ports as f64) < TWO * of.connections.max(1.0);
            is_same && (is_there || of.asked <= 0.0)
        };
        let opens = !self.inside.asked.iter().all(stays);
        let opened = stack.rate(snmp::ACTIVE_OPENS).ok().filter(|_| opens)?;
        let shared = !self.run.evidence.subjects().any(|of| of == Subject::Stack(Side::Client));
        let ours = if shared { each } else { 0.0 };
        Some((self.per_exchange(opened) - ours).max(0.0))
    }

    /// The cost of the client's new connections, or of the target's, as parts of a claim.
    pub(crate) fn price(&self, opening: &Opening, upstream: bool) -> Vec<Part> {
        // A service may do something for each connection before it answers, or when it is first asked. Where it is not
        // accepted for a while, that is no work.
        let more = opening.first_and_later_s.map_or(0.0, |[first, later]| first - later);
        let first = more * opening.each - self.per_exchange(self.at(Station::AcceptQueue));
        let delay = |at, each| Part::Delay { at, each };
        let mut parts = match upstream {
            true => vec![delay(At::Service, opening.login_s)],
            false => vec![
                delay(At::Station(Station::Connect), opening.connect_s * opening.each),
                delay(At::Service, first),
                delay(At::Service, opening.login_share * self.exchange_s()),
            ],
        };
        // Where requests wait for CPUs, what is done for each takes its share of their time.
        let at_work = |of: &Running| of.running + of.runnable.unwrap_or(0.0);
        let waits = self.target.as_ref().is_some_and(|of| at_work(of) >= HOLDS * self.place.of);
        let work = self.target_work().ok().filter(|_| waits && !upstream);
        let each = work.map_or(0.0, |work| work * opening.login_share);
        parts.push(Part::Work { resource: Resource::TargetCpu, each });
        let each = if upstream { self.work_of_logins(opening.login_s) } else { 0.0 };
        parts.push(Part::Work { resource: Resource::HostCpu, each });
        let of = if upstream { opening.upstream } else { opening.each };
        let share = opening.share.as_ref().ok().filter(|_| self.run.header.target.local);
        let theirs = share.unwrap_or(&0.0) * of / (opening.each + opening.upstream).max(1e-9);
        let (target, host) = (self.run.of(Subject::Target), self.run.of(Subject::Host));
        let kernel = target.rate(process::STIME).unwrap_or(0.0);
        let of_connections = share_of(&self.run, kernel_code::SAMPLES, kernel_code::CONNECTIONS);
        let of_target = kernel * of_connections.unwrap_or(1.0);
        let interrupts: f64 =
            [stat::IRQ, stat::SOFTIRQ].iter().filter_map(|of| host.rate(*of).ok()).sum();
        let of_host = |(all, ours): (f64, f64)| (all + interrupts) * ours - (kernel - of_target);
        let of_host = host.rate(stat::SYSTEM).ok().zip(self.ours()).map_or(0.0, of_host);
        for (resource, kernel) in [(Resource::TargetCpu, of_target), (Resource::HostCpu, of_host)] {
            parts.push(Part::Work { resource, each: self.per_exchange(kernel * theirs) });
        }
        parts.retain(|part| matches!(part, Part::Delay { each, .. } | Part::Work { each, .. } if *each > 0.0));
        parts
    }

    /// CPU time, of the target and of the peer that it asks on this host, for connections that it opens: where requests wait for CPUs,
    /// by the share of their time in which the peer does what it does for each. Unit: seconds an exchange.
    fn work_of_logins(&self, login_s: f64) -> f64 {
        let Some(asked) = self.inside.asked.first().filter(|_| self.no_cpu_is_idle()) else {
            return 0.0;
        };
        let waited = self.per_exchange(asked.asked).max(1e-12);
        let peers = self.per_exchange(asked.cores.unwrap_or(0.0)) * (login_s / waited).min(1.0);
        let own = self.target_work().unwrap_or(0.0) * (login_s / self.exchange_s()).min(1.0);
        peers + own
    }

    /// Silent where neither plan nor headers have TLS, and no owner of a connection began as `ssl_gen_statem:init/1`.
    pub(crate) fn speaks_tls(&self) -> Result<(), Silent> {
        let (run, owners) = (&self.run, self.run.owners());
        let is_of = |function: &str| function.starts_with("ssl_") || function.starts_with("tls_");
        let of_ssl = |process: Subject| {
            let mut told = ["name", "stack"].into_iter().filter_map(|fact| run.fact(process, fact));
            run.fact(process, "pid").is_some_and(|pid| owners.contains(&pid))
                && told.any(|functions| functions.split(" < ").any(is_of))
        };
        let is_tls = run.header.plan.target.tls
            || self.headers().any(|of| of.tls >= HALFWAY)
            || run.evidence.processes().into_iter().any(of_ssl);
        silent_if(!is_tls, "it does not encrypt its connections")
    }

    /// An exchange's time in the handshake (none: never met), and the target's work there, where that is much of all, in seconds: by
    /// the share of taken exchanges that are in one; on unread ones it does not work. Of a watched service by the share of requests'
    /// waiting: a program with a process for each connection works on unread ones too. Or by the time in ciphers, if more.
    pub(crate) fn shaking(&self) -> Option<(f64, Option<f64>)> {
        let shaking = self.in_handshake();
        let (here, all) = match self.load {
            Load::Made => (shaking, shaking + self.at(Station::Application)),
            Load::Watched => (
                self.by_headers(|of| of.shaking),
                self.by_headers(|of| of.under_way + of.answering),
            ),
        };
        let share = (here / all.max(1e-9)).min(1.0);
        let work = self.target_work().ok();
        let by_share = work.filter(|_| share >= HOLDS).map(|work| work * share);
        // A queue before the handshake has most of the time of those that wait, and none of the work.
        let is_much = |each: &f64| work.is_some_and(|work| *each >= HOLDS * work);
        let by_library = self.ciphers_of_handshakes().filter(is_much);
        let work = by_share.into_iter().chain(by_library).reduce(f64::max);
        (shaking > 0.0).then(|| (self.per_exchange(shaking), work))
    }

    /// The target's CPU time in libraries of ciphers, by samples of its code. None: no samples, or none in one, as of a
    /// program with ciphers of its own. Unit: seconds an exchange.
    pub(crate) fn in_ciphers(&self) -> Option<f64> {
        let target = self.target_cpu().ok()?;
        let share = share_of(&self.run, code::SAMPLES, code::CIPHERS)?;
        (share > 0.0).then(|| self.per_exchange(share * target.cores * (1.0 - target.kernel)))
    }

    /// Of that what handshakes with clients have: what nothing else explains, and no more than so many take.
    fn ciphers_of_handshakes(&self) -> Option<f64> {
        let (load, opening) = (self.run.load, self.opening());
        let sampled = (load.bytes_read + load.bytes_written) as f64 / self.run.seconds().max(1e-9);
        // Of short connections few are sampled; what is written by calls is counted of all.
        let written = self.run.of(Subject::Target).rate(process::WRITTEN).unwrap_or(0.0);
        let moved = self.per_exchange(sampled.max(written));
        let records = (load.records_read as f64 / load.exchanges.max(1) as f64).max(1.0) + 1.0;
        let others = moved * CIPHER_BYTE + records * CIPHER_RECORD + opening.upstream * HANDSHAKE;
        Some((self.in_ciphers()? - others).clamp(0.0, opening.each * HANDSHAKE))
    }

    pub(crate) fn in_handshake(&self) -> f64 {
        match self.load {
            Load::Made => self.at(Station::TlsHandshake),
            Load::Watched => self.ports(Watched::shaking),
        }
    }

    /// CPU time of the target for an exchange. Unit: seconds.
    pub(crate) fn target_work(&self) -> Result<f64, Missing> {
        Ok(self.per_exchange(self.target_cpu()?.work()))
    }

    /// The share of the machine's CPU time that target, engine and path have, 0 to 1.
    fn ours(&self) -> Option<f64> {
        let run = &self.run;
        let ours = self.target_cpu().ok()?.cores + run.engine_cores() + run.path_cores();
        Some((ours / self.host.as_ref().ok()?.busy.max(1e-9)).min(1.0))
    }
}

/// Where both ends of a connection are on one stack, each counts it, and each of its segments.
fn share(stack: &Of) -> Result<f64, Missing> {
    let segments = stack.grown(snmp::IN_SEGS)? + stack.grown(snmp::OUT_SEGS)?;
    let opened = stack.grown(snmp::ACTIVE_OPENS)? + stack.grown(snmp::PASSIVE_OPENS)?;
    Ok((SEGMENTS * opened / segments.max(1.0)).min(1.0))
}
