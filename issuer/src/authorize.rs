//! Authorization endpoint with consent page (RFC 6749, 4.1 with PKCE, RFC 7636).
//!
//! The browser is redirected only after the redirect URI was checked against the client's registration;
//! errors before that are shown on a page.

use super::clients::{GrantType, OAuthClient, check_id};
use super::form::OAuthParameters;
use super::grants::{ConsentRecord, is_unreserved};
use super::oauth_error::OAuthError;
use super::page::{self, ConsentPage, CsrfTicket};
use super::redirect_uri::RedirectUri;
use super::{Issuer, IssuerState, ScopeDefinition};
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use interzone_edge::listener::Peer;
use interzone_edge::rate_limiter::RateLimitExceeded;
use std::net::IpAddr;
use std::sync::Arc;

/// Shown when the name or the passphrase is wrong, without telling which.
const WRONG_CREDENTIALS: &str = "The name or the passphrase is wrong.";
const TOO_MANY_ATTEMPTS: &str = "Too many attempts. Wait a minute, then try again.";
const EXPIRED_PAGE: &str = "This page has expired or was not opened here. Please try again.";

/// Validated authorization request, whose response may be sent to the client.
pub(super) struct AuthorizationRequest {
    pub(super) client: OAuthClient,
    pub(super) redirect: RedirectUri,
    pub(super) redirect_text: String,
    /// False if the client omitted it and has only one registered.
    pub(super) redirect_named: bool,
    pub(super) state: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) challenge: String,
}

/// Rejected authorization request.
enum AuthorizeError {
    /// Shown to the user on a page.
    ShowPage(OAuthError),
    /// Sent to the client in the redirect.
    Redirect(Box<(RedirectUri, Option<String>)>, OAuthError),
}

impl From<OAuthError> for AuthorizeError {
    fn from(failure: OAuthError) -> Self {
        Self::ShowPage(failure)
    }
}

/// `GET /oauth2/authorize`: shows the consent page.
pub(super) async fn show_consent(State(issuer): State<Issuer>, uri: Uri) -> Response {
    let inner = &issuer.0;
    let parameters = OAuthParameters::parse(uri.query().unwrap_or_default().as_bytes());
    let request = match parameters {
        Ok(parameters) => inner.parse_request(&parameters).await,
        Err(failure) => Err(failure.into()),
    };
    match request {
        Ok((request, scopes)) => inner.render_consent(&request, &scopes, None, StatusCode::OK),
        Err(error) => inner.render_error(error),
    }
}

/// `POST /oauth2/authorize`: handles the submitted consent form.
pub(super) async fn submit_consent(
    State(issuer): State<Issuer>,
    peer: Option<Extension<Arc<Peer>>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let inner = &issuer.0;
    let peer = peer.map(|Extension(peer)| peer);
    match inner.process_consent(peer.as_deref(), &headers, body).await {
        Ok(response) => response,
        Err(error) => inner.render_error(error),
    }
}

impl IssuerState {
    /// Validates an authorization request. Runs again when the form is submitted, because the form's fields
    /// could have been changed.
    async fn parse_request(
        &self,
        parameters: &OAuthParameters,
    ) -> Result<(AuthorizationRequest, Vec<ScopeDefinition>), AuthorizeError> {
        let id = parameters.require("client_id", "client_id is missing")?;
        let client = self.clients.find(id).await.map_err(OAuthError::from)?;
        let client = client.ok_or(OAuthError::invalid_request("unknown client"))?;
        let (redirect, redirect_text) =
            resolve_redirect_uri(&client, parameters.get("redirect_uri"))?;
        let state = parameters.get("state").map(str::to_owned);
        let redirect_error = |failure| {
            AuthorizeError::Redirect(Box::new((redirect.clone(), state.clone())), failure)
        };
        if !client.grants.contains(&GrantType::AuthorizationCode) {
            let failure = OAuthError::bad_request(
                "unauthorized_client",
                "this client may not use this grant",
            );
            return Err(redirect_error(failure));
        }
        if parameters.get("response_type") != Some("code") {
            let failure =
                OAuthError::bad_request("unsupported_response_type", "response_type must be code");
            return Err(redirect_error(failure));
        }
        // A `plain` challenge protects nothing, so the method must be S256 (RFC 7636, 4.3).
        let challenge = parameters
            .get("code_challenge")
            .filter(|challenge| challenge.len() == 43 && challenge.bytes().all(is_unreserved));
        let is_s256 = parameters.get("code_challenge_method") == Some("S256");
        let (Some(challenge), true) = (challenge, is_s256) else {
            return Err(redirect_error(OAuthError::invalid_request(
                "a code_challenge with method S256 is required",
            )));
        };
        self.check_audience([parameters.get("audience"), parameters.get("resource")])
            .map_err(&redirect_error)?;
        let granted = self
            .resolve_scopes(&client, parameters.get("scope"))
            .map_err(&redirect_error)?;
        let is_granted = |scope: &&ScopeDefinition| granted.contains(&scope.name);
        let scopes = self.scopes.iter().filter(is_granted).cloned().collect();
        let request = AuthorizationRequest {
            challenge: challenge.to_owned(),
            scope: parameters.get("scope").map(str::to_owned),
            client,
            redirect,
            redirect_text,
            redirect_named: parameters.get("redirect_uri").is_some(),
            state,
        };
        Ok((request, scopes))
    }

