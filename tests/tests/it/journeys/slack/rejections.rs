//! Rejections and failures: which user is notified, where, and in which language.

use super::fixture::{DONE, FAILED, SlackTestBuilder, answers, has_reaction};
use interzone_playground::{FileShare, seed};

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_user_gets_an_ephemeral_notice() {
    let test = SlackTestBuilder::new().start().await;
    let ts = test
        .slack
        .post(seed::MALLORY, seed::GENERAL, "@interzone echo let me in")
        .unwrap();
    let notice = test.wait_for_ephemeral(seed::MALLORY).await;
    assert!(
        notice.displayed_text().contains("not allowed"),
        "{notice:?}"
    );
    assert!(
        notice.displayed_text().contains("administrator"),
        "{notice:?}"
    );
    let thread = test.slack.thread(seed::GENERAL, &ts);
    assert!(answers(&thread).is_empty(), "no other user sees it");
    assert!(
        test.slack.inspect(|workspace| workspace
            .deliveries()
            .all(|one| one.outcome == "ok" && one.attempt == 0)),
        "Slack does not retry"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limited_user_gets_the_retry_time() {
    let test = SlackTestBuilder::new()
        .set("policy.requests_per_minute", 2)
        .start()
        .await;
    for number in 0..2 {
        let thread = test
            .ask(seed::HANA, seed::DM_HANA, &format!("echo {number}"))
            .await;
        assert_eq!(answers(&thread), [number.to_string()], "charged once each");
    }
    test.slack
        .post(seed::HANA, seed::DM_HANA, "echo 3")
        .unwrap();
    let notice = test.wait_for_ephemeral(seed::HANA).await.displayed_text();
    assert!(notice.contains("秒後"), "{notice}");
    // Other users are not limited.
    let thread = test.ask(seed::ALEX, seed::DM_ALEX, "echo mine").await;
    assert_eq!(answers(&thread), ["mine"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_and_too_long_questions_get_a_notice() {
    let test = SlackTestBuilder::new()
        .set("verification.input_chars", 100)
        .start()
        .await;
    test.slack
        .post(seed::ALEX, seed::GENERAL, "@interzone")
        .unwrap();
    let notice = test.wait_for_ephemeral(seed::ALEX).await.displayed_text();
    assert!(notice.contains("for example"), "{notice}");
    test.slack
        .post(seed::HANA, seed::DM_HANA, &"長".repeat(101))
        .unwrap();
    let notice = test.wait_for_ephemeral(seed::HANA).await.displayed_text();
    assert!(notice.contains("101") && notice.contains("100"), "{notice}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_file_is_named_with_the_reason() {
    let test = SlackTestBuilder::new().start().await;
    for (name, bytes, reason) in [
        ("tool.exe", b"MZ\x90\0".to_vec(), "format is not supported"),
        ("broken.pdf", b"%PDF-1.7 and then nothing".to_vec(), "read"),
        ("large.csv", vec![b'x'; (5 << 20) + 1], "too large"),
    ] {
        let ts = test
            .slack
            .upload(&FileShare {
                user: seed::ALEX,
                channel: seed::DM_ALEX,
                text: "please look",
                files: vec![(name.to_owned(), bytes.into())],
                ..FileShare::default()
            })
            .unwrap();
        test.wait(name, |workspace| {
            let question = workspace.message(seed::DM_ALEX, &ts)?;
            (has_reaction(question, DONE) || has_reaction(question, FAILED)).then_some(())
        })
        .await;
        let reply = answers(&test.slack.thread(seed::DM_ALEX, &ts)).join("\n");
        assert!(reply.contains(reason), "{name}: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_file_upload_is_reported_in_the_thread() {
    let test = SlackTestBuilder::new().start().await;
    test.slack
        .faults()
        .reject("files.completeUploadExternal", "access_denied", u32::MAX);
    let ts = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .unwrap();
    let reply = test
        .wait("a message about the file", |workspace| {
            let thread = workspace.thread(seed::GENERAL, &ts);
            let mut texts = thread.iter().map(|message| message.displayed_text());
            texts.find(|text| text.contains("could not be posted"))
        })
        .await;
    assert!(reply.contains(".csv"), "it names the file: {reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn question_waits_for_unavailable_execution_zone() {
    let mut test = SlackTestBuilder::new().start().await;
    test.execution.kill();
    let ts = test
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo later")
        .unwrap();
    test.wait("the received emoji", |workspace| {
        let question = workspace.message(seed::DM_ALEX, &ts)?;
        has_reaction(question, super::fixture::RECEIVED).then_some(())
    })
    .await;
    test.execution.start().await;
    let thread = test.wait_for_reaction(seed::DM_ALEX, &ts, DONE).await;
    assert_eq!(answers(&thread), ["later"]);
}
