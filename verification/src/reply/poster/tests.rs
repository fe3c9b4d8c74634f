//! Whether each entry stands in Slack once, whatever goes wrong on the way.

use super::*;
use crate::question::PlaceKind;
use crate::reply::effect::{Left, Standing};
use crate::reply::plan::{answered, failed, refused, stopped};
use crate::reply::tests::{Fault, Stage, answer, claimed, question, with_file};
use crate::slack::ids::Ts;
use crate::texts::{Language, Refusal};
use interzone_hub::NewEntry;
use interzone_protocol::zone::ErrorWord;

fn plain(text: &str) -> Vec<NewEntry> {
    answered(
        &question(),
        &Left::nothing(),
        Language::En,
        &answer(text),
        &[],
    )
    .unwrap()
}

fn left(standing: Standing, said: &str) -> Left {
    Left {
        standing,
        said: said.to_owned(),
    }
}

fn unknown() -> Left {
    left(Standing::Unknown, "")
}

/// A stream that was begun with these words, and of which this is known.
async fn streaming(stage: &Stage, said: &str, sure: bool) -> Left {
    let q = question();
    let start = crate::slack::api::chat::StartStream {
        channel: &q.channel,
        thread: &q.thread,
        recipient: None,
        markdown: Some(said),
        chunks: None,
    };
    let ts = stage.desk.slack.chat_start_stream(&stage.at, &start);
    let ts = ts.await.unwrap();
    stage.world().calls.clear();
    left(Standing::Stream { ts, sure }, said)
}

#[tokio::test]
async fn a_post_has_markdown_buttons_a_key_and_text_for_those_who_see_no_blocks() {
    let stage = Stage::new().await;
    stage.carry_all(plain("**Hello** <b>")).await;
    let world = stage.world();
    assert_eq!(world.texts(), ["**Hello** <b>"]);
    let message = &world.messages[0];
    assert!(message.has("context_actions"));
    let key = &message.metadata.as_ref().unwrap()["event_payload"]["key"];
    assert_eq!(*key, format!("{}/text/0", question().id));
    assert!(world.reactions.contains("white_check_mark"));
    assert_eq!(
        world.count("conversations.replies"),
        0,
        "nothing to look for"
    );
}

