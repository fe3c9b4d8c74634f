//! Bedrock AgentCore transport: wraps a call in an InvokeAgentRuntime request with the same body. Only `/jsonrpc`
//! calls are supported.

use super::signer::RequestSigner;
use crate::error::{ConfigError, Error};
use crate::http_exchange;
use crate::transport::{ByteStream, ConversationName, Transport, TransportError};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use url::Url;

const SESSION: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-session-id");
const USER: HeaderName = HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-user-id");
/// Headers with this prefix reach the runtime if its operator allows them.
const CORRELATION: HeaderName =
    HeaderName::from_static("x-amzn-bedrock-agentcore-runtime-custom-correlation-id");
/// Request headers that are forwarded.
const FORWARDED_HEADERS: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
    HeaderName::from_static("x-amzn-trace-id"),
];
/// Allowed length of a session id.
const SESSION_LENGTH: std::ops::RangeInclusive<usize> = 33..=256;
/// Waits before the retries of a throttled request.
const THROTTLE_WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// Maximum size of an error response.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// Characters that are percent-encoded in URLs: all but the unreserved ones.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

const ONLY_CALLS: &str = "AgentCore supports calls only: use the events of execute_task, or poll";
const TOKEN_AND_SIGNATURE: &str = "a signed call cannot have a token: remove the credentials, or use them \
                          instead of a signature";

/// Authentication at the platform.
#[derive(Clone)]
pub enum AgentCoreAuth {
    /// SigV4 signature.
    Signed(Arc<dyn RequestSigner>),
    /// Token of the client's credentials.
    Bearer,
}

/// Options of the AgentCore transport.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentCoreOptions {
    /// ARN of the runtime.
    pub arn: String,
    /// Endpoint name; the platform's default if absent.
    pub qualifier: Option<String>,
    /// Platform URL, if not the region's default.
    pub endpoint: Option<String>,
    /// Session id of all calls. If absent, each conversation has its own, and calls without a conversation share
    /// one.
    pub session: Option<String>,
    /// User id of the calls.
    pub user: Option<String>,
    /// Authentication at the platform.
    pub auth: AgentCoreAuth,
}

impl AgentCoreOptions {
    /// Creates options with defaults.
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

    /// Returns the region of a runtime ARN.
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

/// Transport to a zone that runs on AgentCore.
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
    /// Session of all calls, or of those without a conversation.
    session: HeaderValue,
    is_session_fixed: bool,
    user: Option<HeaderValue>,
    auth: AgentCoreAuth,
    https: Arc<dyn Transport>,
}

impl AgentCore {
    /// Creates the transport on top of an HTTPS transport. Does not connect.
    ///
    /// # Errors
    /// If the ARN, the endpoint URL, the session or the user is invalid.
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
        let mut address = format!(
            "{url}/runtimes/{}/invocations",
            encode_segment(&options.arn)
        );
        if let Some(qualifier) = &options.qualifier {
            address.push_str("?qualifier=");
            address.push_str(&encode_segment(qualifier));
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
            is_session_fixed: fixed,
            user: user.transpose().map_err(|_| ConfigError::Header { what })?,
            auth: options.auth,
            https,
        })
    }

    /// Returns the platform's URL, for [`Client::builder`](crate::Client::builder).
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Converts a request into an InvokeAgentRuntime request.
    async fn rewrite_request(
        &self,
        request: &http::Request<Bytes>,
    ) -> Result<http::Request<Bytes>, TransportError> {
        let mut rewritten = http::Request::new(request.body().clone());
        *rewritten.method_mut() = Method::POST;
        *rewritten.uri_mut() = self.address.clone();
        let (original_headers, headers) = (request.headers(), rewritten.headers_mut());
        for name in FORWARDED_HEADERS {
            if let Some(value) = original_headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        if let Some(correlation) = original_headers.get("x-correlation-id") {
            headers.insert(CORRELATION, correlation.clone());
        }
        headers.insert(SESSION, self.session_of(request));
        if let Some(user) = &self.user {
            headers.insert(USER, user.clone());
        }
        let token = original_headers.get(header::AUTHORIZATION);
        match (&self.auth, token) {
            (AgentCoreAuth::Bearer, Some(token)) => {
                headers.insert(header::AUTHORIZATION, token.clone());
            }
            (AgentCoreAuth::Bearer, None) => {}
            (AgentCoreAuth::Signed(_), Some(_)) => {
                return Err(TransportError::Unsupported(TOKEN_AND_SIGNATURE));
            }
            (AgentCoreAuth::Signed(signer), None) => {
                let signed = signer.sign(&mut rewritten).await;
                signed.map_err(|error| TransportError::Unsigned(Arc::new(error)))?;
            }
        }
        Ok(rewritten)
    }

    /// Returns the session of a request. A conversation always has the same session, also after a restart.
    fn session_of(&self, request: &http::Request<Bytes>) -> HeaderValue {
        let conversation = request.extensions().get::<ConversationName>();
        let Some(conversation) = conversation.filter(|_| !self.is_session_fixed) else {
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
        let mut waits = THROTTLE_WAITS.into_iter();
        loop {
            // Signed again each time, because a signature contains its time.
            let rewritten = self.rewrite_request(&request).await?;
            let response = check_platform_error(self.https.send(rewritten).await?).await;
            match (response, waits.next()) {
                (Err(error), Some(wait)) if is_throttled(&error) => {
                    sleep(wait + interzone_backoff::random_up_to(wait / 2)).await;
                }
                (response, _) => return response,
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

/// Separates platform errors, which have an error type, from responses of the zone.
async fn check_platform_error(
    response: http::Response<ByteStream>,
) -> Result<http::Response<ByteStream>, TransportError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let code = error_type_header(response.headers());
    let reply = http_exchange::read_reply(response, MAX_ERROR_BODY).await;
    let reply = reply.map_err(|error| match error {
        Error::Transport(error) => error,
        error => TransportError::broken(error),
    })?;
    let code = code.or_else(|| error_type_in_body(&reply.body));
    let default_code =
        || (status == StatusCode::FAILED_DEPENDENCY).then(|| "RuntimeNotReady".to_owned());
    if let Some(code) = code.or_else(default_code) {
        return Err(TransportError::Platform { code, status });
    }
    let mut response = http::Response::new(stream::once(async { Ok(reply.body) }).boxed());
    *response.status_mut() = status;
    *response.headers_mut() = reply.headers;
    Ok(response)
}

fn error_type_header(headers: &HeaderMap) -> Option<String> {
    plain_error_name(headers.get("x-amzn-errortype")?.to_str().ok()?)
}

/// Returns the error type from the body (older services).
fn error_type_in_body(body: &[u8]) -> Option<String> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body).ok()?;
    // A JSON-RPC message is from the zone.
    if members.contains_key("jsonrpc") {
        return None;
    }
    let name = members.get("__type").or_else(|| members.get("code"))?;
    plain_error_name(name.as_str()?)
}

/// Returns the plain error name, without namespace and URL.
fn plain_error_name(text: &str) -> Option<String> {
    let name = text.split(':').next()?;
    let name = name.rsplit('#').next()?.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let fits = (1..=100).contains(&name.len()) && name.chars().all(plain);
    fits.then(|| name.to_owned())
}

/// Percent-encodes one path segment.
fn encode_segment(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

impl fmt::Debug for AgentCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentCore")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
