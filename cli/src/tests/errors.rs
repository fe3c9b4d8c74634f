//! Generates the reference of all errors: codes are taken from the source, remedies from `descriptions`. A code
//! without a description, and a description without a code, fail the test.

use super::assert_current;
use super::descriptions::{
    AGENT_ERRORS, CALL_OUTCOMES, READINESS_REASONS, RPC_CODES, TOKEN_ERRORS, ZONE_ERRORS,
};
use super::scan::{
    documented, is_identifier, last_string_arguments, source_files, source_without_tests,
};
use super::tables::{capitalize, cell_text, code, page_header, table};
use interzone_protocol::zone::ErrorReason;
use interzone_verification::{Language, texts};
use std::collections::{BTreeMap, BTreeSet};

/// Asserts that the described codes are exactly those in the source.
#[track_caller]
fn assert_all_described(list: &str, found: &BTreeSet<String>, described: &[(&str, &str)]) {
    let described: BTreeSet<String> = described
        .iter()
        .map(|(code, _)| (*code).to_owned())
        .collect();
    let missing: Vec<_> = found.difference(&described).collect();
    let obsolete: Vec<_> = described.difference(found).collect();
    assert!(
        missing.is_empty() && obsolete.is_empty(),
        "{list} in cli/src/tests/descriptions.rs: add {missing:?}, remove {obsolete:?}"
    );
}

fn description(descriptions: &[(&str, &str)], code: &str) -> String {
    let found = descriptions
        .iter()
        .find(|(described, _)| *described == code);
    cell_text(found.map_or("", |(_, text)| text))
}

/// Reads the error codes of a file with their names and documentation.
fn codes(path: &str) -> Vec<(String, i32, String)> {
    let constants = documented(path, |line| {
        let definition = line.strip_prefix("pub const ")?;
        let (name, definition) = definition.split_once(": ")?;
        let number = definition.split_once('(')?.1.split_once(')')?.0;
        number
            .parse::<i32>()
            .ok()
            .map(|number| format!("{name} {number}"))
    });
    let constant = |(found, docs): (String, String)| {
        let (name, number) = found.split_once(' ').unwrap();
        let text = docs
            .split_once(": ")
            .filter(|(first, _)| first.parse::<i32>().is_ok());
        let text = text.map_or(docs.clone(), |(_, text)| text.to_owned());
        (name.to_owned(), number.parse().unwrap(), text)
    };
    constants.into_iter().map(constant).collect()
}

fn rpc_codes_section() -> String {
    let sources = [
        ("JSON-RPC", "jsonrpc/src/codes.rs"),
        ("ACP", "protocol/src/acp/codes.rs"),
        ("zone", "protocol/src/zone/codes.rs"),
    ];
    let mut rows = Vec::new();
    let mut all_names = BTreeSet::new();
    for (dialect, path) in sources {
        let found = codes(path);
        assert!(found.len() >= 3, "{path}: {found:?}");
        for (name, number, meaning) in found {
            rows.push(vec![
                code(&number.to_string()),
                dialect.to_owned(),
                cell_text(&capitalize(&meaning)),
                description(RPC_CODES, &name),
            ]);
            all_names.insert(name);
        }
    }
    assert_all_described("RPC_CODES", &all_names, RPC_CODES);
    let mut page = "## Codes\n\nThe number in `error.code`.\n\n".to_owned();
    page.push_str(&table(
        &["code", "protocol", "meaning", "what to do"],
        &rows,
    ));
    page
}

fn zone_errors_section() -> String {
    let docs: BTreeMap<String, String> = documented("protocol/src/zone/error_reason.rs", |line| {
        let (name, value) = line.split_once(" = \"")?;
        name.chars()
            .all(char::is_alphanumeric)
            .then(|| value.split('"').next().map(str::to_owned))?
    })
    .into_iter()
    .collect();
    let all_codes: BTreeSet<String> = ErrorReason::ALL
        .iter()
        .map(|reason| reason.name().to_owned())
        .collect();
    assert_all_described("ZONE_ERRORS", &all_codes, ZONE_ERRORS);
    let row = |reason: &ErrorReason| {
        vec![
            code(reason.name()),
            code(&reason.code().to_string()),
            cell_text(&docs[reason.name()]),
            cell_text(texts::error_text(Language::En, reason.message_key())),
            description(ZONE_ERRORS, reason.name()),
        ]
    };
    let rows: Vec<_> = ErrorReason::ALL.iter().map(row).collect();
    let mut page =
        "## Zone error codes\n\n`error.data.error_code` of `execute_task` and related methods, \
                    and the outcome of a question in Slack (`interzone_requests_total{method=\
                    \"slack.question\"}`). Slack users see the message, in English or Japanese.\n\n"
            .to_owned();
    page.push_str(&table(
        &[
            "error code",
            "code",
            "meaning",
            "message in Slack",
            "what to do",
        ],
        &rows,
    ));
    page
}

/// Functions and constructors of errors whose last argument is the outcome code.
const OUTCOME_FUNCTIONS: [&str; 6] = [
    "internal",
    "unavailable",
    "transport",
    "WireError::new",
    "CallError::Internal",
    "CallError::Busy",
];

