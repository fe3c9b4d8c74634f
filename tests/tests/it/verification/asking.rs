//! Questions and what becomes of them: answers, refusals, context and files.

use super::{PATIENCE, Setup, World};
use interzone_playground::{Upload, seed};
use interzone_protocol::zone::MessageKey;
use interzone_verification::intake::Rules;
use interzone_verification::{Language, texts};
use serde_json::json;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_mention_is_answered_once_in_its_thread() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "white_check_mark");
    world.quiet().await;
    let answers = world.answers(seed::GENERAL, &ts);
    assert_eq!(answers.len(), 1, "{answers:#?}");
    assert!(
        answers[0].shown().contains("You said: hello"),
        "{answers:#?}"
    );
    let asked = world.agent.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["text"], "hello");
    assert_eq!(asked[0]["channel"], seed::GENERAL);
    assert_eq!(asked[0]["team_id"], seed::TEAM);
    assert_eq!(asked[0]["user_id"], seed::ALEX);
    assert_eq!(asked[0]["thread_ts"], ts.as_str());
    let token = asked[0]["bot_token"].as_str().unwrap();
    assert!(token.starts_with("izc_"), "fault 13: {token}");
    let audited = world.audited(1).await;
    assert_eq!(audited.len(), 1, "{audited:?}");
    assert_eq!(audited[0]["outcome"], "answered");
    assert_eq!(audited[0]["correlation"], asked[0]["correlation_id"]);
    assert!(!audited[0].to_string().contains("hello"));
}

#[tokio::test]
async fn fault_7_a_mention_in_a_channel_where_all_is_answered_is_answered_once() {
    let channel = seed::GENERAL.parse().unwrap();
    let world = World::with(Setup {
        rules: Rules {
            auto_reply: BTreeSet::from([channel]),
            ..Rules::default()
        },
        ..Setup::default()
    })
    .await;
    let slack = &world.playground;
    let plain = slack.post(seed::ALEX, seed::GENERAL, "to nobody").unwrap();
    let both = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone to you")
        .unwrap();
    for ts in [&plain, &both] {
        assert_eq!(world.sign(seed::GENERAL, ts).await, "white_check_mark");
    }
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 2);
    assert_eq!(world.answers(seed::GENERAL, &both).len(), 1);
}

#[tokio::test]
async fn what_is_not_for_us_is_left_alone() {
    let world = World::new().await;
    let slack = &world.playground;
    slack.post(seed::ALEX, seed::GENERAL, "to nobody").unwrap();
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    slack
        .edit(seed::ALEX, seed::DM_ALEX, &ts, "hello you")
        .unwrap();
    let last = slack.post(seed::ALEX, seed::DM_ALEX, "again").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &last).await, "white_check_mark");
    world.quiet().await;
    // Our own answers came to us as messages, too.
    assert_eq!(world.agent.asked().len(), 2);
}

#[tokio::test]
async fn fault_2_4_nobody_is_let_in_by_an_empty_list_and_they_are_told() {
    let world = World::with(Setup {
        users: Vec::new(),
        ..Setup::default()
    })
    .await;
    let slack = &world.playground;
    slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert!(!world.told(seed::ALEX).await.is_empty());
    slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    let japanese = world.told(seed::HANA).await;
    assert!(!japanese.is_ascii(), "{japanese}");
    world.quiet().await;
    assert!(world.agent.asked().is_empty());
    let outcomes = world.audited(2).await;
    assert_eq!(outcomes.len(), 2);
    assert_eq!(outcomes[0]["outcome"], "users_empty");
    let deliveries = slack.look(|workspace| {
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
async fn fault_5_a_question_is_charged_once() {
    let world = World::with(Setup {
        per_minute: 2,
        ..Setup::default()
    })
    .await;
    let slack = &world.playground;
    // The first is tried three times, and is one question all the same.
    slack.faults().status("users.info", 500, 2);
    let first = slack.post(seed::ALEX, seed::DM_ALEX, "one").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &first).await, "white_check_mark");
    let second = slack.post(seed::ALEX, seed::DM_ALEX, "two").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &second).await, "white_check_mark");
    slack.post(seed::ALEX, seed::DM_ALEX, "three").unwrap();
    world.told(seed::ALEX).await;
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 2);
    assert_eq!(
        world.audited(3).await.last().unwrap()["outcome"],
        "rate_limited"
    );
}

