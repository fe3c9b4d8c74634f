//! Authorization code flow: consent page, code exchange, refresh and revocation.

use super::browser::{AuthorizeParams, ConsentForm, VERIFIER, redirect_of};
use super::{
    GrantType, IssuerFixture, IssuerReply, NewClientCredentials, NewOAuthClient, REDIRECT, URL,
    authenticate, secret,
};
use interzone_edge::auth::{AuthFailure, reason};
use std::time::Duration;

const CODE_GRANT: &[GrantType] = &[GrantType::AuthorizationCode];

/// Returns an installation with the user ada and one client.
async fn fixture_with_user(public: bool) -> (IssuerFixture, NewClientCredentials, String) {
    let fixture = IssuerFixture::new().await;
    let client = fixture.add_client(CODE_GRANT, public).await;
    let passphrase = fixture.users.add("ada").await.unwrap();
    (fixture, client, passphrase.expose().to_owned())
}

async fn get_code(
    fixture: &IssuerFixture,
    client: &NewClientCredentials,
    passphrase: &str,
) -> String {
    let page = fixture
        .get(&AuthorizeParams::new(client, REDIRECT).path())
        .await;
    let redirect = ConsentForm::read(&page)
        .allow(fixture, "Ada ", passphrase)
        .await;
    redirect_of(&redirect).1["code"].clone()
}

async fn exchange_code(
    fixture: &IssuerFixture,
    client: &NewClientCredentials,
    code: &str,
    change: &[(&str, &str)],
) -> IssuerReply {
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
        ("client_id", &client.client_id),
    ];
    if client.secret.is_some() {
        form.push(("client_secret", secret(client)));
    }
    form.retain(|(name, _)| !change.iter().any(|(changed, _)| changed == name));
    form.extend(change);
    fixture.post("/oauth2/token", &form).await
}

async fn refresh_tokens(
    fixture: &IssuerFixture,
    client: &NewClientCredentials,
    refresh: &str,
    scope: &str,
) -> IssuerReply {
    let mut form = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh),
        ("client_id", &client.client_id),
        ("scope", scope),
    ];
    if client.secret.is_some() {
        form.push(("client_secret", secret(client)));
    }
    fixture.post("/oauth2/token", &form).await
}

fn tokens(reply: &IssuerReply) -> (String, String) {
    let body = reply.json();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(reply.status, 200, "{body}");
    (text("access_token"), text("refresh_token"))
}

#[tokio::test]
async fn consent_issues_token_for_the_user() {
    for public in [false, true] {
        let (fixture, client, passphrase) = fixture_with_user(public).await;
        let page = fixture
            .get(&AuthorizeParams::new(&client, REDIRECT).path())
            .await;
        assert_eq!(page.status, 200);
        let redirect = ConsentForm::read(&page)
            .allow(&fixture, "ada", &passphrase)
            .await;
        let (target, parameters) = redirect_of(&redirect);
        assert_eq!(target, "https://app.example/cb");
        assert_eq!(
            (&*parameters["tenant"], &*parameters["state"]),
            ("1", "st&te=\"<1>")
        );
        assert_eq!(parameters["iss"], URL);
        let (token, refresh) =
            tokens(&exchange_code(&fixture, &client, &parameters["code"], &[]).await);
        assert!(!refresh.is_empty());
        let identity = authenticate(&fixture.authenticator(), &token)
            .await
            .unwrap();
        assert_eq!(&*identity.principal, "user:ada");
        assert_eq!(&*identity.client, client.client_id);
        assert_eq!(identity.scopes().collect::<Vec<_>>(), ["read"]);
    }
}

