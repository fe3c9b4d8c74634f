//! Dialects: which methods belong to each, and how strictly its envelope is checked.
//!
//! Method names never collide, so one endpoint serves all dialects and picks one by method name.

use interzone_jsonrpc::{
    Batches, ExtraMembers, MissingErrorId, MissingId, NullId, ParamsShape, Policy, PolicyResolver,
    ReservedNames, Responses,
};

/// A protocol: a family of methods over the shared JSON-RPC envelope.
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
    /// Between the zones: `execute_task` and its companion methods.
    Zone,
    /// ACP: `tasks.*`, `task.*` and `stream.*`, plus the Interzone extensions `interzone.*`.
    Acp,
    /// Cauce: `cauce.*`.
    Cauce,
    /// A2A: the slashed names of 0.3 and the capitalised ones of 1.0.
    A2a,
}

impl Dialect {
    /// Returns the dialect of a method by its name's prefix. The method itself may still be unknown.
    pub fn of_method(method: &str) -> Option<Self> {
        if crate::zone::Method::from_name(method).is_some() {
            Some(Self::Zone)
        } else if method.starts_with("cauce.") {
            Some(Self::Cauce)
        } else if ["tasks.", "task.", "stream.", "interzone."]
            .iter()
            .any(|prefix| method.starts_with(prefix))
        {
            Some(Self::Acp)
        } else if ["message/", "tasks/", "agent/"]
            .iter()
            .any(|prefix| method.starts_with(prefix))
            || crate::a2a::A2aMethod::from_name(method).is_some()
        {
            Some(Self::A2a)
        } else {
            None
        }
    }

    /// The dialect's envelope policy on the shared endpoint.
    pub const fn policy(self) -> Policy {
        match self {
            // A zone always expects a response, so a missing id is an error.
            Self::Zone => Policy {
                missing_id: MissingId::Refuse,
                ..SHARED_ENDPOINT_POLICY
            },
            // ACP's schema allows no extra members in the envelope; bad `params` are reported as invalid params.
            Self::Acp => Policy {
                extra_members: ExtraMembers::Refuse,
                params: ParamsShape::Any,
                ..SHARED_ENDPOINT_POLICY
            },
            Self::Cauce => Policy {
                params: ParamsShape::Any,
                ..SHARED_ENDPOINT_POLICY
            },
            // Bad `params` are reported as invalid params. Neither version has notifications.
            Self::A2a => Policy {
                missing_id: MissingId::AnswerNull,
                params: ParamsShape::Any,
                ..SHARED_ENDPOINT_POLICY
            },
        }
    }
}

/// Policy of the shared endpoint until the method is known.
const SHARED_ENDPOINT_POLICY: Policy = Policy::SERVER;

/// Policies of `POST /jsonrpc`, the endpoint that serves every dialect.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed};
/// use interzone_protocol::SharedEndpointPolicy;
///
/// let zone = br#"{"jsonrpc":"2.0","method":"execute_task","params":{}}"#;
/// assert!(matches!(parse(zone, &SharedEndpointPolicy), Parsed::One(Err(_))));
/// let acp = br#"{"jsonrpc":"2.0","method":"tasks.cancel","params":{}}"#;
/// assert!(matches!(parse(acp, &SharedEndpointPolicy), Parsed::One(Ok(_))));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedEndpointPolicy;

impl PolicyResolver for SharedEndpointPolicy {
    fn default_policy(&self) -> Policy {
        SHARED_ENDPOINT_POLICY
    }

    fn for_method(&self, method: &str) -> Policy {
        Dialect::of_method(method).map_or(SHARED_ENDPOINT_POLICY, Dialect::policy)
    }
}

/// Policy of Cauce's own transports: a null id is refused, batches are refused, and responses are
/// accepted because the peer may be answering the hub.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed};
/// use interzone_protocol::CAUCE_TRANSPORT_POLICY;
///
/// let response = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
/// assert!(matches!(parse(response, &CAUCE_TRANSPORT_POLICY), Parsed::One(Ok(_))));
/// assert!(matches!(parse(b"[1]", &CAUCE_TRANSPORT_POLICY), Parsed::One(Err(_))));
/// ```
pub const CAUCE_TRANSPORT_POLICY: Policy = Policy {
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
    use crate::a2a::A2aMethod;
    use interzone_jsonrpc::{Parsed, parse};

    /// Returns the name of the violation in a message, or `ok`.
    fn parse_outcome(policies: &impl PolicyResolver, text: &str) -> &'static str {
        match parse(text.as_bytes(), policies) {
            Parsed::One(Ok(_)) => "ok",
            Parsed::One(Err(rejection)) => rejection.kind().name(),
            Parsed::Batch(_) => "batch",
        }
    }

    fn call(method: &str, members: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","method":"{method}"{members}}}"#)
    }

    #[test]
    fn dialect_policies_accept_and_refuse_as_documented() {
        for (members, zone, acp, cauce, a2a) in [
            (r#","id":1"#, "ok", "ok", "ok", "ok"),
            (r#","id":null"#, "ok", "ok", "ok", "ok"),
            ("", "id_missing", "ok", "ok", "ok"),
            (r#","id":1,"x":1"#, "ok", "extra_member", "ok", "ok"),
            (r#","id":1,"params":1"#, "params_scalar", "ok", "ok", "ok"),
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
                    parse_outcome(&SharedEndpointPolicy, &call(method, members)),
                    expected,
                    "{method}{members}"
                );
            }
        }
    }

    #[test]
    fn shared_endpoint_accepts_only_calls() {
        assert_eq!(
            parse_outcome(
                &SharedEndpointPolicy,
                r#"{"jsonrpc":"2.0","id":1,"result":1}"#
            ),
            "response_refused"
        );
        assert_eq!(
            parse_outcome(&SharedEndpointPolicy, &call("rpc.list", r#","id":1"#)),
            "method_reserved"
        );
        assert_eq!(
            parse_outcome(&SharedEndpointPolicy, &format!("[{}]", call("x", ""))),
            "batch"
        );
    }

    #[test]
    fn cauce_transport_refuses_null_ids_and_batches() {
        assert_eq!(
            parse_outcome(
                &CAUCE_TRANSPORT_POLICY,
                &call("cauce.ping", r#","id":null"#)
            ),
            "id_null"
        );
        assert_eq!(
            parse_outcome(&CAUCE_TRANSPORT_POLICY, &call("cauce.ping", "")),
            "ok"
        );
        assert_eq!(
            parse_outcome(&CAUCE_TRANSPORT_POLICY, "[]"),
            "batch_refused"
        );
        assert_eq!(
            parse_outcome(
                &CAUCE_TRANSPORT_POLICY,
                r#"{"jsonrpc":"2.0","id":1,"result":null}"#
            ),
            "ok"
        );
    }

    #[test]
    fn a2a_method_names_map_to_a2a_dialect() {
        for method in A2aMethod::ALL {
            assert_eq!(Dialect::of_method(method.name()), Some(Dialect::A2a));
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
