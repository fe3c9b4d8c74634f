//! Assertions for the unit tests of the rules.

use crate::source::SourceFile;
use crate::tree::Finding;

type Rule = fn(&SourceFile) -> Vec<Finding>;

/// Asserts that the rule reports one finding in `text` at `path`.
#[track_caller]
pub(crate) fn assert_breaks(rule: Rule, path: &str, text: &str) {
    assert_eq!(
        rule(&SourceFile::new(path, text)).len(),
        1,
        "should break the rule: {path}: {text}"
    );
}

/// Asserts that the rule reports nothing in `text` at `path`.
#[track_caller]
pub(crate) fn assert_passes(rule: Rule, path: &str, text: &str) {
    assert_eq!(
        rule(&SourceFile::new(path, text)),
        [],
        "should keep the rule: {path}: {text}"
    );
}
