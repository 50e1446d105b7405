//! A study of users, made by hand: a chat that met no limit, an ejabberd that memory ended, and what was turned.

use std::collections::BTreeMap;

use linerate_report::{
    BytesEach, Claim, Fit, Held, HeldClass, HeldLevel, HeldMoment, HeldPoint, HeldRoof, HeldTimes,
    MetLimit, NextLimit, PublishedUsers, Purpose, Seen, StudyDocument, UserCost, Users, UsersClimb,
    UsersEffect, UsersSetting, UsersStudy,
};

const MIB: u64 = 1 << 20;

/// Ten levels of a tenth of these users each, every one with so many bytes of the VM.
fn held(users: u64, bytes: u64, stopped_by: Option<&str>) -> Held {
    let base = 40 * MIB;
    let points = (0..=10).map(|level| {
        let online = users * level / 10;
        let of = |part: u64| base / 4 + online * bytes * part / 10;
        let memory = [
            ("target.rss", base + online * bytes + 2 * MIB),
            ("vm.total", base + online * bytes),
            ("vm.processes", of(6)),
            ("vm.binary", of(1)),
            ("vm.ets", of(1)),
            ("vm.system", of(4)),
            ("kernel.slab", 90 * MIB + online * 6_900),
            ("kernel.tcp", 0),
        ];
        HeldPoint {
            at_s: Some(level as f64 * 3.0),
            idle: online / 5,
            active: online - online / 5,
            memory: memory.map(|(kind, bytes)| (kind.to_owned(), bytes)).into(),
            roofs: vec![HeldRoof {
                id: "target.descriptors".into(),
                what: "descriptors of the target".into(),
                used: online + 20,
                most: 20_000,
            }],
        }
    });
    let each = |kind: &str, bytes: f64, within| UserCost {
        kind: kind.into(),
        base: BytesEach { bytes: base as f64, within: 9_000.0 },
        idle: Some(BytesEach { bytes: bytes * 0.9, within }),
        active: Some(BytesEach { bytes: bytes * 1.1, within }),
        mean: Some(BytesEach { bytes, within }),
    };
    let times = |p50_ms: f64| HeldTimes {
        count: users,
        p50_ms,
        p90_ms: Some(p50_ms * 1.5),
        p99_ms: p50_ms * 4.0,
        p999_ms: p50_ms * 12.0,
        max_ms: p50_ms * 20.0,
    };
    let class = |name: &str, share, think: Option<&str>| HeldClass {
        name: name.into(),
        share,
        think: think.map(str::to_owned),
        connect: Some(times(0.03)),
        login: Some(times(2.0)),
        delivered: think.map(|_| times(0.5)),
        answered: None,
    };
    let failed: BTreeMap<String, u64> =
        stopped_by.map(|_| ("reset while online".to_owned(), 4)).into_iter().collect();
    let lost: u64 = failed.values().sum();
    let course = (0..=60).map(|half: u64| HeldMoment {
        at_s: half as f64 / 2.0,
        online: users * half / 60,
        failed: if half == 60 { lost } else { 0 },
        stage: if half % 6 < 2 { "adding" } else { "settling" }.into(),
    });
    Held {
        protocol: Some("line".into()),
        asked: users + users / 5,
        mix: "idle=20,semi-active=60@exp:60s,active=20@exp:10s".into(),
        held: users,
        hold_s: 20.0,
        most_online: users,
        fewest_in_hold: users,
        lost_processes: Vec::new(),
        engine_hosts: Vec::new(),
        dips: Vec::new(),
        interrupted: false,
        limit: stopped_by.map(|id| MetLimit {
            id: id.into(),
            says: "536870912 of 536870912 bytes of the target's memory cgroup are used".into(),
        }),
        met: stopped_by.map(|_| Seen {
            online: users,
            came: users,
            not_accepted: 0,
            failed: failed.clone(),
            p99_ns: None,
        }),
        forecast: None,
        next: vec![NextLimit {
            id: "target.descriptors".into(),
            what: "descriptors of the target".into(),
            holds: 19_978,
            used: users + 20,
            most: 20_000,
        }],
        account: Users {
            asked: users + lost,
            connecting: 0,
            logging_in: 0,
            online: users,
            closed: 0,
            failed,
        },
        levels: vec![HeldLevel {
            users: users as u32,
            online: users,
            clean: true,
            not_accepted: 0,
            failed: 0,
            messages: 800,
            p99_ns: Some(2_000_000),
            came_s: 1.2,
        }],
        classes: vec![
            class("idle", 0.2, None),
            class("semi-active", 0.6, Some("exp:60s")),
            class("active", 0.2, Some("exp:10s")),
        ],
        both_ends_here: true,
        costs: vec![
            each("kernel.slab", 6_900.0, 120.0),
            each("kernel.tcp", 0.0, 0.0),
            each("target.rss", bytes as f64 * 0.9, 600.0),
            each("vm.total", bytes as f64, 60.0),
        ],
        fit: Some(Fit {
            memory: 512 * MIB,
            users: (512 * MIB - base) / (bytes + 3_450),
            bytes_a_user: (bytes + 3_450) as f64,
            within: Some(85.0),
            base: base as f64,
        }),
        points: points.collect(),
        course: course.collect(),
    }
}

