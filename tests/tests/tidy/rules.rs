//! The rules about lines: what may be written where. Each takes a file and says where it is broken.

use crate::source::{Line, Source, is_word};
use crate::tree::Finding;

/// A number that is an error code is written in a file called `codes.rs`.
pub(crate) fn codes_at_home(source: &Source) -> Vec<Finding> {
    if source.path.ends_with("/codes.rs") {
        return Vec::new();
    }
    // Strings count as well: an answer written out by hand has a code in it.
    findings(source, source.product(), |line| {
        error_code(&line.code)
            .or_else(|| error_code(&line.text))
            .map(|code| format!("error code {code}"))
    })
}

/// Statements of SQL are written in `store/`.
pub(crate) fn sql_at_home(source: &Source) -> Vec<Finding> {
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
pub(crate) fn environment_at_home(source: &Source) -> Vec<Finding> {
    if source.path == "cli/src/config.rs" || source.path.starts_with("cli/src/config/") {
        return Vec::new();
    }
    findings(source, source.product(), |line| {
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

/// The terminal is written to in `cli/`.
pub(crate) fn terminal_at_home(source: &Source) -> Vec<Finding> {
    if source.path.starts_with("cli/") {
        return Vec::new();
    }
    findings(source, source.product(), |line| {
        let macros = ["println!", "print!", "eprintln!", "eprint!"];
        macros
            .iter()
            .find(|name| has_word(&line.code, name))
            .map(|name| (*name).to_owned())
    })
}

/// A test waits for what it waits for, not for a time.
pub(crate) fn no_sleep_in_tests(source: &Source) -> Vec<Finding> {
    findings(source, source.tests(), |line| {
        let code = &line.code;
        let called = words(code, "sleep").any(|at| {
            let (before, after) = (&code[..at], &code[at + "sleep".len()..]);
            after.starts_with('(') && !before.ends_with('.') && !before.ends_with("fn ")
        });
        called.then(|| "a test that sleeps".to_owned())
    })
}

/// A test runs or is not there.
pub(crate) fn no_ignored_tests(source: &Source) -> Vec<Finding> {
    findings(source, source.lines.iter(), |line| {
        let code = &line.code;
        let ignored =
            code.contains("#[ignore") || (code.contains("#[cfg_attr(") && has_word(code, "ignore"));
        ignored.then(|| "an ignored test".to_owned())
    })
}

/// A note about work to do names the issue that will do it.
pub(crate) fn todos_have_issues(source: &Source) -> Vec<Finding> {
    findings(source, source.lines.iter(), |line| {
        let comment = &line.comment;
        let word = ["TODO", "FIXME"]
            .into_iter()
            .find(|word| has_word(comment, word))?;
        let issue = comment
            .split('#')
            .skip(1)
            .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        (!issue).then(|| format!("{word} without an issue"))
    })
}

/// Everything that a crate shows is named in its `lib.rs`.
pub(crate) fn no_glob_reexports(source: &Source) -> Vec<Finding> {
    if source.path.ends_with("/lib.rs") {
        return Vec::new();
    }
    findings(source, source.product(), |line| {
        let code = line.code.trim_start();
        let reexport =
            code.starts_with("pub use ") || code.starts_with("pub(") && code.contains(") use ");
        (reexport && code.contains('*')).then(|| "a glob re-export".to_owned())
    })
}

fn findings<'a>(
    source: &Source,
    lines: impl Iterator<Item = &'a Line>,
    broken: impl Fn(&Line) -> Option<String>,
) -> Vec<Finding> {
    lines
        .filter_map(|line| broken(line).map(|what| Finding::new(&source.path, line.number, what)))
        .collect()
}

/// The first minus sign followed by five digits that begin with 32 or 40.
fn error_code(text: &str) -> Option<String> {
    text.match_indices('-').find_map(|(at, _)| {
        let glued = text[..at].ends_with(is_word); // RFC-32001 is a name
        let digits: String = text[at + 1..]
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '_')
            .filter(char::is_ascii_digit)
            .collect();
        let reserved = digits.starts_with("32") || digits.starts_with("40");
        (!glued && digits.len() == 5 && reserved).then(|| format!("-{digits}"))
    })
}

fn is_sql(literal: &str) -> bool {
    let statement = literal.split_whitespace().collect::<Vec<_>>().join(" ");
    // These words begin English sentences too, so their second half and their case must fit.
    let pairs = [
        ("SELECT ", " FROM "),
        ("UPDATE ", " SET "),
        ("WITH ", " AS ("),
    ];
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
    pairs
        .iter()
        .any(|(first, then)| statement.starts_with(first) && statement.contains(then))
        || phrases
            .iter()
            .any(|phrase| statement.to_lowercase().starts_with(phrase))
}

/// Where `word` stands in `code` with no letter before or after it.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
        })
}

