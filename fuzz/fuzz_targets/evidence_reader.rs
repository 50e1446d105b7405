//! An evidence file that somebody sent: no panic in reading it, nor in summing up what it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use linerate_evidence::{read, summarise};

fuzz_target!(|file: &str| {
    if let Ok((header, evidence, _)) = read(file) {
        let load = summarise(&evidence, &header.plan);
        load.latency.list();
        load.latency.curve();
    }
});
