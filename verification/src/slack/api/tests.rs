//! The client against a server that is not Slack but answers like it.

use super::chat::{AppendStream, Ephemeral, Post, StartStream, StopStream, Update};
use super::conversations::Thread;
use super::oauth::OauthApp;
use super::{Args, Method, ResponseUrl, Slack, SlackError, SlackSetupError};
use crate::slack::fake::{FakeSlack, Reply, Seen};
use crate::slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};
use crate::slack::tokens::{BotToken, Installation};
use bytes::Bytes;
use interzone_edge::Secret;
use interzone_edge::tls::Trust;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const TOKEN: &str = "xoxb-1-secret";

fn slack(api: &str) -> Slack {
    Slack::new(api, &Trust::system()).unwrap()
}

fn at() -> Installation {
    let mut at = Installation::unknown(BotToken::new(TOKEN).unwrap());
    at.team = Some(TeamId::new("T1").unwrap());
    at
}

fn channel(name: &str) -> ChannelId {
    ChannelId::new(name).unwrap()
}

fn ts(text: &str) -> Ts {
    Ts::new(text).unwrap()
}

fn ok(more: Value) -> Reply {
    let mut answer = json!({"ok": true});
    let all = answer.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    Reply::Json(answer)
}

async fn post(slack: &Slack, channel: &ChannelId) -> Result<Ts, SlackError> {
    let post = Post {
        channel,
        thread: None,
        text: "x",
        blocks: None,
        metadata: None,
    };
    slack.chat_post_message(&at(), &post).await
}

fn form(seen: &Seen) -> BTreeMap<String, String> {
    assert_eq!(
        seen.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    seen.form()
}

fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    list.iter().map(owned).collect()
}

#[tokio::test]
async fn a_call_is_a_form_with_the_token_in_its_header() {
    let fake = FakeSlack::start(|_| ok(json!({"ts": "17.5"}))).await;
    let slack = slack(&fake.api());
    let blocks = json!([{"type": "markdown", "text": "a & b = 日本"}]);
    let metadata = json!({"event_type": "e", "event_payload": {"key": "k"}});
    let channel = channel("C1");
    let thread = ts("16.1");
    let posted = Post {
        channel: &channel,
        thread: Some(&thread),
        text: "a & b = 日本",
        blocks: Some(&blocks),
        metadata: Some(&metadata),
    };
    let posted = slack.chat_post_message(&at(), &posted).await.unwrap();
    assert_eq!(posted, ts("17.5"));
    let seen = &fake.seen()[0];
    assert_eq!(
        (seen.verb.as_str(), seen.uri.path()),
        ("POST", "/api/chat.postMessage")
    );
    assert_eq!(seen.uri.query(), None);
    assert_eq!(seen.header("authorization"), Some("Bearer xoxb-1-secret"));
    let expected = pairs(&[
        ("channel", "C1"),
        ("thread_ts", "16.1"),
        ("text", "a & b = 日本"),
        ("blocks", &blocks.to_string()),
        ("metadata", &metadata.to_string()),
        ("unfurl_links", "false"),
        ("unfurl_media", "false"),
    ]);
    assert_eq!(form(seen), expected);
}

