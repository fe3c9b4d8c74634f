//! Rule about log messages: the operations page describes each of them.

use crate::source::SourceFile;
use crate::tree::Finding;

const MACROS: &[&str] = &["error!", "warn!", "info!", "debug!"];

/// Field that holds the message of a log line that is written elsewhere, as `{message}`.
const MESSAGE_FIELD: &str = "log_message: Some(";

/// Log messages of product code that `page` does not contain.
pub(crate) fn undocumented_messages(source: &SourceFile, page: &str) -> Vec<Finding> {
    // The playground is a development tool, and its log is not read by operators.
    if source.path.starts_with("playground/") || source.path.starts_with("examples/") {
        return Vec::new();
    }
    messages(source)
        .chain(message_fields(source))
        .filter(|(_, message)| *message != "{message}")
        .filter(|(_, message)| !page.contains(&format!("`{message}`")))
        .map(|(line, message)| Finding::new(&source.path, line, format!("log message `{message}`")))
        .collect()
}

/// Line and message of each call of a log macro. The message is the last literal of the call.
fn messages(source: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    source.product().filter_map(|first| {
        let start = MACROS
            .iter()
            .find_map(|name| macro_call(&first.code, name))?;
        let mut depth = 0_i64;
        let mut last = first.number;
        for line in source.lines.iter().skip(first.number - 1) {
            let code = match line.number == first.number {
                true => line.code.get(start..).unwrap_or_default(),
                false => &line.code,
            };
            depth += count(code, '(') - count(code, ')');
            last = line.number;
            if depth <= 0 {
                break;
            }
        }
        let of_call = |line: usize| (first.number..=last).contains(&line);
        let message = source
            .literals
            .iter()
            .rfind(|literal| of_call(literal.line))?;
        Some((first.number, message.value.as_str()))
    })
}

/// Line and message of each field that holds a log message.
fn message_fields(source: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    source.product().filter_map(|line| {
        line.code.contains(MESSAGE_FIELD).then_some(())?;
        let mut literals = source.literals.iter();
        let message = literals.find(|literal| literal.line == line.number)?;
        Some((line.number, message.value.as_str()))
    })
}

/// Byte offset of a macro call in a line of code. `tracing::event!` and macros of other names do not match.
fn macro_call(code: &str, name: &str) -> Option<usize> {
    let start = code.find(&format!("{name}("))?;
    let before = code[..start].trim_start();
    (before.is_empty() || before.ends_with("tracing::") || before.ends_with([' ', '{']))
        .then_some(start)
}

fn count(code: &str, wanted: char) -> i64 {
    i64::try_from(code.chars().filter(|c| *c == wanted).count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_missing_from_the_page_is_found() {
        let text = "fn f() {\n    tracing::warn!(\n        error = %e(\"x\"),\n        \"disk failed\"\n    );\n    \
                    info!(\"started\");\n}\n";
        let source = SourceFile::new("hub/src/a.rs", text);
        let found = undocumented_messages(&source, "| `started` |");
        assert_eq!(
            found,
            [Finding::new("hub/src/a.rs", 2, "log message `disk failed`")]
        );
        assert!(undocumented_messages(&source, "`started` `disk failed`").is_empty());
        let field = "fn f() -> Info {\n    Info { log_message: Some(\"call served\") }\n}\n";
        let source = SourceFile::new("hub/src/a.rs", field);
        assert_eq!(undocumented_messages(&source, "").len(), 1);
    }
}
