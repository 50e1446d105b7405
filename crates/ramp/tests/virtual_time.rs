//! Whole climbs in virtual time, against a service of a few lines.
#![allow(clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use linerate_model::Timestamp;
use linerate_ramp::{Action, Asked, Mix, Moment, Outcome, Ramp, Reading, Roof, Stage};
use linerate_session::{Act, Token};

/// A service that has so many places, and takes so long.
#[derive(Clone)]
struct Service {
    places: u64,
    /// Beyond them logins are answered by nothing; else they are refused at once.
    silent: bool,
    login: Duration,
    /// Of each message, for each user that is online.
    slower: Duration,
    /// When connections end, and of how many users.
    dies: Option<Timestamp>,
    lost: u32,
    /// How long they cannot connect after that.
    down: Duration,
    /// How long after that its process has ended; none: never.
    gone_after: Option<Duration>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            places: u64::MAX,
            silent: false,
            login: Duration::from_millis(1),
            slower: Duration::ZERO,
            dies: None,
            lost: 50,
            down: Duration::ZERO,
            gone_after: None,
        }
    }
}

impl Service {
    fn is_down_for(&self, user: u32, at: Timestamp) -> bool {
        user < self.lost && self.dies.is_some_and(|dies| at >= dies && at < dies.after(self.down))
    }
}

#[derive(Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Unreachable(u32),
    Connected(u32),
    Online(u32),
    Refused(u32),
    Answered(u64),
    Delivered(u64),
}

fn climb(asked: Asked, service: &Service) -> Outcome {
    climb_and_tell(asked, service, &mut Vec::new())
}

/// The same, with when each user connected.
fn climb_and_tell(
    asked: Asked,
    service: &Service,
    connects: &mut Vec<(Timestamp, u32)>,
) -> Outcome {
    let at_once = asked.rate.is_none().then_some(u64::from(asked.under_way));
    let mut at = Timestamp(1_000_000_000);
    let mut ramp = Ramp::new(asked, at);
    let mut events: BinaryHeap<Reverse<(Timestamp, Event)>> = BinaryHeap::new();
    let mut died = false;
    while !ramp.is_over() {
        while let Some(action) = ramp.poll(at) {
            assert!(ramp.account().closes(), "{:?}", ramp.account());
            let online = ramp.account().online;
            let half = at.after(service.login / 2);
            match action {
                Action::Connect(user) => {
                    connects.push((at, user));
                    events.push(Reverse((
                        half,
                        match service.is_down_for(user, at) {
                            true => Event::Unreachable(user),
                            false => Event::Connected(user),
                        },
                    )));
                    let account = ramp.account();
                    let under_way = account.connecting + account.logging_in;
                    assert!(at_once.is_none_or(|most| under_way <= most), "{account:?}");
                }
                Action::Close(_) => {}
                Action::Act(user, Act::Message { to, .. }, Token(token)) => {
                    assert!(to.0 != user || online == 1);
                    let slow = at.after(service.slower * u32::try_from(online).unwrap());
                    events.push(Reverse((slow, Event::Answered(token))));
                    events.push(Reverse((
                        slow.after(Duration::from_micros(50)),
                        Event::Delivered(token),
                    )));
                }
                Action::Act(..) => unreachable!(),
                Action::Measure(moment) => {
                    let reading = Reading {
                        at,
                        roofs: vec![Roof {
                            id: "target.places",
                            what: "places",
                            used: online.min(service.places),
                            most: service.places,
                        }],
                        cpus: 2,
                        died: service
                            .dies
                            .zip(service.gone_after)
                            .filter(|(dies, after)| at >= dies.after(*after))
                            .map(|_| "signal 9".into()),
                        ..Reading::default()
                    };
                    ramp.on_reading(moment, reading);
                }
            }
        }
        let next = events.peek().map_or(Timestamp(u64::MAX), |Reverse((at, _))| *at);
        at = at.max(next.min(ramp.next(at)));
        if service.dies.is_some_and(|dies| at >= dies) && !died {
            died = true;
            for user in 0..service.lost {
                ramp.on_failed(user, "reset", at);
                assert!(ramp.account().closes(), "{:?}", ramp.account());
            }
        }
        while let Some(Reverse((when, event))) = events.peek()
            && *when <= at
        {
            match event {
                Event::Connected(user) => {
                    let user = *user;
                    ramp.on_connected(user, at);
                    let rest = at.after(service.login / 2);
                    events.pop();
                    let account = ramp.account();
                    if account.online + account.logging_in <= service.places {
                        events.push(Reverse((rest, Event::Online(user))));
                    } else if !service.silent {
                        events.push(Reverse((rest, Event::Refused(user))));
                    }
                    continue;
                }
                Event::Unreachable(user) => ramp.on_failed(*user, "refused", at),
                Event::Online(user) => ramp.on_online(*user, at),
                Event::Refused(user) => ramp.on_failed(*user, "turned away: full", at),
                Event::Answered(token) => ramp.on_answered(Token(*token), at),
                Event::Delivered(token) => ramp.on_delivered(Token(*token), at),
            }
            events.pop();
            assert!(ramp.account().closes(), "{:?}", ramp.account());
        }
    }
    ramp.finish()
}

