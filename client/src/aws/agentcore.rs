//! AgentCore as a transport: a call becomes an InvokeAgentRuntime, its body untouched. Only calls go
//! this way; a zone's other doors cannot be reached through it.

use super::signer::Signer;
use super::v4;
use crate::error::{ConfigError, Error};
use crate::peer;
use crate::retry::fraction;
use crate::transport::{ByteStream, Conversation, Transport, TransportError};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use url::Url;

const SESSION: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-session-id");
const USER: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-user-id");
/// Headers of this kind reach the runtime if its operator lets them through.
const CORRELATION: HeaderName =
    HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-custom-correlation-id");
/// What of a request's own headers goes along.
const PASSED_ON: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
    HeaderName::from_static("x-amzn-trace-id"),
];
/// How long a session's id may be.
const SESSION_LENGTH: std::ops::RangeInclusive<usize> = 33..=256;
/// Before the second and the third try at a platform that has too much to do.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// An error of the platform is a few words.
const LARGEST_ERROR: usize = 64 * 1024;

const ONLY_CALLS: &str =
    "AgentCore carries calls alone: take the events of execute_task, or ask again";
const TWO_PROOFS: &str = "a signed call cannot carry a token too: leave the credentials out, or use them \
                          instead of a signature";

/// How callers prove to the platform who they are.
#[derive(Clone)]
pub enum AgentCoreAuth {
    /// By a signature.
    Signed(Arc<dyn Signer>),
    /// By the token that the client's credentials give.
    Bearer,
}

/// Which runtime to call, and how.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentCoreOptions {
    /// The runtime.
    pub arn: String,
    /// Its endpoint's name; the platform's default if none.
    pub qualifier: Option<String>,
    /// Where the platform is, if not where the region's is.
    pub endpoint: Option<String>,
    /// The session of all calls. Without one, each conversation has its own, and what belongs to none
    /// shares one.
    pub session: Option<String>,
    /// For whom the calls are made.
    pub user: Option<String>,
    /// How callers prove who they are.
    pub auth: AgentCoreAuth,
}

impl AgentCoreOptions {
    /// The usual settings for a runtime.
    pub fn new(arn: impl Into<String>, auth: AgentCoreAuth) -> Self {
        Self {
            arn: arn.into(),
            qualifier: None,
            endpoint: None,
            session: None,
            user: None,
            auth,
        }
    }

    /// The region that a runtime's name tells, for whoever signs.
    pub fn region(arn: &str) -> Option<&str> {
        let mut pieces = arn.split(':');
        let service = (pieces.next(), pieces.next(), pieces.next());
        let (Some("arn"), Some(_), Some("bedrock-agentcore")) = service else {
            return None;
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let region = pieces.next()?;
        (!region.is_empty() && region.chars().all(plain)).then_some(region)
    }
}

/// Calls to a zone that AgentCore runs.
///
/// ```no_run
/// use interzone_client::aws::{AgentCore, AgentCoreAuth, AgentCoreOptions, AwsSigner};
/// use interzone_client::{Client, Https, HttpsOptions};
/// use std::sync::Arc;
///
/// # async fn example() -> Result<(), interzone_client::Error> {
/// let arn = "arn:aws:bedrock-agentcore:eu-west-1:123456789012:runtime/zone-abc";
/// let signer = AwsSigner::from_default_chain("bedrock-agentcore", "eu-west-1").await;
/// let options = AgentCoreOptions::new(arn, AgentCoreAuth::Signed(Arc::new(signer)));
/// let https = Arc::new(Https::new(&HttpsOptions::default())?);
/// let runtime = AgentCore::new(options, https)?;
/// let client = Client::builder(runtime.url()).transport(Arc::new(runtime)).build()?;
/// # Ok(())
/// # }
/// ```
pub struct AgentCore {
    url: String,
    address: http::Uri,
    /// The session of everything, or of what belongs to no conversation.
    session: HeaderValue,
    fixed: bool,
    user: Option<HeaderValue>,
    auth: AgentCoreAuth,
    https: Arc<dyn Transport>,
}

impl AgentCore {
    /// A way to a runtime, over a transport that reaches the platform. It connects to nobody.
    ///
    /// # Errors
    /// The runtime's name, the endpoint's address, the session or the user cannot be used.
    pub fn new(options: AgentCoreOptions, https: Arc<dyn Transport>) -> Result<Self, Error> {
        let region = AgentCoreOptions::region(&options.arn).ok_or(ConfigError::Arn)?;
        let url = match &options.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None if options.arn.starts_with("arn:aws-cn:") => {
                format!("https://bedrock-agentcore.{region}.amazonaws.com.cn")
            }
            None => format!("https://bedrock-agentcore.{region}.amazonaws.com"),
        };
        Url::parse(&url).map_err(|_| ConfigError::Address)?;
        let mut address = format!("{url}/runtimes/{}/invocations", encoded(&options.arn));
        if let Some(qualifier) = &options.qualifier {
            address.push_str("?qualifier=");
            address.push_str(&encoded(qualifier));
        }
        let fixed = options.session.is_some();
        let session = options
            .session
            .unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let session = Some(session).filter(|id| SESSION_LENGTH.contains(&id.len()));
        let session = session.and_then(|id| HeaderValue::from_str(&id).ok());
        let user = options.user.as_deref().map(HeaderValue::from_str);
        let what = "the user of the runtime";
        Ok(Self {
            address: address.parse().map_err(|_| ConfigError::Address)?,
            url,
            session: session.ok_or(ConfigError::Session)?,
            fixed,
            user: user.transpose().map_err(|_| ConfigError::Header { what })?,
            auth: options.auth,
            https,
        })
    }

