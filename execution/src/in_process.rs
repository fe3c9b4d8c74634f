//! The zone as a transport of the SDK: calls from the same process, by the same doors, with a token like
//! any other.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http::Request;
use interzone_client::InProcess;
use std::sync::Arc;
use tower::ServiceExt;

/// A transport that leads into a router.
pub fn in_process(router: Router) -> InProcess {
    InProcess::new(Arc::new(move |request: Request<Bytes>| {
        let router = router.clone();
        Box::pin(async move {
            // A router always answers: its error has no values.
            let Ok(response) = router.oneshot(request.map(Body::from)).await;
            response.map(|body| body.into_data_stream().map_err(Into::into).boxed())
        })
    }))
}
