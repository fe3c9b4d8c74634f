//! Every kind of event, and what it means to us.

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

fn read_with(event: Value, rules: &Rules) -> Incoming {
    classify(&envelope(event), rules, Timestamp::from_millis(NOW))
}

fn read(event: Value) -> Incoming {
    read_with(event, &Rules::default())
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

fn question(incoming: Incoming) -> Question {
    match incoming {
        Incoming::Question(question) => *question,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mention_is_a_question_in_the_thread_that_it_begins() {
    let asked = question(read(json!({
        "type": "app_mention", "channel": "C1", "user": "U1", "team": "T1",
        "ts": "1700000000.000100", "text": "<@UBOT> what is &lt;this&gt;?",
    })));
    assert_eq!(asked.text, "what is <this>?");
    assert_eq!(asked.place, PlaceKind::Channel);
    assert_eq!(asked.thread, asked.ts);
    assert!(!asked.in_thread);
    assert_eq!(asked.asked_at, Timestamp::from_millis(NOW));
    assert_eq!(
        asked.id,
        Question::id_of(&asked.team, &asked.channel, &asked.ts)
    );
    assert_eq!(asked.event_id, "Ev1");
}

#[test]
fn fault_7_a_mention_and_its_twin_are_the_same_question() {
    let text = json!({"text": "<@UBOT> hello"});
    let twin = question(read(message(text.clone())));
    let mut mention = message(text);
    mention["type"] = json!("app_mention");
    mention.as_object_mut().unwrap().remove("channel_type");
    assert_eq!(question(read(mention)), twin);
    let named = question(read(message(json!({"text": "<@UBOT|bot> hello"}))));
    assert_eq!(named.text, "hello");
}

#[test]
fn a_message_to_nobody_is_a_question_in_a_dm_and_where_everything_is() {
    assert_eq!(read(message(json!({}))), Incoming::Ignored("not_addressed"));
    let few = message(json!({"channel": "G1", "channel_type": "mpim"}));
    assert_eq!(read(few.clone()), Incoming::Ignored("not_addressed"));
    assert_eq!(question(read(dm(json!({})))).place, PlaceKind::Im);
    let rules = Rules {
        auto_reply: [ChannelId::new("C1").unwrap()].into(),
        ..Rules::default()
    };
    assert_eq!(
        question(read_with(message(json!({})), &rules)).text,
        "hello"
    );
    assert_eq!(read_with(few, &rules), Incoming::Ignored("not_addressed"));
}

#[test]
fn replies_in_a_thread_are_followed_only_if_we_are_told_to() {
    let reply = || message(json!({"thread_ts": "1600000000.000100"}));
    assert_eq!(read(reply()), Incoming::Ignored("not_addressed"));
    let rules = Rules {
        follow_threads: true,
        ..Rules::default()
    };
    let Incoming::Followed(asked) = read_with(reply(), &rules) else {
        panic!("it is not followed");
    };
    assert!(asked.in_thread);
    assert_eq!(asked.thread.as_str(), "1600000000.000100");
    assert_eq!(
        read_with(message(json!({})), &rules),
        Incoming::Ignored("not_addressed")
    );
    let mut mention = reply();
    mention["text"] = json!("<@UBOT> and you?");
    assert_eq!(question(read_with(mention, &rules)).text, "and you?");
}

#[test]
fn a_thread_that_cannot_be_read_is_not_answered_in() {
    let asked = question(read(dm(json!({"thread_ts": "../1"}))));
    assert_eq!(asked.thread, asked.ts);
    let own = question(read(dm(json!({"thread_ts": "1700000000.000100"}))));
    assert!(!own.in_thread);
}

#[test]
fn fault_8_shared_files_and_broadcasts_are_questions_and_other_subtypes_are_not() {
    for subtype in ["file_share", "thread_broadcast"] {
        assert_eq!(
            question(read(dm(json!({"subtype": subtype})))).text,
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
            read(dm(json!({"subtype": subtype}))),
            Incoming::Ignored(reason),
            "{subtype}"
        );
    }
}

#[test]
fn bots_our_own_posts_edits_and_hidden_messages_are_ignored() {
    for (more, reason) in [
        (json!({"bot_id": "B1"}), "bot"),
        (json!({"bot_profile": {"id": "B1"}}), "bot"),
        (json!({"user": "USLACKBOT"}), "bot"),
        (json!({"user": "UBOT"}), "own"),
        (json!({"app_id": "A1"}), "own"),
        (json!({"edited": {"user": "U1", "ts": "1.1"}}), "edited"),
        (json!({"hidden": true}), "hidden"),
    ] {
        assert_eq!(read(dm(more.clone())), Incoming::Ignored(reason), "{more}");
    }
    // A person writes by another app, such as a shortcut, without being a bot.
    assert_eq!(question(read(dm(json!({"app_id": "A2"})))).text, "hello");
    // Nothing is what a null says.
    assert_eq!(question(read(dm(json!({"bot_id": null})))).text, "hello");
    let mut nobody = dm(json!({}));
    nobody.as_object_mut().unwrap().remove("user");
    assert_eq!(read(nobody), Incoming::Ignored("unreadable"));
}

#[test]
fn files_come_from_the_message_and_from_what_is_forwarded_in_it() {
    let file = |id: &str| {
        json!({
            "id": id, "name": "a.csv", "mimetype": "text/csv", "size": 3,
            "url_private": "https://files.slack.com/p", "url_private_download": "https://files.slack.com/d",
        })
    };
    let asked = question(read(dm(json!({
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
fn what_is_forwarded_goes_along_or_is_the_question_itself() {
    let forwarded = |text: &str| {
        json!({
            "is_share": true, "author_name": "Hana", "text": text, "fallback": "x",
            "from_url": "https://x.slack.com/archives/C9/p1700000000000100",
        })
    };
    let unfurled = json!({"title": "A page", "text": "of the web", "from_url": "https://x.test"});
    let asked = question(read(dm(json!({
        "text": "sum up", "attachments": [unfurled, forwarded("up &amp; <https://x.test|down>")],
    }))));
    assert_eq!(asked.text, "sum up");
    let [only] = &asked.forwarded[..] else {
        panic!("a page is no message");
    };
    assert_eq!(only.author.as_deref(), Some("Hana"));
    assert_eq!(only.text, "up & down (https://x.test)");
    assert!(!format!("{asked:?}{only:?}").contains("down"));

    let alone = question(read(dm(json!({
        "text": "", "attachments": [forwarded("what is this?"), forwarded(" ")],
    }))));
    assert_eq!(alone.text, "what is this?");
    assert!(alone.forwarded.is_empty(), "nothing goes along twice");

    let many = vec![forwarded(&"長".repeat(5_000)); 9];
    let bounded = question(read(dm(json!({"text": "x", "attachments": many}))));
    let lengths = bounded.forwarded.iter().map(|one| one.text.chars().count());
    assert_eq!(lengths.collect::<Vec<_>>(), [4_000; 3]);
}

#[test]
fn a_file_of_another_company_is_a_stub_that_has_to_be_asked_for() {
    let asked = question(read(dm(json!({
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
    assert_eq!(question(read(dm(json!({"files": many})))).files.len(), 20);
}

#[test]
fn in_a_shared_channel_the_askers_workspace_is_another() {
    let body = json!({
        "type": "event_callback", "event_id": "Ev1", "team_id": "T2", "api_app_id": "A1",
        "authorizations": [{"enterprise_id": "E1", "team_id": "T1", "user_id": "UBOT"}],
        "event": message(json!({"text": "<@UBOT> hi", "team": "T2", "user_team": "T3"})),
    });
    let asked = question(classify(
        &body,
        &Rules::default(),
        Timestamp::from_millis(0),
    ));
    assert_eq!(asked.team.as_str(), "T1");
    assert_eq!(asked.user_team.unwrap().as_str(), "T3");
    assert_eq!(asked.enterprise.unwrap().as_str(), "E1");
}

#[test]
fn an_event_without_authorizations_counts_by_its_workspace() {
    let body = json!({
        "type": "event_callback", "event_id": "Ev1", "team_id": "T1",
        "event": {"type": "app_mention", "channel": "G1", "user": "U1", "ts": "1.1", "text": "<@UBOT> hi"},
    });
    let asked = question(classify(
        &body,
        &Rules::default(),
        Timestamp::from_millis(0),
    ));
    assert_eq!((asked.team.as_str(), asked.place), ("T1", PlaceKind::Group));
    assert_eq!(asked.text, "<@UBOT> hi", "nobody said who we are");
}

#[test]
fn a_stop_names_its_thread() {
    let stop = read(json!({
        "type": "agent_session_stopped", "channel": "C1", "thread_ts": "1.5", "user": "U1",
        "streaming_message_ts": [], "event_ts": "2.0",
    }));
    let Incoming::Stop(stop) = stop else {
        panic!("{stop:?}");
    };
    assert_eq!(stop.channel.as_str(), "C1");
    assert_eq!(stop.thread.as_str(), "1.5");
    assert_eq!(stop.question, None);
    assert_eq!(stop.user.unwrap().as_str(), "U1");
    let nowhere = json!({"type": "agent_session_stopped", "channel": "C1"});
    assert_eq!(read(nowhere), Incoming::Ignored("unreadable"));
}

#[test]
fn what_is_said_about_the_installation() {
    let left = Left {
        team: TeamId::new("T1").unwrap(),
        enterprise: None,
        event_id: "Ev1".to_owned(),
        said: Timestamp::from_millis(NOW - 5_000),
    };
    let revoked = json!({"type": "tokens_revoked", "tokens": {"oauth": ["U1"], "bot": ["UBOT"]}});
    assert_eq!(read(revoked), Incoming::Revoked(left.clone()));
    for tokens in [
        json!({"oauth": ["U1"]}),
        json!({"oauth": ["U1"], "bot": []}),
    ] {
        let revoked = json!({"type": "tokens_revoked", "tokens": tokens});
        assert_eq!(read(revoked), Incoming::Ignored("user_tokens"));
    }
    let gone = json!({"type": "app_uninstalled"});
    assert_eq!(read(gone), Incoming::Uninstalled(left));
}

#[test]
fn somebody_who_changed_is_named() {
    let changed = json!({"type": "user_change", "user": {"id": "U1", "locale": "ja-JP"}});
    let (team, user) = (TeamId::new("T1").unwrap(), UserId::new("U1").unwrap());
    assert_eq!(read(changed), Incoming::UserChanged(team, user));
    let nobody = json!({"type": "user_change", "user": {}});
    assert_eq!(read(nobody), Incoming::Ignored("unreadable"));
}

#[test]
fn what_we_have_no_use_for_is_ignored_and_named() {
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
        assert_eq!(read(event.clone()), Incoming::Ignored(reason), "{event}");
    }
}

#[test]
fn what_is_no_event_at_all() {
    let at = Timestamp::from_millis(0);
    let read = |body: &str| super::read(body.as_bytes(), &Rules::default(), at);
    assert_eq!(
        read(r#"{"type":"url_verification","challenge":"c","token":"t"}"#),
        Incoming::Challenge("c".to_owned())
    );
    assert_eq!(
        read(r#"{"type":"app_rate_limited","minute_rate_limited":1,"team_id":"T1"}"#),
        Incoming::RateLimited
    );
    assert_eq!(
        read(r#"{"type":"view_submission"}"#),
        Incoming::Ignored("unknown_type")
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
            Incoming::Ignored("unreadable"),
            "{unreadable}"
        );
    }
}
