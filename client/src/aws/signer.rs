//! Request signers for AWS.

use super::credentials::CredentialCache;
use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Signs requests.
#[async_trait::async_trait]
pub trait RequestSigner: Send + Sync + 'static {
    /// Adds the signature headers to the request. It must not be changed afterwards.
    ///
    /// # Errors
    /// If there are no credentials, or the request cannot be signed.
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError>;
}

/// Signing error. The message includes the cause, because callers often print only the message; it must not contain
/// credentials.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// No source has valid AWS credentials.
    #[error(
        "there are no credentials for AWS: set them in the environment, a profile or a role: {0}"
    )]
    Credentials(Arc<dyn Error + Send + Sync>),
    /// The request has a part that cannot be signed.
    #[error("the request cannot be signed: {0}")]
    Request(Arc<dyn Error + Send + Sync>),
}

/// SigV4 signer for one service in one region.
///
/// ```no_run
/// use bytes::Bytes;
/// use interzone_client::aws::{AwsSigner, RequestSigner};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let signer = AwsSigner::from_default_chain("bedrock", "eu-west-1").await;
/// let mut request = http::Request::post("https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse")
///     .body(Bytes::from_static(b"{}"))?;
/// signer.sign(&mut request).await?;
/// assert!(request.headers().contains_key("authorization"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AwsSigner {
    credentials: Arc<CredentialCache>,
    service: String,
    region: String,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl AwsSigner {
    /// Signs with credentials of AWS's default chain: environment, profiles (keys, roles, single sign-on,
    /// `credential_process`), web identity, container, instance. They are fetched when the first request is signed,
    /// and again before they expire.
    pub async fn from_default_chain(service: impl Into<String>, region: impl Into<String>) -> Self {
        let region = region.into();
        let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .region(Region::new(region.clone()))
            .load()
            .await;
        let cache = CredentialCache::new(config.credentials_provider());
        Self::from_cache(cache, service.into(), region)
    }

    /// Signs with credentials of this provider. [`AwsCredentials`](super::AwsCredentials) provide themselves.
    pub fn from_provider(
        service: impl Into<String>,
        region: impl Into<String>,
        provider: impl ProvideCredentials + 'static,
    ) -> Self {
        let provider = aws_credential_types::provider::SharedCredentialsProvider::new(provider);
        let cache = CredentialCache::new(Some(provider));
        Self::from_cache(cache, service.into(), region.into())
    }

    fn from_cache(credentials: CredentialCache, service: String, region: String) -> Self {
        Self {
            credentials: Arc::new(credentials),
            service,
            region,
            clock: Arc::new(SystemTime::now),
        }
    }

    /// Uses another clock than the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the region.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the signature headers of a request.
    fn signature_headers(
        &self,
        request: &http::Request<Bytes>,
        credentials: Credentials,
        at: SystemTime,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Box<dyn Error + Send + Sync>> {
        let identity = credentials.into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(at)
            .settings(SigningSettings::default())
            .build()?;
        let mut headers = Vec::with_capacity(request.headers().len());
        for (name, value) in request.headers() {
            if is_signed(name) {
                headers.push((name.as_str(), value.to_str()?));
            }
        }
        let body = SignableBody::Bytes(request.body());
        let address = request.uri().to_string();
        let method = request.method().as_str();
        let signable = SignableRequest::new(method, address, headers.into_iter(), body)?;
        let (instructions, _) =
            aws_sigv4::http_request::sign(signable, &params.into())?.into_parts();
        let (added, _) = instructions.into_parts();
        let mut headers = Vec::with_capacity(added.len());
        for added in added {
            let name = HeaderName::from_static(added.name());
            let mut value = HeaderValue::from_str(added.value())?;
            value.set_sensitive(name == header::AUTHORIZATION || added.sensitive());
            headers.push((name, value));
        }
        Ok(headers)
    }
}

#[async_trait::async_trait]
impl RequestSigner for AwsSigner {
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let at = (self.clock)();
        let credentials = self.credentials.get(at).await?;
        let headers = self
            .signature_headers(request, credentials, at)
            .map_err(|error| SignError::Request(error.into()))?;
        request.headers_mut().extend(headers);
        Ok(())
    }
}

/// Returns true for headers that are signed: those with a meaning to AWS. Intermediaries may change others.
fn is_signed(name: &HeaderName) -> bool {
    let text = name.as_str();
    name == header::CONTENT_TYPE
        || text.starts_with("x-amz-")
        || (text.starts_with("x-amzn-") && text != "x-amzn-trace-id")
}

/// Omits credentials.
impl fmt::Debug for AwsSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsSigner")
            .field("service", &self.service)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}
