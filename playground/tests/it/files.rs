//! Files: uploads in three steps, downloads with a token, and shares by users.

use crate::support::{TestApp, TestBot, client};
use interzone_playground::{FileShare, Playground, PlaygroundOptions, seed};
use serde_json::json;

#[tokio::test]
async fn uploaded_file_appears_in_the_thread() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let bot = TestBot::new(&playground);
    let root = playground.post(seed::HANA, seed::DM_HANA, "csv?").unwrap();
    app.next_request().await;
    let place = [("filename", "表.csv"), ("length", "7")];
    let url = bot.call_ok("files.getUploadURLExternal", &place).await;
    let id = url["file_id"].as_str().unwrap();
    let files = json!([{"id": id, "title": "Table"}]).to_string();
    let complete = [
        ("files", files.as_str()),
        ("channel_id", seed::DM_HANA),
        ("thread_ts", root.as_str()),
        ("initial_comment", "here"),
    ];
    let step = "files.completeUploadExternal";
    assert_eq!(bot.call_err(step, &complete).await, "file_not_found");
    let to = url["upload_url"].as_str().unwrap();
    let short = client().post(to).body("a,b").send().await.unwrap();
    assert_eq!(short.status(), 400, "fewer bytes than were announced");
    let good = client().post(to).body("a,b\n1,2").send().await.unwrap();
    assert_eq!(good.text().await.unwrap(), "OK - 7");
    let wrong = client().post(format!("{to}x")).body("a,b\n1,2");
    assert_eq!(wrong.send().await.unwrap().status(), 400);
    bot.call_ok(step, &complete).await;
    assert_eq!(bot.call_err(step, &complete).await, "file_not_found");
    let thread = playground.thread(seed::DM_HANA, &root);
    assert_eq!(thread[1].files, [id]);
    assert_eq!(thread[1].text, "here");
    let info = bot.call_ok("files.info", &[("file", id)]).await;
    assert_eq!(info["file"]["title"], "Table");
    assert_eq!(
        info["file"]["shares"]["private"][seed::DM_HANA][0]["thread_ts"],
        root.as_str()
    );
}

#[tokio::test]
async fn shared_file_sends_event_and_download_needs_token() {
    let mut app = TestApp::start().await;
    let playground = app.playground().await;
    let bot = TestBot::new(&playground);
    let upload = FileShare {
        user: seed::ALEX,
        channel: seed::GENERAL,
        text: "@interzone read this",
        files: vec![("notes.txt".to_owned(), "hello".into())],
        ..FileShare::default()
    };
    playground.upload(&upload).unwrap();
    let events = app.next_events(2).await;
    assert_eq!(events[0]["event"]["type"], "app_mention");
    assert_eq!(events[1]["event"]["subtype"], "file_share");
    let file = &events[1]["event"]["files"][0];
    assert_eq!(
        (&file["name"], &file["mimetype"], &file["size"]),
        (&json!("notes.txt"), &json!("text/plain"), &json!(5))
    );
    let url = file["url_private_download"].as_str().unwrap();
    let got = client().get(url).bearer_auth(&bot.token).send().await;
    assert_eq!(got.unwrap().text().await.unwrap(), "hello");
    let without = client().get(url).send().await.unwrap();
    assert_eq!(without.status(), 200);
    assert_eq!(
        without.headers()["content-type"],
        "text/html; charset=utf-8"
    );
    playground.set_scopes(&["chat:write"]);
    let without = client().get(url).bearer_auth(&bot.token).send().await;
    assert!(without.unwrap().text().await.unwrap().contains("Sign in"));

    let stub = FileShare {
        is_stub: true,
        channel: seed::DM_ALEX,
        ..upload
    };
    playground.upload(&stub).unwrap();
    let event = app.next_request().await.json();
    let file = &event["event"]["files"][0];
    assert_eq!(file["file_access"], "check_file_info");
    assert!(file.get("name").is_none());
}

#[tokio::test]
async fn oldest_files_are_dropped_when_the_workspace_is_full() {
    let options = PlaygroundOptions {
        max_file_bytes: 10,
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let bot = TestBot::new(&playground);
    let mut ids = Vec::new();
    for number in 0..3 {
        let upload = FileShare {
            user: seed::ALEX,
            channel: seed::GENERAL,
            text: "@interzone read this",
            files: vec![(format!("{number}.txt"), "12345".into())],
            ..FileShare::default()
        };
        let ts = playground.upload(&upload).unwrap();
        let message = playground.thread(seed::GENERAL, &ts);
        ids.push(message[0].files[0].clone());
    }
    let info = async |id: &str| bot.call_err("files.info", &[("file", id)]).await;
    assert_eq!(info(&ids[0]).await, "file_deleted");
    for id in &ids[1..] {
        bot.call_ok("files.info", &[("file", id)]).await;
    }
    let large = FileShare {
        user: seed::ALEX,
        channel: seed::GENERAL,
        text: "@interzone read this",
        files: vec![("large.txt".to_owned(), "12345678901".into())],
        ..FileShare::default()
    };
    let refused = playground.upload(&large).unwrap_err().to_string();
    assert!(refused.contains("larger than all files"), "{refused}");
    bot.call_ok("files.info", &[("file", &ids[2])]).await;
}
