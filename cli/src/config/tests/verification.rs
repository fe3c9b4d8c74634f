//! A Verification Zone's configuration: what works, and every way to get it wrong.

use super::{DEFAULTS, LEAST, root};
use crate::config::{Config, SlackMode, VerifyConfig, Words};
use insta::assert_snapshot;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The file of the issue that asked for the zone, to the letter.
const WHOLE: &str = r#"
[tls]
cert = "cert.pem"
key = "key.pem"
[verification]
listen = "127.0.0.1:8444"
execution_url = "https://localhost:8443"
language = "auto"                    # ja | en | auto
[verification.oauth]                 # how this zone gets its token
token_url = "https://localhost:8443/oauth2/token"
client_id = "verification"
client_secret_file = "secret.txt"
[slack]
mode = "events"                      # or "socket"
api_url = "https://slack.com/api/"   # http allowed on loopback only
signing_secret_file = "signing.txt"
bot_token_file = "bot.txt"
# app_token_file = "app.txt"         # Socket Mode
[policy]
teams = ["T1"]
channels = ["*"]
users = ["*"]
requests_per_minute = 10
"#;

/// The files that the configurations here name.
const SECRETS: [&str; 6] = [
    "secret.txt",
    "signing.txt",
    "bot.txt",
    "app.txt",
    "slack-client.txt",
    "token.key",
];

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in SECRETS {
        fs::write(folder.path().join(name), format!("hunter2-{name}\n")).unwrap();
    }
    folder
}

fn read_in(folder: &Path, text: &str, variables: &[(&str, &str)]) -> Result<VerifyConfig, String> {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    VerifyConfig::read(text, variables, folder).map_err(|error| error.to_string())
}

fn read(text: &str) -> Result<VerifyConfig, String> {
    let folder = folder();
    let read = read_in(folder.path(), text, &[]);
    read.map_err(|error| error.replace(&folder.path().display().to_string(), "FOLDER"))
}

#[test]
fn the_whole_file_means_what_it_says() {
    let config = read(WHOLE).unwrap();
    let zone = &config.verification;
    assert_eq!(zone.listen.port(), 8444);
    assert_eq!(zone.public_url.as_str(), "https://localhost:8444/");
    assert_eq!(zone.execution_url.as_str(), "https://localhost:8443/");
    assert_eq!(zone.language, Words::Auto);
    assert!(!zone.forward_bot_token);
    assert_eq!((zone.input_chars, zone.context_messages), (4000, 20));
    let token_url = zone.oauth.token_url.as_ref().unwrap();
    assert_eq!(token_url.as_str(), "https://localhost:8443/oauth2/token");
    assert!(zone.oauth.client_secret.is("hunter2-secret.txt"));
    let slack = &config.slack;
    assert_eq!(slack.mode, SlackMode::Events);
    assert_eq!(slack.api_url.as_str(), "https://slack.com/api/");
    assert!(
        slack
            .signing_secret
            .as_ref()
            .unwrap()
            .is("hunter2-signing.txt")
    );
    assert!(slack.bot_token.as_ref().unwrap().is("hunter2-bot.txt"));
    assert!(slack.install.is_none() && !slack.follow_threads);
    assert_eq!(config.policy.teams, ["T1"]);
    assert_eq!(config.policy.users, ["*"]);
    assert_eq!(config.policy.requests_per_minute, 10);
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn the_example_is_loaded() {
    let text = fs::read_to_string(root().join("examples/verification.toml")).unwrap();
    let config = read(&text).unwrap();
    assert_eq!(config.slack.auto_reply_channels, ["C0HELPDESK"]);
}

#[test]
fn the_defaults_let_nobody_through() {
    let (before, _) = WHOLE.split_once("[policy]").unwrap();
    let config = read(before).unwrap();
    let policy = &config.policy;
    for list in [&policy.teams, &policy.channels, &policy.users] {
        assert!(list.is_empty());
    }
    assert_eq!(policy.requests_per_minute, 10);
}

#[test]
fn the_defaults_name_every_key_and_the_page_tells_of_each() {
    let (_, ours) = DEFAULTS.split_once("[verification]").unwrap();
    let (ours, _) = ours.split_once("[log]").unwrap();
    let mut all = "[tls]\ncert = \"c\"\nkey = \"k\"\n[verification]".to_owned();
    let page = fs::read_to_string(root().join("docs/reference/config.md")).unwrap();
    let mut keys = 0;
    for line in ours.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        writeln!(all, "{line}").unwrap();
        if let Some((key, _)) = line.split_once(" = ")
            && !line.starts_with([' ', '['])
        {
            keys += 1;
            let told = page.contains(&format!("| `{key}` |"));
            assert!(told, "docs/reference/config.md says nothing of `{key}`");
        }
    }
    assert!(keys > 25, "{keys}");
    read(&all).unwrap();
}

#[test]
fn an_app_that_workspaces_install_needs_no_token_of_its_own() {
    let text = WHOLE.replace(
        "bot_token_file = \"bot.txt\"",
        "client_id = \"1.2\"\nclient_secret_file = \"slack-client.txt\"\ntoken_key_file = \"token.key\"",
    );
    let install = read(&text).unwrap().slack.install.unwrap();
    assert_eq!(
        install.redirect_url.as_str(),
        "https://localhost:8444/slack/oauth_redirect"
    );
    assert!(install.token_key.is("hunter2-token.key"));
}

