//! One contract test over every transport to a zone, and a zone as an agent of another zone.

#[cfg(feature = "aws")]
mod agentcore;
mod contract;
mod remote;
mod zone_fixture;

use std::sync::Arc;
use zone_fixture::TransportFixture;

#[tokio::test(flavor = "multi_thread")]
async fn in_process_transport_meets_contract() {
    let place = TransportFixture::with_demo_agent().await;
    contract::check(&place.in_process_client()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn https_transport_meets_contract() {
    let place = Arc::new(TransportFixture::with_demo_agent().await);
    let url = place.listen().await;
    contract::check(&place.https_client(&url)).await;
}
