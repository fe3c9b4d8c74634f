//! Rules about lines: placement of SQL, environment access, output, sleeps and comments. Each returns its
//! findings for one file.

use crate::source::{SourceFile, is_word};
use crate::tree::{Finding, collect_findings};

/// SQL statements are only in `store/`.
pub(crate) fn sql_only_in_store(source: &SourceFile) -> Vec<Finding> {
    if source.path.starts_with("store/") {
        return Vec::new();
    }
    let product: Vec<usize> = source.product().map(|line| line.number).collect();
    let literals = source
        .literals
        .iter()
        .filter(|literal| product.contains(&literal.line));
    literals
        .filter(|literal| is_sql(&literal.value))
        .map(|literal| Finding::new(&source.path, literal.line, "SQL"))
        .collect()
}

/// The environment is read in `cli/src/config.rs`.
pub(crate) fn environment_only_in_config(source: &SourceFile) -> Vec<Finding> {
    if source.path == "cli/src/config.rs" || source.path.starts_with("cli/src/config/") {
        return Vec::new();
    }
    collect_findings(source, source.product(), |line| {
        let names = [
            "env::var",
            "env::var_os",
            "env::vars",
            "env::vars_os",
            "env::set_var",
        ];
        names
            .iter()
            .find(|name| has_word(&line.code, name))
            .map(|name| (*name).to_owned())
    })
}

/// One type hides secrets, and one parses server-sent events; other files use them.
pub(crate) fn shared_types_are_defined_once(source: &SourceFile) -> Vec<Finding> {
    let is_home = |home: &str| source.path == home;
    let hidden = |line: usize| {
        let mut literals = source.literals.iter();
        literals.any(|literal| literal.line == line && literal.value == "[hidden]")
    };
    collect_findings(source, source.product(), |line| {
        let hides = line.code.contains("write_str(") && hidden(line.number);
        let parses = ["struct SseParser", "struct SseDecoder"];
        if hides && !is_home("protocol/src/vocab/secret.rs") {
            return Some("a type that hides its content".to_owned());
        }
        let parser = parses.iter().find(|name| has_word(&line.code, name));
        parser
            .filter(|_| !is_home("client/src/sse.rs"))
            .map(|name| (*name).to_owned())
    })
}

/// The terminal is written to only in `cli/` and by examples, which are programs of their own.
pub(crate) fn terminal_only_in_cli(source: &SourceFile) -> Vec<Finding> {
    if ["cli/", "examples/"]
        .iter()
        .any(|home| source.path.starts_with(home))
    {
        return Vec::new();
    }
    collect_findings(source, source.product(), |line| {
        let code = &line.code;
        let macros = ["println!", "print!", "eprintln!", "eprint!"];
        let written = macros.into_iter().find(|name| has_word(code, name));
        let opened = || {
            // `.stdout()` asks a child process for its own, or tells it where to write.
            ["stdout", "stderr"]
                .into_iter()
                .find(|name| has_word(code, &format!("io::{name}")) || is_called(code, name, "()"))
        };
        written.or_else(opened).map(str::to_owned)
    })
}

/// A test waits for an event, not for a time. Benchmarks pace their load by the clock and are exempt.
pub(crate) fn no_sleep_in_tests(source: &SourceFile) -> Vec<Finding> {
    if source.path.starts_with("bench/benches/") {
        return Vec::new();
    }
    collect_findings(source, source.tests(), |line| {
        let called = is_called(&line.code, "sleep", "(");
        called.then(|| "a test that sleeps".to_owned())
    })
}

/// No test is ignored.
pub(crate) fn no_ignored_tests(source: &SourceFile) -> Vec<Finding> {
    collect_findings(source, source.lines.iter(), |line| {
        let code = &line.code;
        let ignored =
            code.contains("#[ignore") || (code.contains("#[cfg_attr(") && has_word(code, "ignore"));
        ignored.then(|| "an ignored test".to_owned())
    })
}

/// Comments about work to do name their issue.
pub(crate) fn todos_have_issues(source: &SourceFile) -> Vec<Finding> {
    collect_findings(source, source.lines.iter(), |line| {
        let comment = &line.comment;
        let marker = ["TODO", "FIXME"]
            .into_iter()
            .find(|word| has_word(comment, word))?;
        let issue = comment
            .split('#')
            .skip(1)
            .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        (!issue).then(|| format!("{marker} without an issue"))
    })
}

