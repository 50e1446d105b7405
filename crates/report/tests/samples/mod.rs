//! Documents made by hand: the inets httpd story, for golden reports, schema checks and the page test.
#![allow(dead_code)] // each user takes what it needs

use std::collections::BTreeMap;

use linerate_account::{Held, Station};
use linerate_evidence::{Carries, HostFacts, TargetFacts, Validity, ValidityState};
use linerate_model::{OpRate, Plan};
use linerate_report::*;
use linerate_roofline::{Advice, Answer, Assessed, Kind, Predicted, State, Verdict};

mod split;
mod users;

pub use users::users;

/// Default httpd, 10 connections, held by Nagle with delayed ACK.
pub fn nagle() -> RunDocument {
    let roofs = vec![
        roof(
            "tcp.nagle-delayed-ack",
            "Nagle with delayed ACK",
            Kind::Defect,
            248.0,
            246.98,
            "10 connections / 40.4 ms = 248/s",
            "2,465 delayed ACKs for 2,470 exchanges; the second write waited unsent in 97 % of samples",
        ),
        roof(
            "load.concurrency",
            "Concurrency",
            Kind::Demand,
            248.0,
            246.98,
            "10 outstanding / 40.4 ms = 248/s",
            "service time is a wait and not work: the target used 0.6 % of a CPU",
        ),
        roof(
            "target.cpu",
            "CPU of the target",
            Kind::Resource,
            39_200.0,
            246.98,
            "2 CPUs / 51.0 us of CPU an exchange = 39,200/s",
            "0.6 % busy",
        ),
        roof(
            "engine.cpu",
            "Load engine",
            Kind::Resource,
            178_000.0,
            246.98,
            "1 thread / 5.62 us of CPU an exchange = 178,000/s",
            "0.2 % busy",
        ),
        without(
            "load.offered-rate",
            "Offered rate",
            State::DoesNotApply,
            "closed loop: no rate was asked for",
        ),
        without(
            "tcp.ephemeral-ports",
            "Ephemeral ports",
            State::DoesNotApply,
            "connections are kept",
        ),
        without(
            "tcp.listen-backlog",
            "Listen backlog",
            State::Unmeasured,
            "needs tcp_diag.backlog of listener/8080; source tcp_diag could not be read: permission denied",
        ),
    ];
    let roofs = binding_first(roofs, &["tcp.nagle-delayed-ack", "load.concurrency"]);
    let mut run = run(10, 246.98, 40_400.0, roofs);
    run.advice = vec![nodelay()];
    run.unread = BTreeMap::from([("tcp_diag".into(), "permission denied".into())]);
    run.account = Some(split::account(
        246.98,
        9.98,
        &[
            (Station::Unread, None, 0.001),
            (Station::Application, None, 0.012),
            (Station::ServerSending, Some(Held::Nagle), 0.972),
            (Station::PathBack, None, 0.004),
            (Station::Engine, None, 0.008),
        ],
    ));
    run
}

/// A Python server with four workers that each sleep 20 ms.
pub fn pool() -> RunDocument {
    let pool = roof(
        "app.pool",
        "a pool inside the server",
        Kind::Resource,
        199.0,
        198.4,
        "4 at a time / 20.1 ms = 199/s",
        "31.9 of 32.0 requests are in the application; its CPUs: 0.04 of 2 used; half of the connections gave 199/s and all of them 198/s; its threads: 28.0 in a lock or an empty queue, 4.0 in a timer",
    );
    let others = [
        (
            "host.cpu",
            "CPUs of the machine",
            4_281.0,
            "2 CPUs / 467 us of CPU an exchange = 4,281/s",
        ),
        (
            "target.cpu",
            "CPU of the target",
            8_900.0,
            "2 CPUs / 225 us of CPU an exchange = 8,900/s",
        ),
        ("engine.cpu", "Load engine", 61_000.0, "1 thread / 16.4 us of CPU an exchange = 61,000/s"),
    ];
    let other = |(id, title, at, sum): &(&str, &str, f64, &str)| {
        roof(id, title, Kind::Resource, *at, 198.4, sum, "hardly used")
    };
    let roofs = std::iter::once(pool).chain(others.iter().map(other)).collect();
    let mut run = run(32, 198.4, 161_290.0, binding_first(roofs, &["app.pool"]));
    run.plan.name = "pool".into();
    run.account = Some(split::account(
        198.4,
        32.0,
        &[
            (Station::Unread, None, 0.0013),
            (Station::Application, None, 0.9962),
            (Station::Brief, None, 0.0014),
        ],
    ));
    run.inside = Some(Inside {
        running: 0.04,
        runnable: 0.01,
        asleep: 31.83,
        threads: Some(Threads {
            lock: 28.0,
            timer: 4.0,
            fullest: 0.01,
            says: "28.0 in a lock or an empty queue, 4.0 in a timer".into(),
            ..Threads::default()
        }),
        ..Inside::default()
    });
    run.experiment = Some(split::experiment(32, 4.0, 0.0201));
    run.limit = Some(Limit {
        id: Some("app.pool".into()),
        place: Some("application".into()),
        regime: "full".into(),
        at_once: Some(4.0),
        rate_per_s: Some(199.0),
        says: run.verdict.says.to_owned(),
        also: Vec::new(),
    });
    run.latency = Some(Latency {
        station: Station::Application,
        seconds: 0.1607,
        share: 0.9962,
        says: "161 ms of 161 ms in the application, mostly asleep (99.6 %)".into(),
    });
    run.advice = vec![Advice {
        knob: "by-hand".into(),
        value: "change".into(),
        does: "serves as many requests at a time as arrive".into(),
        by_hand: "a larger pool: worker threads or processes, database connections, permits of a semaphore; or less time in each".into(),
        predicted: predicted(1_510.0, 1_580.0, 1_600.0),
        is_bound: false,
    }];
    run
}

