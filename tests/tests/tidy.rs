//! Repository rules that neither the compiler nor clippy can check: dependencies between the crates, placement
//! of code, shape of files. Every rule is a function over a file's path and text, with a unit test that shows it
//! failing; the tests here run them over the complete tree. Nothing that needs a running program belongs here:
//! that is `it/`.

#[cfg(test)]
#[path = "tidy/codes.rs"]
mod codes;
#[cfg(test)]
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[cfg(test)]
#[path = "tidy/examples.rs"]
mod examples;
#[cfg(test)]
#[path = "tidy/links.rs"]
mod links;
#[cfg(test)]
#[path = "tidy/log_messages.rs"]
mod log_messages;
#[cfg(test)]
#[path = "tidy/rule_assertions.rs"]
mod rule_assertions;
#[cfg(test)]
#[path = "tidy/rules.rs"]
mod rules;
#[cfg(test)]
#[path = "tidy/shape.rs"]
mod shape;
#[cfg(test)]
#[path = "tidy/source.rs"]
mod source;
#[cfg(test)]
#[path = "tidy/tree.rs"]
mod tree;
#[cfg(test)]
#[path = "tidy/wording.rs"]
mod wording;

use source::SourceFile;
use tree::{Finding, assert_no_findings, paths, read, root};

const ACTOR_ADVICE: &str = "name who acts (caller, client, worker, node, store) and what it does";

#[track_caller]
fn check_all_files(rule: impl Fn(&SourceFile) -> Vec<Finding>, advice: &str) {
    let check = |path: &String| rule(&SourceFile::new(path, &read(path)));
    assert_no_findings(
        &paths("rs").iter().flat_map(check).collect::<Vec<_>>(),
        advice,
    );
}

#[test]
fn crates_use_only_allowed_crates() {
    let found: Vec<String> = dependencies::members()
        .iter()
        .flat_map(|member| {
            dependencies::undeclared_edges(member, dependencies::ALLOWED_DEPENDENCIES)
        })
        .collect();
    assert_no_findings(
        &found,
        "move the code to the crate that may do it (ARCHITECTURE.md). A new edge or \
        crate is a design decision: add it to ARCHITECTURE.md and to ALLOWED_DEPENDENCIES, and give the reason in an ADR",
    );
}

#[test]
fn architecture_table_matches_checked_table() {
    assert_eq!(
        dependencies::table_in_markdown(&read("ARCHITECTURE.md")),
        dependencies::table_as_map(dependencies::ALLOWED_DEPENDENCIES),
        "the crate table of ARCHITECTURE.md (left) and ALLOWED_DEPENDENCIES in tests/tests/tidy/dependencies.rs \
         (right) must be equal: change both"
    );
}

#[test]
fn default_build_has_no_aws_crates() {
    assert_eq!(
        dependencies::aws_crates("interzone-cli", &[]),
        Vec::<String>::new(),
        "make the dependency optional and enable it by the feature `aws` only"
    );
    let with_feature = dependencies::aws_crates("interzone-cli", &["--features", "aws"]);
    assert!(
        with_feature.iter().any(|name| name == "aws-config"),
        "{with_feature:?}"
    );
}

#[test]
fn external_crates_are_used_only_where_allowed() {
    let found: Vec<String> = dependencies::members()
        .iter()
        .flat_map(dependencies::misplaced_external_crates)
        .collect();
    assert_no_findings(
        &found,
        "do this work in the crate that may use the dependency (the lists in tests/tests/tidy/dependencies.rs), \
         behind a port if need be",
    );
}

#[test]
fn hub_and_store_use_only_the_vocabulary() {
    check_all_files(
        dependencies::only_vocab,
        "write `interzone_protocol::vocab::…`. Wire types of a dialect are converted in \
         execution/src/rpc/<dialect>/convert.rs, before the hub",
    );
}

#[test]
fn error_codes_are_defined_in_one_place() {
    check_all_files(
        codes::codes_in_codes_files,
        "name the code as a constant in protocol/src/<dialect>/codes.rs (those of JSON-RPC itself \
         are in jsonrpc/src/codes.rs, and only those) and use the name",
    );
}

#[test]
fn sql_is_only_in_the_store() {
    check_all_files(
        rules::sql_only_in_store,
        "move the statement to store/src/<engine>/, behind a hub port",
    );
    let files = paths("sql");
    let strays: Vec<&String> = files
        .iter()
        .filter(|path| !path.starts_with("store/"))
        .collect();
    assert_no_findings(&strays, "move the file to store/");
}

