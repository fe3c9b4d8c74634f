//! Slack's Web API: results and error codes.

use crate::support::{TestBot, client};
use interzone_playground::{Playground, PlaygroundOptions, seed};
use serde_json::{Value, json};

async fn start() -> (Playground, TestBot) {
    let playground = Playground::start(PlaygroundOptions::default()).await;
    let playground = playground.unwrap();
    let bot = TestBot::new(&playground);
    (playground, bot)
}

#[tokio::test]
async fn calls_need_a_token_with_the_scope() {
    let (playground, mut bot) = start().await;
    let who = bot.call_ok("auth.test", &[]).await;
    assert_eq!(
        (&who["team_id"], &who["user_id"], &who["bot_id"]),
        (
            &json!(seed::TEAM),
            &json!(seed::BOT_USER),
            &json!(seed::BOT)
        )
    );
    bot.token = "xoxb-wrong".to_owned();
    assert_eq!(bot.call_err("auth.test", &[]).await, "invalid_auth");
    let none = client().post(format!("{}auth.test", bot.api)).send().await;
    let none: Value = serde_json::from_str(&none.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(none, json!({"ok": false, "error": "not_authed"}));
    bot.token = "xapp-playground-app".to_owned();
    assert_eq!(
        bot.call_err("auth.test", &[]).await,
        "not_allowed_token_type"
    );
    bot.token = "xoxb-playground-bot".to_owned();
    assert_eq!(
        bot.call_err("apps.connections.open", &[]).await,
        "not_allowed_token_type"
    );
    assert_eq!(bot.call_err("chat.shout", &[]).await, "unknown_method");

    playground.set_scopes(&["im:read"]);
    let info = bot
        .call("conversations.info", &[("channel", seed::GENERAL)])
        .await;
    assert_eq!(info["error"], "missing_scope");
    assert_eq!(info["needed"], "channels:read");
    assert_eq!(info["provided"], "im:read");
    bot.call_ok("conversations.info", &[("channel", seed::DM_HANA)])
        .await;
    bot.call_ok("auth.revoke", &[]).await;
    assert_eq!(bot.call_err("auth.test", &[]).await, "token_revoked");
}

#[tokio::test]
async fn users_and_channels_have_slacks_format() {
    let (_playground, bot) = start().await;
    let hana = [("user", seed::HANA), ("include_locale", "true")];
    assert_eq!(
        bot.call_ok("users.info", &hana).await["user"]["locale"],
        "ja-JP"
    );
    let plain = bot.call_ok("users.info", &hana[..1]).await;
    assert!(plain["user"].get("locale").is_none());
    let gone = bot.call_ok("users.info", &[("user", seed::GONE)]).await;
    assert_eq!(gone["user"]["deleted"], true);
    assert_eq!(
        bot.call_err("users.info", &[("user", "U0UNKNOWN")]).await,
        "user_not_found"
    );
    bot.call_ok("team.info", &[]).await;
    assert_eq!(
        bot.call_err("team.info", &[("team", "T0OTHER")]).await,
        "team_not_found"
    );

    // Pages until the cursor is empty.
    let mut channels = Vec::new();
    let mut cursor = String::new();
    loop {
        let args = [("limit", "2"), ("cursor", cursor.as_str())];
        let page = bot.call_ok("users.list", &args).await;
        for user in page["members"].as_array().unwrap() {
            channels.push(user["id"].as_str().unwrap().to_owned());
        }
        cursor = page["response_metadata"]["next_cursor"]
            .as_str()
            .unwrap()
            .to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(channels.len(), 5);
    let types = [("types", "public_channel,private_channel,im")];
    let list = bot.call_ok("conversations.list", &types).await;
    let ids: Vec<&str> = list["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|channel| channel["id"].as_str().unwrap())
        .collect();
    assert!(ids.contains(&seed::PLANS) && !ids.contains(&seed::SECRET));
    for (channel, word) in [
        (seed::SECRET, "channel_not_found"),
        ("C0NOWHERE", "channel_not_found"),
    ] {
        assert_eq!(
            bot.call_err("conversations.info", &[("channel", channel)])
                .await,
            word
        );
    }
    let members = bot
        .call_ok("conversations.members", &[("channel", seed::PLANS)])
        .await;
    assert_eq!(members["members"].as_array().unwrap().len(), 3);
    let dm = bot
        .call_ok("conversations.open", &[("users", seed::ALEX)])
        .await;
    assert_eq!(dm["channel"]["id"], seed::DM_ALEX);
    // Read methods ignore JSON, so its arguments are missing.
    let json_call = client()
        .post(format!("{}users.info", bot.api))
        .bearer_auth(&bot.token)
        .header("content-type", "application/json")
        .body(json!({"user": seed::HANA}).to_string());
    let answer = json_call.send().await.unwrap().text().await.unwrap();
    assert!(answer.contains("user_not_found"), "{answer}");
}

#[tokio::test]
async fn messages_are_validated_like_in_slack() {
    let (playground, bot) = start().await;
    let post = "chat.postMessage";
    let long = "x".repeat(12_001);
    let to = ("channel", seed::GENERAL);
    let many = json!(vec![json!({"type": "divider"}); 51]).to_string();
    let section =
        json!([{"type": "section", "text": {"type": "mrkdwn", "text": "x".repeat(3001)}}]);
    let section = section.to_string();
    let markdown = json!([{"type": "markdown", "text": long}]).to_string();
    let sections = json!({"type": "section", "text": {"type": "mrkdwn", "text": "x".repeat(2900)}});
    let sections = json!(vec![sections; 5]).to_string();
    let half = json!([{"type": "context_actions", "elements": [{"type": "feedback_buttons",
        "positive_button": {"text": {"type": "plain_text", "text": "+"}, "value": "1"}}]}]);
    let half = half.to_string();
    for (args, word) in [
        (vec![to], "no_text"),
        (
            vec![to, ("markdown_text", "a"), ("text", "b")],
            "markdown_text_conflict",
        ),
        (vec![to, ("markdown_text", &long)], "msg_too_long"),
        (vec![to, ("blocks", &many)], "invalid_blocks"),
        (vec![to, ("blocks", &section)], "invalid_blocks"),
        (vec![to, ("blocks", &markdown)], "msg_too_long"),
        (vec![to, ("blocks", &sections)], "msg_blocks_too_long"),
        (vec![to, ("blocks", &half)], "invalid_blocks"),
        (
            vec![to, ("blocks", "[{\"type\":\"spell\"}]")],
            "invalid_blocks",
        ),
        (vec![to, ("blocks", "{}")], "invalid_blocks_format"),
        (vec![to, ("blocks", "not json")], "invalid_blocks_format"),
        (
            vec![to, ("text", "a"), ("metadata", "{\"event_type\":\"x\"}")],
            "invalid_metadata_format",
        ),
        (
            vec![to, ("text", "a"), ("thread_ts", "1.000001")],
            "thread_not_found",
        ),
        (vec![("text", "a")], "invalid_arguments"),
        (
            vec![("channel", seed::LOBBY), ("text", "a")],
            "not_in_channel",
        ),
        (
            vec![("channel", seed::SECRET), ("text", "a")],
            "channel_not_found",
        ),
        (vec![("channel", seed::ATTIC), ("text", "a")], "is_archived"),
    ] {
        assert_eq!(bot.call_err(post, &args).await, word, "{args:?}");
    }
    assert_eq!(playground.inspect(|w| w.messages(seed::GENERAL).count()), 0);
    let dm = bot
        .call_ok(post, &[("channel", seed::HANA), ("text", "a")])
        .await;
    assert_eq!(dm["channel"], seed::DM_HANA, "a user id selects the DM");
    let cut = "y".repeat(40_001);
    let cut = bot.call_ok(post, &[to, ("text", &cut)]).await;
    assert_eq!(cut["message"]["text"].as_str().unwrap().len(), 40_000);
    assert_eq!(cut["warning"], "message_truncated");
    let token = playground.inspect(|w| format!("{:?}", w.calls().collect::<Vec<_>>()));
    assert!(!token.contains("xoxb-"), "no token is in the log");
}

#[tokio::test]
async fn threads_are_paged_oldest_first_with_optional_metadata() {
    let (playground, bot) = start().await;
    let root = playground
        .post(seed::ALEX, seed::GENERAL, "@interzone hi")
        .unwrap();
    let metadata = json!({"event_type": "k", "event_payload": {"key": "1"}}).to_string();
    for text in ["one", "two", "three"] {
        let args = [
            ("channel", seed::GENERAL),
            ("thread_ts", &root),
            ("text", text),
            ("metadata", &metadata),
        ];
        bot.call_ok("chat.postMessage", &args).await;
    }
    let mut texts = Vec::new();
    let mut cursor = String::new();
    loop {
        let args = [
            ("channel", seed::GENERAL),
            ("ts", &root),
            ("limit", "3"),
            ("cursor", &cursor),
        ];
        let page = bot.call_ok("conversations.replies", &args).await;
        for message in page["messages"].as_array().unwrap() {
            texts.push(message["text"].as_str().unwrap().to_owned());
            assert!(message.get("metadata").is_none());
            assert_eq!(message["thread_ts"], root.as_str());
        }
        let next = &page["response_metadata"]["next_cursor"];
        assert_eq!(page["has_more"], next != "");
        cursor = next.as_str().unwrap().to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(texts, ["<@U0INTERZONE> hi", "one", "two", "three"]);
    let args = [
        ("channel", seed::GENERAL),
        ("ts", &root),
        ("include_all_metadata", "true"),
    ];
    let all = bot.call_ok("conversations.replies", &args).await;
    assert_eq!(all["messages"][3]["metadata"]["event_payload"]["key"], "1");
    assert_eq!(all["messages"][0]["reply_count"], 3);
    let reply = all["messages"][1]["ts"].as_str().unwrap();
    let under = [
        ("channel", seed::GENERAL),
        ("thread_ts", reply),
        ("text", "x"),
    ];
    assert_eq!(
        bot.call_err("chat.postMessage", &under).await,
        "cannot_reply_to_message"
    );
    let history = bot
        .call_ok("conversations.history", &[("channel", seed::GENERAL)])
        .await;
    assert_eq!(history["messages"].as_array().unwrap().len(), 1);
    for (channel, word) in [
        (seed::LOBBY, "not_in_channel"),
        (seed::SECRET, "channel_not_found"),
    ] {
        let args = [("channel", channel), ("ts", &root)];
        assert_eq!(bot.call_err("conversations.replies", &args).await, word);
    }
}

#[tokio::test]
async fn bot_can_change_only_its_own_messages() {
    let (playground, bot) = start().await;
    let theirs = playground.post(seed::ALEX, seed::GENERAL, "hello").unwrap();
    let at = |ts| [("channel", seed::GENERAL), ("ts", ts), ("text", "new")];
    assert_eq!(
        bot.call_err("chat.update", &at(&theirs)).await,
        "cant_update_message"
    );
    assert_eq!(
        bot.call_err("chat.delete", &at(&theirs)[..2]).await,
        "cant_delete_message"
    );
    assert_eq!(
        bot.call_err("chat.update", &at("1.000001")).await,
        "message_not_found"
    );
    let own = bot
        .call_ok("chat.postMessage", &[at("")[0], ("text", "old")])
        .await;
    let own = own["ts"].as_str().unwrap();
    bot.call_ok("chat.update", &at(own)).await;
    assert_eq!(
        playground.inspect(|w| w.message(seed::GENERAL, own).unwrap().text.clone()),
        "new"
    );
    bot.call_ok("chat.delete", &at(own)[..2]).await;
    assert!(playground.inspect(|w| w.message(seed::GENERAL, own).is_none()));

    let eyes = [
        ("channel", seed::GENERAL),
        ("timestamp", &theirs),
        ("name", "eyes"),
    ];
    bot.call_ok("reactions.add", &eyes).await;
    assert_eq!(
        bot.call_err("reactions.add", &eyes).await,
        "already_reacted"
    );
    let get = bot.call_ok("reactions.get", &eyes[..2]).await;
    assert_eq!(get["message"]["reactions"][0]["name"], "eyes");
    bot.call_ok("reactions.remove", &eyes).await;
    assert_eq!(bot.call_err("reactions.remove", &eyes).await, "no_reaction");
    let colons = [eyes[0], eyes[1], ("name", ":eyes:")];
    assert_eq!(bot.call_err("reactions.add", &colons).await, "invalid_name");
}

#[tokio::test]
async fn ephemeral_is_for_one_user_and_reply_clears_status() {
    let (playground, bot) = start().await;
    let root = playground
        .post(seed::HANA, seed::PLANS, "@interzone")
        .unwrap();
    let whisper = [
        ("channel", seed::PLANS),
        ("user", seed::HANA),
        ("text", "only you"),
        ("thread_ts", &root),
    ];
    bot.call_ok("chat.postEphemeral", &whisper).await;
    let stranger = [whisper[0], ("user", seed::MALLORY), whisper[2]];
    assert_eq!(
        bot.call_err("chat.postEphemeral", &stranger).await,
        "user_not_in_channel"
    );
    assert_eq!(
        playground.inspect(|w| w.ephemerals().next().unwrap().visible_to.clone()),
        Some(seed::HANA.to_owned())
    );
    assert_eq!(playground.thread(seed::PLANS, &root).len(), 1);

    let status = [
        ("channel_id", seed::PLANS),
        ("thread_ts", &root),
        ("status", "is thinking…"),
    ];
    bot.call_ok("assistant.threads.setStatus", &status).await;
    let status = || playground.inspect(|w| w.status(seed::PLANS, &root).map(str::to_owned));
    assert_eq!(status().as_deref(), Some("is thinking…"));
    let reply = [whisper[0], whisper[2], whisper[3]];
    bot.call_ok("chat.postMessage", &reply).await;
    assert_eq!(status(), None);
}
