//! The keys of an issuer that is known by its name alone: its metadata says where they are.
//!
//! An issuer that cannot be reached stops nobody from starting; it is asked again when a token comes.

use async_trait::async_trait;
use interzone_edge::auth::{Identity, KeySet, LocalKeys};
use serde::Deserialize;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

/// How often the keys are fetched again without being asked for.
const REFRESH: Duration = Duration::from_secs(300);
/// How long the issuer is left alone after it was asked: anybody can make up key ids.
const PAUSE: Duration = Duration::from_secs(10);
/// How long the issuer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most that metadata or keys may be.
const MOST: usize = 1 << 20;
/// Where metadata are, in the order in which they are looked for.
const PLACES: [&str; 2] = ["openid-configuration", "oauth-authorization-server"];

/// Keys that are found by the issuer's metadata.
pub(super) struct Discovered {
    issuer: String,
    http: reqwest::Client,
    keys: RwLock<Arc<KeySet>>,
    /// When the issuer was last asked. Held while it is, so that many who wait ask once.
    asked: Mutex<Option<Instant>>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
enum DiscoveryError {
    #[error("the issuer's name is no address")]
    Name,
    #[error("the issuer cannot be reached")]
    Unreachable(#[from] reqwest::Error),
    #[error("the issuer's answer is too large")]
    TooLarge,
    #[error("the issuer's answer cannot be read")]
    Unreadable(#[from] serde_json::Error),
    #[error("the metadata are those of another issuer, {0:?}")]
    Stranger(String),
    #[error("the issuer's keys are at no safe address")]
    Unsafe,
}

impl Discovered {
    pub(super) fn new(issuer: String, http: reqwest::Client) -> Arc<Self> {
        Arc::new(Self {
            issuer,
            http,
            keys: RwLock::default(),
            asked: Mutex::new(None),
        })
    }

    /// Fetches the keys now and then until told to stop.
    pub(super) async fn keep_current(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = match stop.run_until_cancelled(self.fetch()).await {
                None => return,
                Some(true) => REFRESH,
                Some(false) => PAUSE,
            };
            let waited = stop.run_until_cancelled(tokio::time::sleep(next)).await;
            if waited.is_none() {
                return;
            }
        }
    }

    /// Fetches the keys, unless that was just done.
    async fn fetch(&self) -> bool {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return true;
        }
        let found = self.discover().await;
        *asked = Some(Instant::now());
        match found {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                true
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, cause, "tokens cannot be verified until the issuer answers");
                false
            }
        }
    }

    async fn discover(&self) -> Result<KeySet, DiscoveryError> {
        let mut last = DiscoveryError::Name;
        for place in PLACES {
            match self.metadata(place).await {
                Ok(metadata) => {
                    let url = Url::parse(&metadata.jwks_uri).map_err(|_| DiscoveryError::Unsafe)?;
                    let issuer = Url::parse(&self.issuer).map_err(|_| DiscoveryError::Name)?;
                    // Whoever is reached by https must not send us on to http.
                    if url.scheme() != "https" && url.origin() != issuer.origin() {
                        return Err(DiscoveryError::Unsafe);
                    }
                    return Ok(KeySet::parse(&self.get(url).await?)?);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn metadata(&self, place: &str) -> Result<Metadata, DiscoveryError> {
        let bytes = self
            .get(well_known(&self.issuer, place).ok_or(DiscoveryError::Name)?)
            .await?;
        let metadata: Metadata = serde_json::from_slice(&bytes)?;
        // Names are compared without a slash at the end, as many issuers are careless about it here
        // and nowhere else.
        if metadata.issuer.trim_end_matches('/') != self.issuer.trim_end_matches('/') {
            return Err(DiscoveryError::Stranger(metadata.issuer));
        }
        Ok(metadata)
    }

    async fn get(&self, url: Url) -> Result<Vec<u8>, DiscoveryError> {
        let request = self.http.get(url).timeout(PATIENCE);
        let mut response = request.send().await?.error_for_status()?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await? {
            if body.len() + piece.len() > MOST {
                return Err(DiscoveryError::TooLarge);
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }
}

/// OpenID Connect puts its metadata behind the issuer's path, RFC 8414 puts them before it.
fn well_known(issuer: &str, place: &str) -> Option<Url> {
    let mut url = Url::parse(issuer).ok()?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&if place == "openid-configuration" {
        format!("{path}/.well-known/{place}")
    } else {
        format!("/.well-known/{place}{path}")
    });
    Some(url)
}

#[async_trait]
impl LocalKeys for Discovered {
    fn keys(&self) -> Arc<KeySet> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&keys)
    }

    async fn look_again(&self) {
        self.fetch().await;
    }

    fn is_revoked(&self, _: &Identity) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::well_known;

    #[test]
    fn metadata_are_where_the_standards_say() {
        let at = |issuer, place| well_known(issuer, place).unwrap().to_string();
        assert_eq!(
            at("https://a.example/tenant/", "openid-configuration"),
            "https://a.example/tenant/.well-known/openid-configuration"
        );
        assert_eq!(
            at("https://a.example/tenant", "oauth-authorization-server"),
            "https://a.example/.well-known/oauth-authorization-server/tenant"
        );
        assert_eq!(
            at("https://a.example", "openid-configuration"),
            "https://a.example/.well-known/openid-configuration"
        );
    }
}