/// Re-exports are named one by one, except in `lib.rs`.
pub(crate) fn no_glob_reexports(source: &SourceFile) -> Vec<Finding> {
    if source.path.ends_with("/lib.rs") {
        return Vec::new();
    }
    collect_findings(source, source.product(), |line| {
        let code = line.code.trim_start();
        let reexport =
            code.starts_with("pub use ") || code.starts_with("pub(") && code.contains(") use ");
        (reexport && code.contains('*')).then(|| "a glob re-export".to_owned())
    })
}

fn is_sql(literal: &str) -> bool {
    let statement = literal.split_whitespace().collect::<Vec<_>>().join(" ");
    let lower = statement.to_lowercase();
    let phrases = [
        "insert into ",
        "delete from ",
        "create table ",
        "create index ",
        "create unique index ",
        "alter table ",
        "drop table ",
        "pragma ",
    ];
    // These words begin English sentences too, so the text between them must fit, or their case.
    let pairs = [
        ("select ", " from ", is_columns as fn(&str) -> bool),
        ("update ", " set ", is_name),
        ("with ", " as (", is_name),
    ];
    let between = |text: &str, first: &str, then: &str| -> Option<String> {
        let (inner, _) = text.strip_prefix(first)?.split_once(then)?;
        Some(inner.to_owned())
    };
    phrases.iter().any(|phrase| lower.starts_with(phrase))
        || pairs.iter().any(|(first, then, fits)| {
            between(&statement, &first.to_uppercase(), &then.to_uppercase()).is_some()
                || between(&lower, first, then).is_some_and(|inner| fits(&inner))
        })
}

/// `id`, `id, state`, `t.id as task`, `count(*)`; not `an agent`.
fn is_columns(text: &str) -> bool {
    let text = text.strip_prefix("distinct ").unwrap_or(text);
    text.split(',').all(|column| {
        let column = column.trim();
        is_name(column) || column.contains(['(', ')', '*', '.', '_']) || column.contains(" as ")
    })
}

/// One word, in any quotation marks.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(' ')
}

/// Positions of `word` in `code` as a complete word.
fn word_positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
        })
}

fn has_word(code: &str, word: &str) -> bool {
    word_positions(code, word).next().is_some()
}

