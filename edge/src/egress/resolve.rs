//! Names become addresses here, in the moment of the connection, and every address is looked at.
//!
//! The connection goes to the very addresses that were vetted, so a name that changes its mind
//! between a check and a call (DNS rebinding) gains nothing.

use super::address::is_public;
use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All addresses of `name`.
    ///
    /// # Errors
    ///
    /// If there are none or they cannot be found out.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the machine, which asks whomever it is configured to.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineLookup;

#[async_trait]
impl Lookup for MachineLookup {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// A name leads to an address that is not public.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to an address that is not public")]
pub(super) struct LeadsInside;

/// Resolves for a client, and refuses names that lead inside unless it may go there.
pub(super) struct Guard {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) inside_too: bool,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = Arc::clone(&self.lookup);
        let inside_too = self.inside_too;
        Box::pin(async move {
            let found = lookup.addresses(name.as_str()).await?;
            // One bad address spoils the answer: a mixed one is how rebinding begins.
            if !inside_too && !found.iter().copied().all(is_public) {
                return Err(LeadsInside.into());
            }
            // Port 0 stands for the port of the URL.
            let places = found.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(places) as Addrs)
        })
    }
}
