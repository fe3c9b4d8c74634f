//! Metadata of an issuer (OpenID Connect Discovery, RFC 8414): its JWKS URL and its sign-in endpoints.

use super::{issuer_request, safe_url};
use crate::limited_body;
use bytes::Bytes;
use serde::Deserialize;
use std::time::Duration;
use url::Url;

/// Maximum size of metadata and key sets. Those of real issuers have a few KiB.
const MAX_METADATA_BYTES: usize = 512 << 10;
/// Timeout for discovering the sign-in endpoints.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The used fields of the metadata.
#[derive(Deserialize)]
pub(super) struct IssuerMetadata {
    issuer: String,
    pub(super) jwks_uri: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
}

/// Sign-in endpoints of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInEndpoints {
    /// Authorization endpoint, where a user consents.
    pub authorize: Url,
    /// Token endpoint, where a code is exchanged for a token.
    pub token: Url,
}

/// Error discovering the sign-in endpoints.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the issuer's metadata: {0}; check oauth.issuer, or configure both endpoints")]
pub struct DiscoveryError(String);

impl SignInEndpoints {
    /// Fetches the metadata of an issuer. They must name exactly this issuer, and endpoints with https (or on this
    /// machine).
    ///
    /// # Errors
    /// The issuer cannot be reached, or its metadata are not usable.
    pub async fn discover(issuer: &str, http: &reqwest::Client) -> Result<Self, DiscoveryError> {
        let endpoints = async {
            let urls = discovery_urls(issuer).ok_or("the issuer has no https url")?;
            let metadata = fetch_metadata(issuer, &urls, http).await?;
            let safe = |url: Option<String>| url.and_then(|url| safe_url(&url));
            let unsafe_ = || "it names no safe sign-in endpoint".to_owned();
            Ok(Self {
                authorize: safe(metadata.authorization_endpoint).ok_or_else(unsafe_)?,
                token: safe(metadata.token_endpoint).ok_or_else(unsafe_)?,
            })
        };
        let endpoints: Result<Self, String> = tokio::time::timeout(DISCOVERY_TIMEOUT, endpoints)
            .await
            .unwrap_or_else(|_| Err("timed out".to_owned()));
        endpoints.map_err(DiscoveryError)
    }
}

/// Returns the discovery URLs of an issuer: OpenID Connect puts the issuer's path before the well-known part, RFC
/// 8414 after it.
pub(super) fn discovery_urls(issuer: &str) -> Option<[Url; 2]> {
    let base = safe_url(issuer)?;
    let path = base.path().trim_end_matches('/');
    let with_path = |path: &str| {
        let mut url = base.clone();
        url.set_path(path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    Some([
        with_path(&format!("{path}/.well-known/openid-configuration")),
        with_path(&format!("/.well-known/oauth-authorization-server{path}")),
    ])
}

/// Fetches the metadata of exactly this issuer (RFC 8414, 3.3), from the first URL that responds.
pub(super) async fn fetch_metadata(
    issuer: &str,
    urls: &[Url],
    http: &reqwest::Client,
) -> Result<IssuerMetadata, String> {
    let mut last_error = String::new();
    for url in urls {
        let body = match fetch_bytes(url, http).await {
            Ok(body) => body,
            Err(error) => {
                last_error = error;
                continue;
            }
        };
        let metadata = serde_json::from_slice::<IssuerMetadata>(&body);
        let metadata = metadata.map_err(|error| error.to_string())?;
        if metadata.issuer != issuer {
            return Err("the metadata name another issuer".to_owned());
        }
        return Ok(metadata);
    }
    Err(last_error)
}

pub(super) async fn fetch_bytes(url: &Url, http: &reqwest::Client) -> Result<Bytes, String> {
    let response = issuer_request::send_with_retry(http.get(url.clone())).await;
    let response = response.map_err(|error| error.to_string())?;
    let body = limited_body::read_all(response, MAX_METADATA_BYTES).await;
    body.map_err(|error| error.to_string())
}
