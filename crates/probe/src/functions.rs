//! The functions of a program or library, by its table of symbols.
//!
//! Source: elf(5), `.symtab`, and `.dynsym` where that was stripped.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// In the order of where they stand.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// Where in the file one begins, how long it is, and its symbol.
    of: Vec<(u64, u64, String)>,
    /// Names of those that were asked for, by where they begin.
    names: HashMap<u64, String>,
}

/// More symbols than these are not read: programs have some ten thousand, the largest browsers a million.
const MOST: usize = 500_000;

impl Functions {
    /// Of a file; none in it is no error.
    pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Self> {
        let cache = ReadCache::new(File::open(path)?);
        let file = object::File::parse(&cache).map_err(io::Error::other)?;
        let segments: Vec<_> =
            file.segments().map(|of| (of.address(), of.size(), of.file_range().0)).collect();
        // Where an address stands in the file.
        let place = |address: u64| {
            let is_there =
                |(from, size, _): &&(u64, u64, u64)| (*from..from + size).contains(&address);
            segments.iter().find(is_there).map(|(from, _, offset)| address - from + offset)
        };
        let symbols: Vec<_> = match file.symbol_table() {
            Some(_) => file.symbols().take(MOST).collect(),
            None => file.dynamic_symbols().take(MOST).collect(),
        };
        let functions = symbols.iter().filter(|of| of.kind() == SymbolKind::Text && of.size() > 0);
        let known = |of: &object::Symbol<'_, '_, _>| {
            Some((place(of.address())?, of.size(), of.name().ok()?.to_owned()))
        };
        let mut of: Vec<_> = functions.filter_map(known).collect();
        of.sort();
        of.dedup_by_key(|(from, ..)| *from);
        Ok(Self { of, names: HashMap::new() })
    }

    /// The function at a place of the file.
    pub(crate) fn at(&mut self, offset: u64) -> Option<&str> {
        let next = self.of.partition_point(|(from, ..)| *from <= offset);
        let (from, size, symbol) = self.of.get(next.checked_sub(1)?)?;
        if offset - from >= *size {
            return None;
        }
        Some(self.names.entry(*from).or_insert_with(|| readable(symbol)))
    }
}

/// A name as its author wrote it, without arguments.
fn readable(name: &str) -> String {
    let of_rust = || rustc_demangle::try_demangle(name).ok().map(|of| format!("{of:#}"));
    let of_cpp = || {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        symbol.demangle_with_options(&cpp_demangle::DemangleOptions::new().no_params()).ok()
    };
    of_rust().or_else(of_cpp).unwrap_or_else(|| name.to_owned())
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
    fn what_is_no_program_has_no_functions() {
        assert!(Functions::read("/proc/self/status").is_err());
        assert!(Functions::read("/nonexistent").is_err());
    }
}
