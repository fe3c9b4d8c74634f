//! Token endpoint discovery: the peer's protected-resource metadata (RFC 9728) name the authorization
//! server, whose own metadata (RFC 8414) name the endpoints. A peer without metadata may still name its token
//! endpoint when it rejects a call.

use super::token_endpoint::{MAX_RESPONSE, TokenEndpoint};
use crate::error::{Error, TokenError};
use crate::http_exchange::{Deadline, HttpReply};
use crate::response;
use crate::retry::{self, Idempotency};
use bytes::Bytes;
use http::{StatusCode, header};
use interzone_jsonrpc::{MethodName, RawJson, Request};
use interzone_protocol::acp::{Method, TasksGetParams};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use url::Url;

/// Time limit per document.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The endpoints of an authorization server.
#[derive(Clone, Debug)]
pub(crate) struct AuthServerMetadata {
    pub(crate) issuer: Option<String>,
    pub(crate) token_url: Url,
    pub(crate) authorize_url: Option<Url>,
    /// True if the server accepts the client secret in the body only.
    pub(crate) secret_in_body: bool,
    /// True if the server sends `iss` in the redirect (RFC 9207).
    pub(crate) sends_iss: bool,
}

#[derive(Deserialize)]
struct ProtectedResourceDocument {
    #[serde(default)]
    authorization_servers: Vec<String>,
}

#[derive(Deserialize)]
struct AuthServerDocument {
    issuer: String,
    token_endpoint: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// Discovers the authorization server of the peer.
pub(super) async fn discover(issuer: &TokenEndpoint) -> Result<AuthServerMetadata, Error> {
    let mut root = issuer.base.clone();
    root.set_path("");
    let mut urls = vec![well_known(&issuer.base, "oauth-protected-resource")];
    let at_root = well_known(&root, "oauth-protected-resource");
    if !urls.contains(&at_root) {
        urls.push(at_root);
    }
    for url in urls {
        if let Some(resource) = fetch_document::<ProtectedResourceDocument>(issuer, &url).await? {
            let Some(server) = resource.authorization_servers.first() else {
                return Err(TokenError::NoEndpoint.into());
            };
            return fetch_server_metadata(issuer, server).await;
        }
    }
    let url = token_url_from_error(issuer).await?;
    Ok(AuthServerMetadata {
        issuer: None,
        token_url: issuer.require_secure(&url)?,
        authorize_url: None,
        secret_in_body: false,
        sends_iss: false,
    })
}

/// Fetches the metadata of an authorization server.
pub(super) async fn fetch_server_metadata(
    issuer: &TokenEndpoint,
    server: &str,
) -> Result<AuthServerMetadata, Error> {
    let url = issuer.require_secure(server)?;
    // RFC 8414 inserts the well-known name before the path, OpenID Connect appends it.
    let mut urls = vec![
        well_known(&url, "oauth-authorization-server"),
        well_known(&url, "openid-configuration"),
    ];
    let mut appended = url.clone();
    if let Ok(mut path) = appended.path_segments_mut() {
        path.pop_if_empty()
            .extend([".well-known", "openid-configuration"]);
    }
    if !urls.contains(&appended) {
        urls.push(appended);
    }
    for document_url in urls {
        if let Some(document) = fetch_document::<AuthServerDocument>(issuer, &document_url).await? {
            return parse_metadata(issuer, server, document);
        }
    }
    Err(TokenError::NoEndpoint.into())
}

fn parse_metadata(
    issuer: &TokenEndpoint,
    server: &str,
    document: AuthServerDocument,
) -> Result<AuthServerMetadata, Error> {
    // Otherwise one server could impersonate another.
    if document.issuer.trim_end_matches('/') != server.trim_end_matches('/') {
        return Err(TokenError::Metadata("the issuer does not match").into());
    }
    let authorize = document.authorization_endpoint.as_deref();
    let methods = document
        .token_endpoint_auth_methods_supported
        .unwrap_or_default();
    let supports = |name: &str| methods.iter().any(|method| method == name);
    Ok(AuthServerMetadata {
        token_url: issuer.require_secure(&document.token_endpoint)?,
        authorize_url: authorize
            .map(|url| issuer.require_secure(url))
            .transpose()?,
        secret_in_body: supports("client_secret_post") && !supports("client_secret_basic"),
        sends_iss: document.authorization_response_iss_parameter_supported == Some(true),
        issuer: Some(document.issuer),
    })
}

/// Returns the well-known URL of a document about `url`.
fn well_known(url: &Url, name: &str) -> Url {
    let mut document_url = url.clone();
    let path = url.path().trim_end_matches('/');
    document_url.set_path(&format!("/.well-known/{name}{path}"));
    document_url
}

/// Fetches a document; `None` if there is none.
async fn fetch_document<T: for<'de> Deserialize<'de>>(
    issuer: &TokenEndpoint,
    url: &Url,
) -> Result<Option<T>, Error> {
    let request = || {
        http::Request::get(url.as_str())
            .header(header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|_| TokenError::Metadata("an address is not a URL").into())
    };
    let reply = send_with_retries(issuer, request).await?;
    if reply.status != StatusCode::OK {
        return Ok(None);
    }
    let parsed = serde_json::from_slice(&reply.body);
    parsed
        .map(Some)
        .map_err(|_| TokenError::Metadata("not a valid metadata document").into())
}

/// Sends an idempotent request with retries.
async fn send_with_retries(
    issuer: &TokenEndpoint,
    request: impl Fn() -> Result<http::Request<Bytes>, Error>,
) -> Result<HttpReply, Error> {
    let deadline = Deadline::from_now(DOCUMENT_TIMEOUT);
    let policy = &issuer.settings.retry;
    let mut attempt = 0;
    loop {
        let reply = issuer
            .peers
            .exchange(request()?, MAX_RESPONSE, deadline)
            .await;
        let error = match reply {
            Ok(reply) if !crate::error::is_transient(reply.status) => return Ok(reply),
            Ok(reply) => response::http_error(&reply),
            Err(error) => error,
        };
        let wait = policy.backoff_for(attempt) + error.retry_after().unwrap_or_default();
        let is_late = Instant::now() + wait >= deadline.instant;
        if is_late
            || attempt >= policy.retries
            || !retry::should_retry(&error, Idempotency::Idempotent)
        {
            return Err(TokenError::Unreachable(Arc::new(error)).into());
        }
        sleep(wait).await;
        attempt += 1;
    }
}

/// Makes a call without a token, which has no effect, and reads the token endpoint from the error.
async fn token_url_from_error(issuer: &TokenEndpoint) -> Result<String, Error> {
    let mut url = issuer.base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().push("jsonrpc");
    }
    let params = TasksGetParams {
        task_id: "unknown".to_owned(),
        include_messages: Some(false),
        include_artifacts: Some(false),
    };
    let params = RawJson::from_value(&params).map_err(|source| Error::Params(Arc::new(source)))?;
    let name = MethodName::new(Method::TasksGet.name()).map_err(|_| Error::Method)?;
    let mut body = Vec::new();
    Request::new(1, name)
        .with_params(params)
        .write_to(&mut body);
    let body = Bytes::from(body);
    let request = || {
        http::Request::post(url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.clone())
            .map_err(|_| TokenError::NoEndpoint.into())
    };
    let reply = send_with_retries(issuer, request).await?;
    match response::decode_result(&reply, &1.into()) {
        Err(Error::Rpc(refusal)) => refusal
            .data_field("tokenUrl")
            .ok_or_else(|| TokenError::NoEndpoint.into()),
        _ => Err(TokenError::NoEndpoint.into()),
    }
}
