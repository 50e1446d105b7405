//! In whose code the target computes: which file and function its user code is in when the kernel's clock interrupts a
//! thread, and how much of it is a library of ciphers.
//!
//! The places are those of [`super::spinning`], the busiest threads'. A process's map says which file is there: its
//! program, a library, or none, where code was made at run time. The file's table of symbols says which function.
//!
//! Source: proc_pid_maps(5); elf(5). Facts besides: `busiest_code`, the file with most samples; `busiest_function`, the
//! function with most of them, and its file.
//!
//! Blind spots: as of `spinning`; a program that has its ciphers in itself (Go, Rust, Java, static OpenSSL) shows none;
//! a NIF's work in a library counts as the library's. A file without its debugging symbols names only the functions that
//! others may call, and code made at run time names none.

use std::collections::BTreeMap;
use std::ops::Range;

use linerate_model::Timestamp;

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::subject::Subject;

pub(super) const SOURCE: Source = Source {
    id: "code",
    says: "in whose code the target computes, by samples of the kernel's clock",
    of: "target",
    fetch: Fetch::Threads,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Samples of the target's busiest threads in user code whose file is known, since sampling began.
    SAMPLES: u64 = "code.samples", "1";
    /// Of those, the ones in a library of ciphers (OpenSSL, GnuTLS, NSS and so on).
    CIPHERS: u64 = "code.ciphers", "1";
    /// Of them, the ones in the file that has most.
    BUSIEST: u64 = "code.busiest", "1";
    /// Of them, the ones in the function that has most. Absent: no function is known by its name.
    BUSIEST_FUNCTION: u64 = "code.busiest_function", "1";
    /// Of them, the ones in functions by which Erlang's VM looks whether a process holds a term that is removed: an old
    /// persistent term, or a literal of old code.
    REMOVED_TERMS: u64 = "code.removed_terms", "1";
    /// Of them, the ones in the function by which Erlang's VM calls a tracer, which it does for nothing else.
    TRACING: u64 = "code.tracing", "1";
    /// Of them, the ones in functions by which Go's runtime collects garbage.
    COLLECTING: u64 = "code.collecting", "1";
    /// Of them, the ones whose function was looked for: later than the sample, where the file's table was not read yet. Shares of
    /// functions are of these.
    LOOKED_UP: u64 = "code.looked_up", "1";
}

/// The sums so far.
#[derive(Clone, Debug, Default)]
pub struct Code {
    samples: u64,
    ciphers: u64,
    removed_terms: u64,
    tracing: u64,
    collecting: u64,
    looked_up: u64,
    by_file: BTreeMap<String, u64>,
    /// By function and file.
    by_function: BTreeMap<(String, String), u64>,
    /// Those that were told last.
    told_file: Option<String>,
    told_function: Option<(String, String)>,
}

impl Code {
    /// Takes a sample in a file, by its name without folders (empty: in none).
    pub fn take(&mut self, file: &str) {
        self.samples += 1;
        self.ciphers += u64::from(is_of_ciphers(file));
        match self.by_file.get_mut(file) {
            Some(count) => *count += 1,
            None => drop(self.by_file.insert(file.to_owned(), 1)),
        }
    }

    /// Samples that were taken in this file are so many times in this function of it, or in none that is known.
    pub fn look_up(&mut self, function: Option<&str>, file: &str, times: u64) {
        self.looked_up += times;
        let Some(function) = function else { return };
        let is_one = |is_one: bool| if is_one { times } else { 0 };
        self.removed_terms += is_one(LOOK_FOR_REMOVED_TERMS.contains(&function));
        self.tracing += is_one(function == CALL_TRACER);
        self.collecting += is_one(collects(function));
        *self.by_function.entry((function.to_owned(), file.to_owned())).or_default() += times;
    }

