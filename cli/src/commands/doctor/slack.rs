//! Slack checks: reachability, tokens, scopes and policy.

use super::http_probe::{HttpProbe, ProbeFailure, ProbeResponse};
use super::report::DoctorReport;
use super::zone_checks;
use crate::config::{PolicyConfig, SlackConfig, SlackMode, StoreUrl, VerificationZoneConfig};
use crate::wiring::{installed_workspaces, store_is_current};
use interzone_edge::Secret;
use interzone_verification::slack::{EVENTS, SCOPES};
use url::Host;

/// Runs all Slack checks of a configuration.
pub(super) async fn check(
    config: &VerificationZoneConfig,
    wire: &HttpProbe,
    report: &mut DoctorReport,
) {
    let slack = &config.slack;
    let mut team = None;
    match &slack.bot_token {
        Some(token) => team = bot_token(slack, token, wire, report).await,
        None => reachable_without_token(slack, wire, report).await,
    }
    if slack.install.is_some() {
        check_installed_workspaces(config, report).await;
    }
    match (slack.mode, &slack.app_token) {
        (SlackMode::Socket, Some(token)) => socket_mode(slack, token, wire, report).await,
        _ => request_url(config, report),
    }
    events(slack.mode, report);
    policy(&config.policy, team.as_deref(), report);
}

/// Checks that Slack responds without a token.
async fn reachable_without_token(slack: &SlackConfig, wire: &HttpProbe, report: &mut DoctorReport) {
    let response = match slack.api_url.join("api.test") {
        Ok(url) => wire.get(url).await,
        Err(error) => Err(ProbeFailure::new(error.to_string())),
    };
    match response {
        Ok(response) => {
            report.pass("slack", format!("{} responds", slack.api_url));
            zone_checks::clock("Slack", &response, report);
        }
        Err(failure) => report_unreachable(slack, &failure, report),
    }
}

fn report_unreachable(slack: &SlackConfig, failure: &ProbeFailure, report: &mut DoctorReport) {
    report.fail(
        "slack",
        format!("cannot connect to {}: {}", slack.api_url, failure.reason),
        failure.advice("slack.api_url"),
    );
}

/// Checks the tokens of workspaces that installed the app.
async fn check_installed_workspaces(config: &VerificationZoneConfig, report: &mut DoctorReport) {
    const NAME: &str = "installed workspaces";
    if let StoreUrl::Sqlite(path) = &config.store.url
        && !path.exists()
    {
        report.skip(
            NAME,
            "the store does not exist yet",
            "start the zone, and open /slack/install",
        );
        return;
    }
    if let Ok(false) = store_is_current(&config.store).await {
        report.skip(
            NAME,
            "the store has tables of an older version",
            "run doctor again after the zone has started",
        );
        return;
    }
    match installed_workspaces(config).await {
        Ok(0) => report.warn(NAME, "none", "open /slack/install of this zone to add one"),
        Ok(many) => report.pass(NAME, format!("{many}, all tokens can be decrypted")),
        Err(error) => report.fail(
            NAME,
            error.to_string(),
            "restore the key that encrypted them (slack.token_key_file)",
        ),
    }
}

/// Checks the bot token and its scopes. Returns the id of its workspace.
async fn bot_token(
    slack: &SlackConfig,
    token: &Secret,
    wire: &HttpProbe,
    report: &mut DoctorReport,
) -> Option<String> {
    let response = match wire.slack(&slack.api_url, "auth.test", token).await {
        Ok(response) => response,
        Err(failure) => {
            report_unreachable(slack, &failure, report);
            return None;
        }
    };
    report.pass("slack", format!("{} responds", slack.api_url));
    zone_checks::clock("Slack", &response, report);
    if let Some((why, next)) = slack_error(&response) {
        report.fail("slack token", why, next);
        return None;
    }
    let text = |name: &str| response.body.get(name).and_then(|value| value.as_str());
    let team = text("team_id").map(str::to_owned);
    report.pass(
        "slack token",
        format!(
            "belongs to {} in {} ({})",
            text("user").unwrap_or("unknown user"),
            text("team").unwrap_or("unknown workspace"),
            team.as_deref().unwrap_or("no id")
        ),
    );
    scopes(response.scopes.as_deref(), report);
    team
}

