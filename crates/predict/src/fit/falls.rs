//! How work changes between one connection and all, where that is known at both ends.

// Chosen: whatever falls steadily lies between the first and the last of them.
/// How much of what work costs more with one connection than with all is left between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Falls {
    /// A second one spares most of it: the waking of what sleeps.
    AtOnce,
    /// Each doubling spares as much.
    ByDoubling,
    /// Each one spares as much.
    Evenly,
}

impl Falls {
    pub const ALL: [Self; 3] = [Self::AtOnce, Self::ByDoubling, Self::Evenly];

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
        }
    }
}
