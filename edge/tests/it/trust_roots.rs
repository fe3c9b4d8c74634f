//! Trust roots of egress over real TLS.

use crate::fixture::ListenerSetup;
use axum::{Router, routing::post};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use interzone_edge::egress::{Egress, EgressError, EgressLimits, EgressOptions};
use interzone_edge::tls::TrustRoots;

#[tokio::test]
async fn egress_allow_list_does_not_bypass_tls() {
    let app = Router::new().route("/hook", post(|body: Bytes| async move { body }));
    let server = ListenerSetup::new(app).start().await;
    let call = async |trust: TrustRoots| {
        let egress = Egress::new(&EgressOptions {
            allow: vec![format!("localhost:{}", server.address.port())],
            trust,
            ..EgressOptions::default()
        });
        let body = Bytes::from_static(b"{}");
        let limits = EgressLimits::default();
        let egress = egress.unwrap();
        egress
            .post(&server.url("/hook"), HeaderMap::new(), body, limits)
            .await
    };
    let ours = TrustRoots::system_and_files(std::slice::from_ref(&server.files.ca)).unwrap();
    let reply = call(ours).await.unwrap();
    assert_eq!((reply.status, &*reply.body), (StatusCode::OK, &b"{}"[..]));
    let refused = call(TrustRoots::system()).await.unwrap_err();
    assert!(
        matches!(refused, EgressError::Unreachable(_)),
        "{refused:?}"
    );
    server.shut_down().await;
}
