//! The functions of loaded modules, by an address of their code.
//!
//! Source: `erts/emulator/beam` of OTP: beam_ranges.c (`struct ranges`), beam_code.h, code_ix.h.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::io;
use std::ops::Range;

use super::atoms::Atoms;
use super::layout::{Layout, Symbols};
use super::memory::{Memory, Piece, half, read, word, words};

/// `struct ranges`: the modules, their number, room for so many, and where a search begins; three of them.
const RANGES: usize = 32;
const GENERATIONS: usize = 3;

/// How far the ranges can be from the variable that stands before them in their file. Unit: bytes.
///
/// Chosen: 24 in Debian's 25.2.3; a compiler may order them otherwise.
const NEAR: u64 = 1024;

/// Of more modules, functions of one, or functions that were seen at once, nothing is known.
///
/// Chosen: OTP has 4,000 modules, and the largest of them 4,000 functions.
const MODULES: u64 = 1 << 16;
const FUNCTIONS: u64 = 1 << 16;
const KNOWN: usize = 1 << 18;

/// Source: `MAX_ARG`, erl_vm.h.
const ARITY: u64 = 255;

/// `ErtsCodeMFA`, code_ix.h: module, function, arity. Unit: bytes.
const MFA: usize = 24;

/// A function, as its module and name, both atoms, and its arity.
pub(super) type Mfa = [u64; 3];

/// See the module.
#[derive(Debug)]
pub(super) struct Code {
    /// Where the ranges are.
    ranges: u64,
    active: u64,
    /// Which ranges were read: where the modules are listed, and how many.
    of: (u64, u64),
    modules: Vec<Range<u64>>,
    /// Where the functions of a module begin, by where it begins.
    functions: HashMap<u64, Vec<u64>>,
    /// As `module:function/arity`; and which of them is at an address, stands at a place, and is a function's.
    names: Vec<Box<str>>,
    addresses: Numbers<u64>,
    places: Numbers<u64>,
    mfas: Numbers<Mfa>,
}

impl Code {
    /// Looks for the ranges. None: they are not where they should be.
    pub(super) fn find(
        symbols: &Symbols,
        layout: &Layout,
        memory: &mut dyn Memory,
    ) -> Option<Self> {
        let from = (symbols.near_ranges & !7).checked_sub(NEAR)?;
        let length = 2 * NEAR as usize + GENERATIONS * RANGES;
        let taken = read(memory, &[(from, length), (symbols.active_code, 4)]).ok()?;
        let (near, active) = (taken.piece(0)?, half(taken.piece(1)?, 0)? as usize);
        for offset in (0..2 * NEAR as usize).step_by(8) {
            let ranges = near.get(offset..offset + GENERATIONS * RANGES)?;
            let mut each = ranges.chunks_exact(RANGES);
            let is_unused = |of: &[u8]| words(of).take(3).all(|word| word == 0);
            if !each.all(|of| is_unused(of) || listed(of).is_some()) {
                continue;
            }
            let mut code = Self::at(symbols, from + offset as u64);
            code.take(memory, ranges, active).ok()?;
            // What is taken for the first module has to have functions.
            if let Some(first) = code.modules.first().map(|of| of.start) {
                code.ask_functions(memory, layout, &[first]).ok()?;
                if code.functions.get(&first).is_some_and(|of| !of.is_empty()) {
                    return Some(code);
                }
            }
        }
        None
    }

    /// With its ranges at a place.
    pub(super) fn at(symbols: &Symbols, ranges: u64) -> Self {
        Self {
            ranges,
            active: symbols.active_code,
            of: (0, 0),
            modules: Vec::new(),
            functions: HashMap::new(),
            names: Vec::new(),
            addresses: Numbers::default(),
            places: Numbers::default(),
            mfas: Numbers::default(),
        }
    }

    /// What is to be read for [`Code::take`], in each round.
    pub(super) fn heads(&self) -> [Piece; 2] {
        [(self.ranges, GENERATIONS * RANGES), (self.active, 4)]
    }

