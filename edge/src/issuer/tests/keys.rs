//! Signing keys: the first one, the next one, and what is published of them.

use super::{AUDIENCE, Grant, House, NOW, URL, authenticator, node, show};
use crate::auth::{Refusal, reason};
use crate::clock::Clock;
use crate::issuer::{Issuer, IssuerError, IssuerOptions, Keep, KeepError, Kept, MemoryKeep, Scope};
use async_trait::async_trait;
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY: Duration = Duration::from_secs(24 * 3600);
const OWN: &[Grant] = &[Grant::ClientCredentials];

impl House {
    async fn published(&self) -> Vec<String> {
        let keys = self.get("/oauth2/jwks").await.json();
        let keys = keys["keys"].as_array().unwrap();
        keys.iter()
            .map(|key| key["kid"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn signed_by(token: &str) -> String {
    jsonwebtoken::decode_header(token).unwrap().kid.unwrap()
}

#[tokio::test]
async fn a_key_is_published_before_it_signs_and_until_its_tokens_have_ended() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let [first] = &house.published().await[..] else {
        panic!("one key")
    };
    assert_eq!(&signed_by(&house.own_token(&client).await), first);
    // An hour before its turn the next one is there, and the first still signs.
    house.clock.advance(30 * DAY - Duration::from_secs(3601));
    house.issuer.refresh().await.unwrap();
    assert_eq!(house.published().await.len(), 1);
    house.clock.advance(Duration::from_secs(1));
    house.issuer.refresh().await.unwrap();
    let both = house.published().await;
    assert_eq!(both.len(), 2);
    house.clock.advance(Duration::from_secs(3599));
    let last = house.own_token(&client).await;
    assert_eq!(&signed_by(&last), first);
    // Its turn.
    house.clock.advance(Duration::from_secs(1));
    house.issuer.refresh().await.unwrap();
    assert_eq!(signed_by(&house.own_token(&client).await), both[1]);
    assert!(show(&house.authenticator(), &last).await.is_ok());
    // The last token of the first key has ended, and a little more.
    house.clock.advance(Duration::from_secs(900 + 299));
    house.issuer.refresh().await.unwrap();
    assert_eq!(house.published().await.len(), 2);
    house.clock.advance(Duration::from_secs(1));
    house.issuer.refresh().await.unwrap();
    assert_eq!(house.published().await, both[1..]);
}

#[tokio::test]
async fn an_installation_that_slept_long_wakes_with_a_new_key() {
    let house = House::build().await;
    let client = house.client(OWN, false).await;
    let old = house.published().await;
    house.clock.advance(400 * DAY);
    house.issuer.refresh().await.unwrap();
    let new = house.published().await;
    assert!(new.len() == 1 && new != old);
    let token = house.own_token(&client).await;
    assert!(show(&house.authenticator(), &token).await.is_ok());
}

/// Lets every node see that there is nothing yet before any of them writes.
struct Together {
    inner: MemoryKeep,
    barrier: tokio::sync::Barrier,
}

#[async_trait]
impl Keep for Together {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        let found = self.inner.get(kind, key).await?;
        if found.is_none() {
            self.barrier.wait().await;
        }
        Ok(found)
    }
    async fn list(&self, kind: &str) -> Result<Vec<Kept>, KeepError> {
        self.inner.list(kind).await
    }
    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, KeepError> {
        self.inner.put(kind, key, value, expected, expires_at).await
    }
    async fn take(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        self.inner.take(kind, key).await
    }
}

#[tokio::test]
async fn nodes_that_start_together_have_one_key() {
    let clock = Clock::set(NOW);
    let keep: Arc<dyn Keep> = Arc::new(Together {
        inner: MemoryKeep::new(clock.clone()),
        barrier: tokio::sync::Barrier::new(8),
    });
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (keep, clock) = (Arc::clone(&keep), clock.clone());
        nodes.spawn(async move { node(&keep, &clock).await });
    }
    let nodes = nodes.join_all().await;
    let kept = nodes.iter().map(|node| node.0.ring.load().jwks.clone());
    assert_eq!(kept.collect::<HashSet<_>>().len(), 1);
}

#[tokio::test]
async fn what_one_node_does_the_others_learn() {
    let house = House::build().await;
    let second = node(&house.keep, &house.clock).await;
    let there = authenticator(&second, &house.clock);
    let client = house.client(OWN, false).await;
    let token = house.own_token(&client).await;
    assert!(show(&there, &token).await.is_ok());
    let form = [
        ("client_id", client.client_id.as_str()),
        ("client_secret", super::secret(&client)),
        ("token", &token),
    ];
    house.post("/oauth2/revoke", &form).await;
    second.refresh().await.unwrap();
    assert_eq!(
        show(&there, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    // A key that the other node made is found by its id, without waiting for the next refresh.
    house.clock.advance(400 * DAY);
    house.issuer.refresh().await.unwrap();
    let token = house.own_token(&client).await;
    assert!(show(&there, &token).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_stays_current_until_it_is_told_to_stop() {
    let house = House::build().await;
    let stop = CancellationToken::new();
    let running = tokio::spawn(house.issuer.clone().keep_current(stop.clone()));
    let client = house.client(OWN, false).await;
    let token = house.own_token(&client).await;
    house.clients.remove(&client.client_id).await.unwrap();
    let auth = house.authenticator();
    assert!(show(&auth, &token).await.is_ok());
    // Its turn to begin waiting; then the time; then its turn again, to read.
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_secs(4)).await;
    tokio::task::yield_now().await;
    assert_eq!(
        show(&auth, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn the_issuer_says_what_it_can_do() {
    let house = House::build().await;
    let reply = house.get("/.well-known/oauth-authorization-server").await;
    let told = reply.json();
    assert_eq!(told["issuer"], URL);
    assert_eq!(told["token_endpoint"], format!("{URL}/oauth2/token"));
    assert_eq!(told["code_challenge_methods_supported"], json!(["S256"]));
    assert_eq!(told["scopes_supported"], json!(["read", "write", "admin"]));
    let keys = house.get("/oauth2/jwks").await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    assert!(!keys.text.contains("\"d\"") && !keys.text.contains("pkcs8"));
    assert_eq!(
        house.get("/.well-known/openid-configuration").await.status,
        404
    );
}

#[tokio::test]
async fn an_issuer_that_could_not_be_trusted_does_not_open() {
    let open = async |change: fn(&mut IssuerOptions)| {
        let keep: Arc<dyn Keep> = Arc::new(MemoryKeep::default());
        let mut options = IssuerOptions::new(URL, vec![AUDIENCE.into()], vec![]);
        change(&mut options);
        Issuer::open(keep, options)
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
        let keep: Arc<dyn Keep> = Arc::new(MemoryKeep::default());
        let options = IssuerOptions::new(url, vec![AUDIENCE.into()], vec![]);
        assert!(
            matches!(Issuer::open(keep, options).await, Err(IssuerError::Url)),
            "{url}"
        );
    }
    let bad: [fn(&mut IssuerOptions); 5] = [
        |o| o.token_ttl = Duration::from_secs(59),
        |o| o.token_ttl = 2 * DAY,
        |o| o.key_rotation = Duration::from_secs(3600),
        |o| o.audience.clear(),
        |o| o.scopes = vec![Scope::new("two words", "")],
    ];
    for change in bad {
        assert!(open(change).await.is_err());
    }
}
