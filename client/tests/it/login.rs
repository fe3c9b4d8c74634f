//! Login in a browser, against an authorization server that verifies PKCE and redirects. The browser is a few
//! bytes on a real socket.

use crate::calls::get_params;
use crate::scripted_peer::{PeerAction, RecordedRequest, ScriptedPeer, task_result};
use base64::Engine as _;
use interzone_client::{Client, Error, Login, LoginSession, TokenError};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

const ISSUER: &str = "https://issuer.test";

/// Authorization server, and the parameters the browser was shown.
struct LoginFixture {
    script: ScriptedPeer,
    shown: Arc<Mutex<HashMap<String, String>>>,
}

fn login_fixture(sends_iss: bool) -> LoginFixture {
    let shown: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    let authorize_params = shown.clone();
    let token = move |request: &RecordedRequest| {
        let authorize_params = authorize_params.lock().unwrap();
        let verifier = request.form("code_verifier").unwrap_or_default();
        let digest = Sha256::digest(verifier.as_bytes());
        let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest);
        let same = |name: &str| request.form(name).as_ref() == authorize_params.get(name);
        let right = authorize_params["code_challenge"] == challenge
            && (43..=128).contains(&verifier.len())
            && same("redirect_uri")
            && same("client_id")
            && request.form("code").as_deref() == Some("c0de");
        if right {
            PeerAction::json(
                200,
                &json!({"access_token": "a-1", "token_type": "Bearer",
                "expires_in": 3600, "refresh_token": "r-1", "scope": "acp:tasks:read"}),
            )
        } else {
            PeerAction::json(400, &json!({"error": "invalid_grant"}))
        }
    };
    let script = ScriptedPeer::new(move |request| match request.path.as_str() {
        "/.well-known/oauth-protected-resource" => {
            PeerAction::json(200, &json!({"authorization_servers": [ISSUER]}))
        }
        "/.well-known/oauth-authorization-server" => PeerAction::json(
            200,
            &json!({
            "issuer": ISSUER, "token_endpoint": format!("{ISSUER}/token"),
            "authorization_endpoint": format!("{ISSUER}/authorize?tenant=1"),
            "authorization_response_iss_parameter_supported": sends_iss}),
        ),
        "/token" => token(request),
        _ => request.result(task_result("t-1")),
    });
    LoginFixture { script, shown }
}

/// Fetches a URL as a browser does and returns the response.
async fn browse(address: &str) -> String {
    let url = Url::parse(address).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", url.port().unwrap()))
        .await
        .unwrap();
    let target = &address[address.find("/callback").unwrap_or(address.len())..];
    let target = if target.is_empty() {
        "/favicon.ico"
    } else {
        target
    };
    let request = format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Logs in with a browser that returns with the queries that `query` builds from the state.
async fn log_in(
    world: &LoginFixture,
    client: &Client,
    query: impl Fn(&str) -> Vec<String> + Send + 'static,
) -> (Result<LoginSession, Error>, Vec<String>) {
    let (ended, answers) = tokio::sync::oneshot::channel();
    let login = Login::new("cli").scopes(["acp:agent:identify", "acp:tasks:read"]);
    let login = login.timeout(Duration::from_secs(20));
    let shown = world.shown.clone();
    let session = client.login(&login, move |url| {
        let pairs: HashMap<String, String> = url.query_pairs().into_owned().collect();
        *shown.lock().unwrap() = pairs.clone();
        tokio::spawn(async move {
            // An idle connection must not block the login.
            let back = Url::parse(&pairs["redirect_uri"]).unwrap();
            let idle = TcpStream::connect(("127.0.0.1", back.port().unwrap()))
                .await
                .unwrap();
            let mut answers = Vec::new();
            for query in query(&pairs["state"]) {
                answers.push(browse(&format!("{back}?{query}")).await);
            }
            drop(idle);
            let _ = ended.send(answers);
        });
    });
    let session = session.await;
    (session, answers.await.unwrap_or_default())
}

#[tokio::test]
async fn login_succeeds_and_ignores_forged_callbacks() {
    let world = login_fixture(true);
    let client = world.script.client();
    let (session, answers) = log_in(&world, &client, |state| {
        vec![
            "code=evil&state=guessed".to_owned(),
            "code=evil".to_owned(),
            format!("code=c0de&state={state}&iss=https%3A%2F%2Fissuer.test"),
        ]
    })
    .await;
    let session = session.unwrap();
    assert_eq!(session.access_token().unwrap().expose(), "a-1");
    assert_eq!(session.refresh_token().unwrap().expose(), "r-1");
    assert_eq!(session.scope().as_deref(), Some("acp:tasks:read"));
    assert_eq!(session.token_url(), "https://issuer.test/token");
    assert!(answers[0].starts_with("HTTP/1.1 404") && answers[1].starts_with("HTTP/1.1 404"));
    assert!(answers[2].starts_with("HTTP/1.1 200") && answers[2].contains("logged in"));
    let shown = world.shown.lock().unwrap().clone();
    assert_eq!(shown["response_type"], "code");
    assert_eq!(shown["code_challenge_method"], "S256");
    assert_eq!(shown["scope"], "acp:agent:identify acp:tasks:read");
    assert_eq!(shown["tenant"], "1", "the endpoint's own query is kept");
    assert!(shown["redirect_uri"].starts_with("http://127.0.0.1:"));
    assert!(shown["state"].len() >= 32);
    let client = client.with_credentials(session);
    client.tasks_get(&get_params("t-1")).await.unwrap();
    let calls = world.script.requests_to("/jsonrpc");
    assert_eq!(calls[0].header("authorization"), Some("Bearer a-1"));
}

async fn failed_login(names_itself: bool, back: &'static str) -> (Error, Vec<String>) {
    let world = login_fixture(names_itself);
    let client = world.script.client();
    let (session, answers) = log_in(&world, &client, move |state| {
        vec![format!("state={state}&{back}")]
    })
    .await;
    assert!(world.script.requests_to("/token").len() <= usize::from(back == "code=wrong"));
    (session.unwrap_err(), answers)
}

#[tokio::test]
async fn invalid_callback_fails_login() {
    let is_login = |error: &Error| matches!(error, Error::Token(TokenError::Login(_)));
    let (error, answers) = failed_login(false, "error=access_denied").await;
    assert!(is_login(&error), "{error:?}");
    assert!(answers[0].starts_with("HTTP/1.1 400"));
    let (error, _) = failed_login(false, "nothing=1").await;
    assert!(is_login(&error), "{error:?}");
    let (error, _) = failed_login(false, "code=c0de&iss=https%3A%2F%2Fother.test").await;
    assert!(is_login(&error), "{error:?}");
    let (error, _) = failed_login(true, "code=c0de").await;
    assert!(
        is_login(&error),
        "`iss` is required if the server announces it: {error:?}"
    );
    let (error, _) = failed_login(false, "code=wrong").await;
    assert!(
        matches!(error, Error::Token(TokenError::Refused { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn login_times_out_without_callback() {
    let world = login_fixture(false);
    let login = Login::new("cli").timeout(Duration::from_millis(20));
    let error = world
        .script
        .client()
        .login(&login, |_| {})
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Token(TokenError::Login(_))),
        "{error:?}"
    );
}
