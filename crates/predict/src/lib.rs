//! Prediction: throughput and latency of a closed network of connections, from one measurement of it and the
//! description of a path.
//!
//! Workers ask, wait and ask again: a closed network. Its throughput depends on where they wait: at the service (a
//! [`Network`] of CPUs, or a measured [`Curve`]), on the path, or for what the path dropped. [`forecast`] combines
//! these; `docs/prediction.md` has the formulas and their blind spots.
//!
//! Pure: a function of figures.

#![forbid(unsafe_code)]

mod acks;
mod beyond;
mod closed;
mod crossing;
mod curve;
mod demands;
mod drops;
mod fit;
mod forecast;
mod interval;
mod least_squares;
mod losses;
mod mva;
mod network;
mod usl;
mod what_if;
mod words;

pub use crossing::{Crossing, Ends};
pub use curve::{BadCurve, Curve, Row};
pub use demands::Demands;
pub use fit::{
    Alone, Elasticity, Fit, Known, Miss, Observed, Removed, UNKNOWN, elasticity, fit, fit_thinking,
    predict_at, without, without_at,
};
pub use forecast::{Ceiling, Forecast, Lean, Service, forecast};
pub use interval::Predicted;
pub use losses::{trips_again, window_with_losses};
pub use mva::{Demand, closed_network};
pub use network::{Network, QueueStation, Solved};
pub use usl::Usl;
pub use what_if::{Change, Changed, Cpu, Measured};
