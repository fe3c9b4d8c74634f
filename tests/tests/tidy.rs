//! The house rules that neither the compiler nor clippy can hold: the walls between the crates,
//! the homes of things, the shape of files. Every rule is a function over a file's path and text,
//! with a unit test beside it that shows it failing; the tests here run them over the whole tree.
//! Nothing that needs a running program belongs here: that is `it/`.

#[cfg(test)]
#[path = "tidy/codes.rs"]
mod codes;
#[cfg(test)]
#[path = "tidy/examples.rs"]
mod examples;
#[cfg(test)]
#[path = "tidy/links.rs"]
mod links;
#[cfg(test)]
#[path = "tidy/prove.rs"]
mod prove;
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
#[path = "tidy/walls.rs"]
mod walls;

use source::Source;
use tree::{Finding, expect_none, paths, read, root};

#[track_caller]
fn everywhere(rule: impl Fn(&Source) -> Vec<Finding>, advice: &str) {
    let broken = |path: &String| rule(&Source::new(path, &read(path)));
    expect_none(
        &paths("rs").iter().flat_map(broken).collect::<Vec<_>>(),
        advice,
    );
}

#[test]
fn crates_use_only_what_is_drawn() {
    let found: Vec<String> = walls::members()
        .iter()
        .flat_map(|member| walls::undrawn(member, walls::WALLS))
        .collect();
    expect_none(
        &found,
        "move the code to the room that may do it (ARCHITECTURE.md, \"Which room\"). A new edge or \
         crate is a design decision: draw it in ARCHITECTURE.md and in WALLS, and say why in an ADR",
    );
}

#[test]
fn the_drawing_is_what_is_checked() {
    assert_eq!(
        walls::drawn(&read("ARCHITECTURE.md")),
        walls::believed(walls::WALLS),
        "the walls table of ARCHITECTURE.md (left) and WALLS in tests/tests/tidy/walls.rs (right) \
         must say the same: change both"
    );
}

#[test]
fn crates_from_outside_stay_in_their_rooms() {
    let found: Vec<String> = walls::members()
        .iter()
        .flat_map(walls::out_of_place)
        .collect();
    expect_none(
        &found,
        "do this work in the room that may use the crate (the lists in tests/tests/tidy/walls.rs), \
         behind a port if need be",
    );
}

#[test]
fn hub_and_store_see_only_the_vocabulary() {
    everywhere(
        walls::only_vocab,
        "write `interzone_protocol::vocab::…`. Wire types of a dialect are converted in \
         execution/src/rpc/<dialect>/convert.rs, before the hub",
    );
}

#[test]
fn error_codes_have_one_home() {
    everywhere(
        codes::codes_at_home,
        "name the code as a constant in protocol/src/<dialect>/codes.rs (those of JSON-RPC itself \
         are in jsonrpc/src/codes.rs, and only those) and use the name",
    );
}

#[test]
fn sql_lives_in_the_store() {
    everywhere(
        rules::sql_at_home,
        "move the statement to store/src/<engine>/, behind a hub port",
    );
    let files = paths("sql");
    let strays: Vec<&String> = files
        .iter()
        .filter(|path| !path.starts_with("store/"))
        .collect();
    expect_none(&strays, "move the file to store/");
}

#[test]
fn the_environment_is_read_in_one_place() {
    everywhere(
        rules::environment_at_home,
        "read it in cli/src/config.rs and pass the value in; nothing may set it",
    );
}

#[test]
fn only_the_command_line_prints() {
    everywhere(
        rules::terminal_at_home,
        "log it, or give it back to the caller",
    );
}

#[test]
fn tests_do_not_sleep() {
    everywhere(
        rules::no_sleep_in_tests,
        "wait for the event itself, or pause the clock and advance it",
    );
}

#[test]
fn no_test_is_ignored() {
    everywhere(
        rules::no_ignored_tests,
        "repair the test or remove it; a slow one gets a profile in .config/nextest.toml",
    );
}

#[test]
fn work_to_do_has_an_issue() {
    everywhere(
        rules::todos_have_issues,
        "do it now, or open an issue and write TODO(#N)",
    );
}

#[test]
fn modules_do_not_reexport_by_glob() {
    everywhere(
        rules::no_glob_reexports,
        "name what is re-exported, in lib.rs",
    );
}

#[test]
fn files_are_short() {
    everywhere(
        |source| shape::is_short_enough(source, shape::LONG_FILES),
        "split the file where its subject changes; a long list that is one subject may go into \
         LONG_FILES in tests/tests/tidy/shape.rs with its reason",
    );
    let gone: Vec<&str> = shape::LONG_FILES
        .iter()
        .map(|(path, _)| *path)
        .filter(|path| !root().join(path).exists())
        .collect();
    expect_none(&gone, "remove the file that is gone from LONG_FILES");
}

#[test]
fn files_have_telling_names() {
    everywhere(
        shape::has_a_telling_name,
        "name the file after what is in it; a module `foo` is foo.rs, its parts are in foo/",
    );
}

#[test]
fn files_say_what_they_are_for() {
    everywhere(
        shape::says_what_it_is_for,
        "begin the first line with `//!` and say what the file is for and what must never enter it",
    );
}

#[test]
fn public_items_show_their_use() {
    everywhere(
        examples::public_items_are_shown,
        "end the item's documentation with a few lines between ``` that use it and assert what \
         comes out; if nobody outside needs the item, make it `pub(crate)`",
    );
}

#[test]
fn markdown_links_lead_somewhere() {
    let exists = |path: &str| root().join(path).exists();
    let broken = |path: &String| links::dead(path, &read(path), exists, read);
    expect_none(
        &paths("md").iter().flat_map(broken).collect::<Vec<_>>(),
        "correct the link, or bring the file or the heading",
    );
}