    /// Pushes the sums; nothing where there was no sample.
    pub fn push(&mut self, at: Timestamp, evidence: &mut Evidence) {
        let busiest = self.by_file.iter().max_by_key(|(_, count)| **count);
        let Some((file, count)) = busiest else { return };
        let mut push = |metric, count| evidence.push(at, Subject::Target, metric, count);
        push(SAMPLES, self.samples);
        push(CIPHERS, self.ciphers);
        push(BUSIEST, *count);
        push(REMOVED_TERMS, self.removed_terms);
        push(TRACING, self.tracing);
        push(COLLECTING, self.collecting);
        push(LOOKED_UP, self.looked_up);
        let function = self.by_function.iter().max_by_key(|(_, count)| **count);
        function.iter().for_each(|(_, count)| push(BUSIEST_FUNCTION, **count));
        if self.told_file.as_ref() != Some(file) {
            let name = if file.is_empty() { "code made at run time" } else { file };
            evidence.push_fact(Subject::Target, "busiest_code", name.to_owned());
            self.told_file = Some(file.clone());
        }
        let function = function.map(|(function, _)| function);
        if let Some(told @ (function, file)) =
            function.filter(|it| self.told_function.as_ref() != Some(it))
        {
            evidence.push_fact(
                Subject::Target,
                "busiest_function",
                format!("{} of {file}", shown(function)),
            );
            self.told_function = Some(told.clone());
        }
    }
}

/// As much of a name as a line has room for.
fn shown(function: &str) -> String {
    // Chosen: most are shorter.
    const LONGEST: usize = 60;
    let start: String = function.chars().take(LONGEST).collect();
    if start.len() < function.len() { start + "..." } else { start }
}

/// Functions of Erlang's VM that only look for removed terms in a process. What they call has no name in most VMs, as it is for that
/// file only, and is not counted where it has one: so the share means the same in all.
// Source: erts/emulator/beam/beam_bif_load.c.
const LOOK_FOR_REMOVED_TERMS: [&str; 2] =
    ["erts_check_copy_literals_gc_need", "erts_check_copy_literals_gc_need_max_reds"];

// Source: `call_tracer` of erts/emulator/beam/erl_trace.c, `erts_nif_call_function` of erl_nif.c, OTP 19 and later.
const CALL_TRACER: &str = "erts_nif_call_function";

/// Whether a function does nothing but collect garbage: marks what is in use, copies it, sweeps the rest.
// Source: src/runtime/mgc*.go, mbitmap.go and mwbbuf.go of Go 1.19 to 1.26.
fn collects(function: &str) -> bool {
    const OF_GO: [&str; 14] = [
        "gc",
        "scan",
        "markroot",
        "greyobject",
        "findObject",
        "sweep",
        "bgsweep",
        "wbBuf",
        "tryDeferToSpanScan",
        "(*gcWork)",
        "(*gcBits",
        "(*sweepLocke",
        "(*lfstack)",
        "typePointers.",
    ];
    let of_go = function.strip_prefix("runtime.");
    function.starts_with("internal/runtime/gc")
        || of_go.is_some_and(|name| OF_GO.iter().any(|of| name.starts_with(of)))
}

/// Libraries of ciphers, without version and ending; `libcrypt` hashes passwords, and is none.
// Source: Debian's packages libssl3, libgnutls30, libnettle8, libhogweed6, libgcrypt20, libnss3, libmbedcrypto7,
// libmbedtls14, libwolfssl35, libsodium23, libbotan-2-19, libtomcrypt1.
const CIPHER_LIBRARIES: [&str; 13] = [
    "libcrypto",
    "libssl",
    "libgnutls",
    "libnettle",
    "libhogweed",
    "libgcrypt",
    "libfreeblpriv3",
    "libnss3",
    "libmbedcrypto",
    "libmbedtls",
    "libwolfssl",
    "libsodium",
    "libtomcrypt",
];

/// Whether a file is such a library: `libcrypto.so.3`, `libcrypto-1.1.so`.
fn is_of_ciphers(file: &str) -> bool {
    let name = file.split_once(".so").map_or("", |(name, _)| name);
    let name = name.split_once('-').map_or(name, |(name, _)| name);
    CIPHER_LIBRARIES.contains(&name) || name == "libbotan"
}

/// A part of a process's map that is executable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapped {
    /// The first address, and one past the last.
    pub at: Range<u64>,
    /// Where in the file its first byte stands.
    pub offset: u64,
    /// Device and inode of the file.
    pub id: (String, u64),
    /// With its folders, as the process sees it; empty where there is no file.
    pub path: String,
}

