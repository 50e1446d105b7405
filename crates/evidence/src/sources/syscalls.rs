//! What a thread waits for, by the system call that it is in and the call's arguments.
//!
//! No source by itself: [`super::threads`] counts with it.
//!
//! Source: `/proc/PID/task/TID/syscall` (proc_pid_syscall(5)); numbers of
//! `arch/x86/entry/syscalls/syscall_64.tbl` and of `asm-generic/unistd.h`, which aarch64 has.
//!
//! Blind spots: a `select` or `ppoll` with a timeout of zero or of a year is "timed" alike, since the timeout is
//! behind a pointer; a 32-bit program's numbers are read as if they were this machine's.

use std::time::Duration;

use super::UnreadableSource;
use super::threads::{Doing, LATER, TIMEOUTS};

/// Which numbers the calls have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Architecture {
    /// x86_64.
    X86,
    /// aarch64, riscv64 and the like.
    Generic,
}

impl Architecture {
    /// Of the machine that this was compiled for; none where the numbers are not known.
    pub fn of_this_machine() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Self::X86),
            "aarch64" | "riscv64" | "loongarch64" => Some(Self::Generic),
            _ => None,
        }
    }
}

/// A thread's `syscall`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Said {
    /// It runs, or could.
    Running,
    /// It waits for that, asleep.
    Waits(Doing),
    /// It waits for that, unless its state says that it is a disk.
    UnlessDisk(Doing),
}

/// A call, by what its arguments show of the wait.
#[derive(Clone, Copy)]
enum Call {
    Is(Doing),
    /// Its state may be that of a thread that waits for a disk.
    May(Doing),
    /// The places of the number of descriptors, if any, and of the timeout.
    Poll(Option<usize>, Timeout),
    Futex,
    /// Waits for a lock, if the timeout at that place is no pointer.
    Lock(usize),
    /// A lock of a file, if the command waits.
    Fcntl,
    /// Waits for completions.
    Ring,
}

#[derive(Clone, Copy)]
enum Timeout {
    /// Milliseconds; below 0 for ever.
    Millis(usize),
    /// A pointer; none for ever.
    Pointer(usize),
}

/// What a thread's call waits to read from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Awaited {
    /// This descriptor of its process.
    Descriptor(u32),
    /// The descriptors of so many `struct pollfd` (poll(2)) at this address of its memory; the number, an `int`, is the
    /// first of each.
    Polled(u64, u32),
    /// Those in the set of this epoll descriptor.
    Events(u32),
    /// Descriptors that are not to be told (`select`, a ring).
    Several,
}

/// Reads a thread's `syscall`: `running`, `-1 SP PC`, or the number and six arguments.
pub fn said(text: &[u8], of: Architecture) -> Result<Said, UnreadableSource> {
    Ok(match parsed(text, of)? {
        Parsed::Running => Said::Running,
        Parsed::In(call, arguments) => judged(call, &arguments),
        Parsed::Elsewhere => Said::UnlessDisk(Doing::Other),
    })
}

/// What it waits to read from. None of one that runs, or waits for something else.
pub fn awaited(text: &[u8], of: Architecture) -> Option<Awaited> {
    let Parsed::In(call, arguments) = parsed(text, of).ok()? else { return None };
    match call {
        // What a listener has to read are its clients.
        Call::Is(Doing::Read | Doing::Accept) | Call::May(Doing::Read) => {
            Some(Awaited::Descriptor(arguments[0] as u32))
        }
        // `(descriptors, their number, timeout)`; without descriptors it sleeps.
        Call::Poll(Some(1), _) if arguments[1] as u32 > 0 => {
            Some(Awaited::Polled(arguments[0], arguments[1] as u32))
        }
        // `(the highest descriptor and one, ...)`.
        Call::Poll(Some(0), _) if arguments[0] as u32 > 0 => Some(Awaited::Several),
        Call::Poll(None, _) => Some(Awaited::Events(arguments[0] as u32)),
        Call::Ring => Some(Awaited::Several),
        _ => None,
    }
}

enum Parsed {
    Running,
    In(Call, [u64; 6]),
    /// In a call that is not known, or asleep in none: a page that comes from a disk, or a stop.
    Elsewhere,
}

