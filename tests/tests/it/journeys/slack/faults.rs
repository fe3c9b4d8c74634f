//! The nineteen faults of the system that this zone replaces, by their numbers. Each is tried here as
//! Slack, a user or an attacker would, and must not come back.

use super::super::peers::{program, python};
use super::super::zone::Setup;
use super::place::{BOT_TOKEN, DONE, FAILED, Place, Plan, SIGNING_SECRET, answers, calls, has};
use hmac::{Hmac, KeyInit, Mac};
use interzone_playground::{EventFault, Upload, When, seed};
use serde_json::json;
use sha2::Sha256;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An Execution Zone whose agent tells what it was given.
fn mirrored(setup: Setup) -> Setup {
    let command = vec![python(), program("mirror.py").to_str().unwrap().to_owned()];
    setup.with_worker().set_worker("command", command)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs()
}

fn signature(secret: &str, timestamp: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{timestamp}:{body}").as_bytes());
    let digest = mac.finalize().into_bytes();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v0={hex}")
}

/// Sends a body to the zone as an event, with these headers.
async fn sent(place: &Place, body: &str, headers: &[(&str, &str)]) -> u16 {
    let url = format!("{}/slack/events", place.nodes[0].url);
    let mut request = place.execution.http.post(url).body(body.to_owned());
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap().status().as_u16()
}

