//! The manifest among the examples, held to what the code needs.

use interzone_verification::slack::{EVENTS, SCOPES};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// As much of YAML as the manifest uses: maps of maps, texts, and lists of texts. Each value stands under
/// the names on the way to it, with dots between.
fn read(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let words = line.trim_start();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        let depth = line.len() - words.len();
        assert_eq!(depth % 2, 0, "{line}");
        let (key, value) = match words.strip_prefix("- ") {
            Some(item) => (None, item),
            None => {
                let (key, value) = words.split_once(':').unwrap();
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
fn fault_9_the_manifest_asks_for_what_the_code_needs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("examples/slack-manifest.yaml")).unwrap();
    let manifest = read(&text);
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
    // What the original's manifest lacked, without which private places and conversations are deaf.
    for scope in ["im:read", "groups:read", "mpim:read", "files:read"] {
        assert!(SCOPES.contains(&scope), "{scope}");
    }
    assert!(!text.contains("app_mentions\n"), "the event is app_mention");
}
