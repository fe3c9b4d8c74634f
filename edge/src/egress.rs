//! Outgoing HTTP requests to URLs given by callers, with SSRF checks.
//!
//! A caller could name a URL to reach the internal network through this server. So only https to public addresses is
//! allowed, DNS results are checked at connect time, redirects are not followed, and time and size are limited. Any
//! port is allowed: a port is no boundary between internal and public. No caller's token may be sent from here.

mod address;
mod resolver;
#[cfg(test)]
mod tests;
mod url_policy;

pub use resolver::{DnsLookup, SystemDnsLookup};

use crate::limited_body::{self, BodyReadError};
use crate::tls::TrustRoots;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};
use resolver::{GuardedResolver, PrivateAddressError};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use url_policy::{AllowList, AllowedUrl};

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of response bytes that [`post`](Egress::post) returns. Receivers send little.
const MAX_POST_RESPONSE_BYTES: usize = 64 << 10;
/// Maximum accepted `Retry-After`, so that no receiver can delay an entry for ever.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// Error of an outgoing request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// The URL is longer than any real one.
    #[error("the url is longer than {} bytes", url_policy::MAX_URL_BYTES)]
    TooLong,
    /// The URL has parts that no real URL has.
    #[error("the url has characters or parts that are not allowed")]
    Malformed,
    /// The URL cannot be parsed.
    #[error("the url is invalid")]
    Invalid(#[source] url::ParseError),
    /// The URL is not https.
    #[error("the url must begin with https://")]
    Scheme,
    /// The URL contains credentials.
    #[error("the url must not contain a user name or a password")]
    Credentials,
    /// The URL resolves to an address that is not public.
    #[error("the url leads to an address that is not public")]
    Private,
    /// The host is a numeric address in a spelling that other parsers read differently.
    #[error("the url must spell an address as four decimal numbers with dots between them")]
    NumericHost,
    /// A header is not allowed.
    #[error("a request header is not allowed")]
    Header,
    /// The host cannot be resolved, or the connection failed.
    #[error("the receiver cannot be reached")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The request timed out.
    #[error("the receiver timed out")]
    Timeout,
    /// The response was interrupted.
    #[error("the receiver's response was interrupted")]
    Interrupted(#[source] Box<dyn Error + Send + Sync>),
    /// The response exceeds the limit.
    #[error("the receiver's response is longer than {limit} bytes")]
    ResponseTooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
}

impl EgressError {
    /// Returns the error code for metrics and records.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "url_too_long",
            Self::Malformed | Self::Invalid(_) => "url_malformed",
            Self::Scheme => "url_scheme",
            Self::Credentials => "url_credentials",
            Self::Private => "url_not_public",
            Self::NumericHost => "url_numeric_host",
            Self::Header => "header",
            Self::Unreachable(_) => "unreachable",
            Self::Timeout => "timeout",
            Self::Interrupted(_) => "broken",
            Self::ResponseTooLarge { .. } => "answer_too_long",
        }
    }

    /// Returns true if the same request may succeed later.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Timeout | Self::Interrupted(_) => true,
            Self::TooLong
            | Self::Malformed
            | Self::Invalid(_)
            | Self::Scheme
            | Self::Credentials
            | Self::Private
            | Self::NumericHost
            | Self::Header
            | Self::ResponseTooLarge { .. } => false,
        }
    }
}

/// Error creating an [`Egress`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressSetupError {
    /// An allow-list entry is invalid.
    #[error("{0:?} is not of the form host:port")]
    Entry(String),
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client for outgoing requests")]
    Client(#[source] reqwest::Error),
}

/// Response of a receiver.
#[derive(Clone, Debug)]
pub struct EgressResponse {
    /// Status. A redirect is returned like any other.
    pub status: StatusCode,
    /// `Retry-After`, limited to one hour.
    pub retry_after: Option<Duration>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// Body.
    pub body: Bytes,
}

/// Limits of one request.
#[derive(Clone, Copy, Debug)]
pub struct EgressLimits {
    /// Timeout from the DNS lookup to the last byte of the response.
    pub timeout: Duration,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
        }
    }
}

/// HTTP client with SSRF checks. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    allow: Arc<AllowList>,
    /// Client for public addresses only.
    guarded: reqwest::Client,
    /// Client for the allow-listed hosts, if there are any.
    unrestricted: Option<reqwest::Client>,
}

/// Configuration of an [`Egress`].
pub struct EgressOptions {
    /// `host:port` pairs that are allowed although they are not public, also by http.
    pub allow: Vec<String>,
    /// Trusted CAs.
    pub trust: TrustRoots,
    /// DNS lookup.
    pub lookup: Arc<dyn DnsLookup>,
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            trust: TrustRoots::system(),
            lookup: Arc::new(SystemDnsLookup),
        }
    }
}

