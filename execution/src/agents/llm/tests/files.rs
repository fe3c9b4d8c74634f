//! Files that a model makes.

use super::openai::{call, delta, finish, plain, usage};
use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::Artifact;
use serde_json::json;

const SALES: &str = r#"{"file_name": "sales.csv", "format": "csv", "content": "a,b\n1,2\n"}"#;

/// A stream that calls tools, each with its arguments cut in two.
fn calls(all: &[(&str, &str)]) -> Play {
    let play = (0..)
        .zip(all)
        .fold(Play::events(), |play, (index, (name, arguments))| {
            let (one, two) = arguments.split_at(arguments.len() / 2);
            let id = format!("call_{index}x");
            play.event(&call(index, Some(&id), Some(name), one))
                .event(&call(index, None, None, two))
        });
    play.event(&finish("tool_calls")).event(&usage(10, 10))
}

fn several(most: usize) -> Arc<FileRules> {
    Arc::new(FileRules {
        per_reply: most,
        ..FileRules::default()
    })
}

fn bytes(artifact: &Artifact) -> Vec<u8> {
    let part = &artifact.parts()[0];
    let bytes = STANDARD.decode(part.as_text().unwrap().as_bytes()).unwrap();
    assert_eq!(part.size(), Some(u64::try_from(bytes.len()).unwrap()));
    bytes
}

#[tokio::test]
async fn a_file_is_made_and_handed_over() {
    let stage = Stage::new(vec![
        calls(&[("create_file", SALES)]),
        plain(&["Here you are."]),
    ])
    .await;
    let ran = ask(openai_at(&stage), "Make a table.").await;
    assert_eq!(ran.text(), "Here you are.");
    assert!(matches!(
        ran.outcome,
        Ok(Outcome::Completed { direct: false, .. })
    ));
    assert_eq!(ran.metadata("usage")["total_tokens"], 36);
    let artifacts = ran.kept.artifacts.lock().unwrap();
    assert_eq!(artifacts.len(), 1);
    let part = &artifacts[0].parts()[0];
    assert_eq!(part.filename(), Some("sales.csv"));
    assert_eq!(part.media_type(), Some("text/csv"));
    assert!(
        String::from_utf8(bytes(&artifacts[0]))
            .unwrap()
            .contains("1,2")
    );
    let messages = stage.asked()[1].body["messages"].clone();
    assert_eq!(
        messages[2],
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "call_0x",
            "type": "function", "function": {"name": "create_file", "arguments": SALES}}]})
    );
    assert_eq!(messages[3]["role"], "tool");
    assert_eq!(messages[3]["tool_call_id"], "call_0x");
    assert!(
        messages[3]["content"]
            .as_str()
            .unwrap()
            .contains("sales.csv")
    );
}

#[tokio::test]
async fn every_format_that_is_offered_can_be_made() {
    for (arguments, name, starts) in [
        (
            json!({"file_name": "a.csv", "format": "csv", "rows": [["x", 1], ["y", null]]}),
            "a.csv",
            "x,1",
        ),
        (
            json!({"file_name": "a.json", "format": "json", "content": "{\"a\": [1]}"}),
            "a.json",
            "{",
        ),
        (
            json!({"file_name": "a.txt", "format": "txt", "content": "Hello."}),
            "a.txt",
            "Hello.",
        ),
        (
            json!({"file_name": "a.md", "format": "md", "content": "# Hello"}),
            "a.md",
            "# Hello",
        ),
        (
            json!({"file_name": "a.xlsx", "format": "xlsx",
            "sheets": [{"name": "One", "rows": [["x", 1.5], [true, null]]}]}),
            "a.xlsx",
            "PK",
        ),
    ] {
        let made = calls(&[("create_file", &arguments.to_string())]);
        let stage = Stage::new(vec![made, plain(&["Done."])]).await;
        let ran = ask(openai_at(&stage), "Make a file.").await;
        assert_eq!(ran.text(), "Done.", "{name}");
        let artifacts = ran.kept.artifacts.lock().unwrap();
        assert_eq!(artifacts[0].parts()[0].filename(), Some(name));
        let found = bytes(&artifacts[0]);
        let text = String::from_utf8_lossy(&found);
        let text = text.trim_start_matches('\u{feff}');
        assert!(text.starts_with(starts), "{name}: {text:.40}");
    }
}

