//! Topics: signals go to every subscription whose patterns match, and stay due until acknowledged.

use crate::event::Subject;
use interzone_protocol::vocab::{
    Json, PrincipalId, SignalId, SubscriptionId, Timestamp, Topic, TopicPattern,
};
use serde::{Deserialize, Serialize};

mod trie;

pub use trie::TopicTrie;

/// Where a subscription stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubscriptionState {
    /// Waits for somebody's approval; gets nothing.
    Pending,
    /// Gets signals.
    Active,
    /// Was not approved.
    Denied,
    /// Was approved, and no longer is.
    Revoked,
    /// Its time is over.
    Expired,
}

impl SubscriptionState {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Pending,
        Self::Active,
        Self::Denied,
        Self::Revoked,
        Self::Expired,
    ];

    /// The name on the wire and in stores.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
        }
    }

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a subscription may move from this state to that one.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Pending, Self::Active | Self::Denied | Self::Expired)
                | (Self::Active, Self::Revoked | Self::Expired)
        )
    }
}

/// A wish to be told of signals.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Its id, made by us.
    pub id: SubscriptionId,
    /// Who asked for it.
    pub owner: PrincipalId,
    /// Which topics it asks for; a signal that several match is delivered once.
    pub patterns: Vec<TopicPattern>,
    /// Which of those it may have; none means all.
    pub allowed: Option<Vec<TopicPattern>>,
    /// Where it stands.
    pub state: SubscriptionState,
    /// How signals get there and why they are wanted: the dialect's business, not the hub's.
    pub about: Option<Json>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// Counts every change; a writer names the one it has seen.
    pub revision: u64,
}

impl Subscription {
    /// Whether it gets signals at this moment.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.state == SubscriptionState::Active && self.expires_at.is_none_or(|end| end > now)
    }

    /// Whether a signal on this topic is for it, its state aside.
    pub fn wants(&self, topic: &Topic) -> bool {
        let any = |patterns: &[TopicPattern]| patterns.iter().any(|p| p.matches(topic));
        any(&self.patterns) && self.allowed.as_deref().is_none_or(any)
    }
}

/// Something published on a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// The topic.
    pub topic: Topic,
    /// The publisher's id for it, which may be used again.
    pub id: SignalId,
    /// Who published it.
    pub publisher: PrincipalId,
    /// When it came in.
    pub at: Timestamp,
    /// What it says.
    pub body: SignalBody,
}

/// What a signal says.
#[derive(Clone, Debug, PartialEq)]
pub enum SignalBody {
    /// What the publisher sent, letter for letter.
    Sent(Json),
    /// An event of a task or stream: it is in the log under this number.
    Event(Subject, u64),
}

/// A signal on its way to one subscription.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalDelivery {
    /// The subscription.
    pub subscription_id: SubscriptionId,
    /// Its number among the subscription's deliveries, rising by one without a gap.
    pub seq: u64,
    /// How often it has been claimed, this time included; zero if it has not.
    pub attempt: u32,
    /// The signal.
    pub signal: Signal,
}

/// What became of acknowledging one signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acked {
    /// It was due, and no longer is.
    Now,
    /// It had been acknowledged before.
    Before,
    /// The subscription has no such signal.
    Unknown,
}