/// As it is when the target ended by itself, with some users more than the last clean level's: nobody is held any more.
fn ended(mut held: Held) -> Held {
    held.most_online += 137;
    (held.held, held.fewest_in_hold, held.account.online) = (0, 0, 0);
    held
}

pub fn users() -> StudyDocument {
    let climb = |series: &str, purpose, command: &str, held| UsersClimb {
        series: series.into(),
        purpose,
        round: 1,
        command: format!("linerate capacity {command}"),
        held,
    };
    let published = |os: &str, settings: &str, users| PublishedUsers {
        os: os.into(),
        settings: settings.into(),
        users,
    };
    StudyDocument {
        schema: "linerate/study/1".into(),
        program: "0.1.0".into(),
        name: "capacity".into(),
        about: "How many connected users one small host holds. Published in 2007: 16,506 to 23,898 of ejabberd in 512 MB.".into(),
        scale: None,
        rows: Vec::new(),
        claims: vec![
            Claim { says: "Memory is what ends ejabberd at last".into(), held: Some(true), because: "target.memory: its memory cgroup was full".into() },
            Claim { says: "ejabberd holds 16,506 users in 512 MB".into(), held: Some(false), because: "9,100 by what each takes".into() },
        ],
        scan: Vec::new(),
        cases: None,
        wire: Vec::new(),
        published_wire_bit_s: None,
        parts: Vec::new(),
        accounts: Vec::new(),
        users: Some(Box::new(UsersStudy {
            memory: 512 * MIB,
            published: vec![
                published("SuSE 9.3", "K", 23_898),
                published("Solaris 10", "K + A(25)", 16_506),
            ],
            settings: vec![
                UsersSetting {
                    says: "kernel poll (+K true)".into(),
                    then: "x1.34 users (SuSE 9.3)".into(),
                    today: "always on since OTP 21".into(),
                    series: Some("chat, +K false".into()),
                },
                UsersSetting {
                    says: "ETS tables".into(),
                    then: "met on the way".into(),
                    today: "no limit since OTP 20".into(),
                    series: None,
                },
            ],
            climbs: vec![
                climb("chat", Purpose::Server, "--beam chat -c 3600", held(3_000, 3_585, None)),
                climb(
                    "ejabberd",
                    Purpose::Server,
                    "'xmpp://127.0.0.1:{xmpp}' -c 1200",
                    ended(held(1_000, 51_000, Some("target.memory"))),
                ),
                climb(
                    "chat, 1,024 descriptors",
                    Purpose::Limit,
                    "--beam chat -k target.descriptors=1024",
                    held(1_000, 3_500, Some("target.descriptors")),
                ),
                climb("chat, as it comes", Purpose::Turned, "--beam chat", held(2_000, 3_500, None)),
                climb("chat, +K false", Purpose::Turned, "--beam chat", held(2_000, 3_525, None)),
            ],
            effects: vec![UsersEffect {
                series: "chat, +K false".into(),
                beside: "chat, as it comes".into(),
                rounds: 1,
                vm: Some(BytesEach { bytes: 25.0, within: 145.0 }),
                kernel: Some(BytesEach { bytes: -108.0, within: 189.0 }),
                rss: None,
                users: Some([0.99, 0.95, 1.03]),
            }],
            left_out: vec!["ejabberd, SCRAM was not measured: ejabberd is not installed".into()],
        })),
    }
}
