//! Login session: an access token, and possibly a refresh token.

use super::Token;
use super::token_endpoint::{ClientAuth, TokenEndpoint, TokenResponse};
use crate::Secret;
use crate::error::{Error, TokenError};
use crate::retry::Idempotency;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use url::Url;

/// A user's login. Clones share its tokens, because a rotating refresh token can be used only once: use one
/// client per session, and clone that.
///
/// ```
/// use interzone_client::{Client, LoginSession};
///
/// // The refresh token was stored after an earlier login.
/// let session = LoginSession::resume("cli", "https://login.example/oauth2/token", "r3fresh");
/// let client = Client::builder("https://agent.example").credentials(session.clone()).build()?;
/// // The refresh token may have changed; store it again.
/// assert!(session.refresh_token().is_some());
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoginSession {
    client_id: Arc<str>,
    secret: Option<Secret>,
    token_url: Arc<str>,
    tokens: Arc<Mutex<SessionTokens>>,
}

#[derive(Debug, Default)]
struct SessionTokens {
    access: Option<(Token, Instant)>,
    refresh: Option<Secret>,
    scope: Option<String>,
}

impl LoginSession {
    /// Resumes an earlier login.
    pub fn resume(
        client_id: impl AsRef<str>,
        token_url: impl AsRef<str>,
        refresh_token: impl Into<Secret>,
    ) -> Self {
        Self::new(
            client_id.as_ref(),
            None,
            token_url.as_ref(),
            SessionTokens {
                refresh: Some(refresh_token.into()),
                ..SessionTokens::default()
            },
        )
    }

    /// Sets the client's secret, for confidential clients.
    #[must_use]
    pub fn with_secret(mut self, secret: impl Into<Secret>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    fn new(
        client_id: &str,
        secret: Option<Secret>,
        token_url: &str,
        tokens: SessionTokens,
    ) -> Self {
        Self {
            client_id: client_id.into(),
            secret,
            token_url: token_url.into(),
            tokens: Arc::new(Mutex::new(tokens)),
        }
    }

    pub(crate) fn from_response(
        client_id: &str,
        secret: Option<Secret>,
        token_url: &Url,
        response: TokenResponse,
    ) -> Self {
        let session = Self::new(
            client_id,
            secret,
            token_url.as_str(),
            SessionTokens::default(),
        );
        session.store(response);
        session
    }

    /// Stores a token response. Without a new refresh token the previous one is still used.
    fn store(&self, response: TokenResponse) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.access = Some((response.token, Instant::now()));
        tokens.refresh = response.refresh_token.or(tokens.refresh.take());
        tokens.scope = response.scope.or(tokens.scope.take());
    }

    /// Returns the client id of the login.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Returns the token endpoint.
    pub fn token_url(&self) -> &str {
        &self.token_url
    }

    /// Returns the current access token.
    pub fn access_token(&self) -> Option<Secret> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens
            .access
            .as_ref()
            .map(|(token, _)| token.secret().clone())
    }

    /// Returns the current refresh token. It may change with every refresh.
    pub fn refresh_token(&self) -> Option<Secret> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.refresh.clone()
    }

    /// Returns the granted scopes, if the authorization server sent them.
    pub fn scope(&self) -> Option<String> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.scope.clone()
    }

    /// Returns the access token unless it has expired or is `previous`, which is to be replaced.
    fn current(&self, previous: Option<&Secret>) -> Option<Token> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let (token, issued_at) = tokens.access.as_ref()?;
        if Some(token.secret()) == previous {
            return None;
        }
        match token.lifetime() {
            None => Some(token.clone()),
            Some(lifetime) => {
                let remaining = lifetime.checked_sub(issued_at.elapsed())?;
                (!remaining.is_zero()).then(|| token.clone().expires_in(remaining))
            }
        }
    }

    /// Removes an access token that a peer rejected. Returns true if another one may be available.
    pub(crate) fn invalidate(&self, rejected: Option<&Secret>) -> bool {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let access = tokens.access.as_ref();
        if access.map(|(token, _)| token.secret()) == rejected {
            tokens.access = None;
        }
        tokens.access.is_some() || tokens.refresh.is_some()
    }

    pub(crate) async fn token(
        &self,
        endpoint: &TokenEndpoint,
        previous: Option<&Secret>,
    ) -> Result<Token, Error> {
        if let Some(token) = self.current(previous) {
            return Ok(token);
        }
        let refresh_token = self.refresh_token().ok_or(TokenError::SessionExpired)?;
        let url = endpoint.require_secure(&self.token_url)?;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
        ];
        let auth = ClientAuth {
            client_id: &self.client_id,
            secret: self.secret.as_ref(),
        };
        // A refresh token may be single-use, so it is not sent again after a broken connection.
        let result = endpoint
            .request_token(&url, auth, &form, Idempotency::NotIdempotent)
            .await;
        let response = result.map_err(|error| match error {
            Error::Token(TokenError::Refused { error, .. }) if error == "invalid_grant" => {
                TokenError::SessionExpired.into()
            }
            other => other,
        })?;
        let token = response.token.clone();
        self.store(response);
        Ok(token)
    }
}
