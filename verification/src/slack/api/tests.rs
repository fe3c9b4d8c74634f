//! Tests of the Web API client against a fake server.

use super::chat::{
    AppendStream, PostEphemeral, PostMessage, StartStream, StopStream, UpdateMessage,
};
use super::conversations::RepliesQuery;
use super::oauth::OauthApp;
use super::{ResponseUrl, Slack, SlackArgs, SlackError, SlackMethod, SlackSetupError};
use crate::slack::fake::{FakeReply, FakeSlack, RecordedRequest};
use crate::slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};
use crate::slack::tokens::{BotToken, Installation};
use bytes::Bytes;
use interzone_edge::Secret;
use interzone_edge::tls::TrustRoots;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const TOKEN: &str = "xoxb-1-secret";

fn slack(api: &str) -> Slack {
    Slack::new(api, &TrustRoots::system()).unwrap()
}

fn installation() -> Installation {
    let mut installation = Installation::from_token(BotToken::new(TOKEN).unwrap());
    installation.team = Some(TeamId::new("T1").unwrap());
    installation
}

fn channel(name: &str) -> ChannelId {
    ChannelId::new(name).unwrap()
}

fn ts(text: &str) -> Ts {
    Ts::new(text).unwrap()
}

fn ok_reply(fields: Value) -> FakeReply {
    let mut body = json!({"ok": true});
    let all = body.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    FakeReply::Json(body)
}

async fn post(slack: &Slack, channel: &ChannelId) -> Result<Ts, SlackError> {
    let post = PostMessage {
        channel,
        thread: None,
        text: "x",
        blocks: None,
        metadata: None,
    };
    slack.chat_post_message(&installation(), &post).await
}

fn form(request: &RecordedRequest) -> BTreeMap<String, String> {
    assert_eq!(
        request.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
    request.form()
}

fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    list.iter().map(owned).collect()
}

#[tokio::test]
async fn call_sends_form_with_bearer_token() {
    let fake = FakeSlack::start(|_| ok_reply(json!({"ts": "17.5"}))).await;
    let slack = slack(&fake.api());
    let blocks = json!([{"type": "markdown", "text": "a & b = 日本"}]);
    let metadata = json!({"event_type": "e", "event_payload": {"key": "k"}});
    let channel = channel("C1");
    let thread = ts("16.1");
    let message = PostMessage {
        channel: &channel,
        thread: Some(&thread),
        text: "a & b = 日本",
        blocks: Some(&blocks),
        metadata: Some(&metadata),
    };
    let posted = slack
        .chat_post_message(&installation(), &message)
        .await
        .unwrap();
    assert_eq!(posted, ts("17.5"));
    let request = &fake.requests()[0];
    assert_eq!(
        (request.http_method.as_str(), request.uri.path()),
        ("POST", "/api/chat.postMessage")
    );
    assert_eq!(request.uri.query(), None);
    assert_eq!(
        request.header("authorization"),
        Some("Bearer xoxb-1-secret")
    );
    let expected = pairs(&[
        ("channel", "C1"),
        ("thread_ts", "16.1"),
        ("text", "a & b = 日本"),
        ("blocks", &blocks.to_string()),
        ("metadata", &metadata.to_string()),
        ("unfurl_links", "false"),
        ("unfurl_media", "false"),
    ]);
    assert_eq!(form(request), expected);
}