#[test]
fn a_hundred_thousand_users_are_held_and_their_mix_is_as_asked() {
    let outcome = climb(Asked::of(100_000), &Service::default());
    assert!(outcome.limit().is_none(), "{:?}", outcome.limit());
    assert_eq!(
        (outcome.held, outcome.fewest_in_hold, outcome.account.online),
        (100_000, 100_000, 100_000)
    );
    assert_eq!(outcome.account.all_failed() + outcome.account.closed, 0);
    assert!(outcome.levels.iter().all(|level| level.clean) && outcome.levels.len() == 10);
    let count = |live: &linerate_evidence::Live| live.recorded().map_or(0, |it| it.len());
    let logins: Vec<_> = outcome.classes.iter().map(|class| count(&class.login)).collect();
    assert_eq!(logins, [20_000, 60_000, 20_000]);
    // A message in 10 s is six times one a minute, of a third of the users.
    let messages: Vec<_> = outcome.classes.iter().map(|class| count(&class.delivered)).collect();
    assert_eq!(messages[0], 0);
    let ratio = messages[2] as f64 / messages[1] as f64;
    assert!((1.8..2.2).contains(&ratio), "{messages:?}");
}

#[test]
fn at_the_first_limit_nobody_is_added_and_the_highest_clean_level_is_held() {
    for silent in [false, true] {
        let service = Service { places: 950, silent, ..Service::default() };
        let outcome = climb(Asked::of(3_000), &service);
        let limit = outcome.limit().unwrap();
        assert_eq!(limit.id, "target.places", "{limit:?}");
        assert_eq!((outcome.held, outcome.most_online), (900, 950), "{silent}");
        assert_eq!(outcome.account.online, 900);
        assert!(outcome.account.closes());
        // Not one after another until all 3,000 have failed.
        assert!(outcome.account.asked < 1_100, "{:?}", outcome.account);
        assert_eq!(outcome.levels.iter().filter(|level| level.clean).count(), 3);
        let cause = if silent {
            "timed out while logging in"
        } else {
            "turned away: full while logging in"
        };
        assert!(outcome.account.failed.contains_key(cause), "{:?}", outcome.account);
    }
}

#[test]
fn a_level_of_two_users_that_are_both_turned_away_is_not_clean() {
    let service = Service { places: 0, ..Service::default() };
    let outcome = climb(Asked { mix: Mix::idle(), ..Asked::of(20) }, &service);
    assert_eq!((outcome.held, outcome.levels.len()), (0, 1));
    assert_eq!(outcome.limit().unwrap().id, "target.turns_away");
}

#[test]
fn a_level_whose_messages_are_late_is_not_clean() {
    // 2 ms a user: 1 s at 500.
    let service = Service { slower: Duration::from_millis(2), ..Service::default() };
    let mix = "idle=50,active=50@exp:5s".parse().unwrap();
    let asked = Asked { mix, settle: Duration::from_secs(20), ..Asked::of(1_000) };
    let outcome = climb(asked, &service);
    assert_eq!(outcome.held, 400);
    let met = outcome.met.as_ref().unwrap();
    assert!(met.p99_ns.unwrap() > 1_000_000_000 && met.failed.is_empty(), "{met:?}");
    assert_eq!(outcome.limit().unwrap().id, "unexplained");
}

#[test]
fn users_come_at_the_rate_that_was_asked() {
    let asked = Asked { rate: Some(100.0), levels: 1, mix: Mix::idle(), ..Asked::of(1_000) };
    let outcome = climb(asked, &Service::default());
    let came = outcome.levels[0].came_s;
    assert!((came - 10.0).abs() < 0.1, "{came}");
    assert_eq!(outcome.held, 1_000);
}