#[tokio::test]
async fn every_way_to_write_sends_what_slack_expects() {
    let fake = FakeSlack::start(|_| ok(json!({"ts": "17.5"}))).await;
    let (slack, at) = (slack(&fake.api()), at());
    let (c, t, user) = (channel("C1"), ts("16.1"), UserId::new("U1").unwrap());
    let team = TeamId::new("T1").unwrap();
    let list = json!([]);
    let (channel, ts) = (&c, &t);
    let start = StartStream {
        channel,
        thread: ts,
        recipient: Some((&user, &team)),
        markdown: Some("one"),
        chunks: None,
    };
    slack.chat_start_stream(&at, &start).await.unwrap();
    let more = AppendStream {
        channel,
        ts,
        markdown: Some("two"),
        chunks: None,
    };
    slack.chat_append_stream(&at, &more).await.unwrap();
    let stop = StopStream {
        channel,
        ts,
        markdown: None,
        chunks: None,
        blocks: Some(&list),
        metadata: Some(&list),
    };
    slack.chat_stop_stream(&at, &stop).await.unwrap();
    let update = Update {
        channel,
        ts,
        text: "t",
        blocks: Some(&list),
        metadata: None,
    };
    slack.chat_update(&at, &update).await.unwrap();
    let told = Ephemeral {
        channel,
        user: &user,
        thread: Some(ts),
        text: "t",
        blocks: None,
    };
    slack.chat_post_ephemeral(&at, &told).await.unwrap();
    slack.reactions_add(&at, channel, ts, "eyes").await.unwrap();
    slack
        .reactions_remove(&at, channel, ts, "eyes")
        .await
        .unwrap();
    slack
        .assistant_set_status(&at, channel, ts, "thinks")
        .await
        .unwrap();
    let file = FileId::new("F1").unwrap();
    let shown = slack.files_complete_upload(&at, &file, "a.csv", channel, Some(ts));
    shown.await.unwrap();
    slack.auth_revoke(&at).await.unwrap();
    let seen: Vec<_> = fake
        .seen()
        .iter()
        .map(|seen| format!("{} {:?}", seen.method(), seen.form()))
        .collect();
    insta::assert_snapshot!(seen.join("\n"), @r#"
    chat.startStream {"channel": "C1", "markdown_text": "one", "recipient_team_id": "T1", "recipient_user_id": "U1", "thread_ts": "16.1"}
    chat.appendStream {"channel": "C1", "markdown_text": "two", "ts": "16.1"}
    chat.stopStream {"blocks": "[]", "channel": "C1", "metadata": "[]", "ts": "16.1"}
    chat.update {"blocks": "[]", "channel": "C1", "text": "t", "ts": "16.1"}
    chat.postEphemeral {"channel": "C1", "text": "t", "thread_ts": "16.1", "user": "U1"}
    reactions.add {"channel": "C1", "name": "eyes", "timestamp": "16.1"}
    reactions.remove {"channel": "C1", "name": "eyes", "timestamp": "16.1"}
    assistant.threads.setStatus {"channel_id": "C1", "status": "thinks", "thread_ts": "16.1"}
    files.completeUploadExternal {"channel_id": "C1", "files": "[{\"id\":\"F1\",\"title\":\"a.csv\"}]", "thread_ts": "16.1"}
    auth.revoke {}
    "#);
}

#[tokio::test]
async fn answers_are_read_and_what_is_odd_in_them_is_left_out() {
    let fake = FakeSlack::start(|seen| match seen.method() {
        "conversations.replies" => ok(json!({
            "messages": [
                {"ts": "1.1", "user": "U1", "text": "first", "files": [{"id": "F1", "size": 3}, {"id": "no id"}]},
                {"ts": "not one", "text": "lost"},
                {"ts": "1.2", "bot_id": "B1", "app_id": null, "text": null, "subtype": "bot_message",
                 "metadata": {"event_type": "interzone_reply", "event_payload": {"key": "k"}}},
            ],
            "response_metadata": {"next_cursor": "abc="},
        })),
        "conversations.members" => ok(json!({
            "members": ["U1", "??", "W2"], "response_metadata": {"next_cursor": ""},
        })),
        "users.info" => ok(json!({"user": {
            "id": "U1", "name": "taro", "real_name": "Taro Y", "locale": "ja-JP",
            "profile": {"display_name": " ", "real_name": "太郎"},
        }})),
        "conversations.info" => ok(json!({"channel": {"id": "D1", "is_im": true, "user": "U1"}})),
        "team.info" => ok(json!({"team": {"id": "T1", "name": "Us", "domain": "us"}})),
        "files.info" => ok(json!({"file": {
            "id": "F1", "name": "a.csv", "mimetype": "text/csv", "size": 3,
            "url_private": "https://files.slack.com/a", "file_access": "check_file_info",
        }})),
        _ => Reply::said("unknown_method"),
    })
    .await;
    let (slack, at) = (slack(&fake.api()), at());
    let thread = Thread {
        channel: &channel("C1"),
        ts: &ts("1.1"),
        oldest: None,
        latest: None,
        limit: 200,
        cursor: Some("page="),
    };
    let page = slack.conversations_replies(&at, thread).await.unwrap();
    assert_eq!(page.next.as_deref(), Some("abc="));
    let [first, second] = &page.messages[..] else {
        panic!("{page:?}")
    };
    assert_eq!((first.text.as_str(), first.files.len()), ("first", 1));
    assert_eq!(second.metadata.as_ref().unwrap().event_payload["key"], "k");
    assert_eq!(second.text, "");
    let asked = fake.seen()[0].form();
    assert_eq!(asked["cursor"], "page=");
    assert_eq!(asked["include_all_metadata"], "true");

    let place = channel("C1");
    let members = slack.conversations_members(&at, &place, None, 100);
    let (members, next) = members.await.unwrap();
    assert_eq!(members.len(), 2);
    assert_eq!(next, None);
    let user = slack
        .users_info(&at, &UserId::new("U1").unwrap())
        .await
        .unwrap();
    assert_eq!(user.display_name(), "太郎");
    assert_eq!(user.locale.as_deref(), Some("ja-JP"));
    let place = slack.conversations_info(&at, &channel("D1")).await.unwrap();
    assert!(place.is_im && !place.is_public());
    let team = slack
        .team_info(&at, &TeamId::new("T1").unwrap())
        .await
        .unwrap();
    assert_eq!(team.domain, "us");
    let file = slack
        .files_info(&at, &FileId::new("F1").unwrap())
        .await
        .unwrap();
    assert!(file.is_stub());
    assert_eq!(file.url(), Some("https://files.slack.com/a"));
}

#[tokio::test]
async fn the_token_test_tells_scopes_and_time() {
    let fake = FakeSlack::start(|_| {
        let body = json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B1"});
        let headers = [
            ("x-oauth-scopes", "chat:write, files:read"),
            ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ];
        Reply::status(200, &headers, body.to_string())
    })
    .await;
    let test = slack(&fake.api()).auth_test(&at()).await.unwrap();
    assert_eq!(test.scopes.unwrap(), ["chat:write", "files:read"]);
    assert_eq!(test.date.unwrap(), "Thu, 01 Jan 2026 00:00:00 GMT");
    assert_eq!(test.bot_id.unwrap().as_str(), "B1");
}

#[tokio::test]
async fn what_slack_refuses_comes_with_its_word_and_no_more() {
    let replies = AtomicUsize::new(0);
    let fake = FakeSlack::start(move |_| match replies.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Json(json!({"ok": false, "error": "missing_scope", "needed": "files:read"})),
        1 => Reply::said("<b>xoxb-1-secret</b>"),
        2 => Reply::status(401, &[], r#"{"ok":false,"error":"invalid_auth"}"#),
        3 => Reply::said("fatal_error"),
        _ => Reply::Json(json!({"ok": false})),
    })
    .await;
    let slack = slack(&fake.api());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert!(error.is("missing_scope") && !error.may_have_happened() && !error.may_pass());
    assert!(error.to_string().contains("`files:read`"), "{error}");
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.word(), "unknown_error");
    assert!(!format!("{error} {error:?}").contains("secret"));
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.word(), "invalid_auth");
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert!(error.may_have_happened() && error.may_pass(), "{error}");
    let error = post(&slack, &channel("C2")).await.unwrap_err();
    assert_eq!(error.word(), "unknown_error");
}

