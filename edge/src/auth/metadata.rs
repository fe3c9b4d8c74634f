//! What an issuer says about itself (OpenID Connect Discovery, RFC 8414): where its keys are, and where people
//! sign in. Whose tokens are believed is decided elsewhere.

use super::{question, safe_url};
use crate::capped;
use bytes::Bytes;
use serde::Deserialize;
use std::time::Duration;
use url::Url;

/// Metadata and sets of keys of real issuers have a few KiB.
const LARGEST: usize = 512 << 10;
/// How long an issuer may take to say where people sign in.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is read of it.
#[derive(Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    pub(super) jwks_uri: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
}

/// Where people sign in at an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInEndpoints {
    /// Where a person agrees.
    pub authorize: Url,
    /// Where a code becomes a token.
    pub token: Url,
}

/// Why it is not known where people sign in.
#[derive(Debug, thiserror::Error)]
#[error(
    "the issuer's metadata cannot be used: {0}; look at oauth.issuer, or name the two addresses"
)]
pub struct DiscoveryError(String);

impl SignInEndpoints {
    /// Asks an issuer. Its metadata must be of this very issuer, and name addresses that nobody on the way
    /// can change.
    ///
    /// # Errors
    /// It does not answer, or not so.
    pub async fn discover(issuer: &str, http: &reqwest::Client) -> Result<Self, DiscoveryError> {
        let found = async {
            let urls = places(issuer).ok_or("it has no https address")?;
            let metadata = of(issuer, &urls, http).await?;
            let safe = |url: Option<String>| url.and_then(|url| safe_url(&url));
            let unsafe_ = || "it names no safe place to sign in".to_owned();
            Ok(Self {
                authorize: safe(metadata.authorization_endpoint).ok_or_else(unsafe_)?,
                token: safe(metadata.token_endpoint).ok_or_else(unsafe_)?,
            })
        };
        let found: Result<Self, String> = tokio::time::timeout(PATIENCE, found)
            .await
            .unwrap_or_else(|_| Err("it took too long".to_owned()));
        found.map_err(DiscoveryError)
    }
}

/// Where the metadata of an issuer are: OpenID Connect puts its path before the well-known part, RFC 8414
/// after it.
pub(super) fn places(issuer: &str) -> Option<[Url; 2]> {
    let base = safe_url(issuer)?;
    let path = base.path().trim_end_matches('/');
    let at = |path: &str| {
        let mut url = base.clone();
        url.set_path(path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    Some([
        at(&format!("{path}/.well-known/openid-configuration")),
        at(&format!("/.well-known/oauth-authorization-server{path}")),
    ])
}

/// The metadata of this very issuer (RFC 8414, 3.3), from the first of these places that answers.
pub(super) async fn of(
    issuer: &str,
    urls: &[Url],
    http: &reqwest::Client,
) -> Result<Metadata, String> {
    let mut why = String::new();
    for url in urls {
        let body = match get(url, http).await {
            Ok(body) => body,
            Err(error) => {
                why = error;
                continue;
            }
        };
        let metadata = serde_json::from_slice::<Metadata>(&body);
        let metadata = metadata.map_err(|error| error.to_string())?;
        if metadata.issuer != issuer {
            return Err("the metadata are those of another issuer".to_owned());
        }
        return Ok(metadata);
    }
    Err(why)
}

pub(super) async fn get(url: &Url, http: &reqwest::Client) -> Result<Bytes, String> {
    let answer = question::put(http.get(url.clone())).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let body = capped::whole(answer, LARGEST).await;
    body.map_err(|cut| format!("{cut:?}"))
}
