//! `interzone man`: generates a man page per command from the `--help` texts.

use super::Cli;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::version::VERSION;
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};
use serde_json::json;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Generate man pages, one per command
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  interzone man --out ~/.local/share/man/man1
  man interzone-ask")]
pub(crate) struct Man {
    /// Output folder; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

impl Man {
    pub(crate) fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let mut root = Cli::command();
        root.build();
        let mut pages = Vec::new();
        collect(&root, &mut pages);
        let failed = |error| Failure::Save(self.out.clone(), error);
        fs::create_dir_all(&self.out).map_err(failed)?;
        let mut names = Vec::new();
        for command in pages {
            let page = Page::new(command.clone())
                .manual("Interzone")
                .source(format!("interzone {VERSION}"));
            let name = page.get_filename();
            let path = self.out.join(&name);
            let written = render(&page, &command).and_then(|text| fs::write(&path, text));
            written.map_err(|error| Failure::Save(path, error))?;
            names.push(name);
        }
        output::write(|out| match format {
            OutputFormat::Json => {
                output::write_json(out, &json!({"folder": self.out, "pages": names}))
            }
            OutputFormat::Text => {
                let folder = printable::text(&self.out.to_string_lossy());
                writeln!(out, "{} pages in {folder}", names.len())
            }
        })?;
        Ok(Exit::Done)
    }
}

/// Collects a command and all its subcommands, each with its full name.
fn collect(command: &Command, pages: &mut Vec<Command>) {
    let page = command.clone().disable_help_subcommand(true);
    pages.push(page);
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        collect(subcommand, pages);
    }
}

fn render(page: &Page, command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(more) = command.get_after_help() {
        // Keeps the line breaks of the examples.
        let mut notes = Roff::new();
        notes.control("SH", ["NOTES"]).control("nf", []);
        for line in more.to_string().lines() {
            notes.text([roman(line)]);
        }
        notes.control("fi", []);
        notes.to_writer(&mut text)?;
    }
    Ok(text)
}
