//! Tests of live replies.

use super::*;
use crate::reply::plan::{plan_answer, plan_failure};
use crate::reply::tests::{ReplyFixture, SlackFault, file_result, question, text_result};
use crate::slack::ids::Ts;
use interzone_protocol::zone::ErrorReason;

fn start_live(stage: &ReplyFixture, attempt: u32) -> LiveReply {
    stage
        .service
        .start_live_reply(&question(), &stage.installation, Language::En, attempt)
}

/// Waits until the fake Slack satisfies a condition.
async fn wait_until(
    stage: &ReplyFixture,
    condition: impl Fn(&crate::reply::tests::FakeThread) -> bool,
) {
    let mut calls = stage.calls();
    loop {
        if condition(&stage.thread()) {
            return;
        }
        calls.changed().await.unwrap();
    }
}

async fn deliver_answer(stage: &ReplyFixture, state: &LiveReplyState, text: &str) {
    let entries = plan_answer(&question(), state, Language::En, &text_result(text), &[]).unwrap();
    stage.deliver_all(entries).await;
}

#[tokio::test]
async fn answer_is_streamed_and_finalized() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    live.push_text("Hello");
    wait_until(&stage, |world| world.texts() == ["Hello"]).await;
    live.push_text(", world");
    wait_until(&stage, |world| world.texts() == ["Hello, world"]).await;
    live.push_text(" and all");
    let state = live.finish().await;
    deliver_answer(&stage, &state, "Hello, world and all.").await;
    let world = stage.thread();
    assert_eq!(world.texts(), ["Hello, world and all."]);
    assert_eq!(world.count("chat.startStream"), 1);
    assert_eq!(world.count("chat.update"), 0);
    assert_eq!(
        world.reactions.iter().collect::<Vec<_>>(),
        ["white_check_mark"]
    );
}

#[tokio::test]
async fn first_text_is_sent_without_waiting_for_reaction() {
    let stage = ReplyFixture::new().await;
    // The "received" reaction hangs and must not block the text.
    stage.inject_fault("reactions.add", SlackFault::HangsBefore);
    let live = start_live(&stage, 1);
    live.push_text("Hello");
    wait_until(&stage, |world| world.texts() == ["Hello"]).await;
    assert_eq!(stage.thread().count("conversations.replies"), 0);
    assert_eq!(stage.thread().count("assistant.threads.setStatus"), 0);
}

#[tokio::test]
async fn refused_stream_falls_back_to_edits_and_is_cached() {
    let stage = ReplyFixture::new().await;
    stage.inject_fault("chat.startStream", SlackFault::ErrorCode("unknown_method"));
    for round in 1..=2 {
        let live = start_live(&stage, 1);
        live.push_text("Hello");
        wait_until(&stage, |world| world.texts().len() == round).await;
        {
            let world = stage.thread();
            assert_eq!(world.count("chat.startStream"), 1, "cached for an hour");
            let message = &world.messages[round - 1];
            assert!(message.has_block("actions"), "stop button");
            assert!(message.metadata.is_some());
        }
        live.push_text(", world");
        wait_until(&stage, |world| {
            world.messages[round - 1].text == "Hello, world"
        })
        .await;
        let state = live.finish().await;
        deliver_answer(&stage, &state, "Hello, world.").await;
        let world = stage.thread();
        assert_eq!(world.messages[round - 1].text, "Hello, world.");
        assert!(
            !world.messages[round - 1].has_block("actions"),
            "no stop button"
        );
    }
}

#[tokio::test]
async fn fast_answer_is_posted_once() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    let state = live.finish().await;
    assert_eq!(state, LiveReplyState::not_posted());
    deliver_answer(&stage, &state, "Hello.").await;
    assert_eq!(stage.thread().texts(), ["Hello."]);
    assert_eq!(stage.thread().count("chat.startStream"), 0);
}

#[tokio::test]
async fn rate_limited_append_is_included_in_final_text() {
    let stage = ReplyFixture::new().await;
    stage.inject_fault("chat.appendStream", SlackFault::RateLimited(3_000));
    let live = start_live(&stage, 1);
    live.push_text("Hello");
    wait_until(&stage, |world| world.texts() == ["Hello"]).await;
    live.push_text(", world.");
    wait_until(&stage, |world| world.count("chat.appendStream") == 1).await;
    let state = live.finish().await;
    deliver_answer(&stage, &state, "Hello, world.").await;
    assert_eq!(stage.thread().texts(), ["Hello, world."]);
}

