//! A metric: its name in files, its kind, and the quantity a sample of it is.
//!
//! Samples are whole numbers in the metric's base unit (ns, bytes, counts), stored raw; counters
//! are cumulative and subtracted by [`crate::Of::delta`].

use std::marker::PhantomData;
use std::time::Duration;

use linerate_model::Bytes;

/// What a sample's whole number means.
pub trait Quantity: Copy {
    /// From the stored number.
    fn from_raw(raw: u64) -> Self;
    /// To the stored number.
    fn to_raw(self) -> u64;
    /// In its unit: counts, bytes, seconds.
    fn number(self) -> f64;
}

impl Quantity for u64 {
    fn from_raw(raw: u64) -> Self {
        raw
    }
    fn to_raw(self) -> u64 {
        self
    }
    fn number(self) -> f64 {
        self as f64
    }
}

impl Quantity for Duration {
    fn from_raw(raw: u64) -> Self {
        Duration::from_nanos(raw)
    }
    fn to_raw(self) -> u64 {
        self.as_nanos() as u64
    }
    fn number(self) -> f64 {
        self.as_secs_f64()
    }
}

impl Quantity for Bytes {
    fn from_raw(raw: u64) -> Self {
        Bytes(raw)
    }
    fn to_raw(self) -> u64 {
        self.0
    }
    fn number(self) -> f64 {
        self.0 as f64
    }
}

/// A metric of quantity `Q`. Named `source.what`; a `Duration` is stored in nanoseconds.
#[derive(Debug)]
pub struct Metric<Q> {
    /// Its name in files.
    pub name: &'static str,
    quantity: PhantomData<fn() -> Q>,
}

impl<Q> Metric<Q> {
    /// A metric of that name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, quantity: PhantomData }
    }
}

impl<Q> Clone for Metric<Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q> Copy for Metric<Q> {}

/// A metric's row for the tables that documents and tests walk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AnyMetric {
    /// Its name in files.
    pub name: &'static str,
    /// Unit of the stored number: `ns`, `B`, `1` (a count), `segments`, `permille`.
    pub unit: &'static str,
    /// What it says, in a sentence, with its place in the kernel.
    pub says: &'static str,
}
