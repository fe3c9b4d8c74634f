//! Tokens on two nodes, with a Slack and a store that do as they are told.

use super::{Installation, Installed, Installs, Tokens, TokensError, TokensOptions};
use crate::slack::api::Slack;
use crate::slack::api::oauth::OauthApp;
use crate::slack::fake::{FakeSlack, HandClock, MemoryRecords, Reply};
use crate::slack::ids::TeamId;
use crate::slack::tokens::BotToken;
use crate::slack::vault::{Vault, VaultError};
use interzone_edge::Secret;
use interzone_edge::tls::Trust;
use interzone_hub::Clock;
use interzone_hub::ports::RecordStore;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const KIND: &str = super::kept::KIND;

fn team(id: &str) -> TeamId {
    TeamId::new(id).unwrap()
}

struct Node {
    tokens: Tokens,
    clock: Arc<HandClock>,
    records: Arc<MemoryRecords>,
}

impl Node {
    fn new(fake: &FakeSlack, file: Option<&str>) -> Self {
        Self::beside(fake, file, Arc::default(), HandClock::at(1_000_000), 1)
    }

    fn beside(
        fake: &FakeSlack,
        file: Option<&str>,
        records: Arc<MemoryRecords>,
        clock: Arc<HandClock>,
        key: u8,
    ) -> Self {
        let slack = Slack::new(&fake.api(), &Trust::system()).unwrap();
        let key = format!("{key:02x}").repeat(32);
        let app = OauthApp {
            client_id: "1.2".to_owned(),
            client_secret: Secret::new("s"),
        };
        let installs = Installs {
            records: records.clone(),
            vault: Vault::new(&Secret::new(key)).unwrap(),
            app: Some(app),
        };
        let options = TokensOptions {
            file: file.map(|token| BotToken::new(token).unwrap()),
            installs: Some(installs),
            clock: clock.clone(),
        };
        Self {
            tokens: Tokens::new(slack, options),
            clock,
            records,
        }
    }

    /// Another node on the same store, with the same clock.
    fn twin(&self, fake: &FakeSlack) -> Self {
        Self::beside(fake, None, self.records.clone(), self.clock.clone(), 1)
    }

    async fn token(&self, id: &str) -> Option<String> {
        let found = self.tokens.installation(&team(id), None).await.unwrap();
        found.map(|found| found.token.expose().to_owned())
    }

    fn installed(&self, id: &str, token: &str, lasts: Option<Duration>) -> Installed {
        let now = self.clock.now();
        Installed {
            team: team(id),
            token: BotToken::new(token).unwrap(),
            refresh: lasts.map(|_| Secret::new("xoxe-1")),
            expires_at: lasts.map(|lasts| now.after(lasts)),
            bot_user: None,
            bot_id: None,
            app_id: None,
            at: now,
        }
    }
}

async fn silent() -> FakeSlack {
    FakeSlack::start(|_| Reply::said("internal_error")).await
}

#[tokio::test]
async fn the_token_of_the_file_is_good_for_its_workspace_once_slack_said_which() {
    let fake = FakeSlack::start(|_| {
        Reply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B0"}))
    })
    .await;
    let node = Node::new(&fake, Some("xoxb-file"));
    assert!(node.tokens.peek(&team("T1"), None).is_none());
    let found = node
        .tokens
        .installation(&team("T1"), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.bot_user.as_ref().unwrap().as_str(), "U0");
    assert_eq!(found.bot_id.as_ref().unwrap().as_str(), "B0");
    assert_eq!(node.token("T2").await, None, "another workspace");
    assert!(node.tokens.peek(&team("T1"), None).is_some());
    assert_eq!(fake.count("auth.test"), 1, "Slack is asked once");
    assert_eq!(node.records.raw(KIND, "T1"), None, "it is never stored");
    assert!(node.tokens.trouble().is_empty());
}

