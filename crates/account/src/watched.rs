//! The account of a service that is only watched: its connections by state, listening port by listening port.
//!
//! Seen from the server's end a connection is idle, unread, in the application, sending and held, or in flight. The
//! kernel's clocks have whole milliseconds; the header capture, where permitted, each request's and answer's instant.
//!
//! Blind spot: where requests and answers do not alternate (XMPP, AMQP, HTTP/2, pipelines, long polls) it is unknown
//! which end sends next; only unread, unsent and held are known then.

use crate::prelude::*;

/// The connections of one listening port, by what they wait for: mean numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// The port.
    pub port: u16,
    /// Connections on average.
    pub connections: f64,
    /// Nothing under way.
    pub idle: f64,
    /// Established and not accepted.
    pub accept_queue: f64,
    /// With bytes that the service has not read.
    pub unread: f64,
    /// Read, and not answered; handshakes of TLS among them.
    pub application: f64,
    /// Answers unsent, by [`Held::ALL`]. In the send buffer: all of it is sent, not acknowledged, and not the answer's end.
    held: [f64; Held::ALL.len()],
    /// Answers sent and not acknowledged.
    pub air: f64,
    /// In the application or idle: unknown which.
    pub undecided: f64,
    /// In the midst of an answer, with nothing of it unsent or in flight.
    pub answering: f64,
    /// The share of the time in which most of them wait and nothing comes or goes, 0 to 1; at few connections only.
    pub still: f64,
    /// Asked before, and without a byte either way for as long as it was watched.
    pub unanswered: f64,
    /// Of these, the ones that the service has not even read.
    pub unanswered_unread: f64,
    /// Of these, the ones whose requests are as long as those of connections that were answered meanwhile.
    pub unanswered_alike: f64,
    /// By the headers.
    pub exchanges: Option<Exchanges>,
}

/// Requests and answers as their headers show them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchanges {
    /// Answered a second.
    pub per_s: f64,
    /// Asked and unanswered, on average.
    pub under_way: f64,
    /// In the midst of a request, on average: its first segment came, and its last did not.
    pub asking: f64,
    /// Of those, the ones whose next part came after the delayed ACK of the one before.
    pub asking_for_ack: f64,
    /// From that ACK to the next part, mean: a round trip where the client's stack waited for it. Unit: seconds.
    pub after_ack_s: f64,
    /// Of those, the ones that seem whole: their clients send the next one without an answer.
    pub asking_again: f64,
    /// From a request's last byte to its answer's first: mean, and percentiles. Unit: seconds.
    pub service_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Connections a second that were refused, or reset before the answers that each of the others has.
    pub refused_per_s: f64,
    /// Requests a second in place of whose answer the service closed a connection on which it had answered before.
    pub hung_up_per_s: f64,
    /// Connections opened a second.
    pub opened_per_s: f64,
    /// Answers a second that began with a refusal, by kind, in the order of [`Refusal::ALL`].
    pub told_no: [f64; Refusal::ALL.len()],
    /// The share of its answers to requests in TLS, 0 to 1.
    pub tls: f64,
    /// Handshakes of TLS under way, on average.
    pub shaking: f64,
    /// Whether requests and answers alternate; if not, which are under way is unknown, and nothing is told of them.
    pub alternate: bool,
    /// From an answer's last byte to the connection's next request, mean. Unit: seconds.
    pub idle_s: f64,
    /// In the midst of an answer, on average: part of it was sent, and more came later.
    pub answering: f64,
    /// Answers sent over a tenth of a second or longer: their number, 10th and 90th percentile of bytes a second.
    pub lasting: Option<[f64; 3]>,
    /// How evenly answers follow each other.
    pub rhythm: Option<Rhythm>,
    /// Answers a second until a client is let in, and their share of all answers' time, 0 to 1; unknown: zero.
    pub logins: [f64; 2],
    /// How many whole connections are served at a time.
    pub sessions: Option<Served>,
    /// Answers on a connection that ended.
    pub per_session: f64,
    /// How many transactions are served at a time, and how many end a second.
    pub transactions: Option<(Served, f64)>,
    /// The share of the answers on connections that wait for most of their time, 0 to 1; absent in older evidence.
    pub to_waiters: Option<f64>,
}

