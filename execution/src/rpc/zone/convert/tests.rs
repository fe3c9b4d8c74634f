//! Tests of the conversion of zone params.

use super::*;
use interzone_protocol::zone::ExecuteTaskParams;

fn params() -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", "hello", "token-1")
}

fn key(id: &RequestId<'_>, params: &ExecuteTaskParams) -> Option<String> {
    idempotency_key(Some(id), params).map(|once| once.key)
}

const ID: &str = "0B7E6F0A-5A43-4B0E-9C2D-3F2A1B0C9D8E";

#[test]
fn idempotency_key_covers_uuid_and_params_but_not_token() {
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
    assert!(idempotency_key(None, &params()).is_none());
}

#[test]
fn bot_token_is_not_stored() {
    let mut params = ExecuteTaskParams::new("C1", "hello", "xoxb-secret");
    params.user_id = Some("U1".to_owned());
    let id = RequestId::from(ID);
    let origin = CallOrigin::from_params(&params, Some(&id), None);
    let metadata = origin.metadata().unwrap();
    assert!(!metadata.as_str().contains("xoxb"), "{}", metadata.as_str());
    assert_eq!(metadata.get(METADATA_FIELD), Some(origin.clone()));
    assert!(!format!("{origin:?} {:?}", idempotency_key(Some(&id), &params)).contains("xoxb"));
}

#[test]
fn attachments_become_marked_parts() {
    let attachment = |mimetype: &str, content: Option<&str>, url: Option<&str>| Attachment {
        id: content.map(|_| "F1".to_owned()),
        name: "a".to_owned(),
        mimetype: mimetype.to_owned(),
        size: Some(3),
        content_base64: content.map(str::to_owned),
        presigned_url: url.map(str::to_owned),
    };
    let message = message(
        " ",
        vec![
            attachment("Image/PNG", Some("aGk="), Some("https://x/1")),
            attachment("text/csv", None, Some("https://x/2")),
            attachment("text/csv", None, None),
        ],
        usize::MAX,
    );
    let parts = serde_json::to_string(message.unwrap().parts()).unwrap();
    assert_eq!(
        parts,
        concat!(
            r#"[{"type":"ImagePart","content":"aGk=","mimeType":"Image/PNG","filename":"a","size":3,"encoding":"base64","extra":{"attachment":"F1"}},"#,
            r#"{"type":"FilePart","mimeType":"text/csv","filename":"a","size":3,"extra":{"attachment":"","fetch":"https://x/2"}},"#,
            r#"{"type":"FilePart","mimeType":"text/csv","filename":"a","size":3,"extra":{"attachment":""}}]"#
        )
    );
    assert!(super::message("", Vec::new(), 0).is_err());
}

#[test]
fn oversize_attachments_lose_their_content() {
    let file = |name: &str, bytes: usize| Attachment {
        id: None,
        name: name.to_owned(),
        mimetype: "image/png".to_owned(),
        size: None,
        content_base64: Some("A".repeat(bytes)),
        presigned_url: None,
    };
    let files = || vec![file("1", 4_000), file("2", 4_000), file("3", 400)];
    let message = message("look", files(), 6_000).unwrap();
    assert!(Limits::parts_size(message.parts()) <= 6_000);
    let has_content: Vec<_> = message
        .parts()
        .iter()
        .map(|part| part.content().is_some())
        .collect();
    assert_eq!(has_content, [true, true, false, true]);
    let reason: String = message.parts()[2]
        .extra()
        .get(REFUSED_FIELD)
        .unwrap()
        .decode()
        .unwrap();
    assert_eq!(reason, "file_too_large");
    // Even without any budget the metadata of attachments remains.
    let message = super::message("look", files(), 0).unwrap();
    assert_eq!(message.parts().len(), 4);
    assert_eq!(message.text(), "look");
}

#[test]
fn context_becomes_history_with_user_metadata() {
    let context_message = |role, user: Option<&str>, text: &str| ContextMessage {
        role,
        user: user.map(str::to_owned),
        text: text.to_owned(),
    };
    let history = history(Some(&[
        context_message(ContextRole::User, Some("U1"), "first"),
        context_message(ContextRole::User, None, " "),
        context_message(ContextRole::Assistant, None, "second"),
    ]));
    assert_eq!(history.len(), 2);
    assert_eq!(history[0].metadata().unwrap().as_str(), r#"{"user":"U1"}"#);
    assert_eq!(
        (history[1].role(), history[1].text()),
        (Role::Agent, "second".to_owned())
    );
}

#[test]
fn logged_ids_are_truncated_and_single_line() {
    assert_eq!(loggable_id(&RequestId::from(-7)), "-7");
    assert_eq!(loggable_id(&RequestId::from("req-1")), "req-1");
    assert_eq!(loggable_id(&RequestId::from("a\nb\u{1b}")), "a b ");
    let long = "é".repeat(500);
    assert_eq!(loggable_id(&RequestId::from(long)).chars().count(), 128);
}

#[test]
fn artifact_id_is_a_stable_uuid() {
    let id = artifact_id("t-1", "demo-file-1");
    assert_eq!(id, artifact_id("t-1", "demo-file-1"));
    assert_ne!(id, artifact_id("t-2", "demo-file-1"));
    let id = uuid::Uuid::try_parse(&id).unwrap();
    assert_eq!(id.get_version_num(), 4);
    assert_eq!(artifact_id("t", &ID.to_lowercase()), ID.to_lowercase());
}