/// Returns the outcome codes in the mapping from errors to responses, and in its users.
fn call_outcomes() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in ["execution/src/rpc", "execution/src/http"] {
        for path in source_files(folder) {
            let text = source_without_tests(&path);
            for function in OUTCOME_FUNCTIONS {
                found.extend(last_string_arguments(&text, function));
            }
        }
    }
    let call_path = source_without_tests("execution/src/rpc.rs");
    for function in OUTCOME_FUNCTIONS {
        found.extend(last_string_arguments(&call_path, function));
    }
    // Store and token errors are mapped elsewhere.
    let quoted = |line: &str, before: &str| {
        let text = line.trim().split_once(before)?.1;
        text.split('"')
            .next()
            .filter(|code| is_identifier(code))
            .map(str::to_owned)
    };
    let map = source_without_tests("execution/src/rpc/errors.rs");
    found.extend(map.lines().filter_map(|line| quoted(line, "=> (\"")));
    let access = source_without_tests("execution/src/rpc/acp/errors.rs");
    found.extend(
        access
            .lines()
            .filter_map(|line| quoted(line, "\"token_").map(|code| format!("token_{code}"))),
    );
    found
}

fn codes_section(
    title: &str,
    about: &str,
    found: &BTreeSet<String>,
    list: &str,
    descriptions: &[(&str, &str)],
) -> String {
    assert_all_described(list, found, descriptions);
    let rows: Vec<_> = descriptions
        .iter()
        .map(|(value, text)| vec![code(value), cell_text(text)])
        .collect();
    format!(
        "## {title}\n\n{about}\n\n{}",
        table(&["value", "meaning and what to do"], &rows)
    )
}

fn agent_errors() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in source_files("execution/src") {
        for line in source_without_tests(&path).lines() {
            let value = line.trim().strip_prefix("code: \"");
            let code = value.and_then(|value| value.split('"').next());
            found.extend(code.filter(|code| is_identifier(code)).map(str::to_owned));
        }
    }
    found
}

fn readiness_reasons() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, function) in [
        ("execution/src/http/ops.rs", "reasons.push"),
        ("verification/src/http/ops.rs", "missing.push"),
    ] {
        found.extend(last_string_arguments(&source_without_tests(path), function));
    }
    for path in source_files("cli/src/wiring") {
        let text = source_without_tests(&path);
        found.extend(last_string_arguments(&text, "then_some"));
        found.extend(last_string_arguments(&text, "if_unavailable"));
    }
    found.extend(last_string_arguments(
        &source_without_tests("cli/src/wiring/server_tasks.rs"),
        "Some",
    ));
    found
}

fn token_errors() -> BTreeSet<String> {
    let constants = documented("edge/src/auth.rs", |line| {
        let value = line
            .strip_prefix("pub const ")?
            .split_once(": &str = \"")?
            .1;
        Some(value.trim_end_matches("\";").to_owned())
    });
    constants.into_iter().map(|(code, _)| code).collect()
}

fn invalid_messages_section() -> String {
    let path = "jsonrpc/src/invalid_message_kind.rs";
    let docs: BTreeMap<String, String> = documented(path, |line| {
        let name = line.split(['(', ',']).next()?;
        let variant =
            name.chars().next()?.is_ascii_uppercase() && name.chars().all(char::is_alphanumeric);
        (variant && line.ends_with(',')).then(|| name.to_owned())
    })
    .into_iter()
    .collect();
    let text = source_without_tests(path);
    let row = |line: &str| {
        let (variant, name) = line.trim().strip_prefix("Self::")?.split_once(" => \"")?;
        let name = name.strip_suffix("\",")?;
        let variant = variant.split('(').next()?;
        is_identifier(name).then(|| {
            vec![
                code(name),
                cell_text(docs.get(variant).unwrap_or_else(|| panic!("{variant}"))),
            ]
        })
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    assert!(rows.len() > 30, "{rows:?}");
    let mut page = "## Invalid messages\n\nThe `name` of a `problem` in the output of \
                    [`interzone check`](../check.md), which shows its position in the file.\n\n"
        .to_owned();
    page.push_str(&table(&["name", "meaning"], &rows));
    page
}

#[test]
fn reference_of_errors_is_current() {
    let mut page = page_header("Error reference", "the source");
    page.push_str(
        "Look up a [number](#codes) in `error.code`, [`data.error_code`](#zone-error-codes), the outcome of a \
         call in the [log, the audit log or a metric](#call-outcomes), the error code of an \
         [agent](#agent-error-codes), a reason of [`/readyz`](#readiness-reasons), a \
         [rejected token](#token-error-codes) or an [invalid message](#invalid-messages). The exit codes of the \
         command line are [here](../cli.md#exit-codes). `interzone requests ID` shows the outcome of a \
         request.\n\n",
    );
    page.push_str(&rpc_codes_section());
    page.push_str(&zone_errors_section());
    page.push_str(&codes_section(
        "Call outcomes",
        "`outcome` in the audit log, in `interzone requests`, and in `interzone_requests_total` and similar metrics. \
         A successful call is `ok`.",
        &call_outcomes(),
        "CALL_OUTCOMES",
        CALL_OUTCOMES,
    ));
    page.push_str(&codes_section(
        "Agent error codes",
        "`code` in the log line “agent run failed”, `outcome` of `interzone_agent_runs_total`, and \
         `errorCode` in the metadata of the last message of a failed task. Agents of kind `llm` and `remote` also \
         use [zone error codes](#zone-error-codes).",
        &agent_errors(),
        "AGENT_ERRORS",
        AGENT_ERRORS,
    ));
    page.push_str(&codes_section(
        "Readiness reasons",
        "In `reasons` of `/readyz`, with status 503: the node accepts no work. In `away`, of a Verification Zone: it \
         accepts work, and the questions wait.",
        &readiness_reasons(),
        "READINESS_REASONS",
        READINESS_REASONS,
    ));
    page.push_str(&codes_section(
        "Token error codes",
        "`error.data.error_description` and the `WWW-Authenticate` header for a rejected token (401).",
        &token_errors(),
        "TOKEN_ERRORS",
        TOKEN_ERRORS,
    ));
    page.push_str(&invalid_messages_section());
    assert_current("docs/reference/errors.md", &page);
}
