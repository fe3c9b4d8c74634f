//! Login in a browser: the authorization code grant with PKCE (RFC 7636) and a redirect to this
//! machine (RFC 8252). Opening the browser is the caller's business; nothing is printed here.

use super::discovery::{self, Metadata};
use super::endpoint::{ClientAuth, Issuer};
use super::loopback::Loopback;
use super::session::Session;
use crate::Secret;
use crate::client::Client;
use crate::error::{Error, TokenError};
use crate::peer::Deadline;
use crate::retry::Safety;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::time::Duration;
use url::Url;

/// A login that is to be made.
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
    /// The authorization server; found out from the agent if not said.
    pub issuer: Option<String>,
    /// The address that the token is for, where the issuer wants to know by RFC 8707.
    pub resource: Option<String>,
    /// How long the person in front of the browser has.
    pub patience: Duration,
}

impl Login {
    /// A login through the agent's own authorization server.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            client_id: client_id.into(),
            secret: None,
            scopes: Vec::new(),
            issuer: None,
            resource: None,
            patience: Duration::from_secs(300),
        }
    }

    /// Adds the client's secret.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Secret>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// Says which scopes to ask for.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Names the authorization server.
    #[must_use]
    pub fn issuer(mut self, url: impl Into<String>) -> Self {
        self.issuer = Some(url.into());
        self
    }

    /// Says which address the token is for.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Changes how long the person in front of the browser has.
    #[must_use]
    pub fn patience(mut self, limit: Duration) -> Self {
        self.patience = limit;
        self
    }
}

impl Client {
    /// Logs somebody in through a browser. `open` is given the address that the browser must show,
    /// once somebody listens for what comes back.
    ///
    /// # Errors
    /// The authorization server cannot be found or refuses, the person declines, or time is over.
    pub async fn login(&self, login: &Login, open: impl FnOnce(&Url)) -> Result<Session, Error> {
        let issuer = Issuer::new(
            self.url().clone(),
            self.token_peers().clone(),
            self.settings().clone(),
        );
        let metadata = match &login.issuer {
            Some(server) => discovery::of_server(&issuer, server).await?,
            None => issuer.metadata().await?.clone(),
        };
        let authorize = metadata.authorize_url.as_ref();
        let authorize = authorize.ok_or(TokenError::Metadata("they name no login page"))?;
        let verifier = Verifier::new();
        let state = uuid::Uuid::new_v4().simple().to_string();
        let loopback = Loopback::bind().await?;
        let redirect = loopback.url();
        open(&page(authorize, login, &redirect, &state, &verifier));
        let deadline = Deadline::within(login.patience);
        let waited = deadline.limit(loopback.returned(&state)).await;
        let returned = waited.map_err(|_| TokenError::Login("nobody came back in time"))??;
        check_issuer(&metadata, returned.issuer.as_deref())?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", returned.code.expose()),
            ("redirect_uri", &redirect),
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
        let grant = issuer.grant(url, auth, &form, Safety::Write).await?;
        Ok(Session::begun(
            &login.client_id,
            login.secret.clone(),
            url,
            grant,
        ))
    }
}

/// The address of the login page.
fn page(authorize: &Url, login: &Login, redirect: &str, state: &str, verifier: &Verifier) -> Url {
    let mut page = authorize.clone();
    let mut query = page.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &login.client_id)
        .append_pair("redirect_uri", redirect)
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
    page
}

/// An answer that another server sent must not be taken for this one's (RFC 9207).
fn check_issuer(metadata: &Metadata, named: Option<&str>) -> Result<(), TokenError> {
    match (named, metadata.issuer.as_deref()) {
        (Some(named), Some(issuer)) if named == issuer => Ok(()),
        (Some(_), _) => Err(TokenError::Login("another authorization server answered")),
        (None, _) if metadata.names_itself => {
            Err(TokenError::Login("the answer does not say who sent it"))
        }
        (None, _) => Ok(()),
    }
}

/// What proves at the end that whoever asks for the token is who began the login.
struct Verifier(Secret);

impl Verifier {
    /// Two random ids hold 244 random bits; 256 are what the standard recommends at most.
    fn new() -> Self {
        let half = || uuid::Uuid::new_v4().simple().to_string();
        Self(Secret::new(format!("{}{}", half(), half())))
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.0.expose().as_bytes()))
    }
}