#[tokio::test]
async fn too_many_requests_are_remembered_for_their_channel_alone() {
    let fake = FakeSlack::start(|seen| {
        if seen.form()["channel"] == "C1" {
            Reply::status(429, &[("retry-after", "30")], "")
        } else {
            ok(json!({"ts": "1.1"}))
        }
    })
    .await;
    let slack = slack(&fake.api());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
    assert!(error.may_pass() && !error.may_have_happened());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    let after = error.retry_after().unwrap();
    assert!(after <= Duration::from_secs(30) && after > Duration::from_secs(20));
    assert_eq!(fake.seen().len(), 1, "the second one was not sent");
    post(&slack, &channel("C2")).await.unwrap();
    let update = Args::new().with("channel", "C3");
    let other: Value = slack
        .call(&at(), Method::ChatUpdate, &update)
        .await
        .unwrap();
    assert_eq!(other["ok"], true);
    assert_eq!(fake.seen().len(), 3);
}

#[tokio::test]
async fn a_wait_of_centuries_is_believed_for_an_hour() {
    let fake =
        FakeSlack::start(|_| Reply::status(429, &[("retry-after", "18446744073709551615")], ""))
            .await;
    let slack = slack(&fake.api());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn a_short_wait_is_waited_unless_one_is_in_haste() {
    let calls = Arc::new(AtomicUsize::new(0));
    let fake = FakeSlack::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 | 2 => Reply::status(429, &[("retry-after", "1")], r#"{"ok":false}"#),
        _ => ok(json!({"ts": "1.1"})),
    })
    .await;
    let slack = slack(&fake.api());
    post(&slack, &channel("C1")).await.unwrap();
    assert_eq!(fake.seen().len(), 2);
    let error = post(&slack.hasty(), &channel("C2")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    let error = post(&slack.hasty(), &channel("C2")).await.unwrap_err();
    assert!(error.retry_after().unwrap() <= Duration::from_secs(1));
    assert_eq!(fake.seen().len(), 3, "and its clones share the memory");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_given_up() {
    let fake = FakeSlack::start(|_| Reply::Never).await;
    let slack = slack(&fake.api());
    let call = tokio::spawn(async move { post(&slack, &channel("C1")).await });
    fake.until(1).await;
    // From here on nothing happens but time.
    tokio::time::pause();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, SlackError::TimedOut { .. }), "{error:?}");
    assert!(error.may_have_happened() && error.may_pass());
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() {
    let fake = FakeSlack::start(|seen| {
        let body = vec![b' '; (1 << 20) + 1];
        if seen.form()["channel"] == "C1" {
            return Reply::status(200, &[], body);
        }
        let pieces = body
            .chunks(1 << 16)
            .map(|piece| Ok::<_, String>(piece.to_vec()));
        let pieces: Vec<_> = pieces.collect();
        let untold = axum::body::Body::from_stream(futures_util::stream::iter(pieces));
        Reply::status(200, &[], untold)
    })
    .await;
    let slack = slack(&fake.api());
    for name in ["C1", "C2"] {
        let error = post(&slack, &channel(name)).await.unwrap_err();
        assert!(
            matches!(error, SlackError::Unreadable { .. }),
            "{name} {error:?}"
        );
        assert!(error.may_have_happened() && error.may_pass());
    }
}

#[tokio::test]
async fn answers_that_make_no_sense_are_told_apart() {
    let calls = AtomicUsize::new(0);
    let fake = FakeSlack::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::status(200, &[], "<html>"),
        1 => Reply::status(503, &[], r#"{"ok":false,"error":"x"}"#),
        2 => Reply::status(404, &[], "nothing here"),
        3 => Reply::status(302, &[("location", "/api/elsewhere")], ""),
        _ => ok(json!({"ts": "no time"})),
    })
    .await;
    let slack = slack(&fake.api());
    let mut words = Vec::new();
    for number in 0..5 {
        let error = post(&slack, &channel(&format!("C{number}")))
            .await
            .unwrap_err();
        words.push((
            error.word().to_owned(),
            error.may_have_happened(),
            error.may_pass(),
        ));
    }
    let expected = [
        ("unreadable", true, true),
        ("http_status", true, true),
        ("http_status", false, false),
        ("unreadable", true, true),
        ("unreadable", true, true),
    ];
    let expected = expected.map(|(word, done, pass)| (word.to_owned(), done, pass));
    assert_eq!(words, expected);
    assert_eq!(fake.count("elsewhere"), 0, "no redirect is followed");
}

