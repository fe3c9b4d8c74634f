//! Checks the documentation pages: configurations must be accepted, command lines must parse, and command names
//! in the text must exist.

use super::commands::{built_command, leaf_commands};
use super::{files, read_text};
use crate::commands::Cli;
use crate::config::{Config, ConfigSummary, VerificationZoneConfig};
use clap::Parser;
use std::fs;
use std::path::Path;

/// A fenced code block: language, line number and text.
struct CodeBlock {
    language: String,
    line: usize,
    text: String,
}

/// Returns the code blocks of a page, including those indented in a list.
fn code_blocks(page: &str) -> Vec<CodeBlock> {
    let mut found = Vec::new();
    let mut open: Option<(usize, CodeBlock)> = None;
    for (at, line) in page.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let block = CodeBlock {
                    language: language.trim().to_owned(),
                    line: at + 1,
                    text: String::new(),
                };
                open = Some((indent, block));
            }
            (Some(_), Some(_)) => found.extend(open.take().map(|(_, block)| block)),
            (Some((indent, block)), None) => {
                block
                    .text
                    .push_str(line.get(*indent..).unwrap_or(line.trim_start()));
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

fn pages() -> Vec<String> {
    let mut pages = files(".", ".md");
    pages
        .iter_mut()
        .for_each(|path| *path = path.trim_start_matches("./").to_owned());
    assert!(pages.iter().any(|path| path == "README.md"), "{pages:?}");
    pages
}

/// Reads a configuration as its zone would, in a folder with the files it refers to.
fn check_config(text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    // Absolute paths are made relative, so that files of this machine have no influence.
    let text = text.replace("\"/", "\"").replace("sqlite:/", "sqlite:");
    let file = folder.path().join("interzone.toml");
    fs::write(&file, &text).unwrap();
    let summary = ConfigSummary::load(&file).map_err(|error| error.to_string())?;
    for named in &summary.files {
        fs::create_dir_all(named.path.parent().unwrap()).unwrap();
        let content = match named.key.as_str() {
            "store.url_file" => "sqlite:interzone.db",
            _ => "hunter2",
        };
        fs::write(&named.path, content).unwrap();
    }
    fs::write(folder.path().join("secret"), "hunter2").unwrap();
    // Required settings that a page may leave out.
    let mut required = vec![("TLS__CERT", "cert.pem"), ("TLS__KEY", "key.pem")];
    if summary.verification {
        for (variable, key) in [
            ("VERIFICATION__OAUTH__CLIENT_SECRET", "client_secret"),
            ("SLACK__SIGNING_SECRET", "signing_secret"),
            ("SLACK__BOT_TOKEN", "bot_token"),
            ("SLACK__APP_TOKEN", "app_token"),
        ] {
            if !text.contains(&format!("{key}_file")) && !text.contains(&format!("{key}_env")) {
                required.push((variable, "secret"));
            }
        }
    }
    let variables = |is_verification: bool| {
        let name = |place: &str| match place.starts_with("TLS") {
            true => format!("INTERZONE__{place}"),
            false => format!("INTERZONE__{place}_FILE"),
        };
        let missing = |place: &&(&str, &str)| match place.0 {
            "TLS__CERT" => !text.contains("\ncert = "),
            "TLS__KEY" => !text.contains("\nkey = "),
            _ => is_verification,
        };
        let variables = required.iter().filter(missing);
        variables
            .map(|(place, value)| (name(place), (*value).to_owned()))
            .collect::<Vec<_>>()
    };
    if summary.execution {
        Config::read(&text, variables(false), folder.path()).map_err(|error| error.to_string())?;
    }
    if summary.verification {
        VerificationZoneConfig::read(&text, variables(true), folder.path())
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[test]
fn config_examples_on_pages_are_accepted() {
    let mut checked = 0;
    for path in pages() {
        for block in code_blocks(&read_text(&path)) {
            if block.language == "toml" {
                let accepted = check_config(&block.text);
                assert!(
                    accepted.is_ok(),
                    "{path}:{}: {}",
                    block.line,
                    accepted.unwrap_err()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 8, "only {checked} configurations found");
}

#[test]
fn config_example_files_are_accepted() {
    let mut checked = 0;
    for path in files("examples", ".toml")
        .into_iter()
        .chain(files("deploy", ".toml"))
    {
        if path.ends_with("Cargo.toml") {
            continue;
        }
        let accepted = check_config(&read_text(&path));
        assert!(accepted.is_ok(), "{path}: {}", accepted.unwrap_err());
        checked += 1;
    }
    assert!(checked > 5, "only {checked} configurations found");
}

/// Splits a line into commands and their words, like a shell.
fn split_shell_line(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut in_word) = (String::new(), None, false);
    for c in line.chars() {
        let ends = match (quote, c) {
            (Some(open), c) if c == open => {
                quote = None;
                continue;
            }
            (Some(_), c) => {
                word.push(c);
                continue;
            }
            (None, '"' | '\'') => {
                (quote, in_word) = (Some(c), true);
                continue;
            }
            (None, '#') if !in_word => break,
            (None, '|' | ';' | '&' | '>' | '<' | '(' | ')') => true,
            (None, c) if c.is_whitespace() => {
                if in_word {
                    commands.last_mut().unwrap().push(std::mem::take(&mut word));
                    in_word = false;
                }
                continue;
            }
            (None, c) => {
                word.push(c);
                in_word = true;
                false
            }
        };
        if ends {
            if in_word {
                commands.last_mut().unwrap().push(std::mem::take(&mut word));
                in_word = false;
            }
            commands.push(Vec::new());
        }
    }
    if in_word {
        commands.last_mut().unwrap().push(word);
    }
    commands
}

/// Returns the arguments of each `interzone` command in a line.
fn interzone_commands(line: &str) -> Vec<Vec<String>> {
    let is_assignment = |word: &String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let mut found = Vec::new();
    for command in split_shell_line(line) {
        let words: Vec<String> = command
            .into_iter()
            .skip_while(|word| word == "$" || word == "sudo" || is_assignment(word))
            .collect();
        let cargo = ["cargo", "run", "--release", "--"];
        if words.first().is_some_and(|word| word == "interzone") {
            found.push(words[1..].to_vec());
        } else if words.len() >= cargo.len() && words[..cargo.len()] == cargo {
            found.push(words[cargo.len()..].to_vec());
        }
    }
    found
}

#[test]
fn shell_lines_are_split_into_commands() {
    let last_command = |line: &str| interzone_commands(line).pop().unwrap_or_default().join("/");
    assert_eq!(last_command("$ interzone ask \"a b\" # c"), "ask/a b");
    assert_eq!(last_command("A_B=1 interzone token > x"), "token");
    assert_eq!(last_command("git diff | interzone ask -"), "ask/-");
    assert_eq!(last_command("cargo run --release -- up"), "up");
    assert_eq!(last_command("T=$(interzone token)"), "token");
    assert_eq!(last_command("interzone: ready"), "");
}

#[test]
fn commands_on_pages_are_valid() {
    let mut checked = 0;
    for path in pages() {
        for block in code_blocks(&read_text(&path)) {
            // Blocks of language `text` are output or help.
            if !["", "sh", "console"].contains(&block.language.as_str()) {
                continue;
            }
            let text = block.text.replace("\\\n", " ");
            for line in text.lines() {
                for words in interzone_commands(line) {
                    let words = std::iter::once("interzone".to_owned()).chain(words);
                    if let Err(error) = Cli::try_parse_from(words) {
                        use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
                        let fine = matches!(error.kind(), DisplayHelp | DisplayVersion);
                        assert!(fine, "{path}:{}: {line}\n{error}", block.line);
                    }
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 40, "only {checked} commands found");
}

/// `interzone NAME …` in the text must be an existing command with existing options.
#[test]
fn commands_in_the_text_exist() {
    let leaves = leaf_commands(&built_command(), "interzone");
    let mut checked = 0;
    for path in pages() {
        let text = read_text(&path);
        let mut fenced = false;
        for (at, line) in text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            for code in line.split('`').skip(1).step_by(2) {
                let Some(arguments) = code.strip_prefix("interzone ") else {
                    continue;
                };
                let name = |leaf: &str| leaf.trim_start_matches("interzone ").to_owned();
                let fits = |leaf: &str| {
                    arguments == leaf
                        || arguments.starts_with(&format!("{leaf} "))
                        || leaf.starts_with(&format!("{arguments} "))
                };
                let leaf = leaves.iter().find(|(leaf, _)| fits(&name(leaf)));
                let place = format!("{path}:{}: `{code}`", at + 1);
                if arguments.starts_with("COMMAND") || arguments == "--version" {
                    continue;
                }
                let (_, command) = leaf.unwrap_or_else(|| panic!("{place} is not a command"));
                for option in arguments
                    .split([' ', '='])
                    .filter_map(|word| word.strip_prefix("--"))
                {
                    let has_option = |arg: &clap::Arg| arg.get_long() == Some(option);
                    assert!(
                        command.get_arguments().any(has_option),
                        "{place} has no --{option}"
                    );
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "only {checked} found");
}

/// The index must link to every page.
#[test]
fn docs_index_links_every_page() {
    let index = read_text("docs/README.md");
    for path in files("docs", ".md") {
        let path = path.trim_start_matches("docs/");
        let below = Path::new(path)
            .parent()
            .is_some_and(|folder| folder == Path::new("adr"));
        if path != "README.md" && !below {
            assert!(
                index.contains(&format!("({path}")),
                "docs/README.md does not link to {path}"
            );
        }
    }
}
