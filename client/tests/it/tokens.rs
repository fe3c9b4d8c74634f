//! Tokens: found, kept, renewed in time, shared by many callers, and never shown.

use crate::calls::{create, get};
use crate::script::{Script, Seen, Step, task_result};
use async_trait::async_trait;
use interzone_client::{
    BoxError, Client, ClientCredentials, Credentials, Error, Secret, Session, Token, TokenError,
    TokenSource,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::advance;

const TOKEN_URL: &str = "https://login.test/token";

/// A zone with an issuer that counts its tokens.
struct World {
    script: Script,
    issued: Arc<AtomicUsize>,
    down: Arc<AtomicBool>,
}

impl World {
    /// Tokens live so many seconds; `zone` decides about calls.
    fn new(lifetime: u64, zone: impl Fn(&Seen) -> Step + Send + Sync + 'static) -> Self {
        let issued = Arc::new(AtomicUsize::new(0));
        let down = Arc::new(AtomicBool::new(false));
        let (count, is_down) = (issued.clone(), down.clone());
        let script = Script::new(move |seen| match (seen.host.as_str(), seen.path.as_str()) {
            ("login.test", _) if is_down.load(Ordering::Relaxed) => {
                Step::Late(Duration::from_millis(20), Box::new(Step::status(400)))
            }
            ("login.test", "/token") => {
                let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                let token = json!({"access_token": format!("token-{number}"),
                    "token_type": "bearer", "expires_in": lifetime});
                Step::Late(Duration::from_millis(20), Box::new(Step::json(200, &token)))
            }
            _ => zone(seen),
        });
        Self {
            script,
            issued,
            down,
        }
    }

    fn client(&self) -> Client {
        self.client_with(ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL))
    }

    fn client_with(&self, credentials: impl Into<Credentials>) -> Client {
        self.script
            .builder()
            .credentials(credentials)
            .build()
            .unwrap()
    }

    fn issued(&self) -> usize {
        self.issued.load(Ordering::Relaxed)
    }

    /// The tokens that calls came with.
    fn used(&self) -> Vec<String> {
        let calls = self.script.seen_at("/jsonrpc");
        let token =
            |call: &Seen| call.header("authorization").unwrap()["Bearer ".len()..].to_owned();
        calls.iter().map(token).collect()
    }
}

fn good(seen: &Seen) -> Step {
    seen.result(task_result("t-1"))
}