/// What sets the rate, by the rhythm of the answers while requests wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A clock: the deviations of single gaps between answers do not add up.
    Clock,
    /// So many are served at a time, each for as long as the others.
    AtOnce(f64),
    /// Nothing shared: each waits for a time of its own, however many others wait.
    Apart,
}

impl Pace {
    /// What sets the rate of answers in bursts while so many wait. None where a burst releases all of those.
    pub fn of_beat(beat: &Beat, waiting: f64) -> Option<Self> {
        let is_even = beat.spread_s <= AGREE * beat.period_s;
        match beat.differ {
            _ if are_apart(beat) => Some(Pace::Apart),
            _ if beat.answers <= (1.0 + HALFWAY) * waiting => None,
            None => is_even.then_some(Pace::Clock),
            // Something stops all of them for a while, whatever their number.
            Some([counts, _]) if counts > AGREE => Some(Pace::AtOnce(1.0)),
            // The same number each time, however long it takes: a clock grants so many.
            Some([_, times]) => (is_even && times > AGREE).then_some(Pace::Clock),
        }
    }
}

/// Whether each of a burst's answers ends a wait of its own time: waits are alike, and answers no nearer to each other
/// than their requests were. Within a hundredth of the period a clock's releases follow each other as their requests do.
fn are_apart(beat: &Beat) -> bool {
    let is_long = |release: f64| release * FEW * FEW >= beat.period_s;
    beat.held.is_some_and(|[release, waits]| waits < HALFWAY * release && is_long(release))
}

impl Exchanges {
    /// By kind; errors of which the asker may be the cause are none unless they are most of all answers.
    pub fn refusals(&self) -> [f64; Refusal::ALL.len()] {
        let mut kinds = self.told_no;
        let errors = &mut kinds[Refusal::Error.index()];
        *errors = if *errors > HALFWAY * self.per_s { *errors } else { 0.0 };
        kinds
    }

    /// The sum of these.
    pub fn told_no_per_s(&self) -> f64 {
        self.refusals().iter().sum()
    }

    /// Whether most requests under way are not whole yet.
    pub fn clients_are_slow_to_ask(&self) -> bool {
        self.asking - self.asking_again >= HALFWAY * self.under_way.max(1.0)
    }

    /// From a request's last byte to its answer's last, mean. Unit: seconds.
    pub fn waits_s(&self) -> f64 {
        self.service_s + self.answering / self.per_s.max(1e-9)
    }

    /// Whether its clients rest for longer than they wait, and so set the rate; not where some of them wait for ever.
    pub fn clients_rest(&self) -> bool {
        self.alternate
            && self.idle_s.is_finite()
            && self.idle_s > self.waits_s()
            && self.under_way <= (1.0 + HOLDS) * (self.per_s * self.service_s)
            && self.others_wait()
    }

    /// None where the rhythm shows nothing: answers come by chance, clients set the pace, or no request waits.
    pub fn pace(&self) -> Option<Pace> {
        let rhythm = self.rhythm.filter(|rhythm| rhythm.gaps >= FEW * FEW)?;
        let mean_s = 1.0 / self.per_s.max(1e-9);
        let is_of_all = self.is_of_all(&rhythm);
        // An answer that follows any request at once is passed on, and the rhythm is its sender's.
        let unasked = rhythm.unasked_s.map_or(1.0, |unasked| unasked / rhythm.mean_s);
        if unasked < HOLDS && !self.keeps_time(&rhythm) {
            return None;
        }
        let beat = rhythm.beat.filter(|_| is_of_all);
        // Clients of a pool that asked together are answered so many at a time, and wait alike: their order tells them apart.
        let pace = beat.and_then(|beat| Pace::of_beat(&beat, self.under_way));
        if let Some(pace) = pace.filter(|pace| *pace != Pace::Apart || self.in_order().is_none()) {
            return Some(pace);
        }
        // For independent times their ratio is the square root of eight: halfway, on the scale of powers.
        let [few, many] = rhythm.spreads_s;
        let is_clock = is_of_all && many < 8_f64.powf(HALFWAY / 2.0) * few;
        let repeats = rhythm.turn >= 2.0 && rhythm.turn_spread_s < HALFWAY * rhythm.spread_s;
        let is_even = !repeats && rhythm.spread_s < HOLDS * mean_s;
        // Of a clock's answers any number in a row is as alike.
        if is_clock && is_even {
            return Some(Pace::Clock);
        }
        // One at a time may also be released by a clock.
        let one = if is_clock { Pace::Clock } else { Pace::AtOnce(1.0) };
        let is_by_chance = self.is_by_chance(&rhythm);
        let in_turn = is_of_all && is_by_chance && repeats;
        match self.in_order() {
            Some(at_once) if at_once >= 2.0 => return Some(Pace::AtOnce(at_once)),
            // Waits that are alike keep their order, as if each were for the one before; so do answers that come together.
            Some(_) if !in_turn => return Some(one),
            None if !in_turn => return (is_of_all && !is_by_chance).then_some(one),
            _ => {}
        }
        // As many as clients: none waits for another. In older evidence they may be passed on.
        let clients = self.per_s * (self.service_s + self.idle_s);
        if (rhythm.turn - clients).abs() < 1.0 {
            return rhythm.unasked_s.map(|_| Pace::Apart);
        }
        // Where each waits its turn, all wait alike. Where most are quick, those between two that repeat are the
        // steps of one transaction, which has what the others wait for.
        let at_once = if self.p50_s >= HALFWAY * self.service_s { rhythm.turn } else { 1.0 };
        (2.0 * at_once <= self.under_way).then_some(Pace::AtOnce(at_once))
    }

