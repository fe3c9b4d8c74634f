//! The published ACP Python SDK client passes all its own checks against the zone.

use super::mock_server::{MockServer, json_response};
use super::peers::run_python;
use super::zone_process::ZoneBuilder;

async fn run_sdk_client(always_200: bool) {
    let receiver = MockServer::start(|_| json_response(200, "{}")).await;
    let setup = ZoneBuilder::new().allow(receiver.address);
    let zone = setup.set("execution.always_200", always_200).start().await;
    let issuer = &zone.env.issuer;
    let arguments = [
        zone.url.clone(),
        issuer.token("anna"),
        issuer.token("bert"),
        issuer.token_with_scope("anna", "acp:agent:identify acp:tasks:read"),
        issuer.expired_token("anna"),
        format!("http://{}/hook", receiver.address),
        if always_200 {
            "always-200"
        } else {
            "exact-status"
        }
        .to_owned(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = run_python("sdk_client.py", &arguments, &zone.env.ca(), "").await;
    assert!(output.contains("every method passed"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_client_can_call_every_method() {
    run_sdk_client(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_client_reads_error_codes_with_always_200() {
    run_sdk_client(true).await;
}
