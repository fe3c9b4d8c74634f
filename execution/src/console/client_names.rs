//! Display names of clients registered at the built-in issuer. Lookups use ids only.

use interzone_issuer::OAuthClients;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time for which names are cached.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Time that a page waits for names.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(1);

/// Cache of client names.
pub(super) struct ClientNames {
    /// `None` with an external issuer.
    clients: Option<OAuthClients>,
    cache: Mutex<NamesCache>,
}

#[derive(Default)]
struct NamesCache {
    read_at: Option<Instant>,
    names: Arc<HashMap<String, String>>,
}

impl ClientNames {
    pub(super) fn new(clients: Option<OAuthClients>) -> Self {
        Self {
            clients,
            cache: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, NamesCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads the names if they are old. On failure the old ones stay.
    pub(super) async fn refresh(&self) {
        let Some(clients) = &self.clients else {
            return;
        };
        {
            let mut cache = self.lock();
            let now = Instant::now();
            if cache.read_at.is_some_and(|read| now < read + CACHE_TTL) {
                return;
            }
            // Concurrent requests do not read them too.
            cache.read_at = Some(now);
        }
        if let Ok(Ok(all)) = timeout(REFRESH_TIMEOUT, clients.list()).await {
            let names = all.into_iter().map(|client| (client.id, client.name));
            self.lock().names = Arc::new(names.collect());
        }
    }

    fn all(&self) -> Arc<HashMap<String, String>> {
        Arc::clone(&self.lock().names)
    }

    /// Display name of a principal: its client's name, else its id.
    pub(super) fn display_name(&self, id: &str) -> String {
        let names = self.all();
        let name = names.get(id).filter(|name| !name.is_empty());
        name.map_or_else(|| id.to_owned(), Clone::clone)
    }

    /// Resolves an id or client name to ids: an exact id, else all clients with this name, ignoring case.
    /// Unknown text is taken as an id, since not every principal is a client.
    pub(super) fn resolve(&self, text: &str) -> Vec<String> {
        let names = self.all();
        if names.contains_key(text) {
            return vec![text.to_owned()];
        }
        let name_lowercase = text.to_lowercase();
        let matching = names
            .iter()
            .filter(|(_, name)| name.to_lowercase() == name_lowercase);
        let mut ids: Vec<_> = matching.map(|(id, _)| id.clone()).collect();
        ids.sort();
        if ids.is_empty() {
            ids.push(text.to_owned());
        }
        ids
    }

    /// Distinct names for an input's suggestions, up to `limit`.
    pub(super) fn suggestions(&self, limit: usize) -> Vec<String> {
        let names = self.all();
        let mut all: Vec<_> = names.values().filter(|name| !name.is_empty()).collect();
        all.sort();
        all.dedup();
        all.into_iter().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&str, &str)]) -> ClientNames {
        let names = ClientNames::new(None);
        let all = all
            .iter()
            .map(|&(id, name)| (id.to_owned(), name.to_owned()));
        names.lock().names = Arc::new(all.collect());
        names
    }

    #[test]
    fn principal_resolves_by_id_or_name() {
        let names = names(&[
            ("client-1", "Reports"),
            ("client-2", "Über uns"),
            ("client-3", "reports"),
            ("Reports", "An id like a name"),
            ("client-4", ""),
        ]);
        assert_eq!(names.display_name("client-1"), "Reports");
        assert_eq!(names.display_name("client-4"), "client-4");
        assert_eq!(names.resolve("client-1"), ["client-1"]);
        assert_eq!(names.resolve("ÜBER UNS"), ["client-2"]);
        assert_eq!(names.resolve("REPORTS"), ["client-1", "client-3"]);
        assert_eq!(
            names.resolve("Reports"),
            ["Reports"],
            "an id takes precedence"
        );
        assert_eq!(names.resolve("user:anna"), ["user:anna"]);
        let few = names.suggestions(2);
        assert_eq!(few, ["An id like a name", "Reports"]);
    }
}