    /// Whether so many answers may be as far from each other by chance.
    /// Each of n connections that is answered after the same time, and asks again at once, has a phase of its own: n
    /// answers keep a share g of their mean distance from each other by chance with (1 - g)^(n - 1) (n points on a
    /// circle; Feller, "An Introduction to Probability Theory", volume 2, chapter I).
    fn is_by_chance(&self, rhythm: &Rhythm) -> bool {
        let apart = (rhythm.low_s * self.per_s).clamp(0.0, 1.0);
        (1.0 - apart).powf(self.under_way - 1.0) >= TURNED_AWAY
    }

    /// Whether answers are even, by no chance, and requests less so: the rhythm is not the clients'.
    fn keeps_time(&self, rhythm: &Rhythm) -> bool {
        let is_even = rhythm.spread_s < HOLDS * rhythm.mean_s && !self.is_by_chance(rhythm);
        is_even && rhythm.asked_spread_s.is_some_and(|asked| asked > rhythm.spread_s)
    }

    /// Whether most answers come on connections that hardly wait: what serves these is not what the others wait for.
    pub fn others_wait(&self) -> bool {
        self.to_waiters.is_some_and(|share| share < HALFWAY)
    }

    /// Whether answers come together: each in no time after the last, or most in a small part of each period.
    pub fn come_together(&self) -> bool {
        let Some(rhythm) = self.rhythm else { return false };
        let is_short = |of: &Served| of.p50_s * self.per_s * FEW < of.at_once;
        let is_burst = |beat: &Beat| {
            beat.answers >= HALFWAY * self.under_way && beat.lasts_s * FEW < beat.period_s
        };
        rhythm.served.as_ref().is_some_and(is_short) || rhythm.beat.as_ref().is_some_and(is_burst)
    }

    /// The share of the time in which nothing is asked or answered though requests wait, where most answers take a tenth
    /// of the mean or less: now and then something stops all of them. 0 to 1; none where so many connections may as well
    /// wait at once by chance, or where most answers come on connections that rest: nobody asks while these do.
    pub fn stopped(&self, connections: f64) -> Option<f64> {
        let rhythm = self.rhythm.filter(|rhythm| !rhythm.beat.as_ref().is_some_and(are_apart))?;
        let silent = rhythm.unasked_s? / rhythm.mean_s.max(1e-12);
        let chance = (self.under_way / connections.max(1.0)).min(1.0).powf(connections);
        let are_some = self.under_way >= 2.0 && self.p50_s * FEW <= self.service_s;
        (!self.others_wait() && are_some && silent - chance >= HOLDS).then_some(silent.min(1.0))
    }

