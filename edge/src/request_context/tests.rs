//! Correlation ids and trace contexts, valid and hostile.

use super::{
    CORRELATION_HEADER, CorrelationId, MAX_CORRELATION_LEN, MAX_TRACESTATE_LEN,
    MAX_TRACESTATE_MEMBERS, TRACEPARENT, TRACESTATE, TraceParent,
};
use http::{HeaderMap, HeaderName, HeaderValue};

const VALID_TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn headers(sent: &[(HeaderName, &str)]) -> HeaderMap {
    sent.iter()
        .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

#[test]
fn valid_correlation_id_is_kept_any_other_replaced() {
    let longest = "x".repeat(MAX_CORRELATION_LEN);
    for good in ["a", "A-b_c.d:9", &longest] {
        let id = CorrelationId::from_headers(&headers(&[(CORRELATION_HEADER, good)]));
        assert_eq!(id.as_str(), good);
        assert_eq!(id.to_header(), good);
    }
    let too_long = "x".repeat(MAX_CORRELATION_LEN + 1);
    for bad in [
        "", " a", "a b", "a\tb", "<b>", "a\"b", "a;b", "a/b", "{}", &too_long,
    ] {
        let id = CorrelationId::from_headers(&headers(&[(CORRELATION_HEADER, bad)]));
        assert_ne!(id.as_str(), bad);
        assert_eq!(id.as_str().len(), 36, "{id}");
    }
    let mut binary = HeaderMap::new();
    binary.insert(
        CORRELATION_HEADER,
        HeaderValue::from_bytes(b"\xff\xfe").unwrap(),
    );
    assert_eq!(CorrelationId::from_headers(&binary).as_str().len(), 36);
}

#[test]
fn generated_correlation_ids_are_unique_uuids() {
    let ids: std::collections::HashSet<CorrelationId> =
        (0..1000).map(|_| CorrelationId::generate()).collect();
    assert_eq!(ids.len(), 1000);
    for id in ids {
        let uuid = uuid::Uuid::parse_str(id.as_str()).unwrap();
        assert_eq!(uuid.get_version_num(), 7);
    }
}

#[test]
fn valid_traceparent_is_parsed_and_formatted() {
    let parent = TraceParent::parse(VALID_TRACEPARENT).unwrap();
    assert_eq!(parent.to_string(), VALID_TRACEPARENT);
    assert!(parent.is_sampled());
    assert_eq!(
        parent.span_id(),
        [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]
    );
    let unsampled = format!("{}00", &VALID_TRACEPARENT[..53]);
    assert!(!TraceParent::parse(&unsampled).unwrap().is_sampled());
    // Unknown flags are not passed on.
    let flags = format!("{}ff", &VALID_TRACEPARENT[..53]);
    assert_eq!(
        TraceParent::parse(&flags).unwrap().to_string(),
        VALID_TRACEPARENT
    );
    // A later version may have additional fields.
    for later in [
        format!("cc{}", &VALID_TRACEPARENT[2..]),
        format!("cc{}-what", &VALID_TRACEPARENT[2..]),
    ] {
        assert_eq!(
            TraceParent::parse(&later).unwrap().to_string(),
            VALID_TRACEPARENT
        );
    }
}

#[test]
fn invalid_traceparent_is_rejected() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    for bad in [
        String::new(),
        "00".to_owned(),
        format!("ff-{trace}-{span}-01"),
        format!("00-{}-{span}-01", "0".repeat(32)),
        format!("00-{trace}-{}-01", "0".repeat(16)),
        format!("00-{}-{span}-01", trace.to_uppercase()),
        format!("00-{}-{span}-01", &trace[1..]),
        format!("00-{trace}-{span}-1"),
        format!("00-{trace}-{span}-0g"),
        format!("00-{trace}-{span}-01-"),
        format!("00-{trace}-{span}-01-what"),
        format!("cc-{trace}-{span}-01.what"),
        format!("0-{trace}-{span}-01"),
        format!(" 00-{trace}-{span}-01"),
        format!("00_{trace}_{span}_01"),
        format!("00-{trace}-{span}"),
    ] {
        assert_eq!(TraceParent::parse(&bad), None, "{bad}");
    }
    let two = headers(&[
        (TRACEPARENT, VALID_TRACEPARENT),
        (TRACEPARENT, VALID_TRACEPARENT),
    ]);
    assert_eq!(TraceParent::from_headers(&two), None);
}

#[test]
fn child_span_keeps_trace_id_and_tracestate() {
    let sent = headers(&[
        (TRACEPARENT, VALID_TRACEPARENT),
        (TRACESTATE, "congo=t61rcWkgMzE, ,rojo=1"),
        (TRACESTATE, "tenant@vendor=x y"),
    ]);
    let child = TraceParent::from_headers(&sent).unwrap().child();
    let mut out = headers(&[(TRACESTATE, "old=1")]);
    child.inject(&mut out);
    assert_eq!(
        out[TRACESTATE],
        "congo=t61rcWkgMzE,rojo=1,tenant@vendor=x y"
    );
    let again = TraceParent::from_headers(&out).unwrap();
    assert_eq!(again, child);
    assert_eq!(
        again.trace_id(),
        TraceParent::parse(VALID_TRACEPARENT).unwrap().trace_id()
    );
    assert_ne!(
        again.span_id(),
        TraceParent::parse(VALID_TRACEPARENT).unwrap().span_id()
    );

    let stateless = TraceParent::new_root(true);
    stateless.inject(&mut out);
    assert!(!out.contains_key(TRACESTATE));
    assert_eq!(TraceParent::from_headers(&out), Some(stateless));
}

#[test]
fn tracestate_is_bounded_and_rejected_if_any_member_is_bad() {
    let state = |text: &str| {
        let sent = headers(&[(TRACEPARENT, VALID_TRACEPARENT), (TRACESTATE, text)]);
        let parent = TraceParent::from_headers(&sent).unwrap();
        parent.tracestate().map(str::to_owned)
    };
    for bad in ["", ",", "novalue", "a=", "=b", "Upper=1", "a=1,b", "a=1=2"] {
        assert_eq!(state(bad), None, "{bad}");
    }
    let many: Vec<String> = (0..40).map(|n| format!("k{n}=1")).collect();
    let members = state(&many.join(",")).unwrap();
    assert_eq!(members.split(',').count(), MAX_TRACESTATE_MEMBERS);
    let long: Vec<String> = (0..9).map(|n| format!("k{n}={}", "x".repeat(97))).collect();
    let members = state(&long.join(",")).unwrap();
    assert_eq!(members, long[..5].join(","));
    assert!(members.len() <= MAX_TRACESTATE_LEN);
}
