//! Whether a reply is shown while it comes, and ends as it was meant.

use super::*;
use crate::reply::plan::{answered, failed};
use crate::reply::tests::{Fault, Stage, answer, question, with_file};
use crate::slack::ids::Ts;
use interzone_protocol::zone::ErrorWord;

fn live(stage: &Stage, attempt: u32) -> Live {
    stage
        .desk
        .live(&question(), &stage.at, Language::En, attempt)
}

/// Waits until Slack shows what is wanted.
async fn until(stage: &Stage, wanted: impl Fn(&crate::reply::tests::World) -> bool) {
    let mut calls = stage.calls();
    loop {
        if wanted(&stage.world()) {
            return;
        }
        calls.changed().await.unwrap();
    }
}

async fn finish(stage: &Stage, left: &Left, text: &str) {
    let entries = answered(&question(), left, Language::En, &answer(text), &[]).unwrap();
    stage.carry_all(entries).await;
}

#[tokio::test]
async fn words_are_streamed_as_they_come_and_end_as_they_were_meant() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    live.text("Hello");
    until(&stage, |world| world.texts() == ["Hello"]).await;
    live.text(", world");
    until(&stage, |world| world.texts() == ["Hello, world"]).await;
    live.text(" and all");
    let left = live.left().await;
    finish(&stage, &left, "Hello, world and all.").await;
    let world = stage.world();
    assert_eq!(world.texts(), ["Hello, world and all."]);
    assert_eq!(world.count("chat.startStream"), 1);
    assert_eq!(world.count("chat.update"), 0);
    assert_eq!(
        world.reactions.iter().collect::<Vec<_>>(),
        ["white_check_mark"]
    );
}

#[tokio::test]
async fn nothing_is_asked_of_slack_before_the_first_text() {
    let stage = Stage::new().await;
    // The sign that it was received hangs, and holds nothing up.
    stage.fault("reactions.add", Fault::HangsBefore);
    let live = live(&stage, 1);
    live.text("Hello");
    until(&stage, |world| world.texts() == ["Hello"]).await;
    assert_eq!(stage.world().count("conversations.replies"), 0);
    assert_eq!(stage.world().count("assistant.threads.setStatus"), 0);
}

#[tokio::test]
async fn where_streams_are_refused_a_message_is_changed_and_that_is_remembered() {
    let stage = Stage::new().await;
    stage.fault("chat.startStream", Fault::Word("unknown_method"));
    for round in 1..=2 {
        let live = live(&stage, 1);
        live.text("Hello");
        until(&stage, |world| world.texts().len() == round).await;
        {
            let world = stage.world();
            assert_eq!(world.count("chat.startStream"), 1, "asked once an hour");
            let message = &world.messages[round - 1];
            assert!(message.has("actions"), "a button to stop it");
            assert!(message.metadata.is_some());
        }
        live.text(", world");
        until(&stage, |world| {
            world.messages[round - 1].text == "Hello, world"
        })
        .await;
        let left = live.left().await;
        finish(&stage, &left, "Hello, world.").await;
        let world = stage.world();
        assert_eq!(world.messages[round - 1].text, "Hello, world.");
        assert!(!world.messages[round - 1].has("actions"), "nothing to stop");
    }
}

#[tokio::test]
async fn a_fast_answer_is_one_post() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    let left = live.left().await;
    assert_eq!(left, Left::nothing());
    finish(&stage, &left, "Hello.").await;
    assert_eq!(stage.world().texts(), ["Hello."]);
    assert_eq!(stage.world().count("chat.startStream"), 0);
}

#[tokio::test]
async fn too_many_additions_are_skipped_and_the_end_has_it_all() {
    let stage = Stage::new().await;
    stage.fault("chat.appendStream", Fault::Limited(3_000));
    let live = live(&stage, 1);
    live.text("Hello");
    until(&stage, |world| world.texts() == ["Hello"]).await;
    live.text(", world.");
    until(&stage, |world| world.count("chat.appendStream") == 1).await;
    let left = live.left().await;
    finish(&stage, &left, "Hello, world.").await;
    assert_eq!(stage.world().texts(), ["Hello, world."]);
}

