//! Tests of interaction parsing.

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

fn now() -> Timestamp {
    Timestamp::from_millis(7)
}

#[test]
fn stop_names_question_and_thread() {
    let action = json!({"action_id": STOP_ACTION, "value": QUESTION, "action_ts": "3.5"});
    let body = format!(
        "payload={}",
        url::form_urlencoded::byte_serialize(payload(action).to_string().as_bytes())
            .collect::<String>()
    );
    let Interaction::Stop(stop) = parse(body.as_bytes(), now()) else {
        panic!("not a stop");
    };
    assert_eq!(stop.question.as_deref(), Some(QUESTION));
    assert_eq!((stop.thread.as_str(), stop.channel.as_str()), ("1.5", "C1"));
    assert_eq!(stop.user.unwrap().as_str(), "U1");
    assert!(stop.in_thread);
    assert_eq!(stop.enterprise, None);
}

#[test]
fn only_ephemeral_stop_button_can_be_deleted() {
    let action = json!({"action_id": STOP_ACTION, "value": QUESTION, "action_ts": "3.5"});
    let url = "https://hooks.slack.com/actions/T1/1/x";
    let mut payload_json = payload(action);
    payload_json["response_url"] = json!(url);
    payload_json["enterprise"] = json!({"id": "E1"});
    let stop = |pressed: &Value| match classify(pressed, now()) {
        Interaction::Stop(stop) => stop,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        stop(&payload_json).button_url,
        None,
        "that would delete the answer"
    );
    payload_json["container"] = json!({
        "type": "message", "message_ts": "2.5", "channel_id": "C1", "is_ephemeral": true,
    });
    let stop_request = stop(&payload_json);
    assert_eq!(stop_request.button_url, Some(ResponseUrl::new(url)));
    assert!(!stop_request.in_thread);
    assert_eq!(stop_request.enterprise.as_ref().unwrap().as_str(), "E1");
    assert!(
        !format!("{stop_request:?}").contains("hooks"),
        "{stop_request:?}"
    );
    payload_json["response_url"] = json!(format!("https://hooks.slack.com/{}", "x".repeat(3_000)));
    assert_eq!(stop(&payload_json).button_url, None);
}

#[test]
fn feedback_names_question_and_message() {
    for (good, verdict) in [(true, "good"), (false, "bad")] {
        let value = format!("{verdict}/{QUESTION}");
        let action = json!({
            "type": "feedback_buttons", "action_id": FEEDBACK_ACTION, "value": value, "action_ts": "3.5",
        });
        let Interaction::Feedback {
            feedback: given,
            pressed_at: pressed,
        } = classify(&payload(action), now())
        else {
            panic!("not a feedback");
        };
        assert_eq!(given.good, good);
        assert_eq!(given.question, QUESTION);
        assert_eq!(given.message.as_str(), "2.5");
        assert_eq!(given.at, Timestamp::from_millis(3_500));
        assert_eq!(pressed.as_str(), "3.5");
    }
}

#[test]
fn press_time_in_the_future_is_replaced_by_now() {
    let now = Timestamp::from_millis(1_000_500);
    let given_at = |action_ts: &str| {
        let value = format!("good/{QUESTION}");
        let action = json!({"action_id": FEEDBACK_ACTION, "value": value, "action_ts": action_ts});
        match classify(&payload(action), now) {
            Interaction::Feedback {
                feedback: given, ..
            } => given.at,
            other => panic!("{other:?}"),
        }
    };
    // Slack may report it late, and its clock may be a little ahead.
    for (action_ts, at) in [("900.5", 900_500), ("1060.5", 1_060_500)] {
        assert_eq!(
            given_at(action_ts),
            Timestamp::from_millis(at),
            "{action_ts}"
        );
    }
    for action_ts in ["1061.5", "9999999999.5", "9999999999999999.5"] {
        assert_eq!(given_at(action_ts), now, "{action_ts}");
    }
}

#[test]
fn unknown_interactions_are_ignored() {
    let read_action = |action| classify(&payload(action), now());
    assert_eq!(
        read_action(json!({"action_id": "other", "value": "x"})),
        Interaction::Ignored("unknown_action")
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
            Interaction::Ignored("unreadable"),
            "{bad}"
        );
    }
    assert_eq!(
        classify(&json!({"type": "view_submission"}), now()),
        Interaction::Ignored("unknown_type")
    );
    for body in ["", "payload=", "payload=%7B", "other=1"] {
        assert_eq!(
            parse(body.as_bytes(), now()),
            Interaction::Ignored("unreadable")
        );
    }
}
