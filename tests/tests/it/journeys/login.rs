//! Tokens of a certified OAuth2 server: keys of three kinds, new keys, tokens that must be asked about,
//! and a person who logs in.

use super::newcomer::prints;
use super::peers::{Oidc, run_python};
use super::tokens::EVERY_SCOPE;
use super::wire::Reply;
use super::zone::{Setup, Zone};
use interzone_client::{Client, ClientCredentials, Login, Watched};
use serde_json::{Value, json};

const RESOURCE: &str = "https://acp.test";
const OPAQUE: &str = "https://opaque.test";

/// A zone that takes the tokens of this server.
fn setup(oidc: &Oidc) -> Setup {
    Setup::new()
        .without_issuer()
        .set("oauth.issuer", oidc.issuer.clone())
        .set("oauth.jwks_url", format!("{}/jwks.json", oidc.issuer))
        .set("oauth.audience", RESOURCE)
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// A token by client credentials, as the server gives it.
pub(super) async fn token(oidc: &Oidc, client: &str, resource: &str, scope: &str) -> Value {
    let form = format!(
        "grant_type=client_credentials&client_id={client}&client_secret={}&resource={}&scope={}",
        encoded(&format!("secret of {client}")),
        encoded(resource),
        encoded(scope)
    );
    let request = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = request
        .post(format!("{}/token", oidc.issuer))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form);
    let reply = Reply::read(request.send().await.unwrap()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

async fn works(zone: &Zone, token: &Value) {
    let token = token["access_token"].as_str().unwrap();
    let id = zone.create(token, "demo", "echo hello").await;
    assert_eq!(zone.finished(token, &id).await["status"], "COMPLETED");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_certified_server_are_taken() {
    let mut oidc = Oidc::start();
    let zone = setup(&oidc).start().await;
    let mut old = Vec::new();
    for client in ["rs256", "es256", "eddsa"] {
        let made = token(&oidc, client, RESOURCE, EVERY_SCOPE).await;
        works(&zone, &made).await;
        old.push(made);
    }
    // What one client made, another does not see.
    let id = zone
        .create(
            old[0]["access_token"].as_str().unwrap(),
            "demo",
            "echo mine",
        )
        .await;
    let other = old[1]["access_token"].as_str().unwrap();
    assert_eq!(
        zone.refused(other, "tasks.get", json!({"taskId": id}))
            .await
            .0,
        -40001
    );

    // The server drops a scope that it does not know without a word; the zone then misses it.
    let less = token(
        &oidc,
        "rs256",
        RESOURCE,
        "acp:agent:identify acp:tasks:everything",
    )
    .await;
    assert_eq!(less["scope"], "acp:agent:identify");
    let less = less["access_token"].as_str().unwrap();
    let reply = zone.ask(less, "tasks.get", json!({"taskId": id})).await;
    assert_eq!((reply.status, reply.code()), (403, -40008));
    let data = &reply.json()["error"]["data"];
    assert_eq!(data["providedScopes"], json!(["acp:agent:identify"]));

    // New keys: a name that is not known makes the zone look again.
    oidc.rotate();
    for client in ["rs256", "es256", "eddsa"] {
        works(&zone, &token(&oidc, client, RESOURCE, EVERY_SCOPE).await).await;
    }
    // A token for another resource is not for us, whatever else it is.
    let opaque = token(&oidc, "rs256", OPAQUE, EVERY_SCOPE).await;
    let reply = zone
        .ask(
            opaque["access_token"].as_str().unwrap(),
            "tasks.get",
            json!({"taskId": id}),
        )
        .await;
    assert_eq!((reply.status, reply.code()), (401, -40007));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_may_little_gets_a_token_for_that() {
    let oidc = Oidc::start();
    let zone = setup(&oidc).start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("few.secret"), "secret of few").unwrap();
    let ca = zone.world.ca();
    let ca = ca.to_str().unwrap();
    let proof = ["--client-id", "few", "--client-secret-file", "few.secret"];
    let token = ["token", "--url", &zone.url, "--ca", ca];
    let token = prints(folder.path(), &[&token[..], &proof].concat()).await;
    let reply = zone.ask(token.trim(), "tasks.get", json!({"taskId": "x"}));
    assert_eq!(reply.await.code(), -40001, "it may read");
    let check = ["check", &zone.url, "--ca", ca];
    let told = prints(folder.path(), &[&check[..], &proof].concat()).await;
    assert!(told.contains("the token lacks acp:tasks:write ["), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_no_jwts_are_asked_about() {
    let oidc = Oidc::start();
    let zone = setup(&oidc)
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
    let made = token(&oidc, "rs256", OPAQUE, EVERY_SCOPE).await;
    assert!(
        !made["access_token"].as_str().unwrap().contains('.'),
        "it is opaque"
    );
    works(&zone, &made).await;
    let weak = token(&oidc, "rs256", OPAQUE, "acp:agent:identify").await;
    let weak = weak["access_token"].as_str().unwrap();
    assert_eq!(
        zone.refused(weak, "tasks.get", json!({"taskId": "x"}))
            .await
            .0,
        -40008
    );
    let reply = zone
        .ask(
            "bm90LWEtdG9rZW4tb2YtYW55Ym9keQ",
            "tasks.get",
            json!({"taskId": "x"}),
        )
        .await;
    assert_eq!((reply.status, reply.code()), (401, -40007));
    // JWTs go on as before.
    works(&zone, &token(&oidc, "es256", RESOURCE, EVERY_SCOPE).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_found_by_the_issuer_alone() {
    let oidc = Oidc::start();
    let zone = Setup::new()
        .without_issuer()
        .set("oauth.issuer", oidc.issuer.clone())
        .set("oauth.audience", RESOURCE)
        .start()
        .await;
    works(&zone, &token(&oidc, "es256", RESOURCE, EVERY_SCOPE).await).await;
}

/// Our own SDK, which has to find out about the server by itself.
fn sdk(zone: &Zone) -> Client {
    Client::builder(&zone.url)
        .ca_file(zone.world.ca())
        .allow_http(true)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sdk_finds_the_server_and_gets_a_token() {
    let oidc = Oidc::start();
    let zone = setup(&oidc).start().await;
    let credentials = ClientCredentials::new("es256", "secret of es256").resource(RESOURCE);
    let client = sdk(&zone).with_credentials(credentials);
    let params = json!({"initialMessage": super::zone::said("echo hi"), "assignTo": "demo"});
    let made = client.call_raw("tasks.create", &params).await.unwrap();
    let made: Value = made.decode().unwrap();
    let mut watch = client.watch_task(made["task"]["taskId"].as_str().unwrap(), None);
    let mut completed = false;
    while let Some(event) = watch.next().await {
        completed |= matches!(event.unwrap(), Watched::Completed(_));
    }
    assert!(completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_logs_in_through_a_browser() {
    let oidc = Oidc::start();
    let zone = setup(&oidc).start().await;
    let client = sdk(&zone);
    let login = Login::new("desktop")
        .scopes(EVERY_SCOPE.split_whitespace())
        .resource(RESOURCE);
    let ca = zone.world.ca();
    let mut browser = None;
    let session = client.login(&login, |url| {
        let page = url.to_string();
        browser = Some(tokio::spawn(async move {
            let arguments = [page.as_str(), "login=anna", "password=anything"];
            run_python("browser.py", &arguments, &ca, "").await
        }));
    });
    let session = super::soon("the login", session).await.unwrap();
    let landed = browser.unwrap().await.unwrap();
    assert!(landed.starts_with("http://127.0.0.1:"), "{landed}");
    let token = session.access_token().unwrap();
    let id = zone.create(token.expose(), "demo", "echo hello").await;
    let task = zone.finished(token.expose(), &id).await;
    assert_eq!(task["status"], "COMPLETED");
    // The person is who logged in, not the program.
    let client = client.with_credentials(session);
    let mine = client
        .call_raw("tasks.get", &json!({"taskId": id}))
        .await
        .unwrap();
    let mine: Value = mine.decode().unwrap();
    assert_eq!(mine["task"]["taskId"], id.as_str());
}