#[tokio::test]
async fn an_addition_whose_answer_is_lost_is_not_doubled() {
    let stage = Stage::new().await;
    stage.fault("chat.appendStream", Fault::Lost);
    let live = live(&stage, 1);
    live.text("Hello");
    until(&stage, |world| world.texts() == ["Hello"]).await;
    live.text(", world.");
    until(&stage, |world| world.texts() == ["Hello, world."]).await;
    let left = live.left().await;
    finish(&stage, &left, "Hello, world.").await;
    assert_eq!(stage.world().texts(), ["Hello, world."]);
}

#[tokio::test]
async fn a_beginning_whose_answer_is_lost_is_found_again() {
    for refused in [false, true] {
        let stage = Stage::new().await;
        let method = if refused {
            stage.fault("chat.startStream", Fault::Word("feature_not_enabled"));
            "chat.postMessage"
        } else {
            "chat.startStream"
        };
        stage.fault(method, Fault::Lost);
        let live = live(&stage, 1);
        live.text("Hel");
        until(&stage, |world| world.texts() == ["Hel"]).await;
        live.text("lo.");
        let left = live.left().await;
        finish(&stage, &left, "Hello.").await;
        assert_eq!(stage.world().texts(), ["Hello."], "{method}");
    }
}

#[tokio::test]
async fn a_mention_that_comes_in_pieces_calls_nobody() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    live.text("Hi <!");
    until(&stage, |world| world.texts() == ["Hi "]).await;
    live.text("channel> all");
    until(&stage, |world| world.texts().concat().ends_with("all")).await;
    assert_eq!(stage.world().texts(), ["Hi <\u{2060}!channel> all"]);
}

#[tokio::test]
async fn a_later_attempt_leaves_what_may_be_finished_alone() {
    let stage = Stage::new().await;
    let first = live(&stage, 1);
    first.text("Hello");
    until(&stage, |world| world.texts() == ["Hello"]).await;
    let left = first.left().await;
    finish(&stage, &left, "Hello, world.").await;
    // The node dies before it settles the question, and asks it once more.
    let second = live(&stage, 2);
    second.text("Hello");
    let left = second.left().await;
    assert_eq!(left, Left::unknown());
    assert_eq!(stage.world().texts(), ["Hello, world."]);
    let signs = stage.world().reactions.clone();
    assert_eq!(signs.iter().collect::<Vec<_>>(), ["white_check_mark"]);
    assert!(stage.world().messages[0].has("context_actions"));
}

#[tokio::test]
async fn a_later_attempt_that_is_the_first_to_begin_a_task_is_shown() {
    let stage = Stage::new().await;
    let early = live(&stage, 2);
    until(&stage, |world| world.reactions.contains("eyes")).await;
    drop(early);
    let live = live(&stage, 3);
    live.text("Hello");
    until(&stage, |world| world.texts() == ["Hello"]).await;
}

#[tokio::test]
async fn an_answer_that_takes_long_can_be_stopped() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    live.begun();
    until(&stage, |world| !world.told.is_empty()).await;
    let told = stage.world().told[0].clone();
    assert_eq!(told["user"], "U1");
    assert!(told["blocks"].contains("interzone_stop"));
    assert!(told["blocks"].contains(&question().id));
    drop(live);
}

#[tokio::test]
async fn a_failure_stands_under_what_was_said() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    live.text("So far");
    until(&stage, |world| world.texts() == ["So far"]).await;
    let left = live.left().await;
    let entries = failed(&question(), &left, Language::En, ErrorWord::AsyncTimeout).unwrap();
    stage.carry_all(entries).await;
    let texts = stage.world().texts();
    assert_eq!(texts.len(), 1);
    assert!(
        texts[0].starts_with("So far\n\nThis took too long"),
        "{texts:?}"
    );
    assert_eq!(stage.world().reactions.iter().collect::<Vec<_>>(), ["x"]);
}

