//! A person decides: the page, the code, and what comes of it.

use super::browser::{Ask, Form, VERIFIER, sent_to};
use super::{Grant, House, NewClient, NewSecret, REDIRECT, Reply, URL, secret, show};
use crate::auth::{Refusal, reason};
use std::time::Duration;

const BY_CODE: &[Grant] = &[Grant::AuthorizationCode];

/// Somebody called ada, and a client that asks her.
async fn ada(public: bool) -> (House, NewSecret, String) {
    let house = House::build().await;
    let client = house.client(BY_CODE, public).await;
    let passphrase = house.people.add("ada").await.unwrap();
    (house, client, passphrase.expose().to_owned())
}

async fn code(house: &House, client: &NewSecret, passphrase: &str) -> String {
    let page = house.get(&Ask::new(client, REDIRECT).path()).await;
    let sent = Form::read(&page).allow(house, "Ada ", passphrase).await;
    sent_to(&sent).1["code"].clone()
}

async fn redeem(house: &House, client: &NewSecret, code: &str, change: &[(&str, &str)]) -> Reply {
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
    house.post("/oauth2/token", &form).await
}

async fn renew(house: &House, client: &NewSecret, refresh: &str, scope: &str) -> Reply {
    let mut form = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh),
        ("client_id", &client.client_id),
        ("scope", scope),
    ];
    if client.secret.is_some() {
        form.push(("client_secret", secret(client)));
    }
    house.post("/oauth2/token", &form).await
}

fn tokens(reply: &Reply) -> (String, String) {
    let body = reply.json();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(reply.status, 200, "{body}");
    (text("access_token"), text("refresh_token"))
}

#[tokio::test]
async fn consent_leads_to_a_token_for_the_person() {
    for public in [false, true] {
        let (house, client, passphrase) = ada(public).await;
        let page = house.get(&Ask::new(&client, REDIRECT).path()).await;
        assert_eq!(page.status, 200);
        let sent = Form::read(&page).allow(&house, "ada", &passphrase).await;
        let (place, said) = sent_to(&sent);
        assert_eq!(place, "https://app.example/cb");
        assert_eq!((&*said["tenant"], &*said["state"]), ("1", "st&te=\"<1>"));
        assert_eq!(said["iss"], URL);
        let (token, refresh) = tokens(&redeem(&house, &client, &said["code"], &[]).await);
        assert!(!refresh.is_empty());
        let identity = show(&house.authenticator(), &token).await.unwrap();
        assert_eq!(&*identity.principal, "person:ada");
        assert_eq!(&*identity.client, client.client_id);
        assert_eq!(identity.scopes().collect::<Vec<_>>(), ["read"]);
    }
}