    async fn process_consent(
        &self,
        peer: Option<&Peer>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, AuthorizeError> {
        let form = OAuthParameters::read(headers, body).await?;
        let (request, scopes) = self.parse_request(&form).await?;
        let now = self.clock.unix();
        let show_again =
            |text, status| Ok(self.render_consent(&request, &scopes, Some(text), status));
        let key = &self.keys.load().form_key;
        if !CsrfTicket::is_valid(key, headers, form.get("ticket"), &request, now) {
            return show_again(EXPIRED_PAGE, StatusCode::FORBIDDEN);
        }
        let redirect_target = (request.redirect.clone(), request.state.clone());
        match form.get("decision") {
            Some("allow") => {}
            Some("deny") => {
                let denied =
                    OAuthError::bad_request("access_denied", "the user denied the request");
                return Err(AuthorizeError::Redirect(Box::new(redirect_target), denied));
            }
            _ => return Err(OAuthError::invalid_request("decision must be allow or deny").into()),
        }
        let name = form
            .get("name")
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        if let Err(rate_limited) = self.check_login_rate(&name, peer) {
            let mut response = self.render_consent(
                &request,
                &scopes,
                Some(TOO_MANY_ATTEMPTS),
                StatusCode::TOO_MANY_REQUESTS,
            );
            let seconds = rate_limited.retry_after.as_secs().saturating_add(1);
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
            return Ok(response);
        }
        let passphrase = form.get("passphrase").unwrap_or_default().trim();
        let verified = self.users.verify_passphrase(&name, passphrase).await;
        if !verified.map_err(OAuthError::from)? {
            return show_again(WRONG_CREDENTIALS, StatusCode::FORBIDDEN);
        }
        let consent = ConsentRecord {
            client_id: request.client.id.clone(),
            redirect_uri: request.redirect_text.clone(),
            redirect_named: request.redirect_named,
            challenge: request.challenge.clone(),
            scopes: self.resolve_scopes(&request.client, request.scope.as_deref())?,
            person: name,
        };
        let code = self.issue_code(consent, now).await?;
        Ok(self.redirect_to_client(
            &redirect_target.0,
            redirect_target.1.as_deref(),
            &[("code", &code)],
        ))
    }

    /// Counts a sign-in attempt. Invalid names are mapped to one key, so that keys stay short.
    ///
    /// Repeated guessing locks out the guesser's addresses, not the user.
    fn check_login_rate(&self, name: &str, peer: Option<&Peer>) -> Result<(), RateLimitExceeded> {
        let name = check_id(name).map_or("", |()| name);
        let address = match peer.map(|peer| peer.address.ip().to_canonical()) {
            None => String::new(),
            Some(IpAddr::V4(address)) => address.to_string(),
            // An IPv6 subscriber controls a whole /64, so that is the key.
            Some(IpAddr::V6(address)) => (address.to_bits() >> 64).to_string(),
        };
        let name_and_address = format!("{name} {address}");
        self.logins_by_address.check(&address)?;
        self.logins_by_name_and_address.check(&name_and_address)
    }

    fn render_consent(
        &self,
        request: &AuthorizationRequest,
        scopes: &[ScopeDefinition],
        error_text: Option<&str>,
        status: StatusCode,
    ) -> Response {
        let key = &self.keys.load().form_key;
        let Some(ticket) = CsrfTicket::new(key, request, self.clock.unix()) else {
            return page::error_page(StatusCode::SERVICE_UNAVAILABLE, "Please try again later.");
        };
        let issuer = &self.url;
        let consent = ConsentPage {
            issuer,
            request,
            scopes,
            ticket,
            error_text,
        };
        consent.render(status)
    }

    fn render_error(&self, error: AuthorizeError) -> Response {
        match error {
            AuthorizeError::ShowPage(failure) => {
                page::error_page(failure.status, failure.description)
            }
            AuthorizeError::Redirect(redirect_target, failure) => {
                let parameters = [
                    ("error", failure.error),
                    ("error_description", failure.description),
                ];
                self.redirect_to_client(
                    &redirect_target.0,
                    redirect_target.1.as_deref(),
                    &parameters,
                )
            }
        }
    }

    /// Redirects the browser to the client. `iss` names this issuer (RFC 9207).
    fn redirect_to_client(
        &self,
        redirect: &RedirectUri,
        state: Option<&str>,
        parameters: &[(&str, &str)],
    ) -> Response {
        let mut all_parameters = parameters.to_vec();
        all_parameters.extend(state.map(|state| ("state", state)));
        all_parameters.push(("iss", &self.url));
        let headers = [
            (LOCATION, redirect.with_parameters(&all_parameters)),
            (CACHE_CONTROL, "no-store".to_owned()),
            (REFERRER_POLICY, "no-referrer".to_owned()),
        ];
        (StatusCode::SEE_OTHER, headers).into_response()
    }
}

/// Returns the redirect URI of the request if it is registered, or the only registered one.
fn resolve_redirect_uri(
    client: &OAuthClient,
    requested: Option<&str>,
) -> Result<(RedirectUri, String), OAuthError> {
    let not_registered =
        OAuthError::invalid_request("the redirect_uri is not registered for this client");
    let text = match (requested, client.redirect_uris.as_slice()) {
        (Some(requested), _) => requested,
        (None, [only]) => only,
        (None, _) => return Err(OAuthError::invalid_request("redirect_uri is missing")),
    };
    let requested = RedirectUri::parse(text).ok_or(not_registered)?;
    let registered = client
        .redirect_uris
        .iter()
        .filter_map(|uri| RedirectUri::parse(uri));
    let is_registered = registered.into_iter().any(|uri| uri.allows(&requested));
    match is_registered {
        true => Ok((requested, text.to_owned())),
        false => Err(not_registered),
    }
}
