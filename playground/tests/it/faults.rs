//! Fault injection.

use crate::support::{TIMEOUT, TestBot, client};
use interzone_edge::clock::Clock;
use interzone_playground::{FaultAction, FaultTiming, Playground, PlaygroundOptions, seed};
use serde_json::json;
use std::time::Duration;

async fn start() -> (Playground, TestBot) {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let bot = TestBot::new(&playground);
    (playground, bot)
}

const POST: &[(&str, &str)] = &[("channel", seed::GENERAL), ("text", "hi")];

fn post_count(playground: &Playground) -> usize {
    playground.inspect(|workspace| workspace.messages(seed::GENERAL).count())
}

#[tokio::test]
async fn calls_are_limited_rejected_and_failed_on_request() {
    let (playground, bot) = start().await;
    let faults = playground.faults();
    faults.rate_limit("chat.postMessage", 7, 2);
    for _ in 0..2 {
        let limited = bot.request("chat.postMessage", POST).send().await.unwrap();
        assert_eq!(limited.status(), 429);
        assert_eq!(limited.headers()["retry-after"], "7");
        bot.call_ok("auth.test", &[]).await;
    }
    assert_eq!(post_count(&playground), 0);
    bot.call_ok("chat.postMessage", POST).await;
    faults.status("chat.postMessage", 500, 1);
    let broken = bot.request("chat.postMessage", POST).send().await.unwrap();
    assert_eq!(broken.status(), 500);
    faults.reject("chat.startStream", "unknown_method", u32::MAX);
    for _ in 0..3 {
        assert_eq!(
            bot.call_err("chat.startStream", &[]).await,
            "unknown_method"
        );
    }
    faults.clear();
    assert_eq!(
        bot.call_err("chat.startStream", &[]).await,
        "invalid_arguments"
    );
    assert_eq!(post_count(&playground), 1);
    let answers: Vec<String> = playground.inspect(|workspace| {
        let calls = workspace.calls_of("chat.postMessage");
        calls.iter().map(|call| call.outcome.clone()).collect()
    });
    assert_eq!(answers, ["ratelimited", "ratelimited", "ok", "500"]);
}

#[tokio::test]
async fn dropped_response_keeps_the_effect() {
    let (playground, bot) = start().await;
    playground.faults().drop_response("chat.postMessage", 1);
    let lost = bot.request("chat.postMessage", POST).send().await;
    assert!(lost.is_err(), "no status is received");
    assert_eq!(post_count(&playground), 1);
    playground.faults().add(interzone_playground::CallFault {
        method: None,
        skip: 1,
        times: 1,
        action: FaultAction::Drop(FaultTiming::Before),
    });
    bot.call_ok("auth.test", &[]).await;
    assert!(bot.request("chat.postMessage", POST).send().await.is_err());
    assert_eq!(post_count(&playground), 1);
}

#[tokio::test]
async fn call_hangs_before_or_after_its_effect() {
    let (playground, bot) = start().await;
    for (when, count) in [(FaultTiming::Before, 0), (FaultTiming::After, 1)] {
        playground.faults().hang("chat.postMessage", when, 1);
        let hanging = tokio::spawn(bot.request("chat.postMessage", POST).send());
        let hangs = playground.wait_for(TIMEOUT, |workspace| {
            let last = workspace.calls().next_back()?;
            (last.outcome == "hangs").then_some(())
        });
        hangs.await.unwrap();
        assert!(!hanging.is_finished());
        assert_eq!(post_count(&playground), count);
        hanging.abort();
        let _ = hanging.await;
        playground.inspect(|_| ());
        bot.call_ok("auth.test", &[]).await;
    }
}

#[tokio::test]
async fn break_point_blocks_one_call() {
    let (playground, bot) = start().await;
    // The second call of any method, before its effect.
    let mut gate = playground
        .faults()
        .break_point(None, 1, FaultTiming::Before);
    bot.call_ok("auth.test", &[]).await;
    let held = tokio::spawn(bot.request("chat.postMessage", POST).send());
    let call = gate.wait_reached(TIMEOUT).await.unwrap();
    assert_eq!(
        (call.method.as_str(), call.arg("text")),
        ("chat.postMessage", "hi")
    );
    assert_eq!(post_count(&playground), 0);
    bot.call_ok("auth.test", &[]).await;
    gate.open();
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
    assert_eq!(post_count(&playground), 1);

    // After its effect; the caller aborts there.
    let mut gate = playground
        .faults()
        .break_point(Some("chat.postMessage"), 0, FaultTiming::After);
    let held = tokio::spawn(bot.request("chat.postMessage", POST).send());
    gate.wait_reached(TIMEOUT).await.unwrap();
    assert_eq!(post_count(&playground), 2);
    held.abort();
    drop(gate);
    bot.call_ok("chat.postMessage", POST).await;
    assert_eq!(post_count(&playground), 3);
}

#[tokio::test]
async fn faults_can_be_injected_over_http() {
    let (playground, bot) = start().await;
    let at = format!("{}playground/faults", playground.url());
    let order = |body: serde_json::Value| client().post(&at).body(body.to_string());
    let limit = json!({"fault": "rate_limited", "method": "auth.test", "seconds": 3});
    assert_eq!(order(limit).send().await.unwrap().status(), 200);
    let limited = bot.request("auth.test", &[]).send().await.unwrap();
    assert_eq!(limited.status(), 429);
    bot.call_ok("auth.test", &[]).await;
    let refuse =
        json!({"fault": "refuse", "method": "auth.test", "word": "fatal_error", "times": 9});
    assert_eq!(order(refuse).send().await.unwrap().status(), 200);
    assert_eq!(bot.call_err("auth.test", &[]).await, "fatal_error");
    client().delete(&at).send().await.unwrap();
    bot.call_ok("auth.test", &[]).await;
    let nonsense = json!({"fault": "lightning"});
    assert_eq!(order(nonsense).send().await.unwrap().status(), 400);
    let calls = client().get(at.replace("faults", "calls")).send().await;
    let calls = calls.unwrap().text().await.unwrap();
    assert!(calls.contains("fatal_error") && !calls.contains("xoxb"));
}

#[tokio::test]
async fn slacks_rate_limits_apply_if_enabled() {
    let clock = Clock::fixed(1_800_000_000);
    let options = PlaygroundOptions {
        rate_limits: true,
        clock: clock.clone(),
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let bot = TestBot::new(&playground);
    for _ in 0..3 {
        bot.call_ok("chat.postMessage", POST).await;
    }
    let fourth = bot.request("chat.postMessage", POST).send().await.unwrap();
    assert_eq!(fourth.status(), 429);
    assert_eq!(fourth.headers()["retry-after"], "1");
    let elsewhere = [("channel", seed::DM_HANA), POST[1]];
    bot.call_ok("chat.postMessage", &elsewhere).await;
    clock.advance(Duration::from_secs(1));
    bot.call_ok("chat.postMessage", POST).await;
    let again = bot.request("chat.postMessage", POST).send().await.unwrap();
    assert_eq!(again.status(), 429);
    // A tier counts per minute.
    for _ in 0..20 {
        bot.call_err("chat.startStream", &[]).await;
    }
    let more = bot.request("chat.startStream", &[]).send().await.unwrap();
    assert_eq!(
        (more.status().as_u16(), &more.headers()["retry-after"]),
        (429, &"3".parse().unwrap())
    );
    assert_eq!(post_count(&playground), 4);
}
