//! Signing keys: creation, rotation and publication.

use super::{AUDIENCE, GrantType, IssuerFixture, NOW, URL, authenticate, authenticator, open_node};
use crate::{Issuer, IssuerError, IssuerOptions, ScopeDefinition};
use async_trait::async_trait;
use interzone_edge::auth::{AuthFailure, reason};
use interzone_edge::clock::Clock;
use interzone_hub::ports::{MemoryRecordStore, RecordStore, StoreError, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY: Duration = Duration::from_secs(24 * 3600);
const CLIENT_CREDENTIALS: &[GrantType] = &[GrantType::ClientCredentials];

impl IssuerFixture {
    async fn published_kids(&self) -> Vec<String> {
        let keys = self.get("/oauth2/jwks").await.json();
        let keys = keys["keys"].as_array().unwrap();
        keys.iter()
            .map(|key| key["kid"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn kid_of(token: &str) -> String {
    jsonwebtoken::decode_header(token).unwrap().kid.unwrap()
}

#[tokio::test]
async fn key_is_published_ahead_and_until_its_tokens_expire() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let [first] = &fixture.published_kids().await[..] else {
        panic!("one key")
    };
    assert_eq!(&kid_of(&fixture.client_token(&client).await), first);
    // An hour before it signs the next key is published, and the first one still signs.
    fixture.clock.advance(30 * DAY - Duration::from_secs(3601));
    fixture.issuer.reload().await.unwrap();
    assert_eq!(fixture.published_kids().await.len(), 1);
    fixture.clock.advance(Duration::from_secs(1));
    fixture.issuer.reload().await.unwrap();
    let kids = fixture.published_kids().await;
    assert_eq!(kids.len(), 2);
    fixture.clock.advance(Duration::from_secs(3599));
    let last = fixture.client_token(&client).await;
    assert_eq!(&kid_of(&last), first);
    // Now the second key signs.
    fixture.clock.advance(Duration::from_secs(1));
    fixture.issuer.reload().await.unwrap();
    assert_eq!(kid_of(&fixture.client_token(&client).await), kids[1]);
    assert!(authenticate(&fixture.authenticator(), &last).await.is_ok());
    // The last token of the first key has expired, plus the leeway.
    fixture.clock.advance(Duration::from_secs(900 + 299));
    fixture.issuer.reload().await.unwrap();
    assert_eq!(fixture.published_kids().await.len(), 2);
    fixture.clock.advance(Duration::from_secs(1));
    fixture.issuer.reload().await.unwrap();
    assert_eq!(fixture.published_kids().await, kids[1..]);
}

#[tokio::test]
async fn overdue_rotation_creates_a_new_key() {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let old = fixture.published_kids().await;
    fixture.clock.advance(400 * DAY);
    fixture.issuer.reload().await.unwrap();
    let new = fixture.published_kids().await;
    assert!(new.len() == 1 && new != old);
    let token = fixture.client_token(&client).await;
    assert!(authenticate(&fixture.authenticator(), &token).await.is_ok());
}

/// Makes every node see an empty store before any of them writes.
struct BarrierStore {
    inner: MemoryRecordStore,
    barrier: tokio::sync::Barrier,
}

#[async_trait]
impl RecordStore for BarrierStore {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let found = self.inner.record(kind, key, now).await?;
        if found.is_none() {
            self.barrier.wait().await;
        }
        Ok(found)
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        self.inner.records(kind, now).await
    }

    async fn put_record(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let store = &self.inner;
        store
            .put_record(kind, key, value, expected, expires_at, now)
            .await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.inner.take_record(kind, key, now).await
    }
}

#[tokio::test]
async fn nodes_starting_together_agree_on_one_key() {
    let clock = Clock::fixed(NOW);
    let store: Arc<dyn RecordStore> = Arc::new(BarrierStore {
        inner: MemoryRecordStore::default(),
        barrier: tokio::sync::Barrier::new(8),
    });
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, clock) = (Arc::clone(&store), clock.clone());
        nodes.spawn(async move { open_node(&store, &clock).await });
    }
    let nodes = nodes.join_all().await;
    let key_sets = nodes.iter().map(|node| node.0.keys.load().jwks.clone());
    assert_eq!(key_sets.collect::<HashSet<_>>().len(), 1);
}

#[tokio::test]
async fn revocations_and_keys_reach_other_nodes() {
    let fixture = IssuerFixture::new().await;
    let second = open_node(&fixture.store, &fixture.clock).await;
    let second_auth = authenticator(&second, &fixture.clock);
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let token = fixture.client_token(&client).await;
    assert!(authenticate(&second_auth, &token).await.is_ok());
    let form = [
        ("client_id", client.client_id.as_str()),
        ("client_secret", super::secret(&client)),
        ("token", &token),
    ];
    fixture.post("/oauth2/revoke", &form).await;
    second.reload().await.unwrap();
    assert_eq!(
        authenticate(&second_auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    // A key that the other node made is found by its id, without waiting for the next refresh.
    fixture.clock.advance(400 * DAY);
    fixture.issuer.reload().await.unwrap();
    let token = fixture.client_token(&client).await;
    assert!(authenticate(&second_auth, &token).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn reload_loop_runs_until_cancelled() {
    let fixture = IssuerFixture::new().await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(fixture.issuer.clone().run_reload_loop(stop.clone()));
    let client = fixture.add_client(CLIENT_CREDENTIALS, false).await;
    let token = fixture.client_token(&client).await;
    fixture.clients.remove(&client.client_id).await.unwrap();
    let auth = fixture.authenticator();
    assert!(authenticate(&auth, &token).await.is_ok());
    // Yield so that the loop starts its timer; advance the time; yield again so that it reloads.
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(4)).await;
    tokio::task::yield_now().await;
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn metadata_and_jwks_are_published() {
    let fixture = IssuerFixture::new().await;
    let reply = fixture.get("/.well-known/oauth-authorization-server").await;
    let metadata = reply.json();
    assert_eq!(metadata["issuer"], URL);
    assert_eq!(metadata["token_endpoint"], format!("{URL}/oauth2/token"));
    assert_eq!(
        metadata["code_challenge_methods_supported"],
        json!(["S256"])
    );
    assert_eq!(
        metadata["scopes_supported"],
        json!(["read", "write", "admin"])
    );
    let keys = fixture.get("/oauth2/jwks").await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    assert!(!keys.text.contains("\"d\"") && !keys.text.contains("pkcs8"));
    assert_eq!(
        fixture
            .get("/.well-known/openid-configuration")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn invalid_issuer_options_are_rejected() {
    let open = async |change: fn(&mut IssuerOptions)| {
        let store: Arc<dyn RecordStore> = Arc::new(MemoryRecordStore::default());
        let mut options = IssuerOptions::new(URL, vec![AUDIENCE.into()], vec![]);
        change(&mut options);
        Issuer::open(store, options)
            .await
            .map(|issuer| issuer.url().to_owned())
    };
    assert_eq!(open(|_| {}).await.unwrap(), URL);
    assert_eq!(
        open(|o| o.url = "https://a.example/".into()).await.unwrap(),
        "https://a.example"
    );
    assert!(open(|o| o.url = "http://localhost:1".into()).await.is_ok());
    for url in [
        "http://a.example",
        "https://a.example/path",
        "https://u@a.example",
        "x",
    ] {
        let store: Arc<dyn RecordStore> = Arc::new(MemoryRecordStore::default());
        let options = IssuerOptions::new(url, vec![AUDIENCE.into()], vec![]);
        assert!(
            matches!(Issuer::open(store, options).await, Err(IssuerError::Url)),
            "{url}"
        );
    }
    let invalid: [fn(&mut IssuerOptions); 5] = [
        |o| o.token_ttl = Duration::from_secs(59),
        |o| o.token_ttl = 2 * DAY,
        |o| o.key_rotation = Duration::from_secs(3600),
        |o| o.audience.clear(),
        |o| o.scopes = vec![ScopeDefinition::new("two words", "")],
    ];
    for change in invalid {
        assert!(open(change).await.is_err());
    }
}
