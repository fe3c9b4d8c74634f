//! What goes wrong on request.

use crate::house::{Bot, PATIENCE, client};
use interzone_edge::clock::Clock;
use interzone_playground::{Playground, PlaygroundOptions, What, When, seed};
use serde_json::json;
use std::time::Duration;

async fn start() -> (Playground, Bot) {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let bot = Bot::of(&playground);
    (playground, bot)
}

const POST: &[(&str, &str)] = &[("channel", seed::GENERAL), ("text", "hi")];

fn posts(playground: &Playground) -> usize {
    playground.look(|workspace| workspace.messages(seed::GENERAL).count())
}

#[tokio::test]
async fn calls_are_limited_refused_and_broken_as_often_as_asked() {
    let (playground, bot) = start().await;
    let faults = playground.faults();
    faults.rate_limit("chat.postMessage", 7, 2);
    for _ in 0..2 {
        let limited = bot.request("chat.postMessage", POST).send().await.unwrap();
        assert_eq!(limited.status(), 429);
        assert_eq!(limited.headers()["retry-after"], "7");
        bot.good("auth.test", &[]).await;
    }
    assert_eq!(posts(&playground), 0);
    bot.good("chat.postMessage", POST).await;
    faults.status("chat.postMessage", 500, 1);
    let broken = bot.request("chat.postMessage", POST).send().await.unwrap();
    assert_eq!(broken.status(), 500);
    faults.refuse("chat.startStream", "unknown_method", u32::MAX);
    for _ in 0..3 {
        assert_eq!(bot.bad("chat.startStream", &[]).await, "unknown_method");
    }
    faults.clear();
    assert_eq!(bot.bad("chat.startStream", &[]).await, "invalid_arguments");
    assert_eq!(posts(&playground), 1);
    let answers: Vec<String> = playground.look(|workspace| {
        let calls = workspace.calls_of("chat.postMessage");
        calls.iter().map(|call| call.answer.clone()).collect()
    });
    assert_eq!(answers, ["ratelimited", "ratelimited", "ok", "500"]);
}

#[tokio::test]
async fn an_answer_is_lost_and_its_effect_is_not() {
    let (playground, bot) = start().await;
    playground.faults().lose_answer("chat.postMessage", 1);
    let lost = bot.request("chat.postMessage", POST).send().await;
    assert!(lost.is_err(), "not even a status comes");
    assert_eq!(posts(&playground), 1);
    playground.faults().add(interzone_playground::Fault {
        method: None,
        skip: 1,
        times: 1,
        what: What::Drop(When::Before),
    });
    bot.good("auth.test", &[]).await;
    assert!(bot.request("chat.postMessage", POST).send().await.is_err());
    assert_eq!(posts(&playground), 1);
}

#[tokio::test]
async fn a_call_hangs_before_or_after_its_effect() {
    let (playground, bot) = start().await;
    for (when, count) in [(When::Before, 0), (When::After, 1)] {
        playground.faults().hang("chat.postMessage", when, 1);
        let hanging = tokio::spawn(bot.request("chat.postMessage", POST).send());
        let hangs = playground.wait(PATIENCE, |workspace| {
            let last = workspace.calls().next_back()?;
            (last.answer == "hangs").then_some(())
        });
        hangs.await.unwrap();
        assert!(!hanging.is_finished());
        assert_eq!(posts(&playground), count);
        hanging.abort();
        let _ = hanging.await;
        playground.look(|_| ());
        bot.good("auth.test", &[]).await;
    }
}

#[tokio::test]
async fn a_gate_stops_one_call_and_says_so() {
    let (playground, bot) = start().await;
    // The second call of any method, before its effect.
    let mut gate = playground.faults().gate(None, 1, When::Before);
    bot.good("auth.test", &[]).await;
    let held = tokio::spawn(bot.request("chat.postMessage", POST).send());
    let call = gate.reached(PATIENCE).await.unwrap();
    assert_eq!(
        (call.method.as_str(), call.arg("text")),
        ("chat.postMessage", "hi")
    );
    assert_eq!(posts(&playground), 0);
    bot.good("auth.test", &[]).await;
    gate.open();
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
    assert_eq!(posts(&playground), 1);

    // After its effect, and the caller dies there.
    let mut gate = playground
        .faults()
        .gate(Some("chat.postMessage"), 0, When::After);
    let held = tokio::spawn(bot.request("chat.postMessage", POST).send());
    gate.reached(PATIENCE).await.unwrap();
    assert_eq!(posts(&playground), 2);
    held.abort();
    drop(gate);
    bot.good("chat.postMessage", POST).await;
    assert_eq!(posts(&playground), 3);
}

#[tokio::test]
async fn faults_can_be_ordered_from_outside() {
    let (playground, bot) = start().await;
    let at = format!("{}playground/faults", playground.url());
    let order = |body: serde_json::Value| client().post(&at).body(body.to_string());
    let limit = json!({"fault": "rate_limited", "method": "auth.test", "seconds": 3});
    assert_eq!(order(limit).send().await.unwrap().status(), 200);
    let limited = bot.request("auth.test", &[]).send().await.unwrap();
    assert_eq!(limited.status(), 429);
    bot.good("auth.test", &[]).await;
    let refuse =
        json!({"fault": "refuse", "method": "auth.test", "word": "fatal_error", "times": 9});
    assert_eq!(order(refuse).send().await.unwrap().status(), 200);
    assert_eq!(bot.bad("auth.test", &[]).await, "fatal_error");
    client().delete(&at).send().await.unwrap();
    bot.good("auth.test", &[]).await;
    let nonsense = json!({"fault": "lightning"});
    assert_eq!(order(nonsense).send().await.unwrap().status(), 400);
    let calls = client().get(at.replace("faults", "calls")).send().await;
    let calls = calls.unwrap().text().await.unwrap();
    assert!(calls.contains("fatal_error") && !calls.contains("xoxb"));
}

#[tokio::test]
async fn calls_are_limited_as_slack_limits_them_where_that_is_asked_for() {
    let clock = Clock::set(1_800_000_000);
    let options = PlaygroundOptions {
        rate_limits: true,
        clock: clock.clone(),
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let bot = Bot::of(&playground);
    for _ in 0..3 {
        bot.good("chat.postMessage", POST).await;
    }
    let fourth = bot.request("chat.postMessage", POST).send().await.unwrap();
    assert_eq!(fourth.status(), 429);
    assert_eq!(fourth.headers()["retry-after"], "1");
    let elsewhere = [("channel", seed::DM_HANA), POST[1]];
    bot.good("chat.postMessage", &elsewhere).await;
    clock.advance(Duration::from_secs(1));
    bot.good("chat.postMessage", POST).await;
    let again = bot.request("chat.postMessage", POST).send().await.unwrap();
    assert_eq!(again.status(), 429);
    // A tier counts a minute.
    for _ in 0..20 {
        bot.bad("chat.startStream", &[]).await;
    }
    let more = bot.request("chat.startStream", &[]).send().await.unwrap();
    assert_eq!(
        (more.status().as_u16(), &more.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert_eq!(posts(&playground), 4);
}
