//! The client of the ACP Python SDK, as it is published, keeps all its own checks against the zone.

use super::peers::run_python;
use super::web::{Web, answer};
use super::zone::Setup;

async fn every_method(always_200: bool) {
    let receiver = Web::start(|_| answer(200, "{}")).await;
    let setup = Setup::new().allow(receiver.address);
    let zone = setup.set("execution.always_200", always_200).start().await;
    let issuer = &zone.world.issuer;
    let arguments = [
        zone.url.clone(),
        issuer.token("anna"),
        issuer.token("bert"),
        issuer.scoped("anna", "acp:agent:identify acp:tasks:read"),
        issuer.expired("anna"),
        format!("http://{}/hook", receiver.address),
        if always_200 {
            "always-200"
        } else {
            "exact-status"
        }
        .to_owned(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let told = run_python("sdk_client.py", &arguments, &zone.world.ca(), "").await;
    assert!(told.contains("every method kept its word"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_client_is_served_in_every_method() {
    every_method(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_client_sees_every_code_when_the_status_is_always_200() {
    every_method(true).await;
}
