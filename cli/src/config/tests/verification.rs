//! Tests of the Verification Zone's configuration: valid files, and the error message for each mistake.

use super::{DEFAULT_CONFIG, MINIMAL_CONFIG, root};
use crate::config::{Config, MessageLanguage, SlackMode, VerificationZoneConfig};
use insta::assert_snapshot;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A complete configuration.
const COMPLETE_CONFIG: &str = r#"
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

/// Files that the configurations refer to.
const SECRETS: [&str; 6] = [
    "secret.txt",
    "signing.txt",
    "bot.txt",
    "app.txt",
    "slack-client.txt",
    "token.key",
];

fn folder_with_secrets() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in SECRETS {
        fs::write(folder.path().join(name), format!("hunter2-{name}\n")).unwrap();
    }
    folder
}

fn read_in(
    folder: &Path,
    text: &str,
    variables: &[(&str, &str)],
) -> Result<VerificationZoneConfig, String> {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    VerificationZoneConfig::read(text, variables, folder).map_err(|error| error.to_string())
}

fn read(text: &str) -> Result<VerificationZoneConfig, String> {
    let folder = folder_with_secrets();
    let read = read_in(folder.path(), text, &[]);
    read.map_err(|error| error.replace(&folder.path().display().to_string(), "FOLDER"))
}