/// The same where everything that can be said is to be said.
pub fn crowded() -> RunDocument {
    let mut run = pool();
    run.validity = Validity {
        state: ValidityState::Suspect,
        reasons: vec![
            "throughput changed in the middle of the measured stretch: run longer (-d), or see the time series".into(),
            "the engine was throttled by its own control group in 12 % of the periods".into(),
            "other tenants used 40 % of the CPUs".into(),
        ],
    };
    run.load.errors = BTreeMap::from([("reset".into(), 41), ("refused".into(), 7)]);
    run.load.status = [0, 1_900, 0, 0, 90];
    if let Some(half) = run.experiment.as_mut().and_then(|of| of.half.as_mut()) {
        half.inside = Some(false);
        half.measured_per_s = 150.0;
    }
    if let Some(account) = &mut run.account {
        account.disagreement = 0.12;
    }
    if let Some(limit) = &mut run.limit {
        limit.also = vec!["app.disk".into(), "app.wait".into()];
    }
    run.advice = vec![nodelay()];
    run
}

fn nodelay() -> Advice {
    Advice {
        knob: "nodelay".into(),
        value: "true".into(),
        does: "The second write of a response leaves at once, and no longer waits for the ACK of the first.".into(),
        by_hand: "{socket_type, {ip_comm, [{nodelay, true}]}}   % in the httpd configuration, inets of OTP 25 and up".into(),
        predicted: predicted(20_000.0, 38_600.0, 45_000.0),
        is_bound: false,
    }
}

/// The same with nodelay: held by the CPU.
pub fn cpu(connections: u32, per_s: f64) -> RunDocument {
    let us = f64::from(connections) / per_s * 1e6;
    let roofs = vec![
        roof(
            "target.cpu",
            "CPU of the target",
            Kind::Resource,
            per_s * 1.03,
            per_s,
            &format!(
                "2 CPUs / {:.1} us of CPU an exchange = {:.0}/s",
                2e6 / per_s / 1.03,
                per_s * 1.03
            ),
            "97 % busy, and run queues were never empty",
        ),
        roof(
            "load.concurrency",
            "Concurrency",
            Kind::Demand,
            per_s * 1.6,
            per_s,
            &format!("{connections} outstanding / {:.0} us = {:.0}/s", us / 1.6, per_s * 1.6),
            "the service time holds queueing for the CPU",
        ),
        roof(
            "engine.cpu",
            "Load engine",
            Kind::Resource,
            178_000.0,
            per_s,
            "1 thread / 5.62 us of CPU an exchange = 178,000/s",
            "22 % busy",
        ),
        without(
            "tcp.nagle-delayed-ack",
            "Nagle with delayed ACK",
            State::DoesNotApply,
            "TCP_NODELAY is set on the server's sockets",
        ),
    ];
    let mut run = run(connections, per_s, us, binding_first(roofs, &["target.cpu"]));
    run.account = Some(split::account(
        per_s,
        f64::from(connections),
        &[
            (Station::Unread, None, 0.62),
            (Station::Application, None, 0.21),
            (Station::Brief, None, 0.09),
            (Station::Engine, None, 0.07),
        ],
    ));
    run
}