#[tokio::test(start_paused = true)]
async fn each_call_asks_for_the_scopes_it_needs() {
    let world = World::new(3600, good);
    let client = world.client();
    for _ in 0..3 {
        client.tasks_get(&get("t-1")).await.unwrap();
        client.tasks_create(&create()).await.unwrap();
    }
    let asked = world.script.seen_at("/token");
    let scopes: Vec<_> = asked
        .iter()
        .map(|seen| seen.form("scope").unwrap())
        .collect();
    assert_eq!(
        scopes,
        [
            "acp:agent:identify acp:tasks:read",
            "acp:agent:identify acp:tasks:write"
        ]
    );
    assert_eq!(world.used()[..2], ["token-1", "token-2"]);
    assert_eq!(
        asked[0].form("grant_type").as_deref(),
        Some("client_credentials")
    );
    assert_eq!(
        asked[0].header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    // base64 of "me:s3cret"
    assert_eq!(asked[0].header("authorization"), Some("Basic bWU6czNjcmV0"));
    assert_eq!(asked[0].form("client_secret"), None, "once is enough");
    let fixed = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let client = world.client_with(
        fixed
            .scopes(["b", "a"])
            .audience("https://acp.test")
            .resource("r"),
    );
    client.tasks_get(&get("t-1")).await.unwrap();
    client.tasks_create(&create()).await.unwrap();
    let asked = world.script.seen_at("/token");
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[2].form("scope").as_deref(), Some("a b"));
    assert_eq!(
        asked[2].form("audience").as_deref(),
        Some("https://acp.test")
    );
    assert_eq!(asked[2].form("resource").as_deref(), Some("r"));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_callers_wait_for_one_token() {
    let world = World::new(3600, good);
    let client = world.client();
    let params = get("t-1");
    let calls = (0..100).map(|_| client.tasks_get(&params));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(world.issued(), 1);
    // All of them learn when there is none.
    world.down.store(true, Ordering::Relaxed);
    let client = world.client();
    let calls = (0..100).map(|_| client.tasks_get(&params));
    for outcome in futures_util::future::join_all(calls).await {
        assert!(matches!(outcome, Err(Error::Token(_))), "{outcome:?}");
    }
    assert_eq!(world.script.seen_at("/token").len(), 2);
    // And the next to come asks anew.
    world.down.store(false, Ordering::Relaxed);
    client.tasks_get(&params).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_does_not_take_the_token_with_it() {
    let world = World::new(3600, good);
    let client = world.client();
    let params = get("t-1");
    let hasty = tokio::time::timeout(Duration::from_millis(1), client.tasks_get(&params));
    let (hasty, patient) = tokio::join!(hasty, client.tasks_get(&params));
    assert!(hasty.is_err());
    patient.unwrap();
    assert_eq!(world.issued(), 1);
    let other = world.client();
    let hasty = tokio::time::timeout(Duration::from_millis(1), other.tasks_get(&params)).await;
    assert!(hasty.is_err());
    other.tasks_get(&params).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_before_they_expire() {
    // The lifetime, and when the token is due.
    for (lifetime, due) in [(3600, 3300), (600, 300), (599, 299), (60, 30)] {
        let world = World::new(lifetime, good);
        let client = world.client();
        client.tasks_get(&get("t-1")).await.unwrap();
        advance(Duration::from_secs(due - 1)).await;
        client.tasks_get(&get("t-1")).await.unwrap();
        assert_eq!(world.issued(), 1, "{lifetime}");
        advance(Duration::from_secs(2)).await;
        let params = get("t-1");
        let calls = (0..10).map(|_| client.tasks_get(&params));
        for outcome in futures_util::future::join_all(calls).await {
            outcome.unwrap();
        }
        assert_eq!(world.issued(), 2, "{lifetime}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_token_is_used_while_the_issuer_is_away() {
    let world = World::new(3600, good);
    let client = world.client();
    client.tasks_get(&get("t-1")).await.unwrap();
    world.down.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(3301)).await;
    for _ in 0..10 {
        client.tasks_get(&get("t-1")).await.unwrap();
    }
    assert_eq!(world.used()[10], "token-1");
    assert_eq!(
        world.script.seen_at("/token").len(),
        2,
        "it is not asked at every call"
    );
    advance(Duration::from_secs(11)).await;
    client.tasks_get(&get("t-1")).await.unwrap();
    assert_eq!(
        world.script.seen_at("/token").len(),
        3,
        "but again after a while"
    );
    advance(Duration::from_secs(300)).await;
    let error = client.tasks_get(&get("t-1")).await.unwrap_err();
    assert!(
        matches!(error, Error::Token(_)),
        "it is over now: {error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_renewed_once() {
    // Some refusals come when the new token is long there, and must not cost that one its life.
    let refuse_first = |status: u16, code: i64| {
        let calls = AtomicUsize::new(0);
        move |seen: &Seen| match seen.header("authorization") {
            Some("Bearer token-1") => {
                let late = u32::try_from(calls.fetch_add(1, Ordering::Relaxed)).unwrap();
                let refused = seen.error(status, code, json!({}));
                Step::Late(Duration::from_millis(10) * late, Box::new(refused))
            }
            _ => seen.result(task_result("t-1")),
        }
    };
    for (status, code) in [(401, -40009), (401, -40007), (200, -40009)] {
        let world = World::new(3600, refuse_first(status, code));
        let client = world.client();
        let params = create();
        let calls = (0..100).map(|_| client.tasks_create(&params));
        for outcome in futures_util::future::join_all(calls).await {
            outcome.unwrap();
        }
        assert_eq!(world.issued(), 2, "one new token for all of them");
    }
    let world = World::new(3600, |seen| seen.error(401, -40007, json!({})));
    let error = world.client().tasks_get(&get("t-1")).await.unwrap_err();
    assert_eq!(error.code().unwrap().get(), -40007);
    assert_eq!(world.used(), ["token-1", "token-2"], "and then it is said");
    let bearer = World::new(3600, |seen| seen.error(401, -40009, json!({})));
    let client = bearer.client_with(Credentials::Bearer(Secret::new("mine")));
    client.tasks_get(&get("t-1")).await.unwrap_err();
    assert_eq!(bearer.used(), ["mine"], "there is no other");
}

#[tokio::test(start_paused = true)]
async fn the_issuer_is_found_by_metadata() {
    let world = World::new(3600, |seen| {
        match (seen.host.as_str(), seen.path.as_str()) {
            ("agent.test", "/.well-known/oauth-protected-resource") => Step::json(
                200,
                &json!({"authorization_servers": ["https://issuer.test/a"]}),
            ),
            ("issuer.test", "/.well-known/oauth-authorization-server/a") => Step::json(
                200,
                &json!({"issuer": "https://issuer.test/a", "token_endpoint": TOKEN_URL,
                "token_endpoint_auth_methods_supported": ["client_secret_post"]}),
            ),
            _ => seen.result(task_result("t-1")),
        }
    });
    let client = world.client_with(ClientCredentials::new("me", "s3cret"));
    client.tasks_get(&get("t-1")).await.unwrap();
    client.tasks_create(&create()).await.unwrap();
    let asked = world.script.seen_at("/token");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].form("client_secret").as_deref(), Some("s3cret"));
    assert_eq!(asked[0].header("authorization"), None);
    let metadata = world
        .script
        .seen_at("/.well-known/oauth-protected-resource");
    assert_eq!(metadata.len(), 1, "asked once");
}

#[tokio::test(start_paused = true)]
async fn the_issuer_is_found_by_a_refusal() {
    let world = World::new(3600, |seen| {
        if seen.verb == "GET" {
            Step::status(404)
        } else if seen.headers.contains_key("authorization") {
            seen.result(task_result("t-1"))
        } else {
            seen.error(
                401,
                -40007,
                json!({"error": "invalid_token", "tokenUrl": TOKEN_URL}),
            )
        }
    });
    let client = world.client_with(ClientCredentials::new("me", "s3cret"));
    client.tasks_get(&get("t-1")).await.unwrap();
    assert_eq!(world.issued(), 1);
}

#[tokio::test(start_paused = true)]
async fn issuers_that_cannot_be_trusted_get_no_secret() {
    let metadata = |issuer: &'static str, named: &'static str, token: &'static str| {
        World::new(3600, move |seen| match seen.path.as_str() {
            "/.well-known/oauth-protected-resource" => {
                Step::json(200, &json!({"authorization_servers": [issuer]}))
            }
            "/.well-known/oauth-authorization-server" => {
                Step::json(200, &json!({"issuer": named, "token_endpoint": token}))
            }
            _ => Step::status(404),
        })
    };
    let cases = [
        ("http://issuer.test", "http://issuer.test", TOKEN_URL),
        (
            "https://issuer.test",
            "https://issuer.test",
            "http://login.test/token",
        ),
        ("https://issuer.test", "https://other.test", TOKEN_URL),
        ("ftp://issuer.test", "ftp://issuer.test", TOKEN_URL),
    ];
    for (issuer, named, token) in cases {
        let world = metadata(issuer, named, token);
        let client = world.client_with(ClientCredentials::new("me", "s3cret"));
        let error = client.tasks_get(&get("t-1")).await.unwrap_err();
        assert!(
            matches!(error, Error::Token(_)),
            "{issuer} {named} {token}: {error:?}"
        );
        assert!(
            world.script.seen_at("/token").is_empty(),
            "{issuer} {named} {token}"
        );
    }
    let loopback = metadata("http://127.0.0.1:1", "http://127.0.0.1:1", TOKEN_URL);
    let client = loopback.client_with(ClientCredentials::new("me", "s3cret"));
    assert!(
        client.token(&["a"]).await.is_ok(),
        "this machine may be asked in the clear"
    );
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_the_issuer_wants_in_the_body_goes_there() {
    let script = Script::new(|seen| match seen.form("client_secret").as_deref() {
        Some("s3cret") => Step::json(200, &json!({"access_token": "t", "expires_in": "60"})),
        _ => Step::json(401, &json!({"error": "invalid_client"})),
    });
    let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let client = script.builder().credentials(credentials).build().unwrap();
    assert_eq!(client.token(&["a"]).await.unwrap().expose(), "t");
    assert_eq!(client.token(&["b"]).await.unwrap().expose(), "t");
    assert_eq!(script.seen().len(), 3, "and is remembered");
}

#[tokio::test(start_paused = true)]
async fn token_requests_are_tried_again() {
    let token = json!({"access_token": "t", "token_type": "Bearer"});
    let steps = vec![
        Step::NotConnected,
        Step::Broken,
        Step::status(503),
        Step::json(200, &token),
    ];
    let script = Script::steps(steps);
    let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let client = script.builder().credentials(credentials).build().unwrap();
    assert_eq!(client.token(&["a"]).await.unwrap().expose(), "t");
    let bad = [
        Step::json(200, &json!({"access_token": "t", "token_type": "mac"})),
        Step::json(200, &json!({"access_token": "a\nb"})),
        Step::json(200, &json!({"token": "t"})),
        Step::json(
            400,
            &json!({"error": "invalid_scope", "error_description": "no\u{1b}[31m"}),
        ),
    ];
    for step in bad {
        let script = Script::steps(vec![step]);
        let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
        let client = script.builder().credentials(credentials).build().unwrap();
        let error = client.token(&["a"]).await.unwrap_err();
        assert!(!error.is_retryable(), "{error:?}");
        assert_eq!(script.seen().len(), 1, "{error:?}");
        assert!(!format!("{error:?}").contains('\u{1b}'));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_refreshes_and_keeps_what_it_gets() {
    let script = Script::new(|seen| match seen.path.as_str() {
        "/token" => match seen.form("refresh_token").as_deref() {
            Some("r-1") => Step::json(
                200,
                &json!({"access_token": "a-1", "expires_in": 3600, "refresh_token": "r-2"}),
            ),
            Some("r-2") => Step::json(200, &json!({"access_token": "a-2", "expires_in": 3600})),
            _ => Step::json(400, &json!({"error": "invalid_grant"})),
        },
        _ => seen.result(task_result("t-1")),
    });
    let session = Session::resume("cli", TOKEN_URL, "r-1");
    let client = script
        .builder()
        .credentials(session.clone())
        .build()
        .unwrap();
    client.tasks_get(&get("t-1")).await.unwrap();
    client.tasks_create(&create()).await.unwrap();
    assert_eq!(
        script.seen_at("/token").len(),
        1,
        "one token, whatever the call"
    );
    assert_eq!(session.refresh_token().unwrap().expose(), "r-2");
    advance(Duration::from_secs(3301)).await;
    client.tasks_get(&get("t-1")).await.unwrap();
    assert_eq!(session.access_token().unwrap().expose(), "a-2");
    assert_eq!(session.refresh_token().unwrap().expose(), "r-2");
    assert_eq!(
        script.seen_at("/token")[1].form("client_id").as_deref(),
        Some("cli")
    );
    let over = Session::resume("cli", TOKEN_URL, "r-0");
    let error = client
        .with_credentials(over)
        .tasks_get(&get("t-1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Token(TokenError::SessionOver)),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_refused_refreshes_too() {
    let script = Script::new(|seen| match seen.path.as_str() {
        "/token" => {
            let old = seen.form("refresh_token").unwrap();
            let token =
                json!({"access_token": format!("of-{old}"), "refresh_token": format!("{old}+")});
            Step::json(200, &token)
        }
        _ if seen.header("authorization") == Some("Bearer of-r") => Step::status(401),
        _ => seen.result(task_result("t-1")),
    });
    let session = Session::resume("cli", TOKEN_URL, "r");
    let client = script
        .builder()
        .credentials(session.clone())
        .build()
        .unwrap();
    let params = get("t-1");
    let calls = (0..20).map(|_| client.tasks_get(&params));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(session.access_token().unwrap().expose(), "of-r+");
    assert_eq!(script.seen_at("/token").len(), 2);
    // A client that finds a good token in the session does not ask for another.
    let again = script.builder().credentials(session).build().unwrap();
    again.tasks_get(&params).await.unwrap();
    assert_eq!(script.seen_at("/token").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_asks_for_all_the_scopes_it_needs() {
    let world = World::new(3600, |_| Step::json(200, &json!([])));
    let mut batch = world.client().batch();
    let _ = batch.tasks_get(&get("t-1"));
    let _ = batch.tasks_create(&create());
    assert!(batch.send().await.is_err(), "an empty array answers nobody");
    let scope = world.script.seen_at("/token")[0].form("scope");
    assert_eq!(
        scope.as_deref(),
        Some("acp:agent:identify acp:tasks:read acp:tasks:write")
    );
}

struct Vault(AtomicUsize);

#[async_trait]
impl TokenSource for Vault {
    async fn token(&self, scopes: &[String]) -> Result<Token, BoxError> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Token::new(format!("v-{}", scopes.len())).expires_in(Duration::from_secs(60))),
            _ => Err("sealed".into()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_of_one_s_own() {
    let world = World::new(3600, good);
    let client = world.client_with(Credentials::provider(Arc::new(Vault(AtomicUsize::new(0)))));
    client.tasks_get(&get("t-1")).await.unwrap();
    client.tasks_get(&get("t-1")).await.unwrap();
    assert_eq!(world.used(), ["v-2", "v-2"]);
    advance(Duration::from_secs(61)).await;
    let error = client.tasks_get(&get("t-1")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Token(TokenError::Source(source)) if source.to_string() == "sealed")
    );
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_shown() {
    let world = World::new(3600, |seen| seen.error(401, -40007, json!({})));
    let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let shown = format!(
        "{:?} {:?}",
        credentials,
        Credentials::from(credentials.clone())
    );
    let client = world.client_with(credentials);
    let error = client.tasks_get(&get("t-1")).await.unwrap_err();
    let session = Session::resume("cli", TOKEN_URL, "s3cret-refresh");
    let shown = format!(
        "{shown} {client:?} {error:?} {error} {session:?} {:?}",
        Token::new("token-9")
    );
    assert!(
        !shown.contains("s3cret") && !shown.contains("token-"),
        "{shown}"
    );
    let seen = &world.script.seen_at("/jsonrpc")[0];
    assert!(seen.headers["authorization"].is_sensitive());
}
