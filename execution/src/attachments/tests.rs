//! Tests of attachment loading.

use super::*;
use crate::agents::tests::turn;
use crate::files::test_fixtures;
use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use axum::routing::get;
use interzone_backoff::Backoff;
use interzone_edge::egress::EgressOptions;
use interzone_hub::{TurnOutcome, failure_code};
use interzone_protocol::vocab::Role;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

fn rules() -> InputRules {
    InputRules {
        image_bytes: 1_000,
        document_bytes: 2_000,
        ..InputRules::default()
    }
}

fn loader_with(allow: Vec<String>, input: InputRules) -> AttachmentLoader {
    let options = EgressOptions {
        allow,
        ..EgressOptions::default()
    };
    AttachmentLoader {
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_secs(30)),
        ..AttachmentLoader::new(
            Egress::new(&options).unwrap(),
            FileReader::in_process(),
            input,
        )
    }
}

fn loader(address: SocketAddr) -> AttachmentLoader {
    loader_with(vec![address.to_string()], rules())
}

fn json_string(text: &str) -> VerbatimJson {
    VerbatimJson::from_value(text).unwrap()
}

fn inline(name: &str, media_type: &str, bytes: &[u8]) -> Part {
    Part::file(STANDARD.encode(bytes))
        .with_filename(name)
        .with_media_type(media_type)
        .with_extra(ATTACHMENT_FIELD, json_string("F1"))
}

fn remote(name: &str, media_type: &str, url: &str) -> Part {
    Part::new(PartKind::File)
        .with_filename(name)
        .with_media_type(media_type)
        .with_extra(ATTACHMENT_FIELD, json_string("F2"))
        .with_extra(FETCH_URL_FIELD, json_string(url))
}

fn turn_with(text: &str, attachments: Vec<Part>) -> Turn {
    let mut parts = vec![Part::text(text)];
    parts.extend(attachments);
    turn("t", Message::new(Role::User, parts).unwrap(), Vec::new())
}

/// Returns the error code of a turn with this single attachment.
async fn load_error(loader: &AttachmentLoader, part: Part) -> String {
    match loader.prepare(turn_with("hi", vec![part])).await {
        Ok(_) => "taken".to_owned(),
        Err(failure) => {
            let stored = serde_json::to_string(&failure.stored_message).unwrap();
            assert!(!stored.contains("http"), "{stored}");
            failure_code(&failure.failure).unwrap()
        }
    }
}

#[tokio::test]
async fn inline_attachments_are_validated() {
    let loader = loader_with(Vec::new(), rules());
    let parts = vec![
        inline("a/b.csv", "text/csv; charset=utf-8", b"x,y\n"),
        inline("p.png", "", test_fixtures::PNG),
        inline("lie.png", "image/png", test_fixtures::JPEG),
        inline("empty.txt", "text/plain", b""),
        Part::file("###")
            .with_filename("no64.txt")
            .with_media_type("text/plain")
            .with_extra(ATTACHMENT_FIELD, json_string("")),
    ];
    let prepared = loader.prepare(turn_with("look", parts)).await.ok().unwrap();
    let parts = prepared.turn.message.parts();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[1].filename(), Some("a_b.csv"));
    assert_eq!(parts[1].media_type(), Some("text/csv"));
    assert_eq!(parts[1].size(), Some(4));
    assert_eq!(parts[2].kind(), PartKind::Image);
    assert_eq!(parts[2].media_type(), Some("image/png"));
    let skipped: Vec<_> = prepared
        .skipped
        .iter()
        .map(|s| (s.name.as_str(), s.error_code.as_str()))
        .collect();
    assert_eq!(
        skipped,
        [
            ("lie.png", "unsupported_image_type"),
            ("empty.txt", "extraction_failed"),
            ("no64.txt", "attachment_download_failed"),
        ]
    );
    assert!(
        prepared
            .skipped_sentence
            .starts_with("Left out: \"lie.png\" ("),
        "{}",
        prepared.skipped_sentence
    );
    // A retry skips the same attachments without loading them.
    let retry = turn("t", prepared.stored_message.unwrap(), Vec::new());
    let retry = loader.prepare(retry).await.ok().unwrap();
    assert_eq!(retry.skipped, prepared.skipped);
    assert_eq!(retry.stored_message, None);
}

