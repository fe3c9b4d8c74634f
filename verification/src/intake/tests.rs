//! Tests of event classification.

use super::*;
use crate::question::SharedFile;
use serde_json::json;

const NOW: i64 = 1_700_000_000_000;

fn envelope(event: Value) -> Value {
    json!({
        "type": "event_callback", "event_id": "Ev1", "team_id": "T1", "api_app_id": "A1",
        "event_time": NOW / 1000 - 5,
        "authorizations": [{"enterprise_id": null, "team_id": "T1", "user_id": "UBOT", "is_bot": true}],
        "event": event,
    })
}

fn classify_with(event: Value, rules: &QuestionRules) -> SlackEvent {
    classify(&envelope(event), rules, Timestamp::from_millis(NOW))
}

fn classify_default(event: Value) -> SlackEvent {
    classify_with(event, &QuestionRules::default())
}

fn message(more: Value) -> Value {
    let mut event = json!({
        "type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "team": "T1",
        "ts": "1700000000.000100", "text": "hello",
    });
    let members = more.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(members);
    event
}

fn dm(more: Value) -> Value {
    let mut event = message(json!({"channel": "D1", "channel_type": "im"}));
    let members = more.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(members);
    event
}

fn question(incoming: SlackEvent) -> Question {
    match incoming {
        SlackEvent::Question(question) => *question,
        other => panic!("{other:?}"),
    }
}

#[test]
fn mention_is_a_question_in_its_own_thread() {
    let asked = question(classify_default(json!({
        "type": "app_mention", "channel": "C1", "user": "U1", "team": "T1",
        "ts": "1700000000.000100", "text": "<@UBOT> what is &lt;this&gt;?",
    })));
    assert_eq!(asked.text, "what is <this>?");
    assert_eq!(asked.conversation_kind, ConversationKind::Channel);
    assert_eq!(asked.thread, asked.ts);
    assert!(!asked.in_thread);
    assert_eq!(asked.asked_at, Timestamp::from_millis(NOW));
    assert_eq!(
        asked.id,
        Question::derive_id(&asked.team, &asked.channel, &asked.ts)
    );
    assert_eq!(asked.event_id, "Ev1");
}

#[test]
fn fault_7_mention_and_message_are_the_same_question() {
    let text = json!({"text": "<@UBOT> hello"});
    let twin = question(classify_default(message(text.clone())));
    let mut mention = message(text);
    mention["type"] = json!("app_mention");
    mention.as_object_mut().unwrap().remove("channel_type");
    assert_eq!(question(classify_default(mention)), twin);
    let named = question(classify_default(message(
        json!({"text": "<@UBOT|bot> hello"}),
    )));
    assert_eq!(named.text, "hello");
}

#[test]
fn unaddressed_message_is_a_question_in_dm_and_auto_reply() {
    assert_eq!(
        classify_default(message(json!({}))),
        SlackEvent::Ignored("not_addressed")
    );
    let few = message(json!({"channel": "G1", "channel_type": "mpim"}));
    assert_eq!(
        classify_default(few.clone()),
        SlackEvent::Ignored("not_addressed")
    );
    assert_eq!(
        question(classify_default(dm(json!({})))).conversation_kind,
        ConversationKind::Im
    );
    let rules = QuestionRules {
        auto_reply: [ChannelId::new("C1").unwrap()].into(),
        ..QuestionRules::default()
    };
    assert_eq!(
        question(classify_with(message(json!({})), &rules)).text,
        "hello"
    );
    assert_eq!(
        classify_with(few, &rules),
        SlackEvent::Ignored("not_addressed")
    );
}

#[test]
fn thread_replies_are_followed_only_if_enabled() {
    let reply = || message(json!({"thread_ts": "1600000000.000100"}));
    assert_eq!(
        classify_default(reply()),
        SlackEvent::Ignored("not_addressed")
    );
    let rules = QuestionRules {
        follow_threads: true,
        ..QuestionRules::default()
    };
    let SlackEvent::FollowUp(asked) = classify_with(reply(), &rules) else {
        panic!("it is not followed");
    };
    assert!(asked.in_thread);
    assert_eq!(asked.thread.as_str(), "1600000000.000100");
    assert_eq!(
        classify_with(message(json!({})), &rules),
        SlackEvent::Ignored("not_addressed")
    );
    let mut mention = reply();
    mention["text"] = json!("<@UBOT> and you?");
    assert_eq!(question(classify_with(mention, &rules)).text, "and you?");
}