    /// Whether the gaps are those of all answers, and not set by clients.
    fn is_of_all(&self, rhythm: &Rhythm) -> bool {
        let mean_s = 1.0 / self.per_s.max(1e-9);
        let unasked = rhythm.unasked_s.map_or(1.0, |unasked| unasked / rhythm.mean_s);
        // Requests may always wait though clients rest too: for what others have, or a server that keeps time.
        let differ = self.p99_s > (1.0 + SPLIT) * self.p50_s && self.under_way >= FEW;
        let waits = (differ || self.keeps_time(rhythm)) && self.idle_s < HALFWAY * self.service_s;
        (waits || self.idle_s <= mean_s && unasked >= HALFWAY) && rhythm.mean_s >= HALFWAY * mean_s
    }

    /// How many are served at a time, where the order of requests and answers shows it and as many again wait.
    pub fn in_order(&self) -> Option<f64> {
        let Served { at_once, .. } = self.rhythm?.served.filter(is_told)?;
        let is_one = at_once < 2.0 && self.come_together();
        // Where clients rest as well, more or fewer wait at a time, and who stands in a queue waits for longer or shorter.
        let rest = self.idle_s.is_finite() && self.idle_s >= HALFWAY * self.service_s;
        let is_queue = !rest || self.p99_s > (1.0 + HALFWAY) * self.p50_s;
        (is_queue && !is_one && 2.0 * at_once <= self.under_way).then_some(at_once)
    }

    /// How many transactions are served at a time, and a second, where single requests show no number, and many wait.
    pub fn in_transactions(&self) -> Option<(f64, f64)> {
        let (of, per_s) = self.transactions.filter(|(of, _)| is_told(of))?;
        let at_once = of.at_once;
        // Those that end together are released by one event.
        let is_together = of.p50_s * per_s * FEW < at_once;
        let has_steps = per_s * (1.0 + HALFWAY) <= self.per_s;
        let waits = 2.0 * at_once <= self.under_way && self.in_order().is_none();
        (has_steps && waits && !is_together).then_some((at_once, per_s))
    }

    /// How many connections are accepted at a time: only the first request of each waits, until another one ends.
    pub fn let_in(&self) -> Option<f64> {
        let Served { at_once, .. } = self.sessions.filter(is_told)?;
        let is_first = self.per_session >= 2.0 && self.p50_s < HALFWAY * self.service_s;
        (is_first && self.under_way >= HOLDS * (self.under_way + at_once)).then_some(at_once)
    }
}

/// A few requests overtake each other between socket and server.
fn is_told(of: &Served) -> bool {
    of.narrower >= AGREE && of.early * FEW <= 1.0
}

impl Watched {
    /// Every listening port that was sampled, the one with most connections under way first.
    pub fn of(evidence: &Evidence) -> Vec<Self> {
        let ports = evidence.ports();
        let mut all = Vec::from_iter(ports.filter_map(|port| Self::of_port(evidence, port)));
        all.sort_by(|a, b| b.under_way().total_cmp(&a.under_way()));
        all
    }