#[test]
fn complete_config_sets_all_values() {
    let config = read(COMPLETE_CONFIG).unwrap();
    let zone = &config.verification;
    assert_eq!(zone.listen.port(), 8444);
    assert_eq!(zone.public_url.as_str(), "https://localhost:8444/");
    assert_eq!(zone.execution_url.as_str(), "https://localhost:8443/");
    assert_eq!(zone.language, MessageLanguage::Auto);
    assert!(!zone.ask.forward_bot_token);
    assert_eq!((zone.input_chars, zone.ask.context_messages), (4000, 20));
    let token_url = zone.oauth.token_url.as_ref().unwrap();
    assert_eq!(token_url.as_str(), "https://localhost:8443/oauth2/token");
    assert!(
        zone.oauth
            .client_secret
            .as_ref()
            .unwrap()
            .ct_eq("hunter2-secret.txt")
    );
    let slack = &config.slack;
    assert_eq!(slack.mode, SlackMode::Events);
    assert_eq!(slack.api_url.as_str(), "https://slack.com/api/");
    assert!(
        slack
            .signing_secret
            .as_ref()
            .unwrap()
            .ct_eq("hunter2-signing.txt")
    );
    assert!(slack.bot_token.as_ref().unwrap().ct_eq("hunter2-bot.txt"));
    assert!(slack.install.is_none() && !slack.follow_threads);
    assert_eq!(config.policy.teams, ["T1"]);
    assert_eq!(config.policy.users, ["*"]);
    assert_eq!(config.policy.requests_per_minute, 10);
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn verification_example_loads() {
    let text = fs::read_to_string(root().join("examples/verification.toml")).unwrap();
    let config = read(&text).unwrap();
    assert_eq!(config.slack.auto_reply_channels, ["C0HELPDESK"]);
}

#[test]
fn default_policy_allows_no_one() {
    let (before, _) = COMPLETE_CONFIG.split_once("[policy]").unwrap();
    let config = read(before).unwrap();
    let policy = &config.policy;
    for list in [&policy.teams, &policy.channels, &policy.users] {
        assert!(list.is_empty());
    }
    assert_eq!(policy.requests_per_minute, 10);
}

/// Returns the keys of this zone in `config.default.toml`, with commented keys enabled.
pub(crate) fn all_keys() -> String {
    let (_, ours) = DEFAULT_CONFIG.split_once("[verification]").unwrap();
    let (ours, _) = ours.split_once("[log]").unwrap();
    let mut all = "[tls]\ncert = \"c\"\nkey = \"k\"\n[verification]".to_owned();
    for line in ours.lines() {
        writeln!(all, "{}", line.strip_prefix("# ").unwrap_or(line)).unwrap();
    }
    all
}

#[test]
fn default_config_shows_the_defaults_of_the_options() {
    let folder = folder_with_secrets();
    let required = "[tls]\ncert = \"c\"\nkey = \"k\"\n";
    let secrets = [
        ("verification.oauth", "client_secret_file"),
        ("slack", "signing_secret_file"),
        ("slack", "bot_token_file"),
    ];
    let secrets: Vec<_> = secrets
        .iter()
        .map(|(table, key)| {
            let name = format!("INTERZONE__{table}__{key}").replace('.', "__");
            (name.to_uppercase(), "secret.txt")
        })
        .collect();
    let variables: Vec<_> = secrets
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    let defaults = |text: &str| format!("{:#?}", read_in(folder.path(), text, &variables).unwrap());
    let text = DEFAULT_CONFIG.replacen("[tls]\n", required, 1);
    assert_eq!(defaults(&text), defaults(&format!("{required}[slack]\n")));
}

#[test]
fn all_default_keys_are_known_and_documented() {
    let all = all_keys();
    let page = fs::read_to_string(root().join("docs/reference/config.md")).unwrap();
    let mut keys = 0;
    for line in all.lines() {
        if let Some((key, _)) = line.split_once(" = ")
            && !line.starts_with([' ', '['])
        {
            keys += 1;
            let documented = page.contains(&format!("| `{key}` |"));
            assert!(
                documented,
                "docs/reference/config.md does not describe `{key}`"
            );
        }
    }
    assert!(keys > 25, "{keys}");
    read(&all).unwrap();
}

#[test]
fn installable_app_needs_no_bot_token() {
    let text = COMPLETE_CONFIG.replace(
        "bot_token_file = \"bot.txt\"",
        "client_id = \"1.2\"\nclient_secret_file = \"slack-client.txt\"\ntoken_key_file = \"token.key\"",
    );
    let install = read(&text).unwrap().slack.install.unwrap();
    assert_eq!(
        install.redirect_url.as_str(),
        "https://localhost:8444/slack/oauth_redirect"
    );
    assert!(install.token_key.ct_eq("hunter2-token.key"));
}

#[test]
fn socket_mode_is_configured_from_environment() {
    let folder = folder_with_secrets();
    let text = "[tls]\ncert = \"c\"\nkey = \"k\"\n[slack]\nmode = \"socket\"\n";
    let variables = [
        ("INTERZONE__SLACK__APP_TOKEN_FILE", "app.txt"),
        ("INTERZONE__SLACK__BOT_TOKEN_FILE", "bot.txt"),
        ("INTERZONE__SLACK__API_URL", "http://127.0.0.1:9000/api"),
        (
            "INTERZONE__VERIFICATION__OAUTH__CLIENT_SECRET_FILE",
            "secret.txt",
        ),
        ("INTERZONE__POLICY__TEAMS", "T1, T2"),
    ];
    let config = read_in(folder.path(), text, &variables).unwrap();
    assert_eq!(config.slack.mode, SlackMode::Socket);
    assert_eq!(config.slack.api_url.as_str(), "http://127.0.0.1:9000/api/");
    assert_eq!(config.policy.teams, ["T1", "T2"]);
}

#[test]
fn each_zone_ignores_secrets_of_the_other_zone() {
    let both = format!("{COMPLETE_CONFIG}[webhooks]\nsecret_file = \"nowhere\"\n");
    read(&both).unwrap();
    let both = format!(
        "{MINIMAL_CONFIG}[execution]\nlisten = \"127.0.0.1:1\"\n[slack]\nsigning_secret_file = \"nowhere\"\n"
    );
    Config::read(&both, [], Path::new("/")).unwrap();
}

#[test]
fn file_for_the_other_zone_is_rejected_with_hint() {
    let error = Config::read(COMPLETE_CONFIG, [], Path::new("/"))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("`execution` is missing"), "{error}");
    assert!(error.contains("interzone serve verification"), "{error}");
    let error = read(MINIMAL_CONFIG).unwrap_err();
    assert!(error.starts_with("`verification` is missing"), "{error}");
    assert!(error.contains("interzone serve execution"), "{error}");
}

#[test]
fn invalid_settings_are_reported_with_their_key() {
    let with = |from: &str, to: &str| {
        assert!(COMPLETE_CONFIG.contains(from), "{from}");
        COMPLETE_CONFIG.replace(from, to)
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
        ("\"auto\"", "\"ja\"\nanswer_timeout = 30"),
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
    let mut report = String::new();
    for (from, to) in cases {
        let error = read(&with(from, to)).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
        assert!(
            !error.ends_with('.') && error.lines().count() == 1,
            "{error}"
        );
        writeln!(report, "{from} -> {to}\n=> {error}\n").unwrap();
    }
    assert_snapshot!(report);
}
