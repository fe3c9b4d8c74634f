//! The doors for programs: get a token, ask about one, give one back.

use super::Inner;
use super::Issuer;
use super::answer::{Failure, json};
use super::clients::{Client, Grant};
use super::form::Parameters;
use super::tokens::Issued;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use http::{HeaderMap, StatusCode};
use serde::Serialize;

/// Whoever verifies tokens may believe one for this long after its end, so until then it can be taken
/// back.
const LATE: u64 = 300;

/// What a client gets (RFC 6749, 5.1).
#[derive(Serialize)]
struct TokenAnswer {
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
    match answer(&issuer.0, &headers, body).await {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(failure) => failure.into_response(),
    }
}

async fn answer(inner: &Inner, headers: &HeaderMap, body: Body) -> Result<TokenAnswer, Failure> {
    let form = Parameters::read(headers, body).await?;
    let client = inner.caller(headers, &form).await?;
    let now = inner.clock.unix();
    inner.check_target([form.get("audience"), form.get("resource")])?;
    match form.need("grant_type", "grant_type is missing")? {
        "client_credentials" => {
            let fits = !client.public && client.grants.contains(&Grant::ClientCredentials);
            allowed(fits)?;
            let scopes = inner.scopes(&client, form.get("scope"))?;
            let access = inner.issue(&client.id, &client.id, &scopes, None, now)?;
            Ok(token_answer(access, &scopes, None, now))
        }
        "authorization_code" => {
            allowed(client.grants.contains(&Grant::AuthorizationCode))?;
            let code = form.need("code", "code is missing")?;
            let verifier = form.need("code_verifier", "code_verifier is missing")?;
            let redirect = form.get("redirect_uri");
            let granted = inner.redeem(&client, code, redirect, verifier, now).await?;
            let refresh = Some(granted.refresh);
            Ok(token_answer(granted.access, &granted.scopes, refresh, now))
        }
        "refresh_token" => {
            allowed(client.grants.contains(&Grant::AuthorizationCode))?;
            let refresh = form.need("refresh_token", "refresh_token is missing")?;
            let granted = inner
                .renew(&client, refresh, form.get("scope"), now)
                .await?;
            let refresh = Some(granted.refresh);
            Ok(token_answer(granted.access, &granted.scopes, refresh, now))
        }
        _ => Err(Failure::bad(
            "unsupported_grant_type",
            "use client_credentials, authorization_code or refresh_token",
        )),
    }
}

fn token_answer(
    access: Issued,
    scopes: &[String],
    refresh_token: Option<String>,
    now: u64,
) -> TokenAnswer {
    TokenAnswer {
        expires_in: access.expires_at.saturating_sub(now),
        access_token: access.token,
        token_type: "Bearer",
        scope: scopes.join(" "),
        refresh_token,
    }
}

fn allowed(fits: bool) -> Result<(), Failure> {
    match fits {
        true => Ok(()),
        false => Err(Failure::bad(
            "unauthorized_client",
            "this client may not use this grant",
        )),
    }
}

/// What is told about a token (RFC 7662, 2.2).
#[derive(Serialize)]
#[serde(untagged)]
enum Told {
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
    let tell = async {
        let form = Parameters::read(&headers, body).await?;
        inner.proven_caller(&headers, &form).await?;
        let token = form.need("token", "token is missing")?;
        Ok::<_, Failure>(match inner.recognise(token, inner.clock.unix(), 0) {
            None => Told::Inactive { active: false },
            Some(identity) => Told::Active {
                active: true,
                scope: identity.scopes().collect::<Vec<_>>().join(" "),
                client_id: identity.client.to_string(),
                sub: identity.principal.to_string(),
                iss: inner.url.clone(),
                aud: inner.audience.clone(),
                token_type: "Bearer",
                exp: identity.expires_at(),
                iat: identity.issued_at,
                jti: identity.token_id.as_deref().map(str::to_owned),
            },
        })
    };
    match tell.await {
        Ok(told) => json(StatusCode::OK, &told),
        Err(failure) => failure.into_response(),
    }
}

/// `POST /oauth2/revoke` (RFC 7009). A token that is not known is as good as revoked.
pub(super) async fn revoke(
    State(issuer): State<Issuer>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let inner = &issuer.0;
    let take_back = async {
        let form = Parameters::read(&headers, body).await?;
        let client = inner.caller(&headers, &form).await?;
        let token = form.need("token", "token is missing")?;
        inner.take_back(&client, token).await
    };
    match take_back.await {
        Ok(()) => (StatusCode::OK, [(CACHE_CONTROL, "no-store")]).into_response(),
        Err(failure) => failure.into_response(),
    }
}

impl Inner {
    async fn take_back(&self, client: &Client, token: &str) -> Result<(), Failure> {
        let now = self.clock.unix();
        let Some(identity) = self.recognise(token, now, LATE) else {
            return self.give_back(client, token, now).await;
        };
        if *identity.client != *client.id {
            return Err(Failure::grant("the token was issued to another client"));
        }
        // RFC 7009, 2.2.1: to be tried again later.
        if self.revocations.check(&client.id).is_err() {
            return Err(Failure::unavailable());
        }
        if let Some(id) = &identity.token_id {
            let end = identity.expires_at();
            self.revoked.token(self.keep.as_ref(), id, end).await?;
        }
        Ok(())
    }
}
