//! Leaves a peer alone that keeps failing, so that callers learn it at once and the peer can
//! recover. It counts failures of the way and of the server, never refusals of a call.
//!
//! It is told the time, so a test can be the clock.

use crate::clock::after;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// When a failing peer is left alone, and for how long.
///
/// ```
/// use interzone_client::{BreakerPolicy, Client};
///
/// let client = Client::builder("https://agent.example").breaker(BreakerPolicy::never()).build()?;
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerPolicy {
    /// So many failures in a row open the circuit; 0 never does.
    pub failures: u32,
    /// How long it stays open before one call may try.
    pub open_for: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failures: 5,
            open_for: Duration::from_secs(60),
        }
    }
}

impl BreakerPolicy {
    /// Calls the peer whatever happens.
    pub fn never() -> Self {
        Self {
            failures: 0,
            ..Self::default()
        }
    }

    /// Changes how many failures in a row open the circuit.
    #[must_use]
    pub fn failures(mut self, failures: u32) -> Self {
        self.failures = failures;
        self
    }

    /// Changes how long it stays open.
    #[must_use]
    pub fn open_for(mut self, wait: Duration) -> Self {
        self.open_for = wait;
        self
    }
}

/// How long to wait while another call probes: about as long as that takes.
const PROBE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Breaker {
    policy: BreakerPolicy,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// One call is trying.
    Probing,
}

/// Leave to call once. Dropping it without a word, as a cancelled call does, says nothing about the
/// peer, but lets the next call probe.
#[derive(Debug)]
pub(crate) struct Permit {
    breaker: Arc<Breaker>,
    probe: bool,
    told: bool,
}

impl Breaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Arc<Self> {
        Arc::new(Self {
            policy,
            state: Mutex::new(State::Closed { failures: 0 }),
        })
    }

    /// Leave to call, or how long to wait for it.
    pub(crate) fn admit(self: &Arc<Self>, now: Instant) -> Result<Permit, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let probe = match *state {
            State::Closed { .. } => false,
            State::Open { until } if now >= until => {
                *state = State::Probing;
                true
            }
            State::Open { until } => return Err(until.duration_since(now)),
            State::Probing => return Err(PROBE),
        };
        Ok(Permit {
            breaker: self.clone(),
            probe,
            told: false,
        })
    }

    fn change(&self, to: impl FnOnce(&State) -> State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = to(&state);
    }
}

impl Permit {
    /// The peer answered, whatever it said.
    pub(crate) fn success(mut self) {
        self.told = true;
        let probe = self.probe;
        self.breaker.change(|state| match state {
            // A call from before the circuit opened does not close it: only the probe does.
            State::Open { until } if !probe => State::Open { until: *until },
            State::Probing if !probe => State::Probing,
            _ => State::Closed { failures: 0 },
        });
    }

    /// The peer was not reached, or failed.
    pub(crate) fn failure(mut self, now: Instant) {
        self.told = true;
        let policy = self.breaker.policy;
        let open = State::Open {
            until: after(now, policy.open_for),
        };
        let probe = self.probe;
        self.breaker.change(|state| match state {
            State::Closed { failures } => {
                let failures = failures.saturating_add(1);
                if policy.failures > 0 && failures >= policy.failures {
                    open
                } else {
                    State::Closed { failures }
                }
            }
            State::Probing if probe => open,
            State::Probing => State::Probing,
            State::Open { until } => State::Open { until: *until },
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.probe && !self.told {
            // Open, but due: whoever comes next probes.
            let due = Instant::now();
            self.breaker.change(|_| State::Open { until: due });
        }
    }
}