fn has_word(code: &str, word: &str) -> bool {
    words(code, word).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    type Rule = fn(&Source) -> Vec<Finding>;

    #[track_caller]
    fn breaks(rule: Rule, path: &str, text: &str) {
        assert_eq!(
            rule(&Source::new(path, text)).len(),
            1,
            "should break the rule: {path}: {text}"
        );
    }

    #[track_caller]
    fn keeps(rule: Rule, path: &str, text: &str) {
        assert_eq!(
            rule(&Source::new(path, text)),
            [],
            "should keep the rule: {path}: {text}"
        );
    }

    #[test]
    fn codes() {
        breaks(codes_at_home, "hub/src/a.rs", "let code = -32700;");
        breaks(codes_at_home, "hub/src/a.rs", "let code = -40_001;");
        breaks(codes_at_home, "cli/src/a.rs", r#"f(r"{"code":-32601}");"#);
        keeps(
            codes_at_home,
            "jsonrpc/src/codes.rs",
            "const PARSE_ERROR: i32 = -32700;",
        );
        keeps(
            codes_at_home,
            "hub/src/a.rs",
            "/// Answers -32700.\nlet x = -32; // -32601",
        );
        keeps(
            codes_at_home,
            "hub/src/a.rs",
            "let x = -327; let y = -320000; let z = 40001;",
        );
        keeps(
            codes_at_home,
            "hub/src/a.rs",
            "#[cfg(test)]\nmod tests { const X: i32 = -32700; }",
        );
        keeps(
            codes_at_home,
            "tests/tests/it/a.rs",
            "assert_eq!(code, -32700);",
        );
    }

    #[test]
    fn sql() {
        breaks(sql_at_home, "hub/src/a.rs", r#"run("SELECT id FROM task")"#);
        breaks(
            sql_at_home,
            "hub/src/a.rs",
            "run(\"\n  insert into task values (1)\")",
        );
        breaks(
            sql_at_home,
            "cli/src/a.rs",
            r##"run(r#"UPDATE task SET state = 1"#)"##,
        );
        keeps(
            sql_at_home,
            "store/src/sqlite/a.rs",
            r#"run("SELECT id FROM task")"#,
        );
        keeps(
            sql_at_home,
            "cli/src/a.rs",
            r#"say("Select an agent from the list")"#,
        );
        keeps(sql_at_home, "hub/src/a.rs", "// SELECT id FROM task\n");
    }

    #[test]
    fn environment() {
        breaks(
            environment_at_home,
            "edge/src/a.rs",
            "let home = std::env::var(\"HOME\");",
        );
        breaks(
            environment_at_home,
            "cli/src/main.rs",
            "for x in env::vars_os() {}",
        );
        keeps(
            environment_at_home,
            "cli/src/config.rs",
            "let home = std::env::var(\"HOME\");",
        );
        keeps(
            environment_at_home,
            "edge/src/a.rs",
            "let at = env!(\"CARGO_PKG_VERSION\");",
        );
    }

    #[test]
    fn terminal() {
        breaks(terminal_at_home, "hub/src/a.rs", "println!(\"x\");");
        breaks(terminal_at_home, "edge/src/a.rs", "std::eprint!(\"x\");");
        keeps(terminal_at_home, "cli/src/main.rs", "println!(\"x\");");
        keeps(terminal_at_home, "bench/src/main.rs", "println!(\"x\");");
        keeps(
            terminal_at_home,
            "hub/src/a.rs",
            "/// println!(\"x\")\nlet x = \"println!\";",
        );
    }

    #[test]
    fn sleep() {
        breaks(
            no_sleep_in_tests,
            "tests/tests/it/a.rs",
            "std::thread::sleep(SECOND);",
        );
        breaks(
            no_sleep_in_tests,
            "hub/src/a/tests.rs",
            "sleep(SECOND).await;",
        );
        breaks(
            no_sleep_in_tests,
            "hub/src/a.rs",
            "#[cfg(test)]\nmod t { fn a() { tokio::time::sleep(S) } }",
        );
        keeps(
            no_sleep_in_tests,
            "edge/src/a.rs",
            "tokio::time::sleep(backoff).await;",
        );
        keeps(
            no_sleep_in_tests,
            "tests/tests/it/a.rs",
            "clock.sleep(SECOND); fn sleep() {}",
        );
    }

    #[test]
    fn ignored() {
        breaks(
            no_ignored_tests,
            "tests/tests/it/a.rs",
            "#[ignore = \"slow\"]",
        );
        breaks(
            no_ignored_tests,
            "hub/src/a.rs",
            "#[cfg_attr(windows, ignore)]",
        );
        keeps(
            no_ignored_tests,
            "hub/src/a.rs",
            "let x = \"#[ignore]\"; // #[ignore]",
        );
    }

    #[test]
    fn todos() {
        breaks(todos_have_issues, "hub/src/a.rs", "// TODO: later");
        breaks(
            todos_have_issues,
            "tests/tests/it/a.rs",
            "fn a() {} /* FIXME # soon */",
        );
        keeps(
            todos_have_issues,
            "hub/src/a.rs",
            "// TODO(#12): later\nlet x = \"TODO\";",
        );
    }

    #[test]
    fn globs() {
        breaks(no_glob_reexports, "hub/src/a.rs", "pub use inner::*;");
        breaks(
            no_glob_reexports,
            "hub/src/a.rs",
            "pub(crate) use inner::{a::*, b};",
        );
        keeps(no_glob_reexports, "hub/src/lib.rs", "pub use inner::*;");
        keeps(
            no_glob_reexports,
            "hub/src/a.rs",
            "pub use inner::Task;\nlet x = a * b;",
        );
    }
}
