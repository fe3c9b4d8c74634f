//! Files that agents produce, in the zone's responses.

use super::{ZoneFixture, ZoneSetup, completed_with, params, params_with, scripted_agent};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_execution::files::FileRules;
use interzone_hub::{Agent, TurnOutcome};
use interzone_protocol::vocab::{
    Artifact, ArtifactId, Encoding, Message, Part, PartKind, Role, VerbatimJson,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn artifact(id: &str, part: Part) -> Artifact {
    Artifact::new(ArtifactId::new(id).unwrap(), "made").with_part(part)
}

fn file(name: &str, media_type: &str, bytes: &[u8]) -> Part {
    Part::file(STANDARD.encode(bytes))
        .with_filename(name)
        .with_media_type(media_type)
}

/// Agent that emits these parts as artifacts and completes.
fn file_agent(parts: Vec<Part>) -> Arc<dyn Agent> {
    scripted_agent("making", move |_, output| {
        let parts = parts.clone();
        async move {
            for (n, part) in parts.into_iter().enumerate() {
                let made = artifact(&format!("a-{n}"), part);
                output.artifact(made, false, true).await.unwrap();
            }
            Ok(completed_with("Here it is."))
        }
    })
}

async fn zone_with_files(parts: Vec<Part>, files: FileRules) -> ZoneFixture {
    ZoneFixture::with_setup(ZoneSetup {
        agents: vec![file_agent(parts)],
        files,
        ..ZoneSetup::default()
    })
    .await
}

fn bytes_of(artifact: &Value) -> Vec<u8> {
    let content = artifact["parts"][0]["contentBase64"].as_str().unwrap();
    STANDARD.decode(content).unwrap()
}

#[tokio::test]
async fn file_is_second_artifact_and_file_artifact() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let result = world.execute_task(&token, "file csv name,amount").await;
    let artifacts = result["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 2);
    let text = &result["response_text"];
    assert_eq!(artifacts[0]["name"], "execution_response");
    assert_eq!(
        artifacts[0]["parts"],
        json!([{"kind": "text", "text": text}])
    );
    assert_eq!(artifacts[1]["name"], "generated_file");
    let part = &artifacts[1]["parts"][0];
    assert_eq!(
        (&part["kind"], &part["mimeType"]),
        (&json!("file"), &json!("text/csv"))
    );
    assert!(part["fileName"].as_str().unwrap().ends_with(".csv"));
    assert!(bytes_of(&artifacts[1]).starts_with(b"name,amount"));
    assert_eq!(result["file_artifact"], artifacts[1]);
    for artifact in artifacts {
        let id = artifact["artifactId"].as_str().unwrap();
        assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
    }
    // `get_task_result` returns the same, and there are no artifacts without a file.
    let later = world.wait_for_result(&token, &result["task_id"]).await;
    assert_eq!(later["result"], result);
    let plain = world.execute_task(&token, "echo hi").await;
    assert!(plain["artifacts"].is_null() && plain["file_artifact"].is_null());
}

#[tokio::test]
async fn large_file_is_returned_complete_with_content_length() {
    let bytes: Vec<u8> = (0..2_000_000_u32)
        .flat_map(u32::to_le_bytes)
        .take(5_000_000)
        .collect();
    let world = zone_with_files(
        vec![file("a.csv", "text/csv", &bytes)],
        FileRules::default(),
    )
    .await;
    let token = world.token("vz").await;
    let call = super::call_object(&json!(1), &params("x")).to_string();
    let (_, headers, body) = world.post(&token, call).await;
    assert_eq!(headers["content-length"], body.len().to_string());
    let answer: Value = serde_json::from_str(&body).unwrap();
    let result = &answer["result"];
    assert!(
        bytes_of(&result["artifacts"][1]) == bytes && bytes_of(&result["file_artifact"]) == bytes
    );
    // Within a batch as well.
    let get = json!({"task_id": result["task_id"]});
    let get = json!({"jsonrpc": "2.0", "id": 2, "method": "get_task_result", "params": get});
    let (_, _, body) = world.post(&token, json!([get, get]).to_string()).await;
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    for answer in answers {
        assert!(answer["result"]["result"] == *result);
    }
}

#[tokio::test]
async fn rejected_file_is_replaced_by_a_notice_in_the_text() {
    let rules = FileRules {
        max_bytes: 10,
        ..FileRules::default()
    };
    for (part, reason) in [
        (
            file("a.csv", "text/csv", &[b'x'; 11]),
            "\"a.csv\" was left out: it is larger",
        ),
        (
            // The declared size is checked before anything is read.
            file("b.csv", "text/csv", b"x").with_size(11),
            "\"b.csv\" was left out: it is larger",
        ),
        (
            // The actual size is checked, whatever is declared.
            file("c.csv", "text/csv", &[b'x'; 11]).with_size(1),
            "\"c.csv\" was left out: it is larger",
        ),
        (
            file("d.exe", "application/x-msdownload", b"x"),
            "was left out: files of its type are not allowed.",
        ),
        (
            Part::file("not base64!").with_media_type("text/csv"),
            "was left out: its content",
        ),
        (
            Part::new(PartKind::File).with_media_type("text/csv"),
            "was left out: its content",
        ),
    ] {
        let world = zone_with_files(vec![part], rules.clone()).await;
        let token = world.token("vz").await;
        let result = world.execute_task(&token, "x").await;
        let text = result["response_text"].as_str().unwrap();
        assert!(
            text.starts_with("Here it is.\n\nThe file ") && text.contains(reason),
            "{text}"
        );
        assert!(result["artifacts"].is_null() && result["file_artifact"].is_null());
    }
}

#[tokio::test]
async fn files_per_reply_are_limited() {
    let parts = || {
        let part = |n: u8| file(&format!("{n}.txt"), "text/plain", &[n]);
        vec![part(b'1'), part(b'2'), part(b'3')]
    };
    for (per_reply, left_out) in [(1, 2), (2, 1), (3, 0), (0, 3)] {
        let rules = FileRules {
            per_reply,
            ..FileRules::default()
        };
        let world = zone_with_files(parts(), rules).await;
        let token = world.token("vz").await;
        let result = world.execute_task(&token, "x").await;
        let text = result["response_text"].as_str().unwrap();
        assert_eq!(text.matches("was left out").count(), left_out, "{text}");
        let artifacts = result["artifacts"].as_array().map_or(0, Vec::len);
        assert_eq!(artifacts, if per_reply == 0 { 0 } else { per_reply + 1 });
    }
}

/// PNG image of about this many bytes.
fn picture(bytes: usize) -> String {
    let length = u32::try_from(bytes).unwrap().to_be_bytes();
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0....".to_vec();
    png.extend_from_slice(&length);
    png.extend_from_slice(b"IDAT");
    png.resize(png.len() + bytes + 4, 0);
    png.extend_from_slice(b"\0\0\0\0IEND....");
    STANDARD.encode(&png)
}

#[tokio::test]
async fn attachments_over_total_size_are_skipped() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let picture = picture(9 << 20);
    let file =
        |name: &str| json!({"name": name, "mimetype": "image/png", "content_base64": picture});
    let call = params_with(
        "look",
        &json!({"attachments": [file("1.png"), file("2.png"), file("3.png")]}),
    );
    let answer = world.call(&token, "execute_task", call).await;
    let result = &answer["result"];
    assert_eq!(result["status"], "success", "{answer}");
    let expected = json!([{"name": "3.png", "error_code": "file_too_large"}]);
    assert_eq!(result["skipped"], expected);
    let text = result["response_text"].as_str().unwrap();
    assert!(text.contains("1.png") && text.contains("2.png"), "{text}");
    assert!(text.contains("all of a message 25 MiB"), "{text}");
}

