//! Every setting of a policy, and a resolver with different policies inside one batch.

use crate::classify::{check_members, classify, envelope, expect_message};
use interzone_jsonrpc::{
    Batches, ExtraMembers, MissingErrorId, MissingId, NullId, ParamsShape, Parsed, Policy,
    PolicyResolver, ReservedNames, Responses, parse,
};
use std::cell::RefCell;

const STANDARD: Policy = Policy::STANDARD;

#[test]
fn null_id_setting_is_applied() {
    let rows = |answer: bool| {
        let (request, success) = match answer {
            true => ("request", "success"),
            false => ("id_null", "id_null"),
        };
        [
            (r#""method":"a","id":null"#, request),
            (r#""result":1,"id":null"#, success),
            // Values that are no ids are rejected either way, and a missing id is not a null id.
            (r#""method":"a","id":false"#, "id_kind"),
            (r#""method":"a""#, "notification"),
            (r#""result":1"#, "id_missing"),
            (r#""error":{"code":1,"message":"m"},"id":null"#, "failure"),
        ]
    };
    for (null_id, answer) in [(NullId::Answer, true), (NullId::Refuse, false)] {
        check_members(
            &Policy {
                null_id,
                ..STANDARD
            },
            &rows(answer),
        );
    }
}

#[test]
fn missing_id_setting_is_applied() {
    for (missing_id, label) in [
        (MissingId::Notification, "notification"),
        (MissingId::AnswerNull, "request"),
        (MissingId::Refuse, "id_missing"),
    ] {
        let policy = Policy {
            missing_id,
            ..STANDARD
        };
        check_members(
            &policy,
            &[
                (r#""method":"a""#, label),
                (r#""method":"a","params":[]"#, label),
                (r#""method":"a","id":0"#, "request"),
                (r#""method":"a","id":null"#, "id_null"),
            ],
        );
    }
}

#[test]
fn extra_members_setting_is_applied() {
    for (extra_members, call, success, failure) in [
        (ExtraMembers::Ignore, "request", "success", "failure"),
        (
            ExtraMembers::Refuse,
            "extra_member",
            "extra_member",
            "extra_member",
        ),
    ] {
        let policy = Policy {
            extra_members,
            ..STANDARD
        };
        check_members(
            &policy,
            &[
                (r#""method":"a","id":1,"x":1"#, call),
                (r#""x":1,"x":2,"method":"a","id":1"#, call),
                (r#""result":1,"id":1,"x":1"#, success),
                (r#""result":1,"id":1,"params":1"#, success),
                (r#""error":{"code":1,"message":"m"},"id":1,"x":1"#, failure),
                (r#""error":{"code":1,"message":"m","x":1},"id":1"#, failure),
                // Without extra members, nothing changes.
                (r#""method":"a","id":1,"params":{"x":1}"#, "request"),
                (r#""result":{"x":1},"id":1"#, "success"),
                (
                    r#""error":{"code":1,"message":"m","data":{"x":1}},"id":1"#,
                    "failure",
                ),
            ],
        );
    }
}

#[test]
fn params_setting_is_applied() {
    for (params, scalar) in [
        (ParamsShape::Any, "request"),
        (ParamsShape::Structured, "params_scalar"),
    ] {
        let policy = Policy { params, ..STANDARD };
        check_members(
            &policy,
            &[
                (r#""method":"a","id":1,"params":1"#, scalar),
                (r#""method":"a","id":1,"params":"""#, scalar),
                (r#""method":"a","id":1,"params":true"#, scalar),
                (r#""method":"a","id":1,"params":{}"#, "request"),
                (r#""method":"a","id":1,"params":[]"#, "request"),
                (r#""method":"a","id":1,"params":null"#, "request"),
                // `params` of a response are not checked.
                (r#""result":1,"id":1,"params":1"#, "success"),
            ],
        );
    }
}

#[test]
fn reserved_names_setting_is_applied() {
    for (reserved_names, request, notification) in [
        (ReservedNames::Unknown, "method_reserved", "method_reserved"),
        (ReservedNames::Admit, "request", "notification"),
    ] {
        let policy = Policy {
            reserved_names,
            ..STANDARD
        };
        check_members(
            &policy,
            &[
                (r#""method":"rpc.a","id":1"#, request),
                (r#""method":"rpc.a""#, notification),
                (r#""method":"rpc","id":1"#, "request"),
            ],
        );
    }
}

#[test]
fn batches_setting_is_applied() {
    let call = envelope(r#""method":"a","id":1"#);
    let two = format!("[{call},{call}]");
    for (batches, two_items, no_items) in [
        (Batches::Refuse, "batch_refused", "batch_refused"),
        (Batches::UpTo(0), "batch_too_large", "empty_batch"),
        (Batches::UpTo(1), "batch_too_large", "empty_batch"),
        (Batches::UpTo(2), "[request request]", "empty_batch"),
        (
            Batches::UpTo(usize::MAX),
            "[request request]",
            "empty_batch",
        ),
    ] {
        let policy = Policy {
            batches,
            ..STANDARD
        };
        assert_eq!(classify(&two, &policy), two_items, "{batches:?}");
        assert_eq!(classify("[]", &policy), no_items, "{batches:?}");
        assert_eq!(classify(&call, &policy), "request", "{batches:?}");
        assert_eq!(classify("[1,", &policy), "unexpected_end", "{batches:?}");
    }
}

#[test]
fn responses_setting_is_applied() {
    for (responses, success, failure) in [
        (Responses::Admit, "success", "failure"),
        (Responses::Refuse, "response_refused", "response_refused"),
    ] {
        let policy = Policy {
            responses,
            ..STANDARD
        };
        check_members(
            &policy,
            &[
                (r#""result":1,"id":1"#, success),
                (r#""error":{"code":1,"message":"m"},"id":1"#, failure),
                (r#""method":"a","id":1"#, "request"),
            ],
        );
    }
}

#[test]
fn missing_error_id_setting_is_applied() {
    for (missing_error_id, label) in [
        (MissingErrorId::Null, "failure"),
        (MissingErrorId::Refuse, "id_missing"),
    ] {
        let policy = Policy {
            missing_error_id,
            ..STANDARD
        };
        check_members(
            &policy,
            &[
                (r#""error":{"code":1,"message":"m"}"#, label),
                (r#""error":{"code":1,"message":"m"},"id":null"#, "failure"),
                (r#""error":{"code":1,"message":"m"},"id":true"#, "id_kind"),
                (r#""result":1"#, "id_missing"),
            ],
        );
    }
}

#[test]
fn error_without_id_is_written_with_a_null_id() {
    let text = envelope(r#""error":{"code":1,"message":"m"}"#);
    assert_eq!(
        expect_message(&text, &Policy::CLIENT).to_string(),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#
    );
}

#[test]
fn predefined_policies_differ_as_documented() {
    let rows = [
        (
            r#""method":"a","id":null"#,
            ["id_null", "request", "request"],
        ),
        (
            r#""method":"a","id":1,"params":1"#,
            ["request", "params_scalar", "request"],
        ),
        (
            r#""method":"rpc.a","id":1"#,
            ["request", "method_reserved", "request"],
        ),
        (
            r#""result":1,"id":1"#,
            ["success", "response_refused", "success"],
        ),
        (
            r#""result":1,"id":null"#,
            ["id_null", "response_refused", "success"],
        ),
        (
            r#""error":{"code":1,"message":"m"}"#,
            ["id_missing", "response_refused", "failure"],
        ),
        (r#""method":"a","x":1"#, ["notification"; 3]),
    ];
    for (members, labels) in rows {
        let policies = [Policy::STANDARD, Policy::SERVER, Policy::CLIENT];
        for (policy, label) in policies.iter().zip(labels) {
            check_members(policy, &[(members, label)]);
        }
    }
}

/// A resolver for two dialects that records the methods it was called with.
struct RecordingResolver {
    methods: RefCell<Vec<String>>,
}

impl PolicyResolver for RecordingResolver {
    fn default_policy(&self) -> Policy {
        Policy {
            batches: Batches::UpTo(20),
            ..Policy::SERVER
        }
    }

    fn for_method(&self, method: &str) -> Policy {
        self.methods.borrow_mut().push(method.to_owned());
        match method {
            "strict" => Policy {
                null_id: NullId::Refuse,
                missing_id: MissingId::Refuse,
                extra_members: ExtraMembers::Refuse,
                ..self.default_policy()
            },
            "loose" => Policy {
                params: ParamsShape::Any,
                reserved_names: ReservedNames::Admit,
                // These three are decided by the default policy, and change nothing here.
                responses: Responses::Admit,
                batches: Batches::Refuse,
                max_depth: 1,
                ..self.default_policy()
            },
            "rpc.loose" => Policy {
                reserved_names: ReservedNames::Admit,
                ..self.default_policy()
            },
            _ => self.default_policy(),
        }
    }
}

#[test]
fn resolver_selects_the_policy_of_each_batch_item() {
    let resolver = RecordingResolver {
        methods: RefCell::default(),
    };
    let rows = [
        (r#""method":"strict","id":1"#, "request"),
        (r#""method":"strict""#, "id_missing"),
        (r#""method":"other""#, "notification"),
        (r#""method":"strict","id":null"#, "id_null"),
        (r#""method":"other","id":null"#, "request"),
        (r#""method":"strict","id":1,"x":1"#, "extra_member"),
        (r#""x":1,"method":"strict","id":1"#, "extra_member"),
        (r#""method":"other","id":1,"x":1"#, "request"),
        (r#""params":1,"id":1,"method":"loose""#, "request"),
        (r#""params":1,"id":1,"method":"other""#, "params_scalar"),
        (r#""method":"loose","params":[[1]],"id":1"#, "request"),
        (r#""method":"l\u006fose","params":1,"id":1"#, "request"),
        (r#""method":"rpc.loose","id":1"#, "request"),
        (r#""method":"rpc.other","id":1"#, "method_reserved"),
        (r#""result":1,"id":1"#, "response_refused"),
        (r#""method":1,"id":1"#, "method_kind"),
        (r#""method":"","id":1"#, "method_empty"),
    ];
    let items: Vec<_> = rows.iter().map(|(members, _)| envelope(members)).collect();
    let labels: Vec<_> = rows.iter().map(|(_, word)| *word).collect();
    let batch = format!("[{}]", items.join(","));
    assert_eq!(
        classify(&batch, &resolver),
        format!("[{}]", labels.join(" "))
    );
    let methods = resolver.methods.borrow();
    assert_eq!(methods.len(), 14, "once for each method name: {methods:?}");
    assert!(!methods.iter().any(String::is_empty));
}

#[test]
fn resolver_works_as_a_trait_object() {
    let policies: Box<dyn PolicyResolver> = Box::new(Policy::SERVER);
    let parsed = parse(b"[]", &*policies);
    assert!(matches!(parsed, Parsed::One(Err(_))));
}
