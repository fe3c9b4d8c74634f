//! Browser login: the authorization code grant with PKCE (RFC 7636) and a loopback redirect (RFC 8252). The
//! caller opens the browser; nothing is printed here.

use super::discovery::{self, AuthServerMetadata};
use super::loopback::LoopbackServer;
use super::session::LoginSession;
use super::token_endpoint::{ClientAuth, TokenEndpoint};
use crate::Secret;
use crate::client::Client;
use crate::error::{Error, TokenError};
use crate::http_exchange::Deadline;
use crate::retry::Idempotency;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::time::Duration;
use url::Url;

/// Parameters of a browser login.
///
/// ```no_run
/// # async fn example(client: interzone_client::Client) -> Result<(), interzone_client::Error> {
/// use interzone_client::Login;
///
/// let login = Login::new("cli").scopes(["acp:agent:identify", "acp:tasks:read"]);
/// let session = client.login(&login, |url| tracing::info!(%url, "open this in a browser")).await?;
/// let client = client.with_credentials(session);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Login {
    /// The client's id at the authorization server.
    pub client_id: String,
    /// The client's secret, if it has one.
    pub secret: Option<Secret>,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
    /// The authorization server; discovered from the agent if absent.
    pub issuer: Option<String>,
    /// The `resource` parameter (RFC 8707), if the issuer requires it.
    pub resource: Option<String>,
    /// Time that the user has to complete the login.
    pub timeout: Duration,
}

impl Login {
    /// Creates a login at the agent's own authorization server.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            secret: None,
            scopes: Vec::new(),
            issuer: None,
            resource: None,
            timeout: Duration::from_secs(300),
        }
    }

    /// Sets the client's secret.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Secret>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Sets the scopes to request.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the authorization server.
    #[must_use]
    pub fn issuer(mut self, url: impl Into<String>) -> Self {
        self.issuer = Some(url.into());
        self
    }

    /// Sets the resource of the token.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Sets the time that the user has to complete the login.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }
}

impl Client {
    /// Logs a user in through a browser. `open` gets the URL of the login page, after the loopback server was
    /// started.
    ///
    /// # Errors
    /// If the authorization server cannot be found or rejects the login, the user declines, or the time runs out.
    pub async fn login(
        &self,
        login: &Login,
        open: impl FnOnce(&Url),
    ) -> Result<LoginSession, Error> {
        let endpoint = TokenEndpoint::new(
            self.url().clone(),
            self.token_peers().clone(),
            self.settings().clone(),
        );
        let metadata = match &login.issuer {
            Some(server) => discovery::fetch_server_metadata(&endpoint, server).await?,
            None => endpoint.metadata().await?.clone(),
        };
        let authorize_url = metadata.authorize_url.as_ref();
        let authorize = authorize_url.ok_or(TokenError::Metadata("no authorization endpoint"))?;
        let verifier = PkceVerifier::new();
        let state = uuid::Uuid::new_v4().simple().to_string();
        let loopback = LoopbackServer::bind().await?;
        let redirect_uri = loopback.url();
        open(&login_url(
            authorize,
            login,
            &redirect_uri,
            &state,
            &verifier,
        ));
        let deadline = Deadline::from_now(login.timeout);
        let result = deadline.run(loopback.wait_for_redirect(&state)).await;
        let redirect = result.map_err(|_| TokenError::Login("it was not completed in time"))??;
        check_issuer(&metadata, redirect.issuer.as_deref())?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", redirect.code.expose()),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", verifier.0.expose()),
        ];
        if let Some(resource) = &login.resource {
            form.push(("resource", resource));
        }
        let auth = ClientAuth {
            client_id: &login.client_id,
            secret: login.secret.as_ref(),
        };
        let url = &metadata.token_url;
        let response = endpoint
            .request_token(url, auth, &form, Idempotency::NotIdempotent)
            .await?;
        Ok(LoginSession::from_response(
            &login.client_id,
            login.secret.clone(),
            url,
            response,
        ))
    }
}

/// Builds the URL of the login page.
fn login_url(
    authorize_url: &Url,
    login: &Login,
    redirect_uri: &str,
    state: &str,
    verifier: &PkceVerifier,
) -> Url {
    let mut url = authorize_url.clone();
    let mut query = url.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &login.client_id)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("state", state)
        .append_pair("code_challenge", &verifier.challenge())
        .append_pair("code_challenge_method", "S256");
    if !login.scopes.is_empty() {
        query.append_pair("scope", &login.scopes.join(" "));
    }
    if let Some(resource) = &login.resource {
        query.append_pair("resource", resource);
    }
    drop(query);
    url
}

/// Rejects a redirect from another authorization server (mix-up attack, RFC 9207).
fn check_issuer(metadata: &AuthServerMetadata, iss: Option<&str>) -> Result<(), TokenError> {
    match (iss, metadata.issuer.as_deref()) {
        (Some(iss), Some(issuer)) if iss == issuer => Ok(()),
        (Some(_), _) => Err(TokenError::Login(
            "the redirect came from another authorization server",
        )),
        (None, _) if metadata.sends_iss => {
            Err(TokenError::Login("the redirect has no iss parameter"))
        }
        (None, _) => Ok(()),
    }
}

/// PKCE code verifier: proves that the token request comes from the client that started the login.
struct PkceVerifier(Secret);

impl PkceVerifier {
    /// Two random UUIDs have 244 random bits; the standard recommends up to 256.
    fn new() -> Self {
        let random_hex = || uuid::Uuid::new_v4().simple().to_string();
        Self(Secret::new(format!("{}{}", random_hex(), random_hex())))
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.0.expose().as_bytes()))
    }
}
