//! The reference of every command and option, made of what the command line is read by.

use super::is_current;
use super::tables::{code, opening, table, words};
use crate::commands::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};

/// The heading under which help shows what says which server is meant.
const CONNECTION: &str = "Connection";

/// All commands that do something, with their whole names; a group of commands is none.
pub(super) fn leaves(command: &Command, name: &str) -> Vec<(String, Command)> {
    let inner: Vec<&Command> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .collect();
    if inner.is_empty() {
        return vec![(name.to_owned(), command.clone())];
    }
    let below = |inner: &&Command| leaves(inner, &format!("{name} {}", inner.get_name()));
    inner.iter().flat_map(below).collect()
}

/// The command line, with everything that clap adds to it.
pub(super) fn built() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn row(arg: &Arg) -> Vec<String> {
    let value = || {
        let names = arg.get_value_names().unwrap_or_default();
        names
            .iter()
            .map(|name| name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), short) => {
            let short = short.map(|short| format!("-{short}, ")).unwrap_or_default();
            let takes = arg.get_action().takes_values();
            let value = if takes {
                format!(" {}", value())
            } else {
                String::new()
            };
            format!("{short}--{long}{value}")
        }
        (None, _) => {
            let more = if matches!(arg.get_action(), ArgAction::Append) {
                "…"
            } else {
                ""
            };
            match arg.is_required_set() {
                true => format!("{}{more}", value()),
                false => format!("[{}]{more}", value()),
            }
        }
    };
    let mut said = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(!said.is_empty(), "no words on {name}");
    said = said.replace("\n\n", ". ");
    let values: Vec<_> = arg
        .get_possible_values()
        .into_iter()
        .filter(|v| !v.is_hide_set())
        .collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let one = |value: &clap::builder::PossibleValue| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        };
        said = format!(
            "{said}: {}",
            values.iter().map(one).collect::<Vec<_>>().join(", ")
        );
    }
    let defaults = arg.get_default_values();
    let default = match arg.get_action().takes_values() {
        true => defaults
            .iter()
            .map(|v| v.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" "),
        false => String::new(),
    };
    vec![code(&name), code(&default), words(&said)]
}

fn shown(args: Vec<&Arg>) -> String {
    let rows: Vec<_> = args.into_iter().map(row).collect();
    if rows.is_empty() {
        String::new()
    } else {
        table(&["", "default", ""], &rows)
    }
}

fn is_common(arg: &Arg) -> bool {
    ["output", "help", "version"].contains(&arg.get_id().as_str())
}

fn is_connection(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(CONNECTION)
}

#[test]
fn reference_of_commands_is_current() {
    let whole = built();
    let mut page = opening(
        "Every command",
        "the definitions that the command line is read by",
    );
    page.push_str(
        "[The command line](../cli.md) tells what commands have in common, their output for programs and \
         their exit codes.\n\n",
    );
    let leaves = leaves(&whole, "interzone");
    for (name, command) in &leaves {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        let anchor = name.replace(' ', "-");
        page.push_str(&format!("- [{name}](#{anchor}): {}\n", words(&about)));
    }
    page.push_str("\n## Of every command\n\n");
    page.push_str(&shown(
        whole.get_arguments().filter(|arg| is_common(arg)).collect(),
    ));

    page.push_str("## Which server\n\nOf every command that has “server options” below; [in this order](../cli.md#which-server) they are looked for.\n\n");
    let ask = whole.find_subcommand("ask").unwrap();
    page.push_str(&shown(
        ask.get_arguments()
            .filter(|arg| is_connection(arg))
            .collect(),
    ));

    for (name, command) in &leaves {
        page.push_str(&format!("## {name}\n\n"));
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        for paragraph in about.split("\n\n") {
            let said = words(paragraph);
            let stop = if said.ends_with(['.', ':']) { "" } else { "." };
            page.push_str(&format!("{said}{stop}\n\n"));
        }
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        page.push_str(&format!("```text\n{usage}\n```\n\n"));
        let own = command
            .get_arguments()
            .filter(|arg| !is_common(arg) && !is_connection(arg));
        page.push_str(&shown(own.collect()));
        if command.get_arguments().any(is_connection) {
            page.push_str("And the [server options](#which-server).\n\n");
        }
        if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
            page.push_str(&format!("```text\n{}\n```\n\n", after.to_string().trim()));
        }
    }
    is_current("docs/reference/commands.md", &page);
}
