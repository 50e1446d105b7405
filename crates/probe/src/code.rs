//! Which file and function a process's code is in at a place.

use std::collections::{HashMap, HashSet};

use linerate_evidence::sources::code::{Mapped, executable};

use crate::functions::Functions;
use crate::tree::read;

/// The maps of the processes that were asked about, and the functions of the files there. See the module.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    of: HashMap<u32, Vec<Mapped>>,
    /// Those that were read since the last round: once a round is enough for a place that is in none.
    fresh: Vec<u32>,
    /// By the file's device and inode.
    functions: HashMap<(String, u64), Functions>,
    /// Files that were tried in this round.
    unread: HashSet<(String, u64)>,
}

impl Maps {
    /// A new round, in which only these are asked about.
    pub(crate) fn round(&mut self, is_asked: impl Fn(&u32) -> bool) {
        self.fresh.clear();
        self.of.retain(|pid, _| is_asked(pid));
        self.unread.clear();
        let there: HashSet<_> = self.of.values().flatten().map(|mapped| &mapped.id).collect();
        self.functions.retain(|id, _| there.contains(id));
    }

    /// The file's name without folders, empty where code was made at run time, and the function's, as far as it has one;
    /// none where no code is mapped there.
    pub(crate) fn find(&mut self, pid: u32, place: u64) -> Option<(&str, Option<&str>)> {
        let is_there = |map: &Vec<Mapped>| at(map, place).is_some();
        if !self.of.get(&pid).is_some_and(is_there) && !self.fresh.contains(&pid) {
            self.fresh.push(pid);
            let maps = read(format!("/proc/{pid}/maps")).ok()?;
            self.of.insert(pid, executable(&String::from_utf8_lossy(&maps)));
        }
        let mapped = self.of.get(&pid).and_then(|map| at(map, place))?;
        if mapped.path.is_empty() {
            return Some(("", None));
        }
        if !self.functions.contains_key(&mapped.id) && self.unread.insert(mapped.id.clone()) {
            // As the process sees it, which may be in a container; or as we do.
            let paths = [format!("/proc/{pid}/root{}", mapped.path), mapped.path.clone()];
            let read = |path: &String| Functions::read(path, mapped.id.1).ok();
            if let Some(functions) = paths.iter().find_map(read) {
                self.functions.insert(mapped.id.clone(), functions);
            }
        }
        let offset = (place - mapped.at.start).checked_add(mapped.offset);
        let functions = self.functions.get_mut(&mapped.id);
        let function = functions.zip(offset).and_then(|(of, offset)| of.at(offset));
        Some((mapped.file(), function))
    }
}

fn at(map: &[Mapped], place: u64) -> Option<&Mapped> {
    let next = map.partition_point(|of| of.at.start <= place);
    map.get(next.checked_sub(1)?).filter(|of| of.at.contains(&place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_in_the_file_that_is_mapped_there() {
        let (mut maps, pid) = (Maps::default(), std::process::id());
        let here = at as *const () as u64;
        let program = std::env::current_exe().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        // With debugging symbols it may be too large for functions to be read.
        let (file, function) = maps.find(pid, here).unwrap();
        assert_eq!(file, name);
        assert!(function.is_none_or(|name| name.contains("code::at")), "{function:?}");
        assert_eq!(maps.find(pid, 1), None);
        assert_eq!(maps.find(u32::MAX, here), None);
        maps.round(|_| false);
        assert!(maps.of.is_empty() && maps.fresh.is_empty());
    }
}