/// Open loop past what the target can do: some requests are never answered.
pub fn overloaded() -> RunDocument {
    let roofs = vec![
        roof(
            "target.cpu",
            "CPU of the target",
            Kind::Resource,
            39_800.0,
            39_400.0,
            "2 CPUs / 50.2 us of CPU an exchange = 39,800/s",
            "99 % busy",
        ),
        roof(
            "load.offered-rate",
            "Offered rate",
            Kind::Demand,
            45_000.0,
            39_400.0,
            "45,000/s were asked for",
            "the target did not keep up",
        ),
    ];
    let mut run = run(100, 39_400.0, 2_400.0, binding_first(roofs, &["target.cpu"]));
    run.plan = Plan::from_toml(
        "name = 'overload'\n[target]\nbeam = 'httpd'\n[load]\nconnections = 100\nrate = '45k'\narrivals = 'poisson'\n",
    )
    .expect("the plan is whole");
    run.load.latency_us = distribution(820_000.0, 450_000, Some(99.0));
    run.load.lateness_us = distribution(800_000.0, 450_000, None);
    run.load.own_lateness_us = distribution(40.0, 450_000, None);
    run.load.errors = BTreeMap::from([("reset".into(), 41), ("refused".into(), 7)]);
    run.load.timed_out = 1_203;
    run.load.in_flight_at_end = 5_210;
    run.load.scheduled = 450_000;
    run.load.status = [0, 390_000, 0, 0, 3_539];
    run.validity = Validity {
        state: ValidityState::Suspect,
        reasons: vec!["throughput changed in the middle of the measured stretch: run longer (-d), or see the time series".into()],
    };
    run
}

/// Nothing was answered, and nothing is known.
pub fn void() -> RunDocument {
    let mut run = run(
        10,
        0.0,
        0.0,
        vec![without(
            "tcp.nagle-delayed-ack",
            "Nagle with delayed ACK",
            State::Unmeasured,
            "needs tcp.unacked of flow/*/server",
        )],
    );
    run.load.latency_us = Distribution::default();
    run.load.service_us = Distribution::default();
    run.load.first_byte_us = Distribution::default();
    run.load.connect_us = Distribution::default();
    run.load.throughput_interval_per_s = [0.0, f64::INFINITY];
    run.load.errors = BTreeMap::from([("refused".into(), 10)]);
    run.load.series.clear();
    run.load.status = [0; 5];
    run.validity = Validity {
        state: ValidityState::Void,
        reasons: vec!["nothing was answered in the measured stretch".into()],
    };
    run.verdict = Verdict::none(
        Answer::Unexplained,
        "no known limit explains 0/s: every ceiling below is higher, or could not be measured"
            .into(),
    );
    run.ended = "interrupted".into();
    run
}

