//! Memory that is anything, or torn.

use std::time::{Duration, Instant};

use super::process::{doing, pid};
use super::*;

/// Memory in which anything can stand anywhere.
#[derive(Debug)]
struct Garbage(fastrand::Rng);

impl Memory for Garbage {
    fn fill(&mut self, pieces: &[Piece], into: &mut [u8]) -> io::Result<usize> {
        let random = &mut self.0;
        assert_eq!(pieces.iter().map(|(_, length)| length).sum::<usize>(), into.len());
        for word in into.chunks_mut(8) {
            // Null, small, a pointer, an atom, a pid, as large as can be; and what is nothing of these.
            let any = match random.u8(..8) {
                0 => 0,
                1 => random.u64(..300),
                2 => random.u64(..1 << 40) & !7,
                3 => random.u64(..1 << 20) << 6 | 0xb,
                4 => random.u64(..1 << 16) << 32 | 3,
                5 => u64::MAX - random.u64(..16),
                6 => 1 << random.u8(..64),
                _ => random.u64(..),
            };
            word.copy_from_slice(&any.to_ne_bytes()[..word.len()]);
        }
        match random.u8(..8) {
            0 => Ok(random.usize(..=into.len())),
            1 => Ok(usize::MAX),
            2 => Ok(0),
            3 if random.u8(..16) == 0 => Err(io::Error::other("gone")),
            _ => Ok(into.len()),
        }
    }
}

/// As much of the memory of a VM as it reads, with words in it that are not as they were.
#[derive(Debug)]
struct Torn(Living, fastrand::Rng);

impl Memory for Torn {
    fn fill(&mut self, pieces: &[Piece], into: &mut [u8]) -> io::Result<usize> {
        let filled = self.0.fill(pieces, into)?;
        let (random, size) = (&mut self.1, into.len());
        for _ in 0..random.usize(..=1 + size / 512) {
            let at = random.usize(..size.max(1)) & !7;
            if let Some(word) = into.get_mut(at..at + 8) {
                let other = match random.u8(..4) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => random.u64(..),
                    _ => u64::from_ne_bytes((&*word).try_into().unwrap()) ^ 1 << random.u8(..64),
                };
                word.copy_from_slice(&other.to_ne_bytes());
            }
        }
        Ok(if random.u8(..16) == 0 { random.usize(..=filled) } else { filled })
    }
}

const BOUND: Duration = Duration::from_secs(120);

#[test]
fn memory_of_an_erlang_vm_that_is_garbage_is_read_to_an_end() {
    let (began, seed) = (Instant::now(), fastrand::u64(..));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..100 {
        let (symbols, layout) = Symbols::made_up();
        let mut memory = Garbage(random.fork());
        symbols.layout(&mut memory);
        let found = Code::find(&symbols, &layout, &mut memory);
        let code = found.unwrap_or_else(|| Code::at(&symbols, symbols.near_ranges));
        let mut vm = Vm::new(Box::new(memory), symbols, layout, code);
        for most in [0, 1, 100, 1000] {
            if let Ok(seen) = vm.processes(most) {
                assert!(seen.len() <= most);
            }
        }
    }
    assert!(began.elapsed() < BOUND);
}

#[test]
fn memory_of_an_erlang_vm_that_is_torn_is_read_to_an_end() {
    let mut child = std::process::Command::new("erl")
        .args(["-noshell", "-noinput", "-eval", "io:format(\"ready~n\")."])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut says = io::BufReader::new(child.stdout.take().unwrap());
    io::BufRead::read_line(&mut says, &mut line).unwrap();
    let (began, seed) = (Instant::now(), fastrand::u64(..));
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pid = child.id();
    let (symbols, mut count) = (Symbols::of(pid).unwrap(), 0);
    let layout = symbols.layout(&mut Living::open(pid).unwrap()).unwrap();
    for _ in 0..30 {
        let code = Code::find(&symbols, &layout, &mut Living::open(pid).unwrap()).unwrap();
        let mut memory = Torn(Living::open(pid).unwrap(), random.fork());
        Code::find(&symbols, &layout, &mut memory);
        let mut vm = Vm::new(Box::new(memory), symbols, layout, code);
        for _ in 0..30 {
            count += vm.processes(1000).unwrap().len();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(count > 1000 && began.elapsed() < BOUND, "{count}");
}

#[test]
fn a_state_is_told_as_the_erlang_vm_tells_it() {
    let bit = |of: u32| 1 << (6 + of);
    assert_eq!(doing(0x2a), Some(Doing::Waiting));
    assert_eq!(doing(bit(4) | bit(5)), None);
    assert_eq!(doing(bit(9) | bit(11)), Some(Doing::Collecting));
    assert_eq!(doing(bit(7) | bit(8)), Some(Doing::Runnable));
    assert_eq!(doing(bit(7) | bit(23)), Some(Doing::Running));
    assert_eq!(doing(bit(7) | bit(10)), Some(Doing::Suspended));
    // Slot 39, and the 79th that began.
    assert_eq!(pid(0x278000004f3), "<0.79.0>");
}
