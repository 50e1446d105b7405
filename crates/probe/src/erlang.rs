//! What each process of an Erlang VM is at, seen from outside: for nodes that can't be asked, as they have no name.
//!
//! It reads the memory of the VM, and neither stops it nor writes to it. What is read may be torn, as the VM runs on: each
//! pointer, length and tag is checked, and a process that does not hold together is left out.
//!
//! Blind spot: of a process that runs, function, stack and heap are as when it was last scheduled in. Messages that are
//! still in one of the buffers of parallel signal sending are not counted. Compiled for x86-64, with the JIT, only.
//!
//! Source: `erts/emulator/beam` of OTP: erl_ptab.h, erl_process.h, erl_message.h, register.h.

use std::collections::HashSet;
use std::io;

mod atoms;
mod code;
mod layout;
mod memory;
mod process;

use atoms::Atoms;
use code::{Code, Wanted};
use layout::{Layout, Symbols};
use memory::{Living, Memory, Piece, Taken, half, read, read_into, word, words};
use process::{Read, pid, understood};

/// A process of an Erlang VM.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seen {
    /// As in `<0.123.0>`.
    pub pid: String,
    /// The name under which it is registered.
    pub name: Option<String>,
    /// The function it began with, as `module:function/arity`.
    pub initial: Option<String>,
    /// The function it is in, as `module:function/arity`.
    pub function: Option<String>,
    /// The callers of that, the innermost first, at most 8.
    pub stack: Vec<String>,
    /// Messages that it has not taken, those that only just arrived too.
    pub mailbox: u64,
    /// Its state.
    pub doing: Doing,
    /// Whether it has a tracer.
    pub traced: bool,
    /// Its heap and its old heap. Unit: bytes.
    pub heap: u64,
}

/// The state of a process of an Erlang VM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doing {
    /// It waits for a message.
    Waiting,
    /// It could run, and waits for a scheduler.
    Runnable,
    /// A scheduler runs it, an ordinary or a dirty one.
    Running,
    /// Its garbage is being collected.
    Collecting,
    /// It ends.
    Exiting,
    /// It was suspended, as by a full port or by `erlang:suspend_process/1`.
    Suspended,
}

/// Callers of a function that are told.
const CALLERS: usize = 8;

/// Slots of the process table that are looked at in a call; of a larger one the next ones in the next call.
///
/// Source: 2^18 unless `+P` says otherwise, erl(1).
const SLOTS: u64 = 1 << 20;

/// Source: `ERTS_PTAB_MAX_SIZE`, erl_ptab.h.
const LARGEST: u64 = 1 << 27;

/// Processes whose structures are read at once.
const AT_ONCE: usize = 4096;

/// The VM of a process of the kernel.
#[derive(Debug)]
pub struct Vm {
    memory: Box<dyn Memory>,
    symbols: Symbols,
    layout: Layout,
    atoms: Atoms,
    code: Code,
    /// Room for what is read in each round: the table, the structures, and the names and stacks.
    room: [Taken; 3],
    /// The processes' places by their slots, and where and since which change they are so.
    slots: Vec<(u32, u64)>,
    of: [u64; 3],
    /// Where the next window of a large table begins.
    window: u64,
    /// Slots of processes that had messages or ran when they were last read.
    busy: HashSet<u32>,
    /// The slot at which the turn of the others goes on.
    turn: u32,
}

impl Vm {
    /// None: no Erlang VM, a release whose layout is not known, or its memory may not be read, which needs root or what
    /// ptrace(2) calls `PTRACE_MODE_ATTACH`.
    pub fn of(pid: u32) -> Option<Self> {
        let symbols = Symbols::of(pid)?;
        let mut memory = Living::open(pid)?;
        let layout = symbols.layout(&mut memory)?;
        let code = Code::find(&symbols, &layout, &mut memory)?;
        let mut vm = Self::new(Box::new(memory), symbols, layout, code);
        // A VM that was built otherwise has no process that holds together.
        let some = vm.processes(16).ok()?;
        vm.busy.clear();
        some.iter().any(|of| of.initial.is_some()).then_some(vm)
    }

