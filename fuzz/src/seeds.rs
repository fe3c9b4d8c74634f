//! Replays the seeds as ordinary tests, so that regressions are found without a fuzzer.

use crate::{check_batch, check_document};
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds");

type Check = fn(&[u8]);

/// Each seed folder, named like its target, and the check of that target.
const CHECKS: &[(&str, Check)] = &[("batch", check_batch), ("parse", check_document)];

#[test]
fn every_seed_passes_its_check() {
    for (target, check) in CHECKS {
        let mut count = 0;
        for (name, bytes) in files(&Path::new(SEEDS).join(target)) {
            let result = catch_unwind(|| check(&bytes));
            assert!(result.is_ok(), "seeds/{target}/{name} fails, see above");
            count += 1;
        }
        assert!(count > 0, "seeds/{target} is empty");
    }
}

#[test]
fn every_seed_folder_is_replayed() {
    let mut folders: Vec<String> = fs::read_dir(SEEDS)
        .expect("listing the folder")
        .map(|entry| entry.expect("reading the entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let targets: Vec<&str> = CHECKS.iter().map(|(target, _)| *target).collect();
    assert_eq!(folders, targets);
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    fs::read_dir(folder)
        .expect("listing the folder")
        .map(|entry| entry.expect("reading the entry"))
        .map(|entry| {
            let bytes = fs::read(entry.path()).expect("reading the file");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect()
}
