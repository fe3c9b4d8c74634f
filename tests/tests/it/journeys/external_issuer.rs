//! Tokens of a certified OIDC server: keys of three kinds, key rotation, introspection of opaque tokens, and a login.

use super::cli::run_ok;
use super::peers::{OidcServer, run_python};
use super::rpc::HttpReply;
use super::tokens::EVERY_SCOPE;
use super::zone_process::{ZoneBuilder, ZoneProcess};
use interzone_client::{Client, ClientCredentials, Login, WatchEvent};
use serde_json::{Value, json};

const RESOURCE: &str = "https://acp.test";
const OPAQUE: &str = "https://opaque.test";

/// Zone that accepts the tokens of this server.
fn zone_for(oidc: &OidcServer) -> ZoneBuilder {
    ZoneBuilder::new()
        .without_issuer()
        .set("oauth.issuer", oidc.issuer.clone())
        .set("oauth.jwks_url", format!("{}/jwks.json", oidc.issuer))
        .set("oauth.audience", RESOURCE)
}

fn percent_encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Requests a token by client credentials.
pub(super) async fn client_credentials_token(
    oidc: &OidcServer,
    client: &str,
    resource: &str,
    scope: &str,
) -> Value {
    let form = format!(
        "grant_type=client_credentials&client_id={client}&client_secret={}&resource={}&scope={}",
        percent_encode(&format!("secret of {client}")),
        percent_encode(resource),
        percent_encode(scope)
    );
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = request
        .post(format!("{}/token", oidc.issuer))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form);
    let reply = HttpReply::read(request.send().await.unwrap()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

async fn assert_token_works(zone: &ZoneProcess, token: &Value) {
    let token = token["access_token"].as_str().unwrap();
    let id = zone.create_task(token, "demo", "echo hello").await;
    assert_eq!(zone.wait_for_task(token, &id).await["status"], "COMPLETED");
}

#[tokio::test(flavor = "multi_thread")]
async fn external_tokens_are_accepted_across_key_rotation() {
    let mut oidc = OidcServer::start();
    let zone = zone_for(&oidc).start().await;
    let mut old = Vec::new();
    for client in ["rs256", "es256", "eddsa"] {
        let made = client_credentials_token(&oidc, client, RESOURCE, EVERY_SCOPE).await;
        assert_token_works(&zone, &made).await;
        old.push(made);
    }
    // A client does not see another client's task.
    let id = zone
        .create_task(
            old[0]["access_token"].as_str().unwrap(),
            "demo",
            "echo mine",
        )
        .await;
    let other = old[1]["access_token"].as_str().unwrap();
    assert_eq!(
        zone.call_error(other, "tasks.get", json!({"taskId": id}))
            .await
            .0,
        -40001
    );

    // The server silently drops an unknown scope, which the zone then reports as missing.
    let less = client_credentials_token(
        &oidc,
        "rs256",
        RESOURCE,
        "acp:agent:identify acp:tasks:everything",
    )
    .await;
    assert_eq!(less["scope"], "acp:agent:identify");
    let less = less["access_token"].as_str().unwrap();
    let reply = zone
        .send_call(less, "tasks.get", json!({"taskId": id}))
        .await;
    assert_eq!((reply.status, reply.code()), (403, -40008));
    let data = &reply.json()["error"]["data"];
    assert_eq!(data["providedScopes"], json!(["acp:agent:identify"]));

    // New keys: an unknown key id makes the zone fetch the keys again.
    oidc.rotate();
    for client in ["rs256", "es256", "eddsa"] {
        assert_token_works(
            &zone,
            &client_credentials_token(&oidc, client, RESOURCE, EVERY_SCOPE).await,
        )
        .await;
    }
    // A token for another resource is rejected, valid or not.
    let opaque = client_credentials_token(&oidc, "rs256", OPAQUE, EVERY_SCOPE).await;
    let reply = zone
        .send_call(
            opaque["access_token"].as_str().unwrap(),
            "tasks.get",
            json!({"taskId": id}),
        )
        .await;
    assert_eq!((reply.status, reply.code()), (401, -40007));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_with_few_scopes_gets_a_token() {
    let oidc = OidcServer::start();
    let zone = zone_for(&oidc).start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("few.secret"), "secret of few").unwrap();
    let ca = zone.env.ca();
    let ca = ca.to_str().unwrap();
    let proof = ["--client-id", "few", "--client-secret-file", "few.secret"];
    let token = ["token", "--url", &zone.url, "--ca", ca];
    let token = run_ok(folder.path(), &[&token[..], &proof].concat()).await;
    let reply = zone.send_call(token.trim(), "tasks.get", json!({"taskId": "x"}));
    assert_eq!(reply.await.code(), -40001, "it may read");
    let check = ["check", &zone.url, "--ca", ca];
    let report = run_ok(folder.path(), &[&check[..], &proof].concat()).await;
    assert!(
        report.contains("the token is missing acp:tasks:write ["),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn opaque_tokens_are_introspected() {
    let oidc = OidcServer::start();
    let zone = zone_for(&oidc)
        .set(
            "oauth.audience",
            vec![RESOURCE.to_owned(), OPAQUE.to_owned()],
        )
        .set(
            "oauth.introspection.url",
            format!("{}/token/introspection", oidc.issuer),
        )
        .set("oauth.introspection.client_id", "zone")
        .set("oauth.introspection.secret", "secret of zone")
        .start()
        .await;
    let made = client_credentials_token(&oidc, "rs256", OPAQUE, EVERY_SCOPE).await;
    assert!(
        !made["access_token"].as_str().unwrap().contains('.'),
        "it is opaque"
    );
    assert_token_works(&zone, &made).await;
    let weak = client_credentials_token(&oidc, "rs256", OPAQUE, "acp:agent:identify").await;
    let weak = weak["access_token"].as_str().unwrap();
    assert_eq!(
        zone.call_error(weak, "tasks.get", json!({"taskId": "x"}))
            .await
            .0,
        -40008
    );
    let reply = zone
        .send_call(
            "bm90LWEtdG9rZW4tb2YtYW55Ym9keQ",
            "tasks.get",
            json!({"taskId": "x"}),
        )
        .await;
    assert_eq!((reply.status, reply.code()), (401, -40007));
    // JWTs still work.
    assert_token_works(
        &zone,
        &client_credentials_token(&oidc, "es256", RESOURCE, EVERY_SCOPE).await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_discovered_from_the_issuer() {
    let oidc = OidcServer::start();
    let zone = ZoneBuilder::new()
        .without_issuer()
        .set("oauth.issuer", oidc.issuer.clone())
        .set("oauth.audience", RESOURCE)
        .start()
        .await;
    assert_token_works(
        &zone,
        &client_credentials_token(&oidc, "es256", RESOURCE, EVERY_SCOPE).await,
    )
    .await;
}

/// SDK client, which discovers the authorization server by itself.
fn sdk_client(zone: &ZoneProcess) -> Client {
    Client::builder(&zone.url)
        .ca_file(zone.env.ca())
        .allow_http(true)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_discovers_server_and_gets_token() {
    let oidc = OidcServer::start();
    let zone = zone_for(&oidc).start().await;
    let credentials = ClientCredentials::new("es256", "secret of es256").resource(RESOURCE);
    let client = sdk_client(&zone).with_credentials(credentials);
    let params =
        json!({"initialMessage": super::zone_process::user_message("echo hi"), "assignTo": "demo"});
    let made = client.call_raw("tasks.create", &params).await.unwrap();
    let made: Value = made.decode().unwrap();
    let mut watch = client.watch_task(made["task"]["taskId"].as_str().unwrap(), None);
    let mut completed = false;
    while let Some(event) = watch.next().await {
        completed |= matches!(event.unwrap(), WatchEvent::Completed(_));
    }
    assert!(completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_logs_in_through_browser() {
    let oidc = OidcServer::start();
    let zone = zone_for(&oidc).start().await;
    let client = sdk_client(&zone);
    let login = Login::new("desktop")
        .scopes(EVERY_SCOPE.split_whitespace())
        .resource(RESOURCE);
    let ca = zone.env.ca();
    let mut browser = None;
    let session = client.login(&login, |url| {
        let page = url.to_string();
        browser = Some(tokio::spawn(async move {
            let arguments = [page.as_str(), "login=anna", "password=anything"];
            run_python("browser.py", &arguments, &ca, "").await
        }));
    });
    let session = super::within_timeout("the login", session).await.unwrap();
    let landed = browser.unwrap().await.unwrap();
    assert!(landed.starts_with("http://127.0.0.1:"), "{landed}");
    let token = session.access_token().unwrap();
    let id = zone.create_task(token.expose(), "demo", "echo hello").await;
    let task = zone.wait_for_task(token.expose(), &id).await;
    assert_eq!(task["status"], "COMPLETED");
    // The caller is the user who logged in, not the program.
    let client = client.with_credentials(session);
    let mine = client
        .call_raw("tasks.get", &json!({"taskId": id}))
        .await
        .unwrap();
    let mine: Value = mine.decode().unwrap();
    assert_eq!(mine["task"]["taskId"], id.as_str());
}