#[tokio::test]
async fn a_token_is_sent_nowhere_else_however_slack_points_there() {
    let thief = FakeSlack::start(|_| ok(json!({"ts": "1.1"}))).await;
    let elsewhere = format!("{}/api/chat.postMessage", thief.origin);
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = elsewhere.clone();
        let fake = FakeSlack::start(move |_| {
            Reply::status(status, &[("location", elsewhere.as_str())], "")
        })
        .await;
        let error = post(&slack(&fake.api()), &channel("C1")).await.unwrap_err();
        assert!(error.may_have_happened() && error.may_pass(), "{status}");
        assert_eq!(fake.seen().len(), 1);
    }
    assert!(thief.seen().is_empty(), "{:?}", thief.seen());
}

#[test]
fn a_word_is_known_passing_or_puzzling() {
    for (word, puzzling, happened, pass) in [
        ("channel_not_found", false, false, false),
        ("missing_scope", false, false, false),
        ("internal_error", false, true, true),
        ("service_unavailable", false, false, true),
        ("a_word_of_next_year", true, true, false),
        ("unknown_error", true, true, false),
    ] {
        let error = SlackError::said(Method::ChatPostMessage, word);
        let read = (
            error.is_puzzling(),
            error.may_have_happened(),
            error.may_pass(),
        );
        assert_eq!(read, (puzzling, happened, pass), "{word}");
    }
    let unreadable = SlackError::Unreadable { what: "x" };
    assert!(!unreadable.is_puzzling());
    // What a proxy says in Slack's place is no last word.
    for (status, puzzling, pass) in [(403, true, false), (429, false, true), (502, false, true)] {
        let error = SlackError::Status { what: "x", status };
        assert_eq!((error.is_puzzling(), error.may_pass()), (puzzling, pass));
    }
}