#[tokio::test]
async fn no_more_is_streamed_than_a_message_holds() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    let text = "一文です。".repeat(4_000);
    live.text(&text);
    until(&stage, |world| !world.texts().is_empty()).await;
    let left = live.left().await;
    let entries = answered(&question(), &left, Language::Ja, &answer(&text), &[]).unwrap();
    stage.carry_all(entries).await;
    let world = stage.world();
    assert_eq!(world.texts().len(), 2);
    assert_eq!(world.texts().concat(), text);
}

/// The whole of a reply, broken off at every step; each crash takes the question up once more.
#[tokio::test]
async fn a_crash_at_any_step_of_a_live_reply_neither_loses_nor_doubles() {
    let text = "Hello, world. This is all.";
    for fault in [Fault::HangsBefore, Fault::HangsAfter] {
        let mut step = 1;
        loop {
            let stage = Stage::new().await;
            stage.world().fault_at = Some((step, fault));
            let mut attempt = 1;
            let left = loop {
                let live = live(&stage, attempt);
                let said = async {
                    live.text("Hello, ");
                    if attempt == 1 {
                        until(&stage, |world| world.count("chat.startStream") == 1).await;
                        until(&stage, |world| world.count("reactions.add") == 1).await;
                    }
                    live.text("world.");
                    live.left().await
                };
                match stage.or_crash(said).await {
                    Some(left) => break left,
                    None => attempt += 1,
                }
            };
            let result = with_file(text);
            let entries = answered(&question(), &left, Language::En, &result, &[]).unwrap();
            stage.carry_all(entries).await;
            let world = stage.world();
            assert_eq!(world.texts(), [text], "{fault:?} at {step}");
            assert_eq!(world.files(), 1, "{fault:?} at {step}");
            if world.fault_at.is_some() {
                break;
            }
            step += 1;
        }
        assert!(step > 6, "only {step} steps");
    }
}

/// A question in the thread of the other one.
fn second_question() -> Question {
    let first = question();
    let ts = Ts::new("1000.000002").unwrap();
    Question {
        id: Question::id_of(&first.team, &first.channel, &ts),
        event_id: "Ev2".to_owned(),
        ts,
        in_thread: true,
        ..first
    }
}

/// The first answer never heard of its stream and looks for it; the second's stands there while the answer
/// to the call that began it is on its way. Whose it is cannot be told, and the first takes it.
async fn taken(stage: &Stage, second: &Question) -> Live {
    stage.fault("chat.startStream", Fault::Held);
    let live = stage.desk.live(second, &stage.at, Language::En, 1);
    live.text("The second");
    until(stage, |world| world.texts() == ["The second"]).await;
    finish(stage, &Left::unknown(), "The first.").await;
    assert_eq!(stage.world().texts(), ["The first."], "it took the stream");
    stage.world().go.notify_one();
    live
}

#[tokio::test]
async fn two_answers_in_one_thread_that_take_the_same_stream_both_stand_there() {
    for more in [None, Some(" and more")] {
        let stage = Stage::new().await;
        let second = second_question();
        let live = taken(&stage, &second).await;
        if let Some(more) = more {
            // It may grow before it ends, and what it grows is not its own any more.
            live.text(more);
            until(&stage, |world| world.count("chat.appendStream") == 1).await;
        }
        let left = live.left().await;
        let result = answer("The second and more.");
        let entries = answered(&second, &left, Language::En, &result, &[]).unwrap();
        stage.carry_all(entries).await;
        let world = stage.world();
        assert_eq!(world.texts(), ["The first.", "The second and more."]);
        assert!(world.messages.iter().all(|message| !message.streams));
        assert!(world.messages.iter().all(|one| one.has("context_actions")));
    }
}

/// What the second had said is not lost with its stream.
#[tokio::test]
async fn an_answer_that_breaks_off_after_another_took_its_stream_keeps_what_it_said() {
    let stage = Stage::new().await;
    let second = second_question();
    let live = taken(&stage, &second).await;
    live.text(" and more");
    until(&stage, |world| world.count("chat.appendStream") == 1).await;
    let left = live.left().await;
    let entries = failed(&second, &left, Language::En, ErrorWord::Throttling).unwrap();
    stage.carry_all(entries).await;
    let texts = stage.world().texts();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(texts[0], "The first.");
    assert!(texts[1].starts_with("The second"), "{texts:?}");
}