impl Egress {
    /// Creates a client.
    ///
    /// # Errors
    ///
    /// An allow-list entry is invalid, or TLS cannot be used.
    pub fn new(options: &EgressOptions) -> Result<Self, EgressSetupError> {
        let allow = AllowList::parse(&options.allow).map_err(EgressSetupError::Entry)?;
        let build = |allow_private| {
            options
                .trust
                .client()
                .dns_resolver(GuardedResolver {
                    lookup: Arc::clone(&options.lookup),
                    allow_private,
                })
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT_TIMEOUT)
                .https_only(!allow_private)
                .build()
                .map_err(EgressSetupError::Client)
        };
        // Created only if needed: it reads the system's CAs from disk.
        let open = match options.allow.is_empty() {
            true => None,
            false => Some(build(true)?),
        };
        Ok(Self {
            allow: Arc::new(allow),
            guarded: build(false)?,
            unrestricted: open,
        })
    }

    /// Checks a URL by its text, when a caller submits it. Drops the fragment. DNS results are checked with every
    /// request.
    ///
    /// # Errors
    ///
    /// The URL is not allowed.
    pub fn check_url(&self, url: &str) -> Result<Url, EgressError> {
        url_policy::check_url(url, &self.allow).map(|vetted| vetted.url)
    }

    /// Sends `body` and returns the first 64 KiB of the response.
    ///
    /// # Errors
    ///
    /// There was no response. An error status is a response.
    pub async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        limits: EgressLimits,
    ) -> Result<EgressResponse, EgressError> {
        let call = async {
            let mut response = self
                .send(Method::POST, url, headers, Some(body), limits)
                .await?;
            let mut reply = response_head(&response);
            let mut prefix = BytesMut::new();
            // The status counts, even if the body is long or incomplete.
            let _ = limited_body::read_prefix(&mut response, MAX_POST_RESPONSE_BYTES, &mut prefix)
                .await;
            reply.body = prefix.freeze();
            Ok(reply)
        };
        with_timeout(limits, call).await
    }

    /// Fetches a response of at most `max_bytes` bytes.
    ///
    /// # Errors
    ///
    /// There was no response, or it is too large. An error status is a response.
    pub async fn fetch(
        &self,
        url: &str,
        headers: HeaderMap,
        max_bytes: usize,
        limits: EgressLimits,
    ) -> Result<EgressResponse, EgressError> {
        let call = async {
            let response = self.send(Method::GET, url, headers, None, limits).await?;
            let mut reply = response_head(&response);
            reply.body = match limited_body::read_all(response, max_bytes).await {
                Ok(body) => body,
                Err(BodyReadError::TooLong { .. }) => {
                    return Err(EgressError::ResponseTooLarge { limit: max_bytes });
                }
                Err(BodyReadError::Connection(error)) => return Err(translate(error)),
            };
            Ok(reply)
        };
        with_timeout(limits, call).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
        limits: EgressLimits,
    ) -> Result<reqwest::Response, EgressError> {
        let AllowedUrl {
            url,
            is_allow_listed: excepted,
        } = url_policy::check_url(url, &self.allow)?;
        let open = self.unrestricted.as_ref().filter(|_| excepted);
        let client = open.unwrap_or(&self.guarded);
        // The URL alone determines the host, and the body the length.
        let reserved = [http::header::HOST, http::header::CONTENT_LENGTH];
        if reserved.iter().any(|name| headers.contains_key(name)) {
            return Err(EgressError::Header);
        }
        let mut request = client.request(method, url).headers(headers);
        request = request.timeout(limits.timeout);
        if let Some(body) = body {
            request = request.body(body);
        }
        request.send().await.map_err(translate)
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("allow", &self.allow)
            .finish_non_exhaustive()
    }
}

/// Applies the timeout. The HTTP client has its own; this one also covers what that does not.
async fn with_timeout<T>(
    limits: EgressLimits,
    call: impl Future<Output = Result<T, EgressError>>,
) -> Result<T, EgressError> {
    let call = tokio::time::timeout(limits.timeout, call);
    call.await.unwrap_or(Err(EgressError::Timeout))
}

fn response_head(response: &reqwest::Response) -> EgressResponse {
    let text = |name| response.headers().get(name)?.to_str().ok();
    let seconds = text(http::header::RETRY_AFTER).and_then(|text| text.trim().parse().ok());
    EgressResponse {
        status: response.status(),
        retry_after: seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER)),
        content_type: text(http::header::CONTENT_TYPE).map(str::to_owned),
        body: Bytes::new(),
    }
}

/// Converts an error by type, never by text. The URL is removed: its path may hold a secret of the receiver.
fn translate(error: reqwest::Error) -> EgressError {
    let error = error.without_url();
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(this) = cause {
        if this.is::<PrivateAddressError>() {
            return EgressError::Private;
        }
        cause = this.source();
    }
    if error.is_timeout() && !error.is_connect() {
        EgressError::Timeout
    } else if error.is_connect() || error.is_request() {
        EgressError::Unreachable(error.into())
    } else {
        EgressError::Interrupted(error.into())
    }
}
