//! TLS handshakes: versions, certificates, resumption and reload.

use crate::fixture::{
    ClientCa, ListenerFixture, ListenerSetup, TlsClientOptions, read_to_close, send_get,
    within_timeout,
};
use axum::{Extension, Router, routing::get};
use interzone_edge::listener::Peer;
use interzone_edge::tls::DevCa;
use rustls::{HandshakeKind, ProtocolVersion};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn app() -> Router {
    Router::new().route(
        "/",
        get(|Extension(peer): Extension<Arc<Peer>>| async move {
            let fingerprint = hex(&peer.certificate.unwrap_or_default());
            format!("{} {fingerprint}", peer.address.ip())
        }),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

async fn start_server() -> ListenerFixture {
    ListenerSetup::new(app()).start().await
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_accepted() {
    let server = start_server().await;
    for (version, expect) in [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let caller = TlsClientOptions {
            version,
            ..TlsClientOptions::default()
        };
        let mut stream = server.connect_as(&caller).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(expect));
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let answer = send_get(&mut stream, "/").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    server
        .wait_for_metric("interzone_tls_handshakes_total{outcome=\"ok\"} 2")
        .await;
    server.shut_down().await;
}

#[tokio::test]
async fn http1_and_http2_are_served() {
    let server = start_server().await;
    let http2 = server.client().build().unwrap();
    let answer = http2.get(server.url("/")).send().await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    assert_eq!(
        answer.text().await.unwrap(),
        format!("127.0.0.1 {}", "00".repeat(32))
    );
    let http1 = server.client().http1_only().build().unwrap();
    let answer = http1.get(server.url("/")).send().await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_11);
    server.shut_down().await;
}

#[tokio::test]
async fn unknown_ca_is_not_trusted() {
    let server = start_server().await;
    let stranger = reqwest::Client::builder()
        .resolve("localhost", server.address)
        .build()
        .unwrap();
    let error = stranger.get(server.url("/")).send().await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    server.shut_down().await;
}

#[tokio::test]
async fn missing_or_foreign_client_certificate_is_rejected() {
    let mut plan = ListenerSetup::new(app());
    plan.requires_client_cert = true;
    let server = plan.start().await;

    // In TLS 1.3 a client learns of the rejection only after its own handshake is complete.
    let mut stream = server.connect().await;
    assert!(send_get(&mut stream, "/").await.is_err());

    // A certificate of another CA.
    let elsewhere = tempfile::tempdir().unwrap();
    let caller = TlsClientOptions {
        identity: Some(ClientCa::identity(elsewhere.path())),
        ..TlsClientOptions::default()
    };
    let mut stream = server.connect_as(&caller).await.unwrap();
    assert!(send_get(&mut stream, "/").await.is_err());

    // A valid one: the handler gets its fingerprint.
    let identity = ClientCa::identity(server.folder.path());
    let fingerprint = hex(&Sha256::digest(&identity.0));
    let caller = TlsClientOptions {
        identity: Some(identity),
        ..TlsClientOptions::default()
    };
    let mut stream = server.connect_as(&caller).await.unwrap();
    let answer = send_get(&mut stream, "/").await.unwrap();
    assert!(
        answer.contains(&format!("127.0.0.1 {fingerprint}")),
        "{answer}"
    );
    server
        .wait_for_metric("interzone_tls_handshakes_total{outcome=\"failed\"} 2")
        .await;
    server.shut_down().await;
}

#[tokio::test]
async fn resumed_session_keeps_client_identity() {
    let mut plan = ListenerSetup::new(app());
    plan.requires_client_cert = true;
    let server = plan.start().await;
    let identity = ClientCa::identity(server.folder.path());
    let fingerprint = hex(&Sha256::digest(&identity.0));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let caller = TlsClientOptions {
            version,
            identity: Some((identity.0.clone(), identity.1.clone_key())),
            ..TlsClientOptions::default()
        };
        let config = server.client_config(&caller);
        for expect in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let stream = server.connect_with(Arc::clone(&config)).await;
            let mut stream = stream.unwrap();
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(expect));
            // The resumed session has the same identity.
            let answer = send_get(&mut stream, "/").await.unwrap();
            assert!(answer.contains(&fingerprint), "{expect:?} {answer}");
        }
    }
    server.shut_down().await;
}

#[tokio::test]
async fn certificate_reload_keeps_connections() {
    let server = start_server().await;
    let mut old = server.connect().await;
    let before = old.get_ref().1.peer_certificates().unwrap()[0].clone();

    let mut reloads = server.tls.reloads();
    let watching = tokio::spawn(
        server
            .tls
            .clone()
            .reload_when_changed(Duration::from_millis(10), server.stop.clone()),
    );
    // A broken file changes nothing.
    let good = std::fs::read(&server.files.cert).unwrap();
    std::fs::write(&server.files.cert, "no certificate").unwrap();
    server.tls.reload().unwrap_err();
    let unchanged = server.connect().await;
    assert_eq!(
        unchanged.get_ref().1.peer_certificates().unwrap()[0],
        before
    );
    std::fs::write(&server.files.cert, good).unwrap();

    // A certificate for a further name is a new one.
    let folder = server.files.cert.parent().unwrap();
    DevCa::open_or_create(folder, &["zone.test".to_owned()]).unwrap();
    within_timeout("a reload", async {
        while server
            .connect()
            .await
            .get_ref()
            .1
            .peer_certificates()
            .unwrap()[0]
            == before
        {
            reloads.changed().await.unwrap();
        }
    })
    .await;
    assert!(send_get(&mut old, "/").await.unwrap().contains("200 OK"));
    server.shut_down().await;
    within_timeout("the end of watching", watching)
        .await
        .unwrap();
}

#[tokio::test]
async fn plain_http_on_tls_port_gets_400() {
    let server = start_server().await;
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    within_timeout("an answer", plain.read_to_string(&mut answer))
        .await
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    let length = format!("content-length: {}", body.len());
    assert!(head.contains(&length), "{head}\n{length}");
    assert!(body.contains("https://"), "{body}");

    let mut rubbish = TcpStream::connect(server.address).await.unwrap();
    rubbish.write_all(&[0, 1, 2, 3]).await.unwrap();
    let mut answer = Vec::new();
    // Closed or reset, without a response.
    let _ = within_timeout("a close", rubbish.read_to_end(&mut answer)).await;
    assert!(answer.is_empty());
    server.shut_down().await;
}

#[tokio::test]
async fn slow_handshake_times_out() {
    let limit = Duration::from_millis(100);
    let server = ListenerSetup::new(app())
        .with_limits(|limits| limits.handshake_timeout = limit)
        .start()
        .await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut bytes = Vec::new();
    let _ = within_timeout("a close", silent.read_to_end(&mut bytes)).await;
    assert!(bytes.is_empty());
    server
        .wait_for_metric("interzone_tls_handshakes_total{outcome=\"too_slow\"} 1")
        .await;

    // A started handshake times out as well.
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(&[0x16, 3, 1]).await.unwrap();
    let _ = within_timeout("a close", slow.read_to_end(&mut bytes)).await;
    server.shut_down().await;
}

#[tokio::test]
async fn unknown_alpn_protocol_is_rejected() {
    let server = start_server().await;
    let caller = TlsClientOptions {
        alpn: b"smtp",
        ..TlsClientOptions::default()
    };
    match server.connect_as(&caller).await {
        Err(error) => assert!(
            error.to_string().contains("NoApplicationProtocol"),
            "{error}"
        ),
        Ok(mut stream) => assert_eq!(read_to_close(&mut stream).await, ""),
    }
    server.shut_down().await;
}
