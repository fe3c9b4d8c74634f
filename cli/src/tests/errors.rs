//! The reference of every error: numbers and words are taken from the code that says them, what to do
//! about each from `words`. A word that is not explained there, or that nobody says any more, fails.

use super::is_current;
use super::scan::{documented, is_word, last_words, product, products};
use super::tables::{code, opening, sentence, table, words};
use super::words::{AGENTS, CODES, LOGGED, READY, TOKENS, ZONE};
use interzone_protocol::zone::ErrorWord;
use interzone_verification::{Language, texts};
use std::collections::{BTreeMap, BTreeSet};

/// What is explained must be what there is.
#[track_caller]
fn explained(what: &str, there: &BTreeSet<String>, told: &[(&str, &str)]) {
    let told: BTreeSet<String> = told.iter().map(|(word, _)| (*word).to_owned()).collect();
    let missing: Vec<_> = there.difference(&told).collect();
    let gone: Vec<_> = told.difference(there).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "{what} in cli/src/tests/words.rs: explain {missing:?}, remove {gone:?}"
    );
}

fn next(told: &[(&str, &str)], word: &str) -> String {
    let found = told.iter().find(|(known, _)| *known == word);
    words(found.map_or("", |(_, said)| said))
}

/// A code with its name and its documentation.
fn codes(path: &str) -> Vec<(String, i32, String)> {
    let constants = documented(path, |line| {
        let rest = line.strip_prefix("pub const ")?;
        let (name, rest) = rest.split_once(": ")?;
        let number = rest.split_once('(')?.1.split_once(')')?.0;
        number
            .parse::<i32>()
            .ok()
            .map(|number| format!("{name} {number}"))
    });
    let constant = |(found, docs): (String, String)| {
        let (name, number) = found.split_once(' ').unwrap();
        let said = docs
            .split_once(": ")
            .filter(|(first, _)| first.parse::<i32>().is_ok());
        let said = said.map_or(docs.clone(), |(_, said)| said.to_owned());
        (name.to_owned(), number.parse().unwrap(), said)
    };
    constants.into_iter().map(constant).collect()
}

fn codes_page() -> String {
    let homes = [
        ("JSON-RPC", "jsonrpc/src/codes.rs"),
        ("ACP", "protocol/src/acp/codes.rs"),
        ("zone", "protocol/src/zone/codes.rs"),
    ];
    let mut rows = Vec::new();
    let mut there = BTreeSet::new();
    for (dialect, path) in homes {
        let found = codes(path);
        assert!(found.len() >= 3, "{path}: {found:?}");
        for (name, number, said) in found {
            rows.push(vec![
                code(&number.to_string()),
                dialect.to_owned(),
                words(&sentence(&said)),
                next(CODES, &name),
            ]);
            there.insert(name);
        }
    }
    explained("CODES", &there, CODES);
    let mut page = "## Codes\n\nThe number in `error.code`, by whose it is.\n\n".to_owned();
    page.push_str(&table(&["code", "of", "it means", "what to do"], &rows));
    page
}

fn zone_page() -> String {
    let docs: BTreeMap<String, String> = documented("protocol/src/zone/words.rs", |line| {
        let (name, rest) = line.split_once(" = \"")?;
        name.chars()
            .all(char::is_alphanumeric)
            .then(|| rest.split('"').next().map(str::to_owned))?
    })
    .into_iter()
    .collect();
    let there: BTreeSet<String> = ErrorWord::ALL
        .iter()
        .map(|word| word.name().to_owned())
        .collect();
    explained("ZONE", &there, ZONE);
    let row = |word: &ErrorWord| {
        vec![
            code(word.name()),
            code(&word.code().to_string()),
            words(&docs[word.name()]),
            words(texts::error(Language::En, word.message_key())),
            next(ZONE, word.name()),
        ]
    };
    let rows: Vec<_> = ErrorWord::ALL.iter().map(row).collect();
    let mut page = "## Words between the zones\n\n`error.data.error_code` of `execute_task` and its \
                    relatives, and the outcome of a question in Slack (`interzone_requests_total{method=\
                    \"slack.question\"}`). People in Slack read the sentence, in English or Japanese.\n\n"
        .to_owned();
    page.push_str(&table(
        &[
            "word",
            "code",
            "it means",
            "people in Slack read",
            "what to do",
        ],
        &rows,
    ));
    page
}

/// The words of the one map from what went wrong to what a caller is told, and of those who use it.
fn logged() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in ["execution/src/rpc", "execution/src/doors"] {
        for path in products(folder) {
            let text = product(&path);
            for function in ["internal", "unavailable", "transport", "WireError::new"] {
                found.extend(last_words(&text, function));
            }
        }
    }
    for function in ["internal", "unavailable"] {
        found.extend(last_words(&product("execution/src/rpc.rs"), function));
    }
    // What is wrong with a store, and with a token, comes by another way.
    let quoted = |line: &str, before: &str| {
        let rest = line.trim().split_once(before)?.1;
        rest.split('"')
            .next()
            .filter(|word| is_word(word))
            .map(str::to_owned)
    };
    let map = product("execution/src/rpc/errors.rs");
    found.extend(map.lines().filter_map(|line| quoted(line, "=> (\"")));
    let access = product("execution/src/rpc/errors/access.rs");
    found.extend(
        access
            .lines()
            .filter_map(|line| quoted(line, "\"token_").map(|word| format!("token_{word}"))),
    );
    found
}