    fn of_port(evidence: &Evidence, port: u16) -> Option<Self> {
        let of = evidence.of(Subject::Listener(port));
        let exchanges = exchanges(&of);
        let instants = of.grown(bursts::INSTANTS).ok().filter(|instants| *instants > 0.0);
        let Some(instants) = instants else {
            return exchanges.map(|_| Self { port, exchanges, ..Self::default() });
        };
        let mean = |metric| of.grown(metric).unwrap_or(0.0) / instants;
        // With all CPUs busy, requests pile up while the sampler runs; the headers have their true number.
        let asked = exchanges.filter(|headers| headers.alternate);
        let most = asked.map_or(f64::INFINITY, |headers| headers.under_way);
        let held = [bursts::HELD_NAGLE, bursts::HELD_CONGESTION, bursts::HELD_WINDOW];
        let ([nagle, congestion, window], other) = (held.map(mean), mean(bursts::HELD_OTHER));
        let (air, undecided) = (mean(bursts::AIR), mean(bursts::UNDECIDED));
        let seen = nagle + congestion + window + other;
        // Between two pieces of an answer the sockets show nothing under way.
        let answering = asked.map_or(0.0, |headers| headers.answering - seen - air).max(0.0);
        // After an answer's last part its buffer may stay full until that is acknowledged: nobody waits then.
        let full = mean(bursts::HELD_BUFFER);
        let buffer = full.min(answering);
        let idle = mean(bursts::IDLE) + full - buffer;
        let answering = (answering - buffer).clamp(0.0, idle + undecided);
        // Where messages do not alternate, the last one may need no answer.
        let is_told = exchanges.is_none_or(|headers| headers.alternate);
        let state = |metric| if is_told { of.latest(metric).unwrap_or(0.0) } else { 0.0 };
        let unanswered = state(bursts::UNANSWERED) + state(bursts::SILENT);
        let alike = state(bursts::UNANSWERED_ALIKE) + state(bursts::SILENT_ALIKE);
        let unanswered_unread = state(bursts::UNANSWERED_UNREAD).min(unanswered);
        // None of the time where too few instants showed all connections.
        let whole = of.grown(bursts::WHOLE).ok().filter(|whole| *whole >= FEW);
        let still = whole.map_or(0.0, |whole| of.grown(bursts::STILL).unwrap_or(0.0) / whole);
        let mut this = Self {
            port,
            connections: mean(bursts::CONNECTIONS),
            idle: (idle - answering).max(0.0),
            accept_queue: mean(bursts::ACCEPT_QUEUE),
            unread: (mean(bursts::UNREAD) - unanswered_unread).max(0.0).min(most),
            application: mean(bursts::APPLICATION),
            held: [nagle, congestion, window, buffer, other],
            air,
            undecided: (undecided - (answering - idle).max(0.0)).max(0.0),
            answering,
            still,
            unanswered,
            unanswered_unread,
            unanswered_alike: alike.min(unanswered),
            exchanges,
        };
        // What the headers have under way is of the undecided ones.
        let rest = this.connections - this.idle - this.under_way() - this.unanswered;
        this.undecided = this.undecided.min(rest.max(0.0));
        // A client that waits for its greeting looks idle to the sockets.
        let busy = this.under_way() + this.undecided + this.unanswered;
        this.idle = this.idle.min((this.connections - busy).max(0.0));
        Some(this)
    }

    /// Connections that were accepted.
    pub fn accepted(&self) -> f64 {
        (self.connections - self.accept_queue).max(0.0)
    }

    /// Exchanges in the application: by the headers, else by the sockets.
    pub fn in_application(&self) -> f64 {
        match &self.exchanges {
            Some(headers) if headers.alternate => self.taken(headers) - self.shaking(),
            // It is unknown which end sends next.
            Some(_) => 0.0,
            None => (self.application - (self.unanswered - self.unanswered_unread)).max(0.0),
        }
    }

    /// Of those that the service has read, the ones in a handshake of TLS.
    pub fn shaking(&self) -> f64 {
        self.exchanges.map_or(0.0, |headers| headers.shaking.min(self.taken(&headers)))
    }

    /// Whether requests that come and are answered together are read one by one in between: half of them on average.
    pub fn is_emptied_by_turns(&self) -> bool {
        self.exchanges.is_some_and(|headers| {
            let rhythm = headers.rhythm.filter(|rhythm| headers.is_of_all(rhythm));
            let beat = rhythm.and_then(|rhythm| rhythm.beat);
            let unread = self.unread / headers.under_way.max(1e-9);
            headers.come_together()
                && beat.is_some_and(|beat| beat.answers >= EXPLAINED * headers.under_way)
                && (HOLDS..=1.0 - HOLDS).contains(&unread)
        })
    }

    /// In the midst of a request: its client's turn.
    pub fn asking(&self) -> f64 {
        self.exchanges.map_or(0.0, |headers| headers.asking.min(self.begun(&headers)))
    }

    /// Begun, and neither unread nor waiting to be accepted.
    fn begun(&self, headers: &Exchanges) -> f64 {
        (headers.under_way - self.unread - self.accept_queue).max(0.0)
    }

    /// Read and not wholly answered.
    fn taken(&self, headers: &Exchanges) -> f64 {
        self.begun(headers) - self.asking() + self.answering
    }

    /// Connections of which it is unknown whether something is under way.
    pub fn untold(&self) -> f64 {
        let one_way = self.exchanges.is_some_and(|headers| !headers.alternate);
        self.undecided + if one_way { self.application } else { 0.0 }
    }

    /// Connections with something under way.
    pub fn under_way(&self) -> f64 {
        let read = self.shaking() + self.in_application();
        self.accept_queue + self.asking() + self.unread + read + (self.unsent() + self.air)
    }