#[tokio::test]
async fn until_slack_said_so_it_is_good_for_all_who_have_none_of_their_own() {
    let refused = Arc::new(AtomicBool::new(true));
    let switch = refused.clone();
    let fake = FakeSlack::start(move |_| {
        if switch.load(Ordering::SeqCst) {
            return Reply::said("invalid_auth");
        }
        Reply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0"}))
    })
    .await;
    let node = Node::new(&fake, Some("xoxb-file"));
    node.tokens
        .store(&node.installed("T2", "xoxb-two", None))
        .await
        .unwrap();
    assert_eq!(node.token("T9").await.as_deref(), Some("xoxb-file"));
    assert_eq!(node.token("T2").await.as_deref(), Some("xoxb-two"));
    assert_eq!(
        fake.count("auth.test"),
        1,
        "Slack is not asked again at once"
    );
    let trouble = node.tokens.trouble();
    assert!(trouble[0].contains("`invalid_auth`"), "{trouble:?}");
    refused.store(false, Ordering::SeqCst);
    node.clock.advance(Duration::from_secs(30));
    assert_eq!(node.token("T9").await, None);
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-file"));
    assert!(node.tokens.trouble().is_empty());
    assert!(node.tokens.forget(&team("T1"), None).await.unwrap());
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-file"));
    assert_eq!(fake.count("auth.test"), 3, "doubts are cleared by asking");
}

#[tokio::test]
async fn whose_the_token_is_comes_out_while_another_looks_elsewhere_and_both_have_it() {
    let fake = FakeSlack::start(|_| {
        Reply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B0"}))
    })
    .await;
    let node = Node::new(&fake, Some("xoxb-file"));
    node.records.closed.send_replace(true);
    // The first asks Slack; the second finds that somebody asks, and is held up on its way through the
    // store until the first has its answer.
    let first = async {
        let found = node.token("T1").await;
        node.records.closed.send_replace(false);
        found
    };
    let (first, second) = tokio::join!(first, node.token("T1"));
    assert_eq!(first.as_deref(), Some("xoxb-file"));
    assert_eq!(second.as_deref(), Some("xoxb-file"), "nobody is dropped");
    assert_eq!(fake.count("auth.test"), 1);
    assert_eq!(
        node.token("T2").await,
        None,
        "another workspace still has none"
    );
}

#[tokio::test]
async fn a_token_for_an_organisation_is_good_for_its_workspaces() {
    let fake = FakeSlack::start(|_| {
        Reply::Json(json!({
            "ok": true, "team_id": "T1", "user_id": "U0", "enterprise_id": "E1", "is_enterprise_install": true,
        }))
    })
    .await;
    let node = Node::new(&fake, Some("xoxb-file"));
    let (two, one, other) = (team("T2"), team("E1"), team("E2"));
    let found = |enterprise| node.tokens.installation(&two, enterprise);
    assert!(found(Some(&one)).await.unwrap().is_some());
    assert!(found(Some(&other)).await.unwrap().is_none());
    assert!(found(None).await.unwrap().is_none());
    node.tokens
        .store(&node.installed("E2", "xoxb-org", None))
        .await
        .unwrap();
    node.clock.advance(Duration::from_secs(3));
    let kept = found(Some(&other)).await.unwrap().unwrap();
    assert_eq!(kept.token.expose(), "xoxb-org");
}

#[tokio::test]
async fn what_is_stored_is_sealed_and_seen_by_other_nodes_within_seconds() {
    let fake = silent().await;
    let node = Node::new(&fake, None);
    let twin = node.twin(&fake);
    assert_eq!(twin.token("T1").await, None);
    node.tokens
        .store(&node.installed("T1", "xoxb-one", None))
        .await
        .unwrap();
    let raw = node.records.raw(KIND, "T1").unwrap();
    assert!(!raw.contains("xoxb") && raw.starts_with("v1."), "{raw}");
    assert_eq!(
        node.token("T1").await.as_deref(),
        Some("xoxb-one"),
        "at once here"
    );
    node.clock.advance(Duration::from_secs(3));
    assert_eq!(twin.token("T1").await.as_deref(), Some("xoxb-one"));
    assert!(node.tokens.forget(&team("T1"), None).await.unwrap());
    assert_eq!(node.token("T1").await, None);
    node.clock.advance(Duration::from_secs(3));
    assert_eq!(twin.token("T1").await, None);
    assert!(!node.tokens.forget(&team("T1"), None).await.unwrap());
}

#[tokio::test]
async fn late_news_does_not_take_a_new_token_away() {
    let fake = silent().await;
    let node = Node::new(&fake, None);
    let removed = node.clock.now();
    node.clock.advance(Duration::from_secs(5));
    node.tokens
        .store(&node.installed("T1", "xoxb-new", None))
        .await
        .unwrap();
    assert!(
        !node
            .tokens
            .forget(&team("T1"), Some(removed))
            .await
            .unwrap()
    );
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-new"));
    let later = Some(node.clock.now());
    assert!(node.tokens.forget(&team("T1"), later).await.unwrap());
}

