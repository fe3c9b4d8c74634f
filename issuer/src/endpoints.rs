//! Token, introspection, revocation, metadata (RFC 8414) and key set (RFC 7517) endpoints.

use super::Issuer;
use super::IssuerState;
use super::access_token::IssuedToken;
use super::clients::{GrantType, OAuthClient};
use super::form::OAuthParameters;
use super::oauth_error::{OAuthError, no_store_json};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::json;

/// Leeway in seconds for revoking an expired token: verifiers may accept a token for this long after its expiry.
const REVOKE_LEEWAY: u64 = 300;
/// Cache policy of metadata and key set. Keys are published an hour before they sign.
const CACHE_POLICY: &str = "public, max-age=300";

/// Token response (RFC 6749, 5.1).
#[derive(Serialize)]
struct TokenResponseBody {
    access_token: String,
    token_type: &'static str,
    expires_in: u64,
    scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
}

/// `POST /oauth2/token`.
pub(super) async fn token(
    State(issuer): State<Issuer>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match grant_token(&issuer.0, &headers, body).await {
        Ok(answer) => no_store_json(StatusCode::OK, &answer),
        Err(failure) => failure.into_response(),
    }
}

async fn grant_token(
    inner: &IssuerState,
    headers: &HeaderMap,
    body: Body,
) -> Result<TokenResponseBody, OAuthError> {
    let form = OAuthParameters::read(headers, body).await?;
    let client = inner.authenticate_client(headers, &form).await?;
    let now = inner.clock.unix();
    inner.check_audience([form.get("audience"), form.get("resource")])?;
    match form.require("grant_type", "grant_type is missing")? {
        "client_credentials" => {
            let is_allowed =
                !client.public && client.grants.contains(&GrantType::ClientCredentials);
            require_grant_type(is_allowed)?;
            let scopes = inner.resolve_scopes(&client, form.get("scope"))?;
            let access = inner.issue_access_token(&client.id, &client.id, &scopes, None, now)?;
            Ok(token_response(access, &scopes, None, now))
        }
        "authorization_code" => {
            require_grant_type(client.grants.contains(&GrantType::AuthorizationCode))?;
            let code = form.require("code", "code is missing")?;
            let verifier = form.require("code_verifier", "code_verifier is missing")?;
            let redirect = form.get("redirect_uri");
            let grant = inner
                .exchange_code(&client, code, redirect, verifier, now)
                .await?;
            let refresh = Some(grant.refresh_token);
            Ok(token_response(
                grant.access_token,
                &grant.scopes,
                refresh,
                now,
            ))
        }
        "refresh_token" => {
            require_grant_type(client.grants.contains(&GrantType::AuthorizationCode))?;
            let refresh = form.require("refresh_token", "refresh_token is missing")?;
            let grant = inner
                .refresh_tokens(&client, refresh, form.get("scope"), now)
                .await?;
            let refresh = Some(grant.refresh_token);
            Ok(token_response(
                grant.access_token,
                &grant.scopes,
                refresh,
                now,
            ))
        }
        _ => Err(OAuthError::bad_request(
            "unsupported_grant_type",
            "use client_credentials, authorization_code or refresh_token",
        )),
    }
}

fn token_response(
    access: IssuedToken,
    scopes: &[String],
    refresh_token: Option<String>,
    now: u64,
) -> TokenResponseBody {
    TokenResponseBody {
        expires_in: access.expires_at.saturating_sub(now),
        access_token: access.token,
        token_type: "Bearer",
        scope: scopes.join(" "),
        refresh_token,
    }
}

fn require_grant_type(is_allowed: bool) -> Result<(), OAuthError> {
    match is_allowed {
        true => Ok(()),
        false => Err(OAuthError::bad_request(
            "unauthorized_client",
            "this client may not use this grant",
        )),
    }
}

/// Introspection response (RFC 7662, 2.2).
#[derive(Serialize)]
#[serde(untagged)]
enum IntrospectionResponse {
    Active {
        active: bool,
        scope: String,
        client_id: String,
        sub: String,
        iss: String,
        aud: Vec<String>,
        token_type: &'static str,
        exp: u64,
        iat: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        jti: Option<String>,
    },
    Inactive {
        active: bool,
    },
}