/// A target that tries to get into the page and the terminal.
pub fn hostile() -> RunDocument {
    let mut run = nagle();
    let name = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>\u{1b}[2J|`code`";
    run.plan.name = name.into();
    run.target.name = name.into();
    run.target.readback = BTreeMap::from([(name.into(), name.into())]);
    run.roofline.roofs[0].title = name.into();
    run.roofline.roofs[0].sum = name.into();
    run.advice[0].by_hand = name.into();
    run.unread = BTreeMap::from([(name.into(), name.into())]);
    run.load.errors = BTreeMap::from([(name.into(), 3)]);
    run
}

/// nodelay, then more connections; the second prediction misses.
pub fn climb() -> ClimbDocument {
    let step = |turned: Advice, before: f64, after: f64, run| {
        let ratio = after / before;
        Step {
            prediction_held: Some(turned.predicted.holds(OpRate(after))),
            effect: Some(Effect {
                before_per_s: vec![before, before * 1.01],
                after_per_s: vec![after * 0.98, after * 1.02],
                ratio,
                interval: [ratio * 0.96, ratio * 1.04],
                says: format!("x{ratio:.3} ({:.3} to {:.3})", ratio * 0.96, ratio * 1.04),
                predicted_per_s: Some(turned.predicted),
            }),
            turned: Some(turned),
            because: None,
            run,
        }
    };
    let more = Advice {
        knob: "load.connections".into(),
        value: "100".into(),
        does: "More exchanges are outstanding, so the target waits less for the next one.".into(),
        by_hand: "linerate run -c 100".into(),
        predicted: predicted(44_000.0, 52_000.0, 60_000.0),
        is_bound: false,
    };
    let mut missed = step(more, 39_900.0, 40_600.0, cpu(100, 40_600.0));
    missed.because = Some("target.cpu is the limit below that rate".into());
    ClimbDocument {
        schema: "linerate/climb/1".into(),
        program: "0.1.0".into(),
        name: "httpd".into(),
        steps: vec![
            Step { turned: None, effect: None, prediction_held: None, because: None, run: nagle() },
            step(nodelay(), 246.98, 39_900.0, cpu(10, 39_900.0)),
            missed,
        ],
        ended: "the CPU of the target binds, and no knob gives it more CPUs".into(),
    }
}

/// Five servers at five connection counts, published for four of them.
pub fn study() -> StudyDocument {
    let counts = [1u32, 10, 50, 100, 500];
    let series: [(&str, f64, f64, Option<[f64; 5]>); 5] = [
        ("erlang (default)", 24.75, 1e9, Some([24.70, 246.98, 1_240.0, 2_474.0, 12_300.0])),
        (
            "erlang (nodelay)",
            11_000.0,
            40_600.0,
            Some([12_482.0, 81_997.0, 152_796.0, 168_412.0, 160_000.0]),
        ),
        ("erlang (one write)", 11_800.0, 47_300.0, None),
        ("node.js", 9_800.0, 21_000.0, Some([10_215.0, 38_447.0, 51_363.0, 52_722.0, 52_000.0])),
        ("go", 14_000.0, 58_000.0, Some([14_900.0, 95_000.0, 171_000.0, 180_000.0, 181_000.0])),
    ];
    let mut rows = Vec::new();
    for (name, one, most, published) in series {
        for (index, connections) in counts.into_iter().enumerate() {
            let per_s = (one * f64::from(connections)).min(most);
            let mut run = if most > 1e8 { nagle() } else { cpu(connections, per_s) };
            if most > 1e8 {
                run.plan.load.connections = connections;
                for roof in run.roofline.roofs.iter_mut().filter(|roof| roof.binds) {
                    roof.ceiling = Some(OpRate(24.8 * f64::from(connections)));
                    roof.sum = format!(
                        "{connections} connections / 40.4 ms = {:.1}/s",
                        24.8 * f64::from(connections)
                    );
                }
                run.load.throughput_per_s = per_s;
                run.roofline.attained = per_s;
            }
            rows.push(StudyRow {
                published_connections: None,
                predicted_per_s: None,
                case: None,
                published_bit_s: None,
                measured_bit_s: None,
                rounds_bit_s: Vec::new(),
                series: name.into(),
                connections,
                published_per_s: published.map(|published| published[index]),
                published_mean_us: None,
                run,
            });
        }
    }
    StudyDocument {
        scan: Vec::new(),
        cases: None,
        wire: Vec::new(),
        published_wire_bit_s: None,
        parts: Vec::new(),
        accounts: Vec::new(),
        users: None,
        scale: None,
        schema: "linerate/study/1".into(),
        program: "0.1.0".into(),
        name: "http-nodelay".into(),
        about: "Erlang's inets httpd answers with the time of day. Published in 2018: one socket option makes it several hundred times as fast.".into(),
        rows,
        claims: vec![
            Claim { says: "By default throughput is connections / 40.4 ms.".into(), held: Some(true), because: "24.8/s at 1 connection, 248/s at 10: each within 0.5 % of the sum".into() },
            Claim { says: "With nodelay it is at least 60 times as fast at 50 connections.".into(), held: Some(false), because: "x32.7: 2 CPUs carry both ends here".into() },
        ],
    }
}

/// What moves between two nodes: two series over two sizes, the wire beside them, and the parts.
pub fn link() -> StudyDocument {
    let mut rows = Vec::new();
    for (series, rates, published) in [
        ("the link", [11.2e9, 15.3e9], Some([14.4e9, 7.6e9])),
        ("gen_tcp <a connection a pair>", [11.7e9, 26.3e9], None),
    ] {
        for (index, case) in [60_000u32, 10_000_000].into_iter().enumerate() {
            let bytes_per_s = rates[index] / 8.0;
            let mut run = cpu(100, bytes_per_s / f64::from(case) / 16.0);
            run.target.carries = Some(Carries { messages: 16, bytes: u64::from(case) * 16 });
            run.load.carried = Some(Carried {
                messages_per_s: bytes_per_s / f64::from(case),
                bytes_per_s,
                cpu_us_per_message: Some(74.5),
                switches_per_message: (index == 0).then_some(0.68),
                nodes_cpu: (index == 1).then_some(NodesCpu {
                    near_user_us: 100.0,
                    near_kernel_us: 4000.0,
                    far_user_us: 900.0,
                    far_kernel_us: 1500.0,
                    cpus_left: 2.0,
                }),
                latency_us: None,
                work: (index == 1).then_some(NodesWork {
                    near: NodeWork {
                        reductions: Some(400.0),
                        all_reductions: Some(500.0),
                        port_calls: Some(2.5),
                        kernel_copied_bytes: Some(10_000_100.0),
                        schedulers_us: Some(SchedulersTime {
                            processes: 50.0,
                            own_processes: Some(40.0),
                            ports: 4_000.0,
                            check_io: 20.0,
                            gc: 5.0,
                            other: 10.0,
                            sleep: 900.0,
                        }),
                    },
                    far: NodeWork { all_reductions: Some(700.0), ..NodeWork::default() },
                }),
                system_calls: (index == 1).then_some(SystemCalls {
                    all: 400.0,
                    near: 180.0,
                    writes: 160.0,
                    reads: 155.0,
                    polls: 50.0,
                    futexes: 30.0,
                }),
            });
            rows.push(StudyRow {
                series: series.into(),
                connections: 100,
                published_connections: None,
                published_per_s: None,
                published_mean_us: None,
                predicted_per_s: None,
                case: Some(case),
                published_bit_s: published.map(|published| published[index]),
                measured_bit_s: Some(rates[index]),
                rounds_bit_s: vec![rates[index], rates[index] * 0.9, rates[index] * 1.05],
                run,
            });
        }
    }
    let wire = |case, bit_s| Wire {
        case,
        bit_s,
        rounds_bit_s: Vec::new(),
        stream_bit_s: None,
        says: "iperf 3.12, one stream".into(),
    };
    let step = |says: &str, series: &str, bit_s| (says.to_owned(), series.to_owned(), bit_s);
    let cost = |says: &str, node, us_per_mb, by: &str| LinkCost {
        says: says.into(),
        node,
        us_per_mb,
        by: by.into(),
        copies: Some(u32::from(says == "writev" || says == "recv")),
    };
    let costs = vec![
        cost("encode", End::Near, 0.26, "by itself: `encode, alone`"),
        cost("writev", End::Near, 270.0, "kernel time of the node that sends"),
        cost("recv", End::Far, 150.0, "kernel time of the node that receives"),
    ];
    let of = ("one pair, the link".to_owned(), 10_000_000);
    let run = LinkRun {
        measured_bit_s: 28e9,
        on_their_way: 8,
        pairs: 1,
        cpus_left: 1.9,
        near_cpu_us_per_mb: 280.0,
        far_cpu_us_per_mb: 200.0,
    };
    let account = LinkAccount::of(of, costs, run);
    StudyDocument {
        scan: Vec::new(),
        cases: Some("bytes a message".into()),
        wire: vec![wire(60_000, 45e9), wire(10_000_000, 46e9)],
        published_wire_bit_s: Some(28.5e9),
        users: None,
        parts: LinkPart::steps([
            step("iperf 3.12", "wire", 45e9),
            step("gen_tcp", "one pair, bytes", 40e9),
            step("the link instead", "one pair, the link", 28e9),
        ]),
        accounts: Vec::from_iter(account),
        scale: None,
        schema: "linerate/study/1".into(),
        program: "0.1.0".into(),
        name: "dist-link".into(),
        about: "One link against the wire.".into(),
        rows,
        claims: vec![
            Claim {
                says: "Large messages are slower.".into(),
                held: Some(false),
                because: "15.30 Gbit/s against 11.20 Gbit/s: x1.37".into(),
            },
            Claim {
                says: "gen_server:call is slower.".into(),
                held: None,
                because: "not measured in this run".into(),
            },
        ],
    }
}

/// Three gates, one of them breached, and labels.
pub fn gated() -> RunDocument {
    let mut run = nagle();
    run.plan.labels = BTreeMap::from([("build".into(), "1423 <main>".into())]);
    run.load.target_cpu_us_per_exchange = Some(52.8);
    run.load.codes = BTreeMap::from([("200".into(), 240), ("404".into(), 8)]);
    run.load.wrong = Some(BTreeMap::from([("status".into(), 8)]));
    let gate =
        |gate: &str, breached, says: &str| Gated { gate: gate.into(), breached, says: says.into() };
    run.gates = vec![
        gate("p99>10ms", true, "p99 is 40.450 ms"),
        gate("limit=path.*", false, "the limit is tcp.nagle-delayed-ack"),
        gate("unread>20%", false, "0 % of the requests under way are there"),
    ];
    run
}

/// Three values of two knobs; the last run may not be believed. No name was given, but a label.
pub fn scan() -> StudyDocument {
    let of = |connections: u32, nodelay: &str, mut run: RunDocument| {
        run.plan.name = "run".into();
        run.plan.labels = BTreeMap::from([("build".into(), "1423".into())]);
        run.plan.load.connections = connections;
        let values = [("c", connections.to_string()), ("nodelay", nodelay.to_owned())];
        (values.map(|(knob, value)| (knob.to_owned(), value)).into(), run)
    };
    let mut void = void();
    void.plan.target = nagle().plan.target;
    StudyDocument::of_scan(
        "c=1,10 nodelay=off,on".into(),
        vec![of(1, "off", nagle()), of(10, "on", cpu(10, 20_120.0)), of(10, "off", void)],
    )
}

fn run(connections: u32, per_s: f64, us: f64, roofs: Vec<Assessed>) -> RunDocument {
    let mut plan =
        Plan::from_toml("name = 'httpd'\n[target]\nbeam = 'httpd'\n").expect("the plan is whole");
    plan.load.connections = connections;
    let exchanges = (per_s * 10.0) as u64;
    let bound = roofs.iter().find(|roof| roof.binds);
    let verdict = match bound {
        Some(roof) => {
            let says = format!("{}: {}", roof.title, roof.sum);
            Verdict { state: Answer::Bound, by: Some(roof.id.clone()), says }
        }
        None => Verdict::none(Answer::Unexplained, "no known limit explains it".into()),
    };
    RunDocument {
        schema: "linerate/run/1".into(),
        program: "0.1.0".into(),
        started: "2026-01-31T09:30:00Z".into(),
        ended: "done".into(),
        plan,
        host: HostFacts {
            kernel: "6.1.0".into(),
            cpu_model: "Example CPU at 2.5 GHz".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            descriptors: 20_000,
            sysctls: BTreeMap::from([
                ("net.core.somaxconn".into(), "4096".into()),
                ("net.ipv4.tcp_congestion_control".into(), "cubic".into()),
            ]),
            engine_cpus: 2,
            engine_threads: 1,
        },
        target: TargetFacts {
            kind: "beam".into(),
            address: "127.0.0.1:8080".into(),
            local: true,
            through_node: false,
            copied: false,
            pid: Some(4_242),
            name: "httpd".into(),
            cpus: Some(2),
            schedulers: Some(2),
            knobs: BTreeMap::from([("nodelay".into(), "false".into())]),
            readback: BTreeMap::from([("nodelay".into(), "false".into())]),
            turnable: BTreeMap::from([("nodelay".into(), vec!["true".into(), "false".into()])]),
            carries: None,
        },
        engine_hosts: Vec::new(),
        load: Load {
            exchanges,
            throughput_per_s: per_s,
            throughput_interval_per_s: [per_s * 0.997, per_s * 1.003],
            measured_s: 10.0,
            warm_up_s: 0.6,
            warm_up_because: "throughput changed from 201/s to 247/s".into(),
            latency_us: distribution(us, exchanges, None),
            service_us: distribution(us, exchanges, None),
            first_byte_us: distribution(us * 0.02, exchanges, None),
            lateness_us: Distribution::default(),
            own_lateness_us: Distribution::default(),
            connect_us: distribution(85.0, u64::from(connections), None),
            scheduled: exchanges + 130,
            answered: exchanges + 130,
            errors: BTreeMap::new(),
            timed_out: 0,
            lost: 0,
            in_flight_at_end: 0,
            in_flight_mean: f64::from(connections) * 0.998,
            in_flight_by_little: f64::from(connections) * 0.997,
            availability: None,
            codes: BTreeMap::new(),
            wrong: None,
            status: [0, exchanges + 130, 0, 0, 0],
            connections_opened: u64::from(connections),
            written_bytes_per_s: per_s * 62.0,
            read_bytes_per_s: per_s * 181.0,
            engine_cpu_us_per_exchange: 5.62,
            target_cpu_us_per_exchange: None,
            carried: None,
            streamed: None,
            engine_busiest_thread: (per_s * 5.62e-6).min(0.99),
            stages: Vec::new(),
            series: (1..=53)
                .map(|slice| SeriesPoint {
                    at_s: f64::from(slice) * 0.2,
                    measured: slice > 3,
                    throughput_per_s: if slice > 3 {
                        per_s * (1.0 + 0.02 * f64::from(slice).sin())
                    } else {
                        per_s * 0.8
                    },
                    p50_us: Some(us),
                    p99_us: (slice != 20).then_some(us * (1.2 + 0.1 * f64::from(slice * 7).sin())),
                    in_flight: u64::from(connections),
                    failed: u64::from(slice == 30),
                })
                .collect(),
            // An empty histogram.
            histogram_v2_base64: "HISTEwAAAAEAAAAAAAAAAwAAAAAAAAAB//////////8/8AAAAAAAAAA=".into(),
            breakdown: Breakdown::default(),
        },
        validity: Validity::default(),
        roofline: Roofline { unit: "exchanges/s".into(), attained: per_s, roofs },
        verdict,
        limit: None,
        latency: None,
        account: None,
        inside: None,
        experiment: None,
        advice: Vec::new(),
        gates: Vec::new(),
        unread: BTreeMap::new(),
    }
}

/// A tail of the usual shape: each nine adds a little to the median.
/// Two sites 10 ms apart, two servers each: half of the exchanges cross.
pub fn across_sites() -> RunDocument {
    let (near, far) = (310.0, 10_260.0);
    let mut run = run(200, 37_800.0, (near + far) / 2.0, Vec::new());
    run.plan.name = "across-sites".into();
    let portion = |from: Option<&str>, to: &str, us: f64, share: f64| Portion {
        from: from.map(str::to_owned),
        to: to.into(),
        near: from.map(|from| from == to),
        exchanges: (378_000.0 * share) as u64,
        throughput_per_s: 37_800.0 * share,
        share,
        service_us: distribution(us, (378_000.0 * share) as u64, None),
        alone_us: Some(us * 0.9),
        chosen: (378_130.0 * share) as u64,
        answered: (378_130.0 * share) as u64 - 1,
        errors: BTreeMap::from([("reset".into(), 1)]),
        timed_out: 0,
    };
    let of_pair = |from, to| portion(Some(from), to, if from == to { near } else { far }, 0.25);
    let of_server = |name| portion(None, name, (near + far) / 2.0, 0.25);
    run.load.breakdown = Breakdown {
        by_sites: [("east", "east"), ("east", "west"), ("west", "east"), ("west", "west")]
            .map(|(from, to)| of_pair(from, to))
            .into(),
        by_server: ["east-s1", "east-s2", "west-s1", "west-s2"].map(of_server).into(),
    };
    run
}

fn distribution(us: f64, count: u64, at_least_from: Option<f64>) -> Distribution {
    if count == 0 {
        return Distribution::default();
    }
    let nines = |percentile: f64| -(1.0 - percentile / 100.0).max(1.0 / count as f64).log10();
    let value = |percentile: f64| {
        us * (0.96 + 0.08 * nines(percentile) + 0.012 * nines(percentile).powi(3))
    };
    let listed = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];
    let rounded = |percentile: f64| [percentile, (value(percentile) * 10.0).round() / 10.0];
    Distribution {
        count,
        mean: us,
        percentiles: listed.map(rounded).to_vec(),
        at_least_from,
        curve: (0..=40)
            .map(|step| 100.0 - 100.0 * 10f64.powf(-f64::from(step) / 8.0))
            .chain([100.0])
            .map(rounded)
            .collect(),
    }
}