#[tokio::test]
async fn fault_3_a_slack_that_is_slow_or_busy_refuses_nobody() {
    let world = World::new().await;
    let slack = &world.playground;
    slack.faults().rate_limit("conversations.info", 1, 1);
    slack.faults().status("team.info", 503, 1);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    assert_eq!(world.agent.asked().len(), 1);
}

#[tokio::test]
async fn strangers_who_have_left_are_refused_and_a_missing_scope_is_said() {
    let world = World::new().await;
    let slack = &world.playground;
    slack.faults().refuse("users.info", "user_not_found", 1);
    slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    world.told(seed::ALEX).await;
    slack.faults().refuse("users.info", "missing_scope", 1);
    slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    world.told(seed::HANA).await;
    world.quiet().await;
    assert!(world.agent.asked().is_empty());
    let outcomes = world.audited(2).await;
    assert_eq!(outcomes[0]["outcome"], "unknown_entity");
    assert_eq!(outcomes[1]["outcome"], "missing_permission");
}

#[tokio::test]
async fn too_long_and_empty_are_told() {
    let world = World::new().await;
    let slack = &world.playground;
    slack
        .post(seed::ALEX, seed::DM_ALEX, &"a".repeat(4_001))
        .unwrap();
    let told = world.told(seed::ALEX).await;
    assert!(told.contains("4,000") || told.contains("4000"), "{told}");
    slack.post(seed::HANA, seed::GENERAL, "@interzone").unwrap();
    world.told(seed::HANA).await;
    world.quiet().await;
    assert!(world.agent.asked().is_empty());
}

#[tokio::test]
async fn what_nobody_can_read_is_no_question() {
    let world = World::new().await;
    let slack = &world.playground;
    let unseen = "\u{200b}\u{2060}\u{feff}\u{ad}\u{200f}";
    slack.post(seed::ALEX, seed::DM_ALEX, unseen).unwrap();
    let ask = texts::error(Language::En, MessageKey::AskSomething);
    assert_eq!(world.told(seed::ALEX).await, ask);
    // Nor is it one if Slack does not say that it is we who are mentioned.
    let text = format!("<@{}> {unseen}", seed::BOT_USER);
    let body = json!({
        "type": "event_callback", "event_id": "EvUnseen", "team_id": seed::TEAM,
        "event": {
            "type": "app_mention", "channel": seed::GENERAL, "user": seed::ALEX,
            "ts": "1700000000.000100", "text": text,
        },
    });
    let zone = world.running().zone.clone();
    zone.take_event(body.to_string().as_bytes()).await.unwrap();
    let outcomes = world.audited(2).await;
    assert_eq!(outcomes[0]["outcome"], "empty");
    assert_eq!(outcomes[1]["outcome"], "missing_text");
    assert!(world.agent.asked().is_empty());
}

#[tokio::test]
async fn what_an_agent_does_is_shown_on_a_line_that_nothing_turns_around() {
    let world = World::new().await;
    let slack = &world.playground;
    let text = "status reading \u{202e}fdp.exe\u{202c} <\u{2066}!channel>";
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, text).unwrap();
    let shown = slack.wait(PATIENCE, |workspace| {
        let calls = workspace.calls_of("assistant.threads.setStatus");
        let mut statuses = calls.iter().filter_map(|call| call.args["status"].as_str());
        statuses
            .find(|status| status.starts_with("reading"))
            .map(str::to_owned)
    });
    let shown = shown.await.expect("no status is shown");
    assert!(shown.starts_with("reading fdp.exe <"), "{shown:?}");
    let turns = |sign: char| matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!shown.contains(turns), "{shown:?}");
    // Without them it calls nobody either.
    assert!(!shown.contains("<!channel"), "{shown:?}");
    world.agent.finish("done");
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
}

