//! Who somebody is, in words: the names under which clients are registered at the built-in issuer. An id stays
//! what everything is found by; here nothing is decided.

use interzone_edge::issuer::Clients;
use interzone_protocol::vocab::PrincipalId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// For how long names are taken as they were read.
const FRESH: Duration = Duration::from_secs(10);
/// How long a page waits for them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The names of clients.
pub(super) struct Names {
    /// None where tokens come from elsewhere, and names with them.
    clients: Option<Clients>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    read: Option<Instant>,
    names: Arc<HashMap<String, String>>,
}

impl Names {
    pub(super) fn of(clients: Option<Clients>) -> Self {
        Self {
            clients,
            known: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads them again if that was long ago. Where they cannot be read, the old ones must do.
    pub(super) async fn refresh(&self) {
        let Some(clients) = &self.clients else {
            return;
        };
        {
            let mut known = self.lock();
            let now = Instant::now();
            if known.read.is_some_and(|read| now < read + FRESH) {
                return;
            }
            // Whoever comes meanwhile does not read them too.
            known.read = Some(now);
        }
        if let Ok(Ok(all)) = timeout(PATIENCE, clients.list()).await {
            let names = all.into_iter().map(|client| (client.id, client.name));
            self.lock().names = Arc::new(names.collect());
        }
    }

    /// What an owner is called: their client's name, else their id.
    pub(super) fn called(&self, owner: &PrincipalId) -> String {
        let names = Arc::clone(&self.lock().names);
        let name = names.get(owner.as_str()).filter(|name| !name.is_empty());
        name.map_or_else(|| owner.as_str().to_owned(), Clone::clone)
    }
}