/// Returns true if a free function is called here; `open` begins its arguments.
fn is_called(code: &str, name: &str, open: &str) -> bool {
    word_positions(code, name).any(|at| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        after.starts_with(open) && !before.ends_with('.') && !before.ends_with("fn ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_assertions::{assert_breaks, assert_passes};

    #[test]
    fn sql_outside_store_is_found() {
        assert_breaks(
            sql_only_in_store,
            "hub/src/a.rs",
            r#"run("SELECT id FROM task")"#,
        );
        assert_breaks(
            sql_only_in_store,
            "hub/src/a.rs",
            "run(\"\n  insert into task values (1)\")",
        );
        assert_breaks(
            sql_only_in_store,
            "cli/src/a.rs",
            r##"run(r#"UPDATE task SET state = 1"#)"##,
        );
        for statement in [
            "select id from task",
            "Select id From task",
            "select id, state from task",
            "select t.id as task, count(*) from task t",
            "select distinct owner from task",
            "SELECT DISTINCT owner kept FROM task",
            "select\n  *\nfrom task",
            "update task set state = 1",
            "with open as (select 1) select * from open",
        ] {
            assert_breaks(
                sql_only_in_store,
                "hub/src/a.rs",
                &format!("run(\"{statement}\")"),
            );
        }
        for sentence in [
            "select an agent from the list",
            "select one agent, or more, from the list",
            "update the clock and set it again",
            "with a comma as (in a list) it should",
        ] {
            assert_passes(
                sql_only_in_store,
                "hub/src/a.rs",
                &format!("say(\"{sentence}\")"),
            );
        }
        assert_passes(
            sql_only_in_store,
            "store/src/sqlite/a.rs",
            r#"run("SELECT id FROM task")"#,
        );
        assert_passes(
            sql_only_in_store,
            "cli/src/a.rs",
            r#"say("Select an agent from the list")"#,
        );
        assert_passes(
            sql_only_in_store,
            "hub/src/a.rs",
            "// SELECT id FROM task\n",
        );
    }

    #[test]
    fn environment_access_is_found() {
        assert_breaks(
            environment_only_in_config,
            "edge/src/a.rs",
            "let home = std::env::var(\"HOME\");",
        );
        assert_breaks(
            environment_only_in_config,
            "cli/src/main.rs",
            "for x in env::vars_os() {}",
        );
        assert_passes(
            environment_only_in_config,
            "cli/src/config.rs",
            "let home = std::env::var(\"HOME\");",
        );
        assert_passes(
            environment_only_in_config,
            "edge/src/a.rs",
            "let at = env!(\"CARGO_PKG_VERSION\");",
        );
    }

    #[test]
    fn second_secret_type_or_sse_parser_is_found() {
        let secret = "f.write_str(\"[hidden]\")";
        assert_passes(
            shared_types_are_defined_once,
            "protocol/src/vocab/secret.rs",
            secret,
        );
        assert_breaks(shared_types_are_defined_once, "edge/src/a.rs", secret);
        let text = "let log = text.replace(key, \"[hidden]\");";
        assert_passes(shared_types_are_defined_once, "edge/src/a.rs", text);
        let parser = "pub struct SseParser {";
        assert_passes(shared_types_are_defined_once, "client/src/sse.rs", parser);
        assert_breaks(shared_types_are_defined_once, "cli/src/a.rs", parser);
    }

    #[test]
    fn terminal_output_is_found() {
        assert_breaks(terminal_only_in_cli, "hub/src/a.rs", "println!(\"x\");");
        assert_breaks(
            terminal_only_in_cli,
            "edge/src/a.rs",
            "std::eprint!(\"x\");",
        );
        for opened in [
            "let out = std::io::stdout();",
            "writeln!(io::stderr().lock(), \"x\")?;",
            "use std::io::{stdout, Write};\nstdout().write_all(b\"x\")?;",
            "let open = tokio::io::stderr;",
        ] {
            assert_breaks(terminal_only_in_cli, "hub/src/a.rs", opened);
            assert_passes(terminal_only_in_cli, "cli/src/main.rs", opened);
            assert_passes(terminal_only_in_cli, "bench/src/main.rs", opened);
        }
        assert_passes(
            terminal_only_in_cli,
            "hub/src/a.rs",
            "child.stdout(Stdio::piped()).stdout(); fn stderr() {} let stdout = child.stdout.take();",
        );
        assert_passes(terminal_only_in_cli, "cli/src/main.rs", "println!(\"x\");");
        assert_passes(
            terminal_only_in_cli,
            "bench/src/main.rs",
            "println!(\"x\");",
        );
        assert_passes(
            terminal_only_in_cli,
            "hub/src/a.rs",
            "/// println!(\"x\")\nlet x = \"println!\";",
        );
    }

    #[test]
    fn sleep_in_tests_is_found() {
        assert_breaks(
            no_sleep_in_tests,
            "tests/tests/it/a.rs",
            "std::thread::sleep(SECOND);",
        );
        assert_breaks(
            no_sleep_in_tests,
            "hub/src/a/tests.rs",
            "sleep(SECOND).await;",
        );
        assert_breaks(
            no_sleep_in_tests,
            "hub/src/a.rs",
            "#[cfg(test)]\nmod t { fn a() { tokio::time::sleep(S) } }",
        );
        assert_passes(
            no_sleep_in_tests,
            "edge/src/a.rs",
            "tokio::time::sleep(backoff).await;",
        );
        assert_passes(
            no_sleep_in_tests,
            "tests/tests/it/a.rs",
            "clock.sleep(SECOND); fn sleep() {}",
        );
    }

    #[test]
    fn ignored_tests_are_found() {
        assert_breaks(
            no_ignored_tests,
            "tests/tests/it/a.rs",
            "#[ignore = \"slow\"]",
        );
        assert_breaks(
            no_ignored_tests,
            "hub/src/a.rs",
            "#[cfg_attr(windows, ignore)]",
        );
        assert_passes(
            no_ignored_tests,
            "hub/src/a.rs",
            "let x = \"#[ignore]\"; // #[ignore]",
        );
    }

    #[test]
    fn todo_without_issue_is_found() {
        assert_breaks(todos_have_issues, "hub/src/a.rs", "// TODO: later");
        assert_breaks(
            todos_have_issues,
            "tests/tests/it/a.rs",
            "fn a() {} /* FIXME # soon */",
        );
        assert_passes(
            todos_have_issues,
            "hub/src/a.rs",
            "// TODO(#12): later\nlet x = \"TODO\";",
        );
    }

    #[test]
    fn glob_reexports_are_found() {
        assert_breaks(no_glob_reexports, "hub/src/a.rs", "pub use inner::*;");
        assert_breaks(
            no_glob_reexports,
            "hub/src/a.rs",
            "pub(crate) use inner::{a::*, b};",
        );
        assert_passes(no_glob_reexports, "hub/src/lib.rs", "pub use inner::*;");
        assert_passes(
            no_glob_reexports,
            "hub/src/a.rs",
            "pub use inner::Task;\nlet x = a * b;",
        );
    }
}