fn event(text: &str) -> String {
    let ts = format!("{}.000100", now());
    json!({"type": "event_callback", "team_id": seed::TEAM, "api_app_id": seed::APP, "event_id": format!("Ev{text}"),
        "event_time": now(), "event": {"type": "message", "channel_type": "im", "channel": seed::DM_ALEX,
        "user": seed::ALEX, "text": format!("echo {text}"), "ts": ts}})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_1_what_is_not_signed_is_refused_whatever_is_left_out() {
    let place = Plan::new().start().await;
    let body = event("forged");
    let fresh = now().to_string();
    let stale = (now() - 301).to_string();
    let ahead = (now() + 360).to_string();
    let good = signature(SIGNING_SECRET, &fresh, &body);
    let (by_other, of_other) = (
        signature("another secret", &fresh, &body),
        signature(SIGNING_SECRET, &fresh, &format!("{body} ")),
    );
    let (old, early) = (
        signature(SIGNING_SECRET, &stale, &body),
        signature(SIGNING_SECRET, &ahead, &body),
    );
    let (time, sign) = ("x-slack-request-timestamp", "x-slack-signature");
    for headers in [
        &[][..],
        &[(time, fresh.as_str())],
        &[(sign, good.as_str())],
        &[(time, ""), (sign, good.as_str())],
        &[(time, "soon"), (sign, good.as_str())],
        &[(time, fresh.as_str()), (sign, "")],
        &[(time, fresh.as_str()), (sign, "v0=")],
        &[
            (time, fresh.as_str()),
            (sign, good.trim_start_matches("v0=")),
        ],
        &[(time, fresh.as_str()), (sign, by_other.as_str())],
        &[(time, fresh.as_str()), (sign, of_other.as_str())],
        &[(time, stale.as_str()), (sign, old.as_str())],
        &[(time, ahead.as_str()), (sign, early.as_str())],
    ] {
        assert_eq!(sent(&place, &body, headers).await, 401, "{headers:?}");
    }
    let mut calls = place.slack.look(calls);
    calls.retain(|call| !call.starts_with("api.test"));
    assert!(calls.is_empty(), "nothing came of it: {calls:?}");
    let headers = [(time, fresh.as_str()), (sign, good.as_str())];
    assert_eq!(sent(&place, &body, &headers).await, 200, "the real one");
    let ask = json!({"type": "url_verification", "challenge": "c"}).to_string();
    assert_eq!(sent(&place, &ask, &[]).await, 401, "not even a challenge");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_2_an_empty_or_missing_list_lets_nobody_in() {
    for plan in [
        Plan::new().without("policy"),
        Plan::new().set("policy.users", toml::Value::Array(Vec::new())),
        Plan::new().set("policy.teams", vec!["T0OTHER"]),
    ] {
        let place = plan.start().await;
        place
            .slack
            .post(seed::ALEX, seed::DM_ALEX, "echo hello?")
            .unwrap();
        let told = place.whispered(seed::ALEX).await.shown();
        assert!(told.contains("not allowed"), "{told}");
        let asked = place
            .slack
            .look(|workspace| workspace.messages(seed::DM_ALEX).count());
        assert_eq!(asked, 1, "no answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_3_slack_is_answered_before_slack_is_asked_anything() {
    let place = Plan::new().start().await;
    // The very first call hangs where it is; the acknowledgement must not wait for it.
    let mut gate = place.slack.faults().gate(None, 0, When::Before);
    place
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo quick")
        .unwrap();
    assert!(gate.reached(super::place::PATIENCE).await.is_some());
    place
        .wait("the acknowledgement", |workspace| {
            let mut all = workspace.deliveries();
            all.any(|one| one.outcome == "ok").then_some(())
        })
        .await;
    gate.open();
    // A limit of Slack's refuses nobody; it is kept, and the answer comes.
    place.slack.faults().rate_limit("users.info", 1, 2);
    let thread = place.ask(seed::HANA, seed::DM_HANA, "echo later").await;
    assert_eq!(answers(&thread), ["later"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_4_a_refusal_is_an_acknowledgement_to_slack_and_a_word_to_the_user() {
    let place = Plan::new().start().await;
    place
        .slack
        .post(seed::MALLORY, seed::DM_MALLORY, "echo me too")
        .unwrap();
    let told = place.whispered(seed::MALLORY).await;
    assert!(!told.shown().is_empty());
    let deliveries = place
        .slack
        .look(|workspace| workspace.deliveries().cloned().collect::<Vec<_>>());
    assert!(!deliveries.is_empty());
    for one in deliveries {
        assert_eq!((one.outcome.as_str(), one.attempt), ("ok", 0), "{one:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_5_a_question_is_charged_once_and_chatter_is_free() {
    let place = Plan::new()
        .set("policy.requests_per_minute", 2)
        .start()
        .await;
    place.slack.faults().events(EventFault::Duplicate {
        events: 20,
        copies: 3,
    });
    // Nobody asked anything here, and nobody is looked up for it.
    for _ in 0..5 {
        place
            .slack
            .post(seed::ALEX, seed::GENERAL, "good morning")
            .unwrap();
    }
    for number in 0..2 {
        let thread = place
            .ask(
                seed::ALEX,
                seed::GENERAL,
                &format!("@interzone echo {number}"),
            )
            .await;
        assert_eq!(answers(&thread), [number.to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_6_a_delivery_that_was_not_kept_is_not_a_duplicate_when_it_comes_again() {
    let mut place = Plan::new()
        .slack(|slack| slack.retry_delays = vec![Duration::from_millis(100); 600])
        .start()
        .await;
    // Gone before anything could be kept; then there again.
    place.nodes[0].kill();
    let ts = place
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo once")
        .unwrap();
    place
        .wait("a failed delivery", |workspace| {
            workspace
                .deliveries()
                .any(|one| one.outcome != "ok")
                .then_some(())
        })
        .await;
    place.nodes[0].begin().await;
    let thread = place.marked(seed::DM_ALEX, &ts, DONE).await;
    assert_eq!(answers(&thread), ["once"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_7_a_mention_where_every_message_is_answered_is_answered_once() {
    let place = Plan::new()
        .set("slack.auto_reply_channels", vec![seed::GENERAL])
        .start()
        .await;
    let thread = place
        .ask(seed::ALEX, seed::GENERAL, "@interzone echo once")
        .await;
    assert_eq!(answers(&thread), ["once"]);
    let thread = place
        .ask(seed::ALEX, seed::GENERAL, "echo no mention")
        .await;
    assert_eq!(answers(&thread), ["no mention"]);
    let calls = place.slack.look(|workspace| {
        let calls = workspace.calls_of("chat.startStream").len();
        calls + workspace.calls_of("chat.postMessage").len()
    });
    assert_eq!(calls, 2, "two questions, two answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_8_shared_files_arrive_stubs_and_broadcasts_too() {
    let place = Plan::new().start().await;
    for stub in [false, true] {
        let ts = place
            .slack
            .upload(&Upload {
                user: seed::ALEX,
                channel: seed::DM_ALEX,
                files: vec![(
                    "notes.txt".to_owned(),
                    b"first line\nsecond".to_vec().into(),
                )],
                stub,
                ..Upload::default()
            })
            .unwrap();
        let thread = place.marked(seed::DM_ALEX, &ts, DONE).await;
        let said = answers(&thread).join("\n");
        assert!(
            said.contains("notes.txt") && said.contains("first line"),
            "{stub}: {said}"
        );
    }
    let parent = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "a thread")
        .unwrap();
    let ts = place
        .slack
        .broadcast(seed::ALEX, seed::GENERAL, &parent, "@interzone echo to all")
        .unwrap();
    place.marked(seed::GENERAL, &ts, DONE).await;
    assert_eq!(
        answers(&place.slack.thread(seed::GENERAL, &parent)),
        ["to all"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_9_direct_messages_and_private_channels_pass_the_existence_check() {
    let place = Plan::new().start().await;
    for (channel, text) in [
        (seed::DM_HANA, "echo x"),
        (seed::PLANS, "@interzone echo x"),
    ] {
        let thread = place.ask(seed::HANA, channel, text).await;
        assert_eq!(answers(&thread), ["x"], "{channel}");
    }
    let manifest =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/slack-manifest.yaml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    for line in [
        "- app_mention",
        "- im:read",
        "- groups:read",
        "- message.im",
    ] {
        assert!(manifest.lines().any(|one| one.trim() == line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_10_the_newest_of_a_long_thread_go_along_with_who_said_them() {
    let place = Plan::new().execution(mirrored).start().await;
    let parent = place
        .slack
        .post(seed::HANA, seed::GENERAL, "the beginning")
        .unwrap();
    for number in 0..60 {
        let user = if number % 2 == 0 {
            seed::HANA
        } else {
            seed::ALEX
        };
        place
            .slack
            .reply(user, seed::GENERAL, &parent, &format!("remark {number}"))
            .unwrap();
    }
    let ts = place
        .slack
        .reply(seed::ALEX, seed::GENERAL, &parent, "@interzone summary")
        .unwrap();
    place.marked(seed::GENERAL, &ts, DONE).await;
    let said = answers(&place.slack.thread(seed::GENERAL, &parent)).join("");
    assert!(said.contains("remark 59"), "the newest: {said}");
    assert!(said.contains("remark 45"), "{said}");
    assert!(!said.contains("remark 10"), "not the oldest: {said}");
    assert!(
        said.contains("Alex") && said.contains("花子"),
        "who said it: {said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_11_a_long_answer_is_few_messages_cut_at_paragraphs() {
    let place = Plan::new().execution(mirrored).start().await;
    for (text, most) in [("long 8000", 1), ("long 30000", 3), ("長文 30000", 3)] {
        let thread = place.ask(seed::ALEX, seed::DM_ALEX, text).await;
        let said = answers(&thread);
        assert!(said.len() <= most, "{text}: {} messages", said.len());
        let whole: usize = said.iter().map(|text| text.chars().count()).sum();
        let length: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(whole > length - 200, "{text}: nothing lost, {whole}");
        for piece in &said {
            let end = piece.trim_end().chars().next_back().unwrap();
            assert!(
                matches!(end, '.' | '。') || piece == said.last().unwrap(),
                "cut at {end:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_12_ordinary_words_are_no_attack() {
    let place = Plan::new().start().await;
    for text in [
        "echo please contact me as soon as possible",
        "echo how do I override a CSS rule?",
        "echo ignore prior instructions",
    ] {
        let thread = place.ask(seed::ALEX, seed::DM_ALEX, text).await;
        assert_eq!(answers(&thread), [text.strip_prefix("echo ").unwrap()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_13_slacks_token_stays_in_one_process() {
    let place = Plan::new().execution(mirrored).start().await;
    let thread = place
        .ask(seed::ALEX, seed::DM_ALEX, "what do you have?")
        .await;
    assert!(!answers(&thread).join("").contains(BOT_TOKEN));
    let folder = place.execution.world.folder.path();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("bot.txt") || path.is_dir() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(BOT_TOKEN.len())
            .any(|some| some == BOT_TOKEN.as_bytes());
        assert!(!found, "{}", path.display());
    }
    assert!(!place.nodes[0].log().contains(BOT_TOKEN));
    assert!(!place.execution.log().contains(BOT_TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_14_an_answer_whose_receipt_was_lost_is_not_posted_again() {
    let place = Plan::new().execution(mirrored).start().await;
    let faults = place.slack.faults();
    for method in [
        "chat.startStream",
        "chat.stopStream",
        "chat.postMessage",
        "chat.update",
        "files.completeUploadExternal",
    ] {
        faults.lose_answer(method, 1);
        faults.rate_limit(method, 1, 1);
    }
    let thread = place.ask(seed::ALEX, seed::DM_ALEX, "long 30000").await;
    let said = answers(&thread);
    assert!(said.len() <= 3, "{} messages", said.len());
    let mut pieces = said.clone();
    pieces.dedup();
    assert_eq!(pieces.len(), said.len(), "none twice");
    let whole: usize = said.iter().map(|text| text.chars().count()).sum();
    assert!((29_000..31_000).contains(&whole), "{whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_15_a_slow_slack_holds_nobody_up() {
    let place = Plan::new().start().await;
    let faults = place.slack.faults();
    let mut gate = faults.gate(Some("users.info"), 0, When::Before);
    place
        .slack
        .post(seed::HANA, seed::DM_HANA, "echo slow")
        .unwrap();
    assert!(gate.reached(super::place::PATIENCE).await.is_some());
    let url = format!("{}/healthz", place.nodes[0].url);
    let health = super::super::soon("health", place.execution.http.get(url).send()).await;
    assert_eq!(health.unwrap().status(), 200);
    let thread = place.ask(seed::ALEX, seed::DM_ALEX, "echo quick").await;
    assert_eq!(answers(&thread), ["quick"], "others are answered meanwhile");
    gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_16_failure_and_success_look_different_and_markdown_is_no_debris() {
    let place = Plan::new().start().await;
    let ts = place
        .slack
        .post(seed::HANA, seed::DM_HANA, "fail now")
        .unwrap();
    let thread = place.marked(seed::DM_HANA, &ts, FAILED).await;
    assert!(!has(&thread[0], DONE));
    let said = answers(&thread).join("");
    assert!(
        said.chars()
            .any(|sign| matches!(sign, '\u{3041}'..='\u{30ff}')),
        "{said}"
    );
    drop(place);

    let place = Plan::new().execution(mirrored).start().await;
    place
        .slack
        .faults()
        .refuse("chat.startStream", "unknown_method", u32::MAX);
    let thread = place.ask(seed::ALEX, seed::DM_ALEX, "markdown").await;
    let answer = thread.last().unwrap();
    assert!(
        !answer.text.contains("**bold**"),
        "the plain form: {}",
        answer.text
    );
    assert!(!answer.text.contains("<!channel>"), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_17_a_file_that_is_too_large_is_not_even_fetched() {
    let place = Plan::new().start().await;
    let ts = place
        .slack
        .upload(&Upload {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "read this",
            files: vec![("huge.csv".to_owned(), vec![b'1'; 6 << 20].into())],
            ..Upload::default()
        })
        .unwrap();
    place
        .wait("an end", |workspace| {
            let question = workspace.message(seed::DM_ALEX, &ts)?;
            (has(question, DONE) || has(question, FAILED)).then_some(())
        })
        .await;
    let said = answers(&place.slack.thread(seed::DM_ALEX, &ts)).join("\n");
    assert!(
        said.contains("huge.csv") && said.contains("too large"),
        "{said}"
    );
    let fetched = place
        .slack
        .look(|workspace| workspace.calls_of("download").len());
    assert_eq!(fetched, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_18_an_attachment_that_is_left_out_is_told() {
    let place = Plan::new().start().await;
    let files = (1..=6).map(|number| (format!("part{number}.txt"), b"text".to_vec().into()));
    let ts = place
        .slack
        .upload(&Upload {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "all of these",
            files: files.collect(),
            ..Upload::default()
        })
        .unwrap();
    let thread = place.marked(seed::DM_ALEX, &ts, DONE).await;
    let said = answers(&thread).join("\n");
    assert!(
        said.contains("part6.txt") && said.contains("more than 5"),
        "{said}"
    );
    // A link into a channel that the asker cannot see brings nothing out of it.
    let hidden = place
        .slack
        .post(seed::MALLORY, seed::SECRET, "the secret of the house")
        .unwrap();
    let link = format!(
        "echo see https://playground.slack.com/archives/{}/p{}",
        seed::SECRET,
        hidden.replace('.', "")
    );
    let thread = place.ask(seed::ALEX, seed::DM_ALEX, &link).await;
    assert!(!answers(&thread).join("").contains("secret of the house"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_19_long_work_is_waited_for_and_holds_nothing_up() {
    let place = Plan::new()
        .execution(|setup| setup.set("execution.sync_budget", "1s"))
        .start()
        .await;
    let slow = place
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "wait 4")
        .unwrap();
    let thread = place.ask(seed::HANA, seed::DM_HANA, "echo meanwhile").await;
    assert_eq!(answers(&thread), ["meanwhile"]);
    let thread = place.marked(seed::DM_ALEX, &slow, DONE).await;
    assert_eq!(answers(&thread).len(), 1, "{thread:#?}");
}
