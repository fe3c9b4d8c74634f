//! Repository files as the rules see them, and the report of findings.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::{SourceFile, SourceLine};

/// Folders of build output and installed packages.
const SKIPPED_FOLDER_NAMES: &[&str] = &["target", "node_modules"];
/// Further folders of generated files, by path.
const SKIPPED_PATHS: &[&str] = &["fuzz/corpus", "fuzz/artifacts", "fuzz/coverage"];

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) description: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            description: what.into(),
        }
    }
}

/// Returns a finding for each line that `broken` describes.
pub(crate) fn collect_findings<'a>(
    source: &SourceFile,
    lines: impl Iterator<Item = &'a SourceLine>,
    broken: impl Fn(&SourceLine) -> Option<String>,
) -> Vec<Finding> {
    lines
        .filter_map(|line| broken(line).map(|what| Finding::new(&source.path, line.number, what)))
        .collect()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.description)
    }
}

/// Fails the test with all findings at once, and with advice.
#[track_caller]
pub(crate) fn assert_no_findings<F: fmt::Display>(findings: &[F], advice: &str) {
    let list: Vec<String> = findings
        .iter()
        .map(|finding| format!("  {finding}"))
        .collect();
    assert!(
        findings.is_empty(),
        "\n{}\n\nWhat to do: {advice}\n",
        list.join("\n")
    );
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the repository")
        .into()
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Path from the root, with forward slashes, of every file that ends in `.extension`, sorted.
pub(crate) fn paths(extension: &str) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be listed") {
            let entry = entry.expect("the entry can be read");
            let kind = entry.file_type().expect("the entry has a type");
            let full = entry.path();
            let path = full.strip_prefix(&root).expect("it is below the root");
            let path = path.to_string_lossy().replace('\\', "/");
            let name = path.rsplit('/').next().unwrap_or_default();
            if kind.is_file() && name.ends_with(&format!(".{extension}")) {
                found.push(path);
            } else if kind.is_dir()
                && !name.starts_with('.')
                && !SKIPPED_FOLDER_NAMES.contains(&name)
                && !SKIPPED_PATHS.contains(&path.as_str())
            {
                folders.push(full);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn paths_lists_this_file_and_no_build_output() {
    let rust = paths("rs");
    assert!(
        rust.contains(&"tests/tests/tidy/tree.rs".to_owned()),
        "{rust:?}"
    );
    assert!(
        !rust.iter().any(|path| path.starts_with("target/")),
        "{rust:?}"
    );
}
