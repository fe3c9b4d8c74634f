//! SSRF checks: every spelling of a private address is rejected, and the allow-list is exact.

use super::resolver::{GuardedResolver, PrivateAddressError};
use super::{DnsLookup, Egress, EgressError, EgressLimits, EgressOptions, EgressSetupError};
use async_trait::async_trait;
use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest::dns::Resolve;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// DNS lookup with fixed results; with several results for a name, each is returned once.
#[derive(Default)]
struct FakeDns(Mutex<HashMap<&'static str, Vec<Vec<IpAddr>>>>);

impl FakeDns {
    fn resolving(name: &'static str, results: &[&[&str]]) -> Arc<Self> {
        let parse = |result: &&[&str]| result.iter().map(|text| text.parse().unwrap()).collect();
        let results = results.iter().rev().map(parse).collect();
        Arc::new(Self(Mutex::new(HashMap::from([(name, results)]))))
    }
}

#[async_trait]
impl DnsLookup for FakeDns {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut names = self.0.lock().unwrap();
        let result = names.get_mut(name).and_then(Vec::pop);
        result.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn egress(allow: &[&str], lookup: Arc<dyn DnsLookup>) -> Egress {
    Egress::new(&EgressOptions {
        allow: allow.iter().map(|entry| (*entry).to_owned()).collect(),
        lookup,
        ..EgressOptions::default()
    })
    .unwrap()
}

fn empty_dns() -> Arc<FakeDns> {
    Arc::default()
}

async fn serve(app: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// A listener that must not be called.
struct UncalledListener(std::net::TcpListener);

impl UncalledListener {
    fn bind() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    fn is_untouched(&self) -> bool {
        self.0
            .accept()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

async fn post_to(egress: &Egress, url: &str) -> Result<super::EgressResponse, EgressError> {
    let limits = EgressLimits::default();
    egress
        .post(url, HeaderMap::new(), Bytes::from_static(b"{}"), limits)
        .await
}

#[test]
fn private_hosts_are_rejected_in_every_spelling() {
    let egress = egress(&["127.0.0.1:9955"], empty_dns());
    for url in [
        // Plain.
        "https://127.0.0.1/",
        "https://10.1.2.3/",
        "https://192.168.1.1:8443/x",
        "https://172.16.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://100.64.0.1/",
        "https://0.0.0.0/",
        "https://255.255.255.255/",
        "https://224.0.0.1/",
        "https://198.18.0.1/",
        "https://192.0.2.1/",
        "https://240.0.0.1/",
        // The allow-list entry is one port, not the host.
        "https://127.0.0.1:9956/",
        // Decimal, octal, hexadecimal, short, mixed, and with a trailing dot.
        "https://2130706433/",
        "https://017700000001/",
        "https://0x7f000001/",
        "https://0x7F.1/",
        "https://0177.0.0.1/",
        "https://127.1/",
        "https://127.0.1/",
        "https://0/",
        "https://0x0/",
        "https://127.0.0.1./",
        "https://0x7f.0x0.0x0.0x1/",
        "https://3232235777/",
        "https://2852039166/",
        "https://0xa9fea9fe/",
        "https://0251.0376.0251.0376/",
        "https://127.0x0.00.1/",
        // Letters, digits and dots of other alphabets.
        "https://１２７.０.０.１/",
        "https://127。0。0。1/",
        "https://127．0．0．1/",
        "https://①②⑦.⓪.⓪.①/",
        "https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
        "https://ｌｏｃａｌｈｏｓｔ/",
        "https://%31%32%37.0.0.1/",
        "https://loc%61lhost/",
        // IPv6, plain and with an embedded IPv4 address.
        "https://[::1]/",
        "https://[::]/",
        "https://[0:0:0:0:0:0:0:1]/",
        "https://[fe80::1]/",
        "https://[fc00::1]/",
        "https://[fd00::1]/",
        "https://[ff02::1]/",
        "https://[2001:db8::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[::127.0.0.1]/",
        "https://[0:0:0:0:0:ffff:a9fe:a9fe]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[64:ff9b::169.254.169.254]/",
        "https://[2002:7f00:1::]/",
        "https://[2001:0::1]/",
        "https://[::ffff:0:127.0.0.1]/",
        // Names.
        "https://localhost/",
        "https://LOCALHOST/",
        "https://localhost./",
        "https://a.localhost/",
        "https://a.b.LocalHost:1/",
        "https://metadata.google.internal/",
        "https://x.internal./",
        "https://printer.local/",
        "https://router.home.arpa/",
        "https://intranet/",
        "https://kubernetes/",
        "https://example.com./",
        "https://db.corp/",
        "https://nas.lan/",
    ] {
        let error = egress.check_url(url).unwrap_err();
        assert!(matches!(error, EgressError::Private), "{url}: {error:?}");
        assert!(!error.is_retryable());
    }
}

#[test]
fn malformed_urls_are_rejected() {
    let egress = egress(&["127.0.0.1:9955"], empty_dns());
    let long = format!("https://example.com/{}", "x".repeat(2048));
    for (url, code) in [
        ("http://example.com/", "url_scheme"),
        ("HTTP://example.com/", "url_scheme"),
        ("http://127.0.0.1/", "url_scheme"),
        ("ftp://example.com/", "url_scheme"),
        ("gopher://127.0.0.1:9955/", "url_scheme"),
        ("file:///etc/passwd", "url_malformed"),
        ("javascript:alert(1)", "url_malformed"),
        ("https://user@example.com/", "url_credentials"),
        ("https://user:pw@example.com/", "url_credentials"),
        ("https://:pw@example.com/", "url_credentials"),
        ("https://@example.com/", "url_credentials"),
        ("https://example.com@127.0.0.1/", "url_credentials"),
        ("https://127.0.0.1:9955@evil.example/", "url_credentials"),
        ("http://@127.0.0.1:9955/", "url_credentials"),
        ("https://example.com\\@127.0.0.1/", "url_malformed"),
        ("https://exam\nple.com/", "url_malformed"),
        ("https://exam\tple.com/", "url_malformed"),
        (" https://example.com/", "url_malformed"),
        ("https://example.com/\u{0}", "url_malformed"),
        ("https:example.com", "url_malformed"),
        ("https:///example.com", "url_malformed"),
        ("https://example.com:0/", "url_malformed"),
        ("https://example.com:99999/", "url_malformed"),
        ("https://999.999.999.999/", "url_malformed"),
        ("https://1572395042/", "url_numeric_host"),
        ("https://0x5db8d822/", "url_numeric_host"),
        ("https://0135.0270.0330.042/", "url_numeric_host"),
        ("https://93.12113954/", "url_numeric_host"),
        ("https://００000127.1/", "url_numeric_host"),
        ("https://９３.184.216.34/", "url_numeric_host"),
        ("https://1.2.3.4.5/", "url_malformed"),
        ("https://[::1/", "url_malformed"),
        ("https://", "url_malformed"),
        ("//example.com/", "url_malformed"),
        ("example.com", "url_malformed"),
        ("", "url_malformed"),
        (&long, "url_too_long"),
    ] {
        let error = egress.check_url(url).unwrap_err();
        assert_eq!(error.code(), code, "{url:?}: {error:?}");
        assert!(!error.is_retryable() && !error.to_string().contains("127"));
    }
}

#[test]
fn public_and_allow_listed_urls_are_allowed() {
    let allow = [
        "127.0.0.1:9955",
        "hooks.test:80",
        "[::1]:8443",
        "LOCALHOST:9000",
    ];
    let egress = egress(&allow, empty_dns());
    for (url, expected) in [
        (
            "https://example.com/hook?a=1#part",
            "https://example.com/hook?a=1",
        ),
        ("HTTPS://EXAMPLE.com:443", "https://example.com/"),
        ("https://example.com:8443/", "https://example.com:8443/"),
        ("https://93.184.216.34/", "https://93.184.216.34/"),
        (
            "https://[2606:4700:4700::1111]/",
            "https://[2606:4700:4700::1111]/",
        ),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("http://127.0.0.1:9955/hook", "http://127.0.0.1:9955/hook"),
        ("https://127.0.0.1:9955/hook", "https://127.0.0.1:9955/hook"),
        ("http://0x7f.1:9955/hook", "http://127.0.0.1:9955/hook"),
        ("http://hooks.test/", "http://hooks.test/"),
        ("http://[::1]:8443/", "http://[::1]:8443/"),
        ("http://localhost:9000/", "http://localhost:9000/"),
    ] {
        assert_eq!(egress.check_url(url).unwrap().as_str(), expected, "{url}");
    }
    for bad in [
        "localhost",
        "http://localhost:1",
        "a:b",
        "u@host:1",
        "host:1/x",
        "host:70000",
        "",
    ] {
        let options = EgressOptions {
            allow: vec![bad.to_owned()],
            ..EgressOptions::default()
        };
        let result = Egress::new(&options);
        assert!(
            matches!(result, Err(EgressSetupError::Entry(entry)) if entry == bad),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn name_with_private_address_is_not_called() {
    let trap = UncalledListener::bind();
    let url = format!("https://evil.example:{}/", trap.port());
    for addresses in [
        &["127.0.0.1"][..],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["93.184.216.34", "127.0.0.1"],
        &["127.0.0.1", "93.184.216.34"],
        &["169.254.169.254"],
    ] {
        let egress = egress(&[], FakeDns::resolving("evil.example", &[addresses]));
        assert!(egress.check_url(&url).is_ok());
        let error = post_to(&egress, &url).await.unwrap_err();
        assert!(
            matches!(error, EgressError::Private),
            "{addresses:?}: {error:?}"
        );
    }
    assert!(trap.is_untouched());
}

#[tokio::test]
async fn dns_rebinding_has_no_effect() {
    // The connection uses exactly the checked result: there is no second lookup in between.
    let names = FakeDns::resolving("rebind.example", &[&["93.184.216.34"], &["127.0.0.1"]]);
    let guard = GuardedResolver {
        lookup: names,
        allow_private: false,
    };
    let first = guard.resolve("rebind.example".parse().unwrap()).await;
    let first: Vec<SocketAddr> = first.ok().unwrap().collect();
    assert_eq!(first, ["93.184.216.34:0".parse().unwrap()]);
    let second = guard.resolve("rebind.example".parse().unwrap()).await;
    assert!(second.err().unwrap().is::<PrivateAddressError>());
}

#[tokio::test]
async fn allow_list_entry_applies_to_its_port_only() {
    let trap = UncalledListener::bind();
    let allowed = serve(Router::new().route("/", post(|| async { "ok" }))).await;
    let names = FakeDns::resolving("hooks.test", &[&["127.0.0.1"], &["127.0.0.1"]]);
    let entry = format!("hooks.test:{}", allowed.port());
    let egress = egress(&[&entry], names);
    let reply = post_to(&egress, &format!("http://{entry}/")).await.unwrap();
    assert_eq!((reply.status, &*reply.body), (StatusCode::OK, &b"ok"[..]));
    let other = format!("https://hooks.test:{}/", trap.port());
    let error = post_to(&egress, &other).await.unwrap_err();
    assert!(matches!(error, EgressError::Private), "{error:?}");
    assert!(trap.is_untouched());
}

#[tokio::test]
async fn redirects_are_returned_and_not_followed() {
    let trap = UncalledListener::bind();
    let target = format!("http://127.0.0.1:{}/", trap.port());
    let location = target.clone();
    let redirect = move || async move { (StatusCode::FOUND, [("location", location)]) };
    let app = Router::new().route("/", post(redirect.clone()).get(redirect));
    let allowed = serve(app).await;
    // Not even a target that would be allowed is requested.
    let allow = [
        allowed.to_string(),
        target.replace("http://", "").replace('/', ""),
    ];
    let egress = egress(&[&allow[0], &allow[1]], empty_dns());
    let url = format!("http://{allowed}/");
    assert_eq!(
        post_to(&egress, &url).await.unwrap().status,
        StatusCode::FOUND
    );
    let limits = EgressLimits::default();
    let response = egress.fetch(&url, HeaderMap::new(), 100, limits).await;
    assert_eq!(response.unwrap().status, StatusCode::FOUND);
    assert!(trap.is_untouched());
}

#[tokio::test]
async fn responses_are_limited_in_size_and_time() {
    let app = Router::new()
        .route(
            "/big",
            get(|| async { "x".repeat(100 << 10) }).post(|| async { "x".repeat(100 << 10) }),
        )
        .route(
            "/wait",
            post(|| async { (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "99999")]) }),
        )
        .route("/slow", post(std::future::pending::<()>));
    let allowed = serve(app).await;
    let egress = egress(&[&allowed.to_string()], empty_dns());
    let url_of = |path: &str| format!("http://{allowed}{path}");
    let limits = EgressLimits::default();
    let reply = post_to(&egress, &url_of("/big")).await.unwrap();
    assert_eq!(reply.body.len(), 64 << 10);
    let too_large = egress
        .fetch(&url_of("/big"), HeaderMap::new(), (100 << 10) - 1, limits)
        .await;
    assert!(matches!(
        too_large,
        Err(EgressError::ResponseTooLarge { .. })
    ));
    let fits = egress
        .fetch(&url_of("/big"), HeaderMap::new(), 100 << 10, limits)
        .await;
    assert_eq!(fits.unwrap().body.len(), 100 << 10);
    let wait = post_to(&egress, &url_of("/wait")).await.unwrap();
    assert_eq!(wait.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(wait.retry_after, Some(Duration::from_secs(3600)));
    let short = EgressLimits {
        timeout: Duration::from_millis(50),
    };
    let slow = egress
        .post(&url_of("/slow"), HeaderMap::new(), Bytes::new(), short)
        .await;
    let slow = slow.unwrap_err();
    assert!(matches!(slow, EgressError::Timeout), "{slow:?}");
    assert!(slow.is_retryable());
}

#[tokio::test]
async fn connect_error_is_retryable_and_host_header_is_rejected() {
    let closed = UncalledListener::bind();
    let authority = format!("127.0.0.1:{}", closed.port());
    drop(closed);
    let egress = egress(&[&authority], empty_dns());
    let error = post_to(&egress, &format!("http://{authority}/"))
        .await
        .unwrap_err();
    assert!(matches!(error, EgressError::Unreachable(_)), "{error:?}");
    assert!(error.is_retryable());
    let unknown = post_to(&egress, "https://unknown.example/")
        .await
        .unwrap_err();
    assert!(
        matches!(unknown, EgressError::Unreachable(_)),
        "{unknown:?}"
    );
    let headers = HeaderMap::from_iter([(http::header::HOST, HeaderValue::from_static("inside"))]);
    let url = format!("http://{authority}/");
    let sent = egress.post(&url, headers, Bytes::new(), EgressLimits::default());
    assert!(matches!(sent.await, Err(EgressError::Header)));
}