#[tokio::test]
async fn remote_attachment_is_downloaded_once_and_stored() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let app = Router::new().route(
        "/f",
        get(move || {
            let before = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                match before {
                    0 => Err(StatusCode::INTERNAL_SERVER_ERROR),
                    1 => Err(StatusCode::SERVICE_UNAVAILABLE),
                    _ => Ok("a,b\n1,2\n"),
                }
            }
        }),
    );
    let address = serve(app).await;
    let url = format!("http://{address}/f?signature=secret");
    let part = remote("s.csv", "text/csv", &url).with_size(8);
    let prepared = loader(address)
        .prepare(turn_with("sum", vec![part]))
        .await
        .ok()
        .unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!(prepared.skipped, []);
    let part = &prepared.turn.message.parts()[1];
    assert_eq!(
        part.as_text().as_deref(),
        Some(STANDARD.encode("a,b\n1,2\n").as_str())
    );
    assert!(part.extra().get(FETCH_URL_FIELD).is_none());
    let stored = prepared.stored_message.unwrap();
    assert!(!serde_json::to_string(&stored).unwrap().contains("secret"));
    // A retry needs no network.
    let offline = loader_with(Vec::new(), rules());
    let retry = offline
        .prepare(turn("t", stored, Vec::new()))
        .await
        .ok()
        .unwrap();
    assert_eq!(retry.turn.message.parts()[1].content(), part.content());
    assert_eq!(retry.stored_message, None);
}

