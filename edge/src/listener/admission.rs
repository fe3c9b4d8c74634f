//! Which requests are let in. A request counts as work once its body is there, or at once if it has none. Until
//! then it is a sender, and senders are bounded apart: in total, and for each address or principal.
//!
//! When there are too many senders the oldest is ended and the newest let in. Most bodies arrive together with
//! their head, so what is old is slow.

mod group;
#[cfg(test)]
mod tests;

use super::TurnedAway;
use super::pulse::Pulse;
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use futures_util::task::AtomicWaker;
use group::Group;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// What is asked for to learn whether a node is well. These are answered even when as many requests are worked
/// on as may be.
const HEALTH: [&str; 5] = ["/healthz", "/readyz", "/metrics", "/health", "/ping"];

/// Counts the requests of a listener.
pub(super) struct Admission {
    /// How many requests may be worked on at the same time. As many for health may come on top.
    most: usize,
    working: AtomicUsize,
    health: AtomicUsize,
    next: AtomicU64,
    senders: Mutex<Senders>,
}

struct Senders {
    unauthenticated: Group<AddressPrefix>,
    authenticated: Group<Arc<str>>,
}

impl Admission {
    pub(super) fn new(limits: &HttpLimits) -> Arc<Self> {
        Arc::new(Self {
            most: limits.requests.max(1),
            working: AtomicUsize::new(0),
            health: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            senders: Mutex::new(Senders {
                unauthenticated: Group::new(limits.arriving, limits.shares.address),
                authenticated: Group::new(limits.arriving, limits.shares.principal),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request that has no body is worked on; `None` if too many are.
    pub(super) fn begin_work(self: &Arc<Self>, path: &str) -> Option<Work> {
        let work = Work::begin(self, Counter::Working);
        if work.is_none() && HEALTH.contains(&path) {
            return Work::begin(self, Counter::Health);
        }
        work
    }

    /// A request begins whose body is still on its way.
    pub(super) fn begin_sending(
        self: &Arc<Self>,
        address: AddressPrefix,
        pulse: &Arc<Pulse>,
    ) -> Sender {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        pulse.sends(true);
        let mut senders = self.lock();
        let sender = Sender(Arc::new(State {
            admission: Arc::clone(self),
            id,
            phase: AtomicU8::new(SENDING),
            crowded: senders.unauthenticated.is_crowded(&address),
            abandoned: AtomicBool::new(false),
            pulse: Arc::clone(pulse),
            answering: AtomicWaker::new(),
            reading: AtomicWaker::new(),
        }));
        let displaced = senders.unauthenticated.insert(address, id, &sender);
        drop(senders);
        if let Some(displaced) = displaced {
            displaced.displace();
        }
        sender
    }

    fn counter(&self, counter: Counter) -> &AtomicUsize {
        match counter {
            Counter::Working => &self.working,
            Counter::Health => &self.health,
        }
    }
}

#[derive(Clone, Copy)]
enum Counter {
    Working,
    Health,
}

/// A request that is worked on.
pub(super) struct Work {
    admission: Arc<Admission>,
    counter: Counter,
}

impl Work {
    fn begin(admission: &Arc<Admission>, counter: Counter) -> Option<Self> {
        // Made first, so that it takes back what it adds whatever comes of it.
        let before = admission.counter(counter).fetch_add(1, Ordering::Relaxed);
        let work = Self {
            admission: Arc::clone(admission),
            counter,
        };
        (before < admission.most).then_some(work)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let counter = self.admission.counter(self.counter);
        counter.fetch_sub(1, Ordering::Relaxed);
    }
}

// The phases of a request with a body.

/// Its body is on its way.
const SENDING: u8 = 0;
/// Its body is there, and it counts as work.
const WORKING: u8 = 1;
/// Its body is there, and too many others are worked on.
const BUSY: u8 = 2;
/// It was ended in favour of another sender.
const DISPLACED: u8 = 3;
/// It is answered, though its body may still be on its way.
const ANSWERED: u8 = 4;
/// As before, and then ended in favour of another sender.
const ENDED: u8 = 5;

/// A request whose body is, or was, on its way.
#[derive(Clone)]
pub struct Sender(Arc<State>);

struct State {
    admission: Arc<Admission>,
    id: u64,
    phase: AtomicU8,
    /// Whether many others of its address were sending when it began.
    crowded: bool,
    /// Whether its body was left before its end.
    abandoned: AtomicBool,
    pulse: Arc<Pulse>,
    /// The task that makes the answer, and the one that reads the body: mostly the same.
    answering: AtomicWaker,
    reading: AtomicWaker,
}

impl Sender {
    /// Whether so many requests of its address are arriving that it should prove who sends it at once.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.crowded
    }

    /// Its caller has been authenticated: it counts for that principal from now on. If the principal has too
    /// many already it goes on counting for its address.
    pub(crate) fn authenticated(&self, principal: &Arc<str>) {
        let mut senders = self.0.admission.lock();
        if senders.authenticated.has_room(principal) && senders.unauthenticated.remove(self.0.id) {
            let principal = Arc::clone(principal);
            senders.authenticated.insert(principal, self.0.id, self);
            drop(senders);
            self.0.pulse.sends(false);
        }
    }

    /// Some of its body has been read: bytes, and the head of a chunk if it comes in chunks (RFC 9112, 7.1).
    pub(super) fn consume(&self, bytes: usize, is_chunked: bool) {
        let pulse = &self.0.pulse;
        if pulse.is_multiplexed() {
            return;
        }
        let overhead = match bytes.checked_ilog2() {
            Some(bits) if is_chunked => {
                usize::try_from(bits / 4 + 1).unwrap_or(0) + "\r\n\r\n".len()
            }
            _ => 0,
        };
        pulse.heads().consume_body(bytes.saturating_add(overhead));
    }

    /// All of its body has been read.
    pub(super) fn finish_body(&self) {
        let pulse = &self.0.pulse;
        if !pulse.is_multiplexed() {
            pulse.heads().finish_body();
            pulse.settle_heads();
        }
    }

    /// The rest of its body will not be read.
    pub(super) fn abandon(&self) {
        self.0.abandoned.store(true, Ordering::Release);
        self.complete();
    }

    /// Its body is there. Says whether it may be worked on.
    pub(super) fn complete(&self) -> bool {
        let state = &self.0;
        self.leave();
        let working = &state.admission.working;
        let before = working.fetch_add(1, Ordering::AcqRel);
        let to = if before < state.admission.most {
            WORKING
        } else {
            BUSY
        };
        let moved = self.step(SENDING, to);
        if !moved || to == BUSY {
            working.fetch_sub(1, Ordering::AcqRel);
        }
        if moved && to == BUSY {
            state.answering.wake();
        }
        !matches!(self.phase(), BUSY | DISPLACED)
    }

    /// It is no sender any more.
    fn leave(&self) {
        // One that was displaced has been removed. Under an attack these are most, so they do not take the lock again.
        if matches!(self.phase(), DISPLACED | ENDED) {
            return;
        }
        let mut senders = self.0.admission.lock();
        let unauthenticated = senders.unauthenticated.remove(self.0.id);
        if !unauthenticated {
            senders.authenticated.remove(self.0.id);
        }
        drop(senders);
        if unauthenticated {
            self.0.pulse.sends(false);
        }
    }

    /// It makes room for another. It has been removed from its group.
    fn displace(&self) {
        self.0.pulse.sends(false);
        if self.step(SENDING, DISPLACED) || self.step(ANSWERED, ENDED) {
            self.0.answering.wake();
            self.0.reading.wake();
        }
    }

    fn step(&self, from: u8, to: u8) -> bool {
        let phase = &self.0.phase;
        phase
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn phase(&self) -> u8 {
        self.0.phase.load(Ordering::Acquire)
    }

    /// Whether its body may be read on. While it is to be turned away this waits, for then its handler must
    /// not answer.
    pub(super) fn poll_reading(&self, cx: &mut Context<'_>) -> Poll<Result<(), SenderEnded>> {
        self.0.reading.register(cx.waker());
        match self.phase() {
            DISPLACED | BUSY => Poll::Pending,
            ENDED => Poll::Ready(Err(SenderEnded)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("id", &self.0.id)
            .finish_non_exhaustive()
    }
}

/// The body was ended in favour of other senders, after its request had been answered.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("too many other requests are arriving")]
pub(super) struct SenderEnded;

/// A sender's request, until it is answered.
pub(super) struct Answering(pub(super) Sender);

impl Answering {
    /// Why it must be turned away, if it must; the task is woken when that changes.
    pub(super) fn turned_away(&self, cx: &Context<'_>) -> Option<TurnedAway> {
        let refusal = |phase| match phase {
            BUSY => Some(TurnedAway::Busy),
            DISPLACED => Some(TurnedAway::TooManyArriving),
            _ => None,
        };
        let Sender(state) = &self.0;
        match self.0.phase() {
            SENDING => {
                state.answering.register(cx.waker());
                refusal(self.0.phase())
            }
            phase => refusal(phase),
        }
    }

    /// Whether some of the body has not been read.
    pub(super) fn is_unread(&self) -> bool {
        let Sender(state) = &self.0;
        let sending = matches!(self.0.phase(), SENDING | DISPLACED);
        sending || state.abandoned.load(Ordering::Acquire)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Sender(state) = &self.0;
        match state.phase.swap(ANSWERED, Ordering::AcqRel) {
            WORKING => {
                let working = &state.admission.working;
                working.fetch_sub(1, Ordering::AcqRel);
            }
            DISPLACED | BUSY => {
                state.phase.store(ENDED, Ordering::Release);
                state.reading.wake();
            }
            _ => {}
        }
    }
}
