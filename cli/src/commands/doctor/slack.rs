//! Slack: whether it answers, whether our tokens are good, what they may, and who may ask.

use super::report::Report;
use super::wire::{Seen, Unseen, Wire};
use super::zones;
use crate::config::{PolicyConfig, SlackConfig, SlackMode, StoreUrl, VerifyConfig};
use crate::wiring::{store_is_current, workspaces};
use interzone_edge::Secret;
use interzone_verification::slack::{EVENTS, SCOPES};
use url::Host;

/// Looks at Slack with all that the configuration has for it.
pub(super) async fn check(config: &VerifyConfig, wire: &Wire, report: &mut Report) {
    let slack = &config.slack;
    let mut team = None;
    match &slack.bot_token {
        Some(token) => team = bot(slack, token, wire, report).await,
        None => answers(slack, wire, report).await,
    }
    if slack.install.is_some() {
        installed(config, report).await;
    }
    match (slack.mode, &slack.app_token) {
        (SlackMode::Socket, Some(token)) => socket(slack, token, wire, report).await,
        _ => reachable(config, report),
    }
    events(slack.mode, report);
    policy(&config.policy, team.as_deref(), report);
}

/// Whether Slack answers somebody who has no token.
async fn answers(slack: &SlackConfig, wire: &Wire, report: &mut Report) {
    let seen = match slack.api_url.join("api.test") {
        Ok(url) => wire.get(url).await,
        Err(error) => Err(Unseen::new(error.to_string())),
    };
    match seen {
        Ok(seen) => {
            report.pass("slack", format!("{} answers", slack.api_url));
            zones::clock("Slack", &seen, report);
        }
        Err(unseen) => away(slack, &unseen, report),
    }
}

fn away(slack: &SlackConfig, unseen: &Unseen, report: &mut Report) {
    report.fail(
        "slack",
        format!("{} cannot be spoken to: {}", slack.api_url, unseen.why),
        unseen.next("slack.api_url"),
    );
}

/// The tokens of workspaces that installed the app.
async fn installed(config: &VerifyConfig, report: &mut Report) {
    const NAME: &str = "installed workspaces";
    if let StoreUrl::Sqlite(path) = &config.store.url
        && !path.exists()
    {
        report.skip(
            NAME,
            "there is no store yet",
            "start the zone, and open /slack/install",
        );
        return;
    }
    if let Ok(false) = store_is_current(&config.store).await {
        report.skip(
            NAME,
            "the store has tables of an older version",
            "look again when the zone has started",
        );
        return;
    }
    match workspaces(config).await {
        Ok(0) => report.warn(NAME, "none", "open /slack/install of this zone to add one"),
        Ok(many) => report.pass(NAME, format!("{many}, and all their tokens can be opened")),
        Err(error) => report.fail(
            NAME,
            error.to_string(),
            "bring back the key that sealed them (slack.token_key_file)",
        ),
    }
}

/// The bot's token and what it may. Gives the workspace that it is of.
async fn bot(
    slack: &SlackConfig,
    token: &Secret,
    wire: &Wire,
    report: &mut Report,
) -> Option<String> {
    let seen = match wire.slack(&slack.api_url, "auth.test", token).await {
        Ok(seen) => seen,
        Err(unseen) => {
            away(slack, &unseen, report);
            return None;
        }
    };
    report.pass("slack", format!("{} answers", slack.api_url));
    zones::clock("Slack", &seen, report);
    if let Some((why, next)) = refusal(&seen) {
        report.fail("slack token", why, next);
        return None;
    }
    let text = |name: &str| seen.body.get(name).and_then(|value| value.as_str());
    let team = text("team_id").map(str::to_owned);
    report.pass(
        "slack token",
        format!(
            "is of {} in {} ({})",
            text("user").unwrap_or("somebody"),
            text("team").unwrap_or("a workspace"),
            team.as_deref().unwrap_or("no id")
        ),
    );
    scopes(seen.scopes.as_deref(), report);
    team
}

