//! The change of work between one connection and all, measured at both ends.

// Chosen: a decrease may be over with the second connection, or come with the last ones.
/// How much of the extra cost with one connection is left in between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Falls {
    /// The second connection saves most of it: the waking of sleeping threads.
    AtOnce,
    /// Each doubling saves as much.
    ByDoubling,
    /// Each connection saves as much.
    Evenly,
    /// The last ones save most of it: sleepers are woken as long as a CPU has time to sleep.
    AtLast,
}

impl Falls {
    pub const ALL: [Self; 4] = [Self::AtOnce, Self::ByDoubling, Self::Evenly, Self::AtLast];

    /// 1 with one connection, 0 with all.
    pub fn left(self, connections: u32, all: u32) -> f64 {
        let (n, all) = (f64::from(connections), f64::from(all));
        if n >= all {
            return 0.0;
        }
        match self {
            Self::AtOnce => (1.0 / n - 1.0 / all) / (1.0 - 1.0 / all),
            Self::ByDoubling => 1.0 - n.ln() / all.ln(),
            Self::Evenly => (all - n) / (all - 1.0),
            Self::AtLast => 1.0 - ((n - 1.0) / (all - 1.0)).powi(2),
        }
    }
}