fn parsed(text: &[u8], of: Architecture) -> Result<Parsed, UnreadableSource> {
    let text = String::from_utf8_lossy(text);
    let mut words = text.split_ascii_whitespace();
    let expected = || UnreadableSource::line(0, "`running` or a system call", text.trim_end());
    let number: i64 = match words.next().ok_or_else(expected)? {
        "running" => return Ok(Parsed::Running),
        word => word.parse().map_err(|_| expected())?,
    };
    let Ok(number) = u32::try_from(number) else { return Ok(Parsed::Elsewhere) };
    let mut arguments = [0_u64; 6];
    for argument in &mut arguments {
        let word = words.next().and_then(|word| word.strip_prefix("0x")).ok_or_else(expected)?;
        *argument = u64::from_str_radix(word, 16).map_err(|_| expected())?;
    }
    let call = match of {
        Architecture::X86 => x86(number),
        Architecture::Generic => generic(number),
    };
    Ok(call.map_or(Parsed::Elsewhere, |call| Parsed::In(call, arguments)))
}

fn judged(call: Call, arguments: &[u64; 6]) -> Said {
    let is_null = |at: usize| arguments[at] == 0;
    let by = |forever: bool, lasting: Doing, timed: Doing| {
        Said::Waits(if forever { lasting } else { timed })
    };
    match call {
        Call::Is(doing) => Said::Waits(doing),
        Call::May(doing) => Said::UnlessDisk(doing),
        Call::Poll(descriptors, timeout) => {
            let is_sleep = descriptors.is_some_and(|at| arguments[at] as u32 == 0);
            let lasts = match timeout {
                // `int`, of which the kernel shows the whole register; negative: for ever.
                Timeout::Millis(at) => u32::try_from(arguments[at] as u32 as i32).ok(),
                Timeout::Pointer(at) if is_null(at) => None,
                // Not told.
                Timeout::Pointer(_) => Some(0),
            };
            let [short, long] = TIMEOUTS;
            Said::Waits(match lasts.map(|ms| Duration::from_millis(ms.into())) {
                None => Doing::Poll,
                Some(_) if is_sleep => Doing::Timer,
                Some(lasts) if lasts >= LATER => Doing::Poll,
                Some(lasts) if lasts >= long => Doing::Poll300Ms,
                Some(lasts) if lasts >= short => Doing::Poll30Ms,
                Some(_) => Doing::PollTimed,
            })
        }
        // `(word, operation, value, timeout)`; without the bits PRIVATE and CLOCK_REALTIME these are
        // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI and LOCK_PI2, `linux/futex.h`.
        Call::Futex => match arguments[1] & 0x7f {
            0 | 6 | 9 | 11 | 13 => by(is_null(3), Doing::Lock, Doing::LockTimed),
            _ => Said::Waits(Doing::Other),
        },
        Call::Lock(timeout) => by(is_null(timeout), Doing::Lock, Doing::LockTimed),
        // F_SETLKW, F_OFD_SETLKW.
        Call::Fcntl if matches!(arguments[1], 7 | 38) => Said::Waits(Doing::Lock),
        Call::Fcntl => Said::UnlessDisk(Doing::Other),
        // IORING_ENTER_EXT_ARG, by which a timeout comes.
        Call::Ring => by(arguments[3] & 8 == 0, Doing::Poll, Doing::PollTimed),
    }
}

fn x86(number: u32) -> Option<Call> {
    use Doing::{Accept, Child, Connect, Lock, Read, Sync, Timer, Write};
    Some(match number {
        // read, pread64, readv, preadv, preadv2
        0 | 17 | 19 | 295 | 327 => Call::May(Read),
        // recvfrom, recvmsg, recvmmsg
        45 | 47 | 299 => Call::Is(Read),
        // write, pwrite64, writev, sendfile, splice, pwritev, pwritev2
        1 | 18 | 20 | 40 | 275 | 296 | 328 => Call::May(Write),
        // sendto, sendmsg, sendmmsg
        44 | 46 | 307 => Call::Is(Write),
        // msync, fsync, fdatasync, sync, sync_file_range, syncfs
        26 | 74 | 75 | 162 | 277 | 306 => Call::Is(Sync),
        // nanosleep, clock_nanosleep
        35 | 230 => Call::Is(Timer),
        42 => Call::Is(Connect),
        // accept, accept4
        43 | 288 => Call::Is(Accept),
        // wait4, waitid
        61 | 247 => Call::Is(Child),
        // poll, ppoll
        7 => Call::Poll(Some(1), Timeout::Millis(2)),
        271 => Call::Poll(Some(1), Timeout::Pointer(2)),
        // select, pselect6
        23 | 270 => Call::Poll(Some(0), Timeout::Pointer(4)),
        // epoll_wait, epoll_pwait; epoll_pwait2
        232 | 281 => Call::Poll(None, Timeout::Millis(3)),
        441 => Call::Poll(None, Timeout::Pointer(3)),
        202 => Call::Futex,
        // semop, flock
        65 | 73 => Call::Is(Lock),
        // semtimedop
        220 => Call::Lock(3),
        72 => Call::Fcntl,
        _ => return late(number),
    })
}

