//! The reply: what a user sees of an answer, from the first sign of life to the last file. What was
//! asked and who may ask is decided elsewhere; here it is only said.
//!
//! While an answer comes, [`Live`] shows it as well as it can. When it is there, `plan` makes a list of
//! entries for the outbox of it, and [`Poster`] carries each of them until it stands in Slack, once.

mod blocks;
mod effect;
mod ephemeral;
mod features;
mod feedback;
mod file;
mod finish;
mod live;
mod looked;
mod markdown;
mod plan;
mod post;
mod poster;
mod reaction;
mod shelf;
mod split;
#[cfg(test)]
pub(crate) mod tests;
mod thread;

pub use blocks::{FEEDBACK_ACTION, STOP_ACTION};
pub use effect::{Left, POSTS};
pub use feedback::{FeedbackGiven, Feedbacks};
pub use live::Live;
pub(crate) use plan::not_stopped;
pub use plan::{LeftOutFile, PlanError, answered, failed, refused, stopped};
pub use poster::{Carried, Poster};
pub use shelf::Ways;

use crate::question::Question;
use crate::slack::api::Slack;
use crate::slack::tokens::Installation;
use crate::texts::Language;
use features::Features;
use interzone_client::Client;
use interzone_hub::Hub;
use shelf::Shelf;
use std::sync::Arc;
use std::time::Duration;

/// How long notes on what was posted are kept: longer than anything is tried again.
const KEEP: Duration = Duration::from_secs(3 * 24 * 3600);

/// How a reply is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyOptions {
    /// Whether a reply grows while the agent speaks.
    pub live: bool,
    /// How long an answer may take before a button to stop it is offered.
    pub offer_stop_after: Duration,
}

impl Default for ReplyOptions {
    fn default() -> Self {
        Self {
            live: true,
            offer_stop_after: Duration::from_secs(3),
        }
    }
}

/// Where replies are made. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    slack: Slack,
    ways: Arc<dyn Ways>,
    shelf: Arc<dyn Shelf>,
    client: Client,
    features: Arc<Features>,
    options: ReplyOptions,
    beat: live::Beat,
}

impl Desk {
    /// Sets up a desk. `client` is the way to the Execution Zone, which keeps the files.
    pub fn new(
        slack: Slack,
        ways: Arc<dyn Ways>,
        hub: Hub,
        client: Client,
        options: ReplyOptions,
    ) -> Self {
        Self {
            slack,
            ways,
            shelf: Arc::new(hub),
            client,
            features: Arc::default(),
            options,
            beat: live::Beat::default(),
        }
    }

    /// Begins to show a reply. `attempt` counts how often the question was taken up, this time included:
    /// what an earlier attempt may have left in Slack is not begun again.
    pub fn live(
        &self,
        question: &Question,
        at: &Arc<Installation>,
        language: Language,
        attempt: u32,
    ) -> Live {
        Live::begin(self, question, Arc::clone(at), language, attempt)
    }

    /// Whoever carries the entries of [`POSTS`].
    pub fn poster(&self) -> Poster {
        Poster::new(self.clone())
    }
}