#[tokio::test]
async fn consent_page_escapes_values_and_sets_security_headers() {
    let (fixture, client, _) = fixture_with_user(true).await;
    let page = fixture
        .get(&AuthorizeParams::new(&client, REDIRECT).path())
        .await;
    let text = &page.text;
    assert!(text.contains("The &lt;App&gt; &amp; &quot;Co&quot;"));
    assert!(text.contains("see your &lt;tasks&gt;"));
    assert!(text.contains("value=\"st&amp;te=&quot;&lt;1&gt;\""));
    assert!(!text.contains("<App>") && !text.contains("<tasks>") && !text.contains("<1>"));
    assert!(!text.contains("<script") && !text.contains("change your tasks"));
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert!(
        policy.contains("form-action 'self' https://app.example;") && !policy.contains("unsafe")
    );
    assert_eq!(page.header("x-frame-options"), "DENY");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("cache-control"), "no-store");
    let cookie = page.header("set-cookie");
    for part in [
        "__Host-",
        "; Secure",
        "; HttpOnly",
        "; SameSite=Strict",
        "; Path=/",
    ] {
        assert!(cookie.contains(part), "{part}");
    }
    // The hash in the policy is that of the style on the page.
    let style = text
        .split("<style>")
        .nth(1)
        .unwrap()
        .split("</style>")
        .next()
        .unwrap();
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, style.as_bytes());
    let hash = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, hash);
    assert!(policy.contains(&format!("'sha256-{hash}'")));
}

#[tokio::test]
async fn unregistered_redirect_uri_shows_error_page() {
    let (fixture, client, _) = fixture_with_user(true).await;
    let request = AuthorizeParams::new(&client, REDIRECT);
    for invalid in [
        request.clone().set("client_id", "unknown"),
        request
            .clone()
            .set("client_id", "<script>alert(1)</script>"),
        request.clone().without("client_id"),
        request.clone().without("redirect_uri"),
        request
            .clone()
            .set("redirect_uri", "https://evil.example/cb"),
        request
            .clone()
            .set("redirect_uri", "https://app.example/cb"),
        request
            .clone()
            .set("redirect_uri", "https://app.example/cb?tenant=1&x"),
        request
            .clone()
            .set("redirect_uri", "https://app.example/cb?tenant=1#x"),
        request
            .clone()
            .set("redirect_uri", "http://127.0.0.1:5/other"),
        request.clone().set("redirect_uri", "javascript:alert(1)"),
    ] {
        let reply = fixture.get(&invalid.path()).await;
        assert_eq!(reply.status, 400);
        assert!(reply.headers.get("location").is_none());
        assert!(reply.text.contains("<h1>") && !reply.text.contains("<script"));
    }
    let repeated_state = format!("{}&state=2", request.path());
    assert_eq!(fixture.get(&repeated_state).await.status, 400);
    // A native client may use any loopback port.
    let loopback = request.set("redirect_uri", "http://127.0.0.1:49152/cb");
    assert_eq!(fixture.get(&loopback.path()).await.status, 200);
}

#[tokio::test]
async fn other_request_errors_are_redirected_to_the_client() {
    let (fixture, client, _) = fixture_with_user(true).await;
    let request = AuthorizeParams::new(&client, REDIRECT);
    for (invalid, error) in [
        (
            request.clone().set("response_type", "token"),
            "unsupported_response_type",
        ),
        (
            request.clone().without("response_type"),
            "unsupported_response_type",
        ),
        (request.clone().without("code_challenge"), "invalid_request"),
        (
            request.clone().set("code_challenge", "short"),
            "invalid_request",
        ),
        (
            request.clone().set("code_challenge_method", "plain"),
            "invalid_request",
        ),
        (
            request.clone().without("code_challenge_method"),
            "invalid_request",
        ),
        (request.clone().set("scope", "admin"), "invalid_scope"),
        (
            request.clone().set("resource", "https://else.example"),
            "invalid_target",
        ),
    ] {
        let (target, parameters) = redirect_of(&fixture.get(&invalid.path()).await);
        assert_eq!(target, "https://app.example/cb");
        assert_eq!(parameters["error"], error);
        assert_eq!(
            (&*parameters["state"], &*parameters["iss"]),
            ("st&te=\"<1>", URL)
        );
        assert!(!parameters.contains_key("code"));
    }
    let credentials_client = fixture
        .add_client(&[GrantType::ClientCredentials], false)
        .await;
    let (_, parameters) = redirect_of(
        &fixture
            .get(&AuthorizeParams::new(&credentials_client, REDIRECT).path())
            .await,
    );
    assert_eq!(parameters["error"], "unauthorized_client");
}

