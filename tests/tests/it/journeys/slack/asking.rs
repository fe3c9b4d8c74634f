//! What people do in Slack, and what they get.

use super::place::{DONE, FAILED, Plan, RECEIVED, STOPPED, answers, has};
use interzone_playground::{Mode, Upload, seed};
use serde_json::Value;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn a_mention_is_answered_in_its_thread_once_and_as_it_grows() {
    let place = Plan::new().start().await;
    let thread = place
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
        answer.shown().starts_with("one word after another"),
        "{answer:#?}"
    );
    place
        .wait("the sign that it was received to go", |workspace| {
            let question = workspace.message(seed::GENERAL, &thread[0].ts)?;
            (!has(question, RECEIVED)).then_some(())
        })
        .await;
    let (began, grew) = place.slack.look(|workspace| {
        (
            workspace.calls_of("chat.startStream").len(),
            workspace.calls_of("chat.appendStream").len(),
        )
    });
    assert_eq!(began, 1, "one stream");
    assert!(grew >= 1, "it grew while it was made: {grew}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_streams_are_refused_one_post_is_edited() {
    let place = Plan::new().start().await;
    let faults = place.slack.faults();
    faults.refuse("chat.startStream", "unknown_method", u32::MAX);
    faults.refuse("assistant.threads.setStatus", "unknown_method", u32::MAX);
    let thread = place.ask(seed::ALEX, seed::DM_ALEX, "stream 60").await;
    let said = answers(&thread);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("one word after"), "{said:#?}");
    assert!(
        said[0].trim_end().ends_with("lost."),
        "to the last word: {said:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_comes_with_the_answer_and_can_be_opened() {
    let place = Plan::new().start().await;
    let thread = place
        .ask(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .await;
    let files: Vec<&String> = thread.iter().flat_map(|message| &message.files).collect();
    assert_eq!(files.len(), 1, "{thread:#?}");
    let file = place
        .slack
        .look(|workspace| workspace.file(files[0]).cloned().unwrap());
    assert!(file.name.ends_with(".csv"), "{file:?}");
    let bytes = file.bytes.clone().unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(text.starts_with("a,b"), "{text:?}");
    let said = answers(&thread).join("\n");
    assert!(said.contains("Here is"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_somebody_shares_is_read() {
    let place = Plan::new().start().await;
    for stub in [false, true] {
        let upload = Upload {
            user: seed::HANA,
            channel: seed::DM_HANA,
            thread: None,
            text: "what is this?",
            files: vec![(
                "売上.csv".to_owned(),
                "月,金額\n1月,1200\n".as_bytes().to_vec().into(),
            )],
            stub,
        };
        let ts = place.slack.upload(&upload).unwrap();
        let thread = place.marked(seed::DM_HANA, &ts, DONE).await;
        let said = answers(&thread).join("\n");
        assert!(said.contains("売上.csv"), "stub {stub}: {said}");
        assert!(said.contains("月,金額"), "its first line: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_button_calls_the_task_off() {
    let place = Plan::new().start().await;
    let ts = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait 500")
        .unwrap();
    let (button, for_one) = place
        .wait("a stop button", |workspace| {
            let all = workspace
                .messages(seed::GENERAL)
                .chain(workspace.ephemerals());
            // Where nobody has replied yet, it stands in the channel, for its asker's eyes.
            let mut with = all.filter(|message| {
                let blocks = serde_json::to_string(&message.blocks).unwrap();
                blocks.contains("interzone_stop")
            });
            let found = with.next()?;
            Some((found.ts.clone(), found.only_for.clone()))
        })
        .await;
    assert!(
        for_one.is_none_or(|one| one == seed::ALEX),
        "nobody else's button"
    );
    place
        .slack
        .press(seed::ALEX, seed::GENERAL, &button, "interzone_stop", None)
        .unwrap();
    let thread = place.marked(seed::GENERAL, &ts, STOPPED).await;
    let said = answers(&thread).join("\n");
    assert!(said.contains("Stopped."), "{said}");
    assert!(!has(&thread[0], DONE) && !has(&thread[0], FAILED));

    // The task itself was called off, not only forgotten.
    place.execution.log_with(r#""method":"cancel_task""#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_think_of_an_answer_reaches_the_operator() {
    let place = Plan::new().start().await;
    let thread = place
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
        let pressed = place.slack.press(
            seed::ALEX,
            seed::DM_ALEX,
            &last.ts,
            "interzone_feedback",
            Some(value),
        );
        pressed.unwrap();
        place
            .wait("the press to arrive", |workspace| {
                let mut all = workspace.deliveries();
                let arrived = all.rfind(|one| one.kind == "block_actions")?;
                (arrived.outcome == "ok").then_some(())
            })
            .await;
    }
    let shown = |_: ()| {
        let output = Command::new(super::super::zone::binary())
            .args(["feedback", "--output", "json", "--config"])
            .arg(&place.nodes[0].config)
            .current_dir(place.execution.world.folder.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let told = shown(());
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
    let told = told.to_string();
    assert!(told.contains(seed::ALEX), "{told}");
    assert!(
        !told.contains("good or bad"),
        "nothing of the content: {told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_over_a_socket_too_and_the_socket_heals() {
    use interzone_playground::Farewell;
    let place = Plan::new()
        .slack(|slack| slack.mode = Mode::Socket)
        .start()
        .await;
    let first = place.ask(seed::ALEX, seed::DM_ALEX, "echo one").await;
    assert_eq!(answers(&first), ["one"]);
    place.slack.disconnect(Farewell::RefreshRequested);
    let second = place.ask(seed::ALEX, seed::DM_ALEX, "echo two").await;
    assert_eq!(answers(&second), ["two"]);
    assert_eq!(
        answers(&place.slack.thread(seed::DM_ALEX, &first[0].ts)),
        ["one"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_fails_is_said_so_in_the_askers_language() {
    let place = Plan::new().start().await;
    for (user, channel, word) in [
        (seed::HANA, seed::DM_HANA, "エラーが発生しました"),
        (seed::ALEX, seed::DM_ALEX, "Something went wrong"),
    ] {
        let ts = place.slack.post(user, channel, "fail on purpose").unwrap();
        let thread = place.marked(channel, &ts, FAILED).await;
        let said = answers(&thread).join("\n");
        assert!(said.contains(word), "{said}");
        assert!(!said.contains("-32"), "no code of the wire: {said}");
        assert!(!has(&thread[0], DONE), "no sign of success");
    }
}
