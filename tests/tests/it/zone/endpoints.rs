//! Endpoints besides JSON-RPC: agent card, OAuth metadata, health, metrics; and unknown paths.

use super::{URL, ZoneFixture};
use http::{Request, StatusCode};
use http_body_util::Full;
use interzone_client::{Client, Credentials};
use interzone_protocol::acp::AgentCard;
use interzone_protocol::acp::codes::AGENT_NOT_AVAILABLE;
use serde_json::{Value, json};

#[tokio::test]
async fn agent_card_lists_scopes_and_agents() {
    let world = ZoneFixture::new().await;
    let (status, headers, body) = world.get("/.well-known/agent.json", None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-type"], "application/json");
    let card: AgentCard = serde_json::from_str(&body).unwrap();
    assert_eq!(card.url, "https://zone.test/jsonrpc");
    assert_eq!(card.version.split('.').count(), 3);
    let authentication = card.authentication.unwrap();
    assert!(
        authentication
            .scopes
            .iter()
            .all(|scope| scope.starts_with("acp:"))
    );
    assert_eq!(authentication.scopes.len(), 7);
    let skills: Vec<String> = card
        .skills
        .unwrap()
        .into_iter()
        .map(|skill| skill.id)
        .collect();
    assert_eq!(skills, ["busy", "demo", "zz-broken"]);
}

#[tokio::test]
async fn endpoint_of_an_agent_is_the_default_of_its_tasks() {
    let world = ZoneFixture::new().await;
    let token = world.token("anna").await;
    let create = async |path: &str, params: Value| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.create", "params": params});
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"))
            .body(Full::from(call.to_string()))
            .unwrap();
        let (status, _, body) = world.send(request).await;
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    let message = json!({"role": "user", "parts": [{"type": "TextPart", "content": "hi"}]});
    let params = json!({"initialMessage": message});
    let (_, demo) = create("/agents/demo/jsonrpc", params.clone()).await;
    assert_eq!(demo["result"]["task"]["assignedAgent"], "demo");
    let (_, busy) = create("/agents/busy/jsonrpc", params.clone()).await;
    assert_eq!(busy["error"]["code"], AGENT_NOT_AVAILABLE.get());
    let named = json!({"initialMessage": message, "assignTo": "demo"});
    let (_, named) = create("/agents/busy/jsonrpc", named).await;
    assert_eq!(named["result"]["task"]["assignedAgent"], "demo");
    let (status, _) = create("/agents/none/jsonrpc", params).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn oauth_metadata_names_the_issuer() {
    let world = ZoneFixture::new().await;
    let (_, _, body) = world
        .get("/.well-known/oauth-protected-resource", None)
        .await;
    let metadata: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(metadata["resource"], URL);
    assert_eq!(metadata["authorization_servers"], json!([URL]));
    let (status, _, _) = world
        .get("/.well-known/oauth-authorization-server", None)
        .await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn readyz_returns_503_during_shutdown() {
    let world = ZoneFixture::new().await;
    let (_, _, body) = world.get("/health", None).await;
    assert_eq!(body, r#"{"agent":"Interzone","status":"healthy"}"#);
    assert_eq!(world.get("/healthz", None).await.0, StatusCode::OK);
    let (status, _, body) = world.get("/readyz", None).await;
    assert_eq!(
        (status, &*body),
        (StatusCode::OK, r#"{"reasons":[],"status":"ready"}"#)
    );
    world.stop.cancel();
    let (status, _, body) = world.get("/readyz", None).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body, r#"{"reasons":["closing"],"status":"not_ready"}"#);
}

#[tokio::test]
async fn readyz_checks_the_store_at_most_once_a_second() {
    let world = ZoneFixture::new().await;
    let start = std::time::Instant::now();
    let requests = (0..500).map(|_| world.get("/readyz", None));
    for (status, _, _) in futures_util::future::join_all(requests).await {
        assert_eq!(status, StatusCode::OK);
    }
    let max_checks = 1 + usize::try_from(start.elapsed().as_secs()).unwrap();
    let checks = world.store.call_count("check");
    assert!((1..=max_checks).contains(&checks), "{checks} checks");
}

#[tokio::test]
async fn metrics_require_the_operate_scope() {
    let world = ZoneFixture::new().await;
    let user = world.token("alice").await;
    let operator = world.token_with("op", &["interzone:operate"]).await;
    world.create_task(&user).await;
    assert_eq!(
        world.get("/metrics", None).await.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        world.get("/metrics", Some(&user)).await.0,
        StatusCode::FORBIDDEN
    );
    let (status, _, body) = world.get("/metrics", Some(&operator)).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        body.contains(r#"method="tasks.create",outcome="ok"} 1"#),
        "{body}"
    );
}

#[tokio::test]
async fn unknown_path_returns_404_and_wrong_verb_405() {
    let world = ZoneFixture::new().await;
    for path in ["/", "/tasks", "/jsonrpc/", "/console"] {
        let (status, _, body) = world.get(path, None).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(serde_json::from_str::<Value>(&body).unwrap()["error"].is_object());
    }
    let request = Request::post("/health").body(Full::default()).unwrap();
    let (status, headers, _) = world.send(request).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(headers["allow"].to_str().unwrap().contains("GET"));
}

#[tokio::test]
async fn client_works_over_the_in_process_transport() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let client = Client::builder(URL)
        .transport(std::sync::Arc::new(world.transport.clone()))
        .credentials(Credentials::Bearer(token.into()))
        .build()
        .unwrap();
    let list = client.tasks_list(&Default::default()).await.unwrap();
    assert!(list.tasks.is_empty());
}
