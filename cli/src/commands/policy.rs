//! `interzone policy explain`: whether somebody may ask, and why.

use crate::config::PolicyConfig;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use clap::{Args, Subcommand};
use interzone_verification::policy::{Asker, Explanation, Policy as Lists};
use interzone_verification::slack::ids::{ChannelId, TeamId, UserId};
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// Say whether somebody in Slack may ask, and why
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Explain(Explain),
}

/// Say what each list of the policy makes of somebody
///
/// It reads the configuration alone and asks nobody. Exit code 0 means that they may, 4 that they
/// may not.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Example:
  interzone policy explain --team T0123ABCD --user U0123ABCD --channel C0123ABCD"
)]
struct Explain {
    /// The workspace
    #[arg(long, value_name = "ID")]
    team: TeamId,

    /// Who asks
    #[arg(long, value_name = "ID")]
    user: UserId,

    /// Where: a channel, or a conversation of somebody with the app
    #[arg(long, value_name = "ID")]
    channel: ChannelId,

    /// The workspace of whoever asks, where a shared channel makes it another
    #[arg(long, value_name = "ID")]
    user_team: Option<TeamId>,

    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,
}

impl Policy {
    pub(crate) fn run(&self, format: Format) -> Result<Exit, Failure> {
        match &self.action {
            Action::Explain(explain) => explain.run(format),
        }
    }
}

impl Explain {
    fn run(&self, format: Format) -> Result<Exit, Failure> {
        let policy = PolicyConfig::load(&self.config)?;
        let lists = Lists::new(&policy.teams, &policy.channels, &policy.users);
        let explained = lists.explain(&Asker {
            team: &self.team,
            user_team: self.user_team.as_ref().unwrap_or(&self.team),
            channel: &self.channel,
            user: &self.user,
        });
        output::write(|out| match format {
            Format::Text => self.write_text(out, &explained, policy.requests_per_minute),
            Format::Json => {
                let limit = policy.requests_per_minute;
                output::write_json(out, &to_json(&explained, limit))
            }
        })?;
        Ok(match explained.allowed() {
            true => Exit::Done,
            false => Exit::Refused,
        })
    }

    fn write_text(
        &self,
        out: &mut dyn Write,
        explained: &Explanation,
        limit: u32,
    ) -> io::Result<()> {
        let may = match explained.allowed() {
            true => "may ask",
            false => "may not ask",
        };
        writeln!(out, "{} {may} in {}", self.user, self.channel)?;
        for line in &explained.lines {
            writeln!(out, "  {}", printable::text(&line.to_string()))?;
        }
        if !explained.allowed() {
            return Ok(());
        }
        match limit {
            0 => writeln!(out, "  as often as they like"),
            1 => writeln!(out, "  once a minute"),
            many => writeln!(out, "  {many} times a minute"),
        }
    }
}

fn to_json(explained: &Explanation, limit: u32) -> serde_json::Value {
    let lists: Vec<_> = explained
        .lines
        .iter()
        .map(|line| {
            json!({
                "list": line.list.name(),
                "id": line.name,
                "allowed": line.decided.is_ok(),
                "everybody": line.everybody,
                "reason": line.decided.err().map(|denied| denied.word()),
            })
        })
        .collect();
    json!({"allowed": explained.allowed(), "lists": lists, "requests_per_minute": limit})
}
