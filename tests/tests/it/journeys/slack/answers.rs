//! Questions, files, buttons and feedback in Slack, and the answers that users get.

use super::fixture::{DONE, FAILED, RECEIVED, STOPPED, SlackTestBuilder, answers, has_reaction};
use interzone_playground::{DeliveryMode, FileShare, seed};
use serde_json::Value;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn mention_is_answered_once_by_a_stream_in_its_thread() {
    let test = SlackTestBuilder::new().start().await;
    let thread = test
        .ask(seed::ALEX, seed::GENERAL, "@interzone stream 200")
        .await;
    assert_eq!(thread.len(), 2, "the question and one answer: {thread:#?}");
    let answer = &thread[1];
    assert_eq!(answer.user, seed::BOT_USER);
    assert_eq!(
        answer.thread_ts.as_deref(),
        Some(thread[0].ts.as_str()),
        "in the thread"
    );
    assert!(
        answer
            .displayed_text()
            .starts_with("one word after another"),
        "{answer:#?}"
    );
    test.wait("the received emoji to be removed", |workspace| {
        let question = workspace.message(seed::GENERAL, &thread[0].ts)?;
        (!has_reaction(question, RECEIVED)).then_some(())
    })
    .await;
    let (started, appended) = test.slack.inspect(|workspace| {
        (
            workspace.calls_of("chat.startStream").len(),
            workspace.calls_of("chat.appendStream").len(),
        )
    });
    assert_eq!(started, 1, "one stream");
    assert!(
        appended >= 1,
        "text was appended while the task ran: {appended}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_without_streaming_support_edits_one_message() {
    let test = SlackTestBuilder::new().start().await;
    let faults = test.slack.faults();
    faults.reject("chat.startStream", "unknown_method", u32::MAX);
    faults.reject("assistant.threads.setStatus", "unknown_method", u32::MAX);
    let thread = test.ask(seed::ALEX, seed::DM_ALEX, "stream 60").await;
    let replies = answers(&thread);
    assert_eq!(replies.len(), 1, "{replies:#?}");
    assert!(replies[0].starts_with("one word after"), "{replies:#?}");
    assert!(
        replies[0].trim_end().ends_with("lost."),
        "complete to the last word: {replies:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_file_is_posted_with_the_answer() {
    let test = SlackTestBuilder::new().start().await;
    let thread = test
        .ask(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .await;
    let files: Vec<&String> = thread.iter().flat_map(|message| &message.files).collect();
    assert_eq!(files.len(), 1, "{thread:#?}");
    let file = test
        .slack
        .inspect(|workspace| workspace.file(files[0]).cloned().unwrap());
    assert!(file.name.ends_with(".csv"), "{file:?}");
    let bytes = file.bytes.clone().unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.starts_with("a,b"), "{text:?}");
    let reply = answers(&thread).join("\n");
    assert!(reply.contains("Here is"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_file_is_read_by_the_agent() {
    let test = SlackTestBuilder::new().start().await;
    for is_stub in [false, true] {
        let upload = FileShare {
            user: seed::HANA,
            channel: seed::DM_HANA,
            thread: None,
            text: "what is this?",
            files: vec![(
                "売上.csv".to_owned(),
                "月,金額\n1月,1200\n".as_bytes().to_vec().into(),
            )],
            is_stub,
        };
        let ts = test.slack.upload(&upload).unwrap();
        let thread = test.wait_for_reaction(seed::DM_HANA, &ts, DONE).await;
        let reply = answers(&thread).join("\n");
        assert!(reply.contains("売上.csv"), "stub {is_stub}: {reply}");
        assert!(reply.contains("月,金額"), "its first line: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_button_cancels_the_task() {
    let test = SlackTestBuilder::new().start().await;
    let ts = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait 500")
        .unwrap();
    let (button, visible_to) = test
        .wait("a stop button", |workspace| {
            let all = workspace
                .messages(seed::GENERAL)
                .chain(workspace.ephemerals());
            // Without any reply yet, it is an ephemeral message in the channel.
            let mut with_button = all.filter(|message| {
                let blocks = serde_json::to_string(&message.blocks).unwrap();
                blocks.contains("interzone_stop")
            });
            let found = with_button.next()?;
            Some((found.ts.clone(), found.visible_to.clone()))
        })
        .await;
    assert!(
        visible_to.is_none_or(|user| user == seed::ALEX),
        "only the asking user sees the button"
    );
    test.slack
        .press(seed::ALEX, seed::GENERAL, &button, "interzone_stop", None)
        .unwrap();
    let thread = test.wait_for_reaction(seed::GENERAL, &ts, STOPPED).await;
    let reply = answers(&thread).join("\n");
    assert!(reply.contains("Stopped."), "{reply}");
    assert!(!has_reaction(&thread[0], DONE) && !has_reaction(&thread[0], FAILED));

    // The Execution Zone received the cancellation.
    test.execution
        .wait_for_log(r#""method":"cancel_task""#)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn feedback_buttons_store_feedback_for_the_operator() {
    let test = SlackTestBuilder::new().start().await;
    let thread = test
        .ask(seed::ALEX, seed::DM_ALEX, "echo good or bad")
        .await;
    let last = thread.last().unwrap();
    let values: Vec<String> = last
        .blocks
        .iter()
        .flat_map(|block| block["elements"].as_array().cloned().unwrap_or_default())
        .filter(|element| element["type"] == "feedback_buttons")
        .flat_map(|element| {
            ["negative_button", "positive_button"]
                .map(|name| element[name]["value"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(values.len(), 2, "{last:#?}");
    // The last press counts.
    for value in &values {
        let pressed = test.slack.press(
            seed::ALEX,
            seed::DM_ALEX,
            &last.ts,
            "interzone_feedback",
            Some(value),
        );
        pressed.unwrap();
        test.wait("the press to be delivered", |workspace| {
            let mut all = workspace.deliveries();
            let delivery = all.rfind(|one| one.kind == "block_actions")?;
            (delivery.outcome == "ok").then_some(())
        })
        .await;
    }
    let run_feedback = |_: ()| {
        let output = Command::new(super::super::zone_process::binary())
            .args(["feedback", "--output", "json", "--config"])
            .arg(&test.nodes[0].config)
            .current_dir(test.execution.env.folder.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let feedback = run_feedback(());
    let feedback: Value = serde_json::from_str(&feedback).unwrap_or_else(|_| panic!("{feedback}"));
    let feedback = feedback.to_string();
    assert!(feedback.contains(seed::ALEX), "{feedback}");
    assert!(
        !feedback.contains("good or bad"),
        "no content of the answer: {feedback}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_mode_answers_again_after_disconnect() {
    use interzone_playground::DisconnectReason;
    let test = SlackTestBuilder::new()
        .slack(|slack| slack.mode = DeliveryMode::Socket)
        .start()
        .await;
    let first = test.ask(seed::ALEX, seed::DM_ALEX, "echo one").await;
    assert_eq!(answers(&first), ["one"]);
    test.slack.disconnect(DisconnectReason::RefreshRequested);
    let second = test.ask(seed::ALEX, seed::DM_ALEX, "echo two").await;
    assert_eq!(answers(&second), ["two"]);
    assert_eq!(
        answers(&test.slack.thread(seed::DM_ALEX, &first[0].ts)),
        ["one"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_task_is_reported_in_the_users_language() {
    let test = SlackTestBuilder::new().start().await;
    for (user, channel, message) in [
        (seed::HANA, seed::DM_HANA, "エラーが発生しました"),
        (seed::ALEX, seed::DM_ALEX, "Something went wrong"),
    ] {
        let ts = test.slack.post(user, channel, "fail on purpose").unwrap();
        let thread = test.wait_for_reaction(channel, &ts, FAILED).await;
        let reply = answers(&thread).join("\n");
        assert!(reply.contains(message), "{reply}");
        assert!(!reply.contains("-32"), "no JSON-RPC error code: {reply}");
        assert!(!has_reaction(&thread[0], DONE), "no success emoji");
    }
}