#[tokio::test]
async fn write_methods_send_expected_arguments() {
    let fake = FakeSlack::start(|_| ok_reply(json!({"ts": "17.5"}))).await;
    let (slack, installation) = (slack(&fake.api()), installation());
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
    slack
        .chat_start_stream(&installation, &start)
        .await
        .unwrap();
    let append = AppendStream {
        channel,
        ts,
        markdown: Some("two"),
        chunks: None,
    };
    slack
        .chat_append_stream(&installation, &append)
        .await
        .unwrap();
    let stop = StopStream {
        channel,
        ts,
        markdown: None,
        chunks: None,
        blocks: Some(&list),
        metadata: Some(&list),
    };
    slack.chat_stop_stream(&installation, &stop).await.unwrap();
    let update = UpdateMessage {
        channel,
        ts,
        text: "t",
        blocks: Some(&list),
        metadata: None,
    };
    slack.chat_update(&installation, &update).await.unwrap();
    let ephemeral = PostEphemeral {
        channel,
        user: &user,
        thread: Some(ts),
        text: "t",
        blocks: None,
    };
    slack
        .chat_post_ephemeral(&installation, &ephemeral)
        .await
        .unwrap();
    slack
        .reactions_add(&installation, channel, ts, "eyes")
        .await
        .unwrap();
    slack
        .reactions_remove(&installation, channel, ts, "eyes")
        .await
        .unwrap();
    slack
        .assistant_set_status(&installation, channel, ts, "thinks")
        .await
        .unwrap();
    let file = FileId::new("F1").unwrap();
    let shared = slack.files_complete_upload(&installation, &file, "a.csv", channel, Some(ts));
    shared.await.unwrap();
    slack.auth_revoke(&installation).await.unwrap();
    let requests: Vec<_> = fake
        .requests()
        .iter()
        .map(|request| format!("{} {:?}", request.method(), request.form()))
        .collect();
    insta::assert_snapshot!(requests.join("\n"), @r#"
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
async fn invalid_elements_in_responses_are_skipped() {
    let fake = FakeSlack::start(|request| match request.method() {
        "conversations.replies" => ok_reply(json!({
            "messages": [
                {"ts": "1.1", "user": "U1", "text": "first", "files": [{"id": "F1", "size": 3}, {"id": "no id"}]},
                {"ts": "not one", "text": "lost"},
                {"ts": "1.2", "bot_id": "B1", "app_id": null, "text": null, "subtype": "bot_message",
                 "metadata": {"event_type": "interzone_reply", "event_payload": {"key": "k"}}},
            ],
            "response_metadata": {"next_cursor": "abc="},
        })),
        "conversations.members" => ok_reply(json!({
            "members": ["U1", "??", "W2"], "response_metadata": {"next_cursor": ""},
        })),
        "users.info" => ok_reply(json!({"user": {
            "id": "U1", "name": "taro", "real_name": "Taro Y", "locale": "ja-JP",
            "profile": {"display_name": " ", "real_name": "太郎"},
        }})),
        "conversations.info" => ok_reply(json!({"channel": {"id": "D1", "is_im": true, "user": "U1"}})),
        "team.info" => ok_reply(json!({"team": {"id": "T1", "name": "Us", "domain": "us"}})),
        "files.info" => ok_reply(json!({"file": {
            "id": "F1", "name": "a.csv", "mimetype": "text/csv", "size": 3,
            "url_private": "https://files.slack.com/a", "file_access": "check_file_info",
        }})),
        _ => FakeReply::error("unknown_method"),
    })
    .await;
    let (slack, installation) = (slack(&fake.api()), installation());
    let thread = RepliesQuery {
        channel: &channel("C1"),
        ts: &ts("1.1"),
        oldest: None,
        latest: None,
        limit: 200,
        cursor: Some("page="),
    };
    let page = slack
        .conversations_replies(&installation, thread)
        .await
        .unwrap();
    assert_eq!(page.next_cursor.as_deref(), Some("abc="));
    let [first, second] = &page.messages[..] else {
        panic!("{page:?}")
    };
    assert_eq!((first.text.as_str(), first.files.len()), ("first", 1));
    assert_eq!(second.metadata.as_ref().unwrap().event_payload["key"], "k");
    assert_eq!(second.text, "");
    let form = fake.requests()[0].form();
    assert_eq!(form["cursor"], "page=");
    assert_eq!(form["include_all_metadata"], "true");

    let channel_id = channel("C1");
    let members = slack.conversations_members(&installation, &channel_id, None, 100);
    let (members, next) = members.await.unwrap();
    assert_eq!(members.len(), 2);
    assert_eq!(next, None);
    let user = slack
        .users_info(&installation, &UserId::new("U1").unwrap())
        .await
        .unwrap();
    assert_eq!(user.display_name(), "太郎");
    assert_eq!(user.locale.as_deref(), Some("ja-JP"));
    let conversation = slack
        .conversations_info(&installation, &channel("D1"))
        .await
        .unwrap();
    assert!(conversation.is_im && !conversation.is_public());
    let team = slack
        .team_info(&installation, &TeamId::new("T1").unwrap())
        .await
        .unwrap();
    assert_eq!(team.domain, "us");
    let file = slack
        .files_info(&installation, &FileId::new("F1").unwrap())
        .await
        .unwrap();
    assert!(file.is_stub());
    assert_eq!(file.download_url(), Some("https://files.slack.com/a"));
}

#[tokio::test]
async fn auth_test_returns_scopes_and_date() {
    let fake = FakeSlack::start(|_| {
        let body = json!({"ok": true, "team_id": "T1", "user_id": "U0", "bot_id": "B1"});
        let headers = [
            ("x-oauth-scopes", "chat:write, files:read"),
            ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ];
        FakeReply::status(200, &headers, body.to_string())
    })
    .await;
    let test = slack(&fake.api()).auth_test(&installation()).await.unwrap();
    assert_eq!(test.scopes.unwrap(), ["chat:write", "files:read"]);
    assert_eq!(test.date.unwrap(), "Thu, 01 Jan 2026 00:00:00 GMT");
    assert_eq!(test.bot_id.unwrap().as_str(), "B1");
}

#[tokio::test]
async fn rejection_has_sanitized_error_code() {
    let replies = AtomicUsize::new(0);
    let fake = FakeSlack::start(move |_| match replies.fetch_add(1, Ordering::SeqCst) {
        0 => {
            FakeReply::Json(json!({"ok": false, "error": "missing_scope", "needed": "files:read"}))
        }
        1 => FakeReply::error("<b>xoxb-1-secret</b>"),
        2 => FakeReply::status(401, &[], r#"{"ok":false,"error":"invalid_auth"}"#),
        3 => FakeReply::error("fatal_error"),
        _ => FakeReply::Json(json!({"ok": false})),
    })
    .await;
    let slack = slack(&fake.api());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert!(error.is_code("missing_scope") && !error.is_ambiguous() && !error.is_retryable());
    assert!(error.to_string().contains("`files:read`"), "{error}");
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.code(), "unknown_error");
    assert!(!format!("{error} {error:?}").contains("secret"));
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.code(), "invalid_auth");
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert!(error.is_ambiguous() && error.is_retryable(), "{error}");
    let error = post(&slack, &channel("C2")).await.unwrap_err();
    assert_eq!(error.code(), "unknown_error");
}

#[tokio::test]
async fn rate_limit_applies_per_channel() {
    let fake = FakeSlack::start(|request| {
        if request.form()["channel"] == "C1" {
            FakeReply::status(429, &[("retry-after", "30")], "")
        } else {
            ok_reply(json!({"ts": "1.1"}))
        }
    })
    .await;
    let slack = slack(&fake.api());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
    assert!(error.is_retryable() && !error.is_ambiguous());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    let after = error.retry_after().unwrap();
    assert!(after <= Duration::from_secs(30) && after > Duration::from_secs(20));
    assert_eq!(fake.requests().len(), 1, "the second call was not sent");
    post(&slack, &channel("C2")).await.unwrap();
    let update = SlackArgs::new().arg("channel", "C3");
    let other: Value = slack
        .call(&installation(), SlackMethod::ChatUpdate, &update)
        .await
        .unwrap();
    assert_eq!(other["ok"], true);
    assert_eq!(fake.requests().len(), 3);
}

#[tokio::test]
async fn retry_after_is_limited_to_one_hour() {
    let fake = FakeSlack::start(|_| {
        FakeReply::status(429, &[("retry-after", "18446744073709551615")], "")
    })
    .await;
    let slack = slack(&fake.api());
    let error = post(&slack, &channel("C1")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn short_delay_is_waited_unless_fail_fast() {
    let calls = Arc::new(AtomicUsize::new(0));
    let fake = FakeSlack::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 | 2 => FakeReply::status(429, &[("retry-after", "1")], r#"{"ok":false}"#),
        _ => ok_reply(json!({"ts": "1.1"})),
    })
    .await;
    let slack = slack(&fake.api());
    post(&slack, &channel("C1")).await.unwrap();
    assert_eq!(fake.requests().len(), 2);
    let error = post(&slack.fail_fast(), &channel("C2")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
    let error = post(&slack.fail_fast(), &channel("C2")).await.unwrap_err();
    assert!(error.retry_after().unwrap() <= Duration::from_secs(1));
    assert_eq!(fake.requests().len(), 3, "clones share the rate limiter");
}

#[tokio::test]
async fn missing_response_times_out() {
    let fake = FakeSlack::start(|_| FakeReply::NoResponse).await;
    let slack = slack(&fake.api());
    let call = tokio::spawn(async move { post(&slack, &channel("C1")).await });
    fake.wait_for_requests(1).await;
    // From here on only time passes.
    tokio::time::pause();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, SlackError::TimedOut { .. }), "{error:?}");
    assert!(error.is_ambiguous() && error.is_retryable());
}

#[tokio::test]
async fn oversized_response_is_unreadable() {
    let fake = FakeSlack::start(|request| {
        let body = vec![b' '; (1 << 20) + 1];
        if request.form()["channel"] == "C1" {
            return FakeReply::status(200, &[], body);
        }
        let chunks = body
            .chunks(1 << 16)
            .map(|piece| Ok::<_, String>(piece.to_vec()));
        let pieces: Vec<_> = chunks.collect();
        let chunked = axum::body::Body::from_stream(futures_util::stream::iter(pieces));
        FakeReply::status(200, &[], chunked)
    })
    .await;
    let slack = slack(&fake.api());
    for name in ["C1", "C2"] {
        let error = post(&slack, &channel(name)).await.unwrap_err();
        assert!(
            matches!(error, SlackError::Unreadable { .. }),
            "{name} {error:?}"
        );
        assert!(error.is_ambiguous() && error.is_retryable());
    }
}

#[tokio::test]
async fn invalid_responses_are_classified() {
    let calls = AtomicUsize::new(0);
    let fake = FakeSlack::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => FakeReply::status(200, &[], "<html>"),
        1 => FakeReply::status(503, &[], r#"{"ok":false,"error":"x"}"#),
        2 => FakeReply::status(404, &[], "nothing here"),
        3 => FakeReply::status(302, &[("location", "/api/elsewhere")], ""),
        _ => ok_reply(json!({"ts": "no time"})),
    })
    .await;
    let slack = slack(&fake.api());
    let mut results = Vec::new();
    for index in 0..5 {
        let error = post(&slack, &channel(&format!("C{index}")))
            .await
            .unwrap_err();
        results.push((
            error.code().to_owned(),
            error.is_ambiguous(),
            error.is_retryable(),
        ));
    }
    let expected = [
        ("unreadable", true, true),
        ("http_status", true, true),
        ("http_status", false, false),
        ("unreadable", true, true),
        ("unreadable", true, true),
    ];
    let expected =
        expected.map(|(code, ambiguous, retryable)| (code.to_owned(), ambiguous, retryable));
    assert_eq!(results, expected);
    assert_eq!(fake.count("elsewhere"), 0, "no redirect is followed");
}

