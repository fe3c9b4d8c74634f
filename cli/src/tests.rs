//! The documentation held to the code: the reference of all keys, commands, metrics and errors is made
//! here and must be what is in `docs/reference`; what the pages show must be taken by the real readers.
//!
//! No behaviour of a command is tested here: that is beside the command, or in `tests/`.

mod boards;
mod commands;
mod config;
mod errors;
mod metrics;
mod pages;
mod scan;
mod tables;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// The variable that has the reference written anew instead of compared.
const RENEW: &str = "INTERZONE_RENEW";

/// What to run when the reference is stale.
const HOW: &str = "INTERZONE_RENEW=1 cargo nextest run -p interzone-cli -E 'test(reference_of)'";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text_of(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below `folder` whose name ends so, as a path from the root, sorted. What was built or
/// installed is none of ours.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "node_modules" {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                let path = path.strip_prefix(root()).unwrap();
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Compares a page of the reference with what the code says, or writes it.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "nobody passes a value in to a test"
)]
fn is_current(path: &str, made: &str) {
    let made = format!("{}\n", made.trim_end());
    if std::env::var_os(RENEW).is_some() {
        fs::write(root().join(path), made).unwrap();
        return;
    }
    let kept = fs::read_to_string(root().join(path)).unwrap_or_default();
    let differs = kept
        .lines()
        .zip(made.lines())
        .find(|(kept, made)| kept != made);
    assert!(
        kept == made,
        "{path} is not what the code says any more. Renew it with\n\n  {HOW}\n\nThe first difference:\n\
         {differs:#?}\n"
    );
}
