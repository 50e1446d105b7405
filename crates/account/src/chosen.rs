//! Every value that was chosen and not measured, with its reason. No roof has one of its own.

/// From this share of failures on, of exchanges or connections, or of answers out of order, it is no accident. One in
/// a hundred is what users of load generators call failing; fewer than [`FEW`] are chance.
pub const TURNED_AWAY: f64 = 0.01;

/// Fewer of anything than this are chance.
pub const FEW: f64 = 10.0;

/// Fewer samples have no spread, and show nothing: two agree or differ; only a third shows which is usual.
pub const SAMPLES: usize = 3;

/// An offered rate is met when this share of what became due was answered. The rest was answered after the end.
pub const CARRIED: f64 = 0.97;

/// Below this share of a CPU a process is idle. A node that only waits takes less.
pub const AT_WORK: f64 = 0.05;

/// Up to so many connections a second may be a monitor's, which checks a port once a second.
pub const CHECKS: f64 = 1.0;

/// What is known explains a rate from this share of it on.
/// Exact mean value analysis takes service for exponential, which is 2/3 instead of 1 for two balanced deterministic
/// stations. A fifth is left of that with more connections; two stretches on a shared machine differ by as much.
pub const EXPLAINED: f64 = 0.8;

/// From here on it is most of them: of exchanges, samples, or a second. Also halfway between an elasticity of 1
/// (each connection adds its own exchanges) and 0 (something is full). A pause of half an exchange's time is no work.
pub const HALFWAY: f64 = 0.5;

/// The share of the exchanges under way that a place needs for a cause there: of four equal ones each, of five none.
pub const HOLDS: f64 = 0.25;

/// A lock held in turn is a limit at this share of one thread's time. The rest is handing it over.
pub const HOLDS_ONE: f64 = 0.7;

/// A resource is full from this utilisation on. Every run has some moments without requests.
pub const FULL: f64 = 0.9;

/// An exchange costs an idle process so many times the CPU that it costs a busy one; at most its square. Measured at
/// both ends of services that a limit held and then did not: 2.3 to 9 times in the service, 2 to 4 times in linerate
/// (docs/account.md, "Cold and warm").
pub const COLD: f64 = 3.0;

/// Two runs of one plan, minutes apart on one machine, agree no better: a prediction's interval is no narrower.
pub const AGREE: f64 = 0.05;

/// Less than this is no gain: an interleaved pair of runs can't resolve it.
pub const NO_GAIN: f64 = 0.02;

/// Up to this share of a station's time may belong to its neighbours: on the way there, or bunched behind it.
pub const SPLIT: f64 = 0.1;
