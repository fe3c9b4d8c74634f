//! Regression tests for the nineteen known faults of the system that this zone replaces, by number. Each test acts as
//! Slack, a user or an attacker would.

use super::super::peers::{peer_path, python};
use super::super::zone_process::ZoneBuilder;
use super::fixture::{
    BOT_TOKEN, DONE, FAILED, SIGNING_SECRET, SlackTest, SlackTestBuilder, answers, format_calls,
    has_reaction,
};
use hmac::{Hmac, KeyInit, Mac};
use interzone_playground::{EventFault, FaultTiming, FileShare, seed};
use serde_json::json;
use sha2::Sha256;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Configures the Execution Zone with an agent that returns its input.
fn use_mirror_agent(setup: ZoneBuilder) -> ZoneBuilder {
    let command = vec![
        python(),
        peer_path("report_input_agent.py")
            .to_str()
            .unwrap()
            .to_owned(),
    ];
    setup.with_worker().set_worker("command", command)
}

fn unix_time() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    elapsed.as_secs()
}

fn sign_body(secret: &str, timestamp: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("v0:{timestamp}:{body}").as_bytes());
    let digest = mac.finalize().into_bytes();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("v0={hex}")
}

/// Posts an event body with these headers and returns the HTTP status.
async fn post_event(test: &SlackTest, body: &str, headers: &[(&str, &str)]) -> u16 {
    let url = format!("{}/slack/events", test.nodes[0].url);
    let mut request = test.execution.http.post(url).body(body.to_owned());
    request = request.header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap().status().as_u16()
}

