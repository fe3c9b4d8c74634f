//! The dialects: which methods are whose, and how strict each is about its envelope.
//!
//! Method names never collide, so one endpoint speaks all dialects and finds out by the name.
//! What the methods mean is not known here.

use interzone_jsonrpc::{
    Batches, ExtraMembers, MissingErrorId, MissingId, NullId, ParamsShape, Policy, ReservedNames,
    Responses, Rulebook,
};

/// A family of methods on the one envelope.
///
/// ```
/// use interzone_protocol::Dialect;
///
/// assert_eq!(Dialect::of_method("execute_task"), Some(Dialect::Zone));
/// assert_eq!(Dialect::of_method("tasks.create"), Some(Dialect::Acp));
/// assert_eq!(Dialect::of_method("cauce.hello"), Some(Dialect::Cauce));
/// assert_eq!(Dialect::of_method("message/send"), Some(Dialect::A2a));
/// assert_eq!(Dialect::of_method("no.such"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Between the zones: `execute_task` and what belongs to it.
    Zone,
    /// ACP: `tasks.*`, `task.*` and `stream.*`, and our own `interzone.*` beside them.
    Acp,
    /// Cauce: `cauce.*`.
    Cauce,
    /// A2A: the slashed names of 0.3 and the capitalised ones of 1.0.
    A2a,
}

impl Dialect {
    /// The dialect that a method belongs to, by the family of its name. That the family is known
    /// does not mean that the method is.
    pub fn of_method(method: &str) -> Option<Self> {
        if crate::zone::Method::from_name(method).is_some() {
            Some(Self::Zone)
        } else if method.starts_with("cauce.") {
            Some(Self::Cauce)
        } else if ["tasks.", "task.", "stream.", "interzone."]
            .iter()
            .any(|family| method.starts_with(family))
        {
            Some(Self::Acp)
        } else if ["message/", "tasks/", "agent/"]
            .iter()
            .any(|family| method.starts_with(family))
            || A2A_V1.contains(&method)
        {
            Some(Self::A2a)
        } else {
            None
        }
    }

    /// How strict the dialect is where it shares an endpoint with the others.
    pub const fn policy(self) -> Policy {
        match self {
            // A zone never asks without wanting the answer, so a missing id is a mistake.
            Self::Zone => Policy {
                missing_id: MissingId::Refuse,
                ..JSONRPC_DOOR
            },
            // ACP's schema closes the envelope; what `params` must be is told as invalid params.
            Self::Acp => Policy {
                extra_members: ExtraMembers::Refuse,
                params: ParamsShape::Any,
                ..JSONRPC_DOOR
            },
            Self::Cauce => Policy {
                params: ParamsShape::Any,
                ..JSONRPC_DOOR
            },
            Self::A2a => JSONRPC_DOOR,
        }
    }
}

/// The names of A2A 1.0, which share no prefix.
const A2A_V1: [&str; 11] = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];

/// The shared endpoint before a method is known.
const JSONRPC_DOOR: Policy = Policy::SERVER;

/// The rules of `POST /jsonrpc`, where every dialect is spoken.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed};
/// use interzone_protocol::JsonRpcDoor;
///
/// let zone = br#"{"jsonrpc":"2.0","method":"execute_task","params":{}}"#;
/// assert!(matches!(parse(zone, &JsonRpcDoor), Parsed::One(Err(_))));
/// let acp = br#"{"jsonrpc":"2.0","method":"tasks.cancel","params":{}}"#;
/// assert!(matches!(parse(acp, &JsonRpcDoor), Parsed::One(Ok(_))));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonRpcDoor;

impl Rulebook for JsonRpcDoor {
    fn door(&self) -> Policy {
        JSONRPC_DOOR
    }

    fn for_method(&self, method: &str) -> Policy {
        Dialect::of_method(method).map_or(JSONRPC_DOOR, Dialect::policy)
    }
}

