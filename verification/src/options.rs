//! Options of the zone.

use crate::attachments::FileLimits;
use crate::gates::GateOptions;
use crate::intake::QuestionRules;
use crate::reply::ReplyOptions;
use crate::slack::api::Slack;
use crate::slack::tokens::SlackTokens;
use interzone_client::Client;
use interzone_edge::Secret;
use interzone_edge::audit::Audit;
use interzone_edge::limits::HttpLimits;
use interzone_edge::telemetry::Metrics;
use interzone_hub::Hub;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Checks a dependency of the zone. Returns a reason code if it is unavailable.
pub type DependencyCheck = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// Options for processing questions.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct AskOptions {
    /// Maximum thread messages sent as context.
    pub context_messages: usize,
    /// Limits for attachments.
    #[serde(skip)]
    pub files: FileLimits,
    /// Memory for the attachments of all questions in progress, in bytes.
    #[serde(deserialize_with = "interzone_options::size")]
    pub file_memory: u64,
    /// Maximum time to answer a question, from when it was received.
    #[serde(rename = "answer_timeout")]
    pub budget: Duration,
    /// Maximum attempts if the Execution Zone or Slack is unreachable; then the asker is notified. A delay requested by
    /// Slack does not count as an attempt; `budget` limits it.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub attempts: u32,
    /// True if the Execution Zone receives the real bot token. If false, it receives a random placeholder.
    pub forward_bot_token: bool,
}

impl Default for AskOptions {
    fn default() -> Self {
        Self {
            context_messages: 20,
            files: FileLimits::default(),
            file_memory: 256 * 1024 * 1024,
            budget: Duration::from_secs(15 * 60),
            attempts: 3,
            forward_bot_token: false,
        }
    }
}

impl AskOptions {
    /// Returns the memory for attachments in KiB, at least as much as one question may use.
    pub(crate) fn file_memory_kib(&self) -> u32 {
        let bytes = self.file_memory.max(self.files.total);
        u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
    }
}

/// Dependencies and options of a [`VerificationState`](crate::VerificationState).
pub struct VerificationOptions {
    /// Hub on this zone's own store.
    pub hub: Hub,
    /// Slack Web API client.
    pub slack: Slack,
    /// Slack tokens.
    pub tokens: SlackTokens,
    /// Client of the Execution Zone.
    pub client: Client,
    /// Slack's signing secret. `None` with Socket Mode: then all signed HTTP requests are rejected.
    pub signing_secret: Option<Secret>,
    /// Routes for installing the app, if enabled.
    pub install: Option<axum::Router>,
    /// Which messages count as questions.
    pub rules: QuestionRules,
    /// Options of the admission checks.
    pub gates: GateOptions,
    /// Options for processing questions.
    pub ask: AskOptions,
    /// Display options of replies.
    pub reply: ReplyOptions,
    /// Limits of HTTP requests.
    pub limits: HttpLimits,
    /// Audit log.
    pub audit: Audit,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// True if `/metrics` is public. If false, it answers 403.
    pub metrics_public: bool,
    /// Readiness checks besides the store's.
    pub checks: Vec<DependencyCheck>,
    /// Signals shutdown.
    pub stop: CancellationToken,
}
