//! What arrived of something that is not whole yet.

use crate::session::Fault;

/// Bytes that are kept until the rest has come. Empty, it holds no memory.
#[derive(Default)]
pub(crate) struct Pieces(Vec<u8>);

impl Pieces {
    /// Takes whole things from the front of what was kept and what arrived. `take` is told all that there
    /// is and answers how much of it it has used; what is left it will see again, with more.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        what: &'static str,
        most: usize,
        take: impl FnOnce(&[u8]) -> Result<usize, Fault>,
    ) -> Result<(), Fault> {
        if self.0.is_empty() {
            let used = take(bytes)?;
            self.0.extend_from_slice(&bytes[used..]);
        } else {
            self.0.extend_from_slice(bytes);
            let used = take(&self.0)?;
            if used == self.0.len() {
                self.0 = Vec::new();
            } else {
                self.0.drain(..used);
            }
        }
        if self.0.len() > most {
            return Err(Fault::TooLong { what, most });
        }
        Ok(())
    }

    /// Memory that is held.
    pub(crate) fn held(&self) -> usize {
        self.0.capacity()
    }
}
