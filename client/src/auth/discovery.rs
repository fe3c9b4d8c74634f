//! Finding out who issues a peer's tokens: its protected-resource metadata (RFC 9728) name the
//! authorization server, whose own metadata (RFC 8414) name the endpoints. A peer without metadata
//! may still name its token endpoint when it refuses a call.

use super::endpoint::{ANSWER_LIMIT, Issuer};
use crate::answer;
use crate::error::{Error, TokenError};
use crate::peer::{Deadline, Reply};
use crate::retry::{self, Safety};
use bytes::Bytes;
use http::{StatusCode, header};
use interzone_jsonrpc::{MethodName, RawJson, Request};
use interzone_protocol::acp::{Method, TasksGetParams};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use url::Url;

/// How long one document may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The endpoints of an authorization server.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) issuer: Option<String>,
    pub(crate) token_url: Url,
    pub(crate) authorize_url: Option<Url>,
    /// It takes a client's secret in the body and not in a header.
    pub(crate) secret_in_body: bool,
    /// It says who it is when it sends a browser back.
    pub(crate) names_itself: bool,
}

#[derive(Deserialize)]
struct ProtectedResource {
    #[serde(default)]
    authorization_servers: Vec<String>,
}

#[derive(Deserialize)]
struct AuthorizationServer {
    issuer: String,
    token_endpoint: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// Finds the authorization server of the peer.
pub(super) async fn find(issuer: &Issuer) -> Result<Metadata, Error> {
    let mut root = issuer.base.clone();
    root.set_path("");
    let mut places = vec![well_known(&issuer.base, "oauth-protected-resource")];
    let at_root = well_known(&root, "oauth-protected-resource");
    if !places.contains(&at_root) {
        places.push(at_root);
    }
    for place in places {
        if let Some(resource) = document::<ProtectedResource>(issuer, &place).await? {
            let Some(server) = resource.authorization_servers.first() else {
                return Err(TokenError::NoEndpoint.into());
            };
            return of_server(issuer, server).await;
        }
    }
    let url = named_by_refusal(issuer).await?;
    Ok(Metadata {
        issuer: None,
        token_url: issuer.checked(&url)?,
        authorize_url: None,
        secret_in_body: false,
        names_itself: false,
    })
}

/// What an authorization server says of itself.
pub(super) async fn of_server(issuer: &Issuer, server: &str) -> Result<Metadata, Error> {
    let url = issuer.checked(server)?;
    // RFC 8414 puts the path behind the well-known name, OpenID Connect before it.
    let mut places = vec![
        well_known(&url, "oauth-authorization-server"),
        well_known(&url, "openid-configuration"),
    ];
    let mut appended = url.clone();
    if let Ok(mut path) = appended.path_segments_mut() {
        path.pop_if_empty()
            .extend([".well-known", "openid-configuration"]);
    }
    if !places.contains(&appended) {
        places.push(appended);
    }
    for place in places {
        if let Some(found) = document::<AuthorizationServer>(issuer, &place).await? {
            return endpoints(issuer, server, found);
        }
    }
    Err(TokenError::NoEndpoint.into())
}

fn endpoints(issuer: &Issuer, server: &str, found: AuthorizationServer) -> Result<Metadata, Error> {
    // Otherwise one server could speak for another.
    if found.issuer.trim_end_matches('/') != server.trim_end_matches('/') {
        return Err(TokenError::Metadata("they name another issuer").into());
    }
    let authorize = found.authorization_endpoint.as_deref();
    let ways = found
        .token_endpoint_auth_methods_supported
        .unwrap_or_default();
    let takes = |name: &str| ways.iter().any(|way| way == name);
    Ok(Metadata {
        token_url: issuer.checked(&found.token_endpoint)?,
        authorize_url: authorize.map(|url| issuer.checked(url)).transpose()?,
        secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
        names_itself: found.authorization_response_iss_parameter_supported == Some(true),
        issuer: Some(found.issuer),
    })
}

/// The well-known address of a document about `url`.
fn well_known(url: &Url, name: &str) -> Url {
    let mut place = url.clone();
    let path = url.path().trim_end_matches('/');
    place.set_path(&format!("/.well-known/{name}{path}"));
    place
}

/// Reads a document, or finds that there is none.
async fn document<T: for<'de> Deserialize<'de>>(
    issuer: &Issuer,
    url: &Url,
) -> Result<Option<T>, Error> {
    let request = || {
        http::Request::get(url.as_str())
            .header(header::ACCEPT, "application/json")
            .body(Bytes::new())
            .map_err(|_| TokenError::Metadata("an address is not a URL").into())
    };
    let reply = patiently(issuer, request).await?;
    if reply.status != StatusCode::OK {
        return Ok(None);
    }
    let read = serde_json::from_slice(&reply.body);
    read.map(Some)
        .map_err(|_| TokenError::Metadata("they are not what the standard says").into())
}

/// Asks until there is an answer. It is safe to ask twice.
async fn patiently(
    issuer: &Issuer,
    request: impl Fn() -> Result<http::Request<Bytes>, Error>,
) -> Result<Reply, Error> {
    let deadline = Deadline::within(LIMIT);
    let policy = &issuer.settings.retry;
    let mut attempt = 0;
    loop {
        let reply = issuer
            .peers
            .exchange(request()?, ANSWER_LIMIT, deadline)
            .await;
        let error = match reply {
            Ok(reply) if !crate::error::is_passing(reply.status) => return Ok(reply),
            Ok(reply) => answer::status(&reply),
            Err(error) => error,
        };
        let wait = policy.wait(attempt) + error.retry_after().unwrap_or_default();
        let over = Instant::now() + wait >= deadline.at;
        if over || attempt >= policy.retries || !retry::helps(&error, Safety::Read) {
            return Err(TokenError::Unreachable(Arc::new(error)).into());
        }
        sleep(wait).await;
        attempt += 1;
    }
}

/// Makes a call without a token, which changes nothing, and reads where to get one.
async fn named_by_refusal(issuer: &Issuer) -> Result<String, Error> {
    let mut url = issuer.base.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().push("jsonrpc");
    }
    let params = TasksGetParams {
        task_id: "unknown".to_owned(),
        include_messages: Some(false),
        include_artifacts: Some(false),
    };
    let params = RawJson::of(&params).map_err(|source| Error::Params(Arc::new(source)))?;
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
    let reply = patiently(issuer, request).await?;
    match answer::result(&reply, &1.into()) {
        Err(Error::Refused(refusal)) => refusal
            .detail("tokenUrl")
            .ok_or_else(|| TokenError::NoEndpoint.into()),
        _ => Err(TokenError::NoEndpoint.into()),
    }
}