/// `POST /oauth2/introspect`, for clients with a secret.
pub(super) async fn introspect(
    State(issuer): State<Issuer>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let inner = &issuer.0;
    let introspection = async {
        let form = OAuthParameters::read(&headers, body).await?;
        inner.authenticate_confidential(&headers, &form).await?;
        let token = form.require("token", "token is missing")?;
        Ok::<_, OAuthError>(match inner.verify_own(token, inner.clock.unix(), 0) {
            None => IntrospectionResponse::Inactive { active: false },
            Some(identity) => IntrospectionResponse::Active {
                active: true,
                scope: identity.scopes().collect::<Vec<_>>().join(" "),
                client_id: identity.client.to_string(),
                sub: identity.principal.to_string(),
                iss: inner.url.clone(),
                aud: inner.audience.clone(),
                token_type: "Bearer",
                exp: identity.expires_at(),
                iat: identity.issued_at(),
                jti: identity.token_id().map(str::to_owned),
            },
        })
    };
    match introspection.await {
        Ok(response) => no_store_json(StatusCode::OK, &response),
        Err(failure) => failure.into_response(),
    }
}

/// `POST /oauth2/revoke` (RFC 7009). An unknown token counts as revoked.
pub(super) async fn revoke(
    State(issuer): State<Issuer>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let inner = &issuer.0;
    let revocation = async {
        let form = OAuthParameters::read(&headers, body).await?;
        let client = inner.authenticate_client(&headers, &form).await?;
        let token = form.require("token", "token is missing")?;
        inner.revoke_token(&client, token).await
    };
    match revocation.await {
        Ok(()) => (StatusCode::OK, [(CACHE_CONTROL, "no-store")]).into_response(),
        Err(failure) => failure.into_response(),
    }
}

impl IssuerState {
    async fn revoke_token(&self, client: &OAuthClient, token: &str) -> Result<(), OAuthError> {
        let now = self.clock.unix();
        let Some(identity) = self.verify_own(token, now, REVOKE_LEEWAY) else {
            return self.revoke_refresh_token(client, token, now).await;
        };
        if *identity.client != *client.id {
            return Err(OAuthError::invalid_grant(
                "the token was issued to another client",
            ));
        }
        // RFC 7009, 2.2.1: the client should retry later.
        if self.revocation_limit.check(&client.id).is_err() {
            return Err(OAuthError::unavailable());
        }
        if let Some(id) = identity.token_id() {
            let end = identity.expires_at();
            self.revocations.revoke_token(&self.store, id, end).await?;
        }
        Ok(())
    }
}

/// `GET /.well-known/oauth-authorization-server`.
pub(super) async fn metadata(State(issuer): State<Issuer>) -> Response {
    let url = &issuer.0.url;
    let scopes: Vec<&str> = issuer
        .0
        .scopes
        .iter()
        .map(|scope| scope.name.as_str())
        .collect();
    let confidential_methods = ["client_secret_basic", "client_secret_post"];
    let all_methods = ["client_secret_basic", "client_secret_post", "none"];
    let body = json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/oauth2/authorize"),
        "token_endpoint": format!("{url}/oauth2/token"),
        "jwks_uri": format!("{url}/oauth2/jwks"),
        "introspection_endpoint": format!("{url}/oauth2/introspect"),
        "revocation_endpoint": format!("{url}/oauth2/revoke"),
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["client_credentials", "authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": all_methods,
        "revocation_endpoint_auth_methods_supported": all_methods,
        "introspection_endpoint_auth_methods_supported": confidential_methods,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    cacheable_response("application/json", body.to_string())
}

/// `GET /oauth2/jwks`.
pub(super) async fn jwks(State(issuer): State<Issuer>) -> Response {
    cacheable_response(
        "application/jwk-set+json",
        issuer.0.keys.load().jwks.clone(),
    )
}

fn cacheable_response(content_type: &'static str, body: impl IntoResponse) -> Response {
    (
        [(CACHE_CONTROL, CACHE_POLICY), (CONTENT_TYPE, content_type)],
        body,
    )
        .into_response()
}
