//! Tests that each entry is delivered exactly once, whatever fails.

use super::*;
use crate::question::ConversationKind;
use crate::reply::outbox_payload::{LiveReplyState, PostedAs};
use crate::reply::plan::{plan_answer, plan_failure, plan_refusal, plan_stop};
use crate::reply::tests::{
    ReplyFixture, SlackFault, file_result, outbox_entry, question, text_result,
};
use crate::slack::ids::Ts;
use crate::texts::{Language, Refusal};
use interzone_hub::NewOutboxEntry;
use interzone_protocol::zone::ErrorReason;

fn plan_text(text: &str) -> Vec<NewOutboxEntry> {
    plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &text_result(text),
        &[],
    )
    .unwrap()
}

fn live_state(posted_as: PostedAs, text: &str) -> LiveReplyState {
    LiveReplyState {
        posted_as,
        accepted_text: text.to_owned(),
    }
}

fn unknown_state() -> LiveReplyState {
    live_state(PostedAs::Unknown, "")
}

/// Starts a stream with this text and returns its state.
async fn start_stream(stage: &ReplyFixture, text: &str, is_exact: bool) -> LiveReplyState {
    let q = question();
    let start = crate::slack::api::chat::StartStream {
        channel: &q.channel,
        thread: &q.thread,
        recipient: None,
        markdown: Some(text),
        chunks: None,
    };
    let ts = stage
        .service
        .slack
        .chat_start_stream(&stage.installation, &start);
    let ts = ts.await.unwrap();
    stage.thread().calls.clear();
    live_state(PostedAs::Stream { ts, is_exact }, text)
}

#[tokio::test]
async fn post_has_markdown_feedback_key_and_fallback_text() {
    let stage = ReplyFixture::new().await;
    stage.deliver_all(plan_text("**Hello** <b>")).await;
    let world = stage.thread();
    assert_eq!(world.texts(), ["**Hello** <b>"]);
    let message = &world.messages[0];
    assert!(message.has_block("context_actions"));
    let key = &message.metadata.as_ref().unwrap()["event_payload"]["key"];
    assert_eq!(*key, format!("{}/text/0", question().id));
    assert!(world.reactions.contains("white_check_mark"));
    assert_eq!(world.count("conversations.replies"), 0, "no thread read");
}

#[tokio::test]
async fn lost_response_does_not_duplicate_post() {
    let stage = ReplyFixture::new().await;
    stage.inject_fault("chat.postMessage", SlackFault::ResponseLost);
    stage.deliver_all(plan_text("Hello.")).await;
    assert_eq!(stage.thread().texts(), ["Hello."]);
    assert_eq!(stage.thread().count("chat.postMessage"), 1);
}

#[tokio::test]
async fn unreadable_response_neither_duplicates_nor_loses_post() {
    for fault in [SlackFault::Redirect, SlackFault::OversizedResponse] {
        let stage = ReplyFixture::new().await;
        stage.inject_fault("chat.postMessage", fault);
        stage.deliver_all(plan_text("Hello.")).await;
        let world = stage.thread();
        assert_eq!(world.texts(), ["Hello."], "{fault:?}");
        assert_eq!(world.count("chat.postMessage"), 1, "{fault:?}");
        assert_eq!(world.count("conversations.replies"), 1, "thread was read");
        assert!(world.reactions.contains("white_check_mark"));
    }
}

#[tokio::test]
async fn unknown_slack_error_is_permanent_after_early_attempts() {
    let fault = SlackFault::ErrorCode("a_code_of_next_year");
    // Temporary.
    let stage = ReplyFixture::new().await;
    stage.inject_fault("chat.postMessage", fault);
    stage.inject_fault("chat.postMessage", fault);
    stage.deliver_all(plan_text("Hello.")).await;
    assert_eq!(stage.thread().texts(), ["Hello."]);
    // Permanent.
    let stage = ReplyFixture::new().await;
    for _ in 0..EARLY_ATTEMPTS {
        stage.inject_fault("chat.postMessage", fault);
    }
    let outcome = stage.deliver(&plan_text("Hello.")[0]).await;
    assert!(
        matches!(outcome, DeliveryOutcome::Failed { .. }),
        "{outcome:?}"
    );
    let attempts = u32::try_from(stage.thread().count("chat.postMessage")).unwrap();
    assert_eq!(attempts, EARLY_ATTEMPTS);
}

