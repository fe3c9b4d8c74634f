//! Agent cards, in the shape that the caller can read.

use super::A2aZone;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};

async fn get(
    zone: &A2aZone,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, HeaderMap, Value) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(http_body_util::Full::new(Bytes::new()))
        .unwrap();
    let (status, headers, body) = zone.zone.send(request).await;
    (
        status,
        headers,
        serde_json::from_str(&body).unwrap_or_default(),
    )
}

#[tokio::test]
async fn card_has_the_shape_of_the_requested_version() {
    let zone = A2aZone::new().await;
    let path = "/.well-known/agent-card.json";
    let url = json!("https://zone.test/a2a");
    let (status, headers, hybrid) = get(&zone, path, &[]).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["vary"], "A2A-Version");
    assert_eq!(
        (&hybrid["url"], &hybrid["supportedInterfaces"][0]["url"]),
        (&url, &url)
    );
    let (_, _, v1) = get(&zone, path, &[("A2A-Version", "1.0")]).await;
    assert_eq!(v1.get("url"), None);
    let versions = v1["supportedInterfaces"].as_array().unwrap().iter();
    let versions: Vec<_> = versions
        .map(|interface| &interface["protocolVersion"])
        .collect();
    assert_eq!(versions, ["1.0", "0.3"]);
    assert_eq!(
        v1["capabilities"],
        json!({"streaming": true, "pushNotifications": false, "extendedAgentCard": false})
    );
    let (_, _, v03) = get(&zone, path, &[("A2A-Version", "0.3")]).await;
    assert_eq!(
        (&v03["url"], &v03["protocolVersion"]),
        (&url, &json!("0.3.0"))
    );
    assert_eq!(v03.get("supportedInterfaces"), None);

    let tag = headers["etag"].to_str().unwrap();
    let (status, _, _) = get(&zone, path, &[("if-none-match", tag)]).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn every_agent_has_a_card_with_its_own_url() {
    let zone = A2aZone::new().await;
    let (_, _, card) = get(
        &zone,
        "/agents/maker/.well-known/agent-card.json?A2A-Version=0.3",
        &[],
    )
    .await;
    assert_eq!(
        (&card["name"], &card["url"]),
        (
            &json!("maker"),
            &json!("https://zone.test/agents/maker/a2a")
        )
    );
    assert_eq!(card["skills"][0]["id"], "maker");
    let (status, _, _) = get(&zone, "/agents/unknown/.well-known/agent-card.json", &[]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
