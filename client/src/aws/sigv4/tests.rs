//! Compares our signatures with those of AWS's own crate.

use super::*;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings};
use proptest::prelude::*;
use std::time::Duration;

fn keys(session: bool) -> AwsKeys {
    let keys = AwsKeys::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    if session {
        keys.with_session_token("AQoDYXdzEPT//////////wEXAMPLE+tc764bNrC9==")
    } else {
        keys
    }
}

fn unix_time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Returns the headers that AWS's crate would add.
fn aws_headers(
    request: &http::Request<Bytes>,
    keys: &AwsKeys,
    scope: SigningScope<'_>,
) -> BTreeMap<String, String> {
    let session = keys.session().map(str::to_owned);
    let identity = Credentials::new(keys.id(), keys.secret(), session, None, "test").into();
    let params = aws_sigv4::sign::v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(scope.at)
        .settings(SigningSettings::default())
        .build()
        .unwrap();
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let headers = headers.filter(|(name, _)| is_signed(name));
    let body = SignableBody::Bytes(request.body());
    let uri = request.uri().to_string();
    let signable = SignableRequest::new(request.method().as_str(), uri, headers, body).unwrap();
    let signed = aws_sigv4::http_request::sign(signable, &params.into()).unwrap();
    let (added, _) = signed.into_parts();
    let added = added.into_parts().0.into_iter();
    added
        .map(|header| (header.name().to_owned(), header.value().to_owned()))
        .collect()
}

fn assert_same_signature(request: &http::Request<Bytes>, session: bool, scope: SigningScope<'_>) {
    let keys = keys(session);
    let expected = aws_headers(request, &keys, scope);
    let mut ours = request.clone();
    sign(&mut ours, &keys, scope).unwrap();
    let names = ["authorization", "x-amz-date", "x-amz-security-token"];
    for name in names {
        let found = ours.headers().get(name);
        let found = found.map(|value| value.to_str().unwrap().to_owned());
        let original = request.headers().get(name);
        let original = original.map(|value| value.to_str().unwrap().to_owned());
        let expected = expected.get(name).cloned().or(original);
        assert_eq!(found, expected, "{name} of {request:?}");
    }
    assert!(
        expected.keys().all(|name| names.contains(&name.as_str())),
        "{expected:?}"
    );
}

const SCOPE: (&str, &str) = ("bedrock-agentcore", "eu-west-1");

fn scope(seconds: u64) -> SigningScope<'static> {
    let (service, region) = SCOPE;
    SigningScope {
        service,
        region,
        at: unix_time(seconds),
    }
}

#[test]
fn unusual_urls_are_signed_like_aws() {
    let addresses = [
        "https://x.example",
        "https://x.example/",
        "https://x.example:443/a",
        "https://x.example:8443/a",
        "http://x.example:80/a",
        "http://127.0.0.1:1234/a",
        "http://[::1]:1234/a",
        "https://x.example/a%3Ab/c%2Fd",
        "https://x.example/model/anthropic.tiny-1%3A0/converse-stream",
        "https://x.example/a//b/",
        "https://x.example/a/./b/../c/.",
        "https://x.example/../../a/..",
        "https://x.example/.hidden/a.b/..c",
        "https://x.example/a:b,c;d=e@f!g$h&i'j(k)l*m+n~o_p-q",
        "https://x.example/%7Euser/%e3%81%82",
        "https://x.example/?",
        "https://x.example/?a",
        "https://x.example/?a=&b",
        "https://x.example/?b=2&a=1&a=0&A=9",
        "https://x.example/?q=a%20b+c%2Bd&q=%E3%81%82",
        "https://x.example/?a=b=c&&d",
        "https://x.example/?qualifier=blue%20green",
        "https://x.example/?a-b=1&a.b=2&a%3Ab=3&a=4",
    ];
    for address in addresses {
        for session in [false, true] {
            let request = http::Request::post(address).body(Bytes::from_static(b"{}"));
            assert_same_signature(&request.unwrap(), session, scope(1_700_000_000));
        }
    }
}

