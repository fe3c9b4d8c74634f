//! Attachments are fetched by the guarded way, looked at, and what is left out is said.

use super::*;
use crate::agents::tests::turn;
use crate::files::samples;
use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use axum::routing::get;
use interzone_edge::egress::EgressOptions;
use interzone_hub::{Outcome, failure_word};
use interzone_protocol::vocab::Role;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

fn intake_to(allow: Vec<String>, input: InputRules) -> Intake {
    let options = EgressOptions {
        allow,
        ..EgressOptions::default()
    };
    Intake {
        pause: Duration::from_millis(1),
        ..Intake::new(
            Egress::new(&options).unwrap(),
            FileReader::in_process(),
            input,
        )
    }
}

fn intake(at: SocketAddr) -> Intake {
    intake_to(vec![at.to_string()], rules())
}

fn text_json(text: &str) -> Json {
    Json::of(text).unwrap()
}

fn inline(name: &str, media_type: &str, bytes: &[u8]) -> Part {
    Part::file(STANDARD.encode(bytes))
        .with_filename(name)
        .with_media_type(media_type)
        .with_extra(ATTACHMENT, text_json("F1"))
}

fn remote(name: &str, media_type: &str, url: &str) -> Part {
    Part::new(PartKind::File)
        .with_filename(name)
        .with_media_type(media_type)
        .with_extra(ATTACHMENT, text_json("F2"))
        .with_extra(FETCH, text_json(url))
}

fn asked(text: &str, attachments: Vec<Part>) -> Turn {
    let mut parts = vec![Part::text(text)];
    parts.extend(attachments);
    turn("t", Message::new(Role::User, parts).unwrap(), Vec::new())
}

/// The word that a lone attachment is refused with.
async fn refused(intake: &Intake, part: Part) -> String {
    match intake.prepare(asked("hi", vec![part])).await {
        Ok(_) => "taken".to_owned(),
        Err(refused) => {
            let kept = serde_json::to_string(&refused.kept).unwrap();
            assert!(!kept.contains("http"), "{kept}");
            failure_word(&refused.said).unwrap()
        }
    }
}

#[tokio::test]
async fn what_comes_with_the_message_is_looked_at() {
    let intake = intake_to(Vec::new(), rules());
    let parts = vec![
        inline("a/b.csv", "text/csv; charset=utf-8", b"x,y\n"),
        inline("p.png", "", samples::PNG),
        inline("lie.png", "image/png", samples::JPEG),
        inline("empty.txt", "text/plain", b""),
        Part::file("###")
            .with_filename("no64.txt")
            .with_media_type("text/plain")
            .with_extra(ATTACHMENT, text_json("")),
    ];
    let prepared = intake.prepare(asked("look", parts)).await.ok().unwrap();
    let given = prepared.turn.message.parts();
    assert_eq!(given.len(), 3);
    assert_eq!(given[1].filename(), Some("a_b.csv"));
    assert_eq!(given[1].media_type(), Some("text/csv"));
    assert_eq!(given[1].size(), Some(4));
    assert_eq!(given[2].kind(), PartKind::Image);
    assert_eq!(given[2].media_type(), Some("image/png"));
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
        prepared.sentence.starts_with("Left out: \"lie.png\" ("),
        "{}",
        prepared.sentence
    );
    // The next attempt leaves out the same, without another look.
    let again = turn("t", prepared.kept.unwrap(), Vec::new());
    let again = intake.prepare(again).await.ok().unwrap();
    assert_eq!(again.skipped, prepared.skipped);
    assert_eq!(again.kept, None);
}

#[tokio::test]
async fn what_is_elsewhere_is_fetched_once_and_kept() {
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
    let at = serve(app).await;
    let url = format!("http://{at}/f?signature=secret");
    let part = remote("s.csv", "text/csv", &url).with_size(8);
    let prepared = intake(at)
        .prepare(asked("sum", vec![part]))
        .await
        .ok()
        .unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    assert_eq!(prepared.skipped, []);
    let given = &prepared.turn.message.parts()[1];
    assert_eq!(
        given.as_text().as_deref(),
        Some(STANDARD.encode("a,b\n1,2\n").as_str())
    );
    assert!(given.extra().get(FETCH).is_none());
    let kept = prepared.kept.unwrap();
    assert!(!serde_json::to_string(&kept).unwrap().contains("secret"));
    // A second attempt needs nobody.
    let alone = intake_to(Vec::new(), rules());
    let again = alone
        .prepare(turn("t", kept, Vec::new()))
        .await
        .ok()
        .unwrap();
    assert_eq!(again.turn.message.parts()[1].content(), given.content());
    assert_eq!(again.kept, None);
}