#[tokio::test]
async fn append_with_lost_response_is_not_duplicated() {
    let stage = ReplyFixture::new().await;
    stage.inject_fault("chat.appendStream", SlackFault::ResponseLost);
    let live = start_live(&stage, 1);
    live.push_text("Hello");
    wait_until(&stage, |world| world.texts() == ["Hello"]).await;
    live.push_text(", world.");
    wait_until(&stage, |world| world.texts() == ["Hello, world."]).await;
    let state = live.finish().await;
    deliver_answer(&stage, &state, "Hello, world.").await;
    assert_eq!(stage.thread().texts(), ["Hello, world."]);
}

#[tokio::test]
async fn first_message_with_lost_response_is_found_again() {
    for refused in [false, true] {
        let stage = ReplyFixture::new().await;
        let method = if refused {
            stage.inject_fault(
                "chat.startStream",
                SlackFault::ErrorCode("feature_not_enabled"),
            );
            "chat.postMessage"
        } else {
            "chat.startStream"
        };
        stage.inject_fault(method, SlackFault::ResponseLost);
        let live = start_live(&stage, 1);
        live.push_text("Hel");
        wait_until(&stage, |world| world.texts() == ["Hel"]).await;
        live.push_text("lo.");
        let state = live.finish().await;
        deliver_answer(&stage, &state, "Hello.").await;
        assert_eq!(stage.thread().texts(), ["Hello."], "{method}");
    }
}

#[tokio::test]
async fn mention_split_across_updates_is_escaped() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    live.push_text("Hi <!");
    wait_until(&stage, |world| world.texts() == ["Hi "]).await;
    live.push_text("channel> all");
    wait_until(&stage, |world| world.texts().concat().ends_with("all")).await;
    assert_eq!(stage.thread().texts(), ["Hi <\u{2060}!channel> all"]);
}

#[tokio::test]
async fn retry_leaves_finalized_reply_unchanged() {
    let stage = ReplyFixture::new().await;
    let first = start_live(&stage, 1);
    first.push_text("Hello");
    wait_until(&stage, |world| world.texts() == ["Hello"]).await;
    let state = first.finish().await;
    deliver_answer(&stage, &state, "Hello, world.").await;
    // The node crashes before it completes the question, which is then retried.
    let second = start_live(&stage, 2);
    second.push_text("Hello");
    let state = second.finish().await;
    assert_eq!(state, LiveReplyState::unknown());
    assert_eq!(stage.thread().texts(), ["Hello, world."]);
    let reactions = stage.thread().reactions.clone();
    assert_eq!(reactions.iter().collect::<Vec<_>>(), ["white_check_mark"]);
    assert!(stage.thread().messages[0].has_block("context_actions"));
}

#[tokio::test]
async fn retry_that_first_starts_a_task_shows_live_reply() {
    let stage = ReplyFixture::new().await;
    let early = start_live(&stage, 2);
    wait_until(&stage, |world| world.reactions.contains("eyes")).await;
    drop(early);
    let live = start_live(&stage, 3);
    live.push_text("Hello");
    wait_until(&stage, |world| world.texts() == ["Hello"]).await;
}

#[tokio::test]
async fn slow_answer_offers_stop_button() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    live.task_started();
    wait_until(&stage, |world| !world.ephemerals.is_empty()).await;
    let ephemeral = stage.thread().ephemerals[0].clone();
    assert_eq!(ephemeral["user"], "U1");
    assert!(ephemeral["blocks"].contains("interzone_stop"));
    assert!(ephemeral["blocks"].contains(&question().id));
    drop(live);
}

#[tokio::test]
async fn failure_text_follows_streamed_text() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    live.push_text("So far");
    wait_until(&stage, |world| world.texts() == ["So far"]).await;
    let state = live.finish().await;
    let entries =
        plan_failure(&question(), &state, Language::En, ErrorReason::AsyncTimeout).unwrap();
    stage.deliver_all(entries).await;
    let texts = stage.thread().texts();
    assert_eq!(texts.len(), 1);
    assert!(
        texts[0].starts_with("So far\n\nThis took too long"),
        "{texts:?}"
    );
    assert_eq!(stage.thread().reactions.iter().collect::<Vec<_>>(), ["x"]);
}

