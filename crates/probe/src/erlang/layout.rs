//! Where the VM of a release keeps what is read. To add a release: its line in [`LAYOUTS`].
//!
//! Source: `erts/emulator/beam` of OTP; the file is named at each place.

use std::fs::File;

use object::Endianness;
use object::elf::{self, Sym64};
use object::read::ReadCache;
use object::read::elf::{
    ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _, Sym as _,
};

use super::memory::{self, Memory, half};
use crate::functions::Capped;

/// Places in structures. Unit: bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    release: &'static str,
    /// `r.o.tab`, `r.o.max` and `r.o.invalid_element` of `ErtsPTab`, erl_ptab.h.
    pub(super) table: u64,
    pub(super) table_max: u64,
    pub(super) table_invalid: u64,
    /// `vola.tile.last_data`: changes as processes begin, with `+P` of the kind `legacy`.
    pub(super) table_last: u64,
    /// `vola.tile.count`.
    pub(super) table_count: u64,
    /// `vola.tile.aid_ix`, then `fid_ix`: processes that began, and that ended, modulo 2^32.
    pub(super) table_changes: u64,
    /// `struct process`, erl_process.h: as much of it as is read.
    pub(super) process: usize,
    /// `common` of it, `ErtsPTabElementCommon`, erl_ptab.h.
    pub(super) tracer: usize,
    pub(super) registered: usize,
    pub(super) stop: usize,
    /// Then `hend`.
    pub(super) heap: usize,
    pub(super) heap_size: usize,
    pub(super) at: usize,
    /// `sig_qs.len`, erl_message.h: inner and middle queue.
    pub(super) taken: usize,
    /// `u.initial`, then `current`.
    pub(super) initial: usize,
    pub(super) current: usize,
    /// Then `old_htop` and `old_heap`.
    pub(super) old_end: usize,
    pub(super) state: usize,
    /// `sig_inq.len`, erl_message.h: outer queue.
    pub(super) arrived: usize,
    /// `struct reg_proc`, register.h: `p`, `pt`, `name`.
    pub(super) of_name: u64,
    /// `entries` and `seg_table` of `IndexTable`, index.h.
    pub(super) atoms: u64,
    pub(super) atom_segments: u64,
    /// `functions` of `BeamCodeHeader`, beam_code.h; its first word is their number.
    pub(super) functions: usize,
    /// `mfa` of `ErtsCodeInfo`, code_ix.h.
    pub(super) mfa: u64,
}

/// Verified on 25.2.3 (`tests/erlang.rs`).
const LAYOUTS: [Layout; 1] = [Layout {
    release: "25",
    table: 192,
    table_max: 208,
    table_invalid: 248,
    table_last: 128,
    table_count: 136,
    table_changes: 140,
    process: 680,
    tracer: 16,
    registered: 48,
    stop: 88,
    heap: 128,
    heap_size: 152,
    at: 256,
    taken: 392,
    initial: 448,
    current: 472,
    old_end: 504,
    state: 640,
    arrived: 672,
    of_name: 16,
    atoms: 116,
    atom_segments: 120,
    functions: 96,
    mfa: 16,
}];

/// Where the VM's own variables are in a process.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Symbols {
    pub(super) processes: u64,
    pub(super) atoms: u64,
    pub(super) active_code: u64,
    /// The module ranges, which have no symbol, are near this variable of the same file.
    pub(super) near_ranges: u64,
    release: u64,
    /// Whether it is the JIT, and whether it was built to count locks or to be debugged: then the layout is another.
    is_jit: u64,
    is_counting: u64,
    is_debug: u64,
    /// Only where it was built with frame pointers, for which a process has a word more.
    frames: u64,
}

impl Symbols {
    /// None: the process runs no VM for this kind of CPU, or its file may not be read.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let exe = format!("/proc/{pid}/exe");
        let name = std::fs::read_link(&exe).ok()?;
        // With ` (deleted)` after an update.
        if !name.file_name()?.to_str()?.starts_with("beam.smp") {
            return None;
        }
        let cache = ReadCache::new(File::open(exe).ok()?);
        let bytes = Capped(&cache);
        let file = ElfFile64::<Endianness, _>::parse(bytes).ok()?;
        let endian = file.endian();
        // `Layout` and the frames of code are those of this kind.
        if file.elf_header().e_machine(endian) != elf::EM_X86_64 {
            return None;
        }
        let headers = file.elf_program_headers();
        let headers = headers.iter().find(|of| of.p_type(endian) == elf::PT_PHDR)?;
        let loaded = auxiliary(pid, AT_PHDR)?.wrapping_sub(headers.p_vaddr(endian));
        let sections = file.elf_section_table();
        let table = sections.iter().find(|of| of.sh_type(endian) == elf::SHT_DYNSYM)?;
        let names = sections.section(table.link(endian)).ok()?.data(endian, bytes).ok()?;
        let table: &[Sym64<Endianness>] = table.data_as_array(endian, bytes).ok()?;
        let mut found = Self::default();
        let mut wanted = [
            ("erts_proc", &mut found.processes),
            ("erts_atom_table", &mut found.atoms),
            ("the_active_code_index", &mut found.active_code),
            ("erts_dump_lit_areas", &mut found.near_ranges),
            ("etp_otp_release", &mut found.release),
            ("etp_beamasm", &mut found.is_jit),
            ("etp_lock_count", &mut found.is_counting),
            ("etp_debug_compiled", &mut found.is_debug),
            ("erts_frame_layout", &mut found.frames),
        ];
        for symbol in table {
            let Some(name) = names.get(symbol.st_name(endian) as usize..) else { continue };
            let is = |of: &str| {
                name.strip_prefix(of.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            };
            if let Some((_, address)) = wanted.iter_mut().find(|(name, _)| is(name)) {
                **address = loaded.wrapping_add(symbol.st_value(endian));
            }
        }
        wanted.iter().all(|(_, address)| **address != 0).then_some(found)
    }

    /// The layout of the release that it says it is.
    pub(super) fn layout(&self, memory: &mut dyn Memory) -> Option<Layout> {
        let pieces =
            [(self.release, 3), (self.is_jit, 4), (self.is_counting, 4), (self.is_debug, 4)];
        let taken = memory::read(memory, &pieces).ok()?;
        let release = std::str::from_utf8(taken.piece(0)?).ok()?.trim_end_matches('\0');
        let says = |index| half(taken.piece(index)?, 0);
        if (says(1)?, says(2)?, says(3)?) != (1, 0, 0) {
            return None;
        }
        LAYOUTS.into_iter().find(|of| of.release == release)
    }

    /// As a VM of the first release has them, all at made-up places.
    #[cfg(test)]
    pub(super) fn made_up() -> (Self, Layout) {
        let (processes, atoms, active_code, near_ranges) = (0x1000, 0x2000, 0x3000, 0x4000);
        (Self { processes, atoms, active_code, near_ranges, ..Self::default() }, LAYOUTS[0])
    }
}

/// Where the kernel put the program's headers. Source: getauxval(3).
const AT_PHDR: u64 = 3;

fn auxiliary(pid: u32, key: u64) -> Option<u64> {
    let file = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let pair = |pair: &[u8]| Some((memory::word(pair, 0)?, memory::word(pair, 8)?));
    let found = file.chunks_exact(16).filter_map(pair).find(|(of, _)| *of == key);
    Some(found?.1)
}
