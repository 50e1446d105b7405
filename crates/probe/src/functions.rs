//! The functions of a program or library, by its table of symbols.
//!
//! Source: elf(5), `.symtab`, and `.dynsym` where that was stripped.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};

use object::elf::{self, SectionHeader64, Sym64};
use object::read::elf::{ElfFile64, SectionHeader as _, Sym as _, SymbolTable};
use object::read::{ReadCache, StringTable};
use object::{Endianness, Object, ObjectSegment, ReadRef};
use rustix::fs::{Mode, OFlags};

/// In the order of where they stand.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// Where in the file one begins, how long it is, and its symbol.
    of: Vec<(u64, u64, Box<str>)>,
    /// Names of those that were asked for, by where they begin.
    names: HashMap<u64, String>,
}

/// Larger tables are not read. Unit: bytes.
///
/// Chosen: Node's, of 98 MiB of program, are 10 MiB.
const LARGEST: u64 = 64 << 20;

/// More functions than these are not kept.
const MOST: usize = 300_000;

/// A longer name is cut off. Unit: characters.
const LONGEST: usize = 60;

impl Functions {
    /// Of a file, if it still is the one with this inode; none in it is no error.
    pub(crate) fn read(path: &str, inode: u64) -> io::Result<Self> {
        // What stands there now may be a pipe, at which another open would wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let is = file.metadata()?;
        if !is.is_file() || is.ino() != inode {
            return Err(io::Error::other("another file"));
        }
        Self::of(&ReadCache::new(file))
    }

    fn of<'a, R: ReadRef<'a>>(bytes: R) -> io::Result<Self> {
        Self::parse(bytes).map_err(io::Error::other)
    }

    fn parse<'a, R: ReadRef<'a>>(bytes: R) -> object::Result<Self> {
        let file = ElfFile64::<Endianness, R>::parse(bytes)?;
        let (endian, sections) = (file.endian(), file.elf_section_table());
        let is_one = |of: &(_, &SectionHeader64<Endianness>), kind| of.1.sh_type(endian) == kind;
        let find = |kind| sections.enumerate().find(|of| is_one(of, kind));
        let Some((index, table)) = find(elf::SHT_SYMTAB).or_else(|| find(elf::SHT_DYNSYM)) else {
            return Ok(Self::default());
        };
        let names = sections.section(table.link(endian))?;
        if [table, names].iter().any(|of| of.sh_size(endian) > LARGEST) {
            return Ok(Self::default());
        }
        let names = names.data(endian, bytes)?;
        let names = StringTable::new(names, 0, names.len() as u64);
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
        let known = |of: &Sym64<Endianness>| {
            let size = of.st_size(endian);
            let name = (of.st_type() == elf::STT_FUNC && size > 0).then(|| of.name(endian, names));
            let name = String::from_utf8_lossy(name?.ok()?).into();
            Some((place(of.st_value(endian))?, size, name))
        };
        let table = SymbolTable::parse(endian, bytes, sections, index, table)?;
        let mut of: Vec<(_, _, Box<str>)> = table.iter().filter_map(known).take(MOST).collect();
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

/// Reads functions beside what else is to be done: of a large program that takes 55 ms of a CPU and more (measured: 38 MiB), by
/// which a load that shares the CPUs would be late.
#[derive(Debug)]
pub(crate) struct Reader<Id> {
    asked: Sender<(Id, u64, Vec<String>)>,
    done: Receiver<(Id, Functions)>,
}

impl<Id: Send + 'static> Reader<Id> {
    /// Its thread gives way to all others, and ends with this.
    pub(crate) fn start() -> io::Result<Self> {
        let (asked, questions) = channel::<(Id, u64, Vec<String>)>();
        let (tell, done) = channel();
        std::thread::Builder::new().name("functions".into()).spawn(move || {
            // Of this thread alone: the others' stay (setpriority(2), "C library/kernel differences"). Refused, it is only less polite.
            let _ = rustix::process::setpriority_process(None, 19);
            for (id, inode, paths) in questions {
                let read = |path: &String| Functions::read(path, inode).ok();
                let functions = paths.iter().find_map(read).unwrap_or_default();
                if tell.send((id, functions)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { asked, done })
    }

    /// Asks for those of the file with this inode, which is at the first of these paths where it is.
    pub(crate) fn ask(&self, id: Id, inode: u64, paths: Vec<String>) {
        // Without its thread there is no answer.
        let _ = self.asked.send((id, inode, paths));
    }

    /// What was read since.
    pub(crate) fn done(&self) -> impl Iterator<Item = (Id, Functions)> {
        self.done.try_iter()
    }
}

/// A name as its author wrote it, without arguments, and not too long.
fn readable(name: &str) -> String {
    let of_rust = || rustc_demangle::try_demangle(name).ok().map(|of| format!("{of:#}"));
    let of_cpp = || {
        let symbol = cpp_demangle::Symbol::new(name).ok()?;
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        symbol.demangle_with_options(&options).ok()
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
        assert!(Functions::of(&b"\x7fELF and no more"[..]).is_err());
        assert!(Functions::read("/nonexistent", 1).is_err());
        assert!(Functions::read("/proc/self/exe", 0).is_err(), "another inode");
        assert!(Functions::read("/dev/null", 0).is_err());
    }

    #[test]
    fn a_place_is_in_the_function_that_stands_there() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let mut functions = Functions::of(&*bytes).unwrap();
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
            if let Ok(mut functions) = Functions::of(&*broken) {
                functions.at(u64::MAX);
            }
        }
    }
}
