//! Tests that the example Slack manifest matches what the code needs.

use interzone_verification::slack::{EVENTS, SCOPES};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Parses the subset of YAML that the manifest uses: nested maps, strings, and lists of strings. Keys of the result
/// are paths with dots.
fn parse_manifest(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let depth = line.len() - content.len();
        assert_eq!(depth % 2, 0, "{line}");
        let (key, value) = match content.strip_prefix("- ") {
            Some(item) => (None, item),
            None => {
                let (key, value) = content.split_once(':').unwrap();
                (Some(key), value.trim())
            }
        };
        if let Some(key) = key {
            path.retain(|(above, _)| *above < depth);
            path.push((depth, key.to_owned()));
        }
        if !value.is_empty() {
            let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            let value = value.trim_matches('"').to_owned();
            found.entry(names.join(".")).or_default().push(value);
        }
    }
    found
}

fn sorted(list: &[impl ToString]) -> Vec<String> {
    let mut list: Vec<String> = list.iter().map(ToString::to_string).collect();
    list.sort();
    list
}

#[test]
fn fault_9_manifest_has_required_scopes_and_events() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("examples/slack-manifest.yaml")).unwrap();
    let manifest = parse_manifest(&text);
    let list = |path: &str| sorted(&manifest[path]);
    assert_eq!(list("oauth_config.scopes.bot"), sorted(SCOPES));
    assert_eq!(
        list("settings.event_subscriptions.bot_events"),
        sorted(EVENTS)
    );
    let one = |path: &str| match manifest[path].as_slice() {
        [only] => only.as_str(),
        other => panic!("{path}: {other:?}"),
    };
    let base = "https://slack.example.com/slack";
    assert_eq!(
        one("settings.event_subscriptions.request_url"),
        format!("{base}/events")
    );
    assert_eq!(
        one("settings.interactivity.request_url"),
        format!("{base}/interactions")
    );
    assert_eq!(
        one("oauth_config.redirect_urls"),
        format!("{base}/oauth_redirect")
    );
    for (path, value) in [
        ("settings.interactivity.is_enabled", "true"),
        ("settings.socket_mode_enabled", "false"),
        ("features.app_home.messages_tab_enabled", "true"),
        ("features.app_home.messages_tab_read_only_enabled", "false"),
    ] {
        assert_eq!(one(path), value, "{path}");
    }
    // Scopes that the original's manifest lacked; without them, private channels and direct messages do not work.
    for scope in ["im:read", "groups:read", "mpim:read", "files:read"] {
        assert!(SCOPES.contains(&scope), "{scope}");
    }
    assert!(!text.contains("app_mentions\n"), "the event is app_mention");
}
