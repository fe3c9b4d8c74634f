//! Start-up output of `interzone up`: URLs and suggested commands.

use super::chat::SlackWorkspace;
use crate::config::IncompleteSlackEnv;
use crate::printable;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// URLs and names shown when ready. The field names are the JSON output.
#[derive(Debug, Serialize)]
pub(super) struct UpBanner<'a> {
    pub(super) url: &'a str,
    pub(super) agent: &'a str,
    /// Language model, if one is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    pub(super) folder: &'a Path,
    pub(super) client_id: &'a str,
    /// Chat page of the local workspace.
    pub(super) chat: Option<String>,
    /// The real Slack workspace, if one is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slack: Option<&'a SlackWorkspace>,
    pub(super) verification: &'a str,
    pub(super) console: Option<String>,
}

impl UpBanner<'_> {
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let url = self.url;
        writeln!(out, "Interzone is up at {url}")?;
        writeln!(out)?;
        if let Some(page) = &self.chat {
            writeln!(out, "  chat     {page} (local Slack workspace)")?;
        }
        if let Some(workspace) = self.slack {
            self.write_slack(out, workspace)?;
        }
        let what = match &self.model {
            Some(model) => printable::text(model),
            None => "built-in demo agent".to_owned(),
        };
        writeln!(out, "  agent    {} ({what})", self.agent)?;
        if let Some(console) = &self.console {
            writeln!(
                out,
                "  console  {console} (one-time link, valid 10 minutes)"
            )?;
        }
        let folder = printable::text(&self.folder.to_string_lossy());
        writeln!(
            out,
            "  folder   {folder} (certificate, databases, credentials)"
        )?;
        writeln!(out)?;
        writeln!(out, "In another terminal, in this folder:")?;
        writeln!(out)?;
        let check = format!("interzone check {url}");
        let ask = match self.model {
            Some(_) => ("interzone ask \"what can you do?\"", "ask the model"),
            None => (
                "interzone ask \"file csv a,b\"",
                "ask the agent and get a file",
            ),
        };
        for (command, what) in [
            ask,
            ("interzone task list", "list your tasks"),
            ("interzone requests", "list requests and their outcomes"),
            (check.as_str(), "run the conformance checks"),
        ] {
            writeln!(out, "  {command:<width$}  {what}", width = check.len())?;
        }
        writeln!(out)?;
        writeln!(out, "Press Ctrl-C to stop.")
    }

    fn write_slack(&self, out: &mut dyn Write, workspace: &SlackWorkspace) -> io::Result<()> {
        let name = printable::text(&workspace.name);
        let bot = printable::text(&workspace.bot);
        let team = printable::text(&workspace.team);
        let transport = match workspace.socket {
            true => "Socket Mode",
            false => "the Events API",
        };
        writeln!(out, "  slack    {name} ({team}) as @{bot}, by {transport}")?;
        writeln!(
            out,
            "           all members of the workspace may ask; set INTERZONE__POLICY__USERS=U0123ABCD to restrict it"
        )?;
        if !workspace.socket {
            let zone = self.verification;
            writeln!(
                out,
                "           Slack must reach {zone}/slack/events and {zone}/slack/interactions"
            )?;
        }
        Ok(())
    }
}

/// Prints why a Slack environment variable is ignored.
pub(super) fn print_slack_not_used(incomplete: IncompleteSlackEnv) {
    let _ = writeln!(
        io::stderr(),
        "{} is set without {}, so real Slack is not used",
        incomplete.0,
        incomplete.missing()
    );
}

/// Prints which links a reset removed, and that their targets were kept.
pub(super) fn print_unlinked(names: &[String]) {
    for name in names {
        let _ = writeln!(
            io::stderr(),
            "{name} was a symbolic link: the link was removed, its target was kept"
        );
    }
}

/// Prints that `up` has stopped.
pub(super) fn print_stopped(folder: &Path) {
    let folder = printable::text(&folder.to_string_lossy());
    let _ = writeln!(io::stderr(), "stopped; all data is kept in {folder}");
}
