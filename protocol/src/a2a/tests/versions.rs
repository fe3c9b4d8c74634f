//! Versions and method names.

use crate::a2a::{
    A2aError, A2aErrorKind, A2aMethod, A2aVersion, CardShape, RequestedVersion, VersionPolicy,
    WireFormat,
};

#[test]
fn version_values_select_card_and_service() {
    for (value, card, is_served) in [
        (None, CardShape::Hybrid, true),
        (Some(""), CardShape::Hybrid, true),
        (Some(" , "), CardShape::Hybrid, true),
        (Some("0.3"), CardShape::V03, true),
        (Some("0.3.0"), CardShape::V03, true),
        (Some("0.3.99999999999"), CardShape::V03, true),
        (Some("1.0"), CardShape::V1, true),
        (Some("1"), CardShape::V1, true),
        (Some(" 1.0.1 "), CardShape::V1, true),
        (Some("1.0, 1.0"), CardShape::V1, true),
        (Some("1.0,1"), CardShape::V1, true),
        (Some("1.1"), CardShape::V1, false),
        (Some("1.0,0.3"), CardShape::V1, false),
        (Some("0.2"), CardShape::V1, false),
        (Some("0"), CardShape::V1, false),
        (Some("2.0"), CardShape::V1, false),
        (Some("99.0"), CardShape::V1, false),
        (Some("99999999999.0"), CardShape::V1, false),
        (Some("v1.0"), CardShape::V1, false),
        (Some("1."), CardShape::V1, false),
        (Some("1.0."), CardShape::V1, false),
        (Some(".1"), CardShape::V1, false),
        (Some("1.0.x"), CardShape::V1, false),
        (Some("+1.0"), CardShape::V1, false),
        (Some("rubbish"), CardShape::V1, false),
    ] {
        let version = RequestedVersion::parse(value, None);
        assert_eq!(version.card_shape(), card, "{value:?}");
        for format in WireFormat::ALL {
            let result = version.check(format, VersionPolicy::default());
            assert_eq!(result.is_ok(), is_served, "{value:?}");
        }
    }
}

#[test]
fn header_wins_over_query_parameter() {
    let version = RequestedVersion::parse(Some("1.0"), Some("0.3"));
    assert_eq!(version, RequestedVersion::Version(A2aVersion::V1));
    let version = RequestedVersion::parse(None, Some(" 0.3 "));
    assert_eq!(version, RequestedVersion::Version(A2aVersion::V03));
}

#[test]
fn strict_policy_refuses_names_of_another_major_version() {
    let policy = VersionPolicy {
        strict: true,
        preview: false,
    };
    for (value, v1, v03) in [
        (None, false, true),
        (Some("0.3"), false, true),
        (Some("1.0"), true, false),
    ] {
        let version = RequestedVersion::parse(value, None);
        assert_eq!(version.check(WireFormat::V1, policy).is_ok(), v1);
        assert_eq!(version.check(WireFormat::V03, policy).is_ok(), v03);
    }
}

#[test]
fn preview_is_served_only_if_enabled_and_in_1_0_names() {
    let policy = VersionPolicy {
        strict: false,
        preview: true,
    };
    let version = RequestedVersion::parse(Some("1.1"), None);
    assert!(version.check(WireFormat::V1, policy).is_ok());
    assert!(version.check(WireFormat::V03, policy).is_err());
    let refused = version.check(WireFormat::V1, VersionPolicy::default());
    let error = A2aError::from(refused.unwrap_err());
    assert_eq!(error.kind(), A2aErrorKind::VersionNotSupported);
    let details = serde_json::to_value(error.details()).unwrap();
    assert_eq!(details[0]["metadata"]["requested"], "1.1");
    assert_eq!(details[0]["metadata"]["supported"], "0.3,1.0");
}

#[test]
fn method_names_round_trip_in_both_versions() {
    for method in A2aMethod::ALL {
        let found = A2aMethod::from_name(method.name());
        assert_eq!(found, Some((method, WireFormat::V1)));
        match method.name_v03() {
            Some(name) => {
                assert_eq!(A2aMethod::from_name(name), Some((method, WireFormat::V03)));
            }
            None => assert_eq!(method, A2aMethod::ListTasks),
        }
    }
    for name in ["", "tasks/list", "getTask", "message/Send"] {
        assert_eq!(A2aMethod::from_name(name), None);
    }
}