/// No note tells whose the second's stream is, and Slack has ended it: its key tells.
#[tokio::test]
async fn a_stream_that_slack_ended_is_not_adopted_once_it_has_grown_on() {
    let stage = Stage::new().await;
    let second = second_question();
    let live = stage.desk.live(&second, &stage.at, Language::En, 1);
    live.text("The second");
    until(&stage, |world| world.texts() == ["The second"]).await;
    stage.world().messages[0].streams = false;
    live.text(" and more");
    until(&stage, |world| world.texts() == ["The second and more"]).await;
    stage.shelf.forget("slack.live.at");

    finish(&stage, &Left::unknown(), "The first.").await;
    let texts = stage.world().texts();
    assert_eq!(texts, ["The second and more", "The first."]);

    let left = live.left().await;
    let result = answer("The second and more.");
    let entries = answered(&second, &left, Language::En, &result, &[]).unwrap();
    stage.carry_all(entries).await;
    let texts = stage.world().texts();
    assert_eq!(texts, ["The second and more.", "The first."]);
}

#[tokio::test]
async fn what_nobody_sees_begins_nothing_and_is_no_answer() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    let unseen = "\u{200b}\u{2060} \u{feff}\u{ad}";
    live.text(unseen);
    until(&stage, |world| {
        world.statuses.len() + world.count("chat.startStream") == 1
    })
    .await;
    let left = live.left().await;
    finish(&stage, &left, unseen).await;
    assert_eq!(stage.world().texts(), ["There was no answer to this."]);
    assert_eq!(stage.world().count("chat.startStream"), 0);
}

#[tokio::test]
async fn a_status_is_a_line_that_nothing_turns_around() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    until(&stage, |world| world.statuses.len() == 1).await;
    live.status("\u{202e}\u{200b}");
    live.status("reads\u{202e} fdp.\u{2066}exe\u{1b}[2J\u{0}\nof 👨\u{200d}👩 <\u{200f}!here>");
    until(&stage, |world| world.statuses.len() == 2).await;
    let shown = stage.world().statuses[1].clone();
    // The call is no call either, once what hid it is gone.
    assert_eq!(shown, "reads fdp.exe[2J of 👨\u{200d}👩 <\u{2060}!here>");
}

#[tokio::test]
async fn a_status_is_shown_while_there_is_nothing_to_read() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    until(&stage, |world| world.statuses.len() == 1).await;
    live.status("is reading 3 files");
    until(&stage, |world| world.statuses.len() == 2).await;
    live.status("  ");
    live.status("is writing");
    until(&stage, |world| world.statuses.len() == 3).await;
    let statuses = stage.world().statuses.clone();
    assert_eq!(
        statuses,
        ["is thinking…", "is reading 3 files", "is writing"]
    );
}

#[tokio::test]
async fn a_workspace_without_statuses_is_not_asked_again() {
    let stage = Stage::new().await;
    stage.fault("assistant.threads.setStatus", Fault::Word("unknown_method"));
    let first = live(&stage, 1);
    until(&stage, |world| {
        world.count("assistant.threads.setStatus") == 1
    })
    .await;
    first.left().await;
    let team = question().team;
    assert!(!stage.desk.features.has(&team, Feature::Status));
}

#[tokio::test]
async fn a_stream_that_slack_ended_goes_on_as_a_message_that_is_changed() {
    let stage = Stage::new().await;
    let live = live(&stage, 1);
    live.text("Hello");
    until(&stage, |world| world.texts() == ["Hello"]).await;
    stage.world().messages[0].streams = false;
    live.text(", world");
    until(&stage, |world| world.texts() == ["Hello, world"]).await;
    assert!(stage.world().messages[0].has("actions"));
    let left = live.left().await;
    finish(&stage, &left, "Hello, world.").await;
    let world = stage.world();
    assert_eq!(world.texts(), ["Hello, world."]);
    assert!(!world.messages[0].has("actions") && world.messages[0].has("context_actions"));
}
