//! SSRF check of DNS results: a resolver that checks every address at connect time.
//!
//! The connection goes to exactly the checked addresses, so DNS rebinding between a check and a request has no effect.

use super::address::is_public;
use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// DNS lookup.
#[async_trait]
pub trait DnsLookup: Send + Sync {
    /// Returns all addresses of `name`.
    ///
    /// # Errors
    ///
    /// There are none, or the lookup failed.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDnsLookup;

#[async_trait]
impl DnsLookup for SystemDnsLookup {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Error of a name that resolves to an address that is not public.
#[derive(Debug, thiserror::Error)]
#[error("the name resolves to an address that is not public")]
pub(super) struct PrivateAddressError;

/// Resolver of the HTTP client. Rejects names with private addresses unless they are allowed.
pub(super) struct GuardedResolver {
    pub(super) lookup: Arc<dyn DnsLookup>,
    pub(super) allow_private: bool,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = Arc::clone(&self.lookup);
        let inside_too = self.allow_private;
        Box::pin(async move {
            let found = lookup.addresses(name.as_str()).await?;
            // One private address rejects the whole result: a mixed one is typical of rebinding.
            if !inside_too && !found.iter().copied().all(is_public) {
                return Err(PrivateAddressError.into());
            }
            // Port 0 stands for the port of the URL.
            let addresses = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