#[tokio::test]
async fn redirect_does_not_leak_token() {
    let other = FakeSlack::start(|_| ok_reply(json!({"ts": "1.1"}))).await;
    let elsewhere = format!("{}/api/chat.postMessage", other.origin);
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = elsewhere.clone();
        let fake = FakeSlack::start(move |_| {
            FakeReply::status(status, &[("location", elsewhere.as_str())], "")
        })
        .await;
        let error = post(&slack(&fake.api()), &channel("C1")).await.unwrap_err();
        assert!(error.is_ambiguous() && error.is_retryable(), "{status}");
        assert_eq!(fake.requests().len(), 1);
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

#[test]
fn error_codes_are_classified() {
    for (code, unknown, ambiguous, retryable) in [
        ("channel_not_found", false, false, false),
        ("missing_scope", false, false, false),
        ("internal_error", false, true, true),
        ("service_unavailable", false, false, true),
        ("a_code_of_next_year", true, true, false),
        ("unknown_error", true, true, false),
    ] {
        let error = SlackError::rejection(SlackMethod::ChatPostMessage, code);
        let classified = (
            error.is_unknown_code(),
            error.is_ambiguous(),
            error.is_retryable(),
        );
        assert_eq!(classified, (unknown, ambiguous, retryable), "{code}");
    }
    let unreadable = SlackError::Unreadable { operation: "x" };
    assert!(!unreadable.is_unknown_code());
    // A 4xx status may come from a proxy.
    for (status, unknown, retryable) in [(403, true, false), (429, false, true), (502, false, true)]
    {
        let error = SlackError::HttpStatus {
            operation: "x",
            status,
        };
        assert_eq!(
            (error.is_unknown_code(), error.is_retryable()),
            (unknown, retryable)
        );
    }
}

#[tokio::test]
async fn broken_connection_is_ambiguous_and_refused_one_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = format!("http://{}/api/", listener.local_addr().unwrap());
    let breaking = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 16];
        connection.read_exact(&mut buffer).await.unwrap();
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")
            .await
            .unwrap();
    });
    let error = post(&slack(&api), &channel("C1")).await.unwrap_err();
    assert!(
        matches!(error, SlackError::ConnectionBroken { .. }),
        "{error:?}"
    );
    assert!(error.is_ambiguous() && error.is_retryable());
    breaking.await.unwrap();
    // The listener is closed now.
    let error = post(&slack(&api), &channel("C1")).await.unwrap_err();
    assert!(matches!(error, SlackError::Unreachable { .. }), "{error:?}");
    assert!(!error.is_ambiguous() && error.is_retryable());
    assert!(!format!("{error:?}").contains("chat.postMessage?"));
}

