//! Files up in three steps, down with a token, and shared by people.

use crate::house::{App, Bot, client};
use interzone_playground::{Playground, PlaygroundOptions, Upload, seed};
use serde_json::json;

#[tokio::test]
async fn a_file_goes_up_in_three_steps_and_appears_in_the_thread() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    let bot = Bot::of(&playground);
    let root = playground.post(seed::HANA, seed::DM_HANA, "csv?").unwrap();
    app.next().await;
    let place = [("filename", "表.csv"), ("length", "7")];
    let url = bot.good("files.getUploadURLExternal", &place).await;
    let id = url["file_id"].as_str().unwrap();
    let files = json!([{"id": id, "title": "Table"}]).to_string();
    let complete = [
        ("files", files.as_str()),
        ("channel_id", seed::DM_HANA),
        ("thread_ts", root.as_str()),
        ("initial_comment", "here"),
    ];
    let step = "files.completeUploadExternal";
    assert_eq!(bot.bad(step, &complete).await, "file_not_found");
    let to = url["upload_url"].as_str().unwrap();
    let short = client().post(to).body("a,b").send().await.unwrap();
    assert_eq!(short.status(), 400, "fewer bytes than were announced");
    let good = client().post(to).body("a,b\n1,2").send().await.unwrap();
    assert_eq!(good.text().await.unwrap(), "OK - 7");
    let wrong = client().post(format!("{to}x")).body("a,b\n1,2");
    assert_eq!(wrong.send().await.unwrap().status(), 400);
    bot.good(step, &complete).await;
    assert_eq!(bot.bad(step, &complete).await, "file_not_found");
    let thread = playground.thread(seed::DM_HANA, &root);
    assert_eq!(thread[1].files, [id]);
    assert_eq!(thread[1].text, "here");
    let info = bot.good("files.info", &[("file", id)]).await;
    assert_eq!(info["file"]["title"], "Table");
    assert_eq!(
        info["file"]["shares"]["private"][seed::DM_HANA][0]["thread_ts"],
        root.as_str()
    );
}

#[tokio::test]
async fn a_shared_file_is_told_and_needs_a_token() {
    let mut app = App::start().await;
    let playground = app.playground().await;
    let bot = Bot::of(&playground);
    let upload = Upload {
        user: seed::ALEX,
        channel: seed::GENERAL,
        text: "@interzone read this",
        files: vec![("notes.txt".to_owned(), "hello".into())],
        ..Upload::default()
    };
    playground.upload(&upload).unwrap();
    let told = app.events(2).await;
    assert_eq!(told[0]["event"]["type"], "app_mention");
    assert_eq!(told[1]["event"]["subtype"], "file_share");
    let file = &told[1]["event"]["files"][0];
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

    let stub = Upload {
        stub: true,
        channel: seed::DM_ALEX,
        ..upload
    };
    playground.upload(&stub).unwrap();
    let told = app.next().await.json();
    let file = &told["event"]["files"][0];
    assert_eq!(file["file_access"], "check_file_info");
    assert!(file.get("name").is_none());
}

#[tokio::test]
async fn oldest_files_are_dropped_when_the_workspace_is_full() {
    let options = PlaygroundOptions {
        file_bytes: 10,
        ..PlaygroundOptions::default()
    };
    let playground = Playground::start(options).await.unwrap();
    let bot = Bot::of(&playground);
    let mut ids = Vec::new();
    for number in 0..3 {
        let upload = Upload {
            user: seed::ALEX,
            channel: seed::GENERAL,
            text: "@interzone read this",
            files: vec![(format!("{number}.txt"), "12345".into())],
            ..Upload::default()
        };
        let ts = playground.upload(&upload).unwrap();
        let message = playground.thread(seed::GENERAL, &ts);
        ids.push(message[0].files[0].clone());
    }
    let info = async |id: &str| bot.bad("files.info", &[("file", id)]).await;
    assert_eq!(info(&ids[0]).await, "file_deleted");
    for id in &ids[1..] {
        bot.good("files.info", &[("file", id)]).await;
    }
    let large = Upload {
        user: seed::ALEX,
        channel: seed::GENERAL,
        text: "@interzone read this",
        files: vec![("large.txt".to_owned(), "12345678901".into())],
        ..Upload::default()
    };
    let refused = playground.upload(&large).unwrap_err().to_string();
    assert!(refused.contains("larger than all files"), "{refused}");
    bot.good("files.info", &[("file", &ids[2])]).await;
}
