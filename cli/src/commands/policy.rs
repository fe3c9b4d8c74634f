//! `interzone policy explain`: explains whether a Slack user may ask.

use crate::config::PolicyConfig;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use clap::{Args, Subcommand};
use interzone_verification::policy::{Policy as SlackPolicy, PolicyExplanation, PolicySubject};
use interzone_verification::slack::ids::{ChannelId, TeamId, UserId};
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// Check whether a Slack user is allowed to ask, and why
#[derive(Debug, Args)]
pub(crate) struct PolicyCommand {
    #[command(subcommand)]
    action: PolicyAction,
}

#[derive(Debug, Subcommand)]
enum PolicyAction {
    Explain(Explain),
}

/// Explain the policy decision for a user and channel
///
/// Reads only the configuration; nothing is sent to Slack. Exit code 0 means allowed, 4 means
/// denied.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Example:
  interzone policy explain --team T0123ABCD --user U0123ABCD --channel C0123ABCD"
)]
struct Explain {
    /// Slack workspace (team) id
    #[arg(long, value_name = "ID")]
    team: TeamId,

    /// Slack user id
    #[arg(long, value_name = "ID")]
    user: UserId,

    /// Slack channel or direct message id
    #[arg(long, value_name = "ID")]
    channel: ChannelId,

    /// The user's own workspace, if it differs (shared channels) [default: --team]
    #[arg(long, value_name = "ID")]
    user_team: Option<TeamId>,

    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,
}

impl PolicyCommand {
    pub(crate) fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        match &self.action {
            PolicyAction::Explain(explain) => explain.run(format),
        }
    }
}

impl Explain {
    fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let policy = PolicyConfig::load(&self.config)?;
        let lists = SlackPolicy::new(&policy.teams, &policy.channels, &policy.users);
        let explained = lists.explain(&PolicySubject {
            team: &self.team,
            user_team: self.user_team.as_ref().unwrap_or(&self.team),
            channel: &self.channel,
            user: &self.user,
        });
        output::write(|out| match format {
            OutputFormat::Text => self.write_text(out, &explained, policy.requests_per_minute),
            OutputFormat::Json => {
                let limit = policy.requests_per_minute;
                output::write_json(out, &to_json(&explained, limit))
            }
        })?;
        Ok(match explained.is_allowed() {
            true => Exit::Done,
            false => Exit::Refused,
        })
    }

    fn write_text(
        &self,
        out: &mut dyn Write,
        explained: &PolicyExplanation,
        limit: u32,
    ) -> io::Result<()> {
        let may = match explained.is_allowed() {
            true => "may ask",
            false => "may not ask",
        };
        writeln!(out, "{} {may} in {}", self.user, self.channel)?;
        for line in &explained.verdicts {
            writeln!(out, "  {}", printable::text(&line.to_string()))?;
        }
        if !explained.is_allowed() {
            return Ok(());
        }
        match limit {
            0 => writeln!(out, "  no rate limit"),
            1 => writeln!(out, "  1 request per minute"),
            many => writeln!(out, "  {many} requests per minute"),
        }
    }
}

fn to_json(explained: &PolicyExplanation, limit: u32) -> serde_json::Value {
    let lists: Vec<_> = explained
        .verdicts
        .iter()
        .map(|line| {
            json!({
                "list": line.list.name(),
                "id": line.id,
                "allowed": line.decision.is_ok(),
                "wildcard": line.allows_all,
                "reason": line.decision.err().map(|denied| denied.code()),
            })
        })
        .collect();
    json!({"allowed": explained.is_allowed(), "lists": lists, "requests_per_minute": limit})
}
