//! Tests of tokens on two nodes, with a fake Slack and an in-memory store.

use super::{
    Installation, InstalledTokenOptions, SlackTokenError, SlackTokenOptions, SlackTokens,
    WorkspaceToken,
};
use crate::slack::api::Slack;
use crate::slack::api::oauth::OauthApp;
use crate::slack::fake::{FakeReply, FakeSlack, ManualSlackClock, MemoryRecords};
use crate::slack::ids::TeamId;
use crate::slack::tokens::BotToken;
use interzone_edge::Secret;
use interzone_edge::tls::TrustRoots;
use interzone_edge::vault::{Vault, VaultError};
use interzone_hub::Clock;
use interzone_hub::ports::RecordStore;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const KIND: &str = super::store::TOKEN_RECORD_KIND;

fn team(id: &str) -> TeamId {
    TeamId::new(id).unwrap()
}

struct TokenTestNode {
    tokens: SlackTokens,
    clock: Arc<ManualSlackClock>,
    records: Arc<MemoryRecords>,
}

impl TokenTestNode {
    fn new(fake: &FakeSlack, file: Option<&str>) -> Self {
        Self::with_records(
            fake,
            file,
            Arc::default(),
            ManualSlackClock::from_secs(1_000_000),
            1,
        )
    }

    fn with_records(
        fake: &FakeSlack,
        file: Option<&str>,
        records: Arc<MemoryRecords>,
        clock: Arc<ManualSlackClock>,
        key: u8,
    ) -> Self {
        let slack = Slack::new(&fake.api(), &TrustRoots::system()).unwrap();
        let key = format!("{key:02x}").repeat(32);
        let app = OauthApp {
            client_id: "1.2".to_owned(),
            client_secret: Secret::new("s"),
        };
        let installs = InstalledTokenOptions {
            records: records.clone(),
            vault: Vault::new(&Secret::new(key)).unwrap(),
            app: Some(app),
        };
        let options = SlackTokenOptions {
            file: file.map(|token| BotToken::new(token).unwrap()),
            installs: Some(installs),
            clock: clock.clone(),
        };
        Self {
            tokens: SlackTokens::new(slack, options),
            clock,
            records,
        }
    }

    /// Another node with the same store and clock.
    fn twin(&self, fake: &FakeSlack) -> Self {
        Self::with_records(fake, None, self.records.clone(), self.clock.clone(), 1)
    }

    async fn token(&self, id: &str) -> Option<String> {
        let found = self.tokens.installation(&team(id), None).await.unwrap();
        found.map(|found| found.token.expose().to_owned())
    }

    fn workspace_token(&self, id: &str, token: &str, lifetime: Option<Duration>) -> WorkspaceToken {
        let now = self.clock.now();
        WorkspaceToken {
            team: team(id),
            token: BotToken::new(token).unwrap(),
            refresh_token: lifetime.map(|_| Secret::new("xoxe-1")),
            expires_at: lifetime.map(|lasts| now.plus(lasts)),
            bot_user: None,
            bot_id: None,
            app_id: None,
            issued_at: now,
        }
    }
}

async fn failing_slack() -> FakeSlack {
    FakeSlack::start(|_| FakeReply::error("internal_error")).await
}

#[tokio::test]
async fn identified_file_token_is_used_for_its_workspace() {
    let fake = FakeSlack::start(|_| {
        FakeReply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B0"}))
    })
    .await;
    let node = TokenTestNode::new(&fake, Some("xoxb-file"));
    assert!(node.tokens.cached(&team("T1"), None).is_none());
    let found = node
        .tokens
        .installation(&team("T1"), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.bot_user.as_ref().unwrap().as_str(), "U0");
    assert_eq!(found.bot_id.as_ref().unwrap().as_str(), "B0");
    assert_eq!(node.token("T2").await, None, "another workspace");
    assert!(node.tokens.cached(&team("T1"), None).is_some());
    assert_eq!(fake.count("auth.test"), 1, "auth.test is called once");
    assert_eq!(node.records.value(KIND, "T1"), None, "not stored");
    assert!(node.tokens.warnings().is_empty());
}

