//! The functions of a program or library, by its table of symbols.
//!
//! Source: elf(5), `.symtab`, and `.dynsym` where that was stripped.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, Sender, channel};

use object::elf::{self, Sym64};
use object::read::ReadCache;
use object::read::elf::{ElfFile64, SectionHeader as _, Sym as _};
use object::{Endianness, Object, ObjectSegment, ReadRef};
use rustix::fs::{Mode, OFlags};

use crate::sys;

/// In the order of where they stand.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// Where in the file one begins, how long it is, and its symbol.
    of: Vec<(u64, u64, Box<str>)>,
    /// Names of those that were asked for, by where they begin.
    names: HashMap<u64, String>,
}

/// Larger tables, and names of more than this in all, are not read. Unit: bytes.
///
/// Measured: Go's servers and Erlang's VM have 0.5 MiB, which takes 1 to 2 ms. Node's 10 MiB take 64 ms of a CPU: that this leaves a
/// load alone is not shown.
const LARGEST: u64 = 2 << 20;

/// A longer symbol is none of a function that anybody would know. Unit: bytes.
const LONGEST_SYMBOL: usize = 1024;

/// More segments than these are not looked at; programs have ten or so.
const SEGMENTS: usize = 64;

/// A longer name is cut off. Unit: characters.
const LONGEST: usize = 300;

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
        // What has none that can be read has none.
        Ok(Self::of(&ReadCache::new(file)).unwrap_or_default())
    }

    fn of<'a, R: ReadRef<'a>>(bytes: R) -> object::Result<Self> {
        let bytes = Capped(bytes);
        let file = ElfFile64::<Endianness, Capped<R>>::parse(bytes)?;
        let (endian, sections) = (file.endian(), file.elf_section_table());
        let find = |kind| sections.iter().find(|of| of.sh_type(endian) == kind);
        let Some(table) = find(elf::SHT_SYMTAB).or_else(|| find(elf::SHT_DYNSYM)) else {
            return Ok(Self::default());
        };
        let names = sections.section(table.link(endian))?.data(endian, bytes)?;
        let segments = file.segments().take(SEGMENTS);
        let segments: Vec<_> =
            segments.map(|of| (of.address(), of.size(), of.file_range().0)).collect();
        // Where an address stands in the file.
        let place = |address: u64| {
            let within = |(from, size, offset): &(u64, u64, u64)| {
                let into = address.checked_sub(*from).filter(|into| into < size)?;
                offset.checked_add(into)
            };
            segments.iter().find_map(within)
        };
        let mut left = LARGEST as usize;
        let known = |of: &Sym64<Endianness>| {
            let size = of.st_size(endian);
            let is_function = of.st_type() == elf::STT_FUNC && size > 0;
            let name = is_function.then(|| names.get(of.st_name(endian) as usize..)).flatten()?;
            let length = name.iter().take(LONGEST_SYMBOL).position(|byte| *byte == 0)?;
            left = left.checked_sub(length)?;
            let name = String::from_utf8_lossy(&name[..length]).into();
            Some((place(of.st_value(endian))?, size, name))
        };
        let table: &[Sym64<Endianness>] = table.data_as_array(endian, bytes)?;
        let mut of: Vec<(_, _, Box<str>)> = table.iter().filter_map(known).collect();
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

/// A file of which no large part is read at once, whatever its head says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capped<R>(pub(crate) R);

impl<'a, R: ReadRef<'a>> ReadRef<'a> for Capped<R> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        if size > LARGEST { Err(()) } else { self.0.read_bytes_at(offset, size) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, end: u8) -> Result<&'a [u8], ()> {
        self.0.read_bytes_at_until(range, end)
    }
}

/// Reads functions beside what else is to be done: it takes 1 ms of a CPU and more.
#[derive(Debug)]
pub(crate) struct Reader<Id> {
    asked: Sender<(Id, u64, Vec<String>)>,
    done: Receiver<(Id, Option<Functions>)>,
}

impl<Id: Send + 'static> Reader<Id> {
    /// Its thread runs where a CPU of its group is idle, and ends with this.
    pub(crate) fn start() -> io::Result<Self> {
        let (asked, questions) = channel::<(Id, u64, Vec<String>)>();
        let (tell, done) = channel();
        std::thread::Builder::new().name("functions".into()).spawn(move || {
            // Refused, it is only less polite.
            let _ = sys::run_when_idle();
            for (id, inode, paths) in questions {
                let read = |path: &String| Functions::read(path, inode).ok();
                let functions = paths.iter().find_map(read);
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

    /// What was read since; none where it could not be.
    pub(crate) fn done(&self) -> impl Iterator<Item = (Id, Option<Functions>)> {
        self.done.try_iter()
    }
}

/// A name as its author wrote it, without arguments, and not too long.
fn readable(name: &str) -> String {
    let mut shown = Shown::default();
    // What is too long is an error, and what was written until then is its name.
    let _ = match (rustc_demangle::try_demangle(name), cpp_demangle::Symbol::new(name)) {
        (Ok(of_rust), _) => write!(shown, "{of_rust:#}"),
        (_, Ok(of_cpp)) => {
            let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
            of_cpp.structured_demangle(&mut shown, &options)
        }
        _ => shown.write_str(name),
    };
    shown.text
}

/// A name that is being written, as far as it is not too long.
#[derive(Default)]
struct Shown {
    text: String,
    characters: usize,
}

impl Write for Shown {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for of in more.chars() {
            if self.characters == LONGEST {
                self.text += "...";
                return Err(fmt::Error);
            }
            // It is a stranger's text, and ends up on a terminal.
            self.text.push(if of.is_control() { '?' } else { of });
            self.characters += 1;
        }
        Ok(())
    }
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
        // Of a library whose table is small, whatever this test is built with.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let here = libc::qsort as *const () as u64;
        let parts = linerate_evidence::sources::code::executable(&maps);
        let part = parts.iter().find(|part| part.at.contains(&here)).unwrap();
        let mut functions = Functions::read(&part.path, part.id.1).unwrap();
        assert_eq!(functions.at(here - part.at.start + part.offset), Some("qsort"));
        assert_eq!(functions.at(0), None, "the file's head");
    }

    #[test]
    fn names_of_strangers_are_cut_off_and_print() {
        assert_eq!(readable("a\u{1b}[2Jb"), "a?[2Jb");
        assert_eq!(readable(&"x".repeat(1000)).len(), LONGEST + 3);
    }

    #[test]
    fn names_that_grow_as_they_are_written_are_cut_off() {
        // Each substitution stands for all before it, twice.
        let nested = (0..20).fold("1a".to_owned(), |of, _| format!("1bI{of}S_E"));
        for symbol in [format!("_Z{nested}v"), format!("_ZN{}E", "1a".repeat(2000))] {
            assert!(readable(&symbol).chars().count() <= LONGEST + 3, "{symbol}");
        }
    }

    #[test]
    fn a_large_part_of_a_file_is_not_read_whatever_its_head_says() {
        let sparse = tempfile_of(1 << 36);
        let capped = ReadCache::new(sparse);
        assert_eq!(Capped(&capped).read_bytes_at(0, LARGEST + 1), Err(()));
        assert!(Capped(&capped).read_bytes_at(1 << 35, 8).is_ok());
    }

    /// A sparse file of this size, which has no name any more.
    fn tempfile_of(size: u64) -> File {
        let path = std::env::temp_dir().join(format!("linerate-sparse-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(size).unwrap();
        file
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
