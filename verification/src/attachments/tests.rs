//! Files that are large, of no use, not ours to read, or not what they say.

use super::*;
use crate::slack::fake::{FakeSlack, Reply};
use crate::slack::ids::FileId;
use crate::slack::tokens::BotToken;
use interzone_edge::tls::{Trust, install_provider};

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
    let text = |body: Vec<u8>| Reply::status(200, &[("content-type", "text/plain")], body);
    FakeSlack::start(move |seen| match seen.method() {
        "files.info" => Reply::said("missing_scope"),
        "login.txt" => Reply::status(200, &[("content-type", "text/html; charset=utf-8")], "hi"),
        "gone.txt" => Reply::status(404, &[], ""),
        "busy.txt" => Reply::status(503, &[], ""),
        "held.txt" => Reply::status(429, &[("retry-after", "30")], ""),
        "empty.txt" => text(Vec::new()),
        "liar.txt" => text(vec![b'x'; 200]),
        _ => text(b"hello".to_vec()),
    })
    .await
}

async fn fetch_all(
    slack: &FakeSlack,
    files: &[SharedFile],
    patient: bool,
) -> Result<Fetched, NotNow> {
    let patience = Patience {
        tries: patient,
        left: Duration::from_secs(60),
    };
    fetch_within(slack, files, patience).await
}

async fn fetch_within(
    slack: &FakeSlack,
    files: &[SharedFile],
    patience: Patience,
) -> Result<Fetched, NotNow> {
    let way = Slack::new(&slack.api(), &Trust::system()).unwrap();
    let at = Installation::unknown(BotToken::new("xoxb-1").unwrap());
    let limits = FileLimits {
        files: 3,
        image: 100,
        document: 50,
        together: 60,
    };
    fetch(&way, &at, files, &limits, patience).await
}

fn whys(fetched: &Fetched) -> Vec<LeftOut> {
    fetched.left_out.iter().map(|(_, why)| *why).collect()
}

#[tokio::test]
async fn what_can_be_told_beforehand_is_not_fetched() {
    let slack = slack().await;
    let files = [
        file(&slack, "F1", "large.txt", 51),
        file(&slack, "F2", "a.zip", 1),
        file(&slack, "F3", "picture.png", 100),
        file(&slack, "F4", "more.txt", 1),
    ];
    let fetched = fetch_all(&slack, &files, true).await.unwrap();
    // A picture may be larger, but not than all may be together.
    use LeftOut::{TooLarge, TooMany, Unsupported};
    assert_eq!(whys(&fetched), [TooLarge, Unsupported, TooLarge, TooMany]);
    assert!(slack.seen().is_empty());
}

#[tokio::test]
async fn fault_17_what_is_larger_than_it_says_is_cut_off_while_it_comes() {
    let slack = slack().await;
    let files = [
        file(&slack, "F1", "liar.txt", 1),
        file(&slack, "F2", "login.txt", 1),
        file(&slack, "F3", "empty.txt", 0),
    ];
    let fetched = fetch_all(&slack, &files, true).await.unwrap();
    use LeftOut::{NotPermitted, TooLarge, Unreadable};
    assert_eq!(whys(&fetched), [TooLarge, NotPermitted, Unreadable]);
    assert!(fetched.attachments.is_empty() && fetched.sent.is_empty());
}

#[tokio::test]
async fn what_goes_along_is_known_again_by_its_bytes() {
    let slack = slack().await;
    let files = [file(&slack, "F1", "a.txt", 5)];
    let once = fetch_all(&slack, &files, true).await.unwrap();
    let again = fetch_all(&slack, &files, true).await.unwrap();
    assert_eq!(once.sent, again.sent);
    let attachment = &once.attachments[0];
    assert_eq!(attachment.content_base64.as_deref(), Some("aGVsbG8="));
    assert_eq!(attachment.size, Some(5));
    let mut other = once.sent.clone();
    other[0].hash = hash("something else");
    assert_ne!(other, once.sent);
}

#[tokio::test]
async fn what_is_not_to_be_had_now_is_waited_for_but_not_for_ever() {
    let slack = slack().await;
    let files = [file(&slack, "F1", "busy.txt", 1)];
    assert!(fetch_all(&slack, &files, true).await.is_err());
    let fetched = fetch_all(&slack, &files, false).await.unwrap();
    assert_eq!(whys(&fetched), [LeftOut::NotFetched]);
    let gone = [file(&slack, "F1", "gone.txt", 1)];
    let fetched = fetch_all(&slack, &gone, true).await.unwrap();
    assert_eq!(whys(&fetched), [LeftOut::NotFetched]);
}

#[tokio::test]
async fn a_wait_that_slack_asks_for_takes_no_try_but_is_no_longer_than_anybody_waits() {
    let slack = slack().await;
    let files = [file(&slack, "F1", "held.txt", 1)];
    let within = |left| Patience {
        tries: false,
        left: Duration::from_secs(left),
    };
    let held = fetch_within(&slack, &files, within(30)).await.unwrap_err();
    assert_eq!(held.after, Some(Duration::from_secs(30)));
    let fetched = fetch_within(&slack, &files, within(29)).await.unwrap();
    assert_eq!(whys(&fetched), [LeftOut::NotFetched]);
}

#[tokio::test]
async fn a_stub_that_may_not_be_asked_for_and_a_strange_address_are_left_out() {
    let slack = slack().await;
    let mut stub = file(&slack, "F1", "", 0);
    stub.check_info = true;
    let mut strange = file(&slack, "F2", "a.txt", 1);
    strange.url = Some("https://attacker.example/a.txt".to_owned());
    let mut nowhere = file(&slack, "F3", "b.txt", 1);
    nowhere.url = None;
    let files = [stub, strange, nowhere];
    let fetched = fetch_all(&slack, &files, true).await.unwrap();
    let left = |name: &str, why| (name.to_owned(), why);
    assert_eq!(
        fetched.left_out,
        [
            left("F1", LeftOut::NotPermitted),
            left("a.txt", LeftOut::NotFetched),
            left("b.txt", LeftOut::NotFetched),
        ]
    );
    assert_eq!(slack.seen().len(), 1, "only Slack was asked");
}
