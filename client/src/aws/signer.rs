//! Whoever signs requests for AWS. How a signature is made is written in `v4`; which credentials it is
//! made with, and whether they are still good, is the business of `credentials`.

use super::credentials::Keys;
use super::v4;
use crate::Secret;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Signs requests.
#[async_trait::async_trait]
pub trait Signer: Send + Sync + 'static {
    /// Adds to the request whatever proves who sends it. Nothing of it may be changed afterwards.
    ///
    /// # Errors
    /// There are no credentials, or the request cannot be signed.
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError>;
}

/// Why a request could not be signed. The cause stands in the words, because few print more than those;
/// it must hold no credential.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// No source has credentials for AWS, or none that are still good.
    #[error(
        "there are no credentials for AWS: set them in the environment, a profile or a role: {0}"
    )]
    Credentials(Arc<dyn std::error::Error + Send + Sync>),
    /// The request has a part that cannot be signed.
    #[error("the request cannot be signed: {0}")]
    Request(Arc<dyn std::error::Error + Send + Sync>),
}

/// Credentials that are given and not looked for.
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
    /// An access key and its secret.
    pub fn new(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self {
            id: id.into(),
            secret: secret.into(),
            session: None,
        }
    }

    /// The session token that belongs to temporary keys.
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

/// Signs requests for one service in one region.
///
/// ```no_run
/// use bytes::Bytes;
/// use interzone_client::aws::{AwsSigner, Signer};
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
    keys: Arc<Keys>,
    service: String,
    region: String,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl AwsSigner {
    /// Signs with whatever credentials AWS's usual places have: environment, profiles, web identity,
    /// container, instance. They are looked for when the first request is signed, and again before
    /// they expire.
    // Nothing of it waits now, but callers should not notice if it ever does.
    pub async fn from_default_chain(service: impl Into<String>, region: impl Into<String>) -> Self {
        let region = region.into();
        let keys = Keys::default_chain(&region);
        Self::with(keys, service.into(), region)
    }

    /// Signs with these credentials.
    pub fn from_keys(
        service: impl Into<String>,
        region: impl Into<String>,
        keys: &AwsKeys,
    ) -> Self {
        Self::with(Keys::fixed(keys.clone()), service.into(), region.into())
    }

    fn with(keys: Keys, service: String, region: String) -> Self {
        Self {
            keys: Arc::new(keys),
            service,
            region,
            clock: Arc::new(SystemTime::now),
        }
    }

    /// Goes by another clock than the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The region that it signs for.
    pub fn region(&self) -> &str {
        &self.region
    }
}

#[async_trait::async_trait]
impl Signer for AwsSigner {
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let at = (self.clock)();
        let keys = self.keys.get(at).await?;
        let scope = v4::Scope {
            service: &self.service,
            region: &self.region,
            at,
        };
        v4::sign(request, &keys, scope)
    }
}

/// Never a credential.
impl fmt::Debug for AwsSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsSigner")
            .field("service", &self.service)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}
