//! Signatures by version 4 of AWS, made by AWS's own crate. Which credentials, and whether they are
//! still good, is the business of `credentials`.

use super::credentials::Keys;
use crate::Secret;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
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

/// Why a request could not be signed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// No source has credentials for AWS, or none that are still good.
    #[error("there are no credentials for AWS: set them in the environment, a profile or a role")]
    Credentials(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The request has a part that cannot be signed.
    #[error("the request cannot be signed")]
    Request(#[source] Arc<dyn std::error::Error + Send + Sync>),
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
    pub async fn from_default_chain(service: impl Into<String>, region: impl Into<String>) -> Self {
        let region = region.into();
        let keys = Keys::default_chain(&region).await;
        Self::with(keys, service.into(), region)
    }

    /// Signs with these credentials.
    pub fn from_keys(
        service: impl Into<String>,
        region: impl Into<String>,
        keys: &AwsKeys,
    ) -> Self {
        let session = keys.session.as_ref().map(|token| token.expose().to_owned());
        let known = Credentials::new(&keys.id, keys.secret.expose(), session, None, "given");
        Self::with(Keys::fixed(known), service.into(), region.into())
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

/// Whether a header is part of what is signed: those that mean something to AWS. Others may be changed
/// by whoever passes the request on.
fn is_signed(name: &str) -> bool {
    name == header::CONTENT_TYPE.as_str()
        || name.starts_with("x-amz-")
        || (name.starts_with("x-amzn-") && name != "x-amzn-trace-id")
}

#[async_trait::async_trait]
impl Signer for AwsSigner {
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let now = (self.clock)();
        let identity = self.keys.get(now).await?.into();
        let refuse = |error: &dyn fmt::Display| {
            SignError::Request(Arc::new(std::io::Error::other(error.to_string())))
        };
        // Paths are encoded twice, as every service but S3 wants it, which is what these settings do.
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| refuse(&error))?;
        let uri = request.uri().to_string();
        let headers = request.headers().iter().filter_map(|(name, value)| {
            let name = name.as_str();
            Some((name, value.to_str().ok()?)).filter(|_| is_signed(name))
        });
        let body = SignableBody::Bytes(request.body());
        let signable = SignableRequest::new(request.method().as_str(), uri, headers, body)
            .map_err(|error| refuse(&error))?;
        let signed = sign(signable, &params.into()).map_err(|error| refuse(&error))?;
        let (instructions, _) = signed.into_parts();
        let mut added = HeaderMap::new();
        for header in instructions.into_parts().0 {
            let mut value =
                HeaderValue::from_str(header.value()).map_err(|error| refuse(&error))?;
            value.set_sensitive(header.sensitive() || header.name() == "authorization");
            added.insert(header.name(), value);
        }
        request.headers_mut().extend(added);
        Ok(())
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
