//! In whose code the target computes: which file its user code is in when the kernel's clock interrupts a thread, and
//! how much of it is a library of ciphers.
//!
//! The places are those of [`super::spinning`], the busiest threads'. A process's map says which file is there: its
//! program, a library, or none, where code was made at run time.
//!
//! Source: proc_pid_maps(5). Fact besides: `busiest_code`, the file with most samples.
//!
//! Blind spots: as of `spinning`; a program that has its ciphers in itself (Go, Rust, Java, static OpenSSL) shows none;
//! a NIF's work in a library counts as the library's.

use std::collections::BTreeMap;

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
}

/// The sums so far.
#[derive(Clone, Debug, Default)]
pub struct Code {
    samples: u64,
    ciphers: u64,
    by_file: BTreeMap<String, u64>,
    /// The file that was told last.
    told: Option<String>,
}

impl Code {
    /// Takes a sample in a file, by its name without folders; empty: in none.
    pub fn take(&mut self, file: &str) {
        self.samples += 1;
        self.ciphers += u64::from(is_of_ciphers(file));
        match self.by_file.get_mut(file) {
            Some(count) => *count += 1,
            None => drop(self.by_file.insert(file.to_owned(), 1)),
        }
    }

    /// Pushes the sums; nothing where there was no sample.
    pub fn push(&mut self, at: Timestamp, evidence: &mut Evidence) {
        let busiest = self.by_file.iter().max_by_key(|(_, count)| **count);
        let Some((file, count)) = busiest else { return };
        evidence.push(at, Subject::Target, SAMPLES, self.samples);
        evidence.push(at, Subject::Target, CIPHERS, self.ciphers);
        evidence.push(at, Subject::Target, BUSIEST, *count);
        if self.told.as_ref() != Some(file) {
            let name = if file.is_empty() { "code made at run time" } else { file };
            evidence.push_fact(Subject::Target, "busiest_code", name.to_owned());
            self.told = Some(file.clone());
        }
    }
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

/// The executable part of a process's map, in the order of addresses: first address, one past the last, and the
/// file's name without folders, empty where there is none.
pub fn executable(maps: &str) -> Vec<(u64, u64, String)> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let is_code = words.next()?.contains('x');
        let number = |text| u64::from_str_radix(text, 16).ok();
        // Offset, device and inode are before the name; `(deleted)` may follow it.
        let file = words.nth(3).unwrap_or("");
        // What a JIT compiler mapped twice, to write and to run, is a file in memory only.
        let file = if file.starts_with("/memfd:") { "" } else { file };
        let name = file.rsplit('/').next().unwrap_or(file);
        is_code.then_some((number(from)?, number(to)?, name.to_owned()))
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
                    7f90-7fa0 rwxp 00000000 00:00 0 \n\
                    7fb0-7fc0 r-xs 00000000 00:01 9 /memfd:vmem (deleted)\n\
                    broken\n";
        let expected = [
            (0x55e0, 0x55f0, "nginx"),
            (0x7f00, 0x7f80, "libcrypto.so.3"),
            (0x7f90, 0x7fa0, ""),
            (0x7fb0, 0x7fc0, ""),
        ];
        let found = executable(maps);
        let found: Vec<_> =
            found.iter().map(|(from, to, name)| (*from, *to, name.as_str())).collect();
        assert_eq!(found, expected);
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
        code.take("nginx");
        code.push(Timestamp(2), &mut evidence);
        let of = |metric| evidence.of(Subject::Target).last(metric).unwrap();
        assert_eq!((of(SAMPLES), of(CIPHERS), of(BUSIEST)), (7, 3, 2));
        assert_eq!(evidence.fact(Subject::Target, "busiest_code"), Some("nginx"));
    }
}
