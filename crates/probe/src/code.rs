//! Which file a process's code is in at a place.

use std::collections::HashMap;

use linerate_evidence::sources::code::executable;

use crate::tree::read;

/// The maps of the processes that were asked about. See the module.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    of: HashMap<u32, Vec<(u64, u64, String)>>,
    /// Those that were read since the last round: once a round is enough for a place that is in none.
    fresh: Vec<u32>,
}

impl Maps {
    /// A new round, in which only these are asked about.
    pub(crate) fn round(&mut self, is_asked: impl Fn(&u32) -> bool) {
        self.fresh.clear();
        self.of.retain(|pid, _| is_asked(pid));
    }

    /// The file's name without folders, empty where code was made at run time; none where no code is mapped there.
    pub(crate) fn file(&mut self, pid: u32, place: u64) -> Option<&str> {
        let is_there = |map: &Vec<(u64, u64, String)>| at(map, place).is_some();
        if !self.of.get(&pid).is_some_and(is_there) && !self.fresh.contains(&pid) {
            self.fresh.push(pid);
            let maps = read(format!("/proc/{pid}/maps")).ok()?;
            self.of.insert(pid, executable(&String::from_utf8_lossy(&maps)));
        }
        self.of.get(&pid).and_then(|map| at(map, place))
    }
}

fn at(map: &[(u64, u64, String)], place: u64) -> Option<&str> {
    let next = map.partition_point(|(from, ..)| *from <= place);
    let (_, to, name) = map.get(next.checked_sub(1)?)?;
    (place < *to).then_some(name)
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
        assert_eq!(maps.file(pid, here), Some(name));
        assert_eq!(maps.file(pid, 1), None);
        assert_eq!(maps.file(u32::MAX, here), None);
        maps.round(|_| false);
        assert!(maps.of.is_empty() && maps.fresh.is_empty());
    }
}