    fn new(memory: Box<dyn Memory>, symbols: Symbols, layout: Layout, code: Code) -> Self {
        let (atoms, busy) = (Atoms::default(), HashSet::new());
        let (room, slots, of, window, turn) = Default::default();
        Self { memory, symbols, layout, atoms, code, room, slots, of, window, busy, turn }
    }

    /// What at most so many processes are at now. Where there are more: those that had messages or ran before, and the
    /// others in turn.
    pub fn processes(&mut self, most: usize) -> io::Result<Vec<Seen>> {
        self.take_slots()?;
        let mut seen = Vec::new();
        for chosen in self.chosen(most).chunks(AT_ONCE) {
            seen.extend(self.seen(chosen)?);
        }
        Ok(seen)
    }

    /// Takes what is read in each round: where tables are now, and which slots are used.
    fn take_slots(&mut self) -> io::Result<()> {
        let (layout, memory) = (self.layout, self.memory.as_mut());
        let table = self.symbols.processes;
        let [ranges, active] = self.code.heads();
        let atoms = (self.symbols.atoms, layout.atom_segments as usize + 8);
        let heads = [(table, layout.table_invalid as usize + 8), atoms, ranges, active];
        let heads = read(memory, &heads)?;
        if let (Some(ranges), Some(active)) = (heads.piece(2), heads.piece(3)) {
            self.code.take(memory, ranges, half(active, 0).unwrap_or(u32::MAX) as usize)?;
        }
        let mut known = || {
            let (table, atoms) = (heads.piece(0)?, heads.piece(1)?);
            self.atoms.take(&layout, atoms)?;
            let word = |at: u64| word(table, at as usize);
            let max = u64::from(half(table, layout.table_max as usize)?).min(LARGEST);
            let changes = [word(layout.table_last)?, word(layout.table_changes)?];
            let of = [word(layout.table)?, changes[0], changes[1]];
            let count = half(table, layout.table_count as usize)?;
            Some((of, max, count, word(layout.table_invalid)?))
        };
        let Some((of, max, processes, invalid)) = known() else {
            self.slots.clear();
            return Ok(());
        };
        if of == self.of && max <= SLOTS {
            return Ok(());
        }
        let from = if self.window < max { self.window } else { 0 };
        let count = SLOTS.min(max - from);
        self.window = from + count;
        // In parts: where one can't be read, the others are.
        const PART: u64 = 1 << 15;
        let part = |first: u64| {
            (of[0].wrapping_add(8 * (from + first)), 8 * PART.min(count - first) as usize)
        };
        let parts: Vec<Piece> = (0..count).step_by(PART as usize).map(part).collect();
        let taken = &mut self.room[0];
        read_into(memory, &parts, taken)?;
        let window = from..from + count;
        self.slots.retain(|(slot, _)| !window.contains(&u64::from(*slot)));
        for (part, first) in taken.pieces().zip((0..).step_by(PART as usize)) {
            // Most have none.
            const EMPTY: [u8; 8 * 64] = [0; 8 * 64];
            let chunks = part.unwrap_or_default().chunks(EMPTY.len());
            for (chunk, first) in chunks.zip((from + first..).step_by(64)) {
                if *chunk == EMPTY {
                    continue;
                }
                let used = words(chunk).zip(first..);
                let used = used.filter(|(at, _)| *at != 0 && *at != invalid && at % 8 == 0);
                self.slots.extend(used.map(|(at, slot)| (slot as u32, at)));
            }
        }
        self.slots.sort_unstable();
        // One that has begun may not have its slot yet: again in the next round.
        self.of = if self.slots.len() == processes as usize { of } else { [0; 3] };
        Ok(())
    }

