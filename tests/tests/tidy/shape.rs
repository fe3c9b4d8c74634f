//! Rules about files: length, name and module documentation.

use crate::source::SourceFile;
use crate::tree::Finding;

/// Maximum number of lines of a product file without a reason in [`LONG_FILES`].
const MAX_LINES: usize = 600;
/// Maximum number of lines of any file.
const MAX_LINES_WITH_REASON: usize = 1_000;

/// Product files between the two limits, each with the reason for not splitting it. The list is checked both
/// ways: a file that has become short must be removed from it.
pub(crate) const LONG_FILES: &[(&str, &str)] = &[];

/// Names that say nothing about the content, so that unrelated code collects in such files.
const UNSPECIFIC_NAMES: &[&str] = &["utils", "helpers", "common", "misc", "manager"];

pub(crate) fn is_short_enough(source: &SourceFile, long_files: &[(&str, &str)]) -> Vec<Finding> {
    let lines = source.lines.len();
    let listed = long_files.iter().any(|(path, _)| *path == source.path);
    let what = if lines > MAX_LINES_WITH_REASON {
        format!("{lines} lines, over the limit of {MAX_LINES_WITH_REASON}")
    } else if lines > MAX_LINES && !source.is_harness() && !listed {
        format!("{lines} lines, over {MAX_LINES} and not in LONG_FILES")
    } else if lines <= MAX_LINES && listed {
        format!("{lines} lines, so it no longer belongs in LONG_FILES")
    } else {
        return Vec::new();
    };
    vec![Finding::new(&source.path, lines, what)]
}

pub(crate) fn has_specific_name(source: &SourceFile) -> Vec<Finding> {
    let path = source.path.as_str();
    let file = path.rsplit('/').next();
    let mut names = path.trim_end_matches(".rs").split('/');
    let what = if file == Some("mod.rs") {
        "mod.rs".to_owned()
    } else if let Some(name) = names.find(|name| UNSPECIFIC_NAMES.contains(name)) {
        format!("the name `{name}`")
    } else {
        return Vec::new();
    };
    vec![Finding::new(path, 1, what)]
}

pub(crate) fn has_module_docs(source: &SourceFile) -> Vec<Finding> {
    match source.lines.first() {
        Some(line) if line.comment.starts_with("//!") && line.comment.len() > 4 => Vec::new(),
        _ => vec![Finding::new(&source.path, 1, "does not open with `//!`")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_assertions::{assert_breaks, assert_passes};

    #[test]
    fn line_limits_are_checked() {
        let check = |path: &str, lines: usize, listed: &[(&str, &str)], expect: usize| {
            let source = SourceFile::new(path, &"x\n".repeat(lines));
            assert_eq!(
                is_short_enough(&source, listed).len(),
                expect,
                "{path}, {lines} lines"
            );
        };
        let listed = &[("hub/src/a.rs", "one table")];
        check("hub/src/a.rs", 600, &[], 0);
        check("hub/src/a.rs", 601, &[], 1);
        check("hub/src/a.rs", 601, listed, 0);
        check("hub/src/a.rs", 600, listed, 1);
        check("hub/src/a.rs", 1_001, listed, 1);
        check("tests/tests/it/a.rs", 1_000, &[], 0);
        check("tests/tests/it/a.rs", 1_001, &[], 1);
    }

    #[test]
    fn unspecific_names_are_found() {
        assert_breaks(has_specific_name, "hub/src/utils.rs", "");
        assert_breaks(has_specific_name, "hub/src/common/clock.rs", "");
        assert_breaks(has_specific_name, "hub/src/tasks/mod.rs", "");
        assert_passes(has_specific_name, "hub/src/clock.rs", "");
        assert_passes(has_specific_name, "hub/src/commons.rs", "");
    }

    #[test]
    fn missing_module_docs_are_found() {
        assert_passes(has_module_docs, "hub/src/a.rs", "//! The clock.\n");
        let without_docs = [
            "//!\n//! The clock.\n",
            "use std::fmt;\n//! The clock.\n",
            "\n",
            "",
        ];
        for text in without_docs {
            assert_breaks(has_module_docs, "hub/src/a.rs", text);
        }
    }
}