#[tokio::test]
async fn download_sends_token_and_enforces_size_limit() {
    let fake = FakeSlack::start(|request| match request.method() {
        "a.csv" => FakeReply::status(200, &[("content-type", "Text/CSV; charset=utf-8")], "a,b,c"),
        "moved" => FakeReply::status(302, &[("location", "/files/a.csv")], ""),
        "round" => FakeReply::status(302, &[("location", "/files/round")], ""),
        "login" => FakeReply::status(200, &[("content-type", "text/html")], "<html>"),
        _ => FakeReply::status(404, &[], ""),
    })
    .await;
    let (slack, installation) = (slack(&fake.api()), installation());
    let url = |name: &str| format!("{}/files/{name}", fake.origin);
    let file = slack
        .files_download(&installation, &url("a.csv"), 5)
        .await
        .unwrap();
    assert_eq!(
        (file.mimetype.as_str(), &file.bytes[..]),
        ("text/csv", &b"a,b,c"[..])
    );
    assert_eq!(
        fake.requests()[0].header("authorization"),
        Some("Bearer xoxb-1-secret")
    );
    let too_large = slack.files_download(&installation, &url("a.csv"), 4).await;
    assert!(matches!(
        too_large,
        Err(SlackError::TooLarge { limit: 4, .. })
    ));
    assert_eq!(
        slack
            .files_download(&installation, &url("moved"), 5)
            .await
            .unwrap()
            .bytes
            .len(),
        5
    );
    let redirect_loop = slack.files_download(&installation, &url("round"), 5).await;
    assert!(
        matches!(redirect_loop, Err(SlackError::Unreadable { .. })),
        "{redirect_loop:?}"
    );
    assert_eq!(
        slack
            .files_download(&installation, &url("login"), 9)
            .await
            .unwrap()
            .mimetype,
        "text/html"
    );
    let not_found = slack
        .files_download(&installation, &url("gone"), 9)
        .await
        .unwrap_err();
    assert!(matches!(
        not_found,
        SlackError::HttpStatus { status: 404, .. }
    ));
    assert!(
        !format!("{not_found:?}").contains("gone"),
        "urls are secrets"
    );
}