impl Mapped {
    /// The file's name without folders, empty where there is none.
    pub fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Where a word of the line begins in it.
fn offset_in(line: &str, word: &str) -> usize {
    word.as_ptr() as usize - line.as_ptr() as usize
}

/// The executable parts of a process's map, in the order of addresses.
pub fn executable(maps: &str) -> Vec<Mapped> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let is_code = words.next()?.contains('x');
        let number = |text| u64::from_str_radix(text, 16).ok();
        let offset = number(words.next()?)?;
        let id = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        // It may have spaces, and is the rest of the line; ` (deleted)` may follow it.
        let path = words.next().map_or("", |word| &line[offset_in(line, word)..]);
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        // What a JIT compiler mapped twice, to write and to run, is a file in memory only.
        let path = if path.starts_with("/memfd:") { "" } else { path }.to_owned();
        is_code.then_some(Mapped { at: number(from)?..number(to)?, offset, id, path })
    };
    maps.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_says_which_file_code_is_in() {
        let maps = "55d0-55e0 r--p 00000000 fe:00 12 /usr/sbin/nginx\n\
                    55e0-55f0 r-xp 00010000 fe:00 12 /usr/sbin/nginx (deleted)\n\
                    7f00-7f80 r-xp 00000000 fe:00 13 /usr/lib/libcrypto.so.3\n\
                    7f80-7f90 r-xp 00000000 fe:00 14 /opt/my app/srv\n\
                    7f90-7fa0 rwxp 00000000 00:00 0 \n\
                    7fb0-7fc0 r-xs 00000000 00:01 9 /memfd:vmem (deleted)\n\
                    broken\n";
        let expected = [
            (0x55e0..0x55f0, "nginx", 0x10000),
            (0x7f00..0x7f80, "libcrypto.so.3", 0),
            (0x7f80..0x7f90, "srv", 0),
            (0x7f90..0x7fa0, "", 0),
            (0x7fb0..0x7fc0, "", 0),
        ];
        let found = executable(maps);
        let found: Vec<_> = found.iter().map(|of| (of.at.clone(), of.file(), of.offset)).collect();
        assert_eq!(found, expected);
        let first = executable(maps).remove(0);
        assert_eq!((first.path.as_str(), first.id), ("/usr/sbin/nginx", ("fe:00".to_owned(), 12)));
    }

    #[test]
    fn functions_that_collect_garbage_are_known_by_their_names() {
        for is_one in [
            "runtime.scanobject",
            "runtime.gcDrain",
            "runtime.(*sweepLocked).sweep",
            "runtime.typePointers.next",
            "internal/runtime/gc/scan.ScanSpanPacked",
        ] {
            assert!(collects(is_one), "{is_one}");
        }
        for is_none in ["runtime.mallocgc", "main.scan", "gcDrain"] {
            assert!(!collects(is_none), "{is_none}");
        }
    }

    #[test]
    fn samples_in_libraries_of_ciphers_are_counted_and_the_busiest_file_is_told() {
        let (mut code, mut evidence) = (Code::default(), Evidence::default());
        code.push(Timestamp(1), &mut evidence);
        assert!(evidence.of(Subject::Target).last(SAMPLES).is_err());
        for file in ["libcrypto.so.3", "libgnutls.so.30.34.3", "libcrypt.so.1.1.0", "nginx", ""] {
            code.take(file);
        }
        code.take("libcrypto-1.1.so");
        code.look_up(Some("AES_encrypt"), "libcrypto-1.1.so", 1);
        code.look_up(None, "nginx", 2);
        code.take("nginx");
        code.push(Timestamp(2), &mut evidence);
        let of = |metric| evidence.of(Subject::Target).last(metric).unwrap();
        assert_eq!((of(SAMPLES), of(CIPHERS), of(BUSIEST)), (7, 3, 2));
        let fact = |name| evidence.fact(Subject::Target, name);
        assert_eq!(fact("busiest_code"), Some("nginx"));
        assert_eq!((of(BUSIEST_FUNCTION), of(REMOVED_TERMS), of(LOOKED_UP)), (1, 0, 3));
        assert_eq!(fact("busiest_function"), Some("AES_encrypt of libcrypto-1.1.so"));
        code.look_up(Some("erts_check_copy_literals_gc_need"), "beam.smp", 2);
        code.push(Timestamp(3), &mut evidence);
        let of = |metric| evidence.of(Subject::Target).last(metric).unwrap();
        assert_eq!((of(BUSIEST_FUNCTION), of(REMOVED_TERMS), of(TRACING)), (2, 2, 0));
        let fact = evidence.fact(Subject::Target, "busiest_function");
        assert_eq!(fact, Some("erts_check_copy_literals_gc_need of beam.smp"));
    }
}
