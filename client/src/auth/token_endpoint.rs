//! Client of an authorization server's token endpoint.

use super::Token;
use super::discovery::{self, AuthServerMetadata};
use crate::Secret;
use crate::error::{Error, InvalidResponse, TokenError};
use crate::http_exchange::{Deadline, HttpReply, PeerPool};
use crate::options::ClientSettings;
use crate::retry::{self, Idempotency};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, header};
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use url::{Url, form_urlencoded};

/// Time limit for getting a token, including retries and waits.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response; typical ones have a few hundred bytes.
pub(super) const MAX_RESPONSE: usize = 256 * 1024;
/// Token lifetime if the issuer does not send one.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);
/// Maximum length of an issuer's error text.
const MAX_ERROR_TEXT: usize = 200;

/// The token endpoint, with its discovered metadata.
#[derive(Debug)]
pub(crate) struct TokenEndpoint {
    pub(super) base: Url,
    pub(super) peers: Arc<PeerPool>,
    pub(super) settings: ClientSettings,
    metadata: OnceCell<AuthServerMetadata>,
    /// True if the issuer accepts the secret in the body only.
    secret_in_body: AtomicBool,
}

/// Client id and secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientAuth<'a> {
    pub(crate) client_id: &'a str,
    /// None for a public client, such as a program on a user's machine.
    pub(crate) secret: Option<&'a Secret>,
}

/// A successful token response.
#[derive(Debug)]
pub(crate) struct TokenResponse {
    pub(crate) token: Token,
    pub(crate) refresh_token: Option<Secret>,
    pub(crate) scope: Option<String>,
}

#[derive(Deserialize)]
struct RawTokenResponse {
    access_token: Secret,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<ExpiresIn>,
    #[serde(default)]
    refresh_token: Option<Secret>,
    #[serde(default)]
    scope: Option<String>,
}

/// `expires_in`; some issuers send it as a string or with a fraction.
#[derive(Deserialize)]
#[serde(untagged)]
enum ExpiresIn {
    Integer(u64),
    Fraction(f64),
    Text(String),
}

impl ExpiresIn {
    fn into_duration(self) -> Option<Duration> {
        match self {
            Self::Integer(seconds) => Some(Duration::from_secs(seconds)),
            Self::Fraction(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Self::Text(text) => text.trim().parse().ok().map(Duration::from_secs),
        }
    }
}

#[derive(Deserialize)]
struct TokenErrorResponse {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl TokenEndpoint {
    pub(crate) fn new(base: Url, peers: Arc<PeerPool>, settings: ClientSettings) -> Self {
        Self {
            base,
            peers,
            settings,
            metadata: OnceCell::new(),
            secret_in_body: AtomicBool::new(false),
        }
    }

