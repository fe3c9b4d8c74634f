//! Who is refused, is told so, alone and in their own words; and what else a user may be told.

use super::place::{DONE, FAILED, Plan, answers, has};
use interzone_playground::{Upload, seed};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_on_the_list_is_told_alone_whom_to_ask() {
    let place = Plan::new().start().await;
    let ts = place
        .slack
        .post(seed::MALLORY, seed::GENERAL, "@interzone echo let me in")
        .unwrap();
    let told = place.whispered(seed::MALLORY).await;
    assert!(told.shown().contains("not allowed"), "{told:?}");
    assert!(told.shown().contains("administrator"), "{told:?}");
    let thread = place.slack.thread(seed::GENERAL, &ts);
    assert!(answers(&thread).is_empty(), "nobody else hears of it");
    assert!(
        place.slack.look(|workspace| workspace
            .deliveries()
            .all(|one| one.outcome == "ok" && one.attempt == 0)),
        "Slack has no reason to come again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_too_often_is_told_when_to_come_back() {
    let place = Plan::new()
        .set("policy.requests_per_minute", 2)
        .start()
        .await;
    for number in 0..2 {
        let thread = place
            .ask(seed::HANA, seed::DM_HANA, &format!("echo {number}"))
            .await;
        assert_eq!(answers(&thread), [number.to_string()], "charged once each");
    }
    place
        .slack
        .post(seed::HANA, seed::DM_HANA, "echo 3")
        .unwrap();
    let told = place.whispered(seed::HANA).await.shown();
    assert!(told.contains("秒後"), "{told}");
    // Others are not meant.
    let thread = place.ask(seed::ALEX, seed::DM_ALEX, "echo mine").await;
    assert_eq!(answers(&thread), ["mine"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_and_too_much_are_both_told() {
    let place = Plan::new()
        .set("verification.input_chars", 100)
        .start()
        .await;
    place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone")
        .unwrap();
    let told = place.whispered(seed::ALEX).await.shown();
    assert!(told.contains("for example"), "{told}");
    place
        .slack
        .post(seed::HANA, seed::DM_HANA, &"長".repeat(101))
        .unwrap();
    let told = place.whispered(seed::HANA).await.shown();
    assert!(told.contains("101") && told.contains("100"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let place = Plan::new().start().await;
    for (name, bytes, words) in [
        ("tool.exe", b"MZ\x90\0".to_vec(), "format is not supported"),
        ("broken.pdf", b"%PDF-1.7 and then nothing".to_vec(), "read"),
        ("large.csv", vec![b'x'; (5 << 20) + 1], "too large"),
    ] {
        let ts = place
            .slack
            .upload(&Upload {
                user: seed::ALEX,
                channel: seed::DM_ALEX,
                text: "please look",
                files: vec![(name.to_owned(), bytes.into())],
                ..Upload::default()
            })
            .unwrap();
        place
            .wait(name, |workspace| {
                let question = workspace.message(seed::DM_ALEX, &ts)?;
                (has(question, DONE) || has(question, FAILED)).then_some(())
            })
            .await;
        let said = answers(&place.slack.thread(seed::DM_ALEX, &ts)).join("\n");
        assert!(said.contains(words), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_posted_is_said_in_the_thread() {
    let place = Plan::new().start().await;
    place
        .slack
        .faults()
        .refuse("files.completeUploadExternal", "access_denied", u32::MAX);
    let ts = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .unwrap();
    let said = place
        .wait("a word about the file", |workspace| {
            let thread = workspace.thread(seed::GENERAL, &ts);
            let mut shown = thread.iter().map(|message| message.shown());
            shown.find(|text| text.contains("could not be posted"))
        })
        .await;
    assert!(said.contains(".csv"), "it names the file: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_execution_zone_is_away_the_question_waits_for_it() {
    let mut place = Plan::new().start().await;
    place.execution.kill();
    let ts = place
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo patience")
        .unwrap();
    place
        .wait("a sign that it was received", |workspace| {
            let question = workspace.message(seed::DM_ALEX, &ts)?;
            has(question, super::place::RECEIVED).then_some(())
        })
        .await;
    place.execution.begin().await;
    let thread = place.marked(seed::DM_ALEX, &ts, DONE).await;
    assert_eq!(answers(&thread), ["patience"]);
}
