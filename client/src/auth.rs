//! Who the caller is: credentials, the tokens they give, and where tokens come from. What a token
//! is used for is not known here.

pub(crate) mod cache;
pub(crate) mod discovery;
pub(crate) mod endpoint;
pub(crate) mod login;
pub(crate) mod loopback;
pub(crate) mod session;

use crate::Secret;
use crate::transport::BoxError;
use session::Session;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How a client proves who calls.
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
    /// A token that somebody else got and renews.
    Bearer(Secret),
    /// What a login in a browser gave.
    AuthorizationCode(Session),
    /// A source of the caller's own.
    Provider(Provider),
}

impl Credentials {
    /// Takes tokens from a source of the caller's own.
    pub fn provider(source: Arc<dyn TokenSource>) -> Self {
        Self::Provider(Provider(source))
    }
}

impl From<ClientCredentials> for Credentials {
    fn from(credentials: ClientCredentials) -> Self {
        Self::ClientCredentials(credentials)
    }
}

impl From<Session> for Credentials {
    fn from(session: Session) -> Self {
        Self::AuthorizationCode(session)
    }
}

/// A client's id and secret at an authorization server.
///
/// Without a token endpoint the client asks the peer who issues its tokens. Without scopes each
/// call asks for those that its method needs.
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
    /// Where tokens are issued; found out if not said.
    pub token_url: Option<String>,
    /// The scopes to ask for, whatever the method; those of the method if not said.
    pub scopes: Option<Vec<String>>,
    /// Whom the token is for, where the issuer wants to know.
    pub audience: Option<String>,
    /// The address that the token is for, where the issuer wants to know by RFC 8707.
    pub resource: Option<String>,
}

impl ClientCredentials {
    /// Credentials of a client.
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

    /// Says where tokens are issued.
    #[must_use]
    pub fn token_url(mut self, url: impl Into<String>) -> Self {
        self.token_url = Some(url.into());
        self
    }

    /// Asks for these scopes, whatever the method.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Says whom the token is for.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audience = Some(audience.into());
        self
    }

    /// Says which address the token is for.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }
}

/// A source of tokens of the caller's own, to be given to [`Credentials::provider`].
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
    /// A token with these scopes, which are sorted. It is kept until it is due for renewal, or until
    /// a peer refuses it.
    ///
    /// # Errors
    /// There is no token to be had. The caller sees the error.
    async fn token(&self, scopes: &[String]) -> Result<Token, BoxError>;
}

/// A [`TokenSource`] behind [`Credentials::Provider`].
#[derive(Clone)]
pub struct Provider(pub(crate) Arc<dyn TokenSource>);

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

/// A bearer token and how long it lives.
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
    /// A token that is used until a peer refuses it.
    pub fn new(secret: impl Into<Secret>) -> Self {
        Self {
            secret: secret.into(),
            lifetime: None,
        }
    }

    /// Says how long it lives from now on.
    #[must_use]
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// The token itself.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// How long it lived when it was issued.
    pub fn lifetime(&self) -> Option<Duration> {
        self.lifetime
    }
}