    /// Returns the metadata of the peer's authorization server; fetched once.
    pub(crate) async fn metadata(&self) -> Result<&AuthServerMetadata, Error> {
        let found = self
            .metadata
            .get_or_try_init(|| discovery::discover(self))
            .await?;
        if found.secret_in_body {
            self.secret_in_body.store(true, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Parses an endpoint URL and requires https, or a loopback address.
    pub(crate) fn require_secure(&self, url: &str) -> Result<Url, TokenError> {
        let url = Url::parse(url).map_err(|_| TokenError::Metadata("an address is not a URL"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let is_secure = match url.scheme() {
            "https" => true,
            "http" => self.settings.allow_http || is_loopback(&url),
            _ => false,
        };
        if is_secure {
            Ok(url)
        } else {
            Err(TokenError::Insecure { host })
        }
    }

    /// Requests a token.
    pub(crate) async fn request_token(
        &self,
        url: &Url,
        auth: ClientAuth<'_>,
        form: &[(&str, &str)],
        idempotency: Idempotency,
    ) -> Result<TokenResponse, Error> {
        let deadline = Deadline::from_now(TOKEN_TIMEOUT);
        let mut attempt = 0;
        loop {
            let in_body = self.secret_in_body.load(Ordering::Relaxed);
            let request = build_request(url, auth, form, in_body)?;
            let reply = self.peers.exchange(request, MAX_RESPONSE, deadline).await;
            let error = match reply.and_then(|reply| decode_response(&reply)) {
                Ok(grant) => return Ok(grant),
                Err(error) => error,
            };
            // Servers must accept the secret in the header, but some accept it in the body only.
            if !in_body && auth.secret.is_some() && is_invalid_client(&error) {
                self.secret_in_body.store(true, Ordering::Relaxed);
                continue;
            }
            let policy = &self.settings.retry;
            let wait = policy.backoff_for(attempt) + error.retry_after().unwrap_or_default();
            let is_late = Instant::now() + wait >= deadline.instant;
            if is_late || attempt >= policy.retries || !retry::should_retry(&error, idempotency) {
                return Err(match error {
                    Error::Token(_) => error,
                    other => TokenError::Unreachable(Arc::new(other)).into(),
                });
            }
            sleep(wait).await;
            attempt += 1;
        }
    }
}

fn is_invalid_client(error: &Error) -> bool {
    matches!(error, Error::Token(TokenError::Refused { error, .. }) if error == "invalid_client")
}

fn build_request(
    url: &Url,
    auth: ClientAuth<'_>,
    form: &[(&str, &str)],
    secret_in_body: bool,
) -> Result<http::Request<Bytes>, Error> {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(form);
    let mut header = None;
    match auth.secret {
        Some(secret) if !secret_in_body => header = Some(basic_header(auth.client_id, secret)?),
        Some(secret) => {
            body.append_pair("client_id", auth.client_id);
            body.append_pair("client_secret", secret.expose());
        }
        None => {
            body.append_pair("client_id", auth.client_id);
        }
    }
    let mut request = http::Request::post(url.as_str())
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "application/json")
        .body(Bytes::from(body.finish()))
        .map_err(|_| TokenError::Metadata("an address is not a URL"))?;
    if let Some(header) = header {
        request.headers_mut().insert(header::AUTHORIZATION, header);
    }
    Ok(request)
}

/// Returns a Basic header. By RFC 6749 both parts are form-encoded first, so that they may contain a colon.
fn basic_header(client_id: &str, secret: &Secret) -> Result<HeaderValue, TokenError> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(secret.expose()));
    let value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
    let mut value = value.map_err(|_| TokenError::InvalidResponse)?;
    value.set_sensitive(true);
    Ok(value)
}

fn decode_response(reply: &HttpReply) -> Result<TokenResponse, Error> {
    if !reply.status.is_success() {
        return Err(decode_error(reply));
    }
    let body: RawTokenResponse =
        serde_json::from_slice(&reply.body).map_err(|_| TokenError::InvalidResponse)?;
    let token_type = body.token_type.as_deref().unwrap_or("Bearer");
    let token = body.access_token;
    let is_sendable = HeaderValue::from_str(token.expose()).is_ok() && !token.expose().is_empty();
    if !token_type.eq_ignore_ascii_case("bearer") || !is_sendable {
        return Err(TokenError::InvalidResponse.into());
    }
    let lifetime = body.expires_in.and_then(ExpiresIn::into_duration);
    Ok(TokenResponse {
        token: Token::new(token.expose()).expires_in(lifetime.unwrap_or(DEFAULT_LIFETIME)),
        refresh_token: body.refresh_token,
        scope: body.scope,
    })
}

fn decode_error(reply: &HttpReply) -> Error {
    match serde_json::from_slice::<TokenErrorResponse>(&reply.body) {
        Ok(body) if !crate::error::is_transient(reply.status) => TokenError::Refused {
            error: printable(&body.error),
            description: body.error_description.as_deref().map(printable),
            status: reply.status,
        }
        .into(),
        _ if reply.status.is_redirection() => {
            let expected = "application/json";
            Error::InvalidResponse(InvalidResponse::ContentType { expected })
        }
        _ => crate::response::http_error(reply),
    }
}

/// Removes control characters from an issuer's text and truncates it.
fn printable(text: &str) -> String {
    let clean = text.chars().filter(|c| !c.is_control());
    clean.take(MAX_ERROR_TEXT).collect()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}
