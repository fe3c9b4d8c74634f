//! How a rule is proved: on a text that breaks it, and on one that keeps it. No rule is in here.

use crate::source::Source;
use crate::tree::Finding;

type Rule = fn(&Source) -> Vec<Finding>;

/// The rule finds one place in `text`, if that stood at `path`.
#[track_caller]
pub(crate) fn breaks(rule: Rule, path: &str, text: &str) {
    assert_eq!(
        rule(&Source::new(path, text)).len(),
        1,
        "should break the rule: {path}: {text}"
    );
}

/// The rule has nothing against `text`, if that stood at `path`.
#[track_caller]
pub(crate) fn keeps(rule: Rule, path: &str, text: &str) {
    assert_eq!(
        rule(&Source::new(path, text)),
        [],
        "should keep the rule: {path}: {text}"
    );
}
