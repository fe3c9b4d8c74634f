//! Signing in by the code flow of OAuth 2.0 with PKCE: where people are sent, and how a code becomes a
//! token. Who somebody is is proved by the edge, as for every other token.

use super::discovered::Discovered;
use super::session::Proof;
use super::{CALLBACK, CLIENT};
use crate::zone::Zone;
use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderValue, Request, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use interzone_edge::Secret;
use interzone_edge::auth::{Refusal, SignInEndpoints};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tower::ServiceExt;
use url::{Url, form_urlencoded};

/// How long the issuer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any answer with a token needs.
const LARGEST: usize = 256 * 1024;
const FORM: &str = "application/x-www-form-urlencoded";

/// How people sign in.
pub struct SignIn {
    /// Where.
    pub issuer: SignInIssuer,
    /// The console's name at the issuer.
    pub client_id: String,
    /// Its secret, if it has one.
    pub client_secret: Option<Secret>,
    /// What it asks for; without it, all that the client may have.
    pub scope: Option<String>,
    /// Whom the tokens must be for (RFC 8707), if the issuer must be told.
    pub resource: Option<String>,
    /// The principals who may sign in; without it, whoever has the scope. The built-in issuer gives
    /// everybody it knows what the client may have, so there it takes a list.
    pub operators: Option<Vec<String>>,
}

/// Where people sign in.
pub enum SignInIssuer {
    /// At the built-in issuer, which has its page at this address.
    BuiltIn(Url),
    /// At an issuer elsewhere, at these addresses.
    At {
        /// Its addresses.
        endpoints: SignInEndpoints,
        /// What reaches it, trusting whom the configuration says.
        http: reqwest::Client,
    },
    /// At an issuer elsewhere, at the addresses that its metadata name.
    Discovered(Discovered),
}

/// Why nobody was signed in.
#[derive(Debug, thiserror::Error)]
pub(super) enum FlowError {
    #[error("the issuer cannot be reached at the moment")]
    Away,
    #[error("the issuer did not accept this sign-in")]
    Refused,
    #[error("the issuer's token is not believed here")]
    Unbelieved(#[source] Refusal),
}

#[derive(Deserialize)]
struct Tokens {
    access_token: String,
    refresh_token: Option<String>,
}

impl SignIn {
    /// By the issuer that is built into a zone at this address, for these principals. It must know
    /// [`Console::client`](super::Console::client).
    ///
    /// # Errors
    /// The address cannot have one.
    pub fn built_in(public_url: &Url, operators: Vec<String>) -> Result<Self, url::ParseError> {
        Ok(Self {
            issuer: SignInIssuer::BuiltIn(public_url.join("/oauth2/authorize")?),
            client_id: CLIENT.to_owned(),
            client_secret: None,
            scope: None,
            resource: None,
            operators: Some(operators),
        })
    }

    /// Finds out where people sign in, if that is not known, so that the first of them need not wait.
    pub(super) async fn prepare(&self) {
        if let SignInIssuer::Discovered(place) = &self.issuer {
            // Whoever signs in asks again.
            let _ = place.endpoints().await;
        }
    }

    /// Where the browser is sent to ask for consent.
    pub(super) async fn address(
        &self,
        zone: &Zone,
        state: &str,
        verifier: &str,
    ) -> Result<String, FlowError> {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let redirect = zone.address(CALLBACK);
        let mut url = match &self.issuer {
            SignInIssuer::BuiltIn(url) => url.clone(),
            SignInIssuer::At { endpoints, .. } => endpoints.authorize.clone(),
            SignInIssuer::Discovered(place) => place.endpoints().await?.authorize.clone(),
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

    /// What a code is good for.
    pub(super) async fn redeem(
        &self,
        zone: &Zone,
        code: &str,
        verifier: &str,
    ) -> Result<Proof, FlowError> {
        let redirect = zone.address(CALLBACK);
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", verifier),
        ];
        self.ask(zone, &form).await
    }

    /// A newer token in the place of one that ends; nothing if it cannot be renewed.
    pub(super) async fn renew(&self, zone: &Zone, old: &Proof) -> Result<Proof, FlowError> {
        let refresh = old.refresh.as_ref().ok_or(FlowError::Refused)?;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
        ];
        let mut new = self.ask(zone, &form).await?;
        // An issuer that gives no other means the same.
        new.refresh = new.refresh.or_else(|| old.refresh.clone());
        Ok(new)
    }

    async fn ask(&self, zone: &Zone, form: &[(&str, &str)]) -> Result<Proof, FlowError> {
        let form = self.form(form);
        let (status, answer) = tokio::time::timeout(PATIENCE, self.post(zone, form))
            .await
            .map_err(|_| FlowError::Away)??;
        if status.is_server_error() {
            return Err(FlowError::Away);
        }
        if !status.is_success() {
            return Err(FlowError::Refused);
        }
        let tokens: Tokens = serde_json::from_slice(&answer).map_err(|_| FlowError::Refused)?;
        let header = HeaderValue::try_from(format!("Bearer {}", tokens.access_token));
        let header = header.map_err(|_| FlowError::Refused)?;
        let identity = zone.auth.authenticate(Some(&header), None).await;
        Ok(Proof {
            identity: identity.map_err(FlowError::Unbelieved)?,
            refresh: tokens.refresh_token.map(Secret::from),
        })
    }

    fn form(&self, fields: &[(&str, &str)]) -> String {
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

    async fn post(&self, zone: &Zone, form: String) -> Result<(StatusCode, Bytes), FlowError> {
        let authorization = self.client_secret.as_ref().map(|secret| {
            let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect();
            let (id, secret): (String, String) = (encode(&self.client_id), encode(secret.expose()));
            format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
        });
        let (url, http) = match &self.issuer {
            SignInIssuer::BuiltIn(_) => return built_in(zone, form, authorization).await,
            SignInIssuer::At { endpoints, http } => (endpoints.token.clone(), http),
            SignInIssuer::Discovered(place) => {
                (place.endpoints().await?.token.clone(), place.http())
            }
        };
        let mut request = http
            .post(url)
            .header(CONTENT_TYPE, FORM)
            .header(ACCEPT, "application/json")
            .body(form);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let away = |_| FlowError::Away;
        let mut answer = request.send().await.map_err(away)?;
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(away)? {
            if body.len() + piece.len() > LARGEST {
                return Err(FlowError::Refused);
            }
            body.extend_from_slice(&piece);
        }
        Ok((answer.status(), body.into()))
    }
}

/// Asks the issuer that is built into the zone.
async fn built_in(
    zone: &Zone,
    form: String,
    authorization: Option<String>,
) -> Result<(StatusCode, Bytes), FlowError> {
    let issuer = zone.issuer.clone().ok_or(FlowError::Away)?;
    let mut request = Request::post("/oauth2/token").header(CONTENT_TYPE, FORM);
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request.body(Body::from(form));
    let request = request.map_err(|_| FlowError::Refused)?;
    let Ok(answer) = issuer.oneshot(request).await;
    let status = answer.status();
    let body = to_bytes(answer.into_body(), LARGEST).await;
    Ok((status, body.map_err(|_| FlowError::Away)?))
}
