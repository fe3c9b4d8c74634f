//! Tests of reply planning.

use super::*;
use crate::reply::tests::{file_result, question, text_result};
use crate::slack::ids::Ts;
use interzone_protocol::zone::SkippedAttachment;
use std::fmt::Write;
use std::time::Duration;

/// Renders entries for snapshots.
fn render(entries: Vec<NewOutboxEntry>) -> String {
    let id = question().id;
    let mut out = String::new();
    for entry in entries {
        let effect: SlackAction = entry.payload.decode().unwrap();
        let key = entry.key.replace(&id, "Q");
        let group = entry.group.as_deref().unwrap_or("-");
        writeln!(out, "{key} [{group}] {:?}", effect.kind).unwrap();
    }
    out
}

fn keys(entries: &[NewOutboxEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

fn streamed_state(text: &str) -> LiveReplyState {
    LiveReplyState {
        posted_as: PostedAs::Stream {
            ts: Ts::new("2.1").unwrap(),
            is_exact: true,
        },
        accepted_text: text.to_owned(),
    }
}

#[test]
fn answer_plan_is_text_then_files_then_reaction() {
    let result = file_result("Here it is.");
    let plan = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &result,
        &[],
    )
    .unwrap();
    insta::assert_snapshot!(render(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "Here it is.", feedback: true }
    Q/file/0 [post/T1/C1/1000.000001] File { task: "task-1", artifact: "a-1", name: "sales.csv" }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Answered }
    "#);
}

#[test]
fn long_answer_has_feedback_on_last_message_only() {
    let text = "一文です。".repeat(8_000);
    let plan = plan_answer(
        &question(),
        &streamed_state("一文"),
        Language::Ja,
        &text_result(&text),
        &[],
    )
    .unwrap();
    let actions: Vec<ActionKind> = plan
        .iter()
        .map(|entry| entry.payload.decode::<SlackAction>().unwrap().kind)
        .collect();
    assert_eq!(actions.len(), 5, "four messages and a reaction");
    assert!(matches!(
        &actions[0],
        ActionKind::FinalizeLive {
            feedback: false,
            ..
        }
    ));
    assert!(matches!(
        &actions[1],
        ActionKind::Post {
            feedback: false,
            ..
        }
    ));
    assert!(matches!(
        &actions[3],
        ActionKind::Post { feedback: true, .. }
    ));
}

#[test]
fn skipped_files_are_listed_once() {
    let mut result = text_result("The chart in a.png rises.");
    let skipped = |name: &str, code: &str| SkippedAttachment {
        name: name.to_owned(),
        error_code: code.to_owned(),
    };
    result.skipped = Some(vec![
        skipped("a.png", "unsupported_image_type"),
        skipped("b.zip", "unsupported_file_type"),
        skipped("c.bin", "a_new_code"),
    ]);
    let skipped_files = [SkippedFile {
        name: "d.pdf".to_owned(),
        reason: SkipReason::TooMany,
    }];
    let plan = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &result,
        &skipped_files,
    )
    .unwrap();
    insta::assert_snapshot!(render(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "The chart in a.png rises.\n\nThe attachment `d.pdf` was left out: there are more than 5 attachments.\n\nThe attachment `b.zip` was left out: its format is not supported.\n\nThe attachment `c.bin` was left out: it could not be read.", feedback: true }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Answered }
    "#);
}