#[tokio::test]
async fn no_connection_is_no_call_but_a_broken_one_may_be() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = format!("http://{}/api/", listener.local_addr().unwrap());
    let breaking = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut some = [0; 16];
        connection.read_exact(&mut some).await.unwrap();
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")
            .await
            .unwrap();
    });
    let error = post(&slack(&api), &channel("C1")).await.unwrap_err();
    assert!(matches!(error, SlackError::Broken { .. }), "{error:?}");
    assert!(error.may_have_happened() && error.may_pass());
    breaking.await.unwrap();
    // The listener is gone now.
    let error = post(&slack(&api), &channel("C1")).await.unwrap_err();
    assert!(matches!(error, SlackError::Unreachable { .. }), "{error:?}");
    assert!(!error.may_have_happened() && error.may_pass());
    assert!(!format!("{error:?}").contains("chat.postMessage?"));
}

#[tokio::test]
async fn files_come_with_the_token_and_no_larger_than_asked() {
    let fake = FakeSlack::start(|seen| match seen.method() {
        "a.csv" => Reply::status(200, &[("content-type", "Text/CSV; charset=utf-8")], "a,b,c"),
        "moved" => Reply::status(302, &[("location", "/files/a.csv")], ""),
        "round" => Reply::status(302, &[("location", "/files/round")], ""),
        "login" => Reply::status(200, &[("content-type", "text/html")], "<html>"),
        _ => Reply::status(404, &[], ""),
    })
    .await;
    let (slack, at) = (slack(&fake.api()), at());
    let url = |name: &str| format!("{}/files/{name}", fake.origin);
    let file = slack.files_download(&at, &url("a.csv"), 5).await.unwrap();
    assert_eq!(
        (file.mimetype.as_str(), &file.bytes[..]),
        ("text/csv", &b"a,b,c"[..])
    );
    assert_eq!(
        fake.seen()[0].header("authorization"),
        Some("Bearer xoxb-1-secret")
    );
    let large = slack.files_download(&at, &url("a.csv"), 4).await;
    assert!(matches!(large, Err(SlackError::TooLarge { limit: 4, .. })));
    assert_eq!(
        slack
            .files_download(&at, &url("moved"), 5)
            .await
            .unwrap()
            .bytes
            .len(),
        5
    );
    let round = slack.files_download(&at, &url("round"), 5).await;
    assert!(
        matches!(round, Err(SlackError::Unreadable { .. })),
        "{round:?}"
    );
    assert_eq!(
        slack
            .files_download(&at, &url("login"), 9)
            .await
            .unwrap()
            .mimetype,
        "text/html"
    );
    let gone = slack
        .files_download(&at, &url("gone"), 9)
        .await
        .unwrap_err();
    assert!(matches!(gone, SlackError::Status { status: 404, .. }));
    assert!(
        !format!("{gone:?}").contains("gone"),
        "addresses are secrets"
    );
}

