//! A message that a node sent, or something that says it is one: no panic, and nothing is built that
//! the bytes don't hold.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    let _ = linerate_beam::read_message(frame);
});
