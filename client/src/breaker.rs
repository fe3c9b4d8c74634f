//! Circuit breaker: stops calling a peer that keeps failing, so that callers fail fast and the peer can
//! recover. Transport and server failures count, application errors do not.
//!
//! The time is passed in, so that tests control it.

use crate::clock::saturating_deadline;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Circuit breaker policy.
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
    /// Number of consecutive failures that open the circuit; 0 disables the breaker.
    pub failure_threshold: u32,
    /// Time before a probe is allowed.
    pub open_for: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            failure_threshold: 5,
            open_for: Duration::from_secs(60),
        }
    }
}

impl BreakerPolicy {
    /// Disables the circuit breaker.
    pub fn never() -> Self {
        Self {
            failure_threshold: 0,
            ..Self::default()
        }
    }

    /// Sets the number of consecutive failures that open the circuit.
    #[must_use]
    pub fn failures(mut self, failures: u32) -> Self {
        self.failure_threshold = failures;
        self
    }

    /// Sets how long the circuit stays open.
    #[must_use]
    pub fn open_for(mut self, wait: Duration) -> Self {
        self.open_for = wait;
        self
    }
}

/// Retry delay while another call probes: about as long as a probe takes.
const PROBE_RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Breaker {
    policy: BreakerPolicy,
    state: Mutex<BreakerState>,
}

#[derive(Debug)]
enum BreakerState {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// One call is probing the peer.
    Probing,
}

/// Permit for one call. Dropping it without a result, as a cancelled call does, does not count as success or failure
/// of the peer, and lets the next call probe.
#[derive(Debug)]
pub(crate) struct BreakerPermit {
    breaker: Arc<Breaker>,
    is_probe: bool,
    is_reported: bool,
}

impl Breaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Arc<Self> {
        Arc::new(Self {
            policy,
            state: Mutex::new(BreakerState::Closed { failures: 0 }),
        })
    }

    /// Returns a permit, or the time to wait for one.
    pub(crate) fn try_acquire(self: &Arc<Self>, now: Instant) -> Result<BreakerPermit, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_probe = match *state {
            BreakerState::Closed { .. } => false,
            BreakerState::Open { until } if now >= until => {
                *state = BreakerState::Probing;
                true
            }
            BreakerState::Open { until } => return Err(until.duration_since(now)),
            BreakerState::Probing => return Err(PROBE_RETRY_DELAY),
        };
        Ok(BreakerPermit {
            breaker: self.clone(),
            is_probe,
            is_reported: false,
        })
    }

    fn update(&self, next_state: impl FnOnce(&BreakerState) -> BreakerState) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = next_state(&state);
    }
}

impl BreakerPermit {
    /// The peer answered, with or without an error.
    pub(crate) fn report_success(mut self) {
        self.is_reported = true;
        let is_probe = self.is_probe;
        self.breaker.update(|state| match state {
            // A call from before the circuit opened does not close it: only a probe does.
            BreakerState::Open { until } if !is_probe => BreakerState::Open { until: *until },
            BreakerState::Probing if !is_probe => BreakerState::Probing,
            _ => BreakerState::Closed { failures: 0 },
        });
    }

    /// The peer was not reached, or failed.
    pub(crate) fn report_failure(mut self, now: Instant) {
        self.is_reported = true;
        let policy = self.breaker.policy;
        let open = BreakerState::Open {
            until: saturating_deadline(now, policy.open_for),
        };
        let is_probe = self.is_probe;
        self.breaker.update(|state| match state {
            BreakerState::Closed { failures } => {
                let failures = failures.saturating_add(1);
                if policy.failure_threshold > 0 && failures >= policy.failure_threshold {
                    open
                } else {
                    BreakerState::Closed { failures }
                }
            }
            BreakerState::Probing if is_probe => open,
            BreakerState::Probing => BreakerState::Probing,
            BreakerState::Open { until } => BreakerState::Open { until: *until },
        });
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.is_probe && !self.is_reported {
            // Open but due: the next call probes.
            let due = Instant::now();
            self.breaker.update(|_| BreakerState::Open { until: due });
        }
    }
}
