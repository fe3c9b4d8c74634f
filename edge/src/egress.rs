//! The way out: calls to addresses that somebody gave us.
//!
//! Whoever names a URL here could mean to use us as a bridge into the network we stand in. So only
//! https goes to public addresses only, names are judged by where they lead in the moment of the
//! connection, redirects are not followed, and neither time nor bytes are without end. Any port may
//! be named: a port is no boundary between inside and outside. No token of a caller may enter here.

mod address;
mod resolve;
#[cfg(test)]
mod tests;
mod vet;

pub use resolve::{Lookup, MachineLookup};

use crate::capped::{self, Cut};
use crate::tls::Trust;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use resolve::{Guard, LeadsInside};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use vet::{AllowList, Vetted};

/// How long to wait for a connection. Longer means that nobody is there.
const CONNECT: Duration = Duration::from_secs(5);
/// How many bytes of an answer to a [`post`](Egress::post) are kept. Receivers say little.
const POST_ANSWER: usize = 64 << 10;
/// The longest `Retry-After` that we believe, so that no receiver can park an entry for ever.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Why a call was not made or came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// Longer than any real URL.
    #[error("the url is longer than {} bytes", vet::LONGEST)]
    TooLong,
    /// It has parts that no real URL has.
    #[error("the url has characters or parts that are not allowed")]
    Malformed,
    /// It is no URL.
    #[error("the url cannot be read")]
    Unreadable(#[source] url::ParseError),
    /// Others could read or change what is said.
    #[error("the url must begin with https://")]
    Scheme,
    /// A name and a password have no place in a URL.
    #[error("the url must not contain a user name or a password")]
    Credentials,
    /// It leads to an address that is not public.
    #[error("the url leads to an address that is not public")]
    Private,
    /// An address that others could read in another way.
    #[error("the url must spell an address as four decimal numbers with dots between them")]
    Spelling,
    /// A header cannot be sent.
    #[error("a header for the call cannot be sent")]
    Header,
    /// Nobody was found under that name, or they did not let us in.
    #[error("the receiver cannot be reached")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// It took too long.
    #[error("the receiver took too long")]
    TooSlow,
    /// The answer broke off.
    #[error("the receiver's answer broke off")]
    Broken(#[source] Box<dyn Error + Send + Sync>),
    /// The answer has more bytes than were asked for.
    #[error("the receiver's answer is longer than {limit} bytes")]
    TooMuch {
        /// How many bytes it may have.
        limit: usize,
    },
}

impl EgressError {
    /// One word for metrics and records.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::TooLong => "url_too_long",
            Self::Malformed | Self::Unreadable(_) => "url_malformed",
            Self::Scheme => "url_scheme",
            Self::Credentials => "url_credentials",
            Self::Private => "url_not_public",
            Self::Spelling => "url_numeric_host",
            Self::Header => "header",
            Self::Unreachable(_) => "unreachable",
            Self::TooSlow => "timeout",
            Self::Broken(_) => "broken",
            Self::TooMuch { .. } => "answer_too_long",
        }
    }

    /// True if the same call may succeed later.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TooSlow | Self::Broken(_) => true,
            Self::TooLong
            | Self::Malformed
            | Self::Unreadable(_)
            | Self::Scheme
            | Self::Credentials
            | Self::Private
            | Self::Spelling
            | Self::Header
            | Self::TooMuch { .. } => false,
        }
    }
}

/// Why there is no way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressSetupError {
    /// An exception that cannot be read.
    #[error("{0:?} is not of the form host:port")]
    Entry(String),
    /// TLS cannot be used.
    #[error("the client for outgoing calls cannot be made")]
    Client(#[source] reqwest::Error),
}

/// What came back.
#[derive(Clone, Debug)]
pub struct EgressReply {
    /// How it went, as the receiver sees it. A redirect is an answer like any other.
    pub status: StatusCode,
    /// When the receiver wants to hear of it again.
    pub retry_after: Option<Duration>,
    /// What kind of content it says it sent.
    pub content_type: Option<String>,
    /// The content.
    pub body: Bytes,
}

/// How much a call may take.
#[derive(Clone, Copy, Debug)]
pub struct EgressLimits {
    /// From the first look at the name to the last byte of the answer.
    pub time: Duration,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
        }
    }
}

/// The guarded way out. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    allow: Arc<AllowList>,
    /// Goes to public addresses only.
    guarded: reqwest::Client,
    /// Goes to the exceptions, if there are any.
    open: Option<reqwest::Client>,
}

/// Where the way out leads.
pub struct EgressOptions {
    /// `host:port` pairs that may be called although they are not public, by http too.
    pub allow: Vec<String>,
    /// Which certificates are trusted.
    pub trust: Trust,
    /// Finds the addresses of names.
    pub lookup: Arc<dyn Lookup>,
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            trust: Trust::system(),
            lookup: Arc::new(MachineLookup),
        }
    }
}