#[tokio::test]
async fn fault_10_the_newest_messages_go_along_with_who_said_them() {
    let world = World::new().await;
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
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "white_check_mark");
    let asked = &world.agent.asked()[0];
    let context = asked["context"].as_array().unwrap();
    assert_eq!(context.len(), 20);
    assert_eq!(
        context[19],
        json!({"role": "user", "user": "花子", "text": "remark 29"})
    );
    assert_eq!(context[0]["text"], "remark 10");
    world.quiet().await;
    let next = slack
        .reply(seed::ALEX, seed::GENERAL, &thread, "@interzone and now?")
        .unwrap();
    assert_eq!(world.sign(seed::GENERAL, &next).await, "white_check_mark");
    let asked = &world.agent.asked()[1];
    let last = asked["context"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "assistant");
    assert!(
        last["text"].as_str().unwrap().contains("You said: sum up"),
        "{last}"
    );
}

#[tokio::test]
async fn whoever_is_mentioned_goes_by_name() {
    let world = World::new().await;
    let slack = &world.playground;
    let thread = slack
        .post(seed::HANA, seed::GENERAL, "ask <@U0ALEX> or <@U0NOBODY>")
        .unwrap();
    let ts = slack
        .reply(
            seed::ALEX,
            seed::GENERAL,
            &thread,
            "@interzone what did <@U0HANA> and <@U0NOBODY> mean?",
        )
        .unwrap();
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "white_check_mark");
    let asked = &world.agent.asked()[0];
    let name = slack.look(|workspace| workspace.user(seed::ALEX).unwrap().display_name.clone());
    assert_eq!(asked["text"], "what did @花子 and <@U0NOBODY> mean?");
    assert_eq!(
        asked["context"][0]["text"],
        format!("ask @{name} or <@U0NOBODY>")
    );
}

#[tokio::test]
async fn a_forwarded_message_goes_along_with_who_said_it() {
    let world = World::new().await;
    let slack = &world.playground;
    slack.send_event(json!({
        "type": "message", "channel": seed::DM_ALEX, "channel_type": "im", "user": seed::ALEX,
        "ts": "1700000000.000100", "text": "sum up",
        "attachments": [{"is_share": true, "author_name": "Hana", "text": "<@U0HANA> was here"}],
    }));
    world.agent.has_begun(1).await;
    world.quiet().await;
    assert_eq!(
        world.agent.asked()[0]["context"],
        json!([{"role": "user", "user": "Hana (forwarded message)", "text": "@花子 was here"}])
    );
}

#[tokio::test]
async fn our_own_words_are_no_question_even_if_slack_does_not_say_whose_they_are() {
    let world = World::new().await;
    let body = json!({
        "type": "event_callback", "event_id": "EvOwn", "team_id": seed::TEAM,
        "event": {
            "type": "message", "channel": seed::DM_ALEX, "user": seed::BOT_USER,
            "ts": "1700000000.000100", "text": "an answer",
        },
    });
    let zone = world.running().zone.clone();
    zone.take_event(body.to_string().as_bytes()).await.unwrap();
    world.quiet().await;
    assert_eq!(world.audited(1).await[0]["outcome"], "own");
    assert!(world.agent.asked().is_empty());
    let told = |call: &interzone_playground::Call| call.method.starts_with("chat.");
    assert!(
        !world
            .playground
            .look(|workspace| workspace.calls().any(told))
    );
}

#[tokio::test]
async fn a_linked_thread_goes_along_only_if_the_asker_may_read_it() {
    let world = World::new().await;
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
        world.sign(seed::GENERAL, &allowed).await,
        "white_check_mark"
    );
    let refused = slack.post(seed::MALLORY, seed::GENERAL, &text).unwrap();
    assert_eq!(
        world.sign(seed::GENERAL, &refused).await,
        "white_check_mark"
    );
    let asked = world.agent.asked();
    assert_eq!(asked[0]["context"][0]["text"], "the secret plan");
    assert!(asked[1].get("context").is_none(), "{}", asked[1]);
}

