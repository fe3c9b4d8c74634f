//! Fault injection: calls that are rejected, dropped or blocked, and events that are duplicated or delayed. Decides
//! which fault applies; the API and event code carry it out.

use crate::state::{PlaygroundState, lock};
use crate::workspace::log::ApiCall;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Maximum number of rules.
const MAX_RULES: usize = 1_000;

/// Timing of a fault relative to the effect of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTiming {
    /// Before the effect.
    Before,
    /// After the effect, before the response.
    After,
}

/// Fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// 429 with this Retry-After in seconds.
    RateLimited(u64),
    /// The connection is dropped without a response.
    Drop(FaultTiming),
    /// No response for [`PlaygroundOptions::hang_duration`](crate::PlaygroundOptions::hang_duration).
    Hang(FaultTiming),
    /// A response with this status and no JSON.
    Status(u16),
    /// `ok: false` with this error code.
    Refuse(String),
}

/// Fault rule for API calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFault {
    /// Method; `None` for any.
    pub method: Option<String>,
    /// Number of calls to skip first.
    pub skip: u32,
    /// Number of calls affected.
    pub times: u32,
    /// Fault.
    pub action: FaultAction,
}

/// Fault of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFault {
    /// Sends the next `events` events `copies` times each, with the same id.
    Duplicate {
        /// Number of events.
        events: u32,
        /// Number of copies.
        copies: u32,
    },
    /// Holds the next `events` events until all are there and sends them in reverse order.
    Reverse {
        /// Number of events.
        events: u32,
    },
    /// Delays the next `events` events.
    Delay {
        /// Number of events.
        events: u32,
        /// Delay.
        delay: Duration,
    },
}

/// Server side of a break point.
#[derive(Clone)]
pub(crate) struct Barrier {
    reached: watch::Sender<Option<ApiCall>>,
    is_open: watch::Receiver<bool>,
}

impl Barrier {
    /// Reports the call and waits until it may continue.
    pub(crate) async fn wait(mut self, call: Option<ApiCall>) {
        self.reached.send_replace(call);
        // A dropped break point is open.
        let _ = self.is_open.wait_for(|open| *open).await;
    }
}

enum FaultRule {
    Fault(CallFault),
    Gate {
        method: Option<String>,
        skip: u32,
        timing: FaultTiming,
        barrier: Barrier,
    },
}

/// Fault to apply to one call.
pub(crate) enum InjectedFault {
    Fault(FaultAction),
    Gate(FaultTiming, Barrier),
}

/// All configured faults.
#[derive(Default)]
pub(crate) struct FaultPlan {
    rules: Vec<FaultRule>,
    pub(crate) events: Vec<EventFault>,
}

impl FaultPlan {
    /// Returns the fault for a call of this method. Every matching rule counts the call.
    pub(crate) fn next_fault(&mut self, called_method: &str) -> Option<InjectedFault> {
        let mut matched = None;
        for (index, rule) in self.rules.iter_mut().enumerate() {
            let (FaultRule::Fault(CallFault { method, skip, .. })
            | FaultRule::Gate { method, skip, .. }) = rule;
            if method
                .as_deref()
                .is_some_and(|method| method != called_method)
            {
                continue;
            }
            if *skip > 0 {
                *skip -= 1;
            } else if matched.is_none() {
                matched = Some(index);
            }
        }
        let index = matched?;
        match self.rules.get_mut(index)? {
            FaultRule::Fault(fault) => {
                let action = fault.action.clone();
                fault.times = fault.times.saturating_sub(1);
                if fault.times == 0 {
                    self.rules.remove(index);
                }
                Some(InjectedFault::Fault(action))
            }
            FaultRule::Gate {
                timing: when,
                barrier: bar,
                ..
            } => {
                let fault = InjectedFault::Gate(*when, bar.clone());
                self.rules.remove(index);
                Some(fault)
            }
        }
    }

    fn add(&mut self, rule: FaultRule) {
        if self.rules.len() >= MAX_RULES {
            self.rules.remove(0);
        }
        self.rules.push(rule);
    }
}

/// Handle for configuring faults.
#[derive(Clone)]
pub struct Faults(pub(crate) Arc<PlaygroundState>);

impl Faults {
    /// Adds a fault for calls.
    pub fn add(&self, fault: CallFault) {
        if fault.times > 0 {
            lock(&self.0.faults).add(FaultRule::Fault(fault));
        }
    }

    fn add_for_method(&self, method: &str, times: u32, action: FaultAction) {
        self.add(CallFault {
            method: Some(method.to_owned()),
            skip: 0,
            times,
            action,
        });
    }

    /// Rate limits the next calls of a method: 429 with this Retry-After in seconds.
    pub fn rate_limit(&self, method: &str, seconds: u64, times: u32) {
        self.add_for_method(method, times, FaultAction::RateLimited(seconds));
    }

    /// Executes the next calls of a method and drops the connection before the response.
    pub fn drop_response(&self, method: &str, times: u32) {
        self.add_for_method(method, times, FaultAction::Drop(FaultTiming::After));
    }

    /// Lets the next calls of a method hang.
    pub fn hang(&self, method: &str, timing: FaultTiming, times: u32) {
        self.add_for_method(method, times, FaultAction::Hang(timing));
    }

    /// Answers the next calls of a method with this status, without an effect.
    pub fn status(&self, method: &str, status: u16, times: u32) {
        self.add_for_method(method, times, FaultAction::Status(status));
    }

    /// Rejects the next calls of a method with this error code; `u32::MAX` is practically forever.
    pub fn reject(&self, method: &str, code: &str, times: u32) {
        self.add_for_method(method, times, FaultAction::Refuse(code.to_owned()));
    }

    /// Blocks one call: of this method or any, after `skip` others, before or after its effect.
    pub fn break_point(&self, method: Option<&str>, skip: u32, timing: FaultTiming) -> BreakPoint {
        let (reached, arrived) = watch::channel(None);
        let (opener, open) = watch::channel(false);
        lock(&self.0.faults).add(FaultRule::Gate {
            method: method.map(str::to_owned),
            skip,
            timing,
            barrier: Barrier {
                reached,
                is_open: open,
            },
        });
        BreakPoint { arrived, opener }
    }

    /// Adds a fault for events.
    pub fn add_event_fault(&self, fault: EventFault) {
        let mut plan = lock(&self.0.faults);
        if plan.events.len() < MAX_RULES {
            plan.events.push(fault);
        }
    }

    /// Removes all faults and all break points that were not reached.
    pub fn clear(&self) {
        *lock(&self.0.faults) = FaultPlan::default();
    }
}

/// Break point that blocks one call. It opens when dropped.
#[derive(Debug)]
pub struct BreakPoint {
    arrived: watch::Receiver<Option<ApiCall>>,
    opener: watch::Sender<bool>,
}

impl BreakPoint {
    /// Waits until a call is blocked here; `None` on timeout.
    pub async fn wait_reached(&mut self, timeout: Duration) -> Option<ApiCall> {
        let arrived = self.arrived.wait_for(Option::is_some);
        let arrived = tokio::time::timeout(timeout, arrived).await.ok()?.ok()?;
        arrived.clone()
    }

    /// Lets the call continue.
    pub fn open(self) {
        self.opener.send_replace(true);
    }
}