#[tokio::test]
async fn a_lost_answer_does_not_double_a_post() {
    let stage = Stage::new().await;
    stage.fault("chat.postMessage", Fault::Lost);
    stage.carry_all(plain("Hello.")).await;
    assert_eq!(stage.world().texts(), ["Hello."]);
    assert_eq!(stage.world().count("chat.postMessage"), 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_neither_doubles_nor_loses_a_post() {
    for fault in [Fault::SentOn, Fault::Endless] {
        let stage = Stage::new().await;
        stage.fault("chat.postMessage", fault);
        stage.carry_all(plain("Hello.")).await;
        let world = stage.world();
        assert_eq!(world.texts(), ["Hello."], "{fault:?}");
        assert_eq!(world.count("chat.postMessage"), 1, "{fault:?}");
        assert_eq!(world.count("conversations.replies"), 1, "it was looked for");
        assert!(world.reactions.contains("white_check_mark"));
    }
}

#[tokio::test]
async fn a_word_that_nobody_knows_is_believed_after_a_few_tries() {
    let word = Fault::Word("a_word_of_next_year");
    // It was for now.
    let stage = Stage::new().await;
    stage.fault("chat.postMessage", word);
    stage.fault("chat.postMessage", word);
    stage.carry_all(plain("Hello.")).await;
    assert_eq!(stage.world().texts(), ["Hello."]);
    // It is for good.
    let stage = Stage::new().await;
    for _ in 0..EARLY {
        stage.fault("chat.postMessage", word);
    }
    let carried = stage.carry(&plain("Hello.")[0]).await;
    assert!(matches!(carried, Carried::Never { .. }), "{carried:?}");
    let tries = u32::try_from(stage.world().count("chat.postMessage")).unwrap();
    assert_eq!(tries, EARLY);
}

#[tokio::test]
async fn too_many_calls_are_made_later_and_what_can_never_pass_is_not() {
    let stage = Stage::new().await;
    let entry = claimed(&plain("Hello.")[0], 1);
    stage.fault("chat.postMessage", Fault::Limited(7));
    match stage.desk.poster().carry(&entry).await {
        Carried::Later { after, .. } => assert_eq!(after.map(|wait| wait.as_secs()), Some(7)),
        other => panic!("{other:?}"),
    }
    for word in [
        "channel_not_found",
        "is_archived",
        "not_in_channel",
        "account_inactive",
        "token_revoked",
        "invalid_auth",
        "restricted_action",
    ] {
        // Another workspace's pace is not this one's.
        let stage = Stage::new().await;
        stage.fault("chat.postMessage", Fault::Word(word));
        let carried = stage.desk.poster().carry(&entry).await;
        assert!(
            matches!(carried, Carried::Never { .. }),
            "{word}: {carried:?}"
        );
    }
}

#[tokio::test]
async fn where_blocks_are_not_taken_the_text_goes_alone() {
    let stage = Stage::new().await;
    stage.fault("chat.postMessage", Fault::WordForBlocks("invalid_blocks"));
    stage.carry_all(plain("**Hello** <!channel>")).await;
    let world = stage.world();
    assert_eq!(world.texts(), ["*Hello* &lt;\u{2060}!channel&gt;"]);
    assert!(world.messages[0].blocks.is_empty());
}

#[tokio::test]
async fn where_only_the_buttons_are_not_taken_the_rest_stays() {
    let stage = Stage::new().await;
    stage.fault("chat.postMessage", Fault::Word("invalid_blocks"));
    stage.carry_all(plain("**Hello**")).await;
    let world = stage.world();
    assert_eq!(world.texts(), ["**Hello**"]);
    assert!(world.messages[0].has("markdown") && !world.messages[0].has("context_actions"));
}

#[tokio::test]
async fn a_message_that_is_too_long_for_slack_goes_in_parts_each_once() {
    let text = "A sentence that is said. ".repeat(400);
    for standing in [None, Some("A sentence")] {
        for lost in [None, Some(2), Some(3), Some(4)] {
            let stage = Stage::new().await;
            let left = match standing {
                Some(said) => streaming(&stage, said, false).await,
                None => Left::nothing(),
            };
            stage.world().longest = Some(4_000);
            // The answer to one of the calls is lost.
            let steps = stage.world().steps();
            stage.world().fault_at = lost.map(|step| (steps + step, Fault::Lost));
            let entries = answered(&question(), &left, Language::En, &answer(&text), &[]).unwrap();
            stage.carry_all(entries).await;
            let world = stage.world();
            let said = world.texts();
            assert_eq!(said.len(), 3, "{standing:?} {lost:?}");
            assert_eq!(said.join(" "), text.trim_end());
            let buttons = world.messages.iter().map(|one| one.has("context_actions"));
            assert_eq!(buttons.collect::<Vec<_>>(), [false, false, true]);
        }
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_rest_of_its_text_in_one_call() {
    let stage = Stage::new().await;
    let left = streaming(&stage, "Hello, ", true).await;
    let entries = answered(
        &question(),
        &left,
        Language::En,
        &answer("Hello, world."),
        &[],
    )
    .unwrap();
    stage.carry_all(entries).await;
    let world = stage.world();
    assert_eq!(world.texts(), ["Hello, world."]);
    assert!(!world.messages[0].streams);
    assert!(world.messages[0].has("context_actions"));
    assert!(world.messages[0].metadata.is_some());
    assert_eq!(world.count("chat.stopStream"), 1);
    assert_eq!(world.count("chat.update"), 0);
}

#[tokio::test]
async fn a_stream_that_says_something_else_is_made_right() {
    for (said, sure) in [("Hullo, ", true), ("Hello, ", false)] {
        let stage = Stage::new().await;
        let left = streaming(&stage, said, sure).await;
        let result = answer("Hello, world.");
        let entries = answered(&question(), &left, Language::En, &result, &[]).unwrap();
        stage.carry_all(entries).await;
        let world = stage.world();
        assert_eq!(world.texts(), ["Hello, world."]);
        assert!(world.messages[0].has("markdown") && world.messages[0].has("context_actions"));
    }
}

#[tokio::test]
async fn a_lost_end_of_a_stream_does_not_double_its_rest() {
    for fault in [Fault::Lost, Fault::HangsAfter, Fault::HangsBefore] {
        let stage = Stage::new().await;
        let left = streaming(&stage, "Hello, ", true).await;
        stage.fault("chat.stopStream", fault);
        let entries = answered(
            &question(),
            &left,
            Language::En,
            &answer("Hello, world."),
            &[],
        )
        .unwrap();
        stage.carry_all(entries).await;
        assert_eq!(stage.world().texts(), ["Hello, world."], "{fault:?}");
        assert!(!stage.world().messages[0].streams);
    }
}

#[tokio::test]
async fn a_stream_that_cannot_be_ended_now_is_not_given_up() {
    for sure in [true, false] {
        let stage = Stage::new().await;
        let left = streaming(&stage, "Hello, ", sure).await;
        for _ in 0..3 {
            stage.fault("chat.stopStream", Fault::Broken);
        }
        let result = answer("Hello, world.");
        let entries = answered(&question(), &left, Language::En, &result, &[]).unwrap();
        stage.carry_all(entries).await;
        let world = stage.world();
        assert_eq!(world.texts(), ["Hello, world."], "{sure}");
        assert!(world.reactions.contains("white_check_mark"));
    }
}

#[tokio::test]
async fn a_stream_that_nobody_heard_of_is_found_and_finished() {
    let stage = Stage::new().await;
    streaming(&stage, "Hel", true).await;
    let entries = answered(
        &question(),
        &unknown(),
        Language::En,
        &answer("Hello."),
        &[],
    )
    .unwrap();
    stage.carry_all(entries).await;
    assert_eq!(stage.world().texts(), ["Hello."]);
    // If there is none, the answer is a post of its own.
    let stage = Stage::new().await;
    let entries = answered(
        &question(),
        &unknown(),
        Language::En,
        &answer("Hello."),
        &[],
    )
    .unwrap();
    stage.carry_all(entries).await;
    assert_eq!(stage.world().texts(), ["Hello."]);
}

#[tokio::test]
async fn as_long_as_nobody_says_who_we_are_an_answer_waits_instead_of_coming_twice() {
    let stage = Stage::new().await;
    streaming(&stage, "Hel", true).await;
    let entries = answered(
        &question(),
        &unknown(),
        Language::En,
        &answer("Hello."),
        &[],
    );
    let entry = entries.unwrap().remove(0);
    let stranger = stage.stranger();
    for attempt in 1..EARLY {
        let carried = stranger.poster().carry(&claimed(&entry, attempt)).await;
        assert!(matches!(carried, Carried::Later { .. }), "{carried:?}");
    }
    assert_eq!(stage.world().texts(), ["Hel"], "nothing beside what grew");
    // It comes out who we are, and what grew is found and finished.
    let carried = stage.desk.poster().carry(&claimed(&entry, EARLY)).await;
    assert_eq!(carried, Carried::Arrived);
    assert_eq!(stage.world().texts(), ["Hello."]);
}

#[tokio::test]
async fn if_it_never_comes_out_who_we_are_the_answer_stands_there_all_the_same() {
    let stage = Stage::new().await;
    let entries = answered(
        &question(),
        &unknown(),
        Language::En,
        &answer("Hello."),
        &[],
    );
    let entry = claimed(&entries.unwrap()[0], EARLY);
    let carried = stage.stranger().poster().carry(&entry).await;
    assert_eq!(carried, Carried::Arrived);
    assert_eq!(stage.world().texts(), ["Hello."]);
}

#[tokio::test]
async fn an_answer_that_could_not_be_said_gets_no_sign_of_success() {
    let stage = Stage::new().await;
    stage.world().reactions.insert("eyes".to_owned());
    stage.fault("chat.postMessage", Fault::Word("is_archived"));
    let entries = plain("Hello.");
    let carried = stage.carry(&entries[0]).await;
    assert!(matches!(carried, Carried::Never { .. }), "{carried:?}");
    let entry = claimed(&entries[0], 1);
    stage.desk.poster().given_up(&entry, "is_archived").await;
    stage.carry_all(entries[1..].to_vec()).await;
    assert_eq!(stage.world().reactions.iter().collect::<Vec<_>>(), ["x"]);
}

#[tokio::test]
async fn what_belongs_to_another_question_is_not_adopted() {
    let stage = Stage::new().await;
    let Standing::Stream { ts, .. } = streaming(&stage, "Other", true).await.standing else {
        panic!("no stream");
    };
    stage
        .shelf
        .know("slack.live.at", &format!("C1/{ts}"), "another")
        .await;
    let entries = answered(&question(), &unknown(), Language::En, &answer("Mine."), &[]).unwrap();
    stage.carry_all(entries).await;
    assert_eq!(stage.world().texts(), ["Other", "Mine."]);
}

#[tokio::test]
async fn a_message_that_somebody_took_away_is_posted_anew() {
    let stage = Stage::new().await;
    let gone = left(
        Standing::Post {
            ts: Ts::new("1500.1").unwrap(),
        },
        "Hel",
    );
    let entries = answered(&question(), &gone, Language::En, &answer("Hello."), &[]).unwrap();
    stage.carry_all(entries).await;
    assert_eq!(stage.world().texts(), ["Hello."]);
}

#[tokio::test]
async fn a_file_goes_in_three_steps() {
    let stage = Stage::new().await;
    let entries = answered(
        &question(),
        &Left::nothing(),
        Language::En,
        &with_file("Here."),
        &[],
    );
    stage.carry_all(entries.unwrap()).await;
    let world = stage.world();
    let steps = [
        "chat.postMessage",
        "files.getUploadURLExternal",
        "upload",
        "files.completeUploadExternal",
    ];
    assert_eq!(world.calls[..4], steps);
    assert_eq!(world.files(), 1);
    assert_eq!(world.messages[1].text, "a,b");
}

#[tokio::test]
async fn a_file_that_cannot_be_posted_is_said_in_the_thread() {
    for (word, wanted) in [
        ("storage_limit_reached", "could not be posted"),
        ("file_upload_size_restricted", "too large"),
    ] {
        let stage = Stage::new().await;
        stage.fault("files.getUploadURLExternal", Fault::Word(word));
        let entries = answered(
            &question(),
            &Left::nothing(),
            Language::En,
            &with_file(""),
            &[],
        );
        let entry = entries.unwrap().remove(0);
        assert!(matches!(stage.carry(&entry).await, Carried::Never { .. }));
        // Giving up once more adds nothing.
        stage
            .desk
            .poster()
            .given_up(&claimed(&entry, 12), word)
            .await;
        let said = stage.shelf.entries.lock().unwrap().clone();
        assert_eq!(said.len(), 1);
        stage.carry_all(said).await;
        let texts = stage.world().texts();
        assert!(
            texts[0].contains("sales.csv") && texts[0].contains(wanted),
            "{texts:?}"
        );
    }
}

#[tokio::test]
async fn a_file_whose_task_is_gone_is_said_too() {
    let stage = Stage::new().await;
    let mut result = with_file("");
    result.task_id = Some("task-2".to_owned());
    let entries = answered(&question(), &Left::nothing(), Language::En, &result, &[]).unwrap();
    assert!(matches!(
        stage.carry(&entries[0]).await,
        Carried::Never { .. }
    ));
    assert_eq!(stage.shelf.entries.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_sign_shows_how_it_ended_and_the_first_one_goes() {
    let q = question();
    let nothing = Left::nothing();
    for (entries, sign) in [
        (plain("Hello."), "white_check_mark"),
        (
            failed(&q, &nothing, Language::En, ErrorWord::Throttling).unwrap(),
            "x",
        ),
        (
            stopped(&q, &nothing, Language::En).unwrap(),
            "octagonal_sign",
        ),
    ] {
        let stage = Stage::new().await;
        stage.world().reactions.insert("eyes".to_owned());
        stage.carry_all(entries).await;
        assert_eq!(stage.world().reactions.iter().collect::<Vec<_>>(), [sign]);
    }
}

#[tokio::test]
async fn a_workspace_without_reactions_gets_its_answer_all_the_same() {
    for word in [
        "missing_scope",
        "already_reacted",
        "no_reaction",
        "message_not_found",
    ] {
        let stage = Stage::new().await;
        stage.fault("reactions.add", Fault::Word(word));
        stage.fault("reactions.remove", Fault::Word(word));
        stage.carry_all(plain("Hello.")).await;
    }
}

#[tokio::test]
async fn a_refusal_is_shown_where_the_user_looks() {
    for (in_thread, thread) in [(false, None), (true, Some("1000.000001"))] {
        let stage = Stage::new().await;
        let mut q = question();
        q.in_thread = in_thread;
        let entries = refused(&q, Language::En, &Refusal::NotAllowed).unwrap();
        stage.carry_all(entries).await;
        let world = stage.world();
        assert_eq!(world.told.len(), 1);
        assert_eq!(world.told[0]["user"], "U1");
        assert_eq!(world.told[0].get("thread_ts").map(String::as_str), thread);
        assert!(world.texts().is_empty());
    }
}

#[tokio::test]
async fn between_two_alone_a_refusal_may_be_a_message() {
    for (place, messages) in [(PlaceKind::Im, 1), (PlaceKind::Channel, 0)] {
        let stage = Stage::new().await;
        let mut q = question();
        q.place = place;
        let word = Fault::Word("method_not_supported_for_channel_type");
        stage.fault("chat.postEphemeral", word);
        let entries = refused(&q, Language::En, &Refusal::NotAllowed).unwrap();
        stage.carry(&entries[0]).await;
        assert_eq!(stage.world().texts().len(), messages, "{place:?}");
    }
}

#[tokio::test]
async fn what_another_version_wrote_is_given_up_and_not_guessed() {
    let stage = Stage::new().await;
    let mut entry = plain("Hello.").remove(0);
    entry.payload = interzone_protocol::vocab::Json::parse(r#"{"act":{"do":"dance"}}"#).unwrap();
    assert!(matches!(stage.carry(&entry).await, Carried::Never { .. }));
}

/// Every step of a long reply with a file is broken off once, before and after it has happened.
#[tokio::test]
async fn a_crash_at_any_step_neither_loses_nor_doubles() {
    let text = "これは一文です。".repeat(3_000);
    for fault in [Fault::HangsBefore, Fault::HangsAfter, Fault::Lost] {
        let mut step = 1;
        loop {
            let stage = Stage::new().await;
            stage.world().reactions.insert("eyes".to_owned());
            let left = streaming(&stage, "これは", true).await;
            let entries =
                answered(&question(), &left, Language::Ja, &with_file(&text), &[]).unwrap();
            let changes = stage.world().steps();
            stage.world().fault_at = Some((changes + step, fault));
            stage.carry_all(entries).await;
            let world = stage.world();
            assert_eq!(world.texts().concat(), text, "{fault:?} at {step}");
            assert_eq!(world.texts().len(), 3, "{fault:?} at {step}");
            assert_eq!(world.files(), 1, "{fault:?} at {step}");
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