fn simple(
    title: &str,
    about: &str,
    there: &BTreeSet<String>,
    list: &str,
    told: &[(&str, &str)],
) -> String {
    explained(list, there, told);
    let rows: Vec<_> = told
        .iter()
        .map(|(word, said)| vec![code(word), words(said)])
        .collect();
    format!(
        "## {title}\n\n{about}\n\n{}",
        table(&["word", "what it means, and what to do"], &rows)
    )
}

fn agents() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in products("execution/src") {
        for line in product(&path).lines() {
            let rest = line.trim().strip_prefix("code: \"");
            let word = rest.and_then(|rest| rest.split('"').next());
            found.extend(word.filter(|word| is_word(word)).map(str::to_owned));
        }
    }
    found
}

fn ready() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in [
        "execution/src/doors/operators.rs",
        "verification/src/doors/operators.rs",
    ] {
        found.extend(last_words(&product(path), "missing.push"));
    }
    for path in products("cli/src/wiring") {
        let text = product(&path);
        found.extend(last_words(&text, "then_some"));
        found.extend(last_words(&text, "away"));
    }
    found.extend(last_words(&product("cli/src/wiring/works.rs"), "Some"));
    found
}

fn tokens() -> BTreeSet<String> {
    let constants = documented("edge/src/auth.rs", |line| {
        let rest = line
            .strip_prefix("pub const ")?
            .split_once(": &str = \"")?
            .1;
        Some(rest.trim_end_matches("\";").to_owned())
    });
    constants.into_iter().map(|(word, _)| word).collect()
}

fn problems_page() -> String {
    let path = "jsonrpc/src/problem.rs";
    let docs: BTreeMap<String, String> = documented(path, |line| {
        let name = line.split(['(', ',']).next()?;
        let variant =
            name.chars().next()?.is_ascii_uppercase() && name.chars().all(char::is_alphanumeric);
        (variant && line.ends_with(',')).then(|| name.to_owned())
    })
    .into_iter()
    .collect();
    let text = product(path);
    let row = |line: &str| {
        let (variant, name) = line.trim().strip_prefix("Self::")?.split_once(" => \"")?;
        let name = name.strip_suffix("\",")?;
        let variant = variant.split('(').next()?;
        is_word(name).then(|| {
            vec![
                code(name),
                words(docs.get(variant).unwrap_or_else(|| panic!("{variant}"))),
            ]
        })
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    assert!(rows.len() > 30, "{rows:?}");
    let mut page = "## What is wrong with a message\n\nThe `name` of a `problem` in the output of \
                    [`interzone check`](../check.md), which finds the place in the file.\n\n"
        .to_owned();
    page.push_str(&table(&["name", "it means"], &rows));
    page
}

#[test]
fn reference_of_errors_is_current() {
    let mut page = opening("Every error", "the code that says them");
    page.push_str(
        "Find what you have: a [number](#codes), a word in [`data.error_code`](#words-between-the-zones), \
         a word in the [log, the audit or a metric](#words-in-the-log), a word of an [agent](#words-of-agents), \
         of [`/readyz`](#words-of-readyz), of a [refused token](#words-on-tokens), or a \
         [message that is not valid](#what-is-wrong-with-a-message). [Exit codes](../cli.md#exit-codes) of \
         the command line are elsewhere. By an id of the request, `interzone pairs ID` tells what happened to \
         it.\n\n",
    );
    page.push_str(&codes_page());
    page.push_str(&zone_page());
    page.push_str(&simple(
        "Words in the log",
        "`outcome` in the audit, in `interzone pairs`, and in `interzone_requests_total` and its like. A call \
         that went well is `ok`.",
        &logged(),
        "LOGGED",
        LOGGED,
    ));
    page.push_str(&simple(
        "Words of agents",
        "`code` in the log line “an agent broke”, `outcome` of `interzone_agent_runs_total`, and \
         `errorCode` in the metadata of the last message of a task that failed. Agents of kind `llm` and `remote` say \
         [words between the zones](#words-between-the-zones) as well.",
        &agents(),
        "AGENTS",
        AGENTS,
    ));
    page.push_str(&simple(
        "Words of /readyz",
        "In `reasons`, with status 503: the node takes no work. In `away`, of a Verification Zone: it does, \
         and the questions wait.",
        &ready(),
        "READY",
        READY,
    ));
    page.push_str(&simple(
        "Words on tokens",
        "`error.data.error_description` and the header `WWW-Authenticate`, when a token was refused (401).",
        &tokens(),
        "TOKENS",
        TOKENS,
    ));
    page.push_str(&problems_page());
    is_current("docs/reference/errors.md", &page);
}