    /// Those that were busy, as far as they leave a quarter to others, and others in turn.
    fn chosen(&mut self, most: usize) -> Vec<(u32, u64)> {
        let slots = &self.slots;
        if slots.len() <= most {
            return slots.clone();
        }
        let is_busy = |of: &&(u32, u64)| self.busy.contains(&of.0);
        let mut chosen: Vec<_> =
            slots.iter().filter(is_busy).take(most - most / 4).copied().collect();
        let next = slots.partition_point(|(slot, _)| *slot < self.turn);
        let (before, after) = slots.split_at(next);
        let there: HashSet<u32> = chosen.iter().map(|(slot, _)| *slot).collect();
        let others = after.iter().chain(before).filter(|(slot, _)| !there.contains(slot));
        let others: Vec<_> = others.take(most - chosen.len()).copied().collect();
        if let Some((last, _)) = others.last() {
            self.turn = last.saturating_add(1);
        }
        chosen.extend(others);
        chosen.sort_unstable();
        chosen
    }

    fn seen(&mut self, chosen: &[(u32, u64)]) -> io::Result<Vec<Seen>> {
        let (layout, memory) = (self.layout, self.memory.as_mut());
        let pieces: Vec<Piece> = chosen.iter().map(|(_, at)| (*at, layout.process)).collect();
        let [_, structures, rest] = &mut self.room;
        read_into(memory, &pieces, structures)?;
        let structures = structures.pieces().zip(chosen);
        let processes: Vec<Read> = structures
            .filter_map(|(piece, (slot, at))| understood(piece?, *slot, *at, &layout, &self.atoms))
            .collect();

        // Names and stacks; a piece of no bytes where there is none.
        let names = processes.iter().map(|of| match of.registered {
            0 => (0, 0),
            at => (at.wrapping_add(layout.of_name), 24),
        });
        let pieces: Vec<Piece> = names.chain(processes.iter().map(|of| of.stack)).collect();
        read_into(memory, &pieces, rest)?;
        let count = processes.len();
        let name = |(index, of): (usize, &Read)| {
            let piece = rest.piece(index)?;
            // A name of another: it was torn.
            if word(piece, 0)? == of.at { word(piece, 16) } else { None }
        };
        let names: Vec<Option<u64>> = processes.iter().enumerate().map(name).collect();
        let code = &self.code;
        let callers = |index: usize| -> Vec<u64> {
            let stack = words(rest.piece(count + index).unwrap_or_default());
            // A return address is behind its call, and has no tag. Source: `is_CP`, erl_term.h.
            let addresses = stack.filter(|word| word % 4 == 0 && *word > 0).map(|word| word - 1);
            addresses.filter(|of| code.is(*of)).take(CALLERS).collect()
        };
        let callers: Vec<Vec<u64>> = (0..count).map(callers).collect();

        let (mut wanted, is_at) = (Wanted::default(), |of: &&Read| of.current != 0);
        wanted.addresses.extend(processes.iter().map(|of| of.code));
        wanted.addresses.extend(callers.iter().flatten());
        wanted.places.extend(processes.iter().filter(is_at).map(|of| of.current));
        wanted.mfas.extend(processes.iter().filter_map(|of| of.initial));
        self.code.ask(memory, &layout, &mut self.atoms, &wanted)?;
        self.atoms.ask(memory, names.iter().flatten().copied())?;

        let mut seen = Vec::with_capacity(count);
        for ((of, callers), name) in processes.iter().zip(callers).zip(names) {
            if of.mailbox > 0 || matches!(of.doing, Doing::Running | Doing::Runnable) {
                self.busy.insert(of.slot);
            } else {
                self.busy.remove(&of.slot);
            }
            let (code, owned) = (&self.code, str::to_owned);
            let function = match of.current {
                0 => code.named_with(of.code),
                place => code.named_at(place),
            };
            let stack = callers.iter().filter_map(|of| code.named_with(*of));
            seen.push(Seen {
                pid: pid(of.id),
                name: name.and_then(|term| self.atoms.name(term)).map(owned),
                initial: of.initial.and_then(|mfa| code.named(&mfa)).map(owned),
                function: function.map(owned),
                stack: stack.map(owned).collect(),
                mailbox: of.mailbox,
                doing: of.doing,
                traced: of.traced,
                heap: of.heap,
            });
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests;
