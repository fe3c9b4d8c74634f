//! The seeds, replayed as ordinary tests: what once broke a rule must not need a fuzzer to be seen.

use crate::{check_batch, check_document};
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds");

type Check = fn(&[u8]);

/// Each folder of seeds, named as its target is, and what the target does.
const CHECKS: &[(&str, Check)] = &[("batch", check_batch), ("parse", check_document)];

#[test]
fn every_seed_keeps_the_rules() {
    for (target, check) in CHECKS {
        let mut count = 0;
        for (name, bytes) in files(&Path::new(SEEDS).join(target)) {
            let kept = catch_unwind(|| check(&bytes));
            assert!(
                kept.is_ok(),
                "seeds/{target}/{name} breaks a rule, see above"
            );
            count += 1;
        }
        assert!(count > 0, "seeds/{target} is empty");
    }
}

#[test]
fn every_folder_of_seeds_is_replayed() {
    let mut folders: Vec<String> = fs::read_dir(SEEDS)
        .expect("the folder can be listed")
        .map(|entry| entry.expect("the entry can be read").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let known: Vec<&str> = CHECKS.iter().map(|(target, _)| *target).collect();
    assert_eq!(folders, known);
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    fs::read_dir(folder)
        .expect("the folder can be listed")
        .map(|entry| entry.expect("the entry can be read"))
        .map(|entry| {
            let bytes = fs::read(entry.path()).expect("the file can be read");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}