#[tokio::test]
async fn two_files_are_two_artifacts() {
    let two = r##"{"file_name": "notes.md", "format": "md", "content": "# Hi"}"##;
    let made = calls(&[("create_file", SALES), ("create_file", two)]);
    let stage = Stage::new(vec![made, plain(&["Both."])]).await;
    let mut options = openai_at(&stage);
    options.files = several(2);
    let ran = ask(options, "Make both.").await;
    assert_eq!(ran.text(), "Both.");
    let artifacts = ran.kept.artifacts.lock().unwrap();
    let names: Vec<&str> = artifacts.iter().map(Artifact::name).collect();
    assert_eq!(names, ["sales.csv", "notes.md"]);
    assert_ne!(artifacts[0].artifact_id(), artifacts[1].artifact_id());
    assert_eq!(
        stage.asked()[1].body["messages"][2]["tool_calls"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn one_file_too_many_is_told_to_the_model() {
    let made = calls(&[("create_file", SALES), ("create_file", SALES)]);
    let stage = Stage::new(vec![made, plain(&["One it is."])]).await;
    let ran = ask(openai_at(&stage), "Make both.").await;
    assert_eq!(ran.text(), "One it is.");
    assert_eq!(ran.kept.artifacts.lock().unwrap().len(), 1);
    let told = stage.asked()[1].body["messages"][4]["content"].clone();
    assert!(told.as_str().unwrap().contains("at most 1 file"), "{told}");
}

#[tokio::test]
async fn a_model_that_errs_may_do_better() {
    let wrong = r#"{"file_name": "sales.csv", "format": "csv", "rows": "none"}"#;
    for wrong in [wrong, "{\"file_name\":", "[]"] {
        let stage = Stage::new(vec![
            calls(&[("create_file", wrong)]),
            calls(&[("create_file", SALES)]),
            plain(&["Here."]),
        ])
        .await;
        let ran = ask(openai_at(&stage), "Make a table.").await;
        assert_eq!(ran.text(), "Here.");
        assert_eq!(ran.kept.artifacts.lock().unwrap().len(), 1);
        let messages = stage.asked()[1].body["messages"].clone();
        let again: Value = serde_json::from_str(
            messages[2]["tool_calls"][0]["function"]["arguments"]
                .as_str()
                .unwrap(),
        )
        .unwrap();
        assert!(again.is_object());
        assert!(
            messages[3]["content"]
                .as_str()
                .unwrap()
                .contains("do not fit")
        );
    }
}

#[tokio::test]
async fn a_file_that_may_not_leave_becomes_a_sentence() {
    let large = json!({"file_name": "a.txt", "format": "txt", "content": "x".repeat(200)});
    let stage = Stage::new(vec![
        calls(&[("create_file", &large.to_string())]),
        plain(&["I tried."]),
    ])
    .await;
    let mut options = openai_at(&stage);
    options.files = Arc::new(FileRules {
        max_bytes: 100,
        ..FileRules::default()
    });
    let text = ask(options, "Make it.").await.text();
    assert!(text.starts_with("I tried.\n\nThe file \"a.txt\""), "{text}");
}

#[tokio::test]
async fn a_type_that_may_not_leave_is_neither_offered_nor_made() {
    let stage = Stage::new(vec![calls(&[("create_file", SALES)]), plain(&["No."])]).await;
    let mut options = openai_at(&stage);
    options.files = Arc::new(FileRules {
        allow: vec!["application/json".to_owned()],
        ..FileRules::default()
    });
    let ran = ask(options, "Make it.").await;
    assert!(
        ran.text()
            .starts_with("No.\n\nThe file \"sales.csv\" was left out")
    );
    assert!(ran.kept.artifacts.lock().unwrap().is_empty());
    let offered = stage.asked()[0].body["tools"][0].clone();
    let formats = &offered["function"]["parameters"]["properties"]["format"]["enum"];
    assert_eq!(*formats, json!(["json"]));

    let stage = Stage::new(vec![plain(&["No."])]).await;
    let mut options = openai_at(&stage);
    options.files = several(0);
    ask(options, "Make it.").await.text();
    assert_eq!(stage.body().get("tools"), None);
}

#[tokio::test]
async fn a_tool_that_fails_and_nothing_else_is_a_failure() {
    let silent = || Play::events().event(&finish("stop"));
    let stage = Stage::new(vec![calls(&[("create_file", "nonsense")]), silent()]).await;
    assert_eq!(
        ask(openai_at(&stage), "Make it.").await.word(),
        "tool_failure"
    );
    // What was said before the tool was called is no answer either.
    let begun = Play::events()
        .event(&delta("I make it."))
        .event(&call(0, Some("c"), Some("unknown_tool"), "{}"))
        .event(&finish("tool_calls"));
    let stage = Stage::new(vec![begun, silent()]).await;
    assert_eq!(
        ask(openai_at(&stage), "Make it.").await.word(),
        "tool_failure"
    );
}

#[tokio::test]
async fn a_file_alone_is_an_answer() {
    let silent = Play::events().event(&finish("stop"));
    let stage = Stage::new(vec![calls(&[("create_file", SALES)]), silent]).await;
    let ran = ask(openai_at(&stage), "Make a table.").await;
    assert_eq!(ran.text(), "Here is sales.csv.");
}

#[tokio::test]
async fn a_file_that_is_made_is_not_lost_by_what_comes_after() {
    let broken = Play::status(401, &[], "");
    let stage = Stage::new(vec![calls(&[("create_file", SALES)]), broken]).await;
    let ran = ask(openai_at(&stage), "Make a table.").await;
    assert!(
        ran.text().starts_with("The model cannot be used"),
        "{}",
        ran.text()
    );
    assert_eq!(ran.kept.artifacts.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn tools_are_not_called_for_ever() {
    let script = (0..4).map(|_| calls(&[("create_file", SALES)]));
    let stage = Stage::new(script.collect()).await;
    let mut options = openai_at(&stage);
    options.tool_rounds = 2;
    options.files = several(9);
    let ran = ask(options, "Make many.").await;
    assert_eq!(ran.text(), "(Part of this was not finished.)");
    assert_eq!(stage.asked().len(), 3);
    assert_eq!(ran.kept.artifacts.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn arguments_have_an_end() {
    let piece = "x".repeat(40_000);
    let play = Play::events().event(&call(0, Some("c"), Some("create_file"), "{\"content\": \""));
    let play = (0..5).fold(play, |play, _| play.event(&call(0, None, None, &piece)));
    let stage = Stage::new(vec![play.hang()]).await;
    let mut options = openai_at(&stage);
    options.files = Arc::new(FileRules {
        max_bytes: 1_000,
        ..FileRules::default()
    });
    assert_eq!(ask(options, "Make it.").await.word(), "invalid_response");
    stage.left().await;
}

#[tokio::test]
async fn a_server_that_does_not_number_its_calls_is_understood() {
    let whole = |id: &str, arguments: &str| {
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [
            {"id": id, "function": {"name": "create_file", "arguments": arguments}}]}}]})
    };
    let two = SALES.replace("sales", "other");
    let play = Play::events()
        .event(&whole("a", SALES))
        .event(&whole("b", &two))
        .event(&finish("tool_calls"));
    let stage = Stage::new(vec![play, plain(&["Both."])]).await;
    let mut options = openai_at(&stage);
    options.files = several(2);
    let ran = ask(options, "Make both.").await;
    assert_eq!(ran.text(), "Both.");
    let artifacts = ran.kept.artifacts.lock().unwrap();
    let names: Vec<&str> = artifacts.iter().map(Artifact::name).collect();
    assert_eq!(names, ["sales.csv", "other.csv"]);
}
