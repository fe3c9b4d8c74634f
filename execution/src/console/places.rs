//! Who may hear the console's news: few at once, a few of each session, and whoever has most makes room for
//! whoever has less. What is told is in `feed`.

use super::session::Hash;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// How many may look at once.
const ALL: usize = 32;
/// How many pages of one session may look at once. Only pages in sight do, so that is four windows.
const OF_ONE: usize = 4;

/// The places of those who look.
#[derive(Default)]
pub(super) struct Places(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    number: u64,
    /// In the order in which they were taken.
    taken: Vec<Taken>,
}

struct Taken {
    number: u64,
    session: Hash,
    leave: CancellationToken,
}

/// A place, for as long as it lives.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    leave: CancellationToken,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a page of this session. A session that has all of its own gives its oldest for it, for
    /// people look at what they opened last. None if all are taken and nobody has two more than this one.
    pub(super) fn take(self: &Arc<Self>, session: Hash) -> Option<Place> {
        let mut inner = self.lock();
        if let Some(from) = inner.makes_room(session)? {
            inner.send_oldest_away(from);
        }
        inner.number += 1;
        let (number, leave) = (inner.number, CancellationToken::new());
        inner.taken.push(Taken {
            number,
            session,
            leave: leave.clone(),
        });
        drop(inner);
        Some(Place {
            places: Arc::clone(self),
            number,
            leave,
        })
    }
}

impl Inner {
    /// Who must give a place for one more of this session: nobody, if there is room.
    fn makes_room(&self, session: Hash) -> Option<Option<Hash>> {
        let mut held = HashMap::<Hash, usize>::new();
        for one in &self.taken {
            *held.entry(one.session).or_default() += 1;
        }
        let own = held.get(&session).copied().unwrap_or_default();
        if own >= OF_ONE {
            return Some(Some(session));
        }
        if self.taken.len() < ALL {
            return Some(None);
        }
        // Whoever gives must still have no less than whoever gets, or the two would take turns for ever.
        let (most, held) = held.into_iter().max_by_key(|(_, held)| *held)?;
        (held > own + 1).then_some(Some(most))
    }

    fn send_oldest_away(&mut self, session: Hash) {
        let oldest = self.taken.iter().position(|one| one.session == session);
        if let Some(oldest) = oldest {
            self.taken.remove(oldest).leave.cancel();
        }
    }
}

impl Place {
    /// Ends when another page got this place.
    pub(super) async fn given_away(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.places.lock();
        inner.taken.retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(place: &Place) -> bool {
        place.leave.is_cancelled()
    }

    #[test]
    fn the_oldest_page_of_a_session_gives_way_to_its_newest() {
        let places = Arc::new(Places::default());
        let other = places.take([9; 32]).unwrap();
        let mine: Vec<_> = (0..OF_ONE + 2)
            .map(|_| places.take([1; 32]).unwrap())
            .collect();
        let still: Vec<_> = mine.iter().map(|place| !gone(place)).collect();
        assert_eq!(still, [false, false, true, true, true, true]);
        assert!(!gone(&other), "nobody else gives way");
        // One that is left is free again, and one that was given away is not freed twice.
        drop(mine);
        assert_eq!(places.lock().taken.len(), 1);
    }

    #[test]
    fn whoever_has_most_makes_room_when_all_are_taken() {
        let places = Arc::new(Places::default());
        let mut all = Vec::new();
        for session in 1..=8 {
            all.extend((0..OF_ONE).map(|_| places.take([session; 32]).unwrap()));
        }
        assert_eq!(all.len(), ALL);
        let newcomers: Vec<_> = (100..124)
            .map(|one| places.take([one; 32]).expect("one each"))
            .collect();
        assert!(!newcomers.iter().any(gone));
        assert_eq!(all.iter().filter(|place| gone(place)).count(), 24);
        // Now everybody has one, and nobody need give theirs.
        assert!(places.take([200; 32]).is_none());
        assert!(places.take([100; 32]).is_none(), "not even to themselves");
        drop(newcomers);
        assert!(places.take([200; 32]).is_some());
    }
}