#[tokio::test]
async fn the_page_is_safe_and_plain() {
    let (house, client, _) = ada(true).await;
    let page = house.get(&Ask::new(&client, REDIRECT).path()).await;
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
async fn nobody_is_sent_to_a_place_that_is_not_the_clients() {
    let (house, client, _) = ada(true).await;
    let ask = Ask::new(&client, REDIRECT);
    for bad in [
        ask.clone().with("client_id", "unknown"),
        ask.clone().with("client_id", "<script>alert(1)</script>"),
        ask.clone().without("client_id"),
        ask.clone().without("redirect_uri"),
        ask.clone().with("redirect_uri", "https://evil.example/cb"),
        ask.clone().with("redirect_uri", "https://app.example/cb"),
        ask.clone()
            .with("redirect_uri", "https://app.example/cb?tenant=1&x"),
        ask.clone()
            .with("redirect_uri", "https://app.example/cb?tenant=1#x"),
        ask.clone().with("redirect_uri", "http://127.0.0.1:5/other"),
        ask.clone().with("redirect_uri", "javascript:alert(1)"),
    ] {
        let reply = house.get(&bad.path()).await;
        assert_eq!(reply.status, 400);
        assert!(reply.headers.get("location").is_none());
        assert!(reply.text.contains("<h1>") && !reply.text.contains("<script"));
    }
    let twice = format!("{}&state=2", ask.path());
    assert_eq!(house.get(&twice).await.status, 400);
    // A program on the person's machine has whatever port was free.
    let here = ask.with("redirect_uri", "http://127.0.0.1:49152/cb");
    assert_eq!(house.get(&here.path()).await.status, 200);
}

#[tokio::test]
async fn what_else_is_wrong_is_told_to_the_client() {
    let (house, client, _) = ada(true).await;
    let ask = Ask::new(&client, REDIRECT);
    for (bad, error) in [
        (
            ask.clone().with("response_type", "token"),
            "unsupported_response_type",
        ),
        (
            ask.clone().without("response_type"),
            "unsupported_response_type",
        ),
        (ask.clone().without("code_challenge"), "invalid_request"),
        (
            ask.clone().with("code_challenge", "short"),
            "invalid_request",
        ),
        (
            ask.clone().with("code_challenge_method", "plain"),
            "invalid_request",
        ),
        (
            ask.clone().without("code_challenge_method"),
            "invalid_request",
        ),
        (ask.clone().with("scope", "admin"), "invalid_scope"),
        (
            ask.clone().with("resource", "https://else.example"),
            "invalid_target",
        ),
    ] {
        let (place, said) = sent_to(&house.get(&bad.path()).await);
        assert_eq!(place, "https://app.example/cb");
        assert_eq!(said["error"], error);
        assert_eq!((&*said["state"], &*said["iss"]), ("st&te=\"<1>", URL));
        assert!(!said.contains_key("code"));
    }
    let own = house.client(&[Grant::ClientCredentials], false).await;
    let (_, said) = sent_to(&house.get(&Ask::new(&own, REDIRECT).path()).await);
    assert_eq!(said["error"], "unauthorized_client");
}

#[tokio::test]
async fn no_is_an_answer_and_wrong_words_are_not_a_yes() {
    let (house, client, passphrase) = ada(true).await;
    let page = house.get(&Ask::new(&client, REDIRECT).path()).await;
    let form = Form::read(&page);
    let (_, said) = sent_to(&form.send(&house, &[("decision", "deny")]).await);
    assert_eq!(
        (&*said["error"], said.contains_key("code")),
        ("access_denied", false)
    );
    let mut told = Vec::new();
    for (name, words) in [
        ("ada", "wrong"),
        ("ada", ""),
        ("eve", &passphrase),
        ("", ""),
        ("../x", "y"),
    ] {
        let reply = form.allow(&house, name, words).await;
        assert_eq!(reply.status, 403, "{name}");
        assert!(!reply.text.contains(&passphrase));
        let problem = reply.text.split("class=\"problem\"").nth(1).unwrap();
        told.push(problem.split("</p>").next().unwrap().to_owned());
    }
    told.dedup();
    assert_eq!(told.len(), 1, "whether the name exists is not told");
    // The page that was shown again works.
    let again = Form::read(&form.allow(&house, "ada", "wrong").await);
    assert_eq!(again.allow(&house, "ada", &passphrase).await.status, 303);
}

#[tokio::test]
async fn a_form_from_elsewhere_counts_for_nothing() {
    let (house, client, passphrase) = ada(true).await;
    let page = house.get(&Ask::new(&client, REDIRECT).path()).await;
    let form = Form::read(&page);
    let yes = [
        ("decision", "allow"),
        ("name", "ada"),
        ("passphrase", passphrase.as_str()),
    ];
    // Without the cookie, with another page's cookie, with another ticket, or for another request.
    let other = Form::read(&house.get(&Ask::new(&client, REDIRECT).path()).await);
    let without = Form {
        fields: form.fields.clone(),
        cookie: String::new(),
    };
    let foreign = Form {
        fields: form.fields.clone(),
        cookie: other.cookie.clone(),
    };
    assert_eq!(without.send(&house, &yes).await.status, 403);
    assert_eq!(foreign.send(&house, &yes).await.status, 403);
    for change in [
        ("ticket", "1.x"),
        ("ticket", ""),
        ("scope", "read write"),
        ("state", "other"),
    ] {
        let mut more = yes.to_vec();
        more.push(change);
        assert_eq!(form.send(&house, &more).await.status, 403, "{change:?}");
    }
    assert_eq!(form.send(&house, &yes).await.status, 303);
    house.clock.advance(Duration::from_secs(600));
    assert_eq!(form.send(&house, &yes).await.status, 403);
}

#[tokio::test]
async fn guessing_is_slow() {
    let (house, client, passphrase) = ada(true).await;
    let page = house.get(&Ask::new(&client, REDIRECT).path()).await;
    let form = Form::read(&page);
    for _ in 0..10 {
        assert_eq!(form.allow(&house, "ada", "guess").await.status, 403);
    }
    // Even the right words have to wait now.
    let refused = form.allow(&house, "ada", &passphrase).await;
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    house.clock.advance(Duration::from_secs(wait));
    assert_eq!(form.allow(&house, "ada", "guess").await.status, 403);
    house.clock.advance(Duration::from_secs(60));
    assert_eq!(form.allow(&house, "ada", &passphrase).await.status, 303);
    // From one place, over all names.
    let mut refused = 0;
    for number in 0..100 {
        let reply = form.allow(&house, &format!("name-{number}"), "guess").await;
        refused += u32::from(reply.status == 429);
    }
    assert!(refused >= 39, "{refused}");
}

#[tokio::test]
async fn a_stranger_locks_himself_out_and_not_the_person() {
    let (house, client, passphrase) = ada(true).await;
    let form = Form::read(&house.get(&Ask::new(&client, REDIRECT).path()).await);
    let guess = async |address: &str| {
        let reply = form.allow_from(&house, address, "ada", "guess").await;
        reply.status.as_u16()
    };
    for round in 0..500 {
        let expect = if round < 10 { 403 } else { 429 };
        assert_eq!(guess("203.0.113.7").await, expect, "{round}");
    }
    // One machine has all addresses of its network.
    for round in 0..20 {
        let expect = if round < 10 { 403 } else { 429 };
        assert_eq!(guess(&format!("2001:db8::{round:x}")).await, expect);
    }
    let ada = form.allow_from(&house, "198.51.100.1", "ada", &passphrase);
    assert_eq!(ada.await.status, 303);
    // Nor with many addresses, each of which has its own limit.
    for host in 1..=20 {
        for round in 0..11 {
            let expect = if round < 10 { 403 } else { 429 };
            assert_eq!(guess(&format!("192.0.2.{host}")).await, expect);
        }
    }
    let ada = form.allow_from(&house, "198.51.100.2", "ada", &passphrase);
    assert_eq!(ada.await.status, 303);
}

#[tokio::test]
async fn a_code_is_for_one_client_one_place_and_one_verifier() {
    let (house, client, passphrase) = ada(false).await;
    let other = house.client(BY_CODE, false).await;
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
        let code = code(&house, &client, &passphrase).await;
        house.clock.advance(Duration::from_secs(6));
        let refused = redeem(&house, &client, &code, change).await;
        assert_eq!(refused.error(), (400, "invalid_grant".into()), "{change:?}");
        // It is spent all the same.
        let refused = redeem(&house, &client, &code, &[]).await;
        assert_eq!(refused.error(), (400, "invalid_grant".into()));
    }
    let code = code(&house, &client, &passphrase).await;
    let missing = redeem(&house, &client, &code, &[("code_verifier", "")]).await;
    assert_eq!(missing.error(), (400, "invalid_request".into()));
    house.clock.advance(Duration::from_secs(60));
    let late = redeem(&house, &client, &code, &[]).await;
    assert_eq!(late.error(), (400, "invalid_grant".into()));
    for rubbish in ["x", "a.b", "../../x.y", &"x".repeat(66)] {
        let refused = redeem(&house, &client, rubbish, &[]).await;
        assert_eq!(refused.error(), (400, "invalid_grant".into()));
    }
}