#[tokio::test]
async fn denied_consent_and_wrong_passphrase_issue_no_code() {
    let (fixture, client, passphrase) = fixture_with_user(true).await;
    let page = fixture
        .get(&AuthorizeParams::new(&client, REDIRECT).path())
        .await;
    let form = ConsentForm::read(&page);
    let (_, parameters) = redirect_of(&form.send(&fixture, &[("decision", "deny")]).await);
    assert_eq!(
        (&*parameters["error"], parameters.contains_key("code")),
        ("access_denied", false)
    );
    let mut messages = Vec::new();
    for (name, passphrase_sent) in [
        ("ada", "wrong"),
        ("ada", ""),
        ("eve", &passphrase),
        ("", ""),
        ("../x", "y"),
    ] {
        let reply = form.allow(&fixture, name, passphrase_sent).await;
        assert_eq!(reply.status, 403, "{name}");
        assert!(!reply.text.contains(&passphrase));
        let message = reply.text.split("class=\"problem\"").nth(1).unwrap();
        messages.push(message.split("</p>").next().unwrap().to_owned());
    }
    messages.dedup();
    assert_eq!(
        messages.len(),
        1,
        "the message does not reveal if the name exists"
    );
    // The page that was shown again works.
    let again = ConsentForm::read(&form.allow(&fixture, "ada", "wrong").await);
    assert_eq!(again.allow(&fixture, "ada", &passphrase).await.status, 303);
}

#[tokio::test]
async fn consent_form_without_valid_csrf_ticket_is_rejected() {
    let (fixture, client, passphrase) = fixture_with_user(true).await;
    let page = fixture
        .get(&AuthorizeParams::new(&client, REDIRECT).path())
        .await;
    let form = ConsentForm::read(&page);
    let approval = [
        ("decision", "allow"),
        ("name", "ada"),
        ("passphrase", passphrase.as_str()),
    ];
    // Without the cookie, with another page's cookie, with another ticket, or for another request.
    let other = ConsentForm::read(
        &fixture
            .get(&AuthorizeParams::new(&client, REDIRECT).path())
            .await,
    );
    let without = ConsentForm {
        fields: form.fields.clone(),
        cookie: String::new(),
    };
    let foreign = ConsentForm {
        fields: form.fields.clone(),
        cookie: other.cookie.clone(),
    };
    assert_eq!(without.send(&fixture, &approval).await.status, 403);
    assert_eq!(foreign.send(&fixture, &approval).await.status, 403);
    for change in [
        ("ticket", "1.x"),
        ("ticket", ""),
        ("scope", "read write"),
        ("state", "other"),
    ] {
        let mut more = approval.to_vec();
        more.push(change);
        assert_eq!(form.send(&fixture, &more).await.status, 403, "{change:?}");
    }
    assert_eq!(form.send(&fixture, &approval).await.status, 303);
    fixture.clock.advance(Duration::from_secs(600));
    assert_eq!(form.send(&fixture, &approval).await.status, 403);
}

#[tokio::test]
async fn passphrase_attempts_are_rate_limited() {
    let (fixture, client, passphrase) = fixture_with_user(true).await;
    let page = fixture
        .get(&AuthorizeParams::new(&client, REDIRECT).path())
        .await;
    let form = ConsentForm::read(&page);
    for _ in 0..10 {
        assert_eq!(form.allow(&fixture, "ada", "guess").await.status, 403);
    }
    // The right passphrase has to wait now, too.
    let limited = form.allow(&fixture, "ada", &passphrase).await;
    assert_eq!(limited.status, 429);
    let wait: u64 = limited.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    fixture.clock.advance(Duration::from_secs(wait));
    assert_eq!(form.allow(&fixture, "ada", "guess").await.status, 403);
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(form.allow(&fixture, "ada", &passphrase).await.status, 303);
    // From one address, over all names.
    let mut limited = 0;
    for number in 0..100 {
        let reply = form
            .allow(&fixture, &format!("name-{number}"), "guess")
            .await;
        limited += u32::from(reply.status == 429);
    }
    assert!(limited >= 39, "{limited}");
}

