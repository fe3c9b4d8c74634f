//! Replies to Slack questions: the live reply while the agent works, and the final messages and files.
//!
//! [`LiveReply`] shows progress while the answer is produced. When it is complete, `plan` turns it into outbox
//! entries, and [`PostHandler`] delivers each entry to Slack exactly once.

mod actions;
mod blocks;
#[cfg(test)]
mod complexity_probe;
mod features;
mod feedback;
mod finalize_live;
mod live;
mod markdown;
mod outbox_payload;
mod plan;
mod ports;
mod post_message;
mod poster;
mod split;
#[cfg(test)]
pub(crate) mod tests;
mod thread_scan;
mod upload_file;

pub use blocks::{FEEDBACK_ACTION, STOP_ACTION};
pub use feedback::{FeedbackStore, SlackFeedback};
pub use live::LiveReply;
pub use outbox_payload::{LiveReplyState, POST_CHANNEL};
pub(crate) use plan::plan_stop_notice;
pub use plan::{PlanError, SkippedFile, plan_answer, plan_failure, plan_refusal, plan_stop};
pub use ports::TokenProvider;
pub use poster::PostHandler;

use crate::question::Question;
use crate::slack::api::Slack;
use crate::slack::tokens::Installation;
use crate::texts::Language;
use features::FeatureCache;
use interzone_client::Client;
use interzone_hub::Hub;
use ports::ReplyStore;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Retention of records about posted messages: longer than any entry is retried.
const RECORD_TTL: Duration = Duration::from_secs(3 * 24 * 3600);

/// Display options of replies.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyOptions {
    /// True if the reply is updated while the agent produces text.
    #[serde(rename = "live_updates")]
    pub live: bool,
    /// Delay before a stop button is offered.
    pub stop_button_delay: Duration,
}

impl Default for ReplyOptions {
    fn default() -> Self {
        Self {
            live: true,
            stop_button_delay: Duration::from_secs(3),
        }
    }
}

/// Shared dependencies for making replies. Cheap to clone.
#[derive(Clone)]
pub struct ReplyService {
    slack: Slack,
    tokens: Arc<dyn TokenProvider>,
    store: Arc<dyn ReplyStore>,
    client: Client,
    features: Arc<FeatureCache>,
    options: ReplyOptions,
    update_interval: live::UpdateInterval,
}

impl ReplyService {
    /// Creates the service. `client` calls the Execution Zone, which stores the files.
    pub fn new(
        slack: Slack,
        tokens: Arc<dyn TokenProvider>,
        hub: Hub,
        client: Client,
        options: ReplyOptions,
    ) -> Self {
        Self {
            slack,
            tokens,
            store: Arc::new(hub),
            client,
            features: Arc::default(),
            options,
            update_interval: live::UpdateInterval::default(),
        }
    }

    /// Starts a live reply. `attempt` is the attempt number of the question, starting at 1; a later attempt does not
    /// restart a reply that an earlier one may have posted.
    pub fn start_live_reply(
        &self,
        question: &Question,
        installation: &Arc<Installation>,
        language: Language,
        attempt: u32,
    ) -> LiveReply {
        LiveReply::start(self, question, Arc::clone(installation), language, attempt)
    }

    /// Returns the handler for outbox entries of [`POST_CHANNEL`].
    pub fn post_handler(&self) -> PostHandler {
        PostHandler::new(self.clone())
    }
}
