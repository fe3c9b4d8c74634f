//! Tokens: discovered, cached, refreshed in time, shared by concurrent calls, and never shown.

use crate::calls::{create_params, get_params};
use crate::scripted_peer::{PeerAction, RecordedRequest, ScriptedPeer, task_result};
use async_trait::async_trait;
use interzone_client::{
    BoxError, Client, ClientCredentials, Credentials, Error, LoginSession, Secret, Token,
    TokenError, TokenSource,
};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::advance;

const TOKEN_URL: &str = "https://login.test/token";

/// Zone with an issuer that counts its tokens.
struct TokenFixture {
    script: ScriptedPeer,
    issued: Arc<AtomicUsize>,
    is_issuer_down: Arc<AtomicBool>,
}

impl TokenFixture {
    /// Tokens live `lifetime` seconds; `zone` answers calls.
    fn new(
        lifetime: u64,
        zone: impl Fn(&RecordedRequest) -> PeerAction + Send + Sync + 'static,
    ) -> Self {
        let issued = Arc::new(AtomicUsize::new(0));
        let down = Arc::new(AtomicBool::new(false));
        let (count, is_down) = (issued.clone(), down.clone());
        let script = ScriptedPeer::new(move |request| {
            match (request.host.as_str(), request.path.as_str()) {
                ("login.test", _) if is_down.load(Ordering::Relaxed) => PeerAction::Delayed(
                    Duration::from_millis(20),
                    Box::new(PeerAction::status(400)),
                ),
                ("login.test", "/token") => {
                    let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                    let token = json!({"access_token": format!("token-{number}"),
                    "token_type": "bearer", "expires_in": lifetime});
                    PeerAction::Delayed(
                        Duration::from_millis(20),
                        Box::new(PeerAction::json(200, &token)),
                    )
                }
                _ => zone(request),
            }
        });
        Self {
            script,
            issued,
            is_issuer_down: down,
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

    /// Tokens that calls were sent with.
    fn used_tokens(&self) -> Vec<String> {
        let calls = self.script.requests_to("/jsonrpc");
        let token = |call: &RecordedRequest| {
            call.header("authorization").unwrap()["Bearer ".len()..].to_owned()
        };
        calls.iter().map(token).collect()
    }
}

fn valid_response(request: &RecordedRequest) -> PeerAction {
    request.result(task_result("t-1"))
}

#[tokio::test(start_paused = true)]
async fn token_request_has_scopes_of_the_call() {
    let world = TokenFixture::new(3600, valid_response);
    let client = world.client();
    for _ in 0..3 {
        client.tasks_get(&get_params("t-1")).await.unwrap();
        client.tasks_create(&create_params()).await.unwrap();
    }
    let token_requests = world.script.requests_to("/token");
    let scopes: Vec<_> = token_requests
        .iter()
        .map(|request| request.form("scope").unwrap())
        .collect();
    assert_eq!(
        scopes,
        [
            "acp:agent:identify acp:tasks:read",
            "acp:agent:identify acp:tasks:write"
        ]
    );
    assert_eq!(world.used_tokens()[..2], ["token-1", "token-2"]);
    assert_eq!(
        token_requests[0].form("grant_type").as_deref(),
        Some("client_credentials")
    );
    assert_eq!(
        token_requests[0].header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    // base64 of "me:s3cret"
    assert_eq!(
        token_requests[0].header("authorization"),
        Some("Basic bWU6czNjcmV0")
    );
    assert_eq!(
        token_requests[0].form("client_secret"),
        None,
        "sent only once"
    );
    let fixed = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let client = world.client_with(
        fixed
            .scopes(["b", "a"])
            .audience("https://acp.test")
            .resource("r"),
    );
    client.tasks_get(&get_params("t-1")).await.unwrap();
    client.tasks_create(&create_params()).await.unwrap();
    let token_requests = world.script.requests_to("/token");
    assert_eq!(token_requests.len(), 3);
    assert_eq!(token_requests[2].form("scope").as_deref(), Some("a b"));
    assert_eq!(
        token_requests[2].form("audience").as_deref(),
        Some("https://acp.test")
    );
    assert_eq!(token_requests[2].form("resource").as_deref(), Some("r"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_share_one_token_request() {
    let world = TokenFixture::new(3600, valid_response);
    let client = world.client();
    let params = get_params("t-1");
    let calls = (0..100).map(|_| client.tasks_get(&params));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(world.issued(), 1);
    // All of them get the error when the request fails.
    world.is_issuer_down.store(true, Ordering::Relaxed);
    let client = world.client();
    let calls = (0..100).map(|_| client.tasks_get(&params));
    for outcome in futures_util::future::join_all(calls).await {
        assert!(matches!(outcome, Err(Error::Token(_))), "{outcome:?}");
    }
    assert_eq!(world.script.requests_to("/token").len(), 2);
    // The next call requests a token again.
    world.is_issuer_down.store(false, Ordering::Relaxed);
    client.tasks_get(&params).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropped_call_does_not_abort_token_request() {
    let world = TokenFixture::new(3600, valid_response);
    let client = world.client();
    let params = get_params("t-1");
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
async fn tokens_are_refreshed_before_expiry() {
    // The lifetime, and when the token is due for refresh.
    for (lifetime, due) in [(3600, 3300), (600, 300), (599, 299), (60, 30)] {
        let world = TokenFixture::new(lifetime, valid_response);
        let client = world.client();
        client.tasks_get(&get_params("t-1")).await.unwrap();
        advance(Duration::from_secs(due - 1)).await;
        client.tasks_get(&get_params("t-1")).await.unwrap();
        assert_eq!(world.issued(), 1, "{lifetime}");
        advance(Duration::from_secs(2)).await;
        let params = get_params("t-1");
        let calls = (0..10).map(|_| client.tasks_get(&params));
        for outcome in futures_util::future::join_all(calls).await {
            outcome.unwrap();
        }
        assert_eq!(world.issued(), 2, "{lifetime}");
    }
}

#[tokio::test(start_paused = true)]
async fn valid_token_is_used_while_issuer_is_down() {
    let world = TokenFixture::new(3600, valid_response);
    let client = world.client();
    client.tasks_get(&get_params("t-1")).await.unwrap();
    world.is_issuer_down.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(3301)).await;
    for _ in 0..10 {
        client.tasks_get(&get_params("t-1")).await.unwrap();
    }
    assert_eq!(world.used_tokens()[10], "token-1");
    assert_eq!(
        world.script.requests_to("/token").len(),
        2,
        "not requested at every call"
    );
    advance(Duration::from_secs(11)).await;
    client.tasks_get(&get_params("t-1")).await.unwrap();
    assert_eq!(
        world.script.requests_to("/token").len(),
        3,
        "but again after the retry interval"
    );
    advance(Duration::from_secs(300)).await;
    let error = client.tasks_get(&get_params("t-1")).await.unwrap_err();
    assert!(
        matches!(error, Error::Token(_)),
        "the token has expired: {error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_token_is_refreshed_once() {
    // Some rejections arrive after the new token was issued, and must not invalidate it.
    let reject_first = |status: u16, code: i64| {
        let calls = AtomicUsize::new(0);
        move |request: &RecordedRequest| match request.header("authorization") {
            Some("Bearer token-1") => {
                let late = u32::try_from(calls.fetch_add(1, Ordering::Relaxed)).unwrap();
                let refused = request.error(status, code, json!({}));
                PeerAction::Delayed(Duration::from_millis(10) * late, Box::new(refused))
            }
            _ => request.result(task_result("t-1")),
        }
    };
    for (status, code) in [(401, -40009), (401, -40007), (200, -40009)] {
        let world = TokenFixture::new(3600, reject_first(status, code));
        let client = world.client();
        let params = create_params();
        let calls = (0..100).map(|_| client.tasks_create(&params));
        for outcome in futures_util::future::join_all(calls).await {
            outcome.unwrap();
        }
        assert_eq!(world.issued(), 2, "one new token for all of them");
    }
    let world = TokenFixture::new(3600, |request| request.error(401, -40007, json!({})));
    let error = world
        .client()
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap_err();
    assert_eq!(error.code().unwrap().get(), -40007);
    assert_eq!(
        world.used_tokens(),
        ["token-1", "token-2"],
        "then the error is returned"
    );
    let bearer = TokenFixture::new(3600, |request| request.error(401, -40009, json!({})));
    let client = bearer.client_with(Credentials::Bearer(Secret::new("mine")));
    client.tasks_get(&get_params("t-1")).await.unwrap_err();
    assert_eq!(
        bearer.used_tokens(),
        ["mine"],
        "a fixed token cannot be refreshed"
    );
}

#[tokio::test(start_paused = true)]
async fn token_endpoint_is_discovered_by_metadata() {
    let world = TokenFixture::new(3600, |request| {
        match (request.host.as_str(), request.path.as_str()) {
            ("agent.test", "/.well-known/oauth-protected-resource") => PeerAction::json(
                200,
                &json!({"authorization_servers": ["https://issuer.test/a"]}),
            ),
            ("issuer.test", "/.well-known/oauth-authorization-server/a") => PeerAction::json(
                200,
                &json!({"issuer": "https://issuer.test/a", "token_endpoint": TOKEN_URL,
                "token_endpoint_auth_methods_supported": ["client_secret_post"]}),
            ),
            _ => request.result(task_result("t-1")),
        }
    });
    let client = world.client_with(ClientCredentials::new("me", "s3cret"));
    client.tasks_get(&get_params("t-1")).await.unwrap();
    client.tasks_create(&create_params()).await.unwrap();
    let token_requests = world.script.requests_to("/token");
    assert_eq!(token_requests.len(), 2);
    assert_eq!(
        token_requests[0].form("client_secret").as_deref(),
        Some("s3cret")
    );
    assert_eq!(token_requests[0].header("authorization"), None);
    let metadata = world
        .script
        .requests_to("/.well-known/oauth-protected-resource");
    assert_eq!(metadata.len(), 1, "fetched once");
}

#[tokio::test(start_paused = true)]
async fn token_endpoint_is_discovered_from_401() {
    let world = TokenFixture::new(3600, |request| {
        if request.verb == "GET" {
            PeerAction::status(404)
        } else if request.headers.contains_key("authorization") {
            request.result(task_result("t-1"))
        } else {
            request.error(
                401,
                -40007,
                json!({"error": "invalid_token", "tokenUrl": TOKEN_URL}),
            )
        }
    });
    let client = world.client_with(ClientCredentials::new("me", "s3cret"));
    client.tasks_get(&get_params("t-1")).await.unwrap();
    assert_eq!(world.issued(), 1);
}

#[tokio::test(start_paused = true)]
async fn untrusted_issuers_get_no_secret() {
    let metadata = |issuer: &'static str, named: &'static str, token: &'static str| {
        TokenFixture::new(3600, move |request| match request.path.as_str() {
            "/.well-known/oauth-protected-resource" => {
                PeerAction::json(200, &json!({"authorization_servers": [issuer]}))
            }
            "/.well-known/oauth-authorization-server" => {
                PeerAction::json(200, &json!({"issuer": named, "token_endpoint": token}))
            }
            _ => PeerAction::status(404),
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
        let error = client.tasks_get(&get_params("t-1")).await.unwrap_err();
        assert!(
            matches!(error, Error::Token(_)),
            "{issuer} {named} {token}: {error:?}"
        );
        assert!(
            world.script.requests_to("/token").is_empty(),
            "{issuer} {named} {token}"
        );
    }
    let loopback = metadata("http://127.0.0.1:1", "http://127.0.0.1:1", TOKEN_URL);
    let client = loopback.client_with(ClientCredentials::new("me", "s3cret"));
    assert!(
        client.token(&["a"]).await.is_ok(),
        "plain HTTP to a loopback issuer is allowed"
    );
}

#[tokio::test(start_paused = true)]
async fn client_secret_post_is_used_after_401() {
    let script = ScriptedPeer::new(|request| match request.form("client_secret").as_deref() {
        Some("s3cret") => PeerAction::json(200, &json!({"access_token": "t", "expires_in": "60"})),
        _ => PeerAction::json(401, &json!({"error": "invalid_client"})),
    });
    let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let client = script.builder().credentials(credentials).build().unwrap();
    assert_eq!(client.token(&["a"]).await.unwrap().expose(), "t");
    assert_eq!(client.token(&["b"]).await.unwrap().expose(), "t");
    assert_eq!(script.requests().len(), 3, "and is remembered");
}

#[tokio::test(start_paused = true)]
async fn token_requests_are_retried() {
    let token = json!({"access_token": "t", "token_type": "Bearer"});
    let steps = vec![
        PeerAction::NotConnected,
        PeerAction::Broken,
        PeerAction::status(503),
        PeerAction::json(200, &token),
    ];
    let script = ScriptedPeer::steps(steps);
    let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let client = script.builder().credentials(credentials).build().unwrap();
    assert_eq!(client.token(&["a"]).await.unwrap().expose(), "t");
    let bad = [
        PeerAction::json(200, &json!({"access_token": "t", "token_type": "mac"})),
        PeerAction::json(200, &json!({"access_token": "a\nb"})),
        PeerAction::json(200, &json!({"token": "t"})),
        PeerAction::json(
            400,
            &json!({"error": "invalid_scope", "error_description": "no\u{1b}[31m"}),
        ),
    ];
    for step in bad {
        let script = ScriptedPeer::steps(vec![step]);
        let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
        let client = script.builder().credentials(credentials).build().unwrap();
        let error = client.token(&["a"]).await.unwrap_err();
        assert!(!error.is_retryable(), "{error:?}");
        assert_eq!(script.requests().len(), 1, "{error:?}");
        assert!(!format!("{error:?}").contains('\u{1b}'));
    }
}

#[tokio::test(start_paused = true)]
async fn session_refreshes_and_keeps_new_refresh_token() {
    let script = ScriptedPeer::new(|request| match request.path.as_str() {
        "/token" => match request.form("refresh_token").as_deref() {
            Some("r-1") => PeerAction::json(
                200,
                &json!({"access_token": "a-1", "expires_in": 3600, "refresh_token": "r-2"}),
            ),
            Some("r-2") => {
                PeerAction::json(200, &json!({"access_token": "a-2", "expires_in": 3600}))
            }
            _ => PeerAction::json(400, &json!({"error": "invalid_grant"})),
        },
        _ => request.result(task_result("t-1")),
    });
    let session = LoginSession::resume("cli", TOKEN_URL, "r-1");
    let client = script
        .builder()
        .credentials(session.clone())
        .build()
        .unwrap();
    client.tasks_get(&get_params("t-1")).await.unwrap();
    client.tasks_create(&create_params()).await.unwrap();
    assert_eq!(
        script.requests_to("/token").len(),
        1,
        "one token for all methods"
    );
    assert_eq!(session.refresh_token().unwrap().expose(), "r-2");
    advance(Duration::from_secs(3301)).await;
    client.tasks_get(&get_params("t-1")).await.unwrap();
    assert_eq!(session.access_token().unwrap().expose(), "a-2");
    assert_eq!(session.refresh_token().unwrap().expose(), "r-2");
    assert_eq!(
        script.requests_to("/token")[1].form("client_id").as_deref(),
        Some("cli")
    );
    let expired = LoginSession::resume("cli", TOKEN_URL, "r-0");
    let error = client
        .with_credentials(expired)
        .tasks_get(&get_params("t-1"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Token(TokenError::SessionExpired)),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_session_token_is_refreshed() {
    let script = ScriptedPeer::new(|request| match request.path.as_str() {
        "/token" => {
            let old = request.form("refresh_token").unwrap();
            let token =
                json!({"access_token": format!("of-{old}"), "refresh_token": format!("{old}+")});
            PeerAction::json(200, &token)
        }
        _ if request.header("authorization") == Some("Bearer of-r") => PeerAction::status(401),
        _ => request.result(task_result("t-1")),
    });
    let session = LoginSession::resume("cli", TOKEN_URL, "r");
    let client = script
        .builder()
        .credentials(session.clone())
        .build()
        .unwrap();
    let params = get_params("t-1");
    let calls = (0..20).map(|_| client.tasks_get(&params));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(session.access_token().unwrap().expose(), "of-r+");
    assert_eq!(script.requests_to("/token").len(), 2);
    // A client that finds a valid token in the session does not request another.
    let again = script.builder().credentials(session).build().unwrap();
    again.tasks_get(&params).await.unwrap();
    assert_eq!(script.requests_to("/token").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn batch_requests_union_of_scopes() {
    let world = TokenFixture::new(3600, |_| PeerAction::json(200, &json!([])));
    let mut batch = world.client().batch();
    let _ = batch.tasks_get(&get_params("t-1"));
    let _ = batch.tasks_create(&create_params());
    assert!(
        batch.send().await.is_err(),
        "an empty array answers no call"
    );
    let scope = world.script.requests_to("/token")[0].form("scope");
    assert_eq!(
        scope.as_deref(),
        Some("acp:agent:identify acp:tasks:read acp:tasks:write")
    );
}

struct FakeTokenSource(AtomicUsize);

#[async_trait]
impl TokenSource for FakeTokenSource {
    async fn token(&self, scopes: &[String]) -> Result<Token, BoxError> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Token::new(format!("v-{}", scopes.len())).expires_in(Duration::from_secs(60))),
            _ => Err("sealed".into()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn custom_token_source_is_used() {
    let world = TokenFixture::new(3600, valid_response);
    let client = world.client_with(Credentials::provider(Arc::new(FakeTokenSource(
        AtomicUsize::new(0),
    ))));
    client.tasks_get(&get_params("t-1")).await.unwrap();
    client.tasks_get(&get_params("t-1")).await.unwrap();
    assert_eq!(world.used_tokens(), ["v-2", "v-2"]);
    advance(Duration::from_secs(61)).await;
    let error = client.tasks_get(&get_params("t-1")).await.unwrap_err();
    assert!(
        matches!(&error, Error::Token(TokenError::Source(source)) if source.to_string() == "sealed")
    );
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_shown() {
    let world = TokenFixture::new(3600, |request| request.error(401, -40007, json!({})));
    let credentials = ClientCredentials::new("me", "s3cret").token_url(TOKEN_URL);
    let shown = format!(
        "{:?} {:?}",
        credentials,
        Credentials::from(credentials.clone())
    );
    let client = world.client_with(credentials);
    let error = client.tasks_get(&get_params("t-1")).await.unwrap_err();
    let session = LoginSession::resume("cli", TOKEN_URL, "s3cret-refresh");
    let shown = format!(
        "{shown} {client:?} {error:?} {error} {session:?} {:?}",
        Token::new("token-9")
    );
    assert!(
        !shown.contains("s3cret") && !shown.contains("token-"),
        "{shown}"
    );
    let request = &world.script.requests_to("/jsonrpc")[0];
    assert!(request.headers["authorization"].is_sensitive());
}
