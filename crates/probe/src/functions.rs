//! The functions of a program or library, by its table of symbols.
//!
//! Source: elf(5), `.symtab`, and `.dynsym` where that was stripped.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use rustix::fs::{Mode, OFlags};

/// In the order of where they stand.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// Where in the file one begins, how long it is, and its symbol.
    of: Vec<(u64, u64, String)>,
    /// Names of those that were asked for, by where they begin.
    names: HashMap<u64, String>,
}

/// A larger file is not read. Unit: bytes.
///
/// Chosen: Erlang's VM, nginx, redis, PHP and Python are smaller. Measured: 1 to 3 ms for the first three, 17 ms for PostgreSQL's
/// 8 MiB, 55 ms for 38 MiB, once a file: of those a load at a fixed rate was late by as much, which shared the CPUs.
const LARGEST: u64 = 8 << 20;

/// More functions than these are not kept.
const MOST: usize = 300_000;

/// A longer name is cut off. Unit: characters.
const LONGEST: usize = 100;

impl Functions {
    /// Of a file, if it still is the one with this inode; none in it is no error.
    pub(crate) fn read(path: &str, inode: u64) -> io::Result<Self> {
        // What stands there now may be a pipe, at which another open would wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let is = file.metadata()?;
        if !is.is_file() || is.ino() != inode || is.size() > LARGEST {
            return Err(io::Error::other("another file, or a very large one"));
        }
        let mut bytes = Vec::with_capacity(is.size() as usize);
        file.take(LARGEST).read_to_end(&mut bytes)?;
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> io::Result<Self> {
        let file = object::File::parse(bytes).map_err(io::Error::other)?;
        let segments: Vec<_> =
            file.segments().map(|of| (of.address(), of.size(), of.file_range().0)).collect();
        // Where an address stands in the file.
        let place = |address: u64| {
            let within = |(from, size, offset): &(u64, u64, u64)| {
                let into = address.checked_sub(*from).filter(|into| into < size)?;
                offset.checked_add(into)
            };
            segments.iter().find_map(within)
        };
        let is_function =
            |of: &object::Symbol<'_, '_>| of.kind() == SymbolKind::Text && of.size() > 0;
        let known = |of: object::Symbol<'_, '_>| {
            Some((place(of.address())?, of.size(), of.name().ok()?.to_owned()))
        };
        let mut of: Vec<_> = match file.symbol_table() {
            Some(_) => file.symbols().filter(is_function).take(MOST).filter_map(known).collect(),
            None => {
                file.dynamic_symbols().filter(is_function).take(MOST).filter_map(known).collect()
            }
        };
        // Of several names of a place the longest function's.
        of.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        of.dedup_by_key(|(from, ..)| *from);
        Ok(Self { of, names: HashMap::new() })
    }

    /// The function at a place of the file.
    pub(crate) fn at(&mut self, offset: u64) -> Option<&str> {
        let next = self.of.partition_point(|(from, ..)| *from <= offset);
        let (from, size, symbol) = self.of.get(next.checked_sub(1)?)?;
        if offset.checked_sub(*from)? >= *size {
            return None;
        }
        Some(self.names.entry(*from).or_insert_with(|| readable(symbol)))
    }
}

/// A name as its author wrote it, without arguments, and not too long.
fn readable(name: &str) -> String {
    let of_rust = || rustc_demangle::try_demangle(name).ok().map(|of| format!("{of:#}"));
    let of_cpp = || {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        symbol.demangle_with_options(&cpp_demangle::DemangleOptions::new().no_params()).ok()
    };
    let whole = of_rust().or_else(of_cpp).unwrap_or_else(|| name.to_owned());
    // It is a stranger's text, and ends up on a terminal.
    let mut shown = whole.chars().map(|of| if of.is_control() { '?' } else { of });
    let start: String = shown.by_ref().take(LONGEST).collect();
    if shown.next().is_some() { start + "..." } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_their_authors_wrote_them() {
        assert_eq!(
            readable("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"),
            "core::fmt::Formatter::pad"
        );
        assert_eq!(
            readable("_ZN2v88internal4Heap14CollectGarbageEi"),
            "v8::internal::Heap::CollectGarbage"
        );
        assert_eq!(readable("deflate_slow"), "deflate_slow");
    }

    #[test]
    fn what_is_no_program_or_another_file_has_no_functions() {
        assert!(Functions::of(b"\x7fELF and no more").is_err());
        assert!(Functions::read("/nonexistent", 1).is_err());
        assert!(Functions::read("/proc/self/exe", 0).is_err(), "another inode");
        assert!(Functions::read("/dev/null", 0).is_err());
    }

    #[test]
    fn a_place_is_in_the_function_that_stands_there() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let mut functions = Functions::of(&bytes).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let here = readable as *const () as u64;
        let parts = linerate_evidence::sources::code::executable(&maps);
        let part = parts.iter().find(|part| part.at.contains(&here)).unwrap();
        let name = functions.at(here - part.at.start + part.offset).unwrap();
        assert!(name.ends_with("functions::readable"), "{name}");
        assert_eq!(functions.at(0), None, "the file's head");
    }

    #[test]
    fn names_of_strangers_are_cut_off_and_print() {
        assert_eq!(readable("a\u{1b}[2Jb"), "a?[2Jb");
        assert_eq!(readable(&"x".repeat(1000)).len(), LONGEST + 3);
    }

    #[test]
    fn broken_programs_do_no_harm() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20 {
            let mut broken = whole[..4096.min(whole.len())].to_vec();
            for _ in 0..40 {
                let at = random.usize(16..broken.len());
                broken[at] = random.u8(..);
            }
            // An error, or functions at whatever places: no panic.
            if let Ok(mut functions) = Functions::of(&broken) {
                functions.at(u64::MAX);
            }
        }
    }
}
