//! OAuth 2.0 authorization code flow with PKCE: authorization URL and token requests. The resulting
//! tokens are validated by the edge's authenticator, like any other token.

use super::issuer_discovery::IssuerDiscovery;
use super::session::SessionToken;
use super::{CALLBACK_PATH, CLIENT_ID};
use crate::state::ExecutionState;
use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderValue, Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use interzone_edge::Secret;
use interzone_edge::auth::{AuthFailure, SignInEndpoints};
use interzone_edge::limited_body::{self, BodyReadError};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tower::ServiceExt;
use url::{Url, form_urlencoded};

/// Timeout of a token request.
const ISSUER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a token response.
const MAX_RESPONSE_BYTES: usize = 256 * 1024;
const FORM_CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

/// Sign-in settings.
pub struct SignIn {
    /// The issuer.
    pub issuer: SignInIssuer,
    /// The console's client id at the issuer.
    pub client_id: String,
    /// The client secret, if it has one.
    pub client_secret: Option<Secret>,
    /// Requested scopes; if unset, all that the client may have.
    pub scope: Option<String>,
    /// Resource indicator of the tokens (RFC 8707), if the issuer needs one.
    pub resource: Option<String>,
    /// Principals that may sign in; if unset, all that have the scope. Required for the built-in issuer,
    /// which grants all its users the client's scopes.
    pub operators: Option<Vec<String>>,
}

/// Issuer used for sign-in.
pub enum SignInIssuer {
    /// The built-in issuer, with the URL of its authorization page.
    BuiltIn(Url),
    /// An external issuer with configured endpoints.
    Configured {
        /// Its endpoints.
        endpoints: SignInEndpoints,
        /// HTTP client with the configured trust roots.
        http: reqwest::Client,
    },
    /// An external issuer whose endpoints come from its metadata.
    Discovered(IssuerDiscovery),
}

/// Reason why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignInError {
    #[error("the issuer cannot be reached at the moment")]
    IssuerUnavailable,
    #[error("the issuer did not accept this sign-in")]
    Refused,
    #[error("the issuer's token was rejected")]
    InvalidToken(#[source] AuthFailure),
}

#[derive(Deserialize)]
struct CodeFlowTokens {
    access_token: String,
    refresh_token: Option<String>,
}

impl SignIn {
    /// Sign-in at the built-in issuer of a zone at this URL, for these principals. The issuer must know
    /// [`Console::client`](super::Console::client).
    ///
    /// # Errors
    /// `public_url` cannot be joined with a path.
    pub fn built_in(public_url: &Url, operators: Vec<String>) -> Result<Self, url::ParseError> {
        Ok(Self {
            issuer: SignInIssuer::BuiltIn(public_url.join("/oauth2/authorize")?),
            client_id: CLIENT_ID.to_owned(),
            client_secret: None,
            scope: None,
            resource: None,
            operators: Some(operators),
        })
    }

    /// Discovers the endpoints in advance, so that the first sign-in does not wait.
    pub(super) async fn prepare(&self) {
        if let SignInIssuer::Discovered(discovery) = &self.issuer {
            // An error is ignored: the next sign-in retries.
            let _ = discovery.endpoints().await;
        }
    }

    /// Builds the authorization URL to which the browser is redirected.
    pub(super) async fn authorization_url(
        &self,
        zone: &ExecutionState,
        state: &str,
        verifier: &str,
    ) -> Result<String, SignInError> {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let redirect = zone.absolute_url(CALLBACK_PATH);
        let mut url = match &self.issuer {
            SignInIssuer::BuiltIn(url) => url.clone(),
            SignInIssuer::Configured { endpoints, .. } => endpoints.authorize.clone(),
            SignInIssuer::Discovered(discovery) => discovery.endpoints().await?.authorize.clone(),
        };
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", &redirect)
            .append_pair("state", state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        if let Some(scope) = &self.scope {
            query.append_pair("scope", scope);
        }
        if let Some(resource) = &self.resource {
            query.append_pair("resource", resource);
        }
        drop(query);
        Ok(url.into())
    }

    /// Exchanges an authorization code for a token.
    pub(super) async fn exchange_code(
        &self,
        zone: &ExecutionState,
        code: &str,
        verifier: &str,
    ) -> Result<SessionToken, SignInError> {
        let redirect = zone.absolute_url(CALLBACK_PATH);
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", verifier),
        ];
        self.request_token(zone, &form).await
    }

