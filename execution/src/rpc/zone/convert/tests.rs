//! What goes in, and what a call is known by.

use super::*;
use interzone_protocol::zone::ExecuteTaskParams;

fn params() -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", "hello", "token-1")
}

fn key(id: &RequestId<'_>, params: &ExecuteTaskParams) -> Option<String> {
    once(Some(id), params).map(|once| once.key)
}

const ID: &str = "0B7E6F0A-5A43-4B0E-9C2D-3F2A1B0C9D8E";

#[test]
fn a_call_is_known_by_a_uuid_and_all_that_it_asks_but_the_token() {
    let id = RequestId::from(ID);
    let first = key(&id, &params()).unwrap();
    let lower = ID.to_lowercase();
    assert_eq!(key(&RequestId::from(lower), &params()), Some(first.clone()));
    let other_token = ExecuteTaskParams::new("C1", "hello", "token-2");
    assert_eq!(key(&id, &other_token), Some(first.clone()));
    let mut others = vec![params(); 5];
    others[0].text = "hello!".to_owned();
    others[1].thread_ts = Some("1".to_owned());
    others[2].task_id = Some("t".to_owned());
    others[3].context = Some(Vec::new());
    others[4].attachments = Some(Vec::new());
    for other in &others {
        assert_ne!(key(&id, other), Some(first.clone()));
    }
    let simple = ID.replace('-', "");
    for id in [RequestId::from(1), "req-1".into(), "".into(), simple.into()] {
        assert_eq!(key(&id, &params()), None, "{id}");
    }
    assert!(once(None, &params()).is_none());
}

#[test]
fn the_token_is_kept_nowhere() {
    let mut params = ExecuteTaskParams::new("C1", "hello", "xoxb-secret");
    params.user_id = Some("U1".to_owned());
    let id = RequestId::from(ID);
    let asked = Asked::by(&params, Some(&id), None);
    let kept = asked.metadata().unwrap();
    assert!(!kept.as_str().contains("xoxb"), "{}", kept.as_str());
    assert_eq!(kept.get(MEMBER), Some(asked.clone()));
    assert!(!format!("{asked:?} {:?}", once(Some(&id), &params)).contains("xoxb"));
}

#[test]
fn attachments_are_marked_parts() {
    let attachment = |mimetype: &str, content: Option<&str>, url: Option<&str>| Attachment {
        id: content.map(|_| "F1".to_owned()),
        name: "a".to_owned(),
        mimetype: mimetype.to_owned(),
        size: Some(3),
        content_base64: content.map(str::to_owned),
        presigned_url: url.map(str::to_owned),
    };
    let asked = message(
        " ",
        vec![
            attachment("Image/PNG", Some("aGk="), Some("https://x/1")),
            attachment("text/csv", None, Some("https://x/2")),
            attachment("text/csv", None, None),
        ],
        usize::MAX,
    );
    let parts = serde_json::to_string(asked.unwrap().parts()).unwrap();
    assert_eq!(
        parts,
        concat!(
            r#"[{"type":"ImagePart","content":"aGk=","mimeType":"Image/PNG","filename":"a","size":3,"encoding":"base64","attachment":"F1"},"#,
            r#"{"type":"FilePart","mimeType":"text/csv","filename":"a","size":3,"attachment":"","fetch":"https://x/2"},"#,
            r#"{"type":"FilePart","mimeType":"text/csv","filename":"a","size":3,"attachment":""}]"#
        )
    );
    assert!(message("", Vec::new(), 0).is_err());
}

#[test]
fn what_has_no_room_comes_without_its_bytes() {
    let file = |name: &str, bytes: usize| Attachment {
        id: None,
        name: name.to_owned(),
        mimetype: "image/png".to_owned(),
        size: None,
        content_base64: Some("A".repeat(bytes)),
        presigned_url: None,
    };
    let files = || vec![file("1", 4_000), file("2", 4_000), file("3", 400)];
    let asked = message("look", files(), 6_000).unwrap();
    assert!(Limits::bytes_of(asked.parts()) <= 6_000);
    let there: Vec<_> = asked
        .parts()
        .iter()
        .map(|part| part.content().is_some())
        .collect();
    assert_eq!(there, [true, true, false, true]);
    let why: String = asked.parts()[2]
        .extra()
        .get(REFUSED)
        .unwrap()
        .decode()
        .unwrap();
    assert_eq!(why, "file_too_large");
    // However little room there is, what is said about them is there.
    let asked = message("look", files(), 0).unwrap();
    assert_eq!(asked.parts().len(), 4);
    assert_eq!(asked.text(), "look");
}

#[test]
fn what_was_said_before_is_history_and_says_by_whom() {
    let said = |role, user: Option<&str>, text: &str| ContextMessage {
        role,
        user: user.map(str::to_owned),
        text: text.to_owned(),
    };
    let before = before(Some(&[
        said(ContextRole::User, Some("U1"), "first"),
        said(ContextRole::User, None, " "),
        said(ContextRole::Assistant, None, "second"),
    ]));
    assert_eq!(before.len(), 2);
    assert_eq!(before[0].metadata().unwrap().as_str(), r#"{"user":"U1"}"#);
    assert_eq!(
        (before[1].role(), before[1].text()),
        (Role::Agent, "second".to_owned())
    );
}

#[test]
fn ids_are_short_and_on_one_line_when_they_are_noted() {
    assert_eq!(id_text(&RequestId::from(-7)), "-7");
    assert_eq!(id_text(&RequestId::from("req-1")), "req-1");
    assert_eq!(id_text(&RequestId::from("a\nb\u{1b}")), "a b ");
    let long = "é".repeat(500);
    assert_eq!(id_text(&RequestId::from(long)).chars().count(), 128);
}

#[test]
fn an_artifact_has_a_uuid_that_stays() {
    let made = artifact_id("t-1", "demo-file-1");
    assert_eq!(made, artifact_id("t-1", "demo-file-1"));
    assert_ne!(made, artifact_id("t-2", "demo-file-1"));
    let made = uuid::Uuid::try_parse(&made).unwrap();
    assert_eq!(made.get_version_num(), 4);
    assert_eq!(artifact_id("t", &ID.to_lowercase()), ID.to_lowercase());
}