#[tokio::test]
async fn rate_limit_locks_out_the_guesser_not_the_user() {
    let (fixture, client, passphrase) = fixture_with_user(true).await;
    let form = ConsentForm::read(
        &fixture
            .get(&AuthorizeParams::new(&client, REDIRECT).path())
            .await,
    );
    let guess = async |address: &str| {
        let reply = form.allow_from(&fixture, address, "ada", "guess").await;
        reply.status.as_u16()
    };
    for round in 0..500 {
        let expect = if round < 10 { 403 } else { 429 };
        assert_eq!(guess("203.0.113.7").await, expect, "{round}");
    }
    // All addresses of an IPv6 /64 count as one.
    for round in 0..20 {
        let expect = if round < 10 { 403 } else { 429 };
        assert_eq!(guess(&format!("2001:db8::{round:x}")).await, expect);
    }
    let ada = form.allow_from(&fixture, "198.51.100.1", "ada", &passphrase);
    assert_eq!(ada.await.status, 303);
    // Nor with many addresses, each of which has its own limit.
    for host in 1..=20 {
        for round in 0..11 {
            let expect = if round < 10 { 403 } else { 429 };
            assert_eq!(guess(&format!("192.0.2.{host}")).await, expect);
        }
    }
    let ada = form.allow_from(&fixture, "198.51.100.2", "ada", &passphrase);
    assert_eq!(ada.await.status, 303);
}

#[tokio::test]
async fn code_is_bound_to_client_redirect_uri_and_verifier() {
    let (fixture, client, passphrase) = fixture_with_user(false).await;
    let other = fixture.add_client(CODE_GRANT, false).await;
    let long = "x".repeat(129);
    for change in [
        &[("redirect_uri", "http://127.0.0.1/cb")][..],
        &[("redirect_uri", "")],
        &[(
            "code_verifier",
            "another-verifier-that-is-long-enough-to-be-one-1234",
        )],
        &[("code_verifier", "short")],
        &[("code_verifier", &long)],
        &[
            ("client_id", &other.client_id),
            ("client_secret", secret(&other)),
        ],
    ] {
        let code = get_code(&fixture, &client, &passphrase).await;
        fixture.clock.advance(Duration::from_secs(6));
        let rejected = exchange_code(&fixture, &client, &code, change).await;
        assert_eq!(
            rejected.error(),
            (400, "invalid_grant".into()),
            "{change:?}"
        );
        // The failed exchange has used up the code.
        let rejected = exchange_code(&fixture, &client, &code, &[]).await;
        assert_eq!(rejected.error(), (400, "invalid_grant".into()));
    }
    let code = get_code(&fixture, &client, &passphrase).await;
    let missing = exchange_code(&fixture, &client, &code, &[("code_verifier", "")]).await;
    assert_eq!(missing.error(), (400, "invalid_request".into()));
    fixture.clock.advance(Duration::from_secs(60));
    let late = exchange_code(&fixture, &client, &code, &[]).await;
    assert_eq!(late.error(), (400, "invalid_grant".into()));
    for rubbish in ["x", "a.b", "../../x.y", &"x".repeat(66)] {
        let rejected = exchange_code(&fixture, &client, rubbish, &[]).await;
        assert_eq!(rejected.error(), (400, "invalid_grant".into()));
    }
}

