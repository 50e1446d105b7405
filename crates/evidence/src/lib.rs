//! What was measured: samples by metric and subject, the engine's slices, the file with them, and
//! the sources: what to fetch, and how to read the answer.
//!
//! Pure: bytes and instants are arguments. The file format divides the program: a run's evidence
//! replays everything after it (`linerate diagnose FILE`).

#![forbid(unsafe_code)]

mod counter;
mod engine;
mod evidence;
mod file;
mod load;
mod metric;
mod packed;
mod places;
pub mod sources;
mod step;
mod subject;
mod unhindered;

pub use counter::Counter;
pub use engine::{Errors, Part, Phase, SILENT, Slice, is_turned_away};
pub use evidence::{Evidence, Missing, Of};
pub use file::{
    Carries, Header, HostFacts, Line, Reader, TargetFacts, Unreadable, VERSION, read, to_line,
};
pub use load::{
    CLOCK_INTERVAL, CLOCK_OFFSET, ENGINE_HOST, LOST, LoadSummary, Outage, PairLoad, Percentile,
    Percentiles, Point, Service, StageLoad, Validity, ValidityState, WAKING, WarmUp, summarise,
    t95, watched_bytes,
};
pub use metric::{AnyMetric, Metric, Quantity};
pub use packed::{Live, Packed, live_histogram};
pub use places::{Alone, Place, Places};
pub use step::{Step, StepKind};
pub use subject::{Direction, Side, Subject};
pub use unhindered::Distance;
