//! What a login leaves behind: an access token, and perhaps a refresh token to get the next.

use super::Token;
use super::endpoint::{ClientAuth, Grant, Issuer};
use crate::Secret;
use crate::error::{Error, TokenError};
use crate::retry::Safety;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use url::Url;

/// Somebody's login. Clones share its tokens, so that a refresh token which changes when it is used
/// is used once: keep one client for a session, and clone that.
///
/// ```
/// use interzone_client::{Client, Session};
///
/// // From an earlier login, kept in a safe place.
/// let session = Session::resume("cli", "https://login.example/oauth2/token", "r3fresh");
/// let client = Client::builder("https://agent.example").credentials(session.clone()).build()?;
/// // After calls: what to keep now.
/// assert!(session.refresh_token().is_some());
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    client_id: Arc<str>,
    secret: Option<Secret>,
    token_url: Arc<str>,
    tokens: Arc<Mutex<Tokens>>,
}

#[derive(Debug, Default)]
struct Tokens {
    access: Option<(Token, Instant)>,
    refresh: Option<Secret>,
    scope: Option<String>,
}

impl Session {
    /// Goes on with a login of before.
    pub fn resume(
        client_id: impl AsRef<str>,
        token_url: impl AsRef<str>,
        refresh_token: impl Into<Secret>,
    ) -> Self {
        Self::new(
            client_id.as_ref(),
            None,
            token_url.as_ref(),
            Tokens {
                refresh: Some(refresh_token.into()),
                ..Tokens::default()
            },
        )
    }

    /// Adds the client's secret, for clients that have one.
    #[must_use]
    pub fn with_secret(mut self, secret: impl Into<Secret>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    fn new(client_id: &str, secret: Option<Secret>, token_url: &str, tokens: Tokens) -> Self {
        Self {
            client_id: client_id.into(),
            secret,
            token_url: token_url.into(),
            tokens: Arc::new(Mutex::new(tokens)),
        }
    }

    pub(crate) fn begun(
        client_id: &str,
        secret: Option<Secret>,
        token_url: &Url,
        grant: Grant,
    ) -> Self {
        let session = Self::new(client_id, secret, token_url.as_str(), Tokens::default());
        session.keep(grant);
        session
    }

    /// Takes in what was granted. A grant without a refresh token leaves the one before in force.
    fn keep(&self, grant: Grant) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.access = Some((grant.token, Instant::now()));
        tokens.refresh = grant.refresh_token.or(tokens.refresh.take());
        tokens.scope = grant.scope.or(tokens.scope.take());
    }

    /// The client that logged in.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Where its tokens are issued.
    pub fn token_url(&self) -> &str {
        &self.token_url
    }

    /// The access token as it is now, if there is one.
    pub fn access_token(&self) -> Option<Secret> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens
            .access
            .as_ref()
            .map(|(token, _)| token.secret().clone())
    }

    /// The refresh token as it is now, if there is one. It may change with every refresh.
    pub fn refresh_token(&self) -> Option<Secret> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.refresh.clone()
    }

    /// The scopes that were granted, if the authorization server told.
    pub fn scope(&self) -> Option<String> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.scope.clone()
    }

    /// The access token, unless it is over or is the one that is to be replaced.
    fn current(&self, old: Option<&Secret>) -> Option<Token> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let (token, since) = tokens.access.as_ref()?;
        if Some(token.secret()) == old {
            return None;
        }
        match token.lifetime() {
            None => Some(token.clone()),
            Some(lifetime) => {
                let left = lifetime.checked_sub(since.elapsed())?;
                (!left.is_zero()).then(|| token.clone().expires_in(left))
            }
        }
    }

    /// Drops the access token that a peer refused. Tells whether there may be another.
    pub(crate) fn forget(&self, refused: Option<&Secret>) -> bool {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let access = tokens.access.as_ref();
        if access.map(|(token, _)| token.secret()) == refused {
            tokens.access = None;
        }
        tokens.access.is_some() || tokens.refresh.is_some()
    }

    pub(crate) async fn token(
        &self,
        issuer: &Issuer,
        old: Option<&Secret>,
    ) -> Result<Token, Error> {
        if let Some(token) = self.current(old) {
            return Ok(token);
        }
        let refresh = self.refresh_token().ok_or(TokenError::SessionOver)?;
        let url = issuer.checked(&self.token_url)?;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
        ];
        let auth = ClientAuth {
            client_id: &self.client_id,
            secret: self.secret.as_ref(),
        };
        // A refresh token may be good for one use, so a broken connection is not tried again.
        let granted = issuer.grant(&url, auth, &form, Safety::Write).await;
        let grant = granted.map_err(|error| match error {
            Error::Token(TokenError::Refused { error, .. }) if error == "invalid_grant" => {
                TokenError::SessionOver.into()
            }
            other => other,
        })?;
        let token = grant.token.clone();
        self.keep(grant);
        Ok(token)
    }
}