    /// Connections with unsent answers that this holds.
    pub fn held(&self, by: Held) -> f64 {
        self.held[by as usize]
    }

    /// Connections with unsent answers.
    pub fn unsent(&self) -> f64 {
        self.held.iter().sum()
    }
}

fn exchanges(of: &Of) -> Option<Exchanges> {
    let count = of.grown(capture::EXCHANGES).ok()?;
    let time = |metric: Metric<Duration>| of.grown(metric).unwrap_or(0.0);
    let state = |metric: Metric<Duration>| of.latest(metric).unwrap_or(0.0);
    let latest = |metric: Metric<u64>| of.latest(metric).ok();
    let counted = |metric| of.grown(metric).unwrap_or(0.0);
    // The capture pauses to keep within its budget: rates and means are over the time in which it took packets.
    let seconds = of.grown(capture::WATCHED).ok().filter(|seconds| *seconds > 0.0)?;
    let per_s = |metric| counted(metric) / seconds;
    let unasked = (counted(capture::UNASKED) - counted(capture::RESUMED)).max(0.0);
    let turns = counted(capture::DUPLEX) + unasked;
    // Packets and no answers: one end sends unasked.
    let connections = latest(capture::CONNECTIONS).map_or(0.0, |of| of.max(1.0));
    let is_one_way = count == 0.0 && counted(capture::PACKETS) > FEW * connections;
    let per_session = counted(capture::SESSIONS_EXCHANGES) / counted(capture::SESSIONS).max(1.0);
    // With as many answers on each connection the server closes it after them, and resets a request that crosses the
    // close. A server that cuts off requests closes no connection between two of them.
    let is_whole = (per_session - per_session.round()).abs() <= TURNED_AWAY
        && counted(capture::UNANSWERED) < FULL * counted(capture::SESSIONS);
    let cut_off = |metric| if is_whole { 0.0 } else { per_s(metric) };
    let alternate = turns <= TURNED_AWAY * count && !is_one_way;
    let under_way = |metric| if alternate { time(metric) / seconds } else { 0.0 };
    let [many, low, high] = [capture::LASTING, capture::LASTING_LOW, capture::LASTING_HIGH];
    let lasting = || Some([latest(many)?, latest(low)?, latest(high)?]);
    let transactions = Served::transactions(of).filter(|_| alternate);
    let service = of.grown(capture::SERVICE_TIME).ok()?;
    Some(Exchanges {
        per_s: count / seconds,
        under_way: of.grown(capture::ASKED_AREA).ok()? / seconds,
        asking: under_way(capture::REQUEST_TIME),
        asking_for_ack: under_way(capture::REQUEST_HELD),
        after_ack_s: time(capture::REQUEST_REACTION) / counted(capture::REQUEST_ACKS).max(1.0),
        asking_again: under_way(capture::AGAIN_TIME),
        service_s: service / count.max(1.0),
        p50_s: state(capture::SERVICE_P50),
        p99_s: state(capture::SERVICE_P99),
        refused_per_s: per_s(capture::REFUSED) + cut_off(capture::RESET),
        hung_up_per_s: cut_off(capture::HUNG_UP),
        opened_per_s: per_s(capture::OPENED),
        told_no: Refusal::ALL.map(|refusal| per_s(capture::told_no(refusal))),
        tls: counted(capture::TLS) / count.max(1.0),
        shaking: under_way(capture::HANDSHAKE_TIME),
        alternate,
        answering: time(capture::ANSWER_TIME) / seconds,
        lasting: lasting(),
        // Unknown: then no client is known to ask again at once.
        idle_s: of.grown(capture::IDLE_TIME).map_or(f64::INFINITY, |time| time / count.max(1.0)),
        rhythm: Rhythm::of(of).filter(|_| alternate),
        logins: [per_s(capture::LOGINS), time(capture::LOGIN_TIME) / service.max(1e-9)],
        sessions: Served::sessions(of).filter(|_| alternate),
        per_session,
        transactions: transactions.map(|served| (served, per_s(capture::TRANSACTIONS))),
        to_waiters: of.grown(capture::WAITERS_EXCHANGES).ok().map(|to| to / count.max(1.0)),
    })
}
