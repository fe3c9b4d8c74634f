//! Tests of the documentation: `docs/reference` is generated here from the code and must be current, and the
//! configurations and commands on the other pages must be valid. Also tests of `deploy/` and the example Slack manifest.

mod commands;
mod config;
mod dashboards;
mod deploy;
mod descriptions;
mod errors;
mod metrics;
mod pages;
mod scan;
mod slack_manifest;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

/// Variable that makes the tests write the reference instead of comparing it.
const RENEW_VAR: &str = "INTERZONE_RENEW";

/// Command that regenerates the reference.
const RENEW_COMMAND: &str =
    "INTERZONE_RENEW=1 cargo nextest run -p interzone-cli -E 'test(reference_of)'";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read_text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns every file below `folder` whose name has this ending, as a sorted path from the root. Build output and
/// installed packages are skipped.
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

/// Compares a page of the reference with the generated text, or writes it.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "tests are configured by the environment"
)]
fn assert_current(path: &str, generated: &str) {
    let generated = format!("{}\n", generated.trim_end());
    if std::env::var_os(RENEW_VAR).is_some() {
        fs::write(root().join(path), generated).unwrap();
        return;
    }
    let stored = fs::read_to_string(root().join(path)).unwrap_or_default();
    let differs = stored
        .lines()
        .zip(generated.lines())
        .find(|(stored, generated)| stored != generated);
    assert!(
        stored == generated,
        "{path} is not current. Regenerate it with\n\n  {RENEW_COMMAND}\n\nThe first difference:\n\
         {differs:#?}\n"
    );
}