fn event_body(text: &str) -> String {
    let ts = format!("{}.000100", unix_time());
    json!({"type": "event_callback", "team_id": seed::TEAM, "api_app_id": seed::APP, "event_id": format!("Ev{text}"),
        "event_time": unix_time(), "event": {"type": "message", "channel_type": "im", "channel": seed::DM_ALEX,
        "user": seed::ALEX, "text": format!("echo {text}"), "ts": ts}})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_1_request_without_valid_signature_is_rejected() {
    let test = SlackTestBuilder::new().start().await;
    let body = event_body("forged");
    let fresh = unix_time().to_string();
    let stale = (unix_time() - 301).to_string();
    let future = (unix_time() + 360).to_string();
    let good = sign_body(SIGNING_SECRET, &fresh, &body);
    let (wrong_secret, wrong_body) = (
        sign_body("another secret", &fresh, &body),
        sign_body(SIGNING_SECRET, &fresh, &format!("{body} ")),
    );
    let (stale_signature, future_signature) = (
        sign_body(SIGNING_SECRET, &stale, &body),
        sign_body(SIGNING_SECRET, &future, &body),
    );
    let (timestamp, signature) = ("x-slack-request-timestamp", "x-slack-signature");
    for headers in [
        &[][..],
        &[(timestamp, fresh.as_str())],
        &[(signature, good.as_str())],
        &[(timestamp, ""), (signature, good.as_str())],
        &[(timestamp, "soon"), (signature, good.as_str())],
        &[(timestamp, fresh.as_str()), (signature, "")],
        &[(timestamp, fresh.as_str()), (signature, "v0=")],
        &[
            (timestamp, fresh.as_str()),
            (signature, good.trim_start_matches("v0=")),
        ],
        &[
            (timestamp, fresh.as_str()),
            (signature, wrong_secret.as_str()),
        ],
        &[
            (timestamp, fresh.as_str()),
            (signature, wrong_body.as_str()),
        ],
        &[
            (timestamp, stale.as_str()),
            (signature, stale_signature.as_str()),
        ],
        &[
            (timestamp, future.as_str()),
            (signature, future_signature.as_str()),
        ],
    ] {
        assert_eq!(post_event(&test, &body, headers).await, 401, "{headers:?}");
    }
    let mut calls = test.slack.inspect(format_calls);
    calls.retain(|call| !call.starts_with("api.test"));
    assert!(calls.is_empty(), "no API call follows: {calls:?}");
    let headers = [(timestamp, fresh.as_str()), (signature, good.as_str())];
    assert_eq!(
        post_event(&test, &body, &headers).await,
        200,
        "valid signature"
    );
    let challenge = json!({"type": "url_verification", "challenge": "c"}).to_string();
    assert_eq!(
        post_event(&test, &challenge, &[]).await,
        401,
        "unsigned challenge"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_2_empty_or_missing_allow_list_rejects_all_users() {
    for builder in [
        SlackTestBuilder::new().without_section("policy"),
        SlackTestBuilder::new().set("policy.users", toml::Value::Array(Vec::new())),
        SlackTestBuilder::new().set("policy.teams", vec!["T0OTHER"]),
    ] {
        let test = builder.start().await;
        test.slack
            .post(seed::ALEX, seed::DM_ALEX, "echo hello?")
            .unwrap();
        let notice = test.wait_for_ephemeral(seed::ALEX).await.displayed_text();
        assert!(notice.contains("not allowed"), "{notice}");
        let message_count = test
            .slack
            .inspect(|workspace| workspace.messages(seed::DM_ALEX).count());
        assert_eq!(message_count, 1, "no answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_3_event_is_acknowledged_before_any_api_call() {
    let test = SlackTestBuilder::new().start().await;
    // The very first API call hangs; the acknowledgement must not wait for it.
    let mut gate = test
        .slack
        .faults()
        .break_point(None, 0, FaultTiming::Before);
    test.slack
        .post(seed::ALEX, seed::DM_ALEX, "echo quick")
        .unwrap();
    assert!(
        gate.wait_reached(super::fixture::WAIT_TIMEOUT)
            .await
            .is_some()
    );
    test.wait("the acknowledgement", |workspace| {
        let mut all = workspace.deliveries();
        all.any(|one| one.outcome == "ok").then_some(())
    })
    .await;
    gate.open();
    // Slack's rate limit delays the answer and rejects no user.
    test.slack.faults().rate_limit("users.info", 1, 2);
    let thread = test.ask(seed::HANA, seed::DM_HANA, "echo later").await;
    assert_eq!(answers(&thread), ["later"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_4_rejected_event_is_acknowledged_and_user_notified() {
    let test = SlackTestBuilder::new().start().await;
    test.slack
        .post(seed::MALLORY, seed::DM_MALLORY, "echo me too")
        .unwrap();
    let notice = test.wait_for_ephemeral(seed::MALLORY).await;
    assert!(!notice.displayed_text().is_empty());
    let deliveries = test
        .slack
        .inspect(|workspace| workspace.deliveries().cloned().collect::<Vec<_>>());
    assert!(!deliveries.is_empty());
    for one in deliveries {
        assert_eq!((one.outcome.as_str(), one.attempt), ("ok", 0), "{one:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_5_question_is_charged_once_other_messages_are_free() {
    let test = SlackTestBuilder::new()
        .set("policy.requests_per_minute", 2)
        .start()
        .await;
    test.slack.faults().add_event_fault(EventFault::Duplicate {
        events: 20,
        copies: 3,
    });
    // Messages without a question: they cause no user lookup and no charge.
    for _ in 0..5 {
        test.slack
            .post(seed::ALEX, seed::GENERAL, "good morning")
            .unwrap();
    }
    for number in 0..2 {
        let thread = test
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
async fn fault_6_redelivery_of_an_unstored_event_is_no_duplicate() {
    let mut test = SlackTestBuilder::new()
        .slack(|slack| slack.retry_delays = vec![Duration::from_millis(100); 600])
        .start()
        .await;
    // The zone is killed before it can store the event, then restarted.
    test.nodes[0].kill();
    let ts = test
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo once")
        .unwrap();
    test.wait("a failed delivery", |workspace| {
        workspace
            .deliveries()
            .any(|one| one.outcome != "ok")
            .then_some(())
    })
    .await;
    test.nodes[0].start().await;
    let thread = test.wait_for_reaction(seed::DM_ALEX, &ts, DONE).await;
    assert_eq!(answers(&thread), ["once"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_7_mention_in_auto_reply_channel_is_answered_once() {
    let test = SlackTestBuilder::new()
        .set("slack.auto_reply_channels", vec![seed::GENERAL])
        .start()
        .await;
    let thread = test
        .ask(seed::ALEX, seed::GENERAL, "@interzone echo once")
        .await;
    assert_eq!(answers(&thread), ["once"]);
    let thread = test.ask(seed::ALEX, seed::GENERAL, "echo no mention").await;
    assert_eq!(answers(&thread), ["no mention"]);
    let calls = test.slack.inspect(|workspace| {
        let calls = workspace.calls_of("chat.startStream").len();
        calls + workspace.calls_of("chat.postMessage").len()
    });
    assert_eq!(calls, 2, "two questions, two answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_8_shared_files_stubs_and_broadcasts_are_answered() {
    let test = SlackTestBuilder::new().start().await;
    for is_stub in [false, true] {
        let ts = test
            .slack
            .upload(&FileShare {
                user: seed::ALEX,
                channel: seed::DM_ALEX,
                files: vec![(
                    "notes.txt".to_owned(),
                    b"first line\nsecond".to_vec().into(),
                )],
                is_stub,
                ..FileShare::default()
            })
            .unwrap();
        let thread = test.wait_for_reaction(seed::DM_ALEX, &ts, DONE).await;
        let reply = answers(&thread).join("\n");
        assert!(
            reply.contains("notes.txt") && reply.contains("first line"),
            "{is_stub}: {reply}"
        );
    }
    let parent = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "a thread")
        .unwrap();
    let ts = test
        .slack
        .broadcast(seed::ALEX, seed::GENERAL, &parent, "@interzone echo to all")
        .unwrap();
    test.wait_for_reaction(seed::GENERAL, &ts, DONE).await;
    assert_eq!(
        answers(&test.slack.thread(seed::GENERAL, &parent)),
        ["to all"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_9_dms_and_private_channels_pass_existence_check() {
    let test = SlackTestBuilder::new().start().await;
    for (channel, text) in [
        (seed::DM_HANA, "echo x"),
        (seed::PLANS, "@interzone echo x"),
    ] {
        let thread = test.ask(seed::HANA, channel, text).await;
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
async fn fault_10_context_has_newest_thread_messages_with_authors() {
    let test = SlackTestBuilder::new()
        .execution(use_mirror_agent)
        .start()
        .await;
    let parent = test
        .slack
        .post(seed::HANA, seed::GENERAL, "the beginning")
        .unwrap();
    for number in 0..60 {
        let user = if number % 2 == 0 {
            seed::HANA
        } else {
            seed::ALEX
        };
        test.slack
            .reply(user, seed::GENERAL, &parent, &format!("remark {number}"))
            .unwrap();
    }
    let ts = test
        .slack
        .reply(seed::ALEX, seed::GENERAL, &parent, "@interzone summary")
        .unwrap();
    test.wait_for_reaction(seed::GENERAL, &ts, DONE).await;
    let reply = answers(&test.slack.thread(seed::GENERAL, &parent)).join("");
    assert!(reply.contains("remark 59"), "the newest: {reply}");
    assert!(reply.contains("remark 45"), "{reply}");
    assert!(!reply.contains("remark 10"), "not the oldest: {reply}");
    assert!(
        reply.contains("Alex") && reply.contains("花子"),
        "authors: {reply}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_11_long_answer_is_split_at_paragraphs() {
    let test = SlackTestBuilder::new()
        .execution(use_mirror_agent)
        .start()
        .await;
    for (text, max_messages) in [("long 8000", 1), ("long 30000", 3), ("長文 30000", 3)] {
        let thread = test.ask(seed::ALEX, seed::DM_ALEX, text).await;
        let replies = answers(&thread);
        assert!(
            replies.len() <= max_messages,
            "{text}: {} messages",
            replies.len()
        );
        let total_chars: usize = replies.iter().map(|text| text.chars().count()).sum();
        let length: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(
            total_chars > length - 200,
            "{text}: text is missing, {total_chars}"
        );
        for piece in &replies {
            let end = piece.trim_end().chars().next_back().unwrap();
            assert!(
                matches!(end, '.' | '。') || piece == replies.last().unwrap(),
                "cut at {end:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_12_harmless_text_is_not_blocked() {
    let test = SlackTestBuilder::new().start().await;
    for text in [
        "echo please contact me as soon as possible",
        "echo how do I override a CSS rule?",
        "echo ignore prior instructions",
    ] {
        let thread = test.ask(seed::ALEX, seed::DM_ALEX, text).await;
        assert_eq!(answers(&thread), [text.strip_prefix("echo ").unwrap()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_13_bot_token_stays_in_the_verification_zone() {
    let test = SlackTestBuilder::new()
        .execution(use_mirror_agent)
        .start()
        .await;
    let thread = test
        .ask(seed::ALEX, seed::DM_ALEX, "what do you have?")
        .await;
    assert!(!answers(&thread).join("").contains(BOT_TOKEN));
    let folder = test.execution.env.folder.path();
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
    assert!(!test.nodes[0].log().contains(BOT_TOKEN));
    assert!(!test.execution.log().contains(BOT_TOKEN));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_14_answer_with_lost_response_is_not_posted_twice() {
    let test = SlackTestBuilder::new()
        .execution(use_mirror_agent)
        .start()
        .await;
    let faults = test.slack.faults();
    for method in [
        "chat.startStream",
        "chat.stopStream",
        "chat.postMessage",
        "chat.update",
        "files.completeUploadExternal",
    ] {
        faults.drop_response(method, 1);
        faults.rate_limit(method, 1, 1);
    }
    let thread = test.ask(seed::ALEX, seed::DM_ALEX, "long 30000").await;
    let replies = answers(&thread);
    assert!(replies.len() <= 3, "{} messages", replies.len());
    let mut pieces = replies.clone();
    pieces.dedup();
    assert_eq!(pieces.len(), replies.len(), "a message was posted twice");
    let total_chars: usize = replies.iter().map(|text| text.chars().count()).sum();
    assert!((29_000..31_000).contains(&total_chars), "{total_chars}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_15_slow_slack_call_does_not_block_other_questions() {
    let test = SlackTestBuilder::new().start().await;
    let faults = test.slack.faults();
    let mut gate = faults.break_point(Some("users.info"), 0, FaultTiming::Before);
    test.slack
        .post(seed::HANA, seed::DM_HANA, "echo slow")
        .unwrap();
    assert!(
        gate.wait_reached(super::fixture::WAIT_TIMEOUT)
            .await
            .is_some()
    );
    let url = format!("{}/healthz", test.nodes[0].url);
    let health = super::super::within_timeout("health", test.execution.http.get(url).send()).await;
    assert_eq!(health.unwrap().status(), 200);
    let thread = test.ask(seed::ALEX, seed::DM_ALEX, "echo quick").await;
    assert_eq!(
        answers(&thread),
        ["quick"],
        "other users are answered meanwhile"
    );
    gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_16_failure_is_marked_and_markdown_is_converted() {
    let test = SlackTestBuilder::new().start().await;
    let ts = test
        .slack
        .post(seed::HANA, seed::DM_HANA, "fail now")
        .unwrap();
    let thread = test.wait_for_reaction(seed::DM_HANA, &ts, FAILED).await;
    assert!(!has_reaction(&thread[0], DONE));
    let reply = answers(&thread).join("");
    assert!(
        reply
            .chars()
            .any(|letter| matches!(letter, '\u{3041}'..='\u{30ff}')),
        "{reply}"
    );
    drop(test);

    let test = SlackTestBuilder::new()
        .execution(use_mirror_agent)
        .start()
        .await;
    test.slack
        .faults()
        .reject("chat.startStream", "unknown_method", u32::MAX);
    let thread = test.ask(seed::ALEX, seed::DM_ALEX, "markdown").await;
    let answer = thread.last().unwrap();
    assert!(
        !answer.text.contains("**bold**"),
        "markdown in the plain text: {}",
        answer.text
    );
    assert!(!answer.text.contains("<!channel>"), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_17_too_large_file_is_not_downloaded() {
    let test = SlackTestBuilder::new().start().await;
    let ts = test
        .slack
        .upload(&FileShare {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "read this",
            files: vec![("huge.csv".to_owned(), vec![b'1'; 6 << 20].into())],
            ..FileShare::default()
        })
        .unwrap();
    test.wait("the done or failed emoji", |workspace| {
        let question = workspace.message(seed::DM_ALEX, &ts)?;
        (has_reaction(question, DONE) || has_reaction(question, FAILED)).then_some(())
    })
    .await;
    let reply = answers(&test.slack.thread(seed::DM_ALEX, &ts)).join("\n");
    assert!(
        reply.contains("huge.csv") && reply.contains("too large"),
        "{reply}"
    );
    let fetched = test
        .slack
        .inspect(|workspace| workspace.calls_of("download").len());
    assert_eq!(fetched, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_18_omitted_attachment_is_reported() {
    let test = SlackTestBuilder::new().start().await;
    let files = (1..=6).map(|number| (format!("part{number}.txt"), b"text".to_vec().into()));
    let ts = test
        .slack
        .upload(&FileShare {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "all of these",
            files: files.collect(),
            ..FileShare::default()
        })
        .unwrap();
    let thread = test.wait_for_reaction(seed::DM_ALEX, &ts, DONE).await;
    let reply = answers(&thread).join("\n");
    assert!(
        reply.contains("part6.txt") && reply.contains("more than 5"),
        "{reply}"
    );
    // A link into a channel that the user cannot see adds none of its content.
    let secret_ts = test
        .slack
        .post(seed::MALLORY, seed::SECRET, "the secret of the team")
        .unwrap();
    let link = format!(
        "echo see https://playground.slack.com/archives/{}/p{}",
        seed::SECRET,
        secret_ts.replace('.', "")
    );
    let thread = test.ask(seed::ALEX, seed::DM_ALEX, &link).await;
    assert!(!answers(&thread).join("").contains("secret of the team"));
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_19_long_task_does_not_block_other_questions() {
    let test = SlackTestBuilder::new()
        .execution(|setup| setup.set("execution.sync_budget", "1s"))
        .start()
        .await;
    let slow = test
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "wait 4")
        .unwrap();
    let thread = test.ask(seed::HANA, seed::DM_HANA, "echo meanwhile").await;
    assert_eq!(answers(&thread), ["meanwhile"]);
    let thread = test.wait_for_reaction(seed::DM_ALEX, &slow, DONE).await;
    assert_eq!(answers(&thread).len(), 1, "{thread:#?}");
}