fn roof(
    id: &str,
    title: &str,
    kind: Kind,
    ceiling: f64,
    attained: f64,
    sum: &str,
    because: &str,
) -> Assessed {
    Assessed {
        id: id.into(),
        title: title.into(),
        kind,
        state: State::Ceiling,
        ceiling: Some(OpRate(ceiling)),
        sum: sum.into(),
        share: Some(attained / ceiling),
        binds: false,
        because: because.into(),
    }
}

fn without(id: &str, title: &str, state: State, why: &str) -> Assessed {
    Assessed {
        state,
        ceiling: None,
        share: None,
        ..roof(id, title, Kind::Resource, 1.0, 0.0, why, "")
    }
}

fn binding_first(mut roofs: Vec<Assessed>, binding: &[&str]) -> Vec<Assessed> {
    for roof in &mut roofs {
        roof.binds = binding.contains(&roof.id.as_str());
    }
    roofs
}

fn predicted(low: f64, mid: f64, high: f64) -> Predicted {
    Predicted { low: OpRate(low), mid: OpRate(mid), high: OpRate(high) }
}

/// A node held by Nagle, watched from inside and out.
pub fn doctor() -> DoctorDocument {
    let run = nagle();
    let kernel = Kernel {
        rtt_us: 20_400.0,
        min_rtt_us: 4.0,
        unacked: 1,
        notsent_bytes: 100,
        unread_bytes: 0,
        retransmitted: 0,
        window_limited: Some(0.0),
    };
    let words = |words: &[(&str, &str)]| {
        words.iter().map(|(name, says)| ((*name).to_owned(), (*says).to_owned())).collect()
    };
    let connection = Connection {
        local: "127.0.0.1:8080".into(),
        peer: "127.0.0.1:40100".into(),
        owner: Some("httpd_request_handler:init/1 <0.812.0>".into()),
        mailbox: Some(0),
        reads_per_s: 24.7,
        read_bytes_per_s: 2_470.0,
        written_bytes_per_s: 9_880.0,
        driver_queue_bytes: Some(0),
        options: words(&[("nodelay", "false"), ("buffer", "1460"), ("active", "once")]),
        kernel: Some(kernel),
        trouble: vec!["bytes unsent in 97 % of samples".into()],
        alike: 9,
    };
    let vital = |what: &str, says: &str, well| Vital { what: what.into(), says: says.into(), well };
    DoctorDocument {
        schema: "linerate/doctor/1".into(),
        program: run.program.clone(),
        started: run.started.clone(),
        ended: "done".into(),
        watched: "shop@db1".into(),
        seconds: 10.0,
        host: run.host.clone(),
        target: TargetFacts {
            kind: "watch".into(),
            name: "shop@db1".into(),
            local: true,
            pid: Some(4711),
            ..TargetFacts::default()
        },
        node: words(&[("node", "shop@db1"), ("otp", "25")]),
        traffic: Traffic {
            reads_per_s: 246.98,
            reads_interval_per_s: [244.0, 250.0],
            read_bytes_per_s: 24_700.0,
            written_bytes_per_s: 98_800.0,
            sampled: 10,
            connections: Some(1_210),
            opened_per_s: 0.0,
            series: vec![246.0, 248.0],
        },
        verdict: run.verdict.clone(),
        limit: None,
        latency: None,
        account: Some(split::account(
            246.98,
            180.0,
            &[
                (Station::Unread, None, 21.0 / 180.0),
                (Station::Application, None, 150.0 / 180.0),
                (Station::ServerSending, Some(Held::Nagle), 9.0 / 180.0),
            ],
        ))
        .map(|of| Account {
            source: Source::Headers,
            instants: 0.0,
            agreement: Vec::new(),
            disagreement: 0.0,
            ..of
        }),
        inside: None,
        ports: vec![Port {
            port: 8080,
            connections: 1_500.0,
            idle: 1_320.0,
            application: 150.0,
            unread: 21.0,
            held_nagle: 9.0,
            exchanges: Some(Exchanges {
                per_s: 246.98,
                under_way: 171.0,
                service_us: 692_000.0,
                p50_us: 40_400.0,
                p99_us: 2_100_000.0,
                alternate: true,
                ..Exchanges::default()
            }),
            ..Port::default()
        }],
        roofline: Roofline { unit: "reads/s".into(), ..run.roofline.clone() },
        advice: run.advice.clone(),
        connections: vec![
            connection.clone(),
            Connection {
                peer: "[2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff]:40100".into(),
                kernel: None,
                trouble: Vec::new(),
                alike: 1,
                ..connection
            },
        ],
        sampled_processes: vec![SampledProcess {
            pid: "<0.77.0>".into(),
            name: Some("shop_ledger".into()),
            mailbox: 1_204,
            running: 0.95,
            memory_bytes: 70 << 20,
            function: Some("shop_ledger:handle_call/3".into()),
            waits: Some("running".into()),
        }],
        vitals: vec![
            vital("schedulers", "1.2 % of 2 busy", true),
            vital("descriptors", "990 of 1024", false),
        ],
        probe: Some(ProbeCost {
            share: 0.004,
            budget: Some("10 permille of one scheduler".into()),
            passes: 20,
            thinned: 0,
        }),
        applied: Some(Applied {
            knob: "nodelay".into(),
            value: "on".into(),
            says: "on 10 sockets, where it was off".into(),
            kept: false,
            effect: Effect {
                before_per_s: vec![246.0, 247.0],
                after_per_s: vec![38_100.0, 37_900.0],
                ratio: 154.0,
                interval: [151.0, 157.0],
                says: "x154 (151 to 157)".into(),
                predicted_per_s: None,
            },
        }),
        unread: BTreeMap::new(),
    }
}

