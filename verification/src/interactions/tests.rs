//! What people press, and what it means.

use super::*;
use serde_json::json;

const QUESTION: &str = "6f1e2d3c-0000-8000-8000-000000000001";

fn payload(action: Value) -> Value {
    json!({
        "type": "block_actions", "team": {"id": "T1", "domain": "x"}, "user": {"id": "U1"},
        "channel": {"id": "C1"}, "api_app_id": "A1", "trigger_id": "1.2.3",
        "container": {"type": "message", "message_ts": "2.5", "channel_id": "C1", "thread_ts": "1.5"},
        "actions": [action],
    })
}

fn at() -> Timestamp {
    Timestamp::from_millis(7)
}

#[test]
fn a_stop_names_its_question_and_its_thread() {
    let action = json!({"action_id": STOP_ACTION, "value": QUESTION, "action_ts": "3.5"});
    let body = format!(
        "payload={}",
        url::form_urlencoded::byte_serialize(payload(action).to_string().as_bytes())
            .collect::<String>()
    );
    let Pressed::Stop(stop) = read(body.as_bytes(), at()) else {
        panic!("it is no stop");
    };
    assert_eq!(stop.question.as_deref(), Some(QUESTION));
    assert_eq!((stop.thread.as_str(), stop.channel.as_str()), ("1.5", "C1"));
    assert_eq!(stop.user.unwrap().as_str(), "U1");
    assert!(stop.in_thread);
    assert_eq!(stop.enterprise, None);
}

#[test]
fn only_an_offer_that_one_person_sees_can_be_taken_back() {
    let action = json!({"action_id": STOP_ACTION, "value": QUESTION, "action_ts": "3.5"});
    let url = "https://hooks.slack.com/actions/T1/1/x";
    let mut pressed = payload(action);
    pressed["response_url"] = json!(url);
    pressed["enterprise"] = json!({"id": "E1"});
    let stop = |pressed: &Value| match classify(pressed, at()) {
        Pressed::Stop(stop) => stop,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        stop(&pressed).offer,
        None,
        "that would take the answer away"
    );
    pressed["container"] = json!({
        "type": "message", "message_ts": "2.5", "channel_id": "C1", "is_ephemeral": true,
    });
    let read = stop(&pressed);
    assert_eq!(read.offer, Some(ResponseUrl::new(url)));
    assert!(!read.in_thread);
    assert_eq!(read.enterprise.as_ref().unwrap().as_str(), "E1");
    assert!(!format!("{read:?}").contains("hooks"), "{read:?}");
    pressed["response_url"] = json!(format!("https://hooks.slack.com/{}", "x".repeat(3_000)));
    assert_eq!(stop(&pressed).offer, None);
}

#[test]
fn a_thumb_names_its_question_and_its_message() {
    for (good, word) in [(true, "good"), (false, "bad")] {
        let value = format!("{word}/{QUESTION}");
        let action = json!({
            "type": "feedback_buttons", "action_id": FEEDBACK_ACTION, "value": value, "action_ts": "3.5",
        });
        let Pressed::Feedback { given, pressed } = classify(&payload(action), at()) else {
            panic!("it is no thumb");
        };
        assert_eq!(given.good, good);
        assert_eq!(given.question, QUESTION);
        assert_eq!(given.message.as_str(), "2.5");
        assert_eq!(given.at, Timestamp::from_millis(3_500));
        assert_eq!(pressed.as_str(), "3.5");
    }
}

#[test]
fn nobody_presses_in_the_future() {
    let now = Timestamp::from_millis(1_000_500);
    let given_at = |action_ts: &str| {
        let value = format!("good/{QUESTION}");
        let action = json!({"action_id": FEEDBACK_ACTION, "value": value, "action_ts": action_ts});
        match classify(&payload(action), now) {
            Pressed::Feedback { given, .. } => given.at,
            other => panic!("{other:?}"),
        }
    };
    // Slack may tell of it late, and its clock may be a little ahead of ours.
    for (told, at) in [("900.5", 900_500), ("1060.5", 1_060_500)] {
        assert_eq!(given_at(told), Timestamp::from_millis(at), "{told}");
    }
    for told in ["1061.5", "9999999999.5", "9999999999999999.5"] {
        assert_eq!(given_at(told), now, "{told}");
    }
}

#[test]
fn anything_else_is_ignored() {
    let read_action = |action| classify(&payload(action), at());
    assert_eq!(
        read_action(json!({"action_id": "other", "value": "x"})),
        Pressed::Ignored("unknown_action")
    );
    for bad in [
        json!({"action_id": STOP_ACTION, "action_ts": "3.5"}),
        json!({"action_id": STOP_ACTION, "value": "../x", "action_ts": "3.5"}),
        json!({"action_id": STOP_ACTION, "value": QUESTION, "action_ts": "now"}),
        json!({"action_id": FEEDBACK_ACTION, "value": QUESTION, "action_ts": "3.5"}),
        json!({"action_id": FEEDBACK_ACTION, "value": format!("ok/{QUESTION}"), "action_ts": "3.5"}),
    ] {
        assert_eq!(
            read_action(bad.clone()),
            Pressed::Ignored("unreadable"),
            "{bad}"
        );
    }
    assert_eq!(
        classify(&json!({"type": "view_submission"}), at()),
        Pressed::Ignored("unknown_type")
    );
    for body in ["", "payload=", "payload=%7B", "other=1"] {
        assert_eq!(read(body.as_bytes(), at()), Pressed::Ignored("unreadable"));
    }
}
