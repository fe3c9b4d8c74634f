//! In-process SDK transport: calls go through the same routes and need a token like any other.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http::Request;
use interzone_client::InProcess;
use std::sync::Arc;
use tower::ServiceExt;

/// Creates a transport that sends requests to a router.
pub fn in_process(router: Router) -> InProcess {
    InProcess::new(Arc::new(move |request: Request<Bytes>| {
        let router = router.clone();
        Box::pin(async move {
            // The router's error type is `Infallible`.
            let Ok(response) = router.oneshot(request.map(Body::from)).await;
            response.map(|body| body.into_data_stream().map_err(Into::into).boxed())
        })
    }))
}