#[test]
fn users_that_are_away_for_most_of_the_hold_end_it_and_come_again_below_it() {
    // All 200 are online by then and held, from 11 s on.
    let dies = Some(Timestamp(16_000_000_000));
    let service = Service { dies, down: Duration::from_secs(11), ..Service::default() };
    let asked =
        Asked { levels: 2, mix: Mix::idle(), hold: Duration::from_secs(20), ..Asked::of(200) };
    let outcome = climb(asked, &service);
    let met = outcome.met.as_ref().unwrap();
    assert_eq!(met.failed.get("reset while online"), Some(&50), "{met:?}");
    assert_eq!(outcome.held, 100, "{:?}", outcome.account);
    assert!(outcome.account.closes());
    // Those of the last hold.
    assert!(outcome.dips.is_empty(), "{:?}", outcome.dips);
}

/// A thousand users, held from before 15 s on, of whom some lose their connection then.
fn interrupted(lost: u32, down: Duration) -> (Outcome, Vec<(Timestamp, u32)>) {
    let dies = Timestamp(15_000_000_000);
    let service = Service { dies: Some(dies), lost, down, ..Service::default() };
    let mut connects = Vec::new();
    let asked = Asked { levels: 1, hold: Duration::from_secs(40), ..Asked::of(1_000) };
    let outcome = climb_and_tell(asked, &service, &mut connects);
    connects.retain(|(at, _)| *at >= dies);
    (outcome, connects)
}

#[test]
fn users_of_a_server_that_is_started_again_come_back_and_the_dip_is_told() {
    for lost in [1_000, 500] {
        let (outcome, connects) = interrupted(lost, Duration::from_secs(3));
        let all = u64::from(lost);
        assert_eq!((outcome.held, outcome.account.online), (1_000, 1_000), "{:?}", outcome.dips);
        assert!(outcome.limit().is_none() && outcome.account.all_failed() == 0);
        assert_eq!(outcome.fewest_in_hold, 1_000 - all);
        let [dip] = &outcome.dips[..] else { panic!("{:?}", outcome.dips) };
        assert_eq!((dip.of, dip.fewest), (1_000, 1_000 - all));
        assert_eq!(dip.lost, [("reset while online".to_owned(), all)].into());
        let failed = dip.failed_again["refused while connecting"];
        // Each tried at least once, and less than four times, in three seconds.
        assert!((all..4 * all).contains(&failed), "{failed}");
        assert_eq!(connects.len() as u64, failed + all);
        // The longest pause before the one that succeeds is 4 s.
        let back = dip.back_after_s.unwrap();
        assert!((3.0..3.0 + 4.0).contains(&back), "{back}");
    }
}

#[test]
fn users_do_not_come_back_all_at_once() {
    let (_, connects) = interrupted(1_000, Duration::ZERO);
    let after_ms =
        |(at, _): &(Timestamp, u32)| at.nanos_since(Timestamp(15_000_000_000)) / 1_000_000;
    // Half a second, of which up to a half is taken off.
    assert!(connects.iter().all(|it| (250..=501).contains(&after_ms(it))), "{connects:?}");
    for tenth in 0..10 {
        let from = 250 + 25 * tenth;
        let count = connects.iter().filter(|it| (from..from + 25).contains(&after_ms(it))).count();
        assert!((60..140).contains(&count), "{tenth}: {count}");
    }
}

#[test]
fn a_target_that_is_seen_to_have_ended_after_its_connections_closed_ends_the_climb() {
    // While the second level is held. A first reading is too early to see it.
    let service = Service {
        dies: Some(Timestamp(8_000_000_000)),
        gone_after: Some(Duration::from_millis(100)),
        ..Service::default()
    };
    let outcome = climb(Asked { levels: 2, mix: Mix::idle(), ..Asked::of(200) }, &service);
    assert_eq!((outcome.held, outcome.limit().unwrap().id.as_str()), (0, "target.died"));
    assert_eq!(outcome.account.all_failed(), 50, "{:?}", outcome.account);
    assert!(outcome.account.closes());
}

#[test]
fn readings_are_taken_with_the_quiet_users_of_a_level_and_with_all() {
    let outcome = climb(Asked::of(1_000), &Service::default());
    let of = |moment: Moment| outcome.points.iter().filter(move |point| point.moment == moment);
    let quiet: Vec<_> = of(Moment::Quiet).map(|point| (point.idle, point.active)).collect();
    let whole: Vec<_> = of(Moment::Level).map(|point| (point.idle, point.active)).collect();
    assert_eq!(quiet[..2], [(20, 0), (40, 80)]);
    assert_eq!(whole[..2], [(20, 80), (40, 160)]);
    assert_eq!(of(Moment::Before).count(), 1);
}

#[test]
fn a_climb_that_is_stopped_says_so() {
    let mut ramp = Ramp::new(Asked::of(10), Timestamp(0));
    assert_eq!(ramp.stage(), Stage::Starting);
    ramp.stop();
    assert!(ramp.is_over());
    assert!(ramp.finish().interrupted);
}
