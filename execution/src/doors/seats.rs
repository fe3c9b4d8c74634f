//! How many watches one principal may have open at once. What is watched, and how, is not known here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The watches that are open.
pub(crate) struct Seats {
    /// For each principal.
    most: usize,
    taken: Mutex<HashMap<Arc<str>, usize>>,
}

impl Seats {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// A place for one more watch, for as long as it is kept; nothing if there are too many, and how
    /// many there may be.
    pub(crate) fn take(self: &Arc<Self>, who: &Arc<str>) -> Result<Seat, usize> {
        let mut taken = self.lock();
        let count = taken.entry(Arc::clone(who)).or_default();
        if *count >= self.most {
            return Err(self.most);
        }
        *count += 1;
        Ok(Seat {
            seats: Arc::clone(self),
            who: Arc::clone(who),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open watch.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    who: Arc<str>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        if let Some(count) = taken.get_mut(&self.who) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_so_many_and_gets_them_back() {
        let seats = Seats::new(2);
        let (anna, bert): (Arc<str>, Arc<str>) = ("anna".into(), "bert".into());
        let first = seats.take(&anna).ok().unwrap();
        let second = seats.take(&anna).ok().unwrap();
        assert_eq!(seats.take(&anna).err(), Some(2));
        let other = seats.take(&bert).ok().unwrap();
        drop(first);
        let third = seats.take(&anna).ok().unwrap();
        assert_eq!(seats.take(&anna).err(), Some(2));
        drop((second, third, other));
        assert!(seats.lock().is_empty(), "nobody is remembered for nothing");
    }
}