#[test]
fn headers_are_signed_like_aws() {
    let request = |headers: &[(&str, &str)]| {
        let mut request = http::Request::get("https://x.example/a");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Bytes::new()).unwrap()
    };
    for headers in [
        &[][..],
        &[("content-type", "application/json")],
        &[("content-type", "a/b; charset=  utf-8")],
        &[
            ("x-amz-meta", "one"),
            ("x-amz-meta", "two"),
            ("x-amz-meta", " one "),
        ],
        &[
            ("x-amzn-b", "  spaced   out  "),
            ("x-amzn-a", "a\tb"),
            ("x-amzn-c", ""),
        ],
        &[("X-Amz-Target", "Service.Method")],
        &[
            ("x-amzn-trace-id", "Root=1"),
            ("user-agent", "x"),
            ("accept", "*/*"),
        ],
        &[
            ("x-amz-date", "19700101T000000Z"),
            ("authorization", "Bearer x"),
        ],
        &[("x-amz-security-token", "another-token")],
        &[("host", "y.example")],
    ] {
        for session in [false, true] {
            assert_same_signature(&request(headers), session, scope(1_700_000_000));
        }
    }
}

#[test]
fn signature_uses_the_given_time() {
    for seconds in [0, 59, 951_782_400, 1_709_164_799, 4_102_444_800] {
        let request = http::Request::put("https://x.example/").body(Bytes::from_static(b"x"));
        assert_same_signature(&request.unwrap(), false, scope(seconds));
    }
    assert_eq!(
        format_timestamp(unix_time(1_705_314_645)),
        "20240115T103045Z"
    );
    assert_eq!(
        format_timestamp(unix_time(1_705_314_645) + Duration::from_millis(999)),
        "20240115T103045Z"
    );
}

#[test]
fn unsignable_request_is_an_error() {
    let scope = scope(0);
    let mut without_host = http::Request::get("/a").body(Bytes::new()).unwrap();
    let error = sign(&mut without_host, &keys(false), scope).unwrap_err();
    assert!(matches!(error, SignError::Request(_)), "{error:?}");
    let lines = AwsKeys::new("id", "s3cret").with_session_token("two\nlines");
    let mut request = http::Request::get("https://x.example/")
        .body(Bytes::new())
        .unwrap();
    let error = sign(&mut request, &lines, scope).unwrap_err();
    assert!(!format!("{error:?}").contains("lines"), "{error:?}");
    assert!(
        request.headers().is_empty(),
        "no partial signature is added"
    );
    for (name, must_be_signed) in [("x-amz-meta", true), ("accept", false)] {
        let value = HeaderValue::from_bytes("pa55\u{e9}".as_bytes()).unwrap();
        request.headers_mut().clear();
        request.headers_mut().insert(name, value);
        match sign(&mut request, &keys(false), scope) {
            Err(SignError::Request(error)) if must_be_signed => {
                assert!(error.to_string().contains("not ASCII"), "{error}");
            }
            other => assert!(other.is_ok() && !must_be_signed, "{name}: {other:?}"),
        }
    }
}

#[test]
fn signature_headers_are_sensitive() {
    let mut request = http::Request::get("https://x.example/")
        .body(Bytes::new())
        .unwrap();
    sign(&mut request, &keys(true), scope(0)).unwrap();
    for name in ["authorization", "x-amz-security-token"] {
        assert!(request.headers()[name].is_sensitive(), "{name}");
    }
}

proptest! {
    #[test]
    fn any_request_is_signed_like_aws(
        path in "(/[a-zA-Z0-9._~:@!$&'()*+,;=%-]{0,8}){0,5}",
        query in "([a-zA-Z0-9._~:@!$'()*+,;=/?-]|&|=|%[0-9A-F]{2}){0,30}",
        value in "[ -~]{0,20}",
        again in "[ -~]{0,20}",
        body in prop::collection::vec(any::<u8>(), 0..50),
        seconds in 0_u64..4_102_444_800,
        session in any::<bool>(),
    ) {
        let address = format!("https://x.example{path}?{query}");
        let request = http::Request::post(address)
            .header("content-type", "application/json")
            .header("x-amzn-custom", value)
            .header("x-amzn-custom", again)
            .body(Bytes::from(body));
        if let Ok(request) = request {
            assert_same_signature(&request, session, scope(seconds));
        }
    }
}
