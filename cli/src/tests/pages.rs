//! Holds what the pages show to the real readers: configurations must be taken, command lines must be
//! understood, and names of commands in the text must be those of commands.

use super::commands::{built, leaves};
use super::{files, text_of};
use crate::commands::Cli;
use crate::config::{Config, Outline, VerifyConfig};
use clap::Parser;
use std::fs;
use std::path::Path;

/// A block between fences: what language it says, where it begins, and its lines.
struct Block {
    language: String,
    line: usize,
    text: String,
}

/// The blocks of a page, also those that are indented below a list.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for (at, line) in page.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let block = Block {
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

/// Reads a configuration as the zone would that it is for, in a folder that has the files it names.
fn accepted(text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    // No file of this machine may decide what comes of a page.
    let text = text.replace("\"/", "\"").replace("sqlite:/", "sqlite:");
    let file = folder.path().join("interzone.toml");
    fs::write(&file, &text).unwrap();
    let outline = Outline::of(&file).map_err(|error| error.to_string())?;
    for named in &outline.files {
        fs::create_dir_all(named.path.parent().unwrap()).unwrap();
        let content = match named.key.as_str() {
            "store.url_file" => "sqlite:interzone.db",
            _ => "hunter2",
        };
        fs::write(&named.path, content).unwrap();
    }
    fs::write(folder.path().join("secret"), "hunter2").unwrap();
    // What a page leaves out because it is about something else.
    let mut rest = vec![("TLS__CERT", "cert.pem"), ("TLS__KEY", "key.pem")];
    if outline.verification {
        for (place, key) in [
            ("VERIFICATION__OAUTH__CLIENT_SECRET", "client_secret"),
            ("SLACK__SIGNING_SECRET", "signing_secret"),
            ("SLACK__BOT_TOKEN", "bot_token"),
            ("SLACK__APP_TOKEN", "app_token"),
        ] {
            if !text.contains(&format!("{key}_file")) && !text.contains(&format!("{key}_env")) {
                rest.push((place, "secret"));
            }
        }
    }
    let variables = |wanted: bool| {
        let name = |place: &str| match place.starts_with("TLS") {
            true => format!("INTERZONE__{place}"),
            false => format!("INTERZONE__{place}_FILE"),
        };
        let missing = |place: &&(&str, &str)| match place.0 {
            "TLS__CERT" => !text.contains("\ncert = "),
            "TLS__KEY" => !text.contains("\nkey = "),
            _ => wanted,
        };
        let variables = rest.iter().filter(missing);
        variables
            .map(|(place, value)| (name(place), (*value).to_owned()))
            .collect::<Vec<_>>()
    };
    if outline.execution {
        Config::read(&text, variables(false), folder.path()).map_err(|error| error.to_string())?;
    }
    if outline.verification {
        VerifyConfig::read(&text, variables(true), folder.path())
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[test]
fn configurations_on_pages_are_accepted() {
    let mut read = 0;
    for path in pages() {
        for block in blocks(&text_of(&path)) {
            if block.language == "toml" {
                let accepted = accepted(&block.text);
                assert!(
                    accepted.is_ok(),
                    "{path}:{}: {}",
                    block.line,
                    accepted.unwrap_err()
                );
                read += 1;
            }
        }
    }
    assert!(read > 8, "only {read} configurations found");
}

#[test]
fn configurations_in_files_are_accepted() {
    let mut read = 0;
    for path in files("examples", ".toml")
        .into_iter()
        .chain(files("deploy", ".toml"))
    {
        if path.ends_with("Cargo.toml") {
            continue;
        }
        let accepted = accepted(&text_of(&path));
        assert!(accepted.is_ok(), "{path}: {}", accepted.unwrap_err());
        read += 1;
    }
    assert!(read > 5, "only {read} configurations found");
}

/// The words of a command line as a shell would see them, up to where another command begins.
fn split(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
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
                (quote, begun) = (Some(c), true);
                continue;
            }
            (None, '#') if !begun => break,
            (None, '|' | ';' | '&' | '>' | '<' | '(' | ')') => true,
            (None, c) if c.is_whitespace() => {
                if begun {
                    commands.last_mut().unwrap().push(std::mem::take(&mut word));
                    begun = false;
                }
                continue;
            }
            (None, c) => {
                word.push(c);
                begun = true;
                false
            }
        };
        if ends {
            if begun {
                commands.last_mut().unwrap().push(std::mem::take(&mut word));
                begun = false;
            }
            commands.push(Vec::new());
        }
    }
    if begun {
        commands.last_mut().unwrap().push(word);
    }
    commands
}