/// What Slack has against a call, and the way out.
fn refusal(seen: &Seen) -> Option<(String, &'static str)> {
    if seen.body.get("ok").and_then(serde_json::Value::as_bool) == Some(true) {
        return None;
    }
    let word = seen.body.get("error").and_then(|word| word.as_str());
    let Some(word) = word else {
        let why = format!("HTTP {}, and no answer as Slack gives it", seen.status);
        return Some((why, "correct slack.api_url; it ends in /api/"));
    };
    let next = match word {
        "invalid_auth" | "not_authed" => "copy the token again, whole, into its file",
        "account_inactive" | "token_revoked" | "token_expired" => {
            "install the app again, and put the new token into its file"
        }
        "not_allowed_token_type" => {
            "a bot token begins with xoxb-, an app-level token with xapp-; they seem to be swapped"
        }
        "missing_scope" => "add the scope in the app's settings, and install it again",
        "ratelimited" => "wait a minute",
        _ => "look the word up in Slack's documentation of the method",
    };
    Some((format!("Slack says {word}"), next))
}

/// Compares what the token may with what the zone needs.
fn scopes(granted: Option<&[String]>, report: &mut Report) {
    let Some(granted) = granted else {
        report.skip(
            "slack scopes",
            "Slack does not tell them",
            "compare OAuth & Permissions with examples/slack-manifest.yaml",
        );
        return;
    };
    let lacks = |scope: &&&str| !granted.iter().any(|one| one == **scope);
    let lacking: Vec<&str> = SCOPES.iter().filter(lacks).copied().collect();
    if lacking.is_empty() {
        report.pass(
            "slack scopes",
            format!("all {} that are needed", SCOPES.len()),
        );
        return;
    }
    report.fail(
        "slack scopes",
        format!("the token lacks {}", lacking.join(", ")),
        "add them under OAuth & Permissions (or by examples/slack-manifest.yaml), and install the app again",
    );
}

/// The app-level token of Socket Mode.
async fn socket(slack: &SlackConfig, token: &Secret, wire: &Wire, report: &mut Report) {
    match wire
        .slack(&slack.api_url, "apps.connections.open", token)
        .await
    {
        Err(unseen) => {
            let next = unseen.next("slack.api_url");
            report.fail("socket mode", unseen.why, next);
        }
        Ok(seen) => match refusal(&seen) {
            None => report.pass(
                "socket mode",
                "Slack opens a socket for the app-level token",
            ),
            Some((why, next)) => report.fail("socket mode", why, next),
        },
    }
}

