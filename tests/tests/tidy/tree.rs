//! The repository as the rules see it: its files, and how a broken rule is told.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::{Line, Source};

/// Folders that hold what was built or found, not what was written.
const NOT_OURS: &[&str] = &["target", "node_modules"];
/// The same, where the name alone would not tell.
const NOT_OURS_EITHER: &[&str] = &["fuzz/corpus", "fuzz/artifacts", "fuzz/coverage"];

/// One place where a rule is broken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

/// The lines of a file that something is wrong with, as `broken` says.
pub(crate) fn findings<'a>(
    source: &Source,
    lines: impl Iterator<Item = &'a Line>,
    broken: impl Fn(&Line) -> Option<String>,
) -> Vec<Finding> {
    lines
        .filter_map(|line| broken(line).map(|what| Finding::new(&source.path, line.number, what)))
        .collect()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Fails the test with every place at once, and with what to do about them.
#[track_caller]
pub(crate) fn expect_none<F: fmt::Display>(findings: &[F], advice: &str) {
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
                && !NOT_OURS.contains(&name)
                && !NOT_OURS_EITHER.contains(&path.as_str())
            {
                folders.push(full);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_walk_sees_this_file_and_nothing_built() {
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