#[test]
fn empty_answer_posts_no_answer_text() {
    let plan = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::Ja,
        &text_result(" \n"),
        &[],
    )
    .unwrap();
    assert!(render(plan).contains("回答を得られませんでした。"));
    // Invisible text counts as empty too.
    for invisible in [
        "\u{200b}",
        "\u{2060}\n\u{feff}",
        "\u{ad}\u{202e}",
        "\u{3164}",
    ] {
        let unseen = invisible.repeat(12_000);
        let plan = plan_answer(
            &question(),
            &LiveReplyState::not_posted(),
            Language::En,
            &text_result(&unseen),
            &[],
        );
        let plan = plan.unwrap();
        assert_eq!(plan.len(), 2, "text and a reaction");
        assert!(render(plan).contains("There was no answer to this."));
    }
    // A file alone is an answer.
    let plan = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::Ja,
        &file_result(""),
        &[],
    )
    .unwrap();
    assert_eq!(plan.len(), 2);
    // Streamed text is kept.
    let plan = plan_answer(
        &question(),
        &streamed_state("so far"),
        Language::En,
        &file_result(""),
        &[],
    )
    .unwrap();
    assert!(render(plan).contains(r#"FinalizeLive { text: "so far""#));
}

#[test]
fn file_without_task_id_posts_notice() {
    let mut result = file_result("Here.");
    result.task_id = None;
    let plan = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &result,
        &[],
    )
    .unwrap();
    insta::assert_snapshot!(render(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "Here.\n\nThe file `sales.csv` could not be posted. Please try again later.", feedback: true }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Answered }
    "#);
}

#[test]
fn legacy_file_artifact_field_is_read() {
    let mut result = file_result("Here.");
    result.file_artifact = result.artifacts.take().and_then(|mut all| all.pop());
    let plan = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &result,
        &[],
    )
    .unwrap();
    assert!(render(plan).contains("Q/file/0"));
}

#[test]
fn failure_keeps_streamed_text_and_sets_reaction() {
    let state = streamed_state("Here is\n```rust\nlet a");
    let plan = plan_failure(&question(), &state, Language::En, ErrorReason::ModelTimeout).unwrap();
    insta::assert_snapshot!(render(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] FinalizeLive { text: "Here is\n```rust\nlet a\n```\n\nThe AI model is slow to respond. Please try again later.", feedback: false, live_state: LiveReplyState { posted_as: Stream { ts: Ts("2.1"), is_exact: true }, .. } }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Failed }
    "#);
    let plan = plan_stop(&question(), &LiveReplyState::not_posted(), Language::Ja).unwrap();
    insta::assert_snapshot!(render(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "停止しました。", feedback: false }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Stopped }
    "#);
}

#[test]
fn refusal_is_ephemeral_and_unordered() {
    let refusal = Refusal::RateLimited {
        after: Duration::from_secs(7),
    };
    let plan = plan_refusal(&question(), Language::En, &refusal).unwrap();
    insta::assert_snapshot!(render(plan), @r#"Q/refused [-] Ephemeral { user: UserId("U1"), text: "You have reached the limit of questions. Please try again in 7 seconds.", in_thread: false, is_direct_message: false }"#);
}

#[test]
fn replanning_adds_no_entries() {
    let q = question();
    let text = "x. ".repeat(10_000);
    let unknown = LiveReplyState {
        posted_as: PostedAs::Unknown,
        accepted_text: String::new(),
    };
    let first = plan_answer(
        &q,
        &streamed_state("x. "),
        Language::En,
        &text_result(&text),
        &[],
    )
    .unwrap();
    let second = plan_answer(&q, &unknown, Language::En, &text_result(&text), &[]).unwrap();
    assert_eq!(keys(&first), keys(&second));
    // Not even with another outcome.
    let other = plan_failure(&q, &unknown, Language::En, ErrorReason::PollError).unwrap();
    for key in keys(&other) {
        assert!(keys(&first).contains(&key), "{key}");
    }
}

#[test]
fn mentions_in_answer_are_escaped() {
    let result = text_result("<!channel> and <@U1>");
    let plan = plan_answer(
        &question(),
        &LiveReplyState::not_posted(),
        Language::En,
        &result,
        &[],
    )
    .unwrap();
    let rendered = render(plan);
    assert!(
        !rendered.contains("<!channel") && !rendered.contains("<@U1"),
        "{rendered}"
    );
}