    /// Takes the ranges as they are now. Where code was loaded or purged, all that was known of it is forgotten.
    pub(super) fn take(
        &mut self,
        memory: &mut dyn Memory,
        ranges: &[u8],
        active: usize,
    ) -> io::Result<()> {
        let of = ranges.chunks_exact(RANGES).nth(active).and_then(listed).unwrap_or((0, 0));
        let known = [self.addresses.len(), self.places.len(), self.mfas.len()];
        if of == self.of && known.iter().sum::<usize>() < KNOWN {
            return Ok(());
        }
        self.functions.clear();
        self.names.clear();
        self.addresses.clear();
        self.places.clear();
        self.mfas.clear();
        self.modules.clear();
        self.of = of;
        let taken = read(memory, &[(of.0, 16 * of.1 as usize)])?;
        let list = taken.piece(0).unwrap_or_default();
        let pair = |pair: &[u8]| Some(word(pair, 0)?..word(pair, 8)?);
        self.modules.extend(list.chunks_exact(16).filter_map(pair));
        let is_sorted = self.modules.windows(2).all(|two| two[0].end <= two[1].start);
        if !is_sorted || self.modules.iter().any(|of| of.start > of.end || of.start == 0) {
            // It was being written: again in the next round.
            self.modules.clear();
            self.of = (0, 0);
        }
        Ok(())
    }

    /// Whether there is code of a module at an address.
    pub(super) fn is(&self, address: u64) -> bool {
        self.module(address).is_some()
    }

    fn module(&self, address: u64) -> Option<&Range<u64>> {
        let next = self.modules.partition_point(|of| of.start <= address);
        self.modules.get(next.checked_sub(1)?).filter(|of| of.contains(&address))
    }

    /// Reads the names of functions that are not yet known: at these addresses, at these places, and these.
    pub(super) fn ask(
        &mut self,
        memory: &mut dyn Memory,
        layout: &Layout,
        atoms: &mut Atoms,
        wanted: &Wanted,
    ) -> io::Result<()> {
        let addresses = unknown(&wanted.addresses, &self.addresses);
        let modules = addresses.iter().filter_map(|of| Some(self.module(*of)?.start));
        let modules: Vec<u64> = modules.filter(|of| !self.functions.contains_key(of)).collect();
        self.ask_functions(memory, layout, &unique(modules))?;
        let at = |address: &u64| Some((*address, self.place(layout, *address)?));
        let addresses: Vec<(u64, u64)> = addresses.iter().filter_map(at).collect();

        let mut places = unknown(&wanted.places, &self.places);
        places.extend(addresses.iter().map(|(_, place)| *place));
        let places = unknown(&unique(places), &self.places);
        let pieces: Vec<Piece> = places.iter().map(|place| (*place, MFA)).collect();
        let taken = read(memory, &pieces)?;
        let stands = |(piece, place): (Option<&[u8]>, u64)| Some((place, mfa(piece?, 0, atoms)?));
        let places: Vec<(u64, Mfa)> = taken.pieces().zip(places).filter_map(stands).collect();

        let mut mfas = unknown(&wanted.mfas, &self.mfas);
        mfas.extend(places.iter().map(|(_, mfa)| *mfa));
        let mfas = unknown(&unique(mfas), &self.mfas);
        atoms.ask(memory, mfas.iter().flat_map(|[module, function, _]| [*module, *function]))?;
        for mfa in mfas {
            let [module, function, arity] = mfa;
            if let (Some(module), Some(function)) = (atoms.name(module), atoms.name(function)) {
                self.mfas.insert(mfa, self.names.len());
                self.names.push(format!("{module}:{function}/{arity}").into());
            }
        }
        for (place, mfa) in places {
            if let Some(number) = self.mfas.get(&mfa) {
                self.places.insert(place, *number);
            }
        }
        for (address, place) in addresses {
            if let Some(number) = self.places.get(&place) {
                self.addresses.insert(address, *number);
            }
        }
        Ok(())
    }

    /// Of a function that was asked for.
    pub(super) fn named(&self, mfa: &Mfa) -> Option<&str> {
        self.names.get(*self.mfas.get(mfa)?).map(AsRef::as_ref)
    }