#[test]
fn invalid_thread_timestamp_is_ignored() {
    let asked = question(classify_default(dm(json!({"thread_ts": "../1"}))));
    assert_eq!(asked.thread, asked.ts);
    let own = question(classify_default(dm(
        json!({"thread_ts": "1700000000.000100"}),
    )));
    assert!(!own.in_thread);
}

#[test]
fn fault_8_only_file_share_and_broadcast_subtypes_are_questions() {
    for subtype in ["file_share", "thread_broadcast"] {
        assert_eq!(
            question(classify_default(dm(json!({"subtype": subtype})))).text,
            "hello",
            "{subtype}"
        );
    }
    for (subtype, reason) in [
        ("message_changed", "edited"),
        ("message_deleted", "deleted"),
        ("bot_message", "bot"),
        ("channel_join", "subtype"),
        ("channel_topic", "subtype"),
        ("me_message", "subtype"),
        ("message_replied", "subtype"),
        ("assistant_app_thread", "subtype"),
        ("reminder_add", "subtype"),
        ("tombstone", "subtype"),
    ] {
        assert_eq!(
            classify_default(dm(json!({"subtype": subtype}))),
            SlackEvent::Ignored(reason),
            "{subtype}"
        );
    }
}

#[test]
fn bot_own_edited_and_hidden_messages_are_ignored() {
    for (more, reason) in [
        (json!({"bot_id": "B1"}), "bot"),
        (json!({"bot_profile": {"id": "B1"}}), "bot"),
        (json!({"user": "USLACKBOT"}), "bot"),
        (json!({"user": "UBOT"}), "own"),
        (json!({"app_id": "A1"}), "own"),
        (json!({"edited": {"user": "U1", "ts": "1.1"}}), "edited"),
        (json!({"hidden": true}), "hidden"),
    ] {
        assert_eq!(
            classify_default(dm(more.clone())),
            SlackEvent::Ignored(reason),
            "{more}"
        );
    }
    // A user may write through another app, such as a shortcut, without being a bot.
    assert_eq!(
        question(classify_default(dm(json!({"app_id": "A2"})))).text,
        "hello"
    );
    // Null counts as absent.
    assert_eq!(
        question(classify_default(dm(json!({"bot_id": null})))).text,
        "hello"
    );
    let mut without_user = dm(json!({}));
    without_user.as_object_mut().unwrap().remove("user");
    assert_eq!(
        classify_default(without_user),
        SlackEvent::Ignored("unreadable")
    );
}

#[test]
fn files_include_those_of_forwarded_messages() {
    let file = |id: &str| {
        json!({
            "id": id, "name": "a.csv", "mimetype": "text/csv", "size": 3,
            "url_private": "https://files.slack.com/p", "url_private_download": "https://files.slack.com/d",
        })
    };
    let asked = question(classify_default(dm(json!({
        "subtype": "file_share", "text": "",
        "files": [file("F1"), file("F1"), {"name": "no id"}, {"id": "bad id"}],
        "attachments": [{"is_share": true, "files": [file("F2")]}, {"text": "no files"}],
    }))));
    let ids: Vec<_> = asked.files.iter().map(|file| file.id.as_str()).collect();
    assert_eq!(ids, ["F1", "F2"]);
    assert_eq!(
        asked.files[0],
        SharedFile {
            id: crate::slack::ids::FileId::new("F1").unwrap(),
            name: "a.csv".to_owned(),
            mimetype: "text/csv".to_owned(),
            size: 3,
            url: Some("https://files.slack.com/d".to_owned()),
            check_info: false,
        }
    );
    assert_eq!(asked.text, "");
}

