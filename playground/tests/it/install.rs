//! How an app gets its tokens, and how they end.

use crate::house::{App, Bot, client};
use interzone_edge::clock::Clock;
use interzone_playground::{Playground, PlaygroundOptions};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_person_allows_it_and_the_token_rotates() {
    let clock = Clock::set(1_800_000_000);
    let options = PlaygroundOptions {
        rotation: true,
        clock: clock.clone(),
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let mut bot = Bot::of(&playground);
    let page = format!(
        "{}oauth/v2/authorize?client_id=playground.client&scope=chat:write,users:read&state=s%26t\
         &redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fback",
        playground.url()
    );
    let shown = client().get(&page).send().await.unwrap();
    assert!(shown.text().await.unwrap().contains("users:read"));
    let away = page.replace("127.0.0.1%3A9", "example.com");
    assert_eq!(client().get(&away).send().await.unwrap().status(), 400);
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
    assert_eq!(bot.bad(access, &wrong).await, "bad_client_secret");
    let args = [id, secret, ("code", code), redirect];
    let granted = bot.good(access, &args).await;
    assert_eq!(granted["scope"], "chat:write,users:read");
    assert_eq!(granted["expires_in"], 43_200);
    assert_eq!(bot.bad(access, &args).await, "code_already_used");
    bot.token = granted["access_token"].as_str().unwrap().to_owned();
    bot.good("users.info", &[("user", "U0HANA")]).await;
    assert_eq!(bot.bad("team.info", &[]).await, "missing_scope");
    clock.advance(Duration::from_secs(43_200));
    assert_eq!(bot.bad("auth.test", &[]).await, "token_expired");
    let refresh = granted["refresh_token"].as_str().unwrap();
    let refresh = [
        id,
        secret,
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh),
    ];
    let again = bot.good(access, &refresh).await;
    assert_eq!(
        bot.bad(access, &refresh).await,
        "invalid_refresh_token",
        "it is good for one time"
    );
    bot.token = again["access_token"].as_str().unwrap().to_owned();
    bot.good("auth.test", &[]).await;
}

#[tokio::test]
async fn an_app_that_is_removed_is_told() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    let bot = Bot::of(&playground);
    playground.uninstall();
    assert_eq!(bot.bad("auth.test", &[]).await, "token_revoked");
    let told = app.events(2).await;
    assert_eq!(told[0]["event"]["type"], "tokens_revoked");
    assert_eq!(told[1]["event"], json!({"type": "app_uninstalled"}));
}
