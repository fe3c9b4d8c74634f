//! Questions and their outcomes: answers, rejections, context and files.

use super::{VerificationFixture, VerificationSetup, WAIT_TIMEOUT};
use interzone_playground::{FileShare, seed};
use interzone_protocol::zone::UserMessageKey;
use interzone_verification::intake::QuestionRules;
use interzone_verification::{Language, texts};
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn mention_is_answered_once_in_its_thread() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    let answers = world.answers(seed::GENERAL, &ts);
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert!(
        answers[0].displayed_text().contains("You said: hello"),
        "{answers:#?}"
    );
    let created = world.agent.created_tasks();
    assert_eq!(created.len(), 1);
    assert_eq!(created[0]["text"], "hello");
    assert_eq!(created[0]["channel"], seed::GENERAL);
    assert_eq!(created[0]["team_id"], seed::TEAM);
    assert_eq!(created[0]["user_id"], seed::ALEX);
    assert_eq!(created[0]["thread_ts"], ts.as_str());
    let token = created[0]["bot_token"].as_str().unwrap();
    assert!(token.starts_with("izc_"), "fault 13: {token}");
    let audited = world.wait_for_audit_lines(1).await;
    assert_eq!(audited.len(), 1, "{audited:?}");
    assert_eq!(audited[0]["outcome"], "answered");
    assert_eq!(audited[0]["correlation"], created[0]["correlation_id"]);
    assert!(!audited[0].to_string().contains("hello"));
}

#[tokio::test]
async fn fault_7_mention_in_auto_reply_channel_is_answered_once() {
    let channel = seed::GENERAL.parse().unwrap();
    let world = VerificationFixture::with_setup(VerificationSetup {
        rules: QuestionRules {
            auto_reply: BTreeSet::from([channel]),
            ..QuestionRules::default()
        },
        ..VerificationSetup::default()
    })
    .await;
    let slack = &world.playground;
    let plain = slack.post(seed::ALEX, seed::GENERAL, "no mention").unwrap();
    let both = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone to you")
        .unwrap();
    for ts in [&plain, &both] {
        assert_eq!(
            world.wait_for_reaction(seed::GENERAL, ts).await,
            "white_check_mark"
        );
    }
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 2);
    assert_eq!(world.answers(seed::GENERAL, &both).len(), 1);
}

#[tokio::test]
async fn unaddressed_messages_and_edits_are_ignored() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    slack.post(seed::ALEX, seed::GENERAL, "no mention").unwrap();
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    slack
        .edit(seed::ALEX, seed::DM_ALEX, &ts, "hello you")
        .unwrap();
    let last = slack.post(seed::ALEX, seed::DM_ALEX, "again").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &last).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    // The bot's own answers were delivered as message events, too.
    assert_eq!(world.agent.created_tasks().len(), 2);
}

#[tokio::test]
async fn fault_2_4_empty_user_list_rejects_with_notice() {
    let world = VerificationFixture::with_setup(VerificationSetup {
        users: Vec::new(),
        ..VerificationSetup::default()
    })
    .await;
    let slack = &world.playground;
    slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert!(!world.wait_for_ephemeral(seed::ALEX).await.is_empty());
    slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    let japanese = world.wait_for_ephemeral(seed::HANA).await;
    assert!(!japanese.is_ascii(), "{japanese}");
    world.wait_until_idle().await;
    assert!(world.agent.created_tasks().is_empty());
    let outcomes = world.wait_for_audit_lines(2).await;
    assert_eq!(outcomes.len(), 2);
    assert_eq!(outcomes[0]["outcome"], "users_empty");
    let deliveries = slack.inspect(|workspace| {
        let all = workspace.deliveries();
        all.map(|delivery| delivery.outcome.clone())
            .collect::<Vec<_>>()
    });
    assert!(
        deliveries.iter().all(|outcome| outcome == "ok"),
        "{deliveries:?}"
    );
}

#[tokio::test]
async fn fault_5_retried_question_is_charged_once() {
    let world = VerificationFixture::with_setup(VerificationSetup {
        per_minute: 2,
        ..VerificationSetup::default()
    })
    .await;
    let slack = &world.playground;
    // The first needs three attempts and counts as one question.
    slack.faults().status("users.info", 500, 2);
    let first = slack.post(seed::ALEX, seed::DM_ALEX, "one").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &first).await,
        "white_check_mark"
    );
    let second = slack.post(seed::ALEX, seed::DM_ALEX, "two").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &second).await,
        "white_check_mark"
    );
    slack.post(seed::ALEX, seed::DM_ALEX, "three").unwrap();
    world.wait_for_ephemeral(seed::ALEX).await;
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 2);
    assert_eq!(
        world.wait_for_audit_lines(3).await.last().unwrap()["outcome"],
        "rate_limited"
    );
}

