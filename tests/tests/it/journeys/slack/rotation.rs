//! A workspace that installs the app itself, with tokens that end: they are renewed in time, once, and last
//! beyond the death of the process.

use super::place::{DONE, Place, Plan, answers};
use interzone_edge::tls::Trust;
use interzone_playground::seed;
use std::time::Duration;

/// So long before its end a token is renewed; one that lasts no longer is renewed at its first use.
const MARGIN: Duration = Duration::from_secs(3600);
const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);

/// Installs the app as a person does in a browser.
async fn install(place: &Place) {
    let folder = place.execution.world.folder.path();
    let trust = Trust::system_and(&[folder.join("ca.pem")]).unwrap();
    let browser = trust.client().build().unwrap();
    let door = format!("{}/slack/install", place.nodes[0].url);
    let sent = browser.get(door).send().await.unwrap();
    assert_eq!(sent.status(), 302);
    let header = |answer: &reqwest::Response, name: &str| {
        answer.headers()[name].to_str().unwrap().to_owned()
    };
    let cookie = header(&sent, "set-cookie");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let allow = browser
        .post(header(&sent, "location"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body("decision=allow");
    let back = allow.send().await.unwrap();
    assert_eq!(back.status(), 302);
    let back = header(&back, "location");
    let come_back = || browser.get(&back).header("cookie", &cookie).send();
    let page = come_back().await.unwrap();
    assert_eq!(page.status(), 200, "{}", page.text().await.unwrap());
    let again = come_back().await.unwrap();
    assert_eq!(again.status(), 400, "the way back is good once");
}

/// What tokens were asked for with, and what came of it.
fn granted(place: &Place) -> Vec<String> {
    place.slack.look(|workspace| {
        let calls = workspace.calls_of("oauth.v2.access");
        calls.iter().map(|call| call.answer.clone()).collect()
    })
}

async fn asked(place: &Place, text: &str) {
    let question = format!("echo {text}");
    let thread = place.ask(seed::ALEX, seed::DM_ALEX, &question).await;
    assert_eq!(answers(&thread), [text]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ends_is_renewed_once_and_outlives_the_process() {
    let mut place = Plan::new()
        .unset("slack.bot_token_file")
        .set("slack.client_id", "playground.client")
        .set("slack.client_secret_file", "client.txt")
        .set("slack.token_key_file", "token.key")
        .slack(|slack| {
            slack.rotation = true;
            slack.token_life = MARGIN;
        })
        .start()
        .await;
    install(&place).await;
    assert_eq!(granted(&place).len(), 1);
    // The token of the installation is about to end, so the first question renews it.
    place.slack.set_token_life(HALF_A_DAY);
    asked(&place, "one").await;
    assert_eq!(granted(&place), ["ok", "ok"], "it was renewed once");
    // The old one is over, and nobody notices.
    place.slack.end_old_tokens();
    asked(&place, "two").await;
    // The new one is in the store, and nowhere in the clear.
    place.nodes[0].kill();
    let folder = place.execution.world.folder.path();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("verification.db") {
            let bytes = std::fs::read(&path).unwrap();
            for secret in [&b"xoxe.xoxb-"[..], b"xoxe-1-"] {
                let found = bytes.windows(secret.len()).any(|some| some == secret);
                assert!(!found, "a token stands in {name}");
            }
        }
    }
    place.nodes[0].begin().await;
    asked(&place, "three").await;
    assert_eq!(granted(&place).len(), 2, "no other was needed");
    assert!(
        !place.nodes[0].log().contains("xoxe"),
        "no token in the log"
    );
}

/// Killed while Slack has granted a new token and nobody has stored it: its refresh token is spent, and the
/// old token serves until its end.
#[tokio::test(flavor = "multi_thread")]
async fn killed_while_it_renews_it_goes_on_with_what_it_has() {
    let mut place = Plan::new()
        .unset("slack.bot_token_file")
        .set("slack.client_id", "playground.client")
        .set("slack.client_secret_file", "client.txt")
        .set("slack.token_key_file", "token.key")
        .slack(|slack| {
            slack.rotation = true;
            slack.token_life = MARGIN;
        })
        .start()
        .await;
    install(&place).await;
    let faults = place.slack.faults();
    let when = interzone_playground::When::After;
    let mut gate = faults.gate(Some("oauth.v2.access"), 0, when);
    let question = place
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo still here")
        .unwrap();
    let reached = gate.reached(super::place::PATIENCE).await;
    assert!(reached.is_some(), "it renews");
    place.nodes[0].kill();
    faults.clear();
    drop(gate);
    place.nodes[0].begin().await;
    let thread = place.marked(seed::DM_ALEX, &question, DONE).await;
    assert_eq!(answers(&thread), ["still here"]);
}