#[tokio::test]
async fn stream_is_limited_to_one_message() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    let text = "一文です。".repeat(4_000);
    live.push_text(&text);
    wait_until(&stage, |world| !world.texts().is_empty()).await;
    let state = live.finish().await;
    let entries = plan_answer(&question(), &state, Language::Ja, &text_result(&text), &[]).unwrap();
    stage.deliver_all(entries).await;
    let world = stage.thread();
    assert_eq!(world.texts().len(), 2);
    assert_eq!(world.texts().concat(), text);
}

/// Crashes a live reply at every step; each crash retries the question.
#[tokio::test]
async fn crash_at_any_live_step_neither_loses_nor_duplicates() {
    let text = "Hello, world. This is all.";
    for fault in [SlackFault::HangsBefore, SlackFault::HangsAfter] {
        let mut step = 1;
        loop {
            let stage = ReplyFixture::new().await;
            stage.thread().fault_at = Some((step, fault));
            let mut attempt = 1;
            let state = loop {
                let live = start_live(&stage, attempt);
                let work = async {
                    live.push_text("Hello, ");
                    if attempt == 1 {
                        wait_until(&stage, |world| world.count("chat.startStream") == 1).await;
                        wait_until(&stage, |world| world.count("reactions.add") == 1).await;
                    }
                    live.push_text("world.");
                    live.finish().await
                };
                match stage.run_or_crash(work).await {
                    Some(left) => break left,
                    None => attempt += 1,
                }
            };
            let result = file_result(text);
            let entries = plan_answer(&question(), &state, Language::En, &result, &[]).unwrap();
            stage.deliver_all(entries).await;
            let world = stage.thread();
            assert_eq!(world.texts(), [text], "{fault:?} at {step}");
            assert_eq!(world.file_count(), 1, "{fault:?} at {step}");
            if world.fault_at.is_some() {
                break;
            }
            step += 1;
        }
        assert!(step > 6, "only {step} steps");
    }
}

/// A second question in the same thread.
fn second_question() -> Question {
    let first = question();
    let ts = Ts::new("1000.000002").unwrap();
    Question {
        id: Question::derive_id(&first.team, &first.channel, &ts),
        event_id: "Ev2".to_owned(),
        ts,
        in_thread: true,
        ..first
    }
}

/// The first answer lost the response of its stream start and searches the thread. The second answer's stream is
/// visible while its start call is in flight, so its owner is unknown, and the first answer claims it.
async fn let_first_claim_stream(stage: &ReplyFixture, second: &Question) -> LiveReply {
    stage.inject_fault("chat.startStream", SlackFault::DelayedResponse);
    let live = stage
        .service
        .start_live_reply(second, &stage.installation, Language::En, 1);
    live.push_text("The second");
    wait_until(stage, |world| world.texts() == ["The second"]).await;
    deliver_answer(stage, &LiveReplyState::unknown(), "The first.").await;
    assert_eq!(stage.thread().texts(), ["The first."], "stream was claimed");
    stage.thread().release.notify_one();
    live
}

#[tokio::test]
async fn two_answers_claiming_one_stream_are_both_posted() {
    for more in [None, Some(" and more")] {
        let stage = ReplyFixture::new().await;
        let second = second_question();
        let live = let_first_claim_stream(&stage, &second).await;
        if let Some(more) = more {
            // It may be appended to before it ends, although it belongs to the first answer.
            live.push_text(more);
            wait_until(&stage, |world| world.count("chat.appendStream") == 1).await;
        }
        let state = live.finish().await;
        let result = text_result("The second and more.");
        let entries = plan_answer(&second, &state, Language::En, &result, &[]).unwrap();
        stage.deliver_all(entries).await;
        let world = stage.thread();
        assert_eq!(world.texts(), ["The first.", "The second and more."]);
        assert!(world.messages.iter().all(|message| !message.is_streaming));
        assert!(
            world
                .messages
                .iter()
                .all(|one| one.has_block("context_actions"))
        );
    }
}

/// The second answer's text is not lost with its stream.
#[tokio::test]
async fn failed_answer_keeps_text_after_losing_its_stream() {
    let stage = ReplyFixture::new().await;
    let second = second_question();
    let live = let_first_claim_stream(&stage, &second).await;
    live.push_text(" and more");
    wait_until(&stage, |world| world.count("chat.appendStream") == 1).await;
    let state = live.finish().await;
    let entries = plan_failure(&second, &state, Language::En, ErrorReason::Throttling).unwrap();
    stage.deliver_all(entries).await;
    let texts = stage.thread().texts();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(texts[0], "The first.");
    assert!(texts[1].starts_with("The second"), "{texts:?}");
}