/// The arguments for us in each command of a line, if it is about us.
fn ours(line: &str) -> Vec<Vec<String>> {
    let assigns = |word: &String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let mut found = Vec::new();
    for command in split(line) {
        let words: Vec<String> = command
            .into_iter()
            .skip_while(|word| word == "$" || word == "sudo" || assigns(word))
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
fn a_line_is_taken_apart_as_a_shell_does() {
    let one = |line: &str| ours(line).pop().unwrap_or_default().join("/");
    assert_eq!(one("$ interzone ask \"a b\" # c"), "ask/a b");
    assert_eq!(one("A_B=1 interzone token > x"), "token");
    assert_eq!(one("git diff | interzone ask -"), "ask/-");
    assert_eq!(one("cargo run --release -- up"), "up");
    assert_eq!(one("T=$(interzone token)"), "token");
    assert_eq!(one("interzone: ready"), "");
}

#[test]
fn commands_on_pages_are_understood() {
    let mut understood = 0;
    for path in pages() {
        for block in blocks(&text_of(&path)) {
            // What is set as text is output, or what help says.
            if !["", "sh", "console"].contains(&block.language.as_str()) {
                continue;
            }
            let text = block.text.replace("\\\n", " ");
            for line in text.lines() {
                for words in ours(line) {
                    let words = std::iter::once("interzone".to_owned()).chain(words);
                    if let Err(error) = Cli::try_parse_from(words) {
                        use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
                        let fine = matches!(error.kind(), DisplayHelp | DisplayVersion);
                        assert!(fine, "{path}:{}: {line}\n{error}", block.line);
                    }
                    understood += 1;
                }
            }
        }
    }
    assert!(understood > 40, "only {understood} commands found");
}

/// `interzone NAME …` in the text names a command, and its options are options of that command.
#[test]
fn commands_in_the_text_are_commands() {
    let leaves = leaves(&built(), "interzone");
    let mut seen = 0;
    for path in pages() {
        let text = text_of(&path);
        let mut fenced = false;
        for (at, line) in text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            for said in line.split('`').skip(1).step_by(2) {
                let Some(rest) = said.strip_prefix("interzone ") else {
                    continue;
                };
                let name = |leaf: &str| leaf.trim_start_matches("interzone ").to_owned();
                let fits = |leaf: &str| {
                    rest == leaf
                        || rest.starts_with(&format!("{leaf} "))
                        || leaf.starts_with(&format!("{rest} "))
                };
                let leaf = leaves.iter().find(|(leaf, _)| fits(&name(leaf)));
                let place = format!("{path}:{}: `{said}`", at + 1);
                if rest.starts_with("COMMAND") || rest == "--version" {
                    continue;
                }
                let (_, command) = leaf.unwrap_or_else(|| panic!("{place} is no command"));
                for option in rest
                    .split([' ', '='])
                    .filter_map(|word| word.strip_prefix("--"))
                {
                    let known = |arg: &clap::Arg| arg.get_long() == Some(option);
                    assert!(
                        command.get_arguments().any(known),
                        "{place} has no --{option}"
                    );
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} found");
}

/// The index leads to every page.
#[test]
fn the_index_has_every_page() {
    let index = text_of("docs/README.md");
    for path in files("docs", ".md") {
        let path = path.trim_start_matches("docs/");
        let below = Path::new(path)
            .parent()
            .is_some_and(|folder| folder == Path::new("adr"));
        if path != "README.md" && !below {
            assert!(
                index.contains(&format!("({path}")),
                "docs/README.md does not lead to {path}"
            );
        }
    }
}
