//! What is delivered is the probe whole.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use linerate_beam::MODULES;

#[test]
fn every_module_of_the_probe_is_delivered_once_and_the_one_that_is_started_last() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent/src/probe");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let there: BTreeSet<String> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "erl"))
        .map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let delivered: BTreeSet<String> = MODULES.iter().map(|module| module.name.to_owned()).collect();
    assert_eq!(delivered, there);
    assert_eq!(delivered.len(), MODULES.len());
    assert_eq!(MODULES.last().unwrap().name, "linerate_probe");
}