#[tokio::test]
async fn fault_3_slack_errors_do_not_reject_question() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    slack.faults().rate_limit("conversations.info", 1, 1);
    slack.faults().status("team.info", 503, 1);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    assert_eq!(world.agent.created_tasks().len(), 1);
}

#[tokio::test]
async fn unknown_user_and_missing_scope_are_rejected() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    slack.faults().reject("users.info", "user_not_found", 1);
    slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    world.wait_for_ephemeral(seed::ALEX).await;
    slack.faults().reject("users.info", "missing_scope", 1);
    slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    world.wait_for_ephemeral(seed::HANA).await;
    world.wait_until_idle().await;
    assert!(world.agent.created_tasks().is_empty());
    let outcomes = world.wait_for_audit_lines(2).await;
    assert_eq!(outcomes[0]["outcome"], "unknown_entity");
    assert_eq!(outcomes[1]["outcome"], "missing_permission");
}

#[tokio::test]
async fn too_long_and_empty_questions_get_a_notice() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    slack
        .post(seed::ALEX, seed::DM_ALEX, &"a".repeat(4_001))
        .unwrap();
    let notice = world.wait_for_ephemeral(seed::ALEX).await;
    assert!(
        notice.contains("4,000") || notice.contains("4000"),
        "{notice}"
    );
    slack.post(seed::HANA, seed::GENERAL, "@interzone").unwrap();
    world.wait_for_ephemeral(seed::HANA).await;
    world.wait_until_idle().await;
    assert!(world.agent.created_tasks().is_empty());
}

#[tokio::test]
async fn invisible_text_is_rejected_as_empty() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let invisible = "\u{200b}\u{2060}\u{feff}\u{ad}\u{200f}";
    slack.post(seed::ALEX, seed::DM_ALEX, invisible).unwrap();
    let ask = texts::error_text(Language::En, UserMessageKey::AskSomething);
    assert_eq!(world.wait_for_ephemeral(seed::ALEX).await, ask);
    // The same without Slack's mention of the bot in the text.
    let text = format!("<@{}> {invisible}", seed::BOT_USER);
    let body = json!({
        "type": "event_callback", "event_id": "EvUnseen", "team_id": seed::TEAM,
        "event": {
            "type": "app_mention", "channel": seed::GENERAL, "user": seed::ALEX,
            "ts": "1700000000.000100", "text": text,
        },
    });
    let zone = world.running_node().zone.clone();
    zone.ingest_event(body.to_string().as_bytes())
        .await
        .unwrap();
    let outcomes = world.wait_for_audit_lines(2).await;
    assert_eq!(outcomes[0]["outcome"], "empty");
    assert_eq!(outcomes[1]["outcome"], "missing_text");
    assert!(world.agent.created_tasks().is_empty());
}

#[tokio::test]
async fn status_text_is_shown_without_bidi_controls() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let text = "status reading \u{202e}fdp.exe\u{202c} <\u{2066}!channel>";
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, text).unwrap();
    let shown = slack.wait_for(WAIT_TIMEOUT, |workspace| {
        let calls = workspace.calls_of("assistant.threads.setStatus");
        let mut statuses = calls.iter().filter_map(|call| call.args["status"].as_str());
        statuses
            .find(|status| status.starts_with("reading"))
            .map(str::to_owned)
    });
    let shown = shown.await.expect("a status before the timeout");
    assert!(shown.starts_with("reading fdp.exe <"), "{shown:?}");
    let is_bidi_control =
        |char: char| matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!shown.contains(is_bidi_control), "{shown:?}");
    // Removing them does not produce a channel mention.
    assert!(!shown.contains("<!channel"), "{shown:?}");
    world.agent.finish("done");
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
}

