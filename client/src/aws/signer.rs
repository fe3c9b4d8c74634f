//! Request signers for AWS. The algorithm is in `sigv4`, credentials come from `credentials`.

use super::credentials::CredentialCache;
use super::sigv4;
use crate::Secret;
use bytes::Bytes;
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
    Credentials(Arc<dyn std::error::Error + Send + Sync>),
    /// The request has a part that cannot be signed.
    #[error("the request cannot be signed: {0}")]
    Request(Arc<dyn std::error::Error + Send + Sync>),
}

/// Static AWS credentials.
///
/// ```
/// use interzone_client::aws::AwsKeys;
///
/// let keys = AwsKeys::new("AKIDEXAMPLE", "s3cret");
/// assert!(!format!("{keys:?}").contains("s3cret"));
/// ```
#[derive(Clone, Debug)]
pub struct AwsKeys {
    id: String,
    secret: Secret,
    session: Option<Secret>,
}

impl AwsKeys {
    /// Creates credentials from an access key id and its secret.
    pub fn new(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self {
            id: id.into(),
            secret: secret.into(),
            session: None,
        }
    }

    /// Adds the session token of temporary credentials.
    #[must_use]
    pub fn with_session_token(mut self, token: impl Into<Secret>) -> Self {
        self.session = Some(token.into());
        self
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn secret(&self) -> &str {
        self.secret.expose()
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_ref().map(Secret::expose)
    }
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
    keys: Arc<CredentialCache>,
    service: String,
    region: String,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl AwsSigner {
    /// Signs with credentials of the AWS default chain: environment, profiles, web identity, container, instance.
    /// They are fetched when the first request is signed, and again before they expire.
    // Async although nothing is awaited yet, so that the signature can stay.
    pub async fn from_default_chain(service: impl Into<String>, region: impl Into<String>) -> Self {
        let region = region.into();
        let keys = CredentialCache::default_chain(&region);
        Self::from_cache(keys, service.into(), region)
    }

    /// Signs with these credentials.
    pub fn from_keys(
        service: impl Into<String>,
        region: impl Into<String>,
        keys: &AwsKeys,
    ) -> Self {
        Self::from_cache(
            CredentialCache::fixed(keys.clone()),
            service.into(),
            region.into(),
        )
    }

    fn from_cache(keys: CredentialCache, service: String, region: String) -> Self {
        Self {
            keys: Arc::new(keys),
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
}

#[async_trait::async_trait]
impl RequestSigner for AwsSigner {
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let at = (self.clock)();
        let keys = self.keys.get(at).await?;
        let scope = sigv4::SigningScope {
            service: &self.service,
            region: &self.region,
            at,
        };
        sigv4::sign(request, &keys, scope)
    }
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
