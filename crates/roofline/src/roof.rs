//! A roof: a limit that explains. It reads the facts and claims what its mechanism adds, or is silent.

use crate::claim::{Claim, Silent};
use crate::facts::Facts;

/// A limit.
///
/// It knows no other roof and no order: it says what its own mechanism does to exchanges, where, and by which
/// evidence.
pub struct Roof {
    /// `layer.limit`; stable for ever.
    pub id: &'static str,
    /// A heading for people.
    pub title: &'static str,
    /// Its page, `docs/roofs/ID.md`.
    pub page: &'static str,
    /// What it explains of the run.
    pub explain: fn(&Facts) -> Result<Claim, Silent>,
}