/// Whether Slack can reach us, as far as the address alone says.
fn reachable(config: &VerifyConfig, report: &mut Report) {
    let of_this_machine = |host: Option<Host<&str>>| match host {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_private(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => true,
    };
    let public = &config.verification.public_url;
    let requests = format!("{}/slack/events", public.as_str().trim_end_matches('/'));
    if of_this_machine(config.slack.api_url.host()) {
        report.pass(
            "request url",
            format!("{requests}, for a Slack on this machine"),
        );
    } else if of_this_machine(public.host()) {
        report.warn(
            "request url",
            format!("Slack cannot reach {requests}"),
            "set verification.public_url to an address that the internet knows, or slack.mode to \"socket\"",
        );
    } else {
        report.skip(
            "request url",
            format!("whether Slack reaches {requests} cannot be seen from here"),
            "Event Subscriptions must say Verified beside it, and Interactivity must have \
             /slack/interactions",
        );
    }
}

/// What Slack sends is known to Slack alone.
fn events(mode: SlackMode, report: &mut Report) {
    let switch = match mode {
        SlackMode::Events => "",
        SlackMode::Socket => "; Socket Mode must be on",
    };
    report.skip(
        "slack events",
        "Slack tells no app which events it is sent",
        format!(
            "under Event Subscriptions, bot events must be {}{switch}",
            EVENTS.join(", ")
        ),
    );
}

/// Who may ask, and whether that is anybody.
fn policy(policy: &PolicyConfig, team: Option<&str>, report: &mut Report) {
    let lists = [
        ("teams", &policy.teams),
        ("channels", &policy.channels),
        ("users", &policy.users),
    ];
    let empty: Vec<&str> = lists
        .iter()
        .filter(|(_, list)| list.is_empty())
        .map(|(name, _)| *name)
        .collect();
    if !empty.is_empty() {
        report.fail(
            "policy",
            format!("nobody may ask: empty in [policy] is {}", empty.join(", ")),
            "name who may in [policy]; \"*\" stands for everybody",
        );
        return;
    }
    let has = |list: &[String], id: &str| list.iter().any(|one| one == "*" || one == id);
    if let Some(team) = team
        && !has(&policy.teams, team)
    {
        report.fail(
            "policy",
            format!("the token's own workspace, {team}, is not in policy.teams"),
            "add it, or use the token of another",
        );
        return;
    }
    let open = |list: &[String]| list.iter().any(|one| one == "*");
    if lists.iter().all(|(_, list)| open(list)) {
        report.warn(
            "policy",
            "everybody may ask, wherever the app is installed",
            "name teams, channels or users in [policy], if that is not what you want",
        );
        return;
    }
    let told: Vec<String> = lists
        .iter()
        .map(|(name, list)| match open(list) {
            true => format!("all {name}"),
            false => format!("{} of {name}", list.len()),
        })
        .collect();
    report.pass("policy", told.join(", "));
}

#[cfg(test)]
mod tests {
    use super::super::report::{Report, Verdict};
    use super::super::wire::Seen;
    use super::{policy, refusal, scopes};
    use crate::config::PolicyConfig;
    use interzone_verification::slack::SCOPES;
    use serde_json::json;

    fn only(report: &Report) -> (Verdict, &str) {
        assert_eq!(report.checks.len(), 1);
        (report.checks[0].verdict, &report.checks[0].found)
    }

    #[test]
    fn scopes_that_are_missing_are_named() {
        let all: Vec<String> = SCOPES.iter().map(|&scope| scope.to_owned()).collect();
        let mut report = Report::default();
        scopes(Some(&all), &mut report);
        assert_eq!(only(&report).0, Verdict::Pass);
        let few: Vec<String> = all.into_iter().filter(|one| one != "files:read").collect();
        let mut report = Report::default();
        scopes(Some(&few), &mut report);
        assert_eq!(only(&report), (Verdict::Fail, "the token lacks files:read"));
        let mut report = Report::default();
        scopes(None, &mut report);
        assert_eq!(only(&report).0, Verdict::Skip);
    }

    #[test]
    fn an_empty_policy_is_told_and_an_open_one_too() {
        let look = |teams: &[&str], users: &[&str], team: Option<&str>| {
            let list = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
            let config = PolicyConfig {
                teams: list(teams),
                channels: list(&["*"]),
                users: list(users),
                requests_per_minute: 1,
            };
            let mut report = Report::default();
            policy(&config, team, &mut report);
            let (verdict, found) = only(&report);
            (verdict, found.to_owned())
        };
        let (verdict, found) = look(&[], &[], None);
        assert_eq!(verdict, Verdict::Fail);
        assert!(found.ends_with("teams, users"), "{found}");
        assert_eq!(look(&["*"], &["*"], Some("T1")).0, Verdict::Warn);
        assert_eq!(look(&["T2"], &["*"], Some("T1")).0, Verdict::Fail);
        let (verdict, found) = look(&["T1"], &["U1", "U2"], Some("T1"));
        assert_eq!(verdict, Verdict::Pass);
        assert_eq!(found, "1 of teams, all channels, 2 of users");
    }

    #[test]
    fn what_slack_has_against_us_is_told_with_the_way_out() {
        let seen = |body| Seen {
            status: 200,
            ahead: None,
            scopes: None,
            body,
        };
        assert!(refusal(&seen(json!({"ok": true}))).is_none());
        let (why, next) = refusal(&seen(json!({"ok": false, "error": "invalid_auth"}))).unwrap();
        assert!(
            why.contains("invalid_auth") && next.contains("again"),
            "{why} {next}"
        );
        assert!(refusal(&seen(json!("<html>"))).is_some());
    }
}