    /// The platform's address, for [`Client::builder`](crate::Client::builder).
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The request as the platform wants it.
    async fn rewritten(
        &self,
        request: &http::Request<Bytes>,
    ) -> Result<http::Request<Bytes>, TransportError> {
        let mut sent = http::Request::new(request.body().clone());
        *sent.method_mut() = Method::POST;
        *sent.uri_mut() = self.address.clone();
        let (theirs, ours) = (request.headers(), sent.headers_mut());
        for name in PASSED_ON {
            if let Some(value) = theirs.get(&name) {
                ours.insert(name, value.clone());
            }
        }
        if let Some(correlation) = theirs.get("x-correlation-id") {
            ours.insert(CORRELATION, correlation.clone());
        }
        ours.insert(SESSION, self.session_of(request));
        if let Some(user) = &self.user {
            ours.insert(USER, user.clone());
        }
        let token = theirs.get(header::AUTHORIZATION);
        match (&self.auth, token) {
            (AgentCoreAuth::Bearer, Some(token)) => {
                ours.insert(header::AUTHORIZATION, token.clone());
            }
            (AgentCoreAuth::Bearer, None) => {}
            (AgentCoreAuth::Signed(_), Some(_)) => {
                return Err(TransportError::Unsupported(TWO_PROOFS));
            }
            (AgentCoreAuth::Signed(signer), None) => {
                let signed = signer.sign(&mut sent).await;
                signed.map_err(|error| TransportError::Unsigned(Arc::new(error)))?;
            }
        }
        Ok(sent)
    }

    /// The same conversation is always the same session, also after a restart.
    fn session_of(&self, request: &http::Request<Bytes>) -> HeaderValue {
        let conversation = request.extensions().get::<Conversation>();
        let Some(conversation) = conversation.filter(|_| !self.fixed) else {
            return self.session.clone();
        };
        let mut id = "interzone-".to_owned();
        for byte in Sha256::digest(conversation.name()) {
            // Writing to a string cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        HeaderValue::from_str(&id).unwrap_or_else(|_| self.session.clone())
    }
}

#[async_trait::async_trait]
impl Transport for AgentCore {
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        if request.method() != Method::POST || !request.uri().path().ends_with("/jsonrpc") {
            return Err(TransportError::Unsupported(ONLY_CALLS));
        }
        let mut waits = WAITS.into_iter();
        loop {
            // Signed anew each time: a signature tells when it was made.
            let sent = self.rewritten(&request).await?;
            let answer = judged(self.https.send(sent).await?).await;
            match (answer, waits.next()) {
                (Err(error), Some(wait)) if is_throttled(&error) => {
                    sleep(wait.mul_f64(1.0 + fraction() / 2.0)).await;
                }
                (answer, _) => return answer,
            }
        }
    }
}

fn is_throttled(error: &TransportError) -> bool {
    match error {
        TransportError::Platform { code, status } => {
            code == "ThrottlingException" || *status == StatusCode::TOO_MANY_REQUESTS
        }
        _ => false,
    }
}

/// Tells what the platform says from what the zone says: the platform names its errors.
async fn judged(
    response: http::Response<ByteStream>,
) -> Result<http::Response<ByteStream>, TransportError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let named = named(response.headers());
    let reply = peer::read(response, LARGEST_ERROR).await;
    let reply = reply.map_err(|error| match error {
        Error::Transport(error) => error,
        error => TransportError::broken(error),
    })?;
    let code = named.or_else(|| named_within(&reply.body));
    let silent = || (status == StatusCode::FAILED_DEPENDENCY).then(|| "RuntimeNotReady".to_owned());
    if let Some(code) = code.or_else(silent) {
        return Err(TransportError::Platform { code, status });
    }
    let mut response = http::Response::new(stream::once(async { Ok(reply.body) }).boxed());
    *response.status_mut() = status;
    *response.headers_mut() = reply.headers;
    Ok(response)
}

fn named(headers: &HeaderMap) -> Option<String> {
    word(headers.get("x-amzn-errortype")?.to_str().ok()?)
}

/// Older ways to name an error.
fn named_within(body: &[u8]) -> Option<String> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    // A message of JSON-RPC is the zone's.
    if members.contains_key("jsonrpc") {
        return None;
    }
    let name = members.get("__type").or_else(|| members.get("code"))?;
    word(name.as_str()?)
}

/// The plain name: without a namespace before it and an address behind it.
fn word(text: &str) -> Option<String> {
    let name = text.split(':').next()?;
    let name = name.rsplit('#').next()?.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let fits = (1..=100).contains(&name.len()) && name.chars().all(plain);
    fits.then(|| name.to_owned())
}

/// One segment of a path, whatever it holds.
fn encoded(text: &str) -> String {
    v4::encoded(text, b"")
}

impl fmt::Debug for AgentCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentCore")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