impl Egress {
    /// A way out.
    ///
    /// # Errors
    ///
    /// If an exception cannot be read or TLS cannot be used.
    pub fn new(options: &EgressOptions) -> Result<Self, EgressSetupError> {
        let allow = AllowList::parse(&options.allow).map_err(EgressSetupError::Entry)?;
        let build = |inside_too| {
            options
                .trust
                .client()
                .dns_resolver(Guard {
                    lookup: Arc::clone(&options.lookup),
                    inside_too,
                })
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .connect_timeout(CONNECT)
                .https_only(!inside_too)
                .build()
                .map_err(EgressSetupError::Client)
        };
        // Making one reads the system's CAs from disk, so none is made for nothing.
        let open = match options.allow.is_empty() {
            true => None,
            false => Some(build(true)?),
        };
        Ok(Self {
            allow: Arc::new(allow),
            guarded: build(false)?,
            open,
        })
    }

    /// Judges a URL by its letters, for the moment in which somebody gives it to us. The fragment is
    /// dropped. Where a name leads is judged with every call.
    ///
    /// # Errors
    ///
    /// Why it may not be called.
    pub fn vet(&self, url: &str) -> Result<Url, EgressError> {
        vet::vet(url, &self.allow).map(|vetted| vetted.url)
    }

    /// Sends `body`, and keeps the first 64 KiB of the answer.
    ///
    /// # Errors
    ///
    /// If there was no answer. A status that means failure is an answer.
    pub async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        limits: EgressLimits,
    ) -> Result<EgressReply, EgressError> {
        let call = async {
            let answer = self
                .call(Method::POST, url, headers, Some(body), limits)
                .await?;
            let mut reply = reply_to(&answer);
            reply.body = capped::beginning(answer, POST_ANSWER).await;
            Ok(reply)
        };
        within(limits, call).await
    }

    /// Gets what is there, if it has at most `largest` bytes.
    ///
    /// # Errors
    ///
    /// If there was no answer or too much of it. A status that means failure is an answer.
    pub async fn fetch(
        &self,
        url: &str,
        headers: HeaderMap,
        largest: usize,
        limits: EgressLimits,
    ) -> Result<EgressReply, EgressError> {
        let call = async {
            let answer = self.call(Method::GET, url, headers, None, limits).await?;
            let mut reply = reply_to(&answer);
            reply.body = match capped::whole(answer, largest).await {
                Ok(body) => body,
                Err(Cut::TooLong) => return Err(EgressError::TooMuch { limit: largest }),
                Err(Cut::Broken(error)) => return Err(translate(error)),
            };
            Ok(reply)
        };
        within(limits, call).await
    }

    async fn call(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
        limits: EgressLimits,
    ) -> Result<reqwest::Response, EgressError> {
        let Vetted { url, excepted } = vet::vet(url, &self.allow)?;
        let open = self.open.as_ref().filter(|_| excepted);
        let client = open.unwrap_or(&self.guarded);
        // Who is spoken to is said by the URL alone, and how much by the body.
        let own = [http::header::HOST, http::header::CONTENT_LENGTH];
        if own.iter().any(|name| headers.contains_key(name)) {
            return Err(EgressError::Header);
        }
        let mut request = client.request(method, url).headers(headers);
        request = request.timeout(limits.time);
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

/// The client has a limit of its own; this one also covers what it does not.
async fn within<T>(
    limits: EgressLimits,
    call: impl Future<Output = Result<T, EgressError>>,
) -> Result<T, EgressError> {
    let call = tokio::time::timeout(limits.time, call);
    call.await.unwrap_or(Err(EgressError::TooSlow))
}

fn reply_to(answer: &reqwest::Response) -> EgressReply {
    let text = |name| answer.headers().get(name)?.to_str().ok();
    let seconds = text(http::header::RETRY_AFTER).and_then(|text| text.trim().parse().ok());
    EgressReply {
        status: answer.status(),
        retry_after: seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_PAUSE)),
        content_type: text(http::header::CONTENT_TYPE).map(str::to_owned),
        body: Bytes::new(),
    }
}

/// What went wrong, told apart by types and never by text. The URL stays out of it: its path may
/// hold a secret of the receiver.
fn translate(error: reqwest::Error) -> EgressError {
    let error = error.without_url();
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(this) = cause {
        if this.is::<LeadsInside>() {
            return EgressError::Private;
        }
        cause = this.source();
    }
    if error.is_timeout() && !error.is_connect() {
        EgressError::TooSlow
    } else if error.is_connect() || error.is_request() {
        EgressError::Unreachable(error.into())
    } else {
        EgressError::Broken(error.into())
    }
}
