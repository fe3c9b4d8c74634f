//! Generates the reference of all commands and options from the definition of the command line.

use super::assert_current;
use super::tables::{cell_text, code, page_header, table};
use crate::commands::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};

/// Help heading of the options that select the server.
const CONNECTION_HEADING: &str = "Connection";

/// Returns all commands without subcommands, with their full names.
pub(super) fn leaf_commands(command: &Command, name: &str) -> Vec<(String, Command)> {
    let inner: Vec<&Command> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .collect();
    if inner.is_empty() {
        return vec![(name.to_owned(), command.clone())];
    }
    let nested = |inner: &&Command| leaf_commands(inner, &format!("{name} {}", inner.get_name()));
    inner.iter().flat_map(nested).collect()
}

/// Returns the command line with everything that clap adds.
pub(super) fn built_command() -> Command {
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
    let mut text = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(!text.is_empty(), "no help for {name}");
    text = text.replace("\n\n", ". ");
    let values: Vec<_> = arg
        .get_possible_values()
        .into_iter()
        .filter(|v| !v.is_hide_set())
        .collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let value_help = |value: &clap::builder::PossibleValue| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        };
        text = format!(
            "{text}: {}",
            values.iter().map(value_help).collect::<Vec<_>>().join(", ")
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
    vec![code(&name), code(&default), cell_text(&text)]
}

fn arguments_table(args: Vec<&Arg>) -> String {
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
    arg.get_help_heading() == Some(CONNECTION_HEADING)
}

#[test]
fn reference_of_commands_is_current() {
    let root = built_command();
    let mut page = page_header("Command reference", "the definition of the command line");
    page.push_str(
        "[The command line](../cli.md) describes what the commands have in common, JSON output and exit codes.\n\n",
    );
    let leaves = leaf_commands(&root, "interzone");
    for (name, command) in &leaves {
        let about = command
            .get_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        let anchor = name.replace(' ', "-");
        page.push_str(&format!("- [{name}](#{anchor}): {}\n", cell_text(&about)));
    }
    page.push_str("\n## Common options\n\n");
    page.push_str(&arguments_table(
        root.get_arguments().filter(|arg| is_common(arg)).collect(),
    ));

    page.push_str("## Server options\n\nOptions of every command that contacts a server; see [how the server is selected](../cli.md#which-server).\n\n");
    let ask = root.find_subcommand("ask").unwrap();
    page.push_str(&arguments_table(
        ask.get_arguments()
            .filter(|arg| is_connection(arg))
            .collect(),
    ));

    for (name, command) in &leaves {
        page.push_str(&format!("## {name}\n\n"));
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        for paragraph in about.split("\n\n") {
            let text = cell_text(paragraph);
            let stop = if text.ends_with(['.', ':']) { "" } else { "." };
            page.push_str(&format!("{text}{stop}\n\n"));
        }
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        page.push_str(&format!("```text\n{usage}\n```\n\n"));
        let own = command
            .get_arguments()
            .filter(|arg| !is_common(arg) && !is_connection(arg));
        page.push_str(&arguments_table(own.collect()));
        if command.get_arguments().any(is_connection) {
            page.push_str("And the [server options](#server-options).\n\n");
        }
        if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
            page.push_str(&format!("```text\n{}\n```\n\n", after.to_string().trim()));
        }
    }
    assert_current("docs/reference/commands.md", &page);
}