#[test]
fn forwarded_message_is_context_or_the_question_itself() {
    let forwarded = |text: &str| {
        json!({
            "is_share": true, "author_name": "Hana", "text": text, "fallback": "x",
            "from_url": "https://x.slack.com/archives/C9/p1700000000000100",
        })
    };
    let unfurled = json!({"title": "A page", "text": "of the web", "from_url": "https://x.test"});
    let asked = question(classify_default(dm(json!({
        "text": "sum up", "attachments": [unfurled, forwarded("up &amp; <https://x.test|down>")],
    }))));
    assert_eq!(asked.text, "sum up");
    let [only] = &asked.forwarded[..] else {
        panic!("a page is no message");
    };
    assert_eq!(only.author.as_deref(), Some("Hana"));
    assert_eq!(only.text, "up & down (https://x.test)");
    assert!(!format!("{asked:?}{only:?}").contains("down"));

    let alone = question(classify_default(dm(json!({
        "text": "", "attachments": [forwarded("what is this?"), forwarded(" ")],
    }))));
    assert_eq!(alone.text, "what is this?");
    assert!(alone.forwarded.is_empty(), "not included twice");

    let many = vec![forwarded(&"長".repeat(5_000)); 9];
    let bounded = question(classify_default(dm(
        json!({"text": "x", "attachments": many}),
    )));
    let lengths = bounded.forwarded.iter().map(|one| one.text.chars().count());
    assert_eq!(lengths.collect::<Vec<_>>(), [4_000; 3]);
}

#[test]
fn incomplete_files_need_files_info() {
    let asked = question(classify_default(dm(json!({
        "subtype": "file_share",
        "files": [
            {"id": "F1", "file_access": "check_file_info", "mode": "file_access"},
            {"id": "F2", "name": "a.txt", "mimetype": "text/plain", "size": 1, "url_private": "https://x"},
            {"id": "F3", "name": "a.txt", "size": 1, "url_private": "https://x"},
        ],
    }))));
    let asked: Vec<_> = asked.files.iter().map(|file| file.check_info).collect();
    assert_eq!(asked, [true, false, true]);
    let many: Vec<_> = (0..50).map(|n| json!({"id": format!("F{n}")})).collect();
    assert_eq!(
        question(classify_default(dm(json!({"files": many}))))
            .files
            .len(),
        20
    );
}

#[test]
fn shared_channel_question_names_askers_workspace() {
    let body = json!({
        "type": "event_callback", "event_id": "Ev1", "team_id": "T2", "api_app_id": "A1",
        "authorizations": [{"enterprise_id": "E1", "team_id": "T1", "user_id": "UBOT"}],
        "event": message(json!({"text": "<@UBOT> hi", "team": "T2", "user_team": "T3"})),
    });
    let asked = question(classify(
        &body,
        &QuestionRules::default(),
        Timestamp::from_millis(0),
    ));
    assert_eq!(asked.team.as_str(), "T1");
    assert_eq!(asked.user_team.unwrap().as_str(), "T3");
    assert_eq!(asked.enterprise.unwrap().as_str(), "E1");
}

#[test]
fn event_without_authorizations_uses_its_team() {
    let body = json!({
        "type": "event_callback", "event_id": "Ev1", "team_id": "T1",
        "event": {"type": "app_mention", "channel": "G1", "user": "U1", "ts": "1.1", "text": "<@UBOT> hi"},
    });
    let asked = question(classify(
        &body,
        &QuestionRules::default(),
        Timestamp::from_millis(0),
    ));
    assert_eq!(
        (asked.team.as_str(), asked.conversation_kind),
        ("T1", ConversationKind::Group)
    );
    assert_eq!(asked.text, "<@UBOT> hi", "the bot user is unknown");
}

#[test]
fn stop_event_names_its_thread() {
    let stop = classify_default(json!({
        "type": "agent_session_stopped", "channel": "C1", "thread_ts": "1.5", "user": "U1",
        "streaming_message_ts": [], "event_ts": "2.0",
    }));
    let SlackEvent::Stop(stop) = stop else {
        panic!("{stop:?}");
    };
    assert_eq!(stop.channel.as_str(), "C1");
    assert_eq!(stop.thread.as_str(), "1.5");
    assert_eq!(stop.question, None);
    assert_eq!(stop.user.unwrap().as_str(), "U1");
    let nowhere = json!({"type": "agent_session_stopped", "channel": "C1"});
    assert_eq!(classify_default(nowhere), SlackEvent::Ignored("unreadable"));
}