#[tokio::test]
async fn fault_10_context_has_latest_messages_with_authors() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let thread = slack
        .post(seed::ALEX, seed::GENERAL, "the beginning")
        .unwrap();
    for number in 0..30 {
        let text = format!("remark {number}");
        slack
            .reply(seed::HANA, seed::GENERAL, &thread, &text)
            .unwrap();
    }
    let ts = slack
        .reply(seed::ALEX, seed::GENERAL, &thread, "@interzone sum up")
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "white_check_mark"
    );
    let created = &world.agent.created_tasks()[0];
    let context = created["context"].as_array().unwrap();
    assert_eq!(context.len(), 20);
    assert_eq!(
        context[19],
        json!({"role": "user", "user": "花子", "text": "remark 29"})
    );
    assert_eq!(context[0]["text"], "remark 10");
    world.wait_until_idle().await;
    let next = slack
        .reply(seed::ALEX, seed::GENERAL, &thread, "@interzone and now?")
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &next).await,
        "white_check_mark"
    );
    let created = &world.agent.created_tasks()[1];
    let last = created["context"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "assistant");
    assert!(
        last["text"].as_str().unwrap().contains("You said: sum up"),
        "{last}"
    );
}

#[tokio::test]
async fn mentions_are_replaced_by_names() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let thread = slack
        .post(seed::HANA, seed::GENERAL, "ask <@U0ALEX> or <@U0UNKNOWN>")
        .unwrap();
    let ts = slack
        .reply(
            seed::ALEX,
            seed::GENERAL,
            &thread,
            "@interzone what did <@U0HANA> and <@U0UNKNOWN> mean?",
        )
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "white_check_mark"
    );
    let created = &world.agent.created_tasks()[0];
    let name = slack.inspect(|workspace| workspace.user(seed::ALEX).unwrap().display_name.clone());
    assert_eq!(created["text"], "what did @花子 and <@U0UNKNOWN> mean?");
    assert_eq!(
        created["context"][0]["text"],
        format!("ask @{name} or <@U0UNKNOWN>")
    );
}

#[tokio::test]
async fn forwarded_message_is_context_with_its_author() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    slack.send_event(json!({
        "type": "message", "channel": seed::DM_ALEX, "channel_type": "im", "user": seed::ALEX,
        "ts": "1700000000.000100", "text": "sum up",
        "attachments": [{"is_share": true, "author_name": "Hana", "text": "<@U0HANA> was here"}],
    }));
    world.agent.wait_for_tasks(1).await;
    world.wait_until_idle().await;
    assert_eq!(
        world.agent.created_tasks()[0]["context"],
        json!([{"role": "user", "user": "Hana (forwarded message)", "text": "@花子 was here"}])
    );
}

#[tokio::test]
async fn own_bot_message_is_not_a_question() {
    let world = VerificationFixture::new().await;
    let body = json!({
        "type": "event_callback", "event_id": "EvOwn", "team_id": seed::TEAM,
        "event": {
            "type": "message", "channel": seed::DM_ALEX, "user": seed::BOT_USER,
            "ts": "1700000000.000100", "text": "an answer",
        },
    });
    let zone = world.running_node().zone.clone();
    zone.ingest_event(body.to_string().as_bytes())
        .await
        .unwrap();
    world.wait_until_idle().await;
    assert_eq!(world.wait_for_audit_lines(1).await[0]["outcome"], "own");
    assert!(world.agent.created_tasks().is_empty());
    let is_post = |call: &interzone_playground::ApiCall| call.method.starts_with("chat.");
    assert!(
        !world
            .playground
            .inspect(|workspace| workspace.calls().any(is_post))
    );
}

#[tokio::test]
async fn linked_thread_is_context_only_if_asker_can_read_it() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let plans = slack
        .post(seed::HANA, seed::PLANS, "the secret plan")
        .unwrap();
    let link = format!(
        "https://playground.slack.com/archives/{}/p{}",
        seed::PLANS,
        plans.replace('.', "")
    );
    let text = format!("@interzone read {link}");
    let allowed = slack.post(seed::ALEX, seed::GENERAL, &text).unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &allowed).await,
        "white_check_mark"
    );
    let refused = slack.post(seed::MALLORY, seed::GENERAL, &text).unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &refused).await,
        "white_check_mark"
    );
    let created = world.agent.created_tasks();
    assert_eq!(created[0]["context"][0]["text"], "the secret plan");
    assert!(created[1].get("context").is_none(), "{}", created[1]);
}