#[tokio::test]
async fn code_reuse_revokes_all_tokens() {
    let (fixture, client, passphrase) = fixture_with_user(false).await;
    let code = get_code(&fixture, &client, &passphrase).await;
    let (token, refresh) = tokens(&exchange_code(&fixture, &client, &code, &[]).await);
    let auth = fixture.authenticator();
    assert!(authenticate(&auth, &token).await.is_ok());
    let again = exchange_code(&fixture, &client, &code, &[]).await;
    assert_eq!(again.error(), (400, "invalid_grant".into()));
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    let renewed = refresh_tokens(&fixture, &client, &refresh, "").await;
    assert_eq!(renewed.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn refresh_rotates_tokens_and_reuse_revokes_all() {
    let (fixture, client, passphrase) = fixture_with_user(true).await;
    let code = get_code(&fixture, &client, &passphrase).await;
    let (_, first) = tokens(&exchange_code(&fixture, &client, &code, &[]).await);
    fixture.clock.advance(Duration::from_secs(800));
    let wide = refresh_tokens(&fixture, &client, &first, "read write").await;
    assert_eq!(wide.error(), (400, "invalid_scope".into()));
    let (token, second) = tokens(&refresh_tokens(&fixture, &client, &first, "").await);
    let auth = fixture.authenticator();
    assert_eq!(
        &*authenticate(&auth, &token).await.unwrap().principal,
        "user:ada"
    );
    let other = fixture.add_client(CODE_GRANT, true).await;
    let stolen = refresh_tokens(&fixture, &other, &second, "").await;
    assert_eq!(stolen.error(), (400, "invalid_grant".into()));
    // Reuse of the first refresh token: it was copied.
    let reused = refresh_tokens(&fixture, &client, &first, "").await;
    assert_eq!(reused.error(), (400, "invalid_grant".into()));
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    let ended = refresh_tokens(&fixture, &client, &second, "").await;
    assert_eq!(ended.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn consent_ends_by_expiry_revocation_or_user_removal() {
    let (fixture, client, passphrase) = fixture_with_user(true).await;
    let new_tokens = async || {
        let code = get_code(&fixture, &client, &passphrase).await;
        fixture.clock.advance(Duration::from_secs(10));
        tokens(&exchange_code(&fixture, &client, &code, &[]).await)
    };
    let invalid_grant = (400, "invalid_grant".to_owned());
    let (_, refresh) = new_tokens().await;
    fixture.clock.advance(Duration::from_secs(30 * 24 * 3600));
    fixture.issuer.reload().await.unwrap();
    assert_eq!(
        refresh_tokens(&fixture, &client, &refresh, "")
            .await
            .error(),
        invalid_grant
    );
    let (token, refresh) = new_tokens().await;
    let form = [
        ("client_id", client.client_id.as_str()),
        ("token", &refresh),
    ];
    assert_eq!(fixture.post("/oauth2/revoke", &form).await.status, 200);
    assert_eq!(
        refresh_tokens(&fixture, &client, &refresh, "")
            .await
            .error(),
        invalid_grant
    );
    let auth = fixture.authenticator();
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    let (token, refresh) = new_tokens().await;
    assert!(fixture.users.remove("ada").await.unwrap());
    fixture.clock.advance(Duration::from_secs(1));
    // A new user with the same name does not inherit the consents of the first one.
    fixture.users.add("ada").await.unwrap();
    fixture.issuer.reload().await.unwrap();
    assert_eq!(
        refresh_tokens(&fixture, &client, &refresh, "")
            .await
            .error(),
        invalid_grant
    );
    assert_eq!(
        authenticate(&auth, &token).await.unwrap_err(),
        AuthFailure::Invalid(reason::REVOKED)
    );
    assert_eq!(fixture.users.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn code_is_invalid_after_its_user_was_removed() {
    let (fixture, client, passphrase) = fixture_with_user(true).await;
    let code = get_code(&fixture, &client, &passphrase).await;
    fixture.users.remove("ada").await.unwrap();
    let rejected = exchange_code(&fixture, &client, &code, &[]).await;
    assert_eq!(rejected.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn redirect_uri_may_be_omitted_if_only_one_is_registered() {
    let fixture = IssuerFixture::new().await;
    let passphrase = fixture.users.add("ada").await.unwrap();
    let new = NewOAuthClient {
        name: "one place".to_owned(),
        scopes: vec!["read".to_owned()],
        redirect_uris: vec![REDIRECT.to_owned()],
        grants: CODE_GRANT.to_vec(),
        public: true,
        ..NewOAuthClient::default()
    };
    let client = fixture.clients.add(new).await.unwrap();
    for is_named in [false, true] {
        let mut request = AuthorizeParams::new(&client, REDIRECT);
        if !is_named {
            request = request.without("redirect_uri");
        }
        let page = fixture.get(&request.path()).await;
        let form = ConsentForm::read(&page);
        let redirect = form.allow(&fixture, "ada", passphrase.expose()).await;
        let code = &redirect_of(&redirect).1["code"];
        let reply = exchange_code(&fixture, &client, code, &[("redirect_uri", "")]).await;
        // A redirect URI that was sent must be sent again.
        assert_eq!(reply.status.is_success(), !is_named, "{}", reply.text);
    }
}