#[tokio::test]
async fn fault_8_17_files_go_along_and_what_is_left_out_is_said() {
    let world = World::new().await;
    let slack = &world.playground;
    for stub in [false, true] {
        let ts = slack
            .upload(&Upload {
                user: seed::ALEX,
                channel: seed::DM_ALEX,
                text: "what is this?",
                files: vec![
                    ("a.csv".to_owned(), "a,b\n1,2\n".into()),
                    ("b.exe".to_owned(), "MZ".into()),
                    ("c.txt".to_owned(), vec![b'x'; 5 * 1024 * 1024 + 1].into()),
                ],
                stub,
                ..Upload::default()
            })
            .unwrap();
        assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
        world.quiet().await;
        let asked = world.agent.asked().pop().unwrap();
        let attachments = asked["attachments"].as_array().unwrap();
        assert_eq!(attachments.len(), 1, "{stub}");
        assert_eq!(attachments[0]["name"], "a.csv");
        assert_eq!(attachments[0]["content_base64"], "YSxiCjEsMgo=");
        let said = world.answers(seed::DM_ALEX, &ts)[0].shown();
        assert!(said.contains("b.exe") && said.contains("c.txt"), "{said}");
    }
    let downloads = slack.look(|workspace| workspace.calls_of("download").len());
    assert_eq!(downloads, 2, "what is not taken is not fetched");
}

#[tokio::test]
async fn a_file_that_is_made_is_posted_in_the_thread() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "file csv").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    world.quiet().await;
    let files: Vec<_> = world
        .answers(seed::DM_ALEX, &ts)
        .into_iter()
        .flat_map(|message| message.files)
        .collect();
    assert_eq!(files.len(), 1);
    let name = slack.look(|workspace| workspace.file(&files[0]).map(|file| file.name.clone()));
    assert_eq!(name.as_deref(), Some("a.csv"));
}

#[tokio::test]
async fn fault_16_a_failure_is_said_in_our_words_and_has_a_sign_of_its_own() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "fail bedrock_timeout")
        .unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "x");
    world.quiet().await;
    let said = world.answers(seed::DM_ALEX, &ts)[0].shown();
    assert!(
        !said.contains("bedrock") && !said.contains("did not work"),
        "{said}"
    );
    assert_eq!(world.audited(1).await[0]["outcome"], "bedrock_timeout");
}

#[tokio::test]
async fn an_execution_zone_that_is_away_is_asked_again_and_then_the_user_is_told() {
    let world = World::new().await;
    let slack = &world.playground;
    world.agent.be_away(5);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    assert_eq!(world.agent.asked().len(), 1);
    world.agent.be_away(u32::MAX);
    let ts = slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_HANA, &ts).await, "x");
    assert_eq!(world.agent.asked().len(), 1);
}

#[tokio::test]
async fn an_answer_to_a_question_of_the_agent_goes_to_the_task_that_asked() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "ask Which year?")
        .unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    world.quiet().await;
    assert!(
        world.answers(seed::DM_ALEX, &ts)[0]
            .shown()
            .contains("Which year?")
    );
    for (text, answers) in [("2024", json!("task-1")), ("thanks", json!(null))] {
        let reply = slack.reply(seed::ALEX, seed::DM_ALEX, &ts, text).unwrap();
        assert_eq!(world.sign(seed::DM_ALEX, &reply).await, "white_check_mark");
        world.quiet().await;
        let asked = world.agent.asked().pop().unwrap();
        assert_eq!(
            (&asked["text"], &asked["task_id"]),
            (&json!(text), &answers)
        );
    }
}

#[tokio::test]
async fn a_thread_is_followed_only_where_we_answered_and_are_told_to() {
    let world = World::with(Setup {
        rules: Rules {
            follow_threads: true,
            ..Rules::default()
        },
        ..Setup::default()
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
    assert_eq!(world.sign(seed::GENERAL, &ours).await, "white_check_mark");
    world.quiet().await;
    let reply = slack
        .reply(seed::ALEX, seed::GENERAL, &ours, "and you?")
        .unwrap();
    assert_eq!(world.sign(seed::GENERAL, &reply).await, "white_check_mark");
    world.quiet().await;
    let asked: Vec<_> = world.agent.asked();
    let texts: Vec<_> = asked
        .iter()
        .map(|asked| asked["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["hello", "and you?"]);
}
