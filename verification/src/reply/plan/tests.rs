//! Whether what came of a question is planned as it should be, once.

use super::*;
use crate::reply::tests::{answer, question, with_file};
use crate::slack::ids::Ts;
use interzone_protocol::zone::Skipped;
use std::fmt::Write;
use std::time::Duration;

/// The entries as an operator would note them.
fn told(entries: Vec<NewEntry>) -> String {
    let id = question().id;
    let mut out = String::new();
    for entry in entries {
        let effect: Effect = entry.payload.decode().unwrap();
        let key = entry.key.replace(&id, "Q");
        let group = entry.group.as_deref().unwrap_or("-");
        writeln!(out, "{key} [{group}] {:?}", effect.act).unwrap();
    }
    out
}

fn keys(entries: &[NewEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

fn streamed(said: &str) -> Left {
    Left {
        standing: Standing::Stream {
            ts: Ts::new("2.1").unwrap(),
            sure: true,
        },
        said: said.to_owned(),
    }
}

#[test]
fn an_answer_is_text_then_files_then_a_sign() {
    let result = with_file("Here it is.");
    let plan = answered(&question(), &Left::nothing(), Language::En, &result, &[]).unwrap();
    insta::assert_snapshot!(told(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "Here it is.", feedback: true }
    Q/file/0 [post/T1/C1/1000.000001] File { task: "task-1", artifact: "a-1", name: "sales.csv" }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Answered }
    "#);
}

#[test]
fn a_long_answer_has_its_buttons_under_the_last_message_alone() {
    let text = "一文です。".repeat(8_000);
    let plan = answered(
        &question(),
        &streamed("一文"),
        Language::Ja,
        &answer(&text),
        &[],
    )
    .unwrap();
    let acts: Vec<Act> = plan
        .iter()
        .map(|entry| entry.payload.decode::<Effect>().unwrap().act)
        .collect();
    assert_eq!(acts.len(), 5, "four messages and a sign");
    assert!(matches!(
        &acts[0],
        Act::Finish {
            feedback: false,
            ..
        }
    ));
    assert!(matches!(
        &acts[1],
        Act::Post {
            feedback: false,
            ..
        }
    ));
    assert!(matches!(&acts[3], Act::Post { feedback: true, .. }));
}

#[test]
fn what_was_left_out_is_told_once() {
    let mut result = answer("The chart in a.png rises.");
    let skipped = |name: &str, word: &str| Skipped {
        name: name.to_owned(),
        error_code: word.to_owned(),
    };
    result.skipped = Some(vec![
        skipped("a.png", "unsupported_image_type"),
        skipped("b.zip", "unsupported_file_type"),
        skipped("c.bin", "a_new_word"),
    ]);
    let notes = [LeftOutFile {
        name: "d.pdf".to_owned(),
        why: LeftOut::TooMany,
    }];
    let plan = answered(&question(), &Left::nothing(), Language::En, &result, &notes).unwrap();
    insta::assert_snapshot!(told(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "The chart in a.png rises.\n\nThe attachment `d.pdf` was left out: there are more than 5 attachments.\n\nThe attachment `b.zip` was left out: its format is not supported.\n\nThe attachment `c.bin` was left out: it could not be read.", feedback: true }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Answered }
    "#);
}

#[test]
fn no_answer_at_all_is_said() {
    let plan = answered(
        &question(),
        &Left::nothing(),
        Language::Ja,
        &answer(" \n"),
        &[],
    )
    .unwrap();
    assert!(told(plan).contains("回答を得られませんでした。"));
    // Nor does anybody see an answer in these.
    for unseen in [
        "\u{200b}",
        "\u{2060}\n\u{feff}",
        "\u{ad}\u{202e}",
        "\u{3164}",
    ] {
        let unseen = unseen.repeat(12_000);
        let plan = answered(
            &question(),
            &Left::nothing(),
            Language::En,
            &answer(&unseen),
            &[],
        );
        let plan = plan.unwrap();
        assert_eq!(plan.len(), 2, "words and a sign");
        assert!(told(plan).contains("There was no answer to this."));
    }
    // A file is an answer, and needs no words.
    let plan = answered(
        &question(),
        &Left::nothing(),
        Language::Ja,
        &with_file(""),
        &[],
    )
    .unwrap();
    assert_eq!(plan.len(), 2);
    // What was said while it went on stays.
    let plan = answered(
        &question(),
        &streamed("so far"),
        Language::En,
        &with_file(""),
        &[],
    )
    .unwrap();
    assert!(told(plan).contains(r#"Finish { text: "so far""#));
}

#[test]
fn a_file_that_nobody_can_be_asked_for_is_said() {
    let mut result = with_file("Here.");
    result.task_id = None;
    let plan = answered(&question(), &Left::nothing(), Language::En, &result, &[]).unwrap();
    insta::assert_snapshot!(told(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "Here.\n\nThe file `sales.csv` could not be posted. Please try again later.", feedback: true }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Answered }
    "#);
}

#[test]
fn the_old_place_of_a_file_is_read_too() {
    let mut result = with_file("Here.");
    result.file_artifact = result.artifacts.take().and_then(|mut all| all.pop());
    let plan = answered(&question(), &Left::nothing(), Language::En, &result, &[]).unwrap();
    assert!(told(plan).contains("Q/file/0"));
}

#[test]
fn a_failure_keeps_what_was_said_and_shows_another_sign() {
    let left = streamed("Here is\n```rust\nlet a");
    let plan = failed(&question(), &left, Language::En, ErrorWord::ModelTimeout).unwrap();
    insta::assert_snapshot!(told(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Finish { text: "Here is\n```rust\nlet a\n```\n\nThe AI model is slow to respond. Please try again later.", feedback: false, left: Left { standing: Stream { ts: Ts(2.1), sure: true }, .. } }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Failed }
    "#);
    let plan = stopped(&question(), &Left::nothing(), Language::Ja).unwrap();
    insta::assert_snapshot!(told(plan), @r#"
    Q/text/0 [post/T1/C1/1000.000001] Post { text: "停止しました。", feedback: false }
    Q/reaction [post/T1/C1/1000.000001] React { ending: Stopped }
    "#);
}

#[test]
fn a_refusal_is_for_who_asked_alone_and_waits_for_nobody() {
    let refusal = Refusal::RateLimited {
        after: Duration::from_secs(7),
    };
    let plan = refused(&question(), Language::En, &refusal).unwrap();
    insta::assert_snapshot!(told(plan), @r#"Q/refused [-] Tell { user: UserId(U1), text: "You have reached the limit of questions. Please try again in 7 seconds.", in_thread: false, alone: false }"#);
}

#[test]
fn a_second_plan_adds_nothing_to_the_first() {
    let q = question();
    let text = "x. ".repeat(10_000);
    let unknown = Left {
        standing: Standing::Unknown,
        said: String::new(),
    };
    let first = answered(&q, &streamed("x. "), Language::En, &answer(&text), &[]).unwrap();
    let second = answered(&q, &unknown, Language::En, &answer(&text), &[]).unwrap();
    assert_eq!(keys(&first), keys(&second));
    // Not even one that comes to something else.
    let other = failed(&q, &unknown, Language::En, ErrorWord::PollError).unwrap();
    for key in keys(&other) {
        assert!(keys(&first).contains(&key), "{key}");
    }
}

#[test]
fn an_answer_calls_nobody() {
    let result = answer("<!channel> and <@U1>");
    let plan = answered(&question(), &Left::nothing(), Language::En, &result, &[]).unwrap();
    let told = told(plan);
    assert!(
        !told.contains("<!channel") && !told.contains("<@U1"),
        "{told}"
    );
}