/// A process that is no node, with nothing to do.
pub fn idle() -> DoctorDocument {
    let busy = doctor();
    DoctorDocument {
        watched: ":8080".into(),
        target: TargetFacts { name: "nginx".into(), ..busy.target.clone() },
        node: BTreeMap::new(),
        traffic: Traffic {
            reads_per_s: 0.0,
            reads_interval_per_s: [0.0, f64::INFINITY],
            read_bytes_per_s: 0.0,
            written_bytes_per_s: 0.0,
            sampled: 1,
            connections: None,
            series: Vec::new(),
            ..busy.traffic
        },
        verdict: Verdict::none(Answer::Idle, "idle: no traffic on 1 connection in 10.0 s".into()),
        account: None,
        ports: vec![Port { port: 8080, connections: 1.0, idle: 1.0, ..Port::default() }],
        roofline: Roofline { unit: "reads/s".into(), attained: 0.0, ..busy.roofline.clone() },
        advice: Vec::new(),
        connections: Vec::new(),
        sampled_processes: Vec::new(),
        probe: None,
        applied: None,
        unread: BTreeMap::from([("node".into(), "nginx is no BEAM node".into())]),
        ..busy
    }
}

/// Three runs against three, the second side slower by 8 %, and nothing known of one figure's spread.
pub fn compare() -> CompareDocument {
    let side = |per_s: f64| {
        let run = |number: i32| ComparedRun {
            file: format!("runs/{number}.json"),
            started: "2023-11-14T22:13:20Z".into(),
            throughput_per_s: per_s * (1.0 + 0.002 * f64::from(number)),
            limit: "host.cpu".into(),
        };
        (1..=3).map(run).collect()
    };
    let figure = |figure: &str, unit: &str, [before, after]: [f64; 2], interval, regressed| {
        let says = if regressed { "x0.92 (0.90 to 0.94)" } else { "no difference found" };
        ComparedFigure {
            figure: figure.into(),
            unit: unit.into(),
            before,
            after,
            ratio: after / before,
            interval,
            could_see: Some(0.02),
            says: says.into(),
            regressed,
        }
    };
    CompareDocument {
        gates: Vec::new(),
        schema: CompareDocument::SCHEMA.into(),
        program: "0.1.0".into(),
        name: Some("checkout".into()),
        labels: BTreeMap::from([("branch".into(), "main".into())]),
        before: side(11_000.0),
        after: side(10_120.0),
        tolerance: 0.05,
        false_alarms: 0.05,
        differs: vec!["target.knobs.active: absent -> \"passive\"".into()],
        notes: Vec::new(),
        figures: vec![
            figure("throughput", "/s", [11_000.0, 10_120.0], [0.9, 0.94], true),
            figure("latency p99", "us", [930.0, 935.0], [0.0, f64::INFINITY], false),
        ],
        regressed: true,
    }
}