#[tokio::test]
async fn fault_8_17_files_are_attached_or_reported_as_skipped() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    for is_stub in [false, true] {
        let ts = slack
            .upload(&FileShare {
                user: seed::ALEX,
                channel: seed::DM_ALEX,
                text: "what is this?",
                files: vec![
                    ("a.csv".to_owned(), "a,b\n1,2\n".into()),
                    ("b.exe".to_owned(), "MZ".into()),
                    ("c.txt".to_owned(), vec![b'x'; 5 * 1024 * 1024 + 1].into()),
                ],
                is_stub,
                ..FileShare::default()
            })
            .unwrap();
        assert_eq!(
            world.wait_for_reaction(seed::DM_ALEX, &ts).await,
            "white_check_mark"
        );
        world.wait_until_idle().await;
        let created = world.agent.created_tasks().pop().unwrap();
        let attachments = created["attachments"].as_array().unwrap();
        assert_eq!(attachments.len(), 1, "{is_stub}");
        assert_eq!(attachments[0]["name"], "a.csv");
        assert_eq!(attachments[0]["content_base64"], "YSxiCjEsMgo=");
        let text = world.answers(seed::DM_ALEX, &ts)[0].displayed_text();
        assert!(text.contains("b.exe") && text.contains("c.txt"), "{text}");
    }
    let downloads = slack.inspect(|workspace| workspace.calls_of("download").len());
    assert_eq!(downloads, 2, "skipped files are not downloaded");
}

#[tokio::test]
async fn generated_file_is_posted_in_thread() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "file csv").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    let files: Vec<_> = world
        .answers(seed::DM_ALEX, &ts)
        .into_iter()
        .flat_map(|message| message.files)
        .collect();
    assert_eq!(files.len(), 1);
    let name = slack.inspect(|workspace| workspace.file(&files[0]).map(|file| file.name.clone()));
    assert_eq!(name.as_deref(), Some("a.csv"));
}

#[tokio::test]
async fn fault_16_failure_has_user_message_and_own_reaction() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "fail bedrock_timeout")
        .unwrap();
    assert_eq!(world.wait_for_reaction(seed::DM_ALEX, &ts).await, "x");
    world.wait_until_idle().await;
    let text = world.answers(seed::DM_ALEX, &ts)[0].displayed_text();
    assert!(
        !text.contains("bedrock") && !text.contains("did not work"),
        "{text}"
    );
    assert_eq!(
        world.wait_for_audit_lines(1).await[0]["outcome"],
        "bedrock_timeout"
    );
}

#[tokio::test]
async fn unavailable_execution_zone_is_retried_then_reported() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    world.agent.fail_next_calls(5);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    assert_eq!(world.agent.created_tasks().len(), 1);
    world.agent.fail_next_calls(u32::MAX);
    let ts = slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    assert_eq!(world.wait_for_reaction(seed::DM_HANA, &ts).await, "x");
    assert_eq!(world.agent.created_tasks().len(), 1);
}

#[tokio::test]
async fn reply_to_agent_question_continues_its_task() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "ask Which year?")
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    assert!(
        world.answers(seed::DM_ALEX, &ts)[0]
            .displayed_text()
            .contains("Which year?")
    );
    for (text, task_id) in [("2024", json!("task-1")), ("thanks", json!(null))] {
        let reply = slack.reply(seed::ALEX, seed::DM_ALEX, &ts, text).unwrap();
        assert_eq!(
            world.wait_for_reaction(seed::DM_ALEX, &reply).await,
            "white_check_mark"
        );
        world.wait_until_idle().await;
        let created = world.agent.created_tasks().pop().unwrap();
        assert_eq!(
            (&created["text"], &created["task_id"]),
            (&json!(text), &task_id)
        );
    }
}

#[tokio::test]
async fn followed_threads_are_those_with_an_answer() {
    let world = VerificationFixture::with_setup(VerificationSetup {
        rules: QuestionRules {
            follow_threads: true,
            ..QuestionRules::default()
        },
        ..VerificationSetup::default()
    })
    .await;
    let slack = &world.playground;
    let other = slack.post(seed::HANA, seed::GENERAL, "lunch?").unwrap();
    slack
        .reply(seed::ALEX, seed::GENERAL, &other, "yes")
        .unwrap();
    let ours = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ours).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    let reply = slack
        .reply(seed::ALEX, seed::GENERAL, &ours, "and you?")
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &reply).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    let created: Vec<_> = world.agent.created_tasks();
    let texts: Vec<_> = created
        .iter()
        .map(|params| params["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["hello", "and you?"]);
}
