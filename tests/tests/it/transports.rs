//! One contract over every way to a zone, and a zone as an agent of another.

mod agentcore;
mod contract;
mod place;
mod remote;

use place::Place;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_in_process() {
    let place = Place::demo().await;
    contract::holds(&place.in_process()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_over_https() {
    let place = Arc::new(Place::demo().await);
    let url = place.listen().await;
    contract::holds(&place.https(&url)).await;
}