/// Returns Slack's error and what to do about it.
fn slack_error(response: &ProbeResponse) -> Option<(String, &'static str)> {
    if response.body.get("ok").and_then(serde_json::Value::as_bool) == Some(true) {
        return None;
    }
    let code = response.body.get("error").and_then(|code| code.as_str());
    let Some(code) = code else {
        let why = format!("HTTP {}, and not a Slack response", response.status);
        return Some((why, "fix slack.api_url; it must end in /api/"));
    };
    let next = match code {
        "invalid_auth" | "not_authed" => "copy the complete token into its file again",
        "account_inactive" | "token_revoked" | "token_expired" => {
            "reinstall the app, and put the new token into its file"
        }
        "not_allowed_token_type" => {
            "a bot token begins with xoxb-, an app-level token with xapp-; they seem to be swapped"
        }
        "missing_scope" => "add the scope in the app's settings, and reinstall it",
        "ratelimited" => "wait a minute",
        _ => "look up the error code in Slack's API documentation",
    };
    Some((format!("Slack returned {code}"), next))
}

/// Compares the token's scopes with those that the zone needs.
fn scopes(granted: Option<&[String]>, report: &mut DoctorReport) {
    let Some(granted) = granted else {
        report.skip(
            "slack scopes",
            "Slack does not report them",
            "compare OAuth & Permissions with examples/slack-manifest.yaml",
        );
        return;
    };
    let lacks = |scope: &&&str| !granted.iter().any(|one| one == **scope);
    let lacking: Vec<&str> = SCOPES.iter().filter(lacks).copied().collect();
    if lacking.is_empty() {
        report.pass(
            "slack scopes",
            format!("all {} required scopes granted", SCOPES.len()),
        );
        return;
    }
    report.fail(
        "slack scopes",
        format!("the token is missing {}", lacking.join(", ")),
        "add them under OAuth & Permissions (or with examples/slack-manifest.yaml), and reinstall the app",
    );
}

/// Checks the app-level token of Socket Mode.
async fn socket_mode(
    slack: &SlackConfig,
    token: &Secret,
    wire: &HttpProbe,
    report: &mut DoctorReport,
) {
    match wire
        .slack(&slack.api_url, "apps.connections.open", token)
        .await
    {
        Err(failure) => {
            let next = failure.advice("slack.api_url");
            report.fail("socket mode", failure.reason, next);
        }
        Ok(response) => match slack_error(&response) {
            None => report.pass("socket mode", "Slack accepts the app-level token"),
            Some((why, next)) => report.fail("socket mode", why, next),
        },
    }
}

/// Checks whether Slack can reach the zone, as far as its URL shows.
fn request_url(config: &VerificationZoneConfig, report: &mut DoctorReport) {
    let is_local = |host: Option<Host<&str>>| match host {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_private(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => true,
    };
    let public = &config.verification.public_url;
    let requests = format!("{}/slack/events", public.as_str().trim_end_matches('/'));
    if is_local(config.slack.api_url.host()) {
        report.pass("request url", format!("{requests}, for a local Slack"));
    } else if is_local(public.host()) {
        report.warn(
            "request url",
            format!("Slack cannot reach {requests}"),
            "set verification.public_url to a public URL, or slack.mode to \"socket\"",
        );
    } else {
        report.skip(
            "request url",
            format!("cannot check from here whether Slack reaches {requests}"),
            "Event Subscriptions must show it as Verified, and Interactivity must use \
             /slack/interactions",
        );
    }
}

/// Reminds of the required event subscriptions, which only Slack knows.
fn events(mode: SlackMode, report: &mut DoctorReport) {
    let switch = match mode {
        SlackMode::Events => "",
        SlackMode::Socket => "; Socket Mode must be on",
    };
    report.skip(
        "slack events",
        "Slack does not report an app's event subscriptions",
        format!(
            "under Event Subscriptions, bot events must be {}{switch}",
            EVENTS.join(", ")
        ),
    );
}

/// Checks who may ask.
fn policy(policy: &PolicyConfig, team: Option<&str>, report: &mut DoctorReport) {
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
            format!(
                "no user may ask: [policy] has empty lists: {}",
                empty.join(", ")
            ),
            "list who may ask in [policy]; \"*\" allows all",
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
            "add it, or use another workspace's token",
        );
        return;
    }
    let open = |list: &[String]| list.iter().any(|one| one == "*");
    if lists.iter().all(|(_, list)| open(list)) {
        report.warn(
            "policy",
            "all users may ask, wherever the app is installed",
            "restrict teams, channels or users in [policy] if that is not intended",
        );
        return;
    }
    let allowed: Vec<String> = lists
        .iter()
        .map(|(name, list)| match open(list) {
            true => format!("all {name}"),
            false => format!("{} of {name}", list.len()),
        })
        .collect();
    report.pass("policy", allowed.join(", "));
}