#[test]
fn socket_mode_needs_no_signing_secret_and_the_environment_may_say_all() {
    let folder = folder();
    let text = "[tls]\ncert = \"c\"\nkey = \"k\"\n[slack]\nmode = \"socket\"\n";
    let said = [
        ("INTERZONE__SLACK__APP_TOKEN_FILE", "app.txt"),
        ("INTERZONE__SLACK__BOT_TOKEN_FILE", "bot.txt"),
        ("INTERZONE__SLACK__API_URL", "http://127.0.0.1:9000/api"),
        (
            "INTERZONE__VERIFICATION__OAUTH__CLIENT_SECRET_FILE",
            "secret.txt",
        ),
        ("INTERZONE__POLICY__TEAMS", "T1, T2"),
    ];
    let config = read_in(folder.path(), text, &said).unwrap();
    assert_eq!(config.slack.mode, SlackMode::Socket);
    assert_eq!(config.slack.api_url.as_str(), "http://127.0.0.1:9000/api/");
    assert_eq!(config.policy.teams, ["T1", "T2"]);
}

#[test]
fn a_file_for_both_zones_shows_neither_the_secrets_of_the_other() {
    let both = format!("{WHOLE}[webhooks]\nsecret_file = \"nowhere\"\n");
    read(&both).unwrap();
    let both = format!(
        "{LEAST}[execution]\nlisten = \"127.0.0.1:1\"\n[slack]\nsigning_secret_file = \"nowhere\"\n"
    );
    Config::read(&both, [], Path::new("/")).unwrap();
}

#[test]
fn a_file_for_one_zone_says_so_to_the_other() {
    let told = Config::read(WHOLE, [], Path::new("/"))
        .unwrap_err()
        .to_string();
    assert!(told.starts_with("`execution` is missing"), "{told}");
    assert!(told.contains("interzone verify"), "{told}");
    let told = read(LEAST).unwrap_err();
    assert!(told.starts_with("`verification` is missing"), "{told}");
    assert!(told.contains("interzone execute"), "{told}");
}

#[test]
fn mistakes_are_told_by_name() {
    let with = |from: &str, to: &str| {
        assert!(WHOLE.contains(from), "{from}");
        WHOLE.replace(from, to)
    };
    let bot = "bot_token_file = \"bot.txt\"";
    let cases = [
        ("cert = \"cert.pem\"", ""),
        ("listen = \"127.0.0.1:8444\"", "listen = 8444"),
        (
            "listen = \"127.0.0.1:8444\"",
            "public_url = \"http://slack.example.com\"",
        ),
        ("\"https://localhost:8443\"", "\"http://zone.example.com\""),
        ("\"auto\"", "\"fr\""),
        ("\"auto\"", "\"ja\"\nbudget = 30"),
        ("\"auto\"", "\"ja\"\ninput_chars = 0"),
        ("\"auto\"", "\"ja\"\nlanguge = \"ja\""),
        ("client_secret_file = \"secret.txt\"", ""),
        (
            "client_secret_file = \"secret.txt\"",
            "client_secret = \"hunter2\"",
        ),
        (
            "client_secret_file = \"secret.txt\"",
            "client_secret_env = \"NO_SUCH_VARIABLE_HERE\"",
        ),
        (
            "client_secret_file = \"secret.txt\"",
            "client_secret_file = \"nowhere\"",
        ),
        ("\"events\"", "\"rtm\""),
        ("\"events\"", "\"socket\""),
        ("\"https://slack.com/api/\"", "\"http://slack.com/api/\""),
        ("\"https://slack.com/api/\"", "\"https://u@slack.com/api/\""),
        ("signing_secret_file = \"signing.txt\"", ""),
        (bot, ""),
        (bot, "bot_token = \"xoxb-hunter2\""),
        (bot, "client_id = \"1.2\""),
        (
            bot,
            "client_id = \"1.2\"\nclient_secret_file = \"slack-client.txt\"",
        ),
        (
            bot,
            "bot_token_file = \"bot.txt\"\ntoken_key_file = \"token.key\"",
        ),
        (
            bot,
            "bot_token_file = \"bot.txt\"\nredirect_url = \"https://a/\"",
        ),
        (
            bot,
            "bot_token_file = \"bot.txt\"\nauto_reply_channels = [\"*\"]",
        ),
        (
            bot,
            "bot_token_file = \"bot.txt\"\nbot_tokens_file = \"bot.txt\"",
        ),
        ("[\"T1\"]", "[\"Acme Inc\"]"),
        ("[\"T1\"]", "[\"*\", 7]"),
        ("requests_per_minute = 10", "requests_per_minute = -1"),
        ("requests_per_minute = 10", "request_per_minute = 1"),
        ("[policy]", "[polizy]"),
    ];
    let mut told = String::new();
    for (from, to) in cases {
        let error = read(&with(from, to)).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(
            !error.ends_with('.') && error.lines().count() == 1,
            "{error}"
        );
        writeln!(told, "{from} -> {to}\n=> {error}\n").unwrap();
    }
    assert_snapshot!(told);
}