    /// Refreshes a token.
    pub(super) async fn renew(
        &self,
        zone: &ExecutionState,
        old: &SessionToken,
    ) -> Result<SessionToken, SignInError> {
        let refresh = old.refresh_token.as_ref().ok_or(SignInError::Refused)?;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
        ];
        let mut new = self.request_token(zone, &form).await?;
        // An issuer that sends no new refresh token keeps the old one valid.
        new.refresh_token = new.refresh_token.or_else(|| old.refresh_token.clone());
        Ok(new)
    }

    async fn request_token(
        &self,
        zone: &ExecutionState,
        form: &[(&str, &str)],
    ) -> Result<SessionToken, SignInError> {
        let form = self.token_form(form);
        let (status, response_body) = tokio::time::timeout(ISSUER_TIMEOUT, self.post(zone, form))
            .await
            .map_err(|_| SignInError::IssuerUnavailable)??;
        if status.is_server_error() {
            return Err(SignInError::IssuerUnavailable);
        }
        if !status.is_success() {
            return Err(SignInError::Refused);
        }
        let tokens: CodeFlowTokens =
            serde_json::from_slice(&response_body).map_err(|_| SignInError::Refused)?;
        let header = HeaderValue::try_from(format!("Bearer {}", tokens.access_token));
        let header = header.map_err(|_| SignInError::Refused)?;
        let identity = zone.auth.authenticate(Some(&header), None).await;
        Ok(SessionToken {
            identity: identity.map_err(SignInError::InvalidToken)?,
            refresh_token: tokens.refresh_token.map(Secret::from),
        })
    }

    fn token_form(&self, fields: &[(&str, &str)]) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        if self.client_secret.is_none() {
            form.append_pair("client_id", &self.client_id);
        }
        if let Some(resource) = &self.resource {
            form.append_pair("resource", resource);
        }
        form.finish()
    }

    async fn post(
        &self,
        zone: &ExecutionState,
        form: String,
    ) -> Result<(StatusCode, Bytes), SignInError> {
        let authorization = self.client_secret.as_ref().map(|secret| {
            let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect();
            let (id, secret): (String, String) = (encode(&self.client_id), encode(secret.expose()));
            format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
        });
        let (url, http) = match &self.issuer {
            SignInIssuer::BuiltIn(_) => return post_to_built_in(zone, form, authorization).await,
            SignInIssuer::Configured { endpoints, http } => (endpoints.token.clone(), http),
            SignInIssuer::Discovered(discovery) => {
                (discovery.endpoints().await?.token.clone(), discovery.http())
            }
        };
        let mut request = http
            .post(url)
            .header(CONTENT_TYPE, FORM_CONTENT_TYPE)
            .header(ACCEPT, "application/json")
            .body(form);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let unavailable = |_| SignInError::IssuerUnavailable;
        let response = request.send().await.map_err(unavailable)?;
        let status = response.status();
        let body = limited_body::read_all(response, MAX_RESPONSE_BYTES).await;
        let body = body.map_err(|error| match error {
            BodyReadError::TooLong { .. } => SignInError::Refused,
            BodyReadError::Connection(error) => unavailable(error),
        })?;
        Ok((status, body))
    }
}

/// Sends the token request to the built-in issuer, in process.
async fn post_to_built_in(
    zone: &ExecutionState,
    form: String,
    authorization: Option<String>,
) -> Result<(StatusCode, Bytes), SignInError> {
    let issuer = zone.issuer.clone().ok_or(SignInError::IssuerUnavailable)?;
    let mut request = Request::post("/oauth2/token").header(CONTENT_TYPE, FORM_CONTENT_TYPE);
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request.body(Body::from(form));
    let request = request.map_err(|_| SignInError::Refused)?;
    let Ok(response) = issuer.oneshot(request).await;
    let status = response.status();
    let body = to_bytes(response.into_body(), MAX_RESPONSE_BYTES).await;
    Ok((status, body.map_err(|_| SignInError::IssuerUnavailable)?))
}