#[tokio::test]
async fn unidentified_file_token_is_used_for_any_workspace() {
    let reject = Arc::new(AtomicBool::new(true));
    let handler_reject = reject.clone();
    let fake = FakeSlack::start(move |_| {
        if handler_reject.load(Ordering::SeqCst) {
            return FakeReply::error("invalid_auth");
        }
        FakeReply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0"}))
    })
    .await;
    let node = TokenTestNode::new(&fake, Some("xoxb-file"));
    node.tokens
        .store(&node.workspace_token("T2", "xoxb-two", None))
        .await
        .unwrap();
    assert_eq!(node.token("T9").await.as_deref(), Some("xoxb-file"));
    assert_eq!(node.token("T2").await.as_deref(), Some("xoxb-two"));
    assert_eq!(
        fake.count("auth.test"),
        1,
        "auth.test is not retried at once"
    );
    let warnings = node.tokens.warnings();
    assert!(warnings[0].contains("`invalid_auth`"), "{warnings:?}");
    reject.store(false, Ordering::SeqCst);
    node.clock.advance(Duration::from_secs(30));
    assert_eq!(node.token("T9").await, None);
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-file"));
    assert!(node.tokens.warnings().is_empty());
    assert!(node.tokens.remove(&team("T1"), None).await.unwrap());
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-file"));
    assert_eq!(fake.count("auth.test"), 3, "identified again after removal");
}

#[tokio::test]
async fn concurrent_lookups_share_one_auth_test() {
    let fake = FakeSlack::start(|_| {
        FakeReply::Json(json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B0"}))
    })
    .await;
    let node = TokenTestNode::new(&fake, Some("xoxb-file"));
    node.records.reads_blocked.send_replace(true);
    // The first lookup calls auth.test. The second sees that and is blocked in the store until the first has its
    // response.
    let first = async {
        let found = node.token("T1").await;
        node.records.reads_blocked.send_replace(false);
        found
    };
    let (first, second) = tokio::join!(first, node.token("T1"));
    assert_eq!(first.as_deref(), Some("xoxb-file"));
    assert_eq!(second.as_deref(), Some("xoxb-file"), "both lookups succeed");
    assert_eq!(fake.count("auth.test"), 1);
    assert_eq!(node.token("T2").await, None, "another workspace has none");
}

#[tokio::test]
async fn org_wide_token_is_used_for_its_workspaces() {
    let fake = FakeSlack::start(|_| {
        FakeReply::Json(json!({
            "ok": true, "team_id": "T1", "user_id": "U0", "enterprise_id": "E1", "is_enterprise_install": true,
        }))
    })
    .await;
    let node = TokenTestNode::new(&fake, Some("xoxb-file"));
    let (two, one, other) = (team("T2"), team("E1"), team("E2"));
    let lookup = |enterprise| node.tokens.installation(&two, enterprise);
    assert!(lookup(Some(&one)).await.unwrap().is_some());
    assert!(lookup(Some(&other)).await.unwrap().is_none());
    assert!(lookup(None).await.unwrap().is_none());
    node.tokens
        .store(&node.workspace_token("E2", "xoxb-org", None))
        .await
        .unwrap();
    node.clock.advance(Duration::from_secs(3));
    let stored = lookup(Some(&other)).await.unwrap().unwrap();
    assert_eq!(stored.token.expose(), "xoxb-org");
}

#[tokio::test]
async fn stored_token_is_encrypted_and_seen_by_other_nodes() {
    let fake = failing_slack().await;
    let node = TokenTestNode::new(&fake, None);
    let twin = node.twin(&fake);
    assert_eq!(twin.token("T1").await, None);
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-one", None))
        .await
        .unwrap();
    let value = node.records.value(KIND, "T1").unwrap();
    assert!(
        !value.contains("xoxb") && value.starts_with("v1."),
        "{value}"
    );
    assert_eq!(
        node.token("T1").await.as_deref(),
        Some("xoxb-one"),
        "at once on this node"
    );
    node.clock.advance(Duration::from_secs(3));
    assert_eq!(twin.token("T1").await.as_deref(), Some("xoxb-one"));
    assert!(node.tokens.remove(&team("T1"), None).await.unwrap());
    assert_eq!(node.token("T1").await, None);
    node.clock.advance(Duration::from_secs(3));
    assert_eq!(twin.token("T1").await, None);
    assert!(!node.tokens.remove(&team("T1"), None).await.unwrap());
}

#[tokio::test]
async fn late_revocation_keeps_newer_token() {
    let fake = failing_slack().await;
    let node = TokenTestNode::new(&fake, None);
    let revoked_at = node.clock.now();
    node.clock.advance(Duration::from_secs(5));
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-new", None))
        .await
        .unwrap();
    assert!(
        !node
            .tokens
            .remove(&team("T1"), Some(revoked_at))
            .await
            .unwrap()
    );
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-new"));
    let later = Some(node.clock.now());
    assert!(node.tokens.remove(&team("T1"), later).await.unwrap());
}

#[tokio::test]
async fn wrong_vault_key_is_reported() {
    let fake = failing_slack().await;
    let node = TokenTestNode::new(&fake, None);
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-one", None))
        .await
        .unwrap();
    assert_eq!(node.tokens.check_stored_tokens().await.unwrap(), 1);
    let other =
        TokenTestNode::with_records(&fake, None, node.records.clone(), node.clock.clone(), 2);
    for error in [
        other.tokens.check_stored_tokens().await.unwrap_err(),
        other
            .tokens
            .installation(&team("T1"), None)
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                SlackTokenError::Vault(VaultError::CannotDecrypt { .. })
            ),
            "{error:?}"
        );
        assert!(error.to_string().contains("key file") && !error.is_retryable());
    }
    assert_eq!(other.tokens.warnings().len(), 1);
}

