//! Authentication checks: ACP requires a bearer token with the exact scope on every call.

use super::check_result::{CheckFailure, CheckOutcome, Checks};
use super::http_client::{CheckClient, RequestIdentity};
use super::response::ServerResponse;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{StatusCode, header};
use interzone_protocol::Scope;
use interzone_protocol::acp::codes;
use reqwest::Method;
use serde_json::Value;

const ACP: &str = "ACP §5";
const OAUTH: &str = "RFC 6750 §3";

const CALL: &str =
    r#"{"jsonrpc":"2.0","method":"tasks.get","params":{"taskId":"interzone-check"},"id":1}"#;

pub(super) async fn check(probe: &CheckClient, out: &mut Checks) {
    out.group("authentication");
    let refused = probe.post_as(RequestIdentity::Anonymous, CALL).await;
    let found = refused
        .as_ref()
        .map_err(Clone::clone)
        .and_then(is_unauthenticated);
    out.record("refused: no token", ACP, found);
    let found = refused
        .map_err(|flaw| flaw.clone())
        .and_then(|answer| challenge(&answer));
    out.record("401 has a WWW-Authenticate challenge", OAUTH, found);
    let forged = [
        ("a malformed token", "Bearer rubbish".to_owned()),
        (
            "a token without a signature",
            format!("Bearer {}", forge_jwt("none", "")),
        ),
        (
            "a token with a forged signature",
            format!("Bearer {}", forge_jwt("HS256", "Z3Vlc3M")),
        ),
        ("an empty token", "Bearer ".to_owned()),
        ("another scheme", "Basic YTpi".to_owned()),
    ];
    for (name, header) in forged {
        let answer = probe.post_as(RequestIdentity::Header(&header), CALL).await;
        let found = answer
            .as_ref()
            .map_err(Clone::clone)
            .and_then(is_unauthenticated);
        out.record(format!("refused: {name}"), ACP, found);
    }
    out.record(
        "a token in the query string is ignored",
        "ACP §1",
        query_token_is_ignored(probe).await,
    );
    out.record(
        "a token without the scope is refused",
        ACP,
        missing_scope_is_refused(probe).await,
    );
    if let Some(lacking) = probe.lacking.as_ref().filter(|lacking| !lacking.is_empty()) {
        let found = Err(CheckFailure::skipped(format!(
            "the token is missing {}; checks that need it are skipped; use a client that has it",
            lacking.join(", ")
        )));
        out.record("methods of all scopes", ACP, found);
    }
    let found = resource_metadata(probe).await;
    out.record("OAuth protected resource metadata", "RFC 9728 §3", found);
}

/// Builds a well-formed token that no issuer has issued.
fn forge_jwt(algorithm: &str, signature: &str) -> String {
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    let head = part(format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#));
    let claims = part(
        r#"{"sub":"interzone-check","scope":"acp:agent:identify acp:tasks:read","exp":4102444800}"#
            .to_owned(),
    );
    format!("{head}.{claims}.{signature}")
}

/// Checks that an unauthenticated caller is refused.
fn is_unauthenticated(answer: &ServerResponse) -> CheckOutcome {
    let reply = answer.refused_with(&[codes::AUTHENTICATION_FAILED])?;
    match answer.status {
        StatusCode::UNAUTHORIZED => Ok(format!("HTTP 401, {reply}")),
        StatusCode::OK => Err(CheckFailure::warning(format!(
            "HTTP 200, {reply}; should be 401, which proxies understand too"
        ))),
        status => Err(CheckFailure::violation(format!(
            "HTTP {}, {reply}",
            status.as_u16()
        ))),
    }
}

fn challenge(answer: &ServerResponse) -> CheckOutcome {
    match answer.header(header::WWW_AUTHENTICATE) {
        Some(value) if value.to_ascii_lowercase().starts_with("bearer") => {
            Ok("WWW-Authenticate: Bearer".to_owned())
        }
        Some(_) => Err(CheckFailure::violation(
            "WWW-Authenticate names a different scheme",
        )),
        None if answer.status == StatusCode::OK => Err(CheckFailure::skipped(
            "the server responds with HTTP 200 to everything",
        )),
        None => Err(CheckFailure::violation("no WWW-Authenticate header")),
    }
}

/// Checks that a token in the query string is ignored: URLs end up in logs.
async fn query_token_is_ignored(probe: &CheckClient) -> CheckOutcome {
    probe.require_token()?;
    let mut url = probe.endpoint.clone();
    if let Some(token) = &probe.token {
        url.query_pairs_mut()
            .append_pair("access_token", token.expose());
    }
    let request = probe
        .request(Method::POST, url, RequestIdentity::Anonymous)
        .header(header::CONTENT_TYPE, "application/json")
        .body(CALL);
    is_unauthenticated(&probe.send(request).await?)
}

async fn missing_scope_is_refused(probe: &CheckClient) -> CheckOutcome {
    let Some(token) = &probe.narrow else {
        return Err(CheckFailure::skipped(
            "needs a token without the scope: pass --client-id and \
             --client-secret-file",
        ));
    };
    let header = format!("Bearer {}", token.expose());
    let answer = probe
        .post_as(RequestIdentity::Header(&header), CALL)
        .await?;
    let reply = answer.refused_with(&[codes::INSUFFICIENT_SCOPE])?;
    let error = answer.error()?;
    let required = error
        .get("data")
        .and_then(|data| data.get("requiredScopes"));
    let named = required.and_then(Value::as_array).is_some_and(|scopes| {
        scopes
            .iter()
            .any(|scope| scope.as_str() == Some(Scope::TasksRead.name()))
    });
    if !named {
        return Err(CheckFailure::warning(format!(
            "{reply}; data.requiredScopes does not name {}",
            Scope::TasksRead.name()
        )));
    }
    Ok(reply)
}

async fn resource_metadata(probe: &CheckClient) -> CheckOutcome {
    let answer = probe
        .get(
            "/.well-known/oauth-protected-resource",
            RequestIdentity::Anonymous,
        )
        .await?;
    if answer.status != StatusCode::OK {
        return Err(CheckFailure::warning(
            "/.well-known/oauth-protected-resource does not exist",
        ));
    }
    let json = answer.json()?;
    let has = |name: &str| json.get(name).is_some_and(|value| !value.is_null());
    if !has("resource") {
        return Err(CheckFailure::violation("the metadata has no `resource`"));
    }
    if !has("authorization_servers") {
        return Err(CheckFailure::warning(
            "the metadata has no `authorization_servers`",
        ));
    }
    Ok(String::new())
}
