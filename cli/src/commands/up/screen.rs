//! What `interzone up` says: where everything is, and what to type next.

use super::chat::Workspace;
use crate::config::Alone;
use crate::printable;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// Everything that there is to say once it is up; for programs, by these names.
#[derive(Debug, Serialize)]
pub(super) struct Screen<'a> {
    pub(super) url: &'a str,
    pub(super) agent: &'a str,
    /// The model that answers, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    pub(super) folder: &'a Path,
    pub(super) client_id: &'a str,
    /// The page of a workspace of our own.
    pub(super) chat: Option<String>,
    /// The workspace of the real Slack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slack: Option<&'a Workspace>,
    pub(super) verification: &'a str,
    pub(super) console: Option<String>,
}

impl Screen<'_> {
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let url = self.url;
        writeln!(out, "Interzone is up at {url}")?;
        writeln!(out)?;
        if let Some(page) = &self.chat {
            writeln!(out, "  chat     {page} (a Slack workspace of your own)")?;
        }
        if let Some(workspace) = self.slack {
            self.write_slack(out, workspace)?;
        }
        let what = match &self.model {
            Some(model) => printable::text(model),
            None => "built in, for trying things out".to_owned(),
        };
        writeln!(out, "  agent    {} ({what})", self.agent)?;
        if let Some(console) = &self.console {
            writeln!(out, "  console  {console} (good once, for ten minutes)")?;
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
            ("interzone task list", "see your tasks"),
            ("interzone pairs", "see what became of requests"),
            (check.as_str(), "see that all is as it should be"),
        ] {
            writeln!(out, "  {command:<width$}  {what}", width = check.len())?;
        }
        writeln!(out)?;
        writeln!(out, "Ctrl-C stops it.")
    }

    fn write_slack(&self, out: &mut dyn Write, workspace: &Workspace) -> io::Result<()> {
        let name = printable::text(&workspace.name);
        let bot = printable::text(&workspace.bot);
        let team = printable::text(&workspace.team);
        let way = match workspace.socket {
            true => "Socket Mode",
            false => "the Events API",
        };
        writeln!(out, "  slack    {name} ({team}) as @{bot}, by {way}")?;
        writeln!(
            out,
            "           everybody of that workspace may ask; INTERZONE__POLICY__USERS=U0123ABCD lets nobody else"
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

/// Says why a variable of Slack's changes nothing.
pub(super) fn slack_is_left_alone(alone: Alone) {
    let _ = writeln!(
        io::stderr(),
        "{} is set without {}, so Slack is left alone",
        alone.0,
        alone.lacks()
    );
}

/// Says of what was kept elsewhere that it is still there.
pub(super) fn unlinked(names: &[String]) {
    for name in names {
        let _ = writeln!(
            io::stderr(),
            "{name} was a link: it is removed, and what it led to is left as it is"
        );
    }
}

/// Says that it is over.
pub(super) fn stopped(folder: &Path) {
    let folder = printable::text(&folder.to_string_lossy());
    let _ = writeln!(io::stderr(), "stopped; everything is kept in {folder}");
}