fn generic(number: u32) -> Option<Call> {
    use Doing::{Accept, Child, Connect, Lock, Read, Sync, Timer, Write};
    Some(match number {
        // read, readv, pread64, preadv, preadv2
        63 | 65 | 67 | 69 | 286 => Call::May(Read),
        // recvfrom, recvmsg, recvmmsg
        207 | 212 | 243 => Call::Is(Read),
        // write, writev, pwrite64, pwritev, sendfile, splice, pwritev2
        64 | 66 | 68 | 70 | 71 | 76 | 287 => Call::May(Write),
        // sendto, sendmsg, sendmmsg
        206 | 211 | 269 => Call::Is(Write),
        // sync, fsync, fdatasync, sync_file_range, msync, syncfs
        81 | 82 | 83 | 84 | 227 | 267 => Call::Is(Sync),
        // nanosleep, clock_nanosleep
        101 | 115 => Call::Is(Timer),
        203 => Call::Is(Connect),
        // accept, accept4
        202 | 242 => Call::Is(Accept),
        // waitid, wait4
        95 | 260 => Call::Is(Child),
        // pselect6, ppoll
        72 => Call::Poll(Some(0), Timeout::Pointer(4)),
        73 => Call::Poll(Some(1), Timeout::Pointer(2)),
        // epoll_pwait; epoll_pwait2
        22 => Call::Poll(None, Timeout::Millis(3)),
        441 => Call::Poll(None, Timeout::Pointer(3)),
        98 => Call::Futex,
        // flock, semop
        32 | 193 => Call::Is(Lock),
        // semtimedop
        192 => Call::Lock(3),
        25 => Call::Fcntl,
        _ => return late(number),
    })
}