#[tokio::test]
async fn download_failures_map_to_error_codes() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let down = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { StatusCode::BAD_GATEWAY }
    };
    let endless = || async {
        let chunk = Ok::<_, std::io::Error>(Bytes::from(vec![b'a'; 1_024]));
        Body::from_stream(futures_util::stream::repeat_with(move || match &chunk {
            Ok(piece) => Ok::<_, std::io::Error>(piece.clone()),
            Err(_) => Ok(Bytes::new()),
        }))
    };
    let never = || async {
        std::future::pending::<()>().await;
        ""
    };
    let moved = || async {
        Response::builder()
            .status(StatusCode::FOUND)
            .header(header::LOCATION, "/page")
            .body(Body::empty())
            .unwrap()
    };
    let app = Router::new()
        .route("/down", get(down))
        .route("/endless", get(endless))
        .route("/never", get(never))
        .route("/moved", get(moved))
        .route("/large", get(|| async { vec![b'a'; 2_001] }))
        .route("/gone", get(|| async { StatusCode::NOT_FOUND }))
        .route("/half", get(|| async { "12345" }))
        .route("/page", get(|| async { "<!doctype html><p>Sign in" }));
    let address = serve(app).await;
    let loader = AttachmentLoader {
        input: InputRules {
            fetch_timeout: Duration::from_millis(300),
            ..rules()
        },
        ..loader(address)
    };
    for (path, expected) in [
        ("down", "attachment_download_failed"),
        ("never", "attachment_download_failed"),
        ("moved", "attachment_download_failed"),
        ("gone", "attachment_download_failed"),
        ("half", "attachment_download_failed"),
        ("endless", "file_too_large"),
        ("large", "file_too_large"),
        ("page", "unsupported_type"),
    ] {
        let part = remote("a.txt", "text/plain", &format!("http://{address}/{path}")).with_size(11);
        assert_eq!(load_error(&loader, part).await, expected, "{path}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    // Rejected by declared size or type, without a request.
    let down = format!("http://{address}/down");
    let large = remote("a.txt", "text/plain", &down).with_size(2_001);
    assert_eq!(load_error(&loader, large).await, "file_too_large");
    let wrong = remote("a.exe", "application/x-msdownload", &down);
    assert_eq!(load_error(&loader, wrong).await, "unsupported_file_type");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn downloads_of_a_message_time_out_after_60_seconds() {
    // Connections are accepted by the system and never answered.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let loader = loader(silent.local_addr().unwrap());
    let url = format!("http://{}/a", silent.local_addr().unwrap());
    let parts = vec![
        remote("1.txt", "text/plain", &url),
        remote("2.txt", "text/plain", &url),
        remote("3.txt", "text/plain", &url),
        inline("4.txt", "text/plain", b"here"),
    ];
    let started = Instant::now();
    let prepared = loader.prepare(turn_with("look", parts)).await.ok().unwrap();
    // One file alone would take 90 seconds with its three attempts.
    let elapsed = started.elapsed();
    assert!(
        (Duration::from_secs(60)..Duration::from_secs(61)).contains(&elapsed),
        "{elapsed:?}"
    );
    let skipped: Vec<_> = prepared
        .skipped
        .iter()
        .map(|s| (s.name.as_str(), s.error_code.as_str()))
        .collect();
    let failed = "attachment_download_failed";
    assert_eq!(
        skipped,
        [("1.txt", failed), ("2.txt", failed), ("3.txt", failed)]
    );
    // Inline content is loaded all the same.
    assert_eq!(prepared.turn.message.parts().len(), 2);
}

#[tokio::test]
async fn internal_urls_are_not_available() {
    let loader = loader_with(Vec::new(), rules());
    for url in [
        "https://127.0.0.1/a",
        "http://example.com/a",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::1]/a",
        "https://user:pw@example.com/",
        "file:///etc/passwd",
        "",
    ] {
        let part = remote("a.txt", "text/plain", url);
        assert_eq!(
            load_error(&loader, part).await,
            "url_not_available",
            "{url}"
        );
    }
    let none = remote("a.txt", "text/plain", "x").without_extra(FETCH_URL_FIELD);
    assert_eq!(load_error(&loader, none).await, "url_not_available");
}

#[tokio::test]
async fn declared_size_is_checked_against_actual_size() {
    let input = InputRules {
        document_bytes: 100,
        ..rules()
    };
    let loader = loader_with(Vec::new(), input);
    let file = |declared: u64, actual: usize| {
        let part = inline("a.txt", "text/plain", &vec![b'a'; actual]);
        turn_with("look", vec![part.with_size(declared)])
    };
    for (declared, actual, expected) in [
        (50, 50, None),
        (0, 50, None),
        (49, 50, None),
        (99, 50, None),
        (101, 50, Some("file_too_large")),
        (50, 101, Some("file_too_large")),
        (100, 49, Some("attachment_download_failed")),
    ] {
        let prepared = loader.prepare(file(declared, actual)).await;
        let code = match prepared {
            Ok(prepared) => {
                let part = &prepared.turn.message.parts()[1];
                assert_eq!(
                    part.size(),
                    u64::try_from(actual).ok(),
                    "the actual size counts"
                );
                None
            }
            Err(failure) => failure_code(&failure.failure),
        };
        assert_eq!(code.as_deref(), expected, "{declared} {actual}");
    }
}

#[tokio::test]
async fn refused_attachment_is_reported_with_its_reason() {
    let loader = loader_with(Vec::new(), rules());
    let refused = Part::new(PartKind::Image)
        .with_filename("big.png")
        .with_media_type("image/png")
        .with_extra(ATTACHMENT_FIELD, json_string(""))
        .with_extra(REFUSED_FIELD, json_string("file_too_large"));
    let parts = vec![inline("p.png", "image/png", test_fixtures::PNG), refused];
    let prepared = loader.prepare(turn_with("look", parts)).await.ok().unwrap();
    assert_eq!(prepared.skipped.len(), 1);
    assert_eq!(prepared.skipped[0].error_code, "file_too_large");
    let sentence = &prepared.skipped_sentence;
    assert!(
        sentence.contains("\"big.png\" (the file is too large"),
        "{sentence}"
    );
    assert!(sentence.contains("all of a message 25 MiB"), "{sentence}");
}

#[tokio::test]
async fn attachments_over_the_count_limits_are_skipped() {
    let input = InputRules {
        documents: 1,
        images: 2,
        message_bytes: 3 + 2 * 67,
        ..rules()
    };
    let loader = loader_with(Vec::new(), input);
    let parts = vec![
        inline("1.txt", "text/plain", b"one"),
        inline("2.txt", "text/plain", b"two"),
        inline("1.png", "image/png", test_fixtures::PNG),
        inline("2.png", "image/png", test_fixtures::PNG),
        inline("3.png", "image/png", test_fixtures::PNG),
    ];
    let prepared = loader
        .prepare(turn_with("この表を見て", parts))
        .await
        .ok()
        .unwrap();
    assert_eq!(prepared.turn.message.parts().len(), 4);
    let names: Vec<_> = prepared.skipped.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["2.txt", "3.png"]);
    assert_eq!(
        prepared.skipped_sentence,
        "使用しなかった添付ファイル: 「2.txt」（サイズが上限を超えています）、「3.png」（サイズが上限を超えています）"
    );
}