/// A fake Slack that renews tokens: `xoxe-N` is valid once and returns `xoxb-N` and `xoxe-N+1`.
async fn renewing_slack() -> FakeSlack {
    let next = AtomicUsize::new(1);
    FakeSlack::start(move |request| {
        let number = next.load(Ordering::SeqCst);
        if request.form().get("refresh_token") != Some(&format!("xoxe-{number}")) {
            return FakeReply::error("invalid_refresh_token");
        }
        next.store(number + 1, Ordering::SeqCst);
        FakeReply::Json(json!({
            "ok": true, "access_token": format!("xoxb-{number}"), "expires_in": 43200,
            "refresh_token": format!("xoxe-{}", number + 1), "team": {"id": "T1", "name": "Us"},
        }))
    })
    .await
}

#[tokio::test]
async fn token_is_renewed_before_expiry_by_one_node() {
    let fake = renewing_slack().await;
    let node = TokenTestNode::new(&fake, None);
    let twin = node.twin(&fake);
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-0", Some(12 * HOUR)))
        .await
        .unwrap();
    node.clock.advance(10 * HOUR);
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(fake.requests().len(), 0);
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
    assert_eq!(fake.requests().len(), 1, "one refresh");
    node.clock.advance(Duration::from_secs(3));
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
    assert_eq!(twin.token("T1").await.as_deref(), Some("xoxb-1"));
    node.clock.advance(12 * HOUR);
    assert_eq!(
        twin.token("T1").await.as_deref(),
        Some("xoxb-2"),
        "even if it has expired"
    );
    assert!(twin.tokens.warnings().is_empty());
}

