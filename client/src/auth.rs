//! Credentials of the caller and the tokens they provide.

pub(crate) mod discovery;
pub(crate) mod login;
pub(crate) mod loopback;
pub(crate) mod session;
pub(crate) mod token_cache;
pub(crate) mod token_endpoint;

use crate::Secret;
use crate::transport::BoxError;
use session::LoginSession;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Credentials with which a client authenticates.
///
/// ```
/// use interzone_client::{ClientCredentials, Credentials};
///
/// let credentials: Credentials = ClientCredentials::new("reports", "s3cret")
///     .token_url("https://login.example/oauth2/token")
///     .into();
/// assert!(!format!("{credentials:?}").contains("s3cret"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credentials {
    /// The OAuth 2.0 client credentials grant.
    ClientCredentials(ClientCredentials),
    /// A fixed token that is obtained and renewed elsewhere.
    Bearer(Secret),
    /// A session from a browser login.
    AuthorizationCode(LoginSession),
    /// A custom token source.
    Provider(TokenProvider),
}

impl Credentials {
    /// Uses a custom token source.
    pub fn provider(source: Arc<dyn TokenSource>) -> Self {
        Self::Provider(TokenProvider(source))
    }
}

impl From<ClientCredentials> for Credentials {
    fn from(credentials: ClientCredentials) -> Self {
        Self::ClientCredentials(credentials)
    }
}

impl From<LoginSession> for Credentials {
    fn from(session: LoginSession) -> Self {
        Self::AuthorizationCode(session)
    }
}

/// A client's id and secret at an authorization server.
///
/// Without a token endpoint, it is discovered from the peer. Without scopes, each call requests those that
/// its method needs.
///
/// ```
/// use interzone_client::{Client, ClientCredentials};
///
/// let client = Client::builder("https://agent.example")
///     .credentials(ClientCredentials::new("reports", "s3cret"))
///     .build()?;
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientCredentials {
    /// The client's id.
    pub client_id: String,
    /// The client's secret.
    pub secret: Secret,
    /// The token endpoint; discovered if absent.
    pub token_url: Option<String>,
    /// The scopes to request for every method; those of the method if absent.
    pub scopes: Option<Vec<String>>,
    /// The `audience` parameter, if the issuer requires it.
    pub audience: Option<String>,
    /// The `resource` parameter (RFC 8707), if the issuer requires it.
    pub resource: Option<String>,
}

impl ClientCredentials {
    /// Creates the credentials of a client.
    pub fn new(client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self {
            client_id: client_id.into(),
            secret: secret.into(),
            token_url: None,
            scopes: None,
            audience: None,
            resource: None,
        }
    }

    /// Sets the token endpoint.
    #[must_use]
    pub fn token_url(mut self, url: impl Into<String>) -> Self {
        self.token_url = Some(url.into());
        self
    }

    /// Requests these scopes for every method.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the audience of the token.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Sets the resource of the token.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }
}

/// A custom source of tokens, for [`Credentials::provider`].
///
/// ```
/// use async_trait::async_trait;
/// use interzone_client::{BoxError, Credentials, Token, TokenSource};
/// use std::sync::Arc;
///
/// struct Vault;
///
/// #[async_trait]
/// impl TokenSource for Vault {
///     async fn token(&self, _scopes: &[String]) -> Result<Token, BoxError> {
///         Ok(Token::new("from the vault"))
///     }
/// }
/// let credentials = Credentials::provider(Arc::new(Vault));
/// ```
#[async_trait::async_trait]
pub trait TokenSource: Send + Sync + 'static {
    /// Returns a token with these scopes, which are sorted. It is cached until it is due for renewal, or until
    /// a peer rejects it.
    ///
    /// # Errors
    /// If no token is available. The caller gets the error.
    async fn token(&self, scopes: &[String]) -> Result<Token, BoxError>;
}

/// A [`TokenSource`] behind [`Credentials::Provider`].
#[derive(Clone)]
pub struct TokenProvider(pub(crate) Arc<dyn TokenSource>);

impl fmt::Debug for TokenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenProvider")
    }
}

/// A bearer token with its lifetime.
///
/// ```
/// use interzone_client::Token;
/// use std::time::Duration;
///
/// let token = Token::new("abc").expires_in(Duration::from_secs(900));
/// assert_eq!(token.lifetime(), Some(Duration::from_secs(900)));
/// ```
#[derive(Clone, Debug)]
pub struct Token {
    secret: Secret,
    lifetime: Option<Duration>,
}

impl Token {
    /// Creates a token that is used until a peer rejects it.
    pub fn new(secret: impl Into<Secret>) -> Self {
        Self {
            secret: secret.into(),
            lifetime: None,
        }
    }

    /// Sets the remaining lifetime.
    #[must_use]
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Returns the token.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Returns the lifetime when it was issued.
    pub fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }
}
