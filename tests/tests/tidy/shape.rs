//! The rules about files: how long they are, what they are called, how they begin.

use crate::source::Source;
use crate::tree::Finding;

/// Above this a file of the product needs a reason in [`LONG_FILES`].
const LONG: usize = 600;
/// Above this no reason helps.
const TOO_LONG: usize = 1_000;

/// Files of the product between the two limits, each with the reason why it is better in one
/// piece. The list is checked both ways: a file that has become short must leave it.
pub(crate) const LONG_FILES: &[(&str, &str)] = &[];

/// Names that say nothing of what is inside, so everything ends up inside.
const DRAWERS: &[&str] = &["utils", "helpers", "common", "misc", "manager"];

pub(crate) fn is_short_enough(source: &Source, long_files: &[(&str, &str)]) -> Vec<Finding> {
    let lines = source.lines.len();
    let listed = long_files.iter().any(|(path, _)| *path == source.path);
    let what = if lines > TOO_LONG {
        format!("{lines} lines, over the limit of {TOO_LONG}")
    } else if lines > LONG && !source.is_harness() && !listed {
        format!("{lines} lines, over {LONG} and not in LONG_FILES")
    } else if lines <= LONG && listed {
        format!("{lines} lines, so it no longer belongs in LONG_FILES")
    } else {
        return Vec::new();
    };
    vec![Finding::new(&source.path, lines, what)]
}

pub(crate) fn has_a_telling_name(source: &Source) -> Vec<Finding> {
    let path = source.path.as_str();
    let file = path.rsplit('/').next();
    let mut names = path.trim_end_matches(".rs").split('/');
    let what = if file == Some("mod.rs") {
        "mod.rs".to_owned()
    } else if let Some(drawer) = names.find(|name| DRAWERS.contains(name)) {
        format!("the name `{drawer}`")
    } else {
        return Vec::new();
    };
    vec![Finding::new(path, 1, what)]
}

pub(crate) fn says_what_it_is_for(source: &Source) -> Vec<Finding> {
    match source.lines.first() {
        Some(line) if line.comment.starts_with("//!") && line.comment.len() > 4 => Vec::new(),
        _ => vec![Finding::new(&source.path, 1, "does not open with `//!`")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::{breaks, keeps};

    #[test]
    fn lengths() {
        let check = |path: &str, lines: usize, listed: &[(&str, &str)], expect: usize| {
            let source = Source::new(path, &"x\n".repeat(lines));
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
    fn names() {
        breaks(has_a_telling_name, "hub/src/utils.rs", "");
        breaks(has_a_telling_name, "hub/src/common/clock.rs", "");
        breaks(has_a_telling_name, "hub/src/tasks/mod.rs", "");
        keeps(has_a_telling_name, "hub/src/clock.rs", "");
        keeps(has_a_telling_name, "hub/src/commons.rs", "");
    }

    #[test]
    fn openings() {
        keeps(says_what_it_is_for, "hub/src/a.rs", "//! The clock.\n");
        let closed = [
            "//!\n//! The clock.\n",
            "use std::fmt;\n//! The clock.\n",
            "\n",
            "",
        ];
        for text in closed {
            breaks(says_what_it_is_for, "hub/src/a.rs", text);
        }
    }
}