#[tokio::test]
async fn files_use_slack_hosts_only() {
    let other = FakeSlack::start(|_| FakeReply::status(200, &[], "x")).await;
    let foreign_url = format!("{}/files/x", other.origin);
    let target = foreign_url.clone();
    let fake =
        FakeSlack::start(move |_| FakeReply::status(302, &[("location", &target)], "")).await;
    let (slack, installation) = (slack(&fake.api()), installation());
    let redirecting_url = format!("{}/files/x", fake.origin);
    for url in [
        foreign_url.as_str(),
        redirecting_url.as_str(),
        "https://example.com/x",
        "http://files.slack.com/x",
        "file:///etc/passwd",
        "no address",
    ] {
        let error = slack
            .files_download(&installation, url, 9)
            .await
            .unwrap_err();
        assert!(matches!(error, SlackError::ForbiddenHost { .. }), "{url}");
    }
    let error = slack
        .files_upload(&foreign_url, Bytes::from_static(b"x"))
        .await
        .unwrap_err();
    assert!(matches!(error, SlackError::ForbiddenHost { .. }));
    assert!(other.requests().is_empty());
    assert_eq!(fake.requests().len(), 1, "only the redirecting url");
}

#[tokio::test]
async fn delete_original_sends_no_token_and_checks_host() {
    let fake = FakeSlack::start(|_| ok_reply(json!({}))).await;
    let slack = slack(&fake.api());
    let url = ResponseUrl::new(format!("{}/actions/T1/1/x", fake.origin));
    slack.delete_original(&url).await.unwrap();
    let request = fake.requests().pop().unwrap();
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.body, r#"{"delete_original":true}"#);
    let elsewhere = FakeSlack::start(|_| ok_reply(json!({}))).await;
    for url in [elsewhere.origin.as_str(), "http://hooks.slack.com/x", "x"] {
        let error = slack
            .delete_original(&ResponseUrl::new(url))
            .await
            .unwrap_err();
        assert!(matches!(error, SlackError::ForbiddenHost { .. }), "{url}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn token_is_not_sent_to_redirect_target() {
    let other = FakeSlack::start(|_| FakeReply::status(200, &[], "x")).await;
    let other_url = format!("{}/files/x", other.origin);
    let fake =
        FakeSlack::start(move |_| FakeReply::status(302, &[("location", &other_url)], "")).await;
    let mut slack = slack(&fake.api());
    // Make the client trust both hosts.
    let inner = Arc::get_mut(&mut slack.inner).unwrap();
    let origin = url::Url::parse(&other.origin).unwrap().origin();
    inner.hosts.extra_origins.push(origin);
    let url = format!("{}/files/x", fake.origin);
    let file = slack
        .files_download(&installation(), &url, 9)
        .await
        .unwrap();
    assert_eq!(&file.bytes[..], b"x");
    assert!(fake.requests()[0].header("authorization").is_some());
    assert_eq!(other.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn upload_sends_bytes_without_token() {
    let origin = Arc::new(std::sync::OnceLock::<String>::new());
    let handler_origin = Arc::clone(&origin);
    let fake = FakeSlack::start(move |request| match request.method() {
        "files.getUploadURLExternal" => {
            let url = format!("{}/upload/1", handler_origin.get().unwrap());
            ok_reply(json!({"upload_url": url, "file_id": "F1"}))
        }
        "1" => FakeReply::status(200, &[], "OK - 4"),
        _ => FakeReply::status(500, &[], ""),
    })
    .await;
    origin.set(fake.origin.clone()).unwrap();
    let (slack, installation) = (slack(&fake.api()), installation());
    let ticket = slack
        .files_get_upload_url(&installation, "表.csv", 4)
        .await
        .unwrap();
    slack
        .files_upload(&ticket.upload_url, Bytes::from_static(b"\x00a,b"))
        .await
        .unwrap();
    let requests = fake.requests();
    assert_eq!(
        requests[0].form(),
        pairs(&[("filename", "表.csv"), ("length", "4")])
    );
    assert_eq!(&requests[1].body[..], b"\x00a,b");
    assert_eq!(requests[1].header("authorization"), None);
    let failing_url = format!("{}/upload/2", fake.origin);
    let error = slack
        .files_upload(&failing_url, Bytes::new())
        .await
        .unwrap_err();
    assert!(error.is_ambiguous());
}

#[tokio::test]
async fn oauth_access_uses_basic_auth() {
    let fake = FakeSlack::start(|_| {
        ok_reply(json!({
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
    let requests = fake.requests();
    assert_eq!(
        requests[0].header("authorization"),
        Some("Basic MS4yOnMzY3JldA==")
    );
    assert_eq!(
        requests[0].form(),
        pairs(&[("code", "code"), ("redirect_uri", "https://a.example/b")])
    );
    assert_eq!(
        requests[1].form(),
        pairs(&[("grant_type", "refresh_token"), ("refresh_token", "xoxe-0")])
    );
}

#[test]
fn api_url_is_validated() {
    let create = |url: &str| Slack::new(url, &TrustRoots::system());
    for (url, expected) in [
        ("https://slack.com/api/", "https://slack.com/api/"),
        ("https://slack.com/api", "https://slack.com/api/"),
        ("http://127.0.0.1:9000/api", "http://127.0.0.1:9000/api/"),
        ("http://[::1]:9000/api/", "http://[::1]:9000/api/"),
        ("http://localhost:9000", "http://localhost:9000/"),
    ] {
        assert_eq!(create(url).unwrap().api_url().as_str(), expected);
    }
    for insecure in [
        "http://slack.com/api/",
        "http://10.0.0.1/",
        "http://localhost.example/",
    ] {
        let error = create(insecure).unwrap_err();
        assert!(
            matches!(error, SlackSetupError::Insecure { .. }),
            "{insecure}"
        );
    }
    for invalid in [
        "",
        "slack.com",
        "ftp://slack.com/",
        "https://u@slack.com/",
        "https://slack.com/api/?x=1",
    ] {
        let error = create(invalid).unwrap_err();
        assert!(matches!(error, SlackSetupError::Url { .. }), "{invalid}");
    }
}
