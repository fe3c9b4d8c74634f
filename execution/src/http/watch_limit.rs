//! Limit of open watches per principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limiter of open watches.
pub(crate) struct WatchLimiter {
    /// Maximum per principal.
    limit: usize,
    open: Mutex<HashMap<Arc<str>, usize>>,
}

impl WatchLimiter {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: Mutex::default(),
        })
    }

    /// Returns a permit for one more watch, released on drop; the limit as error if it is reached.
    pub(crate) fn acquire(self: &Arc<Self>, principal: &Arc<str>) -> Result<WatchPermit, usize> {
        let mut open = self.lock();
        let count = open.entry(Arc::clone(principal)).or_default();
        if *count >= self.limit {
            return Err(self.limit);
        }
        *count += 1;
        Ok(WatchPermit {
            limiter: Arc::clone(self),
            principal: Arc::clone(principal),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permit of one open watch.
pub(crate) struct WatchPermit {
    limiter: Arc<WatchLimiter>,
    principal: Arc<str>,
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        let mut open = self.limiter.lock();
        if let Some(count) = open.get_mut(&self.principal) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_limit_is_per_principal_and_released_on_drop() {
        let limiter = WatchLimiter::new(2);
        let (anna, bert): (Arc<str>, Arc<str>) = ("anna".into(), "bert".into());
        let first = limiter.acquire(&anna).ok().unwrap();
        let second = limiter.acquire(&anna).ok().unwrap();
        assert_eq!(limiter.acquire(&anna).err(), Some(2));
        let other = limiter.acquire(&bert).ok().unwrap();
        drop(first);
        let third = limiter.acquire(&anna).ok().unwrap();
        assert_eq!(limiter.acquire(&anna).err(), Some(2));
        drop((second, third, other));
        assert!(
            limiter.lock().is_empty(),
            "principals without watches are removed"
        );
    }
}