#[tokio::test]
async fn a_code_that_comes_twice_takes_everything_back() {
    let (house, client, passphrase) = ada(false).await;
    let code = code(&house, &client, &passphrase).await;
    let (token, refresh) = tokens(&redeem(&house, &client, &code, &[]).await);
    let auth = house.authenticator();
    assert!(show(&auth, &token).await.is_ok());
    let again = redeem(&house, &client, &code, &[]).await;
    assert_eq!(again.error(), (400, "invalid_grant".into()));
    assert_eq!(
        show(&auth, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    let renewed = renew(&house, &client, &refresh, "").await;
    assert_eq!(renewed.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn tokens_renew_each_other_and_an_old_one_ends_them_all() {
    let (house, client, passphrase) = ada(true).await;
    let code = code(&house, &client, &passphrase).await;
    let (_, first) = tokens(&redeem(&house, &client, &code, &[]).await);
    house.clock.advance(Duration::from_secs(800));
    let wide = renew(&house, &client, &first, "read write").await;
    assert_eq!(wide.error(), (400, "invalid_scope".into()));
    let (token, second) = tokens(&renew(&house, &client, &first, "").await);
    let auth = house.authenticator();
    assert_eq!(&*show(&auth, &token).await.unwrap().principal, "person:ada");
    let other = house.client(BY_CODE, true).await;
    let stolen = renew(&house, &other, &second, "").await;
    assert_eq!(stolen.error(), (400, "invalid_grant".into()));
    // The first one again: somebody has a copy.
    let copied = renew(&house, &client, &first, "").await;
    assert_eq!(copied.error(), (400, "invalid_grant".into()));
    assert_eq!(
        show(&auth, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    let ended = renew(&house, &client, &second, "").await;
    assert_eq!(ended.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn consent_ends_by_time_by_return_and_with_the_person() {
    let (house, client, passphrase) = ada(true).await;
    let fresh = async || {
        let code = code(&house, &client, &passphrase).await;
        house.clock.advance(Duration::from_secs(10));
        tokens(&redeem(&house, &client, &code, &[]).await)
    };
    let gone = (400, "invalid_grant".to_owned());
    let (_, refresh) = fresh().await;
    house.clock.advance(Duration::from_secs(30 * 24 * 3600));
    house.issuer.refresh().await.unwrap();
    assert_eq!(renew(&house, &client, &refresh, "").await.error(), gone);
    let (token, refresh) = fresh().await;
    let form = [
        ("client_id", client.client_id.as_str()),
        ("token", &refresh),
    ];
    assert_eq!(house.post("/oauth2/revoke", &form).await.status, 200);
    assert_eq!(renew(&house, &client, &refresh, "").await.error(), gone);
    let auth = house.authenticator();
    assert_eq!(
        show(&auth, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    let (token, refresh) = fresh().await;
    assert!(house.people.remove("ada").await.unwrap());
    house.clock.advance(Duration::from_secs(1));
    // Somebody else of that name does not inherit what the first one agreed to.
    house.people.add("ada").await.unwrap();
    house.issuer.refresh().await.unwrap();
    assert_eq!(renew(&house, &client, &refresh, "").await.error(), gone);
    assert_eq!(
        show(&auth, &token).await.unwrap_err(),
        Refusal::Invalid(reason::REVOKED)
    );
    assert_eq!(house.people.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_code_ends_with_the_person_who_agreed() {
    let (house, client, passphrase) = ada(true).await;
    let code = code(&house, &client, &passphrase).await;
    house.people.remove("ada").await.unwrap();
    let refused = redeem(&house, &client, &code, &[]).await;
    assert_eq!(refused.error(), (400, "invalid_grant".into()));
}

#[tokio::test]
async fn the_only_place_to_go_back_to_need_not_be_named() {
    let house = House::build().await;
    let passphrase = house.people.add("ada").await.unwrap();
    let new = NewClient {
        name: "one place".to_owned(),
        scopes: vec!["read".to_owned()],
        redirect_uris: vec![REDIRECT.to_owned()],
        grants: BY_CODE.to_vec(),
        public: true,
        ..NewClient::default()
    };
    let client = house.clients.add(new).await.unwrap();
    for named in [false, true] {
        let mut ask = Ask::new(&client, REDIRECT);
        if !named {
            ask = ask.without("redirect_uri");
        }
        let page = house.get(&ask.path()).await;
        let form = Form::read(&page);
        let sent = form.allow(&house, "ada", passphrase.expose()).await;
        let code = &sent_to(&sent).1["code"];
        let reply = redeem(&house, &client, code, &[("redirect_uri", "")]).await;
        // What was named once must be named again.
        assert_eq!(reply.status.is_success(), !named, "{}", reply.text);
    }
}