#[cfg(test)]
mod tests {
    use super::super::http_probe::ProbeResponse;
    use super::super::report::{DoctorReport, DoctorVerdict};
    use super::{policy, scopes, slack_error};
    use crate::config::PolicyConfig;
    use interzone_verification::slack::SCOPES;
    use serde_json::json;

    fn only_check(report: &DoctorReport) -> (DoctorVerdict, &str) {
        assert_eq!(report.checks.len(), 1);
        (report.checks[0].verdict, &report.checks[0].found)
    }

    #[test]
    fn missing_scopes_are_reported() {
        let all: Vec<String> = SCOPES.iter().map(|&scope| scope.to_owned()).collect();
        let mut report = DoctorReport::default();
        scopes(Some(&all), &mut report);
        assert_eq!(only_check(&report).0, DoctorVerdict::Pass);
        let few: Vec<String> = all.into_iter().filter(|one| one != "files:read").collect();
        let mut report = DoctorReport::default();
        scopes(Some(&few), &mut report);
        assert_eq!(
            only_check(&report),
            (DoctorVerdict::Fail, "the token is missing files:read")
        );
        let mut report = DoctorReport::default();
        scopes(None, &mut report);
        assert_eq!(only_check(&report).0, DoctorVerdict::Skip);
    }

    #[test]
    fn empty_policy_fails_and_open_policy_warns() {
        let look = |teams: &[&str], users: &[&str], team: Option<&str>| {
            let list = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
            let config = PolicyConfig {
                teams: list(teams),
                channels: list(&["*"]),
                users: list(users),
                requests_per_minute: 1,
            };
            let mut report = DoctorReport::default();
            policy(&config, team, &mut report);
            let (verdict, found) = only_check(&report);
            (verdict, found.to_owned())
        };
        let (verdict, found) = look(&[], &[], None);
        assert_eq!(verdict, DoctorVerdict::Fail);
        assert!(found.ends_with("teams, users"), "{found}");
        assert_eq!(look(&["*"], &["*"], Some("T1")).0, DoctorVerdict::Warn);
        assert_eq!(look(&["T2"], &["*"], Some("T1")).0, DoctorVerdict::Fail);
        let (verdict, found) = look(&["T1"], &["U1", "U2"], Some("T1"));
        assert_eq!(verdict, DoctorVerdict::Pass);
        assert_eq!(found, "1 of teams, all channels, 2 of users");
    }

    #[test]
    fn slack_error_is_reported_with_advice() {
        let response = |body| ProbeResponse {
            status: 200,
            clock_offset: None,
            scopes: None,
            body,
        };
        assert!(slack_error(&response(json!({"ok": true}))).is_none());
        let (why, next) =
            slack_error(&response(json!({"ok": false, "error": "invalid_auth"}))).unwrap();
        assert!(
            why.contains("invalid_auth") && next.contains("again"),
            "{why} {next}"
        );
        assert!(slack_error(&response(json!("<html>"))).is_some());
    }
}