#[tokio::test]
async fn rate_limit_is_retried_and_permanent_error_is_not() {
    let stage = ReplyFixture::new().await;
    let entry = outbox_entry(&plan_text("Hello.")[0], 1);
    stage.inject_fault("chat.postMessage", SlackFault::RateLimited(7));
    match stage.service.post_handler().deliver(&entry).await.unwrap() {
        DeliveryOutcome::Retry { retry_after, .. } => {
            assert_eq!(retry_after, Some(Duration::from_secs(7)))
        }
        other => panic!("{other:?}"),
    }
    for code in [
        "channel_not_found",
        "is_archived",
        "not_in_channel",
        "account_inactive",
        "token_revoked",
        "invalid_auth",
        "restricted_action",
    ] {
        // A new fixture, since the rate limit is per client.
        let stage = ReplyFixture::new().await;
        stage.inject_fault("chat.postMessage", SlackFault::ErrorCode(code));
        let outcome = stage.service.post_handler().deliver(&entry).await.unwrap();
        assert!(
            matches!(outcome, DeliveryOutcome::Failed { .. }),
            "{code}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn rejected_blocks_fall_back_to_plain_text() {
    let stage = ReplyFixture::new().await;
    stage.inject_fault(
        "chat.postMessage",
        SlackFault::ErrorCodeForBlocks("invalid_blocks"),
    );
    stage.deliver_all(plan_text("**Hello** <!channel>")).await;
    let world = stage.thread();
    assert_eq!(world.texts(), ["*Hello* &lt;\u{2060}!channel&gt;"]);
    assert!(world.messages[0].blocks.is_empty());
}

#[tokio::test]
async fn rejected_feedback_buttons_fall_back_to_markdown() {
    let stage = ReplyFixture::new().await;
    stage.inject_fault("chat.postMessage", SlackFault::ErrorCode("invalid_blocks"));
    stage.deliver_all(plan_text("**Hello**")).await;
    let world = stage.thread();
    assert_eq!(world.texts(), ["**Hello**"]);
    assert!(
        world.messages[0].has_block("markdown") && !world.messages[0].has_block("context_actions")
    );
}

#[tokio::test]
async fn too_long_message_is_posted_in_parts_once_each() {
    let text = "A sentence that is said. ".repeat(400);
    for streamed in [None, Some("A sentence")] {
        for lost_step in [None, Some(2), Some(3), Some(4)] {
            let stage = ReplyFixture::new().await;
            let state = match streamed {
                Some(said) => start_stream(&stage, said, false).await,
                None => LiveReplyState::not_posted(),
            };
            stage.thread().max_message_len = Some(4_000);
            // The response to one of the calls is lost.
            let steps = stage.thread().mutation_count();
            stage.thread().fault_at =
                lost_step.map(|step| (steps + step, SlackFault::ResponseLost));
            let entries =
                plan_answer(&question(), &state, Language::En, &text_result(&text), &[]).unwrap();
            stage.deliver_all(entries).await;
            let world = stage.thread();
            let texts = world.texts();
            assert_eq!(texts.len(), 3, "{streamed:?} {lost_step:?}");
            assert_eq!(texts.join(" "), text.trim_end());
            let buttons = world
                .messages
                .iter()
                .map(|one| one.has_block("context_actions"));
            assert_eq!(buttons.collect::<Vec<_>>(), [false, false, true]);
        }
    }
}

#[tokio::test]
async fn stream_is_ended_with_remaining_text_in_one_call() {
    let stage = ReplyFixture::new().await;
    let state = start_stream(&stage, "Hello, ", true).await;
    let entries = plan_answer(
        &question(),
        &state,
        Language::En,
        &text_result("Hello, world."),
        &[],
    )
    .unwrap();
    stage.deliver_all(entries).await;
    let world = stage.thread();
    assert_eq!(world.texts(), ["Hello, world."]);
    assert!(!world.messages[0].is_streaming);
    assert!(world.messages[0].has_block("context_actions"));
    assert!(world.messages[0].metadata.is_some());
    assert_eq!(world.count("chat.stopStream"), 1);
    assert_eq!(world.count("chat.update"), 0);
}

#[tokio::test]
async fn stream_with_other_text_is_corrected() {
    for (text, is_exact) in [("Hullo, ", true), ("Hello, ", false)] {
        let stage = ReplyFixture::new().await;
        let state = start_stream(&stage, text, is_exact).await;
        let result = text_result("Hello, world.");
        let entries = plan_answer(&question(), &state, Language::En, &result, &[]).unwrap();
        stage.deliver_all(entries).await;
        let world = stage.thread();
        assert_eq!(world.texts(), ["Hello, world."]);
        assert!(
            world.messages[0].has_block("markdown")
                && world.messages[0].has_block("context_actions")
        );
    }
}

#[tokio::test]
async fn lost_stream_stop_does_not_duplicate_text() {
    for fault in [
        SlackFault::ResponseLost,
        SlackFault::HangsAfter,
        SlackFault::HangsBefore,
    ] {
        let stage = ReplyFixture::new().await;
        let state = start_stream(&stage, "Hello, ", true).await;
        stage.inject_fault("chat.stopStream", fault);
        let entries = plan_answer(
            &question(),
            &state,
            Language::En,
            &text_result("Hello, world."),
            &[],
        )
        .unwrap();
        stage.deliver_all(entries).await;
        assert_eq!(stage.thread().texts(), ["Hello, world."], "{fault:?}");
        assert!(!stage.thread().messages[0].is_streaming);
    }
}

#[tokio::test]
async fn failed_stream_stop_is_retried() {
    for is_exact in [true, false] {
        let stage = ReplyFixture::new().await;
        let state = start_stream(&stage, "Hello, ", is_exact).await;
        for _ in 0..3 {
            stage.inject_fault("chat.stopStream", SlackFault::ServerError);
        }
        let result = text_result("Hello, world.");
        let entries = plan_answer(&question(), &state, Language::En, &result, &[]).unwrap();
        stage.deliver_all(entries).await;
        let world = stage.thread();
        assert_eq!(world.texts(), ["Hello, world."], "{is_exact}");
        assert!(world.reactions.contains("white_check_mark"));
    }
}

#[tokio::test]
async fn unrecorded_stream_is_found_and_finalized() {
    let stage = ReplyFixture::new().await;
    start_stream(&stage, "Hel", true).await;
    let entries = plan_answer(
        &question(),
        &unknown_state(),
        Language::En,
        &text_result("Hello."),
        &[],
    )
    .unwrap();
    stage.deliver_all(entries).await;
    assert_eq!(stage.thread().texts(), ["Hello."]);
    // Without a stream, the answer is a new post.
    let stage = ReplyFixture::new().await;
    let entries = plan_answer(
        &question(),
        &unknown_state(),
        Language::En,
        &text_result("Hello."),
        &[],
    )
    .unwrap();
    stage.deliver_all(entries).await;
    assert_eq!(stage.thread().texts(), ["Hello."]);
}

#[tokio::test]
async fn reply_is_retried_until_bot_identity_is_known() {
    let stage = ReplyFixture::new().await;
    start_stream(&stage, "Hel", true).await;
    let entries = plan_answer(
        &question(),
        &unknown_state(),
        Language::En,
        &text_result("Hello."),
        &[],
    );
    let entry = entries.unwrap().remove(0);
    let service = stage.service_without_identity();
    for attempt in 1..EARLY_ATTEMPTS {
        let outcome = service
            .post_handler()
            .deliver(&outbox_entry(&entry, attempt))
            .await
            .unwrap();
        assert!(
            matches!(outcome, DeliveryOutcome::Retry { .. }),
            "{outcome:?}"
        );
    }
    assert_eq!(stage.thread().texts(), ["Hel"], "only the stream");
    // Once the bot identity is known, the stream is found and finalized.
    let outcome = stage
        .service
        .post_handler()
        .deliver(&outbox_entry(&entry, EARLY_ATTEMPTS))
        .await
        .unwrap();
    assert_eq!(outcome, DeliveryOutcome::Delivered);
    assert_eq!(stage.thread().texts(), ["Hello."]);
}

#[tokio::test]
async fn reply_is_posted_when_bot_identity_stays_unknown() {
    let stage = ReplyFixture::new().await;
    let entries = plan_answer(
        &question(),
        &unknown_state(),
        Language::En,
        &text_result("Hello."),
        &[],
    );
    let entry = outbox_entry(&entries.unwrap()[0], EARLY_ATTEMPTS);
    let outcome = stage
        .service_without_identity()
        .post_handler()
        .deliver(&entry)
        .await
        .unwrap();
    assert_eq!(outcome, DeliveryOutcome::Delivered);
    assert_eq!(stage.thread().texts(), ["Hello."]);
}

#[tokio::test]
async fn undelivered_answer_gets_no_success_reaction() {
    let stage = ReplyFixture::new().await;
    stage.thread().reactions.insert("eyes".to_owned());
    stage.inject_fault("chat.postMessage", SlackFault::ErrorCode("is_archived"));
    let entries = plan_text("Hello.");
    let outcome = stage.deliver(&entries[0]).await;
    assert!(
        matches!(outcome, DeliveryOutcome::Failed { .. }),
        "{outcome:?}"
    );
    let entry = outbox_entry(&entries[0], 1);
    stage
        .service
        .post_handler()
        .on_dead_letter(&entry, "is_archived")
        .await;
    stage.deliver_all(entries[1..].to_vec()).await;
    assert_eq!(stage.thread().reactions.iter().collect::<Vec<_>>(), ["x"]);
}

#[tokio::test]
async fn stream_of_other_question_is_not_claimed() {
    let stage = ReplyFixture::new().await;
    let PostedAs::Stream { ts, .. } = start_stream(&stage, "Other", true).await.posted_as else {
        panic!("no stream");
    };
    stage
        .store
        .insert("slack.live.at", &format!("C1/{ts}"), "another")
        .await;
    let entries = plan_answer(
        &question(),
        &unknown_state(),
        Language::En,
        &text_result("Mine."),
        &[],
    )
    .unwrap();
    stage.deliver_all(entries).await;
    assert_eq!(stage.thread().texts(), ["Other", "Mine."]);
}

#[tokio::test]
async fn deleted_message_is_posted_again() {
    let stage = ReplyFixture::new().await;
    let deleted = live_state(
        PostedAs::Post {
            ts: Ts::new("1500.1").unwrap(),
        },
        "Hel",
    );
    let entries = plan_answer(
        &question(),
        &deleted,
        Language::En,
        &text_result("Hello."),
        &[],
    )
    .unwrap();
    stage.deliver_all(entries).await;
    assert_eq!(stage.thread().texts(), ["Hello."]);
}

#[tokio::test]
async fn file_is_uploaded_in_three_calls() {
    let stage = ReplyFixture::new().await;
    let entries = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &file_result("Here."),
        &[],
    );
    stage.deliver_all(entries.unwrap()).await;
    let world = stage.thread();
    let steps = [
        "chat.postMessage",
        "files.getUploadURLExternal",
        "upload",
        "files.completeUploadExternal",
    ];
    assert_eq!(world.calls[..4], steps);
    assert_eq!(world.file_count(), 1);
    assert_eq!(world.messages[1].text, "a,b");
}

#[tokio::test]
async fn file_upload_failure_is_reported_in_thread() {
    for (code, expected) in [
        ("storage_limit_reached", "could not be posted"),
        ("file_upload_size_restricted", "too large"),
    ] {
        let stage = ReplyFixture::new().await;
        stage.inject_fault("files.getUploadURLExternal", SlackFault::ErrorCode(code));
        let entries = plan_answer(
            &question(),
            &LiveReplyState::not_posted(),
            Language::En,
            &file_result(""),
            &[],
        );
        let entry = entries.unwrap().remove(0);
        assert!(matches!(
            stage.deliver(&entry).await,
            DeliveryOutcome::Failed { .. }
        ));
        // Dead-lettering the entry adds no second notice.
        stage
            .service
            .post_handler()
            .on_dead_letter(&outbox_entry(&entry, 12), code)
            .await;
        let notices = stage.store.entries.lock().unwrap().clone();
        assert_eq!(notices.len(), 1);
        stage.deliver_all(notices).await;
        let texts = stage.thread().texts();
        assert!(
            texts[0].contains("sales.csv") && texts[0].contains(expected),
            "{texts:?}"
        );
    }
}

#[tokio::test]
async fn file_of_missing_task_is_reported_in_thread() {
    let stage = ReplyFixture::new().await;
    let mut result = file_result("");
    result.task_id = Some("task-2".to_owned());
    let entries = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &result,
        &[],
    )
    .unwrap();
    assert!(matches!(
        stage.deliver(&entries[0]).await,
        DeliveryOutcome::Failed { .. }
    ));
    assert_eq!(stage.store.entries.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn final_reaction_replaces_received_reaction() {
    let q = question();
    let not_posted = LiveReplyState::not_posted();
    for (entries, reaction) in [
        (plan_text("Hello."), "white_check_mark"),
        (
            plan_failure(&q, &not_posted, Language::En, ErrorReason::Throttling).unwrap(),
            "x",
        ),
        (
            plan_stop(&q, &not_posted, Language::En).unwrap(),
            "octagonal_sign",
        ),
    ] {
        let stage = ReplyFixture::new().await;
        stage.thread().reactions.insert("eyes".to_owned());
        stage.deliver_all(entries).await;
        assert_eq!(
            stage.thread().reactions.iter().collect::<Vec<_>>(),
            [reaction]
        );
    }
}

#[tokio::test]
async fn answer_is_posted_without_reaction_permission() {
    for code in [
        "missing_scope",
        "already_reacted",
        "no_reaction",
        "message_not_found",
    ] {
        let stage = ReplyFixture::new().await;
        stage.inject_fault("reactions.add", SlackFault::ErrorCode(code));
        stage.inject_fault("reactions.remove", SlackFault::ErrorCode(code));
        stage.deliver_all(plan_text("Hello.")).await;
    }
}

#[tokio::test]
async fn refusal_is_ephemeral_in_thread_or_channel() {
    for (in_thread, thread) in [(false, None), (true, Some("1000.000001"))] {
        let stage = ReplyFixture::new().await;
        let mut q = question();
        q.in_thread = in_thread;
        let entries = plan_refusal(&q, Language::En, &Refusal::NotAllowed).unwrap();
        stage.deliver_all(entries).await;
        let world = stage.thread();
        assert_eq!(world.ephemerals.len(), 1);
        assert_eq!(world.ephemerals[0]["user"], "U1");
        assert_eq!(
            world.ephemerals[0].get("thread_ts").map(String::as_str),
            thread
        );
        assert!(world.texts().is_empty());
    }
}

#[tokio::test]
async fn refusal_in_direct_message_falls_back_to_post() {
    for (place_kind, messages) in [(ConversationKind::Im, 1), (ConversationKind::Channel, 0)] {
        let stage = ReplyFixture::new().await;
        let mut q = question();
        q.conversation_kind = place_kind;
        let fault = SlackFault::ErrorCode("method_not_supported_for_channel_type");
        stage.inject_fault("chat.postEphemeral", fault);
        let entries = plan_refusal(&q, Language::En, &Refusal::NotAllowed).unwrap();
        stage.deliver(&entries[0]).await;
        assert_eq!(stage.thread().texts().len(), messages, "{place_kind:?}");
    }
}

#[tokio::test]
async fn payload_of_other_version_fails_permanently() {
    let stage = ReplyFixture::new().await;
    let mut entry = plan_text("Hello.").remove(0);
    entry.payload =
        interzone_protocol::vocab::VerbatimJson::parse(r#"{"act":{"do":"dance"}}"#).unwrap();
    assert!(matches!(
        stage.deliver(&entry).await,
        DeliveryOutcome::Failed { .. }
    ));
}

/// Interrupts every step of a long reply with a file, before and after it is executed.
#[tokio::test]
async fn crash_at_any_step_neither_loses_nor_duplicates() {
    let text = "これは一文です。".repeat(3_000);
    for fault in [
        SlackFault::HangsBefore,
        SlackFault::HangsAfter,
        SlackFault::ResponseLost,
    ] {
        let mut step = 1;
        loop {
            let stage = ReplyFixture::new().await;
            stage.thread().reactions.insert("eyes".to_owned());
            let state = start_stream(&stage, "これは", true).await;
            let entries =
                plan_answer(&question(), &state, Language::Ja, &file_result(&text), &[]).unwrap();
            let changes = stage.thread().mutation_count();
            stage.thread().fault_at = Some((changes + step, fault));
            stage.deliver_all(entries).await;
            let world = stage.thread();
            assert_eq!(world.texts().concat(), text, "{fault:?} at {step}");
            assert_eq!(world.texts().len(), 3, "{fault:?} at {step}");
            assert_eq!(world.file_count(), 1, "{fault:?} at {step}");
            assert_eq!(
                world.reactions.iter().collect::<Vec<_>>(),
                ["white_check_mark"]
            );
            if world.fault_at.is_some() {
                break;
            }
            step += 1;
        }
        assert!(step > 7, "only {step} steps");
    }
}
