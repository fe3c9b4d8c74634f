//! Who gets through TLS, and with what.

use crate::house::{Caller, ClientCa, House, Plan, ask, read_to_close, soon};
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
            let print = hex(&peer.certificate.unwrap_or_default());
            format!("{} {print}", peer.address.ip())
        }),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

async fn house() -> House {
    Plan::new(app()).build().await
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken() {
    let house = house().await;
    for (version, expect) in [
        (&rustls::version::TLS12, ProtocolVersion::TLSv1_2),
        (&rustls::version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let caller = Caller {
            version,
            ..Caller::default()
        };
        let mut stream = house.connect_by(&caller).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(expect));
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let answer = ask(&mut stream, "/").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    house
        .until("interzone_tls_handshakes_total{outcome=\"ok\"} 2")
        .await;
    house.end().await;
}

#[tokio::test]
async fn both_versions_of_http_are_spoken() {
    let house = house().await;
    let http2 = house.client().build().unwrap();
    let answer = http2.get(house.url("/")).send().await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    assert_eq!(
        answer.text().await.unwrap(),
        format!("127.0.0.1 {}", "00".repeat(32))
    );
    let http1 = house.client().http1_only().build().unwrap();
    let answer = http1.get(house.url("/")).send().await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_11);
    house.end().await;
}

#[tokio::test]
async fn an_unknown_ca_is_not_trusted() {
    let house = house().await;
    let stranger = reqwest::Client::builder()
        .resolve("localhost", house.address)
        .build()
        .unwrap();
    let error = stranger.get(house.url("/")).send().await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
    house.end().await;
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused_if_one_is_asked_for() {
    let mut plan = Plan::new(app());
    plan.mutual = true;
    let house = plan.build().await;

    // In TLS 1.3 a client learns of the refusal only after its own part is done.
    let mut stream = house.connect().await;
    assert!(ask(&mut stream, "/").await.is_err());

    // One that another CA signed.
    let elsewhere = tempfile::tempdir().unwrap();
    let caller = Caller {
        identity: Some(ClientCa::identity(elsewhere.path())),
        ..Caller::default()
    };
    let mut stream = house.connect_by(&caller).await.unwrap();
    assert!(ask(&mut stream, "/").await.is_err());

    // And a good one, by whose print the handler knows it.
    let identity = ClientCa::identity(house.folder.path());
    let print = hex(&Sha256::digest(&identity.0));
    let caller = Caller {
        identity: Some(identity),
        ..Caller::default()
    };
    let mut stream = house.connect_by(&caller).await.unwrap();
    let answer = ask(&mut stream, "/").await.unwrap();
    assert!(answer.contains(&format!("127.0.0.1 {print}")), "{answer}");
    house
        .until("interzone_tls_handshakes_total{outcome=\"failed\"} 2")
        .await;
    house.end().await;
}

#[tokio::test]
async fn a_client_that_returns_is_known_by_its_ticket() {
    let mut plan = Plan::new(app());
    plan.mutual = true;
    let house = plan.build().await;
    let identity = ClientCa::identity(house.folder.path());
    let print = hex(&Sha256::digest(&identity.0));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let caller = Caller {
            version,
            identity: Some((identity.0.clone(), identity.1.clone_key())),
            ..Caller::default()
        };
        let config = house.config(&caller);
        for expect in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let stream = house.connect_with(Arc::clone(&config)).await;
            let mut stream = stream.unwrap();
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(expect));
            // Who it is has not been forgotten.
            let answer = ask(&mut stream, "/").await.unwrap();
            assert!(answer.contains(&print), "{expect:?} {answer}");
        }
    }
    house.end().await;
}

#[tokio::test]
async fn a_new_certificate_is_used_without_dropping_a_connection() {
    let house = house().await;
    let mut old = house.connect().await;
    let before = old.get_ref().1.peer_certificates().unwrap()[0].clone();

    let mut reloads = house.tls.reloads();
    let watching = tokio::spawn(
        house
            .tls
            .clone()
            .reload_when_changed(Duration::from_millis(10), house.stop.clone()),
    );
    // A broken file changes nothing.
    let good = std::fs::read(&house.files.cert).unwrap();
    std::fs::write(&house.files.cert, "no certificate").unwrap();
    house.tls.reload().unwrap_err();
    let still = house.connect().await;
    assert_eq!(still.get_ref().1.peer_certificates().unwrap()[0], before);
    std::fs::write(&house.files.cert, good).unwrap();

    // A certificate for one more name is a new one.
    let folder = house.files.cert.parent().unwrap();
    DevCa::open_or_make(folder, &["zone.test".to_owned()]).unwrap();
    soon("a reload", async {
        while house
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
    assert!(ask(&mut old, "/").await.unwrap().contains("200 OK"));
    house.end().await;
    soon("the end of watching", watching).await.unwrap();
}

#[tokio::test]
async fn plain_http_is_told_so() {
    let house = house().await;
    let mut plain = TcpStream::connect(house.address).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    soon("an answer", plain.read_to_string(&mut answer))
        .await
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
    let length = format!("content-length: {}", body.len());
    assert!(head.contains(&length), "{head}\n{length}");
    assert!(body.contains("https://"), "{body}");

    let mut rubbish = TcpStream::connect(house.address).await.unwrap();
    rubbish.write_all(&[0, 1, 2, 3]).await.unwrap();
    let mut answer = Vec::new();
    // Closed or reset, but without a word.
    let _ = soon("a close", rubbish.read_to_end(&mut answer)).await;
    assert!(answer.is_empty());
    house.end().await;
}

#[tokio::test]
async fn a_slow_handshake_is_cut_off() {
    let limit = Duration::from_millis(100);
    let house = Plan::new(app())
        .limits(|limits| limits.handshake = limit)
        .build()
        .await;
    let mut silent = TcpStream::connect(house.address).await.unwrap();
    let mut rest = Vec::new();
    let _ = soon("a close", silent.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
    house
        .until("interzone_tls_handshakes_total{outcome=\"too_slow\"} 1")
        .await;

    // One that has begun is no better.
    let mut slow = TcpStream::connect(house.address).await.unwrap();
    slow.write_all(&[0x16, 3, 1]).await.unwrap();
    let _ = soon("a close", slow.read_to_end(&mut rest)).await;
    house.end().await;
}

#[tokio::test]
async fn a_protocol_that_we_do_not_speak_is_refused() {
    let house = house().await;
    let caller = Caller {
        alpn: b"smtp",
        ..Caller::default()
    };
    match house.connect_by(&caller).await {
        Err(error) => assert!(
            error.to_string().contains("NoApplicationProtocol"),
            "{error}"
        ),
        Ok(mut stream) => assert_eq!(read_to_close(&mut stream).await, ""),
    }
    house.end().await;
}