    /// Of the function that stands at a place that was asked for.
    pub(super) fn named_at(&self, place: u64) -> Option<&str> {
        self.names.get(*self.places.get(&place)?).map(AsRef::as_ref)
    }

    /// Of the function with an address that was asked for.
    pub(super) fn named_with(&self, address: u64) -> Option<&str> {
        self.names.get(*self.addresses.get(&address)?).map(AsRef::as_ref)
    }

    /// Where module, name and arity of the function at an address stand.
    fn place(&self, layout: &Layout, address: u64) -> Option<u64> {
        let functions = self.functions.get(&self.module(address)?.start)?;
        let next = functions.partition_point(|of| *of <= address);
        functions.get(next.checked_sub(1)?)?.checked_add(layout.mfa)
    }

    fn ask_functions(
        &mut self,
        memory: &mut dyn Memory,
        layout: &Layout,
        modules: &[u64],
    ) -> io::Result<()> {
        if modules.is_empty() {
            return Ok(());
        }
        let counts: Vec<Piece> = modules.iter().map(|of| (*of, 8)).collect();
        let counts = read(memory, &counts)?;
        let table = |(count, start): (Option<&[u8]>, &u64)| -> Option<Piece> {
            let module = self.module(*start)?;
            let count = word(count?, 0).filter(|count| *count <= FUNCTIONS)?;
            let length = 8 * count as usize;
            let is_in_it = (layout.functions + length) as u64 <= module.end - module.start;
            is_in_it.then_some((start.checked_add(layout.functions as u64)?, length))
        };
        let tables: Vec<Piece> =
            counts.pieces().zip(modules).map(|of| table(of).unwrap_or((0, 0))).collect();
        let tables = read(memory, &tables)?;
        for (table, start) in tables.pieces().zip(modules) {
            let Some(module) = self.module(*start) else { continue };
            let functions: Vec<u64> = words(table.unwrap_or_default()).collect();
            let is_sorted = functions.windows(2).all(|two| two[0] < two[1]);
            let is_in_it = functions.iter().all(|of| module.contains(of));
            let functions = if is_sorted && is_in_it { functions } else { Vec::new() };
            self.functions.insert(*start, functions);
        }
        Ok(())
    }
}

/// Functions whose names are wanted.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// With these addresses.
    pub(super) addresses: Vec<u64>,
    /// Where module, name and arity stand.
    pub(super) places: Vec<u64>,
    pub(super) mfas: Vec<Mfa>,
}

/// Each once, as far as they are not known.
fn unknown<K: Copy + Eq + Hash + Ord>(wanted: &[K], known: &Numbers<K>) -> Vec<K> {
    unique(wanted.iter().filter(|of| !known.contains_key(of)).copied().collect())
}

fn unique<K: Ord>(mut all: Vec<K>) -> Vec<K> {
    all.sort_unstable();
    all.dedup();
    all
}

/// The function at a place of a piece; none: these are not two atoms and an arity.
pub(super) fn mfa(piece: &[u8], at: usize, atoms: &Atoms) -> Option<Mfa> {
    let of = [word(piece, at)?, word(piece, at + 8)?, word(piece, at + 16)?];
    (atoms.is(of[0]) && atoms.is(of[1]) && of[2] <= ARITY).then_some(of)
}

/// Where modules are listed, and how many; none: these are no ranges.
fn listed(ranges: &[u8]) -> Option<(u64, u64)> {
    let mut words = words(ranges);
    let (at, count, room, middle) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let is_one = at > 0 && at % 8 == 0 && (1..=room).contains(&count) && room <= MODULES;
    let end = at.checked_add(16 * room.min(MODULES))?;
    (is_one && (at..=end).contains(&middle)).then_some((at, count))
}

/// Numbers of names, by what has them.
type Numbers<K> = HashMap<K, usize, BuildHasherDefault<Mixed>>;

/// Ten words a process are looked up in each round, and the standard library's way takes four times as long.
///
/// Source: the multiplier is 2^64 over the golden ratio, as for Knuth's multiplicative hashing.
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