#[tokio::test]
async fn no_file_is_asked_for_or_sent_elsewhere() {
    let other = FakeSlack::start(|_| Reply::status(200, &[], "x")).await;
    let away = format!("{}/files/x", other.origin);
    let target = away.clone();
    let fake = FakeSlack::start(move |_| Reply::status(302, &[("location", &target)], "")).await;
    let (slack, at) = (slack(&fake.api()), at());
    let sent_on = format!("{}/files/x", fake.origin);
    for url in [
        away.as_str(),
        sent_on.as_str(),
        "https://example.com/x",
        "http://files.slack.com/x",
        "file:///etc/passwd",
        "no address",
    ] {
        let error = slack.files_download(&at, url, 9).await.unwrap_err();
        assert!(matches!(error, SlackError::ForbiddenHost { .. }), "{url}");
    }
    let error = slack
        .files_upload(&away, Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    assert!(matches!(error, SlackError::ForbiddenHost { .. }));
    assert!(other.seen().is_empty());
    assert_eq!(fake.seen().len(), 1, "the one that was sent on");
}

#[tokio::test]
async fn what_was_pressed_is_taken_back_without_a_token_and_nowhere_else() {
    let fake = FakeSlack::start(|_| ok(json!({}))).await;
    let slack = slack(&fake.api());
    let url = ResponseUrl::new(format!("{}/actions/T1/1/x", fake.origin));
    slack.take_back(&url).await.unwrap();
    let seen = fake.seen().pop().unwrap();
    assert_eq!(seen.header("authorization"), None);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.body, r#"{"delete_original":true}"#);
    let elsewhere = FakeSlack::start(|_| ok(json!({}))).await;
    for url in [elsewhere.origin.as_str(), "http://hooks.slack.com/x", "x"] {
        let error = slack.take_back(&ResponseUrl::new(url)).await.unwrap_err();
        assert!(matches!(error, SlackError::ForbiddenHost { .. }), "{url}");
    }
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn the_token_does_not_go_along_to_another_host() {
    let other = FakeSlack::start(|_| Reply::status(200, &[], "x")).await;
    let away = format!("{}/files/x", other.origin);
    let fake = FakeSlack::start(move |_| Reply::status(302, &[("location", &away)], "")).await;
    let mut slack = slack(&fake.api());
    // Two hosts of Slack's, as far as this client knows.
    let inner = Arc::get_mut(&mut slack.inner).unwrap();
    let origin = url::Url::parse(&other.origin).unwrap().origin();
    inner.hosts.own.push(origin);
    let url = format!("{}/files/x", fake.origin);
    let file = slack.files_download(&at(), &url, 9).await.unwrap();
    assert_eq!(&file.bytes[..], b"x");
    assert!(fake.seen()[0].header("authorization").is_some());
    assert_eq!(other.seen()[0].header("authorization"), None);
}

#[tokio::test]
async fn an_upload_has_the_bytes_and_no_token() {
    let origin = Arc::new(std::sync::OnceLock::<String>::new());
    let told = Arc::clone(&origin);
    let fake = FakeSlack::start(move |seen| match seen.method() {
        "files.getUploadURLExternal" => {
            let url = format!("{}/upload/1", told.get().unwrap());
            ok(json!({"upload_url": url, "file_id": "F1"}))
        }
        "1" => Reply::status(200, &[], "OK - 4"),
        _ => Reply::status(500, &[], ""),
    })
    .await;
    origin.set(fake.origin.clone()).unwrap();
    let (slack, at) = (slack(&fake.api()), at());
    let ticket = slack.files_get_upload_url(&at, "表.csv", 4).await.unwrap();
    slack
        .files_upload(&ticket.upload_url, Bytes::from_static(b"\x00a,b"))
        .await
        .unwrap();
    let seen = fake.seen();
    assert_eq!(
        seen[0].form(),
        pairs(&[("filename", "表.csv"), ("length", "4")])
    );
    assert_eq!(&seen[1].body[..], b"\x00a,b");
    assert_eq!(seen[1].header("authorization"), None);
    let lost = format!("{}/upload/2", fake.origin);
    let error = slack.files_upload(&lost, Bytes::new()).await.unwrap_err();
    assert!(error.may_have_happened());
}

#[tokio::test]
async fn tokens_are_asked_for_with_the_apps_own_proof() {
    let fake = FakeSlack::start(|_| {
        ok(json!({
            "access_token": "xoxb-2", "refresh_token": "xoxe-1", "expires_in": 43200, "scope": "chat:write",
            "bot_user_id": "U0", "app_id": "A1", "team": {"id": "T1", "name": "Us"}, "enterprise": null,
        }))
    })
    .await;
    let slack = slack(&fake.api());
    let app = OauthApp {
        client_id: "1.2".to_owned(),
        client_secret: Secret::new("s3cret"),
    };
    let granted = slack
        .oauth_access(&app, "code", Some("https://a.example/b"))
        .await
        .unwrap();
    assert_eq!(granted.team.as_ref().unwrap().id.as_str(), "T1");
    assert!(!format!("{granted:?} {app:?}").contains("xoxb-2"));
    slack
        .oauth_refresh(&app, &Secret::new("xoxe-0"))
        .await
        .unwrap();
    let seen = fake.seen();
    assert_eq!(
        seen[0].header("authorization"),
        Some("Basic MS4yOnMzY3JldA==")
    );
    assert_eq!(
        seen[0].form(),
        pairs(&[("code", "code"), ("redirect_uri", "https://a.example/b")])
    );
    assert_eq!(
        seen[1].form(),
        pairs(&[("grant_type", "refresh_token"), ("refresh_token", "xoxe-0")])
    );
}

#[test]
fn the_api_is_at_an_address_that_is_safe() {
    let made = |url: &str| Slack::new(url, &Trust::system());
    for (given, used) in [
        ("https://slack.com/api/", "https://slack.com/api/"),
        ("https://slack.com/api", "https://slack.com/api/"),
        ("http://127.0.0.1:9000/api", "http://127.0.0.1:9000/api/"),
        ("http://[::1]:9000/api/", "http://[::1]:9000/api/"),
        ("http://localhost:9000", "http://localhost:9000/"),
    ] {
        assert_eq!(made(given).unwrap().api_url().as_str(), used);
    }
    for clear in [
        "http://slack.com/api/",
        "http://10.0.0.1/",
        "http://localhost.example/",
    ] {
        let error = made(clear).unwrap_err();
        assert!(matches!(error, SlackSetupError::Insecure { .. }), "{clear}");
    }
    for wrong in [
        "",
        "slack.com",
        "ftp://slack.com/",
        "https://u@slack.com/",
        "https://slack.com/api/?x=1",
    ] {
        let error = made(wrong).unwrap_err();
        assert!(matches!(error, SlackSetupError::Url { .. }), "{wrong}");
    }
}
