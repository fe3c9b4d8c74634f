//! What goes wrong on request: calls that are refused, lost or held, events that come twice or late. It
//! decides; who serves calls and sends events does it.

use crate::shared::{Shared, locked};
use crate::workspace::log::Call;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Rules that may be set at the same time.
const MOST: usize = 1_000;

/// Before or after a call has its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing has happened yet.
    Before,
    /// It has happened, and the caller does not know yet.
    After,
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// 429, to be tried again after so many seconds.
    RateLimited(u64),
    /// The connection is dropped without an answer.
    Drop(When),
    /// No answer comes for as long as [`PlaygroundOptions::hang`](crate::PlaygroundOptions::hang).
    Hang(When),
    /// An answer with this status and no JSON.
    Status(u16),
    /// `ok: false` with this word.
    Refuse(String),
}

/// A rule for calls of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The method, or none for any.
    pub method: Option<String>,
    /// How many calls pass first.
    pub skip: u32,
    /// How many calls it meets.
    pub times: u32,
    /// What happens to them.
    pub what: What,
}

/// What happens to events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFault {
    /// The next `events` come `copies` times each, with the same id.
    Duplicate {
        /// How many events.
        events: u32,
        /// How often each comes.
        copies: u32,
    },
    /// The next `events` are held until all of them are there, and come in the opposite order.
    Reverse {
        /// How many events.
        events: u32,
    },
    /// The next `events` come later.
    Delay {
        /// How many events.
        events: u32,
        /// How much later.
        by: Duration,
    },
}

/// Where a call is stopped, as the side that serves it sees it.
#[derive(Clone)]
pub(crate) struct Bar {
    reached: watch::Sender<Option<Call>>,
    open: watch::Receiver<bool>,
}

impl Bar {
    /// Says that a call is here, and waits until it may go on.
    pub(crate) async fn pass(mut self, call: Option<Call>) {
        self.reached.send_replace(call);
        // A gate that is gone is open.
        let _ = self.open.wait_for(|open| *open).await;
    }
}

enum Rule {
    Fault(Fault),
    Gate {
        method: Option<String>,
        skip: u32,
        when: When,
        bar: Bar,
    },
}

/// What is to be done to one call.
pub(crate) enum Deed {
    Fault(What),
    Gate(When, Bar),
}

/// Everything that is to go wrong.
#[derive(Default)]
pub(crate) struct Plan {
    rules: Vec<Rule>,
    pub(crate) events: Vec<EventFault>,
}

impl Plan {
    /// What is to be done to a call of this method. Each rule that it passes by is one call nearer.
    pub(crate) fn meet(&mut self, called: &str) -> Option<Deed> {
        let mut met = None;
        for (at, rule) in self.rules.iter_mut().enumerate() {
            let (Rule::Fault(Fault { method, skip, .. }) | Rule::Gate { method, skip, .. }) = rule;
            if method.as_deref().is_some_and(|method| method != called) {
                continue;
            }
            if *skip > 0 {
                *skip -= 1;
            } else if met.is_none() {
                met = Some(at);
            }
        }
        let at = met?;
        match self.rules.get_mut(at)? {
            Rule::Fault(fault) => {
                let what = fault.what.clone();
                fault.times = fault.times.saturating_sub(1);
                if fault.times == 0 {
                    self.rules.remove(at);
                }
                Some(Deed::Fault(what))
            }
            Rule::Gate { when, bar, .. } => {
                let deed = Deed::Gate(*when, bar.clone());
                self.rules.remove(at);
                Some(deed)
            }
        }
    }

    fn add(&mut self, rule: Rule) {
        if self.rules.len() >= MOST {
            self.rules.remove(0);
        }
        self.rules.push(rule);
    }
}

/// Where faults are ordered.
#[derive(Clone)]
pub struct Faults(pub(crate) Arc<Shared>);

impl Faults {
    /// Orders a fault for calls.
    pub fn add(&self, fault: Fault) {
        if fault.times > 0 {
            locked(&self.0.plan).add(Rule::Fault(fault));
        }
    }

    fn next(&self, method: &str, times: u32, what: What) {
        self.add(Fault {
            method: Some(method.to_owned()),
            skip: 0,
            times,
            what,
        });
    }

    /// The next calls of a method get 429 and may come again after so many seconds.
    pub fn rate_limit(&self, method: &str, seconds: u64, times: u32) {
        self.next(method, times, What::RateLimited(seconds));
    }

    /// The next calls of a method have their effect, and the connection is dropped before the answer.
    pub fn lose_answer(&self, method: &str, times: u32) {
        self.next(method, times, What::Drop(When::After));
    }

    /// The next calls of a method get no answer for a long time.
    pub fn hang(&self, method: &str, when: When, times: u32) {
        self.next(method, times, What::Hang(when));
    }

    /// The next calls of a method get this status without an effect.
    pub fn status(&self, method: &str, status: u16, times: u32) {
        self.next(method, times, What::Status(status));
    }

    /// The next calls of a method are refused with this word; `u32::MAX` is nearly for ever.
    pub fn refuse(&self, method: &str, word: &str, times: u32) {
        self.next(method, times, What::Refuse(word.to_owned()));
    }

    /// Stops one call: of this method or any, after `skip` others, before or after its effect.
    pub fn gate(&self, method: Option<&str>, skip: u32, when: When) -> Gate {
        let (reached, arrived) = watch::channel(None);
        let (opener, open) = watch::channel(false);
        locked(&self.0.plan).add(Rule::Gate {
            method: method.map(str::to_owned),
            skip,
            when,
            bar: Bar { reached, open },
        });
        Gate { arrived, opener }
    }

    /// Orders a fault for events.
    pub fn events(&self, fault: EventFault) {
        let mut plan = locked(&self.0.plan);
        if plan.events.len() < MOST {
            plan.events.push(fault);
        }
    }

    /// Nothing more goes wrong. Gates that were not reached are gone, too.
    pub fn clear(&self) {
        *locked(&self.0.plan) = Plan::default();
    }
}

/// A place where one call stops. It opens when it is dropped.
#[derive(Debug)]
pub struct Gate {
    arrived: watch::Receiver<Option<Call>>,
    opener: watch::Sender<bool>,
}

impl Gate {
    /// Waits until a call stands here; `None` if none came in time.
    pub async fn reached(&mut self, patience: Duration) -> Option<Call> {
        let arrived = self.arrived.wait_for(Option::is_some);
        let arrived = tokio::time::timeout(patience, arrived).await.ok()?.ok()?;
        arrived.clone()
    }

    /// Lets the call go on.
    pub fn open(self) {
        self.opener.send_replace(true);
    }
}