#[tokio::test]
async fn what_cannot_be_fetched_is_told_by_its_own_word() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let down = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { StatusCode::BAD_GATEWAY }
    };
    let endless = || async {
        let piece = Ok::<_, std::io::Error>(Bytes::from(vec![b'a'; 1_024]));
        Body::from_stream(futures_util::stream::repeat_with(move || match &piece {
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
    let at = serve(app).await;
    let intake = Intake {
        input: InputRules {
            fetch_time: Duration::from_millis(300),
            ..rules()
        },
        ..intake(at)
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
        let part = remote("a.txt", "text/plain", &format!("http://{at}/{path}")).with_size(11);
        assert_eq!(refused(&intake, part).await, expected, "{path}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    // Known to be too large or of the wrong kind before anybody is asked.
    let down = format!("http://{at}/down");
    let large = remote("a.txt", "text/plain", &down).with_size(2_001);
    assert_eq!(refused(&intake, large).await, "file_too_large");
    let wrong = remote("a.exe", "application/x-msdownload", &down);
    assert_eq!(refused(&intake, wrong).await, "unsupported_file_type");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn fetching_all_files_of_a_message_ends_after_sixty_seconds() {
    // Connections are accepted by the system and never answered.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let intake = intake(silent.local_addr().unwrap());
    let url = format!("http://{}/a", silent.local_addr().unwrap());
    let parts = vec![
        remote("1.txt", "text/plain", &url),
        remote("2.txt", "text/plain", &url),
        remote("3.txt", "text/plain", &url),
        inline("4.txt", "text/plain", b"here"),
    ];
    let begun = Instant::now();
    let prepared = intake.prepare(asked("look", parts)).await.ok().unwrap();
    // One file alone would take 90 seconds with its three attempts.
    let taken = begun.elapsed();
    assert!(
        (Duration::from_secs(60)..Duration::from_secs(61)).contains(&taken),
        "{taken:?}"
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
    // What came with the message is taken all the same.
    assert_eq!(prepared.turn.message.parts().len(), 2);
}

#[tokio::test]
async fn no_address_leads_inside() {
    let intake = intake_to(Vec::new(), rules());
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
        assert_eq!(refused(&intake, part).await, "url_not_available", "{url}");
    }
    let none = remote("a.txt", "text/plain", "x").without_extra(FETCH);
    assert_eq!(refused(&intake, none).await, "url_not_available");
}

#[tokio::test]
async fn what_is_said_of_a_size_is_held_against_what_is_there() {
    let input = InputRules {
        document_bytes: 100,
        ..rules()
    };
    let intake = intake_to(Vec::new(), input);
    let file = |declared: u64, real: usize| {
        let part = inline("a.txt", "text/plain", &vec![b'a'; real]);
        asked("look", vec![part.with_size(declared)])
    };
    for (declared, real, expected) in [
        (50, 50, None),
        (0, 50, None),
        (49, 50, None),
        (99, 50, None),
        (101, 50, Some("file_too_large")),
        (50, 101, Some("file_too_large")),
        (100, 49, Some("attachment_download_failed")),
    ] {
        let prepared = intake.prepare(file(declared, real)).await;
        let word = match prepared {
            Ok(prepared) => {
                let given = &prepared.turn.message.parts()[1];
                assert_eq!(
                    given.size(),
                    u64::try_from(real).ok(),
                    "what is there counts"
                );
                None
            }
            Err(unprepared) => failure_word(&unprepared.said),
        };
        assert_eq!(word.as_deref(), expected, "{declared} {real}");
    }
}

#[tokio::test]
async fn what_had_no_room_in_the_message_is_told_why() {
    let intake = intake_to(Vec::new(), rules());
    let lost = Part::new(PartKind::Image)
        .with_filename("big.png")
        .with_media_type("image/png")
        .with_extra(ATTACHMENT, text_json(""))
        .with_extra(REFUSED, text_json("file_too_large"));
    let parts = vec![inline("p.png", "image/png", samples::PNG), lost];
    let prepared = intake.prepare(asked("look", parts)).await.ok().unwrap();
    assert_eq!(prepared.skipped.len(), 1);
    assert_eq!(prepared.skipped[0].error_code, "file_too_large");
    let said = &prepared.sentence;
    assert!(
        said.contains("\"big.png\" (the file is too large"),
        "{said}"
    );
    assert!(said.contains("all of a message 25 MiB"), "{said}");
}

#[tokio::test]
async fn there_are_only_so_many() {
    let input = InputRules {
        documents: 1,
        images: 2,
        message_bytes: 3 + 2 * 67,
        ..rules()
    };
    let intake = intake_to(Vec::new(), input);
    let parts = vec![
        inline("1.txt", "text/plain", b"one"),
        inline("2.txt", "text/plain", b"two"),
        inline("1.png", "image/png", samples::PNG),
        inline("2.png", "image/png", samples::PNG),
        inline("3.png", "image/png", samples::PNG),
    ];
    let prepared = intake
        .prepare(asked("この表を見て", parts))
        .await
        .ok()
        .unwrap();
    assert_eq!(prepared.turn.message.parts().len(), 4);
    let names: Vec<_> = prepared.skipped.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["2.txt", "3.png"]);
    assert_eq!(
        prepared.sentence,
        "使用しなかった添付ファイル: 「2.txt」（サイズが上限を超えています）、「3.png」（サイズが上限を超えています）"
    );
}

#[tokio::test]
async fn unreadable_documents_are_left_out() {
    let intake = intake_to(
        Vec::new(),
        InputRules {
            document_bytes: 100_000,
            ..rules()
        },
    );
    let read = inline("a.pdf", "application/pdf", &samples::pdf(&["words"]));
    assert_eq!(refused(&intake, read).await, "taken");
    let scanned = inline("a.pdf", "application/pdf", &samples::pdf(&[""]));
    assert_eq!(refused(&intake, scanned).await, "extraction_failed");
}

#[test]
fn nothing_is_done_where_nothing_is_marked() {
    let plain = turn("t", Message::user_text("hi"), Vec::new());
    assert!(!Intake::concerns(&plain));
    let own = Message::single(Role::User, Part::file("YQ=="));
    assert!(!Intake::concerns(&turn("t", own, Vec::new())));
    assert!(Intake::concerns(&asked("hi", vec![inline("a", "", b"")])));
}

#[tokio::test]
async fn what_was_left_out_is_added_to_the_answer() {
    let skipped = [Skipped {
        name: "a.png".to_owned(),
        error_code: "file_too_large".to_owned(),
    }];
    let kept = Arc::new(crate::agents::tests::Kept::default());
    let listener = Listener::new(kept.clone());
    let outcome = Outcome::Completed {
        message: Some(failure("x", "the answer")),
        direct: true,
    };
    let outcome = add_skipped(outcome, &skipped, "Left out.", &listener)
        .await
        .unwrap();
    let Outcome::Completed { message, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let message = message.unwrap();
    assert_eq!(message.text(), "the answer\nLeft out.");
    assert_eq!(failure_word(&message).as_deref(), Some("x"));
    let noted: Vec<Skipped> = message.metadata().unwrap().get("skipped").unwrap();
    assert_eq!(noted, skipped);
    let outcome = Outcome::Completed {
        message: Some(message),
        direct: true,
    };
    let outcome = add_skipped(outcome, &skipped, "Left out.", &listener)
        .await
        .unwrap();
    let Outcome::Completed { message, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let both: Vec<Skipped> = message.unwrap().metadata().unwrap().get("skipped").unwrap();
    assert_eq!(both.len(), 2);
    assert!(kept.lines.lock().unwrap().is_empty());
    interzone_hub::Output::text(&*listener, "streamed")
        .await
        .unwrap();
    let outcome = Outcome::Completed {
        message: None,
        direct: false,
    };
    add_skipped(outcome, &skipped, "Left out.", &listener)
        .await
        .unwrap();
    assert_eq!(*kept.lines.lock().unwrap(), ["streamed", "\nLeft out."]);
}

#[test]
fn memory_for_files_to_fetch_goes_by_their_declared_size() {
    let rules = InputRules::default();
    let intake = intake_to(Vec::new(), rules.clone());
    let file = |size: Option<u64>| {
        let part = remote("a.txt", "text/plain", "https://files.example/a");
        match size {
            Some(size) => part.with_size(size),
            None => part,
        }
    };
    let bytes = |parts| intake.bytes_to_fetch(&asked("look", parts));
    assert_eq!(bytes(vec![inline("a.txt", "text/plain", b"here")]), 0);
    // Twice the size and 64 KiB, as base64.
    assert_eq!(
        bytes(vec![file(Some(30_000))]),
        (60_000 + 65_536_usize).div_ceil(3) * 4
    );
    let largest = usize::try_from(rules.largest()).unwrap().div_ceil(3) * 4;
    assert_eq!(bytes(vec![file(None)]), largest);
    assert_eq!(bytes(vec![file(Some(0))]), largest, "zero declares nothing");
    let all = usize::try_from(rules.message_bytes).unwrap().div_ceil(3) * 4;
    assert_eq!(bytes(vec![file(None); 64]), all);
}
