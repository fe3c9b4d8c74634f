//! Tests of limits, permissions and failures of downloads.

use super::*;
use crate::slack::fake::{FakeReply, FakeSlack};
use crate::slack::ids::FileId;
use crate::slack::tokens::BotToken;
use interzone_edge::tls::{TrustRoots, install_provider};

fn file(slack: &FakeSlack, id: &str, name: &str, size: u64) -> SharedFile {
    SharedFile {
        id: FileId::new(id).unwrap(),
        name: name.to_owned(),
        mimetype: String::new(),
        size,
        url: Some(format!("{}/files/{name}", slack.origin)),
        check_info: false,
    }
}

async fn slack() -> FakeSlack {
    install_provider();
    let text = |body: Vec<u8>| FakeReply::status(200, &[("content-type", "text/plain")], body);
    FakeSlack::start(move |request| match request.method() {
        "files.info" => FakeReply::error("missing_scope"),
        "login.txt" => {
            FakeReply::status(200, &[("content-type", "text/html; charset=utf-8")], "hi")
        }
        "gone.txt" => FakeReply::status(404, &[], ""),
        "busy.txt" => FakeReply::status(503, &[], ""),
        "held.txt" => FakeReply::status(429, &[("retry-after", "30")], ""),
        "empty.txt" => text(Vec::new()),
        "liar.txt" => text(vec![b'x'; 200]),
        _ => text(b"hello".to_vec()),
    })
    .await
}

async fn fetch_all(
    slack: &FakeSlack,
    files: &[SharedFile],
    has_attempts_left: bool,
) -> Result<FetchedFiles, FetchRetry> {
    let budget = RetryBudget {
        has_attempts_left,
        remaining: Duration::from_secs(60),
    };
    fetch_within(slack, files, budget).await
}

async fn fetch_within(
    slack: &FakeSlack,
    files: &[SharedFile],
    budget: RetryBudget,
) -> Result<FetchedFiles, FetchRetry> {
    let client = Slack::new(&slack.api(), &TrustRoots::system()).unwrap();
    let installation = Installation::from_token(BotToken::new("xoxb-1").unwrap());
    let limits = FileLimits {
        files: 3,
        image: 100,
        document: 50,
        total: 60,
    };
    fetch(&client, &installation, files, &limits, budget).await
}

fn skip_reasons(fetched: &FetchedFiles) -> Vec<SkipReason> {
    fetched.skipped.iter().map(|(_, why)| *why).collect()
}

#[tokio::test]
async fn unusable_files_are_skipped_without_download() {
    let slack = slack().await;
    let files = [
        file(&slack, "F1", "large.txt", 51),
        file(&slack, "F2", "a.zip", 1),
        file(&slack, "F3", "picture.png", 100),
        file(&slack, "F4", "more.txt", 1),
    ];
    let fetched = fetch_all(&slack, &files, true).await.unwrap();
    // An image may be larger than a document, but not than the total limit.
    use SkipReason::{TooLarge, TooMany, Unsupported};
    assert_eq!(
        skip_reasons(&fetched),
        [TooLarge, Unsupported, TooLarge, TooMany]
    );
    assert!(slack.requests().is_empty());
}

#[tokio::test]
async fn fault_17_oversized_download_is_aborted() {
    let slack = slack().await;
    let files = [
        file(&slack, "F1", "liar.txt", 1),
        file(&slack, "F2", "login.txt", 1),
        file(&slack, "F3", "empty.txt", 0),
    ];
    let fetched = fetch_all(&slack, &files, true).await.unwrap();
    use SkipReason::{NotPermitted, TooLarge, Unreadable};
    assert_eq!(skip_reasons(&fetched), [TooLarge, NotPermitted, Unreadable]);
    assert!(fetched.attachments.is_empty() && fetched.fingerprints.is_empty());
}

#[tokio::test]
async fn fingerprint_identifies_file_by_content() {
    let slack = slack().await;
    let files = [file(&slack, "F1", "a.txt", 5)];
    let first = fetch_all(&slack, &files, true).await.unwrap();
    let second = fetch_all(&slack, &files, true).await.unwrap();
    assert_eq!(first.fingerprints, second.fingerprints);
    let attachment = &first.attachments[0];
    assert_eq!(attachment.content_base64.as_deref(), Some("aGVsbG8="));
    assert_eq!(attachment.size, Some(5));
    let mut other = first.fingerprints.clone();
    other[0].hash = hash_hex("something else");
    assert_ne!(other, first.fingerprints);
}

#[tokio::test]
async fn temporary_failure_is_retried_until_last_attempt() {
    let slack = slack().await;
    let files = [file(&slack, "F1", "busy.txt", 1)];
    assert!(fetch_all(&slack, &files, true).await.is_err());
    let fetched = fetch_all(&slack, &files, false).await.unwrap();
    assert_eq!(skip_reasons(&fetched), [SkipReason::NotFetched]);
    let gone = [file(&slack, "F1", "gone.txt", 1)];
    let fetched = fetch_all(&slack, &gone, true).await.unwrap();
    assert_eq!(skip_reasons(&fetched), [SkipReason::NotFetched]);
}

#[tokio::test]
async fn requested_delay_is_retried_only_within_remaining_time() {
    let slack = slack().await;
    let files = [file(&slack, "F1", "held.txt", 1)];
    let budget = |left| RetryBudget {
        has_attempts_left: false,
        remaining: Duration::from_secs(left),
    };
    let held = fetch_within(&slack, &files, budget(30)).await.unwrap_err();
    assert_eq!(held.delay, Some(Duration::from_secs(30)));
    let fetched = fetch_within(&slack, &files, budget(29)).await.unwrap();
    assert_eq!(skip_reasons(&fetched), [SkipReason::NotFetched]);
}

#[tokio::test]
async fn inaccessible_stub_and_foreign_url_are_skipped() {
    let slack = slack().await;
    let mut stub = file(&slack, "F1", "", 0);
    stub.check_info = true;
    let mut foreign = file(&slack, "F2", "a.txt", 1);
    foreign.url = Some("https://attacker.example/a.txt".to_owned());
    let mut without_url = file(&slack, "F3", "b.txt", 1);
    without_url.url = None;
    let files = [stub, foreign, without_url];
    let fetched = fetch_all(&slack, &files, true).await.unwrap();
    let skipped = |name: &str, why| (name.to_owned(), why);
    assert_eq!(
        fetched.skipped,
        [
            skipped("F1", SkipReason::NotPermitted),
            skipped("a.txt", SkipReason::NotFetched),
            skipped("b.txt", SkipReason::NotFetched),
        ]
    );
    assert_eq!(slack.requests().len(), 1, "no request to another host");
}