#[tokio::test]
async fn file_names_are_sanitized() {
    let part = file("../../etc/pass\u{202e}wd\n", "text/plain", b"x");
    let world = zone_with_files(vec![part], FileRules::default()).await;
    let token = world.token("vz").await;
    let result = world.execute_task(&token, "x").await;
    let name = result["file_artifact"]["parts"][0]["fileName"]
        .as_str()
        .unwrap();
    assert!(
        !name.contains(['/', '\\', '\n']) && !name.starts_with('.'),
        "{name}"
    );
}

#[tokio::test]
async fn file_parts_of_any_encoding_are_returned_as_bytes() {
    let world = zone_with_files(
        vec![
            // Escapes that base64 may have in JSON.
            Part::new(PartKind::File)
                .with_content(VerbatimJson::parse(r#""Pz8\/""#).unwrap())
                .with_encoding(Encoding::Base64)
                .with_media_type("text/plain"),
            Part::new(PartKind::File)
                .with_content(VerbatimJson::from_value("plain\nwords").unwrap())
                .with_encoding(Encoding::Utf8)
                .with_media_type("text/plain"),
            Part::data(VerbatimJson::parse(r#"{"a": 1}"#).unwrap()),
            Part::text("words that are an artifact"),
        ],
        FileRules {
            per_reply: 9,
            ..FileRules::default()
        },
    )
    .await;
    let token = world.token("vz").await;
    let result = world.execute_task(&token, "x").await;
    let files: Vec<Vec<u8>> = result["artifacts"].as_array().unwrap()[1..]
        .iter()
        .map(bytes_of)
        .collect();
    let expected: [&[u8]; 4] = [
        b"???",
        b"plain\nwords",
        br#"{"a": 1}"#,
        b"words that are an artifact",
    ];
    assert_eq!(files, expected);
}

#[tokio::test]
async fn text_artifact_is_the_answer_without_a_message() {
    let agent = scripted_agent("mute", |turn, output| async move {
        let made = artifact("words", Part::text("long ".repeat(10_000)));
        output.artifact(made, false, true).await.unwrap();
        let file = file("a.txt", "text/plain", b"x");
        let message = (turn.message.text() == "file").then(|| Message::single(Role::Agent, file));
        Ok(TurnOutcome::Completed {
            message,
            direct: false,
        })
    });
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![agent],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    for (text, file) in [("x", false), ("file", true)] {
        let result = world.execute_task(&token, text).await;
        assert_eq!(result["response_text"].as_str().unwrap().len(), 50_000);
        assert_eq!(result["file_artifact"].is_object(), file);
    }
}
