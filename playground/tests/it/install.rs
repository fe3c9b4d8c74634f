//! OAuth2 installation, token rotation and uninstallation.

use crate::support::{TestApp, TestBot, client};
use interzone_edge::clock::Clock;
use interzone_playground::{Playground, PlaygroundOptions};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn allowed_install_grants_a_rotating_token() {
    let clock = Clock::fixed(1_800_000_000);
    let options = PlaygroundOptions {
        rotate_tokens: true,
        clock: clock.clone(),
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let mut bot = TestBot::new(&playground);
    let page = format!(
        "{}oauth/v2/authorize?client_id=playground.client&scope=chat:write,users:read&state=s%26t\
         &redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fback",
        playground.url()
    );
    let page_response = client().get(&page).send().await.unwrap();
    assert!(page_response.text().await.unwrap().contains("users:read"));
    let foreign_page = page.replace("127.0.0.1%3A9", "example.com");
    assert_eq!(
        client().get(&foreign_page).send().await.unwrap().status(),
        400
    );
    let decide = |decision: &str| client().post(&page).body(format!("decision={decision}"));
    let denied = decide("deny").send().await.unwrap();
    assert_eq!(
        denied.headers()["location"],
        "http://127.0.0.1:9/back?error=access_denied&state=s%26t"
    );
    let allowed = decide("allow").send().await.unwrap();
    let back = allowed.headers()["location"].to_str().unwrap().to_owned();
    let code = back.split("code=").nth(1).unwrap();
    let code = code.split('&').next().unwrap();

    let secret = ("client_secret", "playground client secret");
    let id = ("client_id", "playground.client");
    let redirect = ("redirect_uri", "http://127.0.0.1:9/back");
    let access = "oauth.v2.access";
    let wrong = [id, ("client_secret", "x"), ("code", code), redirect];
    assert_eq!(bot.call_err(access, &wrong).await, "bad_client_secret");
    let args = [id, secret, ("code", code), redirect];
    let granted = bot.call_ok(access, &args).await;
    assert_eq!(granted["scope"], "chat:write,users:read");
    assert_eq!(granted["expires_in"], 43_200);
    assert_eq!(bot.call_err(access, &args).await, "code_already_used");
    bot.token = granted["access_token"].as_str().unwrap().to_owned();
    bot.call_ok("users.info", &[("user", "U0HANA")]).await;
    assert_eq!(bot.call_err("team.info", &[]).await, "missing_scope");
    clock.advance(Duration::from_secs(43_200));
    assert_eq!(bot.call_err("auth.test", &[]).await, "token_expired");
    let refresh = granted["refresh_token"].as_str().unwrap();
    let refresh = [
        id,
        secret,
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh),
    ];
    let again = bot.call_ok(access, &refresh).await;
    assert_eq!(
        bot.call_err(access, &refresh).await,
        "invalid_refresh_token",
        "a refresh token is valid once"
    );
    bot.token = again["access_token"].as_str().unwrap().to_owned();
    bot.call_ok("auth.test", &[]).await;
}

#[tokio::test]
async fn uninstalled_app_receives_both_events() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let bot = TestBot::new(&playground);
    playground.uninstall();
    assert_eq!(bot.call_err("auth.test", &[]).await, "token_revoked");
    let events = app.next_events(2).await;
    assert_eq!(events[0]["event"]["type"], "tokens_revoked");
    assert_eq!(events[1]["event"], json!({"type": "app_uninstalled"}));
}
