//! The token endpoint of an authorization server: one form posted, one token or refusal read.

use super::Token;
use super::discovery::{self, Metadata};
use crate::Secret;
use crate::error::{AnswerFault, Error, TokenError};
use crate::options::Settings;
use crate::peer::{Deadline, Peers, Reply};
use crate::retry::{self, Safety};
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

/// How long it may take to get a token, all tries and waits together.
const TOKEN_LIMIT: Duration = Duration::from_secs(15);
/// An answer of an authorization server is a few hundred bytes.
pub(super) const ANSWER_LIMIT: usize = 256 * 1024;
/// How long a token lives whose issuer does not say.
const USUAL_LIFETIME: Duration = Duration::from_secs(3600);
/// What is kept of an issuer's words.
const WORDS: usize = 200;

/// Where tokens come from, as far as that is known.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(super) base: Url,
    pub(super) peers: Arc<Peers>,
    pub(super) settings: Settings,
    found: OnceCell<Metadata>,
    /// The issuer takes the secret in the body only.
    secret_in_body: AtomicBool,
}

/// A client's name and its secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientAuth<'a> {
    pub(crate) client_id: &'a str,
    /// None for a client that can keep none, such as a program on somebody's own machine.
    pub(crate) secret: Option<&'a Secret>,
}

/// What was granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) refresh_token: Option<Secret>,
    pub(crate) scope: Option<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: Secret,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<Seconds>,
    #[serde(default)]
    refresh_token: Option<Secret>,
    #[serde(default)]
    scope: Option<String>,
}

/// Some issuers write the number as a string or with a fraction.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Whole(u64),
    Fraction(f64),
    Text(String),
}

impl Seconds {
    fn duration(self) -> Option<Duration> {
        match self {
            Self::Whole(seconds) => Some(Duration::from_secs(seconds)),
            Self::Fraction(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Self::Text(text) => text.trim().parse().ok().map(Duration::from_secs),
        }
    }
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl Issuer {
    pub(crate) fn new(base: Url, peers: Arc<Peers>, settings: Settings) -> Self {
        Self {
            base,
            peers,
            settings,
            found: OnceCell::new(),
            secret_in_body: AtomicBool::new(false),
        }
    }

    /// What the authorization server of the peer says of itself; asked once.
    pub(crate) async fn metadata(&self) -> Result<&Metadata, Error> {
        let found = self.found.get_or_try_init(|| discovery::find(self)).await?;
        if found.secret_in_body {
            self.secret_in_body.store(true, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// An endpoint that may be sent secrets: https, or on this machine.
    pub(crate) fn checked(&self, url: &str) -> Result<Url, TokenError> {
        let url = Url::parse(url).map_err(|_| TokenError::Metadata("an address is not a URL"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let safe = match url.scheme() {
            "https" => true,
            "http" => self.settings.allow_http || is_loopback(&url),
            _ => false,
        };
        if safe {
            Ok(url)
        } else {
            Err(TokenError::Insecure { host })
        }
    }

    /// Asks for a token.
    pub(crate) async fn grant(
        &self,
        url: &Url,
        auth: ClientAuth<'_>,
        form: &[(&str, &str)],
        safety: Safety,
    ) -> Result<Grant, Error> {
        let deadline = Deadline::within(TOKEN_LIMIT);
        let mut attempt = 0;
        loop {
            let in_body = self.secret_in_body.load(Ordering::Relaxed);
            let request = request(url, auth, form, in_body)?;
            let reply = self.peers.exchange(request, ANSWER_LIMIT, deadline).await;
            let error = match reply.and_then(|reply| granted(&reply)) {
                Ok(grant) => return Ok(grant),
                Err(error) => error,
            };
            // Servers must take the secret in the header, and some take it in the body only.
            if !in_body && auth.secret.is_some() && is_unknown_client(&error) {
                self.secret_in_body.store(true, Ordering::Relaxed);
                continue;
            }
            let policy = &self.settings.retry;
            let wait = policy.wait(attempt) + error.retry_after().unwrap_or_default();
            let over = Instant::now() + wait >= deadline.at;
            if over || attempt >= policy.retries || !retry::helps(&error, safety) {
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

fn is_unknown_client(error: &Error) -> bool {
    matches!(error, Error::Token(TokenError::Refused { error, .. }) if error == "invalid_client")
}

fn request(
    url: &Url,
    auth: ClientAuth<'_>,
    form: &[(&str, &str)],
    secret_in_body: bool,
) -> Result<http::Request<Bytes>, Error> {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(form);
    let mut header = None;
    match auth.secret {
        Some(secret) if !secret_in_body => header = Some(basic(auth.client_id, secret)?),
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

/// By RFC 6749 both are form-encoded first, so that a colon in one does not end it.
fn basic(client_id: &str, secret: &Secret) -> Result<HeaderValue, TokenError> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(secret.expose()));
    let value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)));
    let mut value = value.map_err(|_| TokenError::Answer)?;
    value.set_sensitive(true);
    Ok(value)
}

fn granted(reply: &Reply) -> Result<Grant, Error> {
    if !reply.status.is_success() {
        return Err(refused(reply));
    }
    let answer: TokenAnswer =
        serde_json::from_slice(&reply.body).map_err(|_| TokenError::Answer)?;
    let bearer = answer.token_type.as_deref().unwrap_or("Bearer");
    let token = answer.access_token;
    let sendable = HeaderValue::from_str(token.expose()).is_ok() && !token.expose().is_empty();
    if !bearer.eq_ignore_ascii_case("bearer") || !sendable {
        return Err(TokenError::Answer.into());
    }
    let lifetime = answer.expires_in.and_then(Seconds::duration);
    Ok(Grant {
        token: Token::new(token.expose()).expires_in(lifetime.unwrap_or(USUAL_LIFETIME)),
        refresh_token: answer.refresh_token,
        scope: answer.scope,
    })
}

fn refused(reply: &Reply) -> Error {
    match serde_json::from_slice::<ErrorAnswer>(&reply.body) {
        Ok(answer) if !crate::error::is_passing(reply.status) => TokenError::Refused {
            error: printable(&answer.error),
            description: answer.error_description.as_deref().map(printable),
            status: reply.status,
        }
        .into(),
        _ if reply.status.is_redirection() => {
            let expected = "application/json";
            Error::Answer(AnswerFault::ContentType { expected })
        }
        _ => crate::answer::status(reply),
    }
}

/// An issuer's words, fit for a terminal.
fn printable(words: &str) -> String {
    let clean = words.chars().filter(|c| !c.is_control());
    clean.take(WORDS).collect()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}
