//! Discovery of an external issuer's endpoints from its metadata: on demand, cached, single-flight.

use super::code_flow::SignInError;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use interzone_edge::auth::SignInEndpoints;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time for which discovered endpoints are cached.
const CACHE_TTL: Duration = Duration::from_secs(3600);
/// Minimum time between failed requests.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// An issuer whose endpoints are discovered from its metadata.
pub struct IssuerDiscovery {
    issuer: String,
    http: reqwest::Client,
    cache: Mutex<DiscoveryCache>,
}

#[derive(Default)]
struct DiscoveryCache {
    endpoints: Option<(Arc<SignInEndpoints>, Instant)>,
    request: Option<(DiscoveryRequest, Instant)>,
}

/// A metadata request shared by all callers that wait for it.
type DiscoveryRequest = Shared<BoxFuture<'static, Option<Arc<SignInEndpoints>>>>;

impl IssuerDiscovery {
    /// Creates a discovery for an issuer, named as in its tokens. Sends no request yet.
    pub fn new(issuer: impl Into<String>, http: reqwest::Client) -> Self {
        Self {
            issuer: issuer.into(),
            http,
            cache: Mutex::default(),
        }
    }

    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    fn lock_cache(&self) -> MutexGuard<'_, DiscoveryCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the endpoints; expired ones are used while the issuer is unavailable.
    pub(super) async fn endpoints(&self) -> Result<Arc<SignInEndpoints>, SignInError> {
        let (old, request) = {
            let mut cache = self.lock_cache();
            let now = Instant::now();
            let old = match &cache.endpoints {
                Some((found, at)) if now < *at + CACHE_TTL => return Ok(Arc::clone(found)),
                old => old.as_ref().map(|(found, _)| Arc::clone(found)),
            };
            let request = match &cache.request {
                Some((asking, _)) if asking.peek().is_none() => asking.clone(),
                Some((_, requested_at)) if now < *requested_at + RETRY_INTERVAL => {
                    return old.ok_or(SignInError::IssuerUnavailable);
                }
                _ => {
                    let request = self.start_request();
                    cache.request = Some((request.clone(), now));
                    request
                }
            };
            (old, request)
        };
        match request.await {
            Some(found) => {
                self.lock_cache().endpoints = Some((Arc::clone(&found), Instant::now()));
                Ok(found)
            }
            None => old.ok_or(SignInError::IssuerUnavailable),
        }
    }

    fn start_request(&self) -> DiscoveryRequest {
        let (issuer, http) = (self.issuer.clone(), self.http.clone());
        let request = async move {
            match SignInEndpoints::discover(&issuer, &http).await {
                Ok(found) => Some(Arc::new(found)),
                Err(error) => {
                    tracing::warn!(%error, "issuer discovery failed");
                    None
                }
            }
        };
        request.boxed().shared()
    }
}

#[cfg(test)]
mod tests {
    use super::IssuerDiscovery;
    use interzone_edge::tls::{TrustRoots, install_provider};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn concurrent_discoveries_share_one_request() {
        install_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let discovery =
            IssuerDiscovery::new(&issuer, TrustRoots::system().client().build().unwrap());
        // Accepts only one connection: a second request would fail.
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            assert_ne!(stream.read(&mut head).await.unwrap(), 0);
            let body = format!(
                r#"{{"issuer":"{issuer}","authorization_endpoint":"{issuer}/a","token_endpoint":"{issuer}/t"}}"#
            );
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(text.as_bytes()).await.unwrap();
        };
        let (first, second, ()) = tokio::join!(discovery.endpoints(), discovery.endpoints(), serve);
        assert!(first.is_ok() && second.is_ok());
        assert!(discovery.endpoints().await.is_ok());
        drop(listener);
        let unreachable =
            IssuerDiscovery::new(&issuer, TrustRoots::system().client().build().unwrap());
        assert!(unreachable.endpoints().await.is_err());
    }
}
