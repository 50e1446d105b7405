//! What the structure of a process says.
//!
//! Source: `erts/emulator/beam` of OTP: erl_process.h, erl_ptab.h, erl_message.h.

use super::Doing;
use super::atoms::Atoms;
use super::code::{Mfa, mfa};
use super::layout::Layout;
use super::memory::{Piece, half, word};

/// Words of a stack that are searched for callers.
///
/// Chosen: frames of OTP's servers have 4 to 10 words.
const STACK: u64 = 96;

/// More messages, or a larger heap, than a machine can have. Unit: messages, words.
const ABSURD: u64 = 1 << 40;

/// What a process's structure says.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) slot: u32,
    pub(super) at: u64,
    pub(super) id: u64,
    pub(super) traced: bool,
    pub(super) registered: u64,
    pub(super) stack: Piece,
    pub(super) heap: u64,
    pub(super) initial: Option<Mfa>,
    /// Where the function it is in stands, or an address in it.
    pub(super) current: u64,
    pub(super) code: u64,
    pub(super) mailbox: u64,
    pub(super) doing: Doing,
}

/// None: it does not hold together, or has ended.
pub(super) fn understood(
    piece: &[u8],
    slot: u32,
    at: u64,
    layout: &Layout,
    atoms: &Atoms,
) -> Option<Read> {
    let word = |place| word(piece, place);
    let id = word(0)?;
    // Source: `erts_ptab_id2pix`, erl_ptab.h; `_TAG_IMMED1_PID`, erl_term.h.
    if id >> 32 != u64::from(slot) || id & 0xf != 3 {
        return None;
    }
    let doing = doing(half(piece, layout.state)?)?;
    let (heap, end, size) = (word(layout.heap)?, word(layout.heap + 8)?, word(layout.heap_size)?);
    let is_whole = heap > 0 && size < ABSURD && heap.checked_add(8 * size) == Some(end);
    let (old_end, old_heap) = (word(layout.old_end)?, word(layout.old_end + 16)?);
    let old = old_end.checked_sub(old_heap).filter(|of| *of < 8 * ABSURD);
    // While it is moved, a heap has no size.
    let heap = match (is_whole, old, doing) {
        (true, Some(old), _) => 8 * size + old,
        (_, _, Doing::Collecting | Doing::Running | Doing::Exiting) => 0,
        _ => return None,
    };
    let stop = word(layout.stop)?;
    let deep = end.checked_sub(stop).filter(|deep| is_whole && *deep <= 8 * size);
    let stack = match deep {
        Some(deep) if stop % 8 == 0 && doing != Doing::Collecting => {
            (stop, deep.min(8 * STACK) as usize)
        }
        _ => (0, 0),
    };
    // While somebody asks it about itself the first is an offset, and may be negative.
    let length = |place| {
        let length = word(place)? as i64;
        (length.unsigned_abs() < ABSURD).then_some(length)
    };
    let mailbox = length(layout.taken)? + length(layout.arrived)?;
    let current = word(layout.current)?;
    let tracer = word(layout.tracer)?;
    Some(Read {
        slot,
        at,
        id,
        // Source: `IS_TRACED`, erl_ptab.h; `NIL`, erl_term.h.
        traced: tracer != 0x3b && tracer != 0,
        registered: word(layout.registered)?,
        stack,
        heap,
        initial: mfa(piece, layout.initial, atoms),
        current: if current % 8 == 0 { current } else { 0 },
        code: word(layout.at)?,
        mailbox: mailbox.max(0) as u64,
        doing,
    })
}

/// None: it is free. Source: `ERTS_PSFLG_*`, erl_process.h; `erts_process_state2status`, erl_process.c.
pub(super) fn doing(state: u32) -> Option<Doing> {
    let has = |flags: &[u32]| flags.iter().any(|flag| state & 1 << (6 + flag) != 0);
    if has(&[4]) {
        return None;
    }
    Some(match () {
        () if has(&[5]) => Doing::Exiting,
        () if has(&[11]) => Doing::Collecting,
        () if has(&[10]) => Doing::Suspended,
        // Its own code, the VM's for it, and both on a dirty scheduler.
        () if has(&[9, 15, 23, 24]) => Doing::Running,
        // In a run queue; and active, in the same ways.
        () if has(&[8, 7, 14, 22]) => Doing::Runnable,
        () => Doing::Waiting,
    })
}

/// As `pid_to_list/1`. Source: `_GET_PID_NUM`, `_GET_PID_SER`, erl_term.h.
pub(super) fn pid(id: u64) -> String {
    let data = id as u32 >> 4;
    format!("<0.{}.{}>", data & 0x7fff, data >> 15)
}
