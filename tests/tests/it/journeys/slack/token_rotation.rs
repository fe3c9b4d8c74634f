//! A workspace that installs the app itself, with expiring tokens: they are renewed in time, once, and survive a crash
//! of the process.

use super::fixture::{DONE, SlackTest, SlackTestBuilder, answers};
use interzone_edge::tls::TrustRoots;
use interzone_playground::seed;
use std::time::Duration;

/// A token is renewed this long before its expiry; one with a shorter lifetime is renewed at its first use.
const RENEWAL_MARGIN: Duration = Duration::from_secs(3600);
/// Lifetime that needs no renewal during the test.
const LONG_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// Installs the app as a user does in a browser.
async fn install(test: &SlackTest) {
    let folder = test.execution.env.folder.path();
    let trust = TrustRoots::system_and_files(&[folder.join("ca.pem")]).unwrap();
    let browser = trust.client().build().unwrap();
    let install_url = format!("{}/slack/install", test.nodes[0].url);
    let redirect = browser.get(install_url).send().await.unwrap();
    assert_eq!(redirect.status(), 302);
    let header = |response: &reqwest::Response, name: &str| {
        response.headers()[name].to_str().unwrap().to_owned()
    };
    let cookie = header(&redirect, "set-cookie");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let allow = browser
        .post(header(&redirect, "location"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body("decision=allow");
    let redirect = allow.send().await.unwrap();
    assert_eq!(redirect.status(), 302);
    let callback = header(&redirect, "location");
    let open_callback = || browser.get(&callback).header("cookie", &cookie).send();
    let page = open_callback().await.unwrap();
    assert_eq!(page.status(), 200, "{}", page.text().await.unwrap());
    let again = open_callback().await.unwrap();
    assert_eq!(again.status(), 400, "the callback is valid once");
}

/// Returns the outcomes of the token requests so far.
fn token_request_outcomes(test: &SlackTest) -> Vec<String> {
    test.slack.inspect(|workspace| {
        let calls = workspace.calls_of("oauth.v2.access");
        calls.iter().map(|call| call.outcome.clone()).collect()
    })
}

async fn ask_and_check(test: &SlackTest, text: &str) {
    let question = format!("echo {text}");
    let thread = test.ask(seed::ALEX, seed::DM_ALEX, &question).await;
    assert_eq!(answers(&thread), [text]);
}

#[tokio::test(flavor = "multi_thread")]
async fn expiring_token_is_renewed_once_and_survives_a_kill() {
    let mut test = SlackTestBuilder::new()
        .unset("slack.bot_token_file")
        .set("slack.client_id", "playground.client")
        .set("slack.client_secret_file", "client.txt")
        .set("slack.token_key_file", "token.key")
        .slack(|slack| {
            slack.rotate_tokens = true;
            slack.token_lifetime = RENEWAL_MARGIN;
        })
        .start()
        .await;
    install(&test).await;
    assert_eq!(token_request_outcomes(&test).len(), 1);
    // The token of the installation is about to expire, so the first question renews it.
    test.slack.set_token_lifetime(LONG_LIFETIME);
    ask_and_check(&test, "one").await;
    assert_eq!(token_request_outcomes(&test), ["ok", "ok"], "renewed once");
    // The old token expires, without effect.
    test.slack.expire_old_tokens();
    ask_and_check(&test, "two").await;
    // The new token is in the store, encrypted.
    test.nodes[0].kill();
    let folder = test.execution.env.folder.path();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("verification.db") {
            let bytes = std::fs::read(&path).unwrap();
            for secret in [&b"xoxe.xoxb-"[..], b"xoxe-1-"] {
                let found = bytes.windows(secret.len()).any(|window| window == secret);
                assert!(!found, "plaintext token in {name}");
            }
        }
    }
    test.nodes[0].start().await;
    ask_and_check(&test, "three").await;
    assert_eq!(token_request_outcomes(&test).len(), 2, "no further renewal");
    assert!(!test.nodes[0].log().contains("xoxe"), "no token in the log");
}

/// The zone is killed after Slack granted a new token and before it was stored. The refresh token is spent, and the old
/// token serves until it expires.
#[tokio::test(flavor = "multi_thread")]
async fn kill_during_token_renewal_keeps_the_old_token() {
    let mut test = SlackTestBuilder::new()
        .unset("slack.bot_token_file")
        .set("slack.client_id", "playground.client")
        .set("slack.client_secret_file", "client.txt")
        .set("slack.token_key_file", "token.key")
        .slack(|slack| {
            slack.rotate_tokens = true;
            slack.token_lifetime = RENEWAL_MARGIN;
        })
        .start()
        .await;
    install(&test).await;
    let faults = test.slack.faults();
    let when = interzone_playground::FaultTiming::After;
    let mut gate = faults.break_point(Some("oauth.v2.access"), 0, when);
    let question = test
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo still here")
        .unwrap();
    let reached = gate.wait_reached(super::fixture::WAIT_TIMEOUT).await;
    assert!(reached.is_some(), "the token is renewed");
    test.nodes[0].kill();
    faults.clear();
    drop(gate);
    test.nodes[0].start().await;
    let thread = test.wait_for_reaction(seed::DM_ALEX, &question, DONE).await;
    assert_eq!(answers(&thread), ["still here"]);
}