#[tokio::test]
async fn another_key_opens_nothing_and_says_what_to_do() {
    let fake = silent().await;
    let node = Node::new(&fake, None);
    node.tokens
        .store(&node.installed("T1", "xoxb-one", None))
        .await
        .unwrap();
    assert_eq!(node.tokens.check().await.unwrap(), 1);
    let other = Node::beside(&fake, None, node.records.clone(), node.clock.clone(), 2);
    for error in [
        other.tokens.check().await.unwrap_err(),
        other
            .tokens
            .installation(&team("T1"), None)
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(error, TokensError::Vault(VaultError::Closed { .. })),
            "{error:?}"
        );
        assert!(error.to_string().contains("key file") && !error.may_pass());
    }
    assert_eq!(other.tokens.trouble().len(), 1);
}

/// A Slack that renews tokens: `xoxe-N` is good once, and brings `xoxb-N` and `xoxe-N+1`.
async fn renewing() -> FakeSlack {
    let next = AtomicUsize::new(1);
    FakeSlack::start(move |seen| {
        let number = next.load(Ordering::SeqCst);
        if seen.form().get("refresh_token") != Some(&format!("xoxe-{number}")) {
            return Reply::said("invalid_refresh_token");
        }
        next.store(number + 1, Ordering::SeqCst);
        Reply::Json(json!({
            "ok": true, "access_token": format!("xoxb-{number}"), "expires_in": 43200,
            "refresh_token": format!("xoxe-{}", number + 1), "team": {"id": "T1", "name": "Us"},
        }))
    })
    .await
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends_and_by_one_node_only() {
    let fake = renewing().await;
    let node = Node::new(&fake, None);
    let twin = node.twin(&fake);
    node.tokens
        .store(&node.installed("T1", "xoxb-0", Some(12 * HOUR)))
        .await
        .unwrap();
    node.clock.advance(10 * HOUR);
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(fake.seen().len(), 0);
    node.clock.advance(HOUR);
    let all = tokio::join!(
        node.token("T1"),
        twin.token("T1"),
        node.token("T1"),
        twin.token("T1")
    );
    for found in [all.0, all.1, all.2, all.3] {
        assert!(
            matches!(found.as_deref(), Some("xoxb-0" | "xoxb-1")),
            "{found:?}"
        );
    }
    assert_eq!(fake.seen().len(), 1, "one refresh");
    node.clock.advance(Duration::from_secs(3));
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
    assert_eq!(twin.token("T1").await.as_deref(), Some("xoxb-1"));
    node.clock.advance(12 * HOUR);
    assert_eq!(
        twin.token("T1").await.as_deref(),
        Some("xoxb-2"),
        "even if it is over"
    );
    assert!(twin.tokens.trouble().is_empty());
}

#[tokio::test]
async fn who_has_no_good_token_waits_for_the_node_that_renews_it() {
    let fake = renewing().await;
    let node = Node::new(&fake, None);
    let twin = node.twin(&fake);
    node.tokens
        .store(&node.installed("T1", "xoxb-0", Some(12 * HOUR)))
        .await
        .unwrap();
    node.clock.advance(13 * HOUR);
    let (one, two) = tokio::join!(node.token("T1"), twin.token("T1"));
    assert_eq!(
        (one.as_deref(), two.as_deref()),
        (Some("xoxb-1"), Some("xoxb-1"))
    );
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn the_old_token_serves_while_slack_does_not_renew_it() {
    let fake = FakeSlack::start(|_| Reply::said("invalid_refresh_token")).await;
    let node = Node::new(&fake, None);
    node.tokens
        .store(&node.installed("T1", "xoxb-0", Some(12 * HOUR)))
        .await
        .unwrap();
    node.clock.advance(11 * HOUR + HOUR / 2);
    for _ in 0..3 {
        assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    }
    assert_eq!(fake.seen().len(), 1, "it is not asked for all the time");
    assert!(node.tokens.trouble()[0].contains("install the app there again"));
    node.clock.advance(Duration::from_secs(30));
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(fake.seen().len(), 2);
    node.clock.advance(HOUR);
    let over = node
        .tokens
        .installation(&team("T1"), None)
        .await
        .unwrap_err();
    assert!(matches!(over, TokensError::Over { .. }) && over.may_pass());
    node.tokens
        .store(&node.installed("T1", "xoxb-new", None))
        .await
        .unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-new"));
    assert!(node.tokens.trouble().is_empty());
}

#[tokio::test]
async fn a_renewal_that_nobody_waits_for_is_finished() {
    let fake = renewing().await;
    let node = Node::new(&fake, None);
    let installed = node.installed("T1", "xoxb-0", Some(HOUR));
    node.tokens.store(&installed).await.unwrap();
    let mut changes = node.records.changes.subscribe();
    let before = *changes.borrow_and_update();
    tokio::select! {
        biased;
        () = fake.until(1) => {}
        found = node.token("T1") => panic!("{found:?} came too early"),
    }
    // The claim, the token, and the claim's end.
    changes.wait_for(|now| *now == before + 3).await.unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
    assert_eq!(fake.seen().len(), 1);
}

#[tokio::test]
async fn a_node_that_died_while_it_renewed_holds_nobody_up_for_long() {
    let fake = renewing().await;
    let node = Node::new(&fake, None);
    let installed = node.installed("T1", "xoxb-0", Some(HOUR));
    node.tokens.store(&installed).await.unwrap();
    let now = node.clock.now();
    let until = Some(now.after(Duration::from_secs(60)));
    let claimed = node
        .records
        .put_record("slack.rotate", "T1", "", Some(0), until, now);
    assert!(claimed.await.unwrap());
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(fake.seen().len(), 0);
    node.clock.advance(Duration::from_secs(60));
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
}

#[tokio::test]
async fn a_new_token_is_not_lost_because_the_store_fails_once() {
    let records: Arc<MemoryRecords> = Arc::default();
    let failing = records.clone();
    let fake = FakeSlack::start(move |_| {
        failing.failing.store(1, Ordering::SeqCst);
        Reply::Json(json!({
            "ok": true, "access_token": "xoxb-1", "refresh_token": "xoxe-2", "expires_in": 43200,
        }))
    })
    .await;
    let node = Node::beside(&fake, None, records, HandClock::at(1_000_000), 1);
    let installed = node.installed("T1", "xoxb-0", Some(HOUR));
    node.tokens.store(&installed).await.unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
    assert_eq!(fake.seen().len(), 1);
    assert!(node.tokens.trouble().is_empty());
}

#[tokio::test]
async fn a_workspace_that_removes_the_app_meanwhile_is_not_brought_back() {
    let records: Arc<MemoryRecords> = Arc::default();
    let held = records.clone();
    let fake = FakeSlack::start(move |_| {
        held.forget(KIND, "T1");
        Reply::Json(json!({"ok": true, "access_token": "xoxb-1", "expires_in": 43200}))
    })
    .await;
    let node = Node::beside(&fake, None, records, HandClock::at(1_000_000), 1);
    node.tokens
        .store(&node.installed("T1", "xoxb-0", Some(HOUR)))
        .await
        .unwrap();
    assert_eq!(node.token("T1").await, None);
    assert_eq!(node.records.raw(KIND, "T1"), None);
}

#[tokio::test]
async fn a_token_of_another_workspace_is_not_taken() {
    let fake = FakeSlack::start(|_| {
        Reply::Json(json!({
            "ok": true, "access_token": "xoxb-1", "expires_in": 43200, "team": {"id": "T2"},
        }))
    })
    .await;
    let node = Node::new(&fake, None);
    node.tokens
        .store(&node.installed("T1", "xoxb-0", Some(HOUR)))
        .await
        .unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(node.tokens.trouble().len(), 1);
}

#[tokio::test]
async fn without_a_vault_nothing_is_stored() {
    let fake = silent().await;
    let slack = Slack::new(&fake.api(), &Trust::system()).unwrap();
    let options = TokensOptions {
        file: None,
        installs: None,
        clock: HandClock::at(0),
    };
    let tokens = Tokens::new(slack, options);
    let node = Node::new(&fake, None);
    let stored = tokens.store(&node.installed("T1", "x", None)).await;
    assert!(matches!(stored, Err(TokensError::NoVault)));
    assert!(
        tokens
            .installation(&team("T1"), None)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(tokens.check().await.unwrap(), 0);
}

#[test]
fn an_installation_shows_no_token() {
    let at = Installation::unknown(BotToken::new("xoxb-secret").unwrap());
    assert!(!format!("{at:?}").contains("secret"));
}
