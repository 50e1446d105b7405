//! The names of atoms. An atom is for ever: what was read once is kept.
//!
//! Source: `erts/emulator/beam` of OTP: erl_term.h, index.h, atom.h.

use std::collections::HashMap;
use std::io;

use super::layout::Layout;
use super::memory::{Memory, Piece, half, read, word};

/// Atoms in a segment of the table. Source: `INDEX_PAGE_SHIFT`, index.h.
const SEGMENT: u32 = 10;

/// Places in `Atom`, atom.h, and what is read of it. Unit: bytes.
const INDEX: usize = 16;
const LENGTH: usize = 24;
const NAME: usize = 32;
const ATOM: usize = 40;

/// Source: `MAX_ATOM_SZ_LIMIT`, atom.h. Unit: bytes.
const LONGEST: usize = 4 * 255;

/// Source: `MAX_ATOM_INDEX` is above, `ATOM_LIMIT` of atom.h is 2^20. Of more, none is one.
const MOST: u32 = 1 << 26;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Atoms {
    names: HashMap<u32, Box<str>>,
    entries: u32,
    segments: u64,
}

/// The number of an atom; none: the term is another. Source: `_TAG_IMMED2_ATOM`, erl_term.h.
fn index(term: u64) -> Option<u32> {
    let index = u32::try_from(term >> 6).ok()?;
    (term & 0x3f == 0xb && index < MOST).then_some(index)
}

impl Atoms {
    /// Takes where the table is now, of a piece that begins at it.
    pub(super) fn take(&mut self, layout: &Layout, table: &[u8]) -> Option<()> {
        self.entries = half(table, layout.atoms as usize)?;
        self.segments = word(table, layout.atom_segments as usize)?;
        Some(())
    }

    /// Whether a term can be an atom of the table.
    pub(super) fn is(&self, term: u64) -> bool {
        index(term).is_some_and(|index| index < self.entries)
    }

    /// Of an atom that was asked for.
    pub(super) fn name(&self, term: u64) -> Option<&str> {
        self.names.get(&index(term)?).map(AsRef::as_ref)
    }

    /// Reads the names of those that are not yet known.
    pub(super) fn ask(
        &mut self,
        memory: &mut dyn Memory,
        terms: impl Iterator<Item = u64>,
    ) -> io::Result<()> {
        let is_new = |index: &u32| *index < self.entries && !self.names.contains_key(index);
        let mut asked: Vec<u32> = terms.filter_map(index).filter(is_new).collect();
        asked.sort_unstable();
        asked.dedup();
        if asked.is_empty() {
            return Ok(());
        }
        // From the table to a segment, to an atom, to its name.
        let segments = asked
            .iter()
            .map(|index| (self.segments.wrapping_add(8 * u64::from(index >> SEGMENT)), 8));
        let segments: Vec<Piece> = segments.collect();
        let segments = read(memory, &segments)?;
        let of = |piece: Option<&[u8]>| piece.and_then(|of| word(of, 0)).unwrap_or(0);
        let slots = segments.pieces().zip(&asked).map(|(segment, index)| {
            let slot = u64::from(index & ((1 << SEGMENT) - 1));
            (of(segment).wrapping_add(8 * slot), 8)
        });
        let slots: Vec<Piece> = slots.collect();
        let slots = read(memory, &slots)?;
        let atoms: Vec<Piece> = slots.pieces().map(|slot| (of(slot), ATOM)).collect();
        let atoms = read(memory, &atoms)?;
        let name = |(atom, index): (Option<&[u8]>, &u32)| -> Option<Piece> {
            let atom = atom?;
            let length = (half(atom, LENGTH)? & 0xffff) as usize;
            let is_it = half(atom, INDEX)? == *index && length <= LONGEST;
            is_it.then_some((word(atom, NAME)?, length))
        };
        let names: Vec<Piece> =
            atoms.pieces().zip(&asked).map(|of| name(of).unwrap_or((0, 1))).collect();
        let names = read(memory, &names)?;
        for (name, index) in names.pieces().zip(asked) {
            if let Some(name) = name.and_then(|of| std::str::from_utf8(of).ok()) {
                self.names.insert(index, name.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atom_is_told_from_other_terms() {
        assert_eq!(index(0x394b), Some(0xe5));
        // A pid, nil, a small number, a pointer, and an atom with more than a table has.
        for other in [0x278000004f3, 0x3b, 0x1f, 0x7f6bb7490c51, 0xb | 1 << 40, u64::MAX] {
            assert_eq!(index(other), None, "{other:#x}");
        }
    }
}