/// The rules of Cauce's own transports: a null id is no id, there are no batches, and the peer may
/// be answering the hub.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed};
/// use interzone_protocol::CAUCE_DOOR;
///
/// let answer = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
/// assert!(matches!(parse(answer, &CAUCE_DOOR), Parsed::One(Ok(_))));
/// assert!(matches!(parse(b"[1]", &CAUCE_DOOR), Parsed::One(Err(_))));
/// ```
pub const CAUCE_DOOR: Policy = Policy {
    null_id: NullId::Refuse,
    missing_id: MissingId::Notification,
    extra_members: ExtraMembers::Ignore,
    params: ParamsShape::Any,
    reserved_names: ReservedNames::Unknown,
    batches: Batches::Refuse,
    responses: Responses::Admit,
    missing_error_id: MissingErrorId::Null,
    ..Policy::STANDARD
};

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_jsonrpc::{Parsed, parse};

    /// The name of the problem with a message, or `ok`.
    fn verdict(rules: &impl Rulebook, text: &str) -> &'static str {
        match parse(text.as_bytes(), rules) {
            Parsed::One(Ok(_)) => "ok",
            Parsed::One(Err(rejection)) => rejection.problem().name(),
            Parsed::Batch(_) => "batch",
        }
    }

    fn call(method: &str, rest: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}"{rest}}}"#)
    }

    #[test]
    fn each_dialect_is_as_strict_as_it_says() {
        for (rest, zone, acp, cauce, a2a) in [
            (r#","id":1"#, "ok", "ok", "ok", "ok"),
            (r#","id":null"#, "ok", "ok", "ok", "ok"),
            ("", "id_missing", "ok", "ok", "ok"),
            (r#","id":1,"x":1"#, "ok", "extra_member", "ok", "ok"),
            (
                r#","id":1,"params":1"#,
                "params_scalar",
                "ok",
                "ok",
                "params_scalar",
            ),
            (r#","id":1,"params":[]"#, "ok", "ok", "ok", "ok"),
            (r#","id":1,"params":null"#, "ok", "ok", "ok", "ok"),
            (
                r#","id":1.5"#,
                "id_not_integer",
                "id_not_integer",
                "id_not_integer",
                "id_not_integer",
            ),
        ] {
            for (method, expected) in [
                ("execute_task", zone),
                ("tasks.get", acp),
                ("cauce.ack", cauce),
                ("GetTask", a2a),
            ] {
                assert_eq!(
                    verdict(&JsonRpcDoor, &call(method, rest)),
                    expected,
                    "{method}{rest}"
                );
            }
        }
    }

    #[test]
    fn the_shared_endpoint_takes_calls_only() {
        assert_eq!(
            verdict(&JsonRpcDoor, r#"{"jsonrpc":"2.0","id":1,"result":1}"#),
            "response_refused"
        );
        assert_eq!(
            verdict(&JsonRpcDoor, &call("rpc.list", r#","id":1"#)),
            "method_reserved"
        );
        assert_eq!(
            verdict(&JsonRpcDoor, &format!("[{}]", call("x", ""))),
            "batch"
        );
    }

    #[test]
    fn cauce_transports_take_no_null_id_and_no_batch() {
        assert_eq!(
            verdict(&CAUCE_DOOR, &call("cauce.ping", r#","id":null"#)),
            "id_null"
        );
        assert_eq!(verdict(&CAUCE_DOOR, &call("cauce.ping", "")), "ok");
        assert_eq!(verdict(&CAUCE_DOOR, "[]"), "batch_refused");
        assert_eq!(
            verdict(&CAUCE_DOOR, r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
            "ok"
        );
    }

    #[test]
    fn every_a2a_name_is_found() {
        for method in A2A_V1 {
            assert_eq!(Dialect::of_method(method), Some(Dialect::A2a));
        }
        for method in [
            "tasks/get",
            "tasks/pushNotificationConfig/set",
            "agent/getAuthenticatedExtendedCard",
        ] {
            assert_eq!(Dialect::of_method(method), Some(Dialect::A2a));
        }
        for method in ["", "getTask", "execute_task ", "tasks", "rpc.tasks.get"] {
            assert_eq!(Dialect::of_method(method), None, "{method}");
        }
    }
}
