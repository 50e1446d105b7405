//! Every value that was chosen and not measured, with its reason. No roof has one of its own.

/// The level at which a share of failures is no accident: of exchanges, or of connections; and the share of requests
/// that may come out of turn.
/// One in a hundred is what load generators' users take for "it fails"; fewer than [`FEW`] are chance.
pub const TURNED_AWAY: f64 = 0.01;

/// Fewer of anything than this are chance.
pub const FEW: f64 = 10.0;

/// Fewer samples than this have no spread, and so say nothing of what is sampled.
/// Two differ or do not; a third is the first that tells whether that is usual.
pub const SAMPLES: usize = 3;

/// An offered rate is carried from this share of what became due on.
/// What is left was due at the end of the measured stretch and answered after it.
pub const CARRIED: f64 = 0.97;

/// What uses less of a CPU than this does nothing.
/// It is more than a node takes that only waits.
pub const AT_WORK: f64 = 0.05;

/// Connections a second that tell nothing of a service's clients.
/// A check a second is what a monitor does to a port.
pub const CHECKS: f64 = 1.0;

/// Attained by what is known: from here on what is known explains it.
/// Exact mean value analysis takes service for exponential, which is 2/3 instead of 1 for two balanced steady
/// stations; a fifth is what is left of that with more connections, and of the noise of a shared machine, where two
/// stretches of one service differ by as much without anything having changed.
pub const EXPLAINED: f64 = 0.8;

/// The half: from here on it is most of them, of exchanges, samples, or a second; and between an elasticity of 1, where
/// each connection brings its own exchanges, and 0, where something is full.
/// What has less is outweighed by all else together; a pause that halves an exchange's time was waited for, no work.
pub const HALFWAY: f64 = 0.5;

/// The share of the exchanges under way that a place must have for a cause there to be named for the rate.
/// A quarter: four causes that share a run's time equally may each be named, five may not.
pub const HOLDS: f64 = 0.25;

/// Of one thread's time so much is in a lock that several hold in turn, where it holds them up.
/// What is left is handing the lock over.
pub const HOLDS_ONE: f64 = 0.7;

/// A resource is full from here on.
/// What is left is the moments in which nobody asks, which no run is without.
pub const FULL: f64 = 0.9;

/// So many times the CPU that an exchange takes of a busy process it takes of an idle one.
/// Measured at both ends of services that were held up and then were not: 2.3 to 9 times in the service, 2 to 4
/// times in linerate (docs/account.md, "Cold and warm"). The square of it is the most.
pub const COLD: f64 = 3.0;

/// Two runs of one plan, minutes apart on one machine, agree no better: a prediction's interval is no narrower.
pub const AGREE: f64 = 0.05;

/// Less than this is no gain: an interleaved pair of runs does not tell it.
pub const NO_GAIN: f64 = 0.02;

/// Of a station's time so much may belong to its neighbours: what is on the way there, and bunched behind it.
pub const SPLIT: f64 = 0.1;