#[test]
fn revocation_and_uninstall_are_classified() {
    let uninstall = Uninstall {
        team: TeamId::new("T1").unwrap(),
        enterprise: None,
        event_id: "Ev1".to_owned(),
        happened_at: Timestamp::from_millis(NOW - 5_000),
    };
    let revoked = json!({"type": "tokens_revoked", "tokens": {"oauth": ["U1"], "bot": ["UBOT"]}});
    assert_eq!(
        classify_default(revoked),
        SlackEvent::Revoked(uninstall.clone())
    );
    for tokens in [
        json!({"oauth": ["U1"]}),
        json!({"oauth": ["U1"], "bot": []}),
    ] {
        let revoked = json!({"type": "tokens_revoked", "tokens": tokens});
        assert_eq!(
            classify_default(revoked),
            SlackEvent::Ignored("user_tokens")
        );
    }
    let gone = json!({"type": "app_uninstalled"});
    assert_eq!(classify_default(gone), SlackEvent::Uninstalled(uninstall));
}

#[test]
fn user_change_names_the_user() {
    let changed = json!({"type": "user_change", "user": {"id": "U1", "locale": "ja-JP"}});
    let (team, user) = (TeamId::new("T1").unwrap(), UserId::new("U1").unwrap());
    assert_eq!(
        classify_default(changed),
        SlackEvent::UserChanged(team, user)
    );
    let without_id = json!({"type": "user_change", "user": {}});
    assert_eq!(
        classify_default(without_id),
        SlackEvent::Ignored("unreadable")
    );
}

#[test]
fn other_events_are_ignored_with_a_reason() {
    for (event, reason) in [
        (
            json!({"type": "app_home_opened", "user": "U1", "channel": "D1"}),
            "home_opened",
        ),
        (
            json!({"type": "assistant_thread_started"}),
            "assistant_thread",
        ),
        (
            json!({"type": "assistant_thread_context_changed"}),
            "assistant_thread",
        ),
        (json!({"type": "reaction_added"}), "unknown_event"),
        (json!({}), "unknown_event"),
        (
            json!({"type": "message", "channel": "c1", "user": "U1", "ts": "1.1"}),
            "unreadable",
        ),
        (
            json!({"type": "message", "channel": "C1", "user": "U1", "ts": "now"}),
            "unreadable",
        ),
        (
            json!({"type": "message", "channel": 7, "user": "U1", "ts": "1.1"}),
            "unreadable",
        ),
    ] {
        assert_eq!(
            classify_default(event.clone()),
            SlackEvent::Ignored(reason),
            "{event}"
        );
    }
}

#[test]
fn invalid_bodies_are_ignored_or_answered() {
    let at = Timestamp::from_millis(0);
    let read = |body: &str| parse(body.as_bytes(), &QuestionRules::default(), at);
    assert_eq!(
        read(r#"{"type":"url_verification","challenge":"c","token":"t"}"#),
        SlackEvent::Challenge("c".to_owned())
    );
    assert_eq!(
        read(r#"{"type":"app_rate_limited","minute_rate_limited":1,"team_id":"T1"}"#),
        SlackEvent::RateLimited
    );
    assert_eq!(
        read(r#"{"type":"view_submission"}"#),
        SlackEvent::Ignored("unknown_type")
    );
    for unreadable in [
        "",
        "payload=1",
        r#"{"type":"url_verification"}"#,
        r#"{"type":"event_callback"}"#,
        r#"{"type":"event_callback","event_id":"Ev1","team_id":"T1"}"#,
        r#"{"type":"event_callback","event_id":"Ev1","team_id":"t1","event":{"type":"message"}}"#,
        r#"{"type":"event_callback","event_id":"../1","team_id":"T1","event":{"type":"message"}}"#,
        r#"{"type":"event_callback","team_id":"T1","event":{"type":"message"}}"#,
    ] {
        assert_eq!(
            read(unreadable),
            SlackEvent::Ignored("unreadable"),
            "{unreadable}"
        );
    }
}
