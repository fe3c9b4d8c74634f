//! Who somebody is, in words: the names under which clients are registered at the built-in issuer. An id stays
//! what everything is found by; here nothing is decided.

use interzone_edge::issuer::Clients;
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

    fn all(&self) -> Arc<HashMap<String, String>> {
        Arc::clone(&self.lock().names)
    }

    /// What somebody is called: their client's name, else their id.
    pub(super) fn called(&self, id: &str) -> String {
        let names = self.all();
        let name = names.get(id).filter(|name| !name.is_empty());
        name.map_or_else(|| id.to_owned(), Clone::clone)
    }

    /// Whom somebody means by a word: whoever has it as their id, else those clients that are called so, in
    /// whatever case. A word that nobody is known by is taken for an id: not everybody is a client of ours.
    pub(super) fn meant(&self, word: &str) -> Vec<String> {
        let names = self.all();
        if names.contains_key(word) {
            return vec![word.to_owned()];
        }
        let wanted = word.to_lowercase();
        let those = names
            .iter()
            .filter(|(_, name)| name.to_lowercase() == wanted);
        let mut ids: Vec<_> = those.map(|(id, _)| id.clone()).collect();
        ids.sort();
        if ids.is_empty() {
            ids.push(word.to_owned());
        }
        ids
    }

    /// The names themselves, each once, to choose from: so many of them at most.
    pub(super) fn to_choose(&self, most: usize) -> Vec<String> {
        let names = self.all();
        let mut all: Vec<_> = names.values().filter(|name| !name.is_empty()).collect();
        all.sort();
        all.dedup();
        all.into_iter().take(most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&str, &str)]) -> Names {
        let names = Names::of(None);
        let all = all
            .iter()
            .map(|&(id, name)| (id.to_owned(), name.to_owned()));
        names.lock().names = Arc::new(all.collect());
        names
    }

    #[test]
    fn somebody_is_meant_by_their_id_or_their_name() {
        let names = names(&[
            ("client-1", "Reports"),
            ("client-2", "Über uns"),
            ("client-3", "reports"),
            ("Reports", "An id like a name"),
            ("client-4", ""),
        ]);
        assert_eq!(names.called("client-1"), "Reports");
        assert_eq!(names.called("client-4"), "client-4");
        assert_eq!(names.meant("client-1"), ["client-1"]);
        assert_eq!(names.meant("ÜBER UNS"), ["client-2"]);
        assert_eq!(names.meant("REPORTS"), ["client-1", "client-3"]);
        assert_eq!(names.meant("Reports"), ["Reports"], "an id comes first");
        assert_eq!(names.meant("person:anna"), ["person:anna"]);
        let few = names.to_choose(2);
        assert_eq!(few, ["An id like a name", "Reports"]);
    }
}
