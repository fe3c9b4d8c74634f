//! Who is let in: ACP asks for a bearer token on every call, and for exact scopes.

use super::answer::Answer;
use super::probe::{As, Probe};
use super::verdict::{Checks, Finding, Flaw};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{StatusCode, header};
use interzone_protocol::acp::{Scope, codes};
use reqwest::Method;
use serde_json::Value;

const ACP: &str = "ACP §5";
const OAUTH: &str = "RFC 6750 §3";

const CALL: &str =
    r#"{"jsonrpc":"2.0","method":"tasks.get","params":{"taskId":"interzone-check"},"id":1}"#;

pub(super) async fn check(probe: &Probe, out: &mut Checks) {
    out.group("authentication");
    let refused = probe.post_as(As::Nobody, CALL).await;
    let found = refused
        .as_ref()
        .map_err(Clone::clone)
        .and_then(unknown_caller);
    out.note("refused: no token", ACP, found);
    let found = refused
        .map_err(|flaw| flaw.clone())
        .and_then(|answer| challenge(&answer));
    out.note("the refusal says what is wanted", OAUTH, found);
    let forged = [
        ("a token that is rubbish", "Bearer rubbish".to_owned()),
        (
            "a token without a signature",
            format!("Bearer {}", jwt("none", "")),
        ),
        (
            "a token signed with a guess",
            format!("Bearer {}", jwt("HS256", "Z3Vlc3M")),
        ),
        ("an empty token", "Bearer ".to_owned()),
        ("another scheme", "Basic YTpi".to_owned()),
    ];
    for (name, header) in forged {
        let answer = probe.post_as(As::Header(&header), CALL).await;
        let found = answer
            .as_ref()
            .map_err(Clone::clone)
            .and_then(unknown_caller);
        out.note(format!("refused: {name}"), ACP, found);
    }
    out.note(
        "a token in the address is not taken",
        "ACP §1",
        in_query(probe).await,
    );
    out.note("a missing scope is refused", ACP, narrow(probe).await);
    if let Some(lacking) = probe.lacking.as_ref().filter(|lacking| !lacking.is_empty()) {
        let found = Err(Flaw::unseen(format!(
            "the token lacks {}, so what takes that is left out; name a client that may have it",
            lacking.join(", ")
        )));
        out.note("what every scope lets one do", ACP, found);
    }
    let found = metadata(probe).await;
    out.note("tells who issues its tokens", "RFC 9728 §3", found);
}

/// A token of the right shape that nobody issued.
fn jwt(algorithm: &str, signature: &str) -> String {
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    let head = part(format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#));
    let claims = part(
        r#"{"sub":"interzone-check","scope":"acp:agent:identify acp:tasks:read","exp":4102444800}"#
            .to_owned(),
    );
    format!("{head}.{claims}.{signature}")
}

/// That a caller who proved nothing is told so.
fn unknown_caller(answer: &Answer) -> Finding {
    let words = answer.refused_with(&[codes::AUTHENTICATION_FAILED])?;
    match answer.status {
        StatusCode::UNAUTHORIZED => Ok(format!("HTTP 401, {words}")),
        StatusCode::OK => Err(Flaw::poor(format!(
            "HTTP 200, {words}; 401 tells proxies too"
        ))),
        status => Err(Flaw::broken(format!("HTTP {}, {words}", status.as_u16()))),
    }
}

fn challenge(answer: &Answer) -> Finding {
    match answer.header(header::WWW_AUTHENTICATE) {
        Some(value) if value.to_ascii_lowercase().starts_with("bearer") => {
            Ok("WWW-Authenticate: Bearer".to_owned())
        }
        Some(_) => Err(Flaw::broken("WWW-Authenticate names another scheme")),
        None if answer.status == StatusCode::OK => {
            Err(Flaw::unseen("the server answers HTTP 200 to everything"))
        }
        None => Err(Flaw::broken("there is no WWW-Authenticate")),
    }
}

/// Addresses are written to logs everywhere.
async fn in_query(probe: &Probe) -> Finding {
    probe.need_token()?;
    let mut url = probe.endpoint.clone();
    if let Some(token) = &probe.token {
        url.query_pairs_mut()
            .append_pair("access_token", token.expose());
    }
    let request = probe
        .request(Method::POST, url, As::Nobody)
        .header(header::CONTENT_TYPE, "application/json")
        .body(CALL);
    unknown_caller(&probe.send(request).await?)
}

async fn narrow(probe: &Probe) -> Finding {
    let Some(token) = &probe.narrow else {
        return Err(Flaw::unseen(
            "it takes a token without the scope, and there is none: give --client-id and \
             --client-secret-file",
        ));
    };
    let header = format!("Bearer {}", token.expose());
    let answer = probe.post_as(As::Header(&header), CALL).await?;
    let words = answer.refused_with(&[codes::INSUFFICIENT_SCOPE])?;
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
        return Err(Flaw::poor(format!(
            "{words}, and data.requiredScopes does not name {}",
            Scope::TasksRead.name()
        )));
    }
    Ok(words)
}

async fn metadata(probe: &Probe) -> Finding {
    let answer = probe
        .get("/.well-known/oauth-protected-resource", As::Nobody)
        .await?;
    if answer.status != StatusCode::OK {
        return Err(Flaw::poor(
            "there is no /.well-known/oauth-protected-resource",
        ));
    }
    let json = answer.json()?;
    let has = |name: &str| json.get(name).is_some_and(|value| !value.is_null());
    if !has("resource") {
        return Err(Flaw::broken("its metadata lacks `resource`"));
    }
    if !has("authorization_servers") {
        return Err(Flaw::poor("its metadata lacks `authorization_servers`"));
    }
    Ok(String::new())
}