#[test]
fn environment_is_read_in_one_place() {
    check_all_files(
        rules::environment_only_in_config,
        "read it in cli/src/config.rs and pass the value in; nothing may set it",
    );
}

#[test]
fn secret_type_and_sse_parser_are_defined_once() {
    check_all_files(
        rules::shared_types_are_defined_once,
        "wrap `protocol::vocab::Secret`, or use `interzone_client::sse`",
    );
}

#[test]
fn only_the_cli_prints() {
    check_all_files(
        rules::terminal_only_in_cli,
        "log it, or return it to the caller",
    );
}

#[test]
fn tests_do_not_sleep() {
    check_all_files(
        rules::no_sleep_in_tests,
        "wait for the event itself, or pause the clock and advance it",
    );
}

#[test]
fn no_test_is_ignored() {
    check_all_files(
        rules::no_ignored_tests,
        "repair the test or remove it; a slow one gets a profile in .config/nextest.toml",
    );
}

#[test]
fn todo_comments_name_an_issue() {
    check_all_files(
        rules::todos_have_issues,
        "do it now, or open an issue and write TODO(#N)",
    );
}

#[test]
fn modules_do_not_reexport_by_glob() {
    check_all_files(
        rules::no_glob_reexports,
        "name what is re-exported, in lib.rs",
    );
}

#[test]
fn files_are_within_line_limit() {
    check_all_files(
        |source| shape::is_short_enough(source, shape::LONG_FILES),
        "split the file where its subject changes; a long list that is one subject may go into \
         LONG_FILES in tests/tests/tidy/shape.rs with its reason",
    );
    let missing: Vec<&str> = shape::LONG_FILES
        .iter()
        .map(|(path, _)| *path)
        .filter(|path| !root().join(path).exists())
        .collect();
    assert_no_findings(&missing, "remove the missing file from LONG_FILES");
}

#[test]
fn file_names_are_specific() {
    check_all_files(
        shape::has_specific_name,
        "name the file after what is in it; a module `foo` is foo.rs, its parts are in foo/",
    );
}

#[test]
fn names_are_terms_of_art() {
    check_all_files(
        wording::has_plain_names,
        "use the term that an engineer would search for (CONTRIBUTING.md); functions are verbs, \
         types are nouns",
    );
    check_all_files(
        wording::has_plain_file_name,
        "name the file after what is in it, by the term of art",
    );
}

#[test]
fn sentences_name_the_actor() {
    check_all_files(wording::has_plain_sentences, ACTOR_ADVICE);
}

#[test]
fn documents_name_the_actor() {
    let check = |path: &String| wording::has_plain_prose(path, &read(path));
    assert_no_findings(
        &paths("md").iter().flat_map(check).collect::<Vec<_>>(),
        ACTOR_ADVICE,
    );
}

#[test]
fn type_names_have_at_most_two_definitions() {
    let sources: Vec<SourceFile> = paths("rs")
        .iter()
        .map(|path| SourceFile::new(path, &read(path)))
        .collect();
    assert_no_findings(
        &wording::repeated_type_names(&sources),
        "qualify the name by what it belongs to: `SlackUser`, not `User`",
    );
}

#[test]
fn handlers_are_named_after_their_wire_method() {
    check_all_files(
        wording::handlers_are_named_after_methods,
        "name the handler after the method, with underscores: `tasks_create` for `tasks.create`",
    );
}

#[test]
fn files_start_with_module_docs() {
    check_all_files(
        shape::has_module_docs,
        "begin the first line with `//!` and say what the file is for and what must never enter it",
    );
}

#[test]
fn public_items_have_examples() {
    check_all_files(
        examples::public_items_have_examples,
        "end the item's documentation with a few lines between ``` that use it and assert the \
        result; if no other crate needs the item, make it `pub(crate)`",
    );
}

#[test]
fn log_messages_are_documented() {
    let page = read("docs/operations.md");
    check_all_files(
        |source| log_messages::undocumented_messages(source, &page),
        "describe the message in docs/operations.md, under Log messages",
    );
}

#[test]
fn markdown_links_resolve() {
    let exists = |path: &str| root().join(path).exists();
    let broken = |path: &String| links::dead_links(path, &read(path), exists, read);
    assert_no_findings(
        &paths("md").iter().flat_map(broken).collect::<Vec<_>>(),
        "correct the link, or add the file or the heading",
    );
}