#[tokio::test]
async fn documents_without_text_are_skipped() {
    let loader = loader_with(
        Vec::new(),
        InputRules {
            document_bytes: 100_000,
            ..rules()
        },
    );
    let readable = inline("a.pdf", "application/pdf", &test_fixtures::pdf(&["words"]));
    assert_eq!(load_error(&loader, readable).await, "taken");
    let scanned = inline("a.pdf", "application/pdf", &test_fixtures::pdf(&[""]));
    assert_eq!(load_error(&loader, scanned).await, "extraction_failed");
}

#[test]
fn only_marked_parts_are_attachments() {
    let plain = turn("t", Message::user_text("hi"), Vec::new());
    assert!(!AttachmentLoader::has_attachments(&plain));
    let unmarked = Message::single(Role::User, Part::file("YQ=="));
    assert!(!AttachmentLoader::has_attachments(&turn(
        "t",
        unmarked,
        Vec::new()
    )));
    assert!(AttachmentLoader::has_attachments(&turn_with(
        "hi",
        vec![inline("a", "", b"")]
    )));
}

#[tokio::test]
async fn skipped_attachments_are_appended_to_the_answer() {
    let skipped = [SkippedAttachment {
        name: "a.png".to_owned(),
        error_code: "file_too_large".to_owned(),
    }];
    let recorded = Arc::new(crate::agents::tests::RecordedOutput::default());
    let detector = StreamDetector::new(recorded.clone());
    let outcome = TurnOutcome::Completed {
        message: Some(failure_message("x", "the answer")),
        direct: true,
    };
    let outcome = append_skipped(outcome, &skipped, "Left out.", &detector)
        .await
        .unwrap();
    let TurnOutcome::Completed { message, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let message = message.unwrap();
    assert_eq!(message.text(), "the answer\nLeft out.");
    assert_eq!(failure_code(&message).as_deref(), Some("x"));
    let listed: Vec<SkippedAttachment> = message.metadata().unwrap().get("skipped").unwrap();
    assert_eq!(listed, skipped);
    let outcome = TurnOutcome::Completed {
        message: Some(message),
        direct: true,
    };
    let outcome = append_skipped(outcome, &skipped, "Left out.", &detector)
        .await
        .unwrap();
    let TurnOutcome::Completed { message, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let both: Vec<SkippedAttachment> = message.unwrap().metadata().unwrap().get("skipped").unwrap();
    assert_eq!(both.len(), 2);
    assert!(recorded.lines.lock().unwrap().is_empty());
    interzone_hub::TurnOutput::text(&*detector, "streamed")
        .await
        .unwrap();
    let outcome = TurnOutcome::Completed {
        message: None,
        direct: false,
    };
    append_skipped(outcome, &skipped, "Left out.", &detector)
        .await
        .unwrap();
    assert_eq!(*recorded.lines.lock().unwrap(), ["streamed", "\nLeft out."]);
}

#[test]
fn download_memory_follows_declared_size() {
    let rules = InputRules::default();
    let loader = loader_with(Vec::new(), rules.clone());
    let file = |size: Option<u64>| {
        let part = remote("a.txt", "text/plain", "https://files.example/a");
        match size {
            Some(size) => part.with_size(size),
            None => part,
        }
    };
    let bytes = |parts| loader.bytes_to_fetch(&turn_with("look", parts).message);
    assert_eq!(bytes(vec![inline("a.txt", "text/plain", b"here")]), 0);
    // Twice the size and 64 KiB, as base64.
    assert_eq!(
        bytes(vec![file(Some(30_000))]),
        (60_000 + 65_536_usize).div_ceil(3) * 4
    );
    let largest = usize::try_from(rules.max_file_bytes()).unwrap().div_ceil(3) * 4;
    assert_eq!(bytes(vec![file(None)]), largest);
    assert_eq!(bytes(vec![file(Some(0))]), largest, "zero declares nothing");
    let all = usize::try_from(rules.message_bytes).unwrap().div_ceil(3) * 4;
    assert_eq!(bytes(vec![file(None); 64]), all);
}