/// Calls that came when all architectures had begun to number alike.
fn late(number: u32) -> Option<Call> {
    match number {
        // io_uring_enter
        426 => Some(Call::Ring),
        // futex_waitv, futex_wait
        449 => Some(Call::Lock(3)),
        455 => Some(Call::Lock(4)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Architecture::{Generic, X86};
    use proptest::prelude::*;

    fn of(number: u32, arguments: [u64; 6], architecture: Architecture) -> Said {
        let words: Vec<String> = arguments.iter().map(|word| format!("{word:#x}")).collect();
        let text = format!("{number} {} 0x7ffe34be77f8 0x7f88df94b2ad\n", words.join(" "));
        said(text.as_bytes(), architecture).unwrap()
    }

    #[test]
    fn descriptors_that_are_read_or_polled_are_what_it_waits_for() {
        let of = |text: &str| awaited(text.as_bytes(), X86);
        assert_eq!(of("45 0x7 0x1 0x2 0x0 0x0 0x0 0x1 0x2"), Some(Awaited::Descriptor(7)));
        assert_eq!(of("0 0x5 0x1 0x2 0x0 0x0 0x0 0x1 0x2"), Some(Awaited::Descriptor(5)));
        assert_eq!(of("288 0x3 0x1 0x2 0x0 0x0 0x0 0x1 0x2"), Some(Awaited::Descriptor(3)));
        assert_eq!(
            of("7 0x7ffe10 0x1 0x7d0 0x0 0x0 0x0 0x1 0x2"),
            Some(Awaited::Polled(0x7f_fe10, 1))
        );
        assert_eq!(
            of("7 0x7ffe10 0x2 0x7d0 0x0 0x0 0x0 0x1 0x2"),
            Some(Awaited::Polled(0x7f_fe10, 2))
        );
        assert_eq!(of("232 0x4 0x1 0x2 0xffffffff 0x0 0x0 0x1 0x2"), Some(Awaited::Events(4)));
        assert_eq!(of("270 0x9 0x1 0x2 0x0 0x0 0x0 0x1 0x2"), Some(Awaited::Several));
        // None: a sleep, a lock, a run.
        assert_eq!(of("7 0x0 0x0 0x7d0 0x0 0x0 0x0 0x1 0x2"), None);
        assert_eq!(of("270 0x0 0x0 0x0 0x0 0x9a0 0x0 0x1 0x2"), None);
        assert_eq!(of("202 0x4 0x80 0x2 0x0 0x0 0x0 0x1 0x2"), None);
        assert_eq!((of("running"), of("-1 0x7f 0x1")), (None, None));
        let generic = |text: &str| awaited(text.as_bytes(), Generic);
        assert_eq!(generic("207 0x7 0x1 0x2 0x0 0x0 0x0 0x1 0x2"), Some(Awaited::Descriptor(7)));
        assert_eq!(
            generic("73 0x9a0 0x1 0x0 0x0 0x0 0x0 0x1 0x2"),
            Some(Awaited::Polled(0x9a0, 1))
        );
    }

    #[test]
    fn the_two_tables_agree_on_the_calls_that_both_have() {
        let pointer = 0x7f00_dead_beef;
        for (x86, generic, arguments, expected) in [
            (0, 63, [0; 6], Said::UnlessDisk(Doing::Read)),
            (45, 207, [5, 0, 0, 0, 0, 0], Said::Waits(Doing::Read)),
            (1, 64, [0; 6], Said::UnlessDisk(Doing::Write)),
            (44, 206, [0; 6], Said::Waits(Doing::Write)),
            (74, 82, [3, 0, 0, 0, 0, 0], Said::Waits(Doing::Sync)),
            (75, 83, [3, 0, 0, 0, 0, 0], Said::Waits(Doing::Sync)),
            (230, 115, [1, 0, pointer, 0, 0, 0], Said::Waits(Doing::Timer)),
            (42, 203, [0; 6], Said::Waits(Doing::Connect)),
            (288, 242, [0; 6], Said::Waits(Doing::Accept)),
            (61, 260, [0; 6], Said::Waits(Doing::Child)),
            // FUTEX_WAIT_PRIVATE; FUTEX_WAIT_BITSET_PRIVATE with a timeout.
            (202, 98, [pointer, 0x80, 2, 0, 0, 0], Said::Waits(Doing::Lock)),
            (202, 98, [pointer, 0x189, 0, pointer, 0, !0], Said::Waits(Doing::LockTimed)),
            // epoll_pwait for ever (-1 in half a register), and for 20, 100 and 500 ms.
            (281, 22, [4, pointer, 64, 0xffff_ffff, 0, 8], Said::Waits(Doing::Poll)),
            (281, 22, [4, pointer, 64, 20, 0, 8], Said::Waits(Doing::PollTimed)),
            (281, 22, [4, pointer, 64, 100, 0, 8], Said::Waits(Doing::Poll30Ms)),
            (281, 22, [4, pointer, 64, 500, 0, 8], Said::Waits(Doing::Poll300Ms)),
            (271, 73, [pointer, 2, 0, 0, 0, 0], Said::Waits(Doing::Poll)),
            (270, 72, [0, 0, 0, 0, pointer, 0], Said::Waits(Doing::Timer)),
            (220, 192, [0, 0, 0, pointer, 0, 0], Said::Waits(Doing::LockTimed)),
            (65, 193, [0; 6], Said::Waits(Doing::Lock)),
            (72, 25, [3, 7, 0, 0, 0, 0], Said::Waits(Doing::Lock)),
            (426, 426, [3, 0, 1, 1, 0, 8], Said::Waits(Doing::Poll)),
            (455, 455, [0, 0, 0, 0, pointer, 0], Said::Waits(Doing::LockTimed)),
            (9_999, 9_999, [0; 6], Said::UnlessDisk(Doing::Other)),
        ] {
            assert_eq!(of(x86, arguments, X86), expected, "x86_64 {x86}");
            assert_eq!(of(generic, arguments, Generic), expected, "generic {generic}");
        }
    }

    #[test]
    fn calls_that_only_x86_has() {
        assert_eq!(of(7, [0, 0, 20, 0, 0, 0], X86), Said::Waits(Doing::Timer));
        assert_eq!(of(7, [0x10, 1, u64::MAX, 0, 0, 0], X86), Said::Waits(Doing::Poll));
        assert_eq!(of(232, [4, 0, 0, 0xffff_ffff, 0, 0], X86), Said::Waits(Doing::Poll));
        // A minute; and a sleep of as long.
        assert_eq!(of(232, [4, 0, 0, 60_000, 0, 0], X86), Said::Waits(Doing::Poll));
        assert_eq!(of(7, [0, 0, 60_000, 0, 0, 0], X86), Said::Waits(Doing::Timer));
        assert_eq!(of(35, [0; 6], X86), Said::Waits(Doing::Timer));
    }

    #[test]
    fn a_thread_that_runs_or_is_in_no_call() {
        assert_eq!(said(b"running\n", X86), Ok(Said::Running));
        assert_eq!(said(b"-1 0x7ffe 0x7f88\n", X86), Ok(Said::UnlessDisk(Doing::Other)));
        let error = said(b"7 0x1 zwei\n", X86).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: expected `running` or a system call, found `7 0x1 zwei`"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            text in "-?[0-9]{1,20}( 0x[0-9a-f]{0,17}){0,9}",
        ) {
            let _ = said(&bytes, X86);
            let _ = said(text.as_bytes(), Generic);
        }
    }
}