#[tokio::test]
async fn expired_token_lookup_waits_for_renewing_node() {
    let fake = renewing_slack().await;
    let node = TokenTestNode::new(&fake, None);
    let twin = node.twin(&fake);
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-0", Some(12 * HOUR)))
        .await
        .unwrap();
    node.clock.advance(13 * HOUR);
    let (one, two) = tokio::join!(node.token("T1"), twin.token("T1"));
    assert_eq!(
        (one.as_deref(), two.as_deref()),
        (Some("xoxb-1"), Some("xoxb-1"))
    );
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn old_token_is_used_while_renewal_fails() {
    let fake = FakeSlack::start(|_| FakeReply::error("invalid_refresh_token")).await;
    let node = TokenTestNode::new(&fake, None);
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-0", Some(12 * HOUR)))
        .await
        .unwrap();
    node.clock.advance(11 * HOUR + HOUR / 2);
    for _ in 0..3 {
        assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    }
    assert_eq!(fake.requests().len(), 1, "renewal is backed off");
    assert!(node.tokens.warnings()[0].contains("install the app there again"));
    node.clock.advance(Duration::from_secs(30));
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(fake.requests().len(), 2);
    node.clock.advance(HOUR);
    let error = node
        .tokens
        .installation(&team("T1"), None)
        .await
        .unwrap_err();
    assert!(matches!(error, SlackTokenError::Expired { .. }) && error.is_retryable());
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-new", None))
        .await
        .unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-new"));
    assert!(node.tokens.warnings().is_empty());
}

#[tokio::test]
async fn renewal_completes_after_caller_is_dropped() {
    let fake = renewing_slack().await;
    let node = TokenTestNode::new(&fake, None);
    let installed = node.workspace_token("T1", "xoxb-0", Some(HOUR));
    node.tokens.store(&installed).await.unwrap();
    let mut changes = node.records.change_count.subscribe();
    let before = *changes.borrow_and_update();
    tokio::select! {
        biased;
        () = fake.wait_for_requests(1) => {}
        found = node.token("T1") => panic!("{found:?} returned too early"),
    }
    // Claim, token, and release of the claim.
    changes.wait_for(|now| *now == before + 3).await.unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test]
async fn claim_of_crashed_node_expires() {
    let fake = renewing_slack().await;
    let node = TokenTestNode::new(&fake, None);
    let installed = node.workspace_token("T1", "xoxb-0", Some(HOUR));
    node.tokens.store(&installed).await.unwrap();
    let now = node.clock.now();
    let expires_at = Some(now.plus(Duration::from_secs(60)));
    let claimed = node
        .records
        .put_record("slack.rotate", "T1", "", Some(0), expires_at, now);
    assert!(claimed.await.unwrap());
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(fake.requests().len(), 0);
    node.clock.advance(Duration::from_secs(60));
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
}

#[tokio::test]
async fn renewed_token_survives_one_failed_write() {
    let records: Arc<MemoryRecords> = Arc::default();
    let handler_records = records.clone();
    let fake = FakeSlack::start(move |_| {
        handler_records.failing_writes.store(1, Ordering::SeqCst);
        FakeReply::Json(json!({
            "ok": true, "access_token": "xoxb-1", "refresh_token": "xoxe-2", "expires_in": 43200,
        }))
    })
    .await;
    let node = TokenTestNode::with_records(
        &fake,
        None,
        records,
        ManualSlackClock::from_secs(1_000_000),
        1,
    );
    let installed = node.workspace_token("T1", "xoxb-0", Some(HOUR));
    node.tokens.store(&installed).await.unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-1"));
    assert_eq!(fake.requests().len(), 1);
    assert!(node.tokens.warnings().is_empty());
}

#[tokio::test]
async fn token_removed_during_renewal_stays_removed() {
    let records: Arc<MemoryRecords> = Arc::default();
    let handler_records = records.clone();
    let fake = FakeSlack::start(move |_| {
        handler_records.remove(KIND, "T1");
        FakeReply::Json(json!({"ok": true, "access_token": "xoxb-1", "expires_in": 43200}))
    })
    .await;
    let node = TokenTestNode::with_records(
        &fake,
        None,
        records,
        ManualSlackClock::from_secs(1_000_000),
        1,
    );
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-0", Some(HOUR)))
        .await
        .unwrap();
    assert_eq!(node.token("T1").await, None);
    assert_eq!(node.records.value(KIND, "T1"), None);
}

#[tokio::test]
async fn renewal_for_other_workspace_is_rejected() {
    let fake = FakeSlack::start(|_| {
        FakeReply::Json(json!({
            "ok": true, "access_token": "xoxb-1", "expires_in": 43200, "team": {"id": "T2"},
        }))
    })
    .await;
    let node = TokenTestNode::new(&fake, None);
    node.tokens
        .store(&node.workspace_token("T1", "xoxb-0", Some(HOUR)))
        .await
        .unwrap();
    assert_eq!(node.token("T1").await.as_deref(), Some("xoxb-0"));
    assert_eq!(node.tokens.warnings().len(), 1);
}

#[tokio::test]
async fn store_without_vault_fails() {
    let fake = failing_slack().await;
    let slack = Slack::new(&fake.api(), &TrustRoots::system()).unwrap();
    let options = SlackTokenOptions {
        file: None,
        installs: None,
        clock: ManualSlackClock::from_secs(0),
    };
    let tokens = SlackTokens::new(slack, options);
    let node = TokenTestNode::new(&fake, None);
    let stored = tokens.store(&node.workspace_token("T1", "x", None)).await;
    assert!(matches!(stored, Err(SlackTokenError::NoVault)));
    assert!(
        tokens
            .installation(&team("T1"), None)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(tokens.check_stored_tokens().await.unwrap(), 0);
}

#[test]
fn installation_debug_redacts_token() {
    let installation = Installation::from_token(BotToken::new("xoxb-secret").unwrap());
    assert!(!format!("{installation:?}").contains("secret"));
}