/// There is no record of the second answer's stream, and Slack has ended it; its key identifies it.
#[tokio::test]
async fn edited_stream_with_key_is_not_claimed_by_other() {
    let stage = ReplyFixture::new().await;
    let second = second_question();
    let live = stage
        .service
        .start_live_reply(&second, &stage.installation, Language::En, 1);
    live.push_text("The second");
    wait_until(&stage, |world| world.texts() == ["The second"]).await;
    stage.thread().messages[0].is_streaming = false;
    live.push_text(" and more");
    wait_until(&stage, |world| world.texts() == ["The second and more"]).await;
    stage.store.remove_kind("slack.live.at");

    deliver_answer(&stage, &LiveReplyState::unknown(), "The first.").await;
    let texts = stage.thread().texts();
    assert_eq!(texts, ["The second and more", "The first."]);

    let state = live.finish().await;
    let result = text_result("The second and more.");
    let entries = plan_answer(&second, &state, Language::En, &result, &[]).unwrap();
    stage.deliver_all(entries).await;
    let texts = stage.thread().texts();
    assert_eq!(texts, ["The second and more.", "The first."]);
}

#[tokio::test]
async fn invisible_text_is_not_streamed_or_posted() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    let invisible = "\u{200b}\u{2060} \u{feff}\u{ad}";
    live.push_text(invisible);
    wait_until(&stage, |world| {
        world.statuses.len() + world.count("chat.startStream") == 1
    })
    .await;
    let state = live.finish().await;
    deliver_answer(&stage, &state, invisible).await;
    assert_eq!(stage.thread().texts(), ["There was no answer to this."]);
    assert_eq!(stage.thread().count("chat.startStream"), 0);
}

#[tokio::test]
async fn status_is_sanitized_to_one_line() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    wait_until(&stage, |world| world.statuses.len() == 1).await;
    live.set_status("\u{202e}\u{200b}");
    live.set_status("reads\u{202e} fdp.\u{2066}exe\u{1b}[2J\u{0}\nof 👨\u{200d}👩 <\u{200f}!here>");
    wait_until(&stage, |world| world.statuses.len() == 2).await;
    let shown = stage.thread().statuses[1].clone();
    // The mention that was hidden by invisible characters is escaped too.
    assert_eq!(shown, "reads fdp.exe[2J of 👨\u{200d}👩 <\u{2060}!here>");
}

#[tokio::test]
async fn status_is_shown_until_there_is_text() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    wait_until(&stage, |world| world.statuses.len() == 1).await;
    live.set_status("is reading 3 files");
    wait_until(&stage, |world| world.statuses.len() == 2).await;
    live.set_status("  ");
    live.set_status("is writing");
    wait_until(&stage, |world| world.statuses.len() == 3).await;
    let statuses = stage.thread().statuses.clone();
    assert_eq!(
        statuses,
        ["is thinking…", "is reading 3 files", "is writing"]
    );
}

#[tokio::test]
async fn unsupported_status_is_cached() {
    let stage = ReplyFixture::new().await;
    stage.inject_fault(
        "assistant.threads.setStatus",
        SlackFault::ErrorCode("unknown_method"),
    );
    let first = start_live(&stage, 1);
    wait_until(&stage, |world| {
        world.count("assistant.threads.setStatus") == 1
    })
    .await;
    first.finish().await;
    let team = question().team;
    assert!(
        !stage
            .service
            .features
            .is_available(&team, SlackFeature::Status)
    );
}

#[tokio::test]
async fn stream_ended_by_slack_continues_as_edits() {
    let stage = ReplyFixture::new().await;
    let live = start_live(&stage, 1);
    live.push_text("Hello");
    wait_until(&stage, |world| world.texts() == ["Hello"]).await;
    stage.thread().messages[0].is_streaming = false;
    live.push_text(", world");
    wait_until(&stage, |world| world.texts() == ["Hello, world"]).await;
    assert!(stage.thread().messages[0].has_block("actions"));
    let state = live.finish().await;
    deliver_answer(&stage, &state, "Hello, world.").await;
    let world = stage.thread();
    assert_eq!(world.texts(), ["Hello, world."]);
    assert!(
        !world.messages[0].has_block("actions") && world.messages[0].has_block("context_actions")
    );
}
