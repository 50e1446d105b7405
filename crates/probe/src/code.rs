//! Which file and function a process's code is in at a place.

use std::collections::HashMap;

use linerate_evidence::sources::code::{Code, Mapped, executable};

use crate::functions::{Functions, Reader};
use crate::tree::read;

/// A file: its device and inode.
type Id = (String, u64);

/// The maps of the processes that were asked about, and the functions of the files there. See the module.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    of: HashMap<u32, Vec<Mapped>>,
    /// Those that were read since the last round: once a round is enough for a place that is in none.
    fresh: Vec<u32>,
    functions: HashMap<Id, Known>,
    reader: Option<Reader<Id>>,
}

/// What is known of a file's functions.
#[derive(Debug)]
enum Known {
    Read(Functions),
    /// Not yet: the samples since, by their place in the file of this name.
    Asked {
        file: String,
        places: HashMap<u64, u64>,
    },
    /// They could not be read in this round.
    Unread,
}

/// Places of a file whose functions are not yet known. Of more the first are kept.
const WAITING: usize = 10_000;

/// Of more files the functions are not read.
const FILES: usize = 64;

impl Maps {
    /// A new round, in which only these are asked about.
    pub(crate) fn round(&mut self, is_asked: impl Fn(&u32) -> bool) {
        self.fresh.clear();
        self.of.retain(|pid, _| is_asked(pid));
        self.functions.retain(|_, of| !matches!(of, Known::Unread));
    }

    /// Takes a sample of a process at this place; nothing where no code is mapped there.
    pub(crate) fn take(&mut self, pid: u32, place: u64, code: &mut Code) {
        let is_there = |map: &Vec<Mapped>| at(map, place).is_some();
        if !self.of.get(&pid).is_some_and(is_there) && !self.fresh.contains(&pid) {
            self.fresh.push(pid);
            let Ok(maps) = read(format!("/proc/{pid}/maps")) else { return };
            self.of.insert(pid, executable(&String::from_utf8_lossy(&maps)));
        }
        let Some(mapped) = self.of.get(&pid).and_then(|map| at(map, place)) else { return };
        code.take(mapped.file());
        let Some(offset) = (place - mapped.at.start).checked_add(mapped.offset) else { return };
        if mapped.path.is_empty() {
            code.look_up(None, mapped.file(), 1);
            return;
        }
        if !self.functions.contains_key(&mapped.id) {
            if self.functions.len() >= FILES {
                return;
            }
            if self.reader.is_none() {
                self.reader = Reader::start().ok();
            }
            let Some(reader) = &self.reader else { return };
            // As the process sees it, which may be in a container; or as we do.
            let paths = vec![format!("/proc/{pid}/root{}", mapped.path), mapped.path.clone()];
            reader.ask(mapped.id.clone(), mapped.id.1, paths);
            let asked = Known::Asked { file: mapped.file().to_owned(), places: HashMap::new() };
            self.functions.insert(mapped.id.clone(), asked);
        }
        match self.functions.get_mut(&mapped.id) {
            Some(Known::Read(functions)) => {
                code.look_up(functions.at(offset), mapped.file(), 1);
            }
            Some(Known::Asked { places, .. })
                if places.len() < WAITING || places.contains_key(&offset) =>
            {
                *places.entry(offset).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Takes the earlier samples in files whose functions are known by now.
    pub(crate) fn take_late(&mut self, code: &mut Code) {
        for (id, functions) in self.reader.iter().flat_map(Reader::done) {
            let Some(mut functions) = functions else {
                self.functions.insert(id, Known::Unread);
                continue;
            };
            if let Some(Known::Asked { file, places }) = self.functions.get(&id) {
                for (offset, times) in places {
                    code.look_up(functions.at(*offset), file, *times);
                }
            }
            self.functions.insert(id, Known::Read(functions));
        }
    }
}

fn at(map: &[Mapped], place: u64) -> Option<&Mapped> {
    let next = map.partition_point(|of| of.at.start <= place);
    map.get(next.checked_sub(1)?).filter(|of| of.at.contains(&place))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use linerate_evidence::sources::code::{BUSIEST_FUNCTION, SAMPLES};
    use linerate_evidence::{Evidence, Subject};
    use linerate_model::Timestamp;

    use super::*;

    #[test]
    fn a_place_is_in_the_file_and_function_that_are_mapped_there() {
        let (mut maps, mut code, pid) = (Maps::default(), Code::default(), std::process::id());
        let here = libc::qsort as *const () as u64;
        for (pid, place) in [(pid, here), (pid, here), (pid, 1), (u32::MAX, here)] {
            maps.take(pid, place, &mut code);
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let function = loop {
            maps.take_late(&mut code);
            let mut evidence = Evidence::default();
            code.clone().push(Timestamp(1), &mut evidence);
            let last = |metric| evidence.of(Subject::Target).last(metric);
            let fact = |name| evidence.fact(Subject::Target, name);
            assert_eq!((last(SAMPLES), fact("busiest_code")), (Ok(2), Some("libc.so.6")));
            if last(BUSIEST_FUNCTION) == Ok(2) {
                break fact("busiest_function").unwrap().to_owned();
            }
            assert!(Instant::now() < deadline, "its functions were not read");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(function, "qsort of libc.so.6");
        maps.round(|_| false);
        assert!(maps.of.is_empty() && maps.fresh.is_empty());
    }
}
